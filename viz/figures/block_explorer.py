"""F11: the block, stage by stage: what goes into each, what comes out, and what is in between, read from a real run (S25)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tinygrad_tf import Tensor
from tinygrad_tf.nn import Block
from tinygrad_tf.nn.transformer import block_of_gpt2

from ..trace import trace
from .figure import Control, Figure, figure, steps
from .paint import WIDTH, arrow, circle, line, rect, svg, text

WIDE, HEADS = 768, 12


@dataclass(frozen=True)
class Stage:
    """What is clicked. `read`, `out` and those of `inner` are the nodes of the recorded graph whose shapes are shown."""

    name: str
    module: str  # whose parameters are counted, "" where there are none
    read: tuple[str, ...]
    out: str
    inner: tuple[tuple[str, str], ...]
    formula: tuple[str, ...]
    says: str


X, FIRST, SECOND = "input/x", "Block/residual", "Block/residual#2"
NORMS = ("attn_norm.layer_norm/add#2", "ffn_norm.layer_norm/add#2")
BRANCHES = ("attn.out_proj.linear/add", "ffn.down.linear/add")
STAGES = (
    Stage("Stream x", "", (X,), X, (), ("one row a token,", "one column a coordinate"),
          "The residual stream comes in: a row for each token. It goes on, straight down, to the first sum."),
    Stage("Norm 1", "attn_norm", (X,), NORMS[0], (), ("LayerNorm(x) = γ ⊙ (x − mean) / std + β",),
          "The branch reads a normed copy of the stream, each row on its own. The stream itself is left as it is."),
    Stage("Attention", "attn", (NORMS[0],), BRANCHES[0],
          (("Q", "attn.split_heads/permute"), ("K", "attn.split_heads#2/permute"), ("V", "attn.split_heads#3/permute"),
           ("scores Q Kᵀ/√D", "attn.attention/reshape#4"), ("softmax: A", "attn.attention/div"),
           ("mixtures A V", "attn.attention/reshape#6"), ("heads joined", "attn.join_heads/reshape")),
          ("Concat(A_1 V_1 … A_12 V_12) W_O",),
          "The tokens exchange what they hold: only here does one row see another, and only here stands n × n."),
    Stage("Sum 1", "", (X, BRANCHES[0]), FIRST, (), ("h = x + attention(norm(x))",),
          "The update is added to what came in, element by element, so both must have one shape."),
    Stage("Norm 2", "ffn_norm", (FIRST,), NORMS[1], (), ("LayerNorm(h) = γ ⊙ (h − mean) / std + β",),
          "A second norm, with gains of its own, for what the second branch reads."),
    Stage("Feed-forward", "ffn", (NORMS[1],), BRANCHES[1],
          (("widened by W_1", "ffn.up.linear/add"), ("after GELU", "ffn.gelu_tanh/mul#6")),
          ("GELU(x W_1 + b_1) W_2 + b_2",),
          "Each row on its own: four times as wide, bent, and back to the width of the stream."),
    Stage("Sum 2", "", (FIRST, BRANCHES[1]), SECOND, (), ("y = h + ffn(norm(h))",),
          "What leaves has the shape of what came in. That is why blocks can be stacked."),
)  # fmt: skip


@figure("F11", "The block, stage by stage", [Control("tokens", "Tokens n", (1, 10, 100), 10), steps(len(STAGES), "Stage")])
def block_explorer(tokens: int = 10, step: int = 0) -> Figure:
    """One stage of GPT-2's block, d = 768, 12 heads of 64, d_ff 3072: shapes without the batch, formula, parameters.

    The shapes are those of the arrays that a run of the block made, each fused op opened into its small ops.
    """
    stage, shapes, counts = STAGES[step], *_run(tokens)
    data: dict[str, Any] = {
        "stage": stage.name,
        "in": [shapes[node] for node in stage.read],
        "out": shapes[stage.out],
        "inner": {name: shapes[node] for name, node in stage.inner},
        "formula": " ".join(stage.formula),
        "parameters": counts[stage.module] if stage.module else 0,
    }
    inner = "; ".join(f"{name.replace('_', '')}: {_shape(shape)}" for name, shape in data["inner"].items())
    owned = f" {data['parameters']:,} parameters." if stage.module else ""
    words = (
        f"{stage.name}: {' and '.join(_shape(shape) for shape in data['in'])} in, {_shape(data['out'])} out"
        f"{f', in between {inner}' if inner else ''}. {stage.says}{owned}"
    )
    return Figure(data, _drawing(step, stage, data), words)


@lru_cache
def _block() -> Block:
    return block_of_gpt2(WIDE, HEADS)


@lru_cache
def _run(tokens: int) -> tuple[dict[str, list[int]], dict[str, int]]:
    """Of one run of the block: the shape of each node, without the batch; the parameters of each part."""
    graph = trace(_block(), inputs=Tensor(np.ones((1, tokens, WIDE), np.float32)), fused=False, numbers=False)
    shapes = {node.id: list(node.shape[1:]) for node in graph.nodes if node.kind != "parameter" and node.shape}
    parameters = [node for node in graph.nodes if node.kind == "parameter"]
    counts = {
        part: sum(math.prod(node.shape or ()) for node in parameters if node.name.startswith(f"{part}."))
        for part in ("attn_norm", "attn", "ffn_norm", "ffn")
    }
    return shapes, counts


def _shape(shape: list[int]) -> str:
    return " × ".join(f"{size}" for size in shape)


# ------------------------------------------------------------------------------------------------ the drawing

LEFT, BOX = 30, (62, 128)  # where the stream runs; left edge and width of a branch's boxes
PLACES = ((LEFT, 36), (BOX[0], 84), (BOX[0], 140), (LEFT, 196), (BOX[0], 244), (BOX[0], 300), (LEFT, 356))
PANEL = (208, WIDTH - 8)


def _drawing(step: int, stage: Stage, data: dict) -> str:
    middle = BOX[0] + BOX[1] / 2
    marks = [arrow([(LEFT, 22), (LEFT, 402)], "stream", width=5)]
    for top in (84, 244):
        marks += [
            arrow([(LEFT, top - 22), (middle, top - 22), (middle, top)], "branch", width=2),
            arrow([(middle, top + 34), (middle, top + 56)], "branch", width=2),
            arrow([(middle, top + 90), (middle, top + 112), (LEFT + 16, top + 112)], "branch", width=2),
        ]
    for i, (each, (x, y)) in enumerate(zip(STAGES, PLACES)):
        chosen = i == step
        if x == BOX[0]:
            marks += [rect(x, y, BOX[1], 34, "cool" if chosen else "panel", step=i),
                      text(middle, y + 22, each.name, anchor="middle", bold=chosen, step=i)]  # fmt: skip
        elif i == 0:
            marks += [rect(LEFT - 22, 8, 44, 32, "warm" if chosen else "panel", step=i),
                      text(LEFT, 30, "x", "stream", anchor="middle", size=18, bold=True, step=i)]  # fmt: skip
        else:
            marks += [circle(x, y, 18 if chosen else 15, "sum", step=i),
                      text(x, y + 6, "+", "stream", anchor="middle", size=20, bold=True, step=i)]  # fmt: skip
    marks.append(text(LEFT, 420, "to the next block", "soft", anchor="start", size=14))
    left, right = PANEL
    marks += [line([(left - 10, 10), (left - 10, 404)], "faint"), text(left, 30, stage.name, size=18, bold=True)]
    rows = [("in", shape, "ink") for shape in data["in"]] + [(name, shape, "branch") for name, shape in data["inner"].items()]
    for i, (name, shape, kind) in enumerate([*rows, ("out", data["out"], "ink")]):
        marks += [text(left, 62 + 25 * i, name, kind, size=14), text(right, 62 + 25 * i, _shape(shape), anchor="end")]
    y = 62 + 25 * (len(rows) + 1)
    y += 12
    for part in _lines(stage.formula):
        marks.append(text(left, y, part))
        y += 22
    if stage.module:
        y += 10
        marks.append(text(left, y, f"{data['parameters']:,} parameters", "soft", size=14))
    return svg(WIDTH, 426, marks)


def _lines(formula: tuple[str, ...]) -> list[str]:
    """The formula in lines that fit beside the block: broken after an equals sign where it is long."""
    return [line for part in formula for line in (part.replace(" = ", " =\n", 1).split("\n") if len(part) > 30 else [part])]
