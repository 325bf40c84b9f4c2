"""The table of words: what each op computes, and what its rule sends back to each input, as a reader would write it.

In a formula `y` is the op's value, `g` the gradient that arrives at it, and every input has the name that the op's definition
gives it. `·` multiplies element by element, `@` multiplies matrices, `ᵀ` swaps the last two axes, `^` is a power, `Σ` adds
along the axis that the settings name, and `[ ]` is 1 where what stands in it is true, else 0. What stands between braces
holds only for a call that has the input named in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

Term = Callable[[dict[str, float]], float]  # from the letters of the formula with their numbers


@dataclass(frozen=True)
class Words:
    """One op. `forward` is the right side of "y = ", `back` what each input gets; the last serves all further inputs."""

    forward: str
    back: tuple[str, ...]
    elementwise: bool = False  # a smaller input was repeated to the shape of y, and its gradient is summed again
    names: tuple[str, ...] = ()  # of the inputs, where the definition's own would not be understood
    terms: dict[str, tuple[str, Term | None]] = field(default_factory=dict)  # letter -> (formula, the same for single numbers)
    aside: str = ""  # said of forward
    back_aside: str = ""  # said of backward


def _each(forward: str, *back: str, **more: object) -> Words:
    return Words(forward, back, elementwise=True, **more)  # type: ignore[arg-type]


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def _below(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


def _density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


C = math.sqrt(2 / math.pi)


def _inner(x: float) -> float:
    return math.tanh(C * (x + 0.044715 * x**3))


IVERSON = "[ ] is 1 where it is true, else 0"
NORMAL = {"P": ("P(x)", lambda v: _below(v["x"])), "p": ("p(x)", lambda v: _density(v["x"]))}
BELOW = "P(x) is the share of a standard normal distribution below x"
SLOPE = f"{BELOW}, p(x) its density"
GATE = {"s": ("sigmoid(gate)", lambda v: _sigmoid(v["gate"]))}
AFFINE = "{gain gets the sum over all rows}{, and so does shift}"

TABLE: dict[str, Words] = {
    # arithmetic
    "add": _each("a + b", "g", "g"),
    "sub": _each("a − b", "g", "−g"),
    "mul": _each("a · b", "g · b", "g · a"),
    "div": _each("a / b", "g / b", "−g · y / b"),
    "remainder": _each("a − b · floor(a / b)", "g", "−g · floor(a / b)"),
    "neg": _each("−x", "−g"),
    "pow": _each("a ^ b", "g · b · a ^ (b − 1)", "g · y · ln(a)",
                 back_aside="a gets 0 where b = 0, and b gets 0 where a = 0"),
    "residual": _each("x + branch", "g", "g"),
    "dropout": _each("x · keep", "g · keep", aside="keep is 0 for what is dropped and 1 / (1 − p) for what stays"),
    # functions of one number
    "exp": _each("exp(x)", "g · y"),
    "expm1": _each("exp(x) − 1", "g · exp(x)"),
    "log": _each("ln(x)", "g / x"),
    "log2": _each("ln(x) / ln(2)", "g / (x · ln(2))"),
    "log10": _each("ln(x) / ln(10)", "g / (x · ln(10))"),
    "log1p": _each("ln(1 + x)", "g / (1 + x)"),
    "sqrt": _each("sqrt(x)", "g / (2 · y)"),
    "sin": _each("sin(x)", "g · cos(x)"),
    "cos": _each("cos(x)", "−g · sin(x)"),
    "tanh": _each("tanh(x)", "g · (1 − y²)"),
    "sigmoid": _each("1 / (1 + exp(−x))", "g · y · (1 − y)"),
    "logsigmoid": _each("ln(s)", "g · (1 − s)", terms={"s": ("sigmoid(x)", lambda v: _sigmoid(v["x"]))}),
    "abs": _each("|x|", "g · sign(x)", back_aside="sign(0) is 0"),
    "relu": _each("max(x, 0)", "g · [y > 0]", back_aside=IVERSON),
    "clamp": _each("x, but at least min and at most max", "g · [x = y]", back_aside=IVERSON),
    "cast": _each("x in another dtype", "g in the dtype of x"),
    # choices
    "maximum": _each("max(a, b)", "g · [a > b]", "g · [b > a]", back_aside=f"{IVERSON}; at a tie each gets g / 2"),
    "minimum": _each("min(a, b)", "g · [a < b]", "g · [b < a]", back_aside=f"{IVERSON}; at a tie each gets g / 2"),
    "where": _each("a where the condition holds, else b", "g where the condition holds, else 0",
                   "0 where the condition holds, else g"),
    # over axes
    "sum": Words("Σ x", ("g, repeated over what was added up",)),
    "amax": Words("the largest of x", ("g at the largest, 0 elsewhere",),
                  back_aside="among equal largest ones g is shared evenly"),
    "logsumexp": Words("ln(Σ exp(x))", ("g · exp(x − y)",), aside="the largest x is taken out first so that nothing overflows"),
    "cumsum": Words("the running sums of x", ("the running sums of g from the end: x_i gets g_i + g_(i+1) + …",)),
    "prod": Words("the product of x", ("g · the product of the other factors",)),
    # matrices
    "matmul": Words("a @ b", ("g @ bᵀ", "aᵀ @ g"),
                    aside="a vector counts as one row on the left, as one column on the right",
                    back_aside="a matrix that served a whole batch gets the sum over it"),
    "linear": Words("x @ wᵀ{ + bias}", ("g @ w", "gᵀ @ x", "Σ g"), names=("x", "w", "bias"),
                    back_aside="w gets the sum over all rows{, and so does bias}"),
    # shapes and places
    "reshape": Words("x in another shape: the same numbers in the same order", ("g in the shape of x",)),
    "permute": Words("x with its axes in the order dims", ("g with the axes put back",)),
    "expand": Words("x, repeated to the shape", ("g, summed over the repeats",)),
    "getitem": Words("x[index]", ("zeros in the shape of x, with g added at index",)),
    "diagonal": Words("x where the place along dim2 is the place along dim1 plus offset",
                      ("zeros in the shape of x, with g there",)),
    "clone": Words("a copy of x", ("g",)),
    "unindex": Words("zeros in the shape, with what is given added at index", ("g[index]",), names=("what is given",)),
    "put": Words("a copy of x with value at index", ("g, but 0 at index", "g[index]"),
                 back_aside="a value that was repeated over the places gets the sum over them"),
    "cat": Words("the parts, joined along dim", ("its own piece of g",)),
    "embedding": Words("the rows of weight that ids name", ("in each row the sum of g over the places that read it",)),
    # softmax and the loss
    "softmax": Words("exp(x) / Σ exp(x)", ("y · (g − Σ(g · y))",)),
    "log_softmax": Words("x − ln(Σ exp(x))", ("g − exp(y) · Σ g",)),
    "cross_entropy": Words("the mean of −ln(softmax(logits))[target] over the N rows", ("g / N · (softmax(logits) − t)",),
                           terms={"t": ("1 at the target and 0 elsewhere", None)},
                           back_aside="rows whose target is ignore_index do not count in N and get 0"),
    # norms
    "layer_norm": Words("{gain · }n{ + shift}", ("r · (h − mean(h) − n · mean(h · n))", "Σ g · n", "Σ g"),
                        names=("x", "gain", "shift"),
                        terms={"n": ("r · (x − mean(x))", None), "r": ("1 / sqrt(var(x) + eps)", None),
                               "h": ("g{ · gain}", None)},
                        aside="mean and var of each row, over the last axis", back_aside=AFFINE),
    "rms_norm": Words("{gain · }n", ("r · (h − n · mean(h · n))", "Σ g · n"), names=("x", "gain"),
                      terms={"n": ("r · x", None), "r": ("1 / sqrt(mean(x²) + eps)", None), "h": ("g{ · gain}", None)},
                      aside="the mean of each row, over the last axis", back_aside=AFFINE),
    # activations
    "gelu": _each("x · P", "g · (P + x · p)", terms=NORMAL, aside=BELOW, back_aside=SLOPE),
    "erf": _each("2 / sqrt(π) · ∫ exp(−t²) dt from 0 to x", "g · 2 / sqrt(π) · exp(−x²)"),
    "normal_below": _each("P", "g · p", terms=NORMAL, aside=BELOW, back_aside=SLOPE),
    "gelu_tanh": _each("x · (1 + t) / 2", "g · ((1 + t) / 2 + x · (1 − t²) / 2 · d)",
                       terms={"t": ("tanh(sqrt(2/π) · (x + 0.044715 · x³))", lambda v: _inner(v["x"])),
                              "d": ("sqrt(2/π) · (1 + 0.134145 · x²)", lambda v: C * (1 + 0.134145 * v["x"] ** 2))}),
    "silu": _each("x · s", "g · s · (1 + x · (1 − s))", terms={"s": ("sigmoid(x)", lambda v: _sigmoid(v["x"]))}),
    "swiglu": _each("gate · s · up", "g · up · s · (1 + gate · (1 − s))", "g · gate · s", terms=GATE),
    "lstm": Words("h beside c at every position: c = f · c before + i · n, h = o · tanh(c)",
                  ("what reaches the four parts at each position", "Σ over positions of (what reaches the parts)ᵀ @ h before",
                   "what reaches the first h", "what reaches the first c"), names=("read", "w", "h", "c"),
                  aside="i, f, o are the sigmoid and n the tanh of the four parts of read + h before @ wᵀ"),
    "replay": Words("the last of the ops that were recorded for these weights", ("g, back through the same ops",),
                    names=("weights",)),
    # positions and attention
    "rotary": Words("each pair (a, b) of x turned by the angle of its position: (a · cos − b · sin, a · sin + b · cos)",
                    ("g, each pair turned back by the same angle",)),
    "split_heads": Words("each head's slice of the width of x, (B, H, T, D)", ("g, the slices side by side again",)),
    "join_heads": Words("the heads of x side by side, (B, T, H · D)", ("g, each head its slice",)),
    "attention": Words("w @ v", ("scale · d @ k", "scale · dᵀ @ q", "wᵀ @ g", "d"), names=("q", "k", "v", "bias"),
                       terms={"w": ("softmax(scale · q @ kᵀ{ + bias}), 0 where a query may not look", None),
                              "d": ("w · (g @ vᵀ − Σ(g · y))", None)},
                       aside="scale is 1 / sqrt(D) unless it is set",
                       back_aside="a head of k and v that serves several heads of q gets the sum over them"),
}  # fmt: skip


def words(op: str, settings: dict[str, str]) -> Words | None:
    """The words for one call; None for an op that this table does not know."""
    if op == "cross_entropy":
        return _cross_entropy(settings)
    if op == "attention" and float(settings.get("dropout", "0")) > 0:
        return _dropped_attention()
    return TABLE.get(op)


def _cross_entropy(settings: dict[str, str]) -> Words:
    plain, reduction = TABLE["cross_entropy"], settings.get("reduction", "mean")
    smooth = float(settings.get("label_smoothing", "0"))
    each = "−ln(softmax(logits))[target]" if not smooth else "−Σ t · ln(softmax(logits))"
    whole = {"mean": f"the mean of {each} over the N rows", "none": f"{each} of each row"}
    forward = whole.get(reduction, f"the sum of {each} over all rows")
    back = "g / N · (softmax(logits) − t)" if reduction == "mean" else "g · (softmax(logits) − t)"
    target = "s / V everywhere, and 1 − s more at the target, with s = label_smoothing" if smooth else plain.terms["t"][0]
    aside = plain.back_aside if reduction == "mean" else "rows whose target is ignore_index get 0"
    return Words(forward, (back,), terms={"t": (target, None)}, back_aside=aside)


def _dropped_attention() -> Words:
    plain = TABLE["attention"]
    dropped = {"d": ("w · (m · (g @ vᵀ) − Σ(g · y))", None), "m": ("0 for a dropped weight, else 1 / (1 − p)", None)}
    back = ("scale · d @ k", "scale · dᵀ @ q", "(m · w)ᵀ @ g", "d")
    return replace(plain, forward="(m · w) @ v", back=back, terms=plain.terms | dropped)
