"""F3: one token's trip through a whole decoder, with the norms in the branches or on the stream (S24, S28)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tinygrad_tf import no_grad
from tinygrad_tf.generate import probabilities
from tinygrad_tf.models import Decoder, DecoderConfig
from tinygrad_tf.writes import attention_maps

from .figure import Control, Figure, figure, steps
from .paint import WIDTH, circle, line, number, path, rect, svg, text, vector

WORDS = ("the", "cat", "sat", "on", "mats")
IDS = np.array([[0, 1, 2]])
TOKENS = np.array([[1.0, 0], [0, 1], [1, 1], [-1, 1], [0, -1]])
POSITIONS = np.array([[0.0, 0], [0.5, 0], [0, 0.5]])
HEAD = np.array([[-2.0, 0], [2, -1], [2, 0.5], [1.5, 1.5], [-1, 2]])  # chosen so that, pre-norm, the right word comes next
OUT = (np.eye(2), np.diag([-1.0, 1.0]))  # W_O of the two blocks
UP = (np.array([[1.0, -1, 0, 1], [0, 1, -1, 1]]), np.array([[0.0, 1, -1, 1], [1, -1, 0, 1]]))
DOWN = np.array([[0.5, 0], [0, 0.5], [-0.5, 0], [0, -0.5]])
ORDERS = {"pre-norm": "pre", "post-norm": "post"}
LAST = 3  # steps after the last vector: scores, probabilities, the next word


@dataclass(frozen=True)
class Stop:
    """A place of the trip. kind: start (the embedding), place, sum, norm (on the stream), read and update (off it)."""

    kind: str
    label: str
    at: tuple[float, ...]
    says: str


@figure("F3", "One token’s trip through the model", [
    Control("token", "Follow", WORDS[:3], "sat"),
    Control("order", "Norms", tuple(ORDERS), "pre-norm"),
    steps(18),
])  # fmt: skip
def token_trip(token: str = "sat", order: str = "pre-norm", step: int = 0) -> Figure:
    """“the cat sat” through a decoder of two blocks, d = 2; one token’s vector at every stop, then scores and probabilities.

    The first block is the one that lesson 12 computes by hand: identity projections, RMSNorm without ε, a ReLU network of
    width 4, no biases, causal mask. All weights were chosen, none was learned.
    """
    stops, logits, chances = _trip(token, order)
    following = WORDS[int(chances.argmax())]
    count = len(stops) + LAST
    if step < len(stops):
        says = stops[step].says
    else:
        pairs = lambda values: ", ".join(f"{word} {number(v, 3)}" for word, v in zip(WORDS, values))
        right = WORDS[WORDS.index(token) + 1]
        says = (
            f"The vocabulary’s matrix gives each word a score, its row times the vector: {pairs(logits)}.",
            f"Softmax turns the scores into probabilities: {pairs(chances)}.",
            f"After “{token}” the model says “{following}”"
            + ("." if following == right else f", not “{right}”: the weights were chosen for pre-norm."),
        )[min(step - len(stops), LAST - 1)]
    data: dict[str, Any] = {
        "steps": count,
        "trip": [{"kind": stop.kind, "label": stop.label, "vector": list(stop.at)} for stop in stops],
        "scores": logits.tolist(), "probabilities": chances.tolist(), "next": following,
    }  # fmt: skip
    return Figure(data, _drawing(stops, data, min(step, count - 1)), says)


def model(order: str) -> Decoder:
    """The decoder that the token goes through."""
    made = Decoder(DecoderConfig(
        len(WORDS), 3, n_layer=2, n_head=1, n_embd=2, n_hidden=4, norm="rms", norm_eps=0.0, ffn="relu", tied=False,
        norm_order=ORDERS[order])).double().eval()  # fmt: skip
    made.token_embedding.weight.data = TOKENS
    made.position_embedding.weight.data = POSITIONS
    made.lm_head.weight.data = HEAD
    for block, out, up in zip(made.blocks, OUT, UP):
        for projection in (block.attn.q_proj, block.attn.k_proj, block.attn.v_proj):
            projection.weight.data = np.eye(2)
        block.attn.out_proj.weight.data = out.T
        block.ffn.up.weight.data, block.ffn.down.weight.data = up.T, DOWN.T
    return made


@lru_cache
def _run(order: str) -> tuple[dict[str, tuple[Any, Any]], dict[str, np.ndarray]]:
    """(what each module read and returned, by name; the attention weights of each layer)"""
    seen: dict[str, tuple[Any, Any]] = {}
    made = model(order)
    maps = attention_maps(made, IDS)
    for name, module in made.named_modules():
        module.register_forward_hook(lambda m, args, out, name=name: seen.update({name: (args[0], out.array[0])}))
    with no_grad():
        made(IDS)
    return seen, maps


def _trip(token: str, order: str) -> tuple[list[Stop], np.ndarray, np.ndarray]:
    seen, maps = _run(order)
    t = WORDS.index(token)
    pre = order == "pre-norm"
    read = lambda name: tuple(seen[name][0].array[0, t].tolist())
    out = lambda name: tuple(seen[name][1][t].tolist())
    show = lambda at: vector(at, 3)
    row, x = out("token_embedding"), read("blocks.0")
    stops: list[Stop] = []
    add = lambda kind, label, at, says: stops.append(Stop(kind, label, at, says))
    add("start", f"embedding of “{token}”", row, f"The number of the word “{token}” picks a row of a table: {show(row)}. "
        "Here the stream begins.")  # fmt: skip
    add("place", f"plus position {t}", x, f"The row of position {t}, {show(POSITIONS[t])}, is added: {show(x)}. "
        "Now the vector says what and where.")  # fmt: skip
    for b, part in ((b, part) for b in range(2) for part in ("attn", "ffn")):
        at, label = f"blocks.{b}.{part}", f"{'attention' if part == 'attn' else 'feed-forward'} {b + 1}"
        branch, normed = out(at), out(f"{at}_norm")
        total = read(f"{at}_norm") if not pre else read(f"blocks.{b}.ffn_norm") if part == "attn" else out(f"blocks.{b}")
        if pre:
            add("read", "norm of a copy", normed, f"A copy of {show(x)} is divided by its root mean square: {show(normed)}. "
                "The stream stays as it is.")  # fmt: skip
        if part == "attn":
            weights = ", ".join(f"{word} {number(w, 3)}" for word, w in zip(WORDS, maps[at][0, 0, t, : t + 1]))
            add("update", label, branch, f"Attention reads with the weights {weights}, and brings back {show(branch)}.")
        else:
            add("update", label, branch, f"The feed-forward network makes of this row alone the update {show(branch)}.")
        add("sum", f"+ {label}", total, f"The update is added to the stream: {show(x)} + {show(branch)} = {show(total)}.")
        if not pre:
            add("norm", "norm of the stream", normed, f"Here the stream itself goes through the norm: {show(total)} becomes "
                f"{show(normed)}.")  # fmt: skip
        x = total if pre else normed
    if pre:
        last = out("norm")
        add("norm", "last norm", last, f"After the last block one norm is on the stream: {show(x)} becomes {show(last)}.")
    logits = seen["lm_head"][1][t]
    return stops, logits, probabilities(logits)


# ------------------------------------------------------------------------------------------------ the drawing

STREAM, LANE, LABEL, ROW = 30, 76, 104, 27


def _drawing(stops: list[Stop], data: dict[str, Any], step: int) -> str:
    y = lambda i: 24.0 + ROW * i
    back, front = [], []  # lines below, words above

    def stream(since: float, to: float, reached: bool) -> None:
        back.append(line([(STREAM, since), (STREAM, to)], "stream" if reached else "faint", width=5 if reached else 3))

    since = 0
    for i, stop in enumerate(stops):
        reached, here, off = i <= step, i == step, stop.kind in ("read", "update")
        if not off:
            stream(y(since), y(i), reached)
            if i - since > 1:
                back.append(_side_trip(y(since), y(since + 1), y(i - 1), y(i), i - 1 <= step, reached))
            since = i
        if here:
            front.append(rect(LABEL - 8, y(i) - 13, WIDTH - LABEL + 4, ROW - 1, "cool" if off else "warm", step=i))
        front += _mark(stop.kind, y(i), i, reached)
        front.append(text(LABEL, y(i) + 5, stop.label, "ink" if reached else "soft", bold=here, step=i))
        if reached:
            front.append(text(WIDTH - 12, y(i) + 5, vector(stop.at, 3), anchor="end", bold=here, step=i))
    end, first = y(len(stops)), len(stops)
    stream(y(since), end, step >= first)
    return svg(WIDTH, end + 24 * len(WORDS) + 34, [*back, *front, *_vocabulary(end, first, data, step)])


def _mark(kind: str, y: float, step: int, reached: bool) -> list[str]:
    """What stands on the line: a sum, a norm that the stream goes through, or a place where the vector is looked at."""
    if kind == "sum":
        plus = text(STREAM, y + 6, "+", "stream" if reached else "soft", anchor="middle", size=17, bold=True, step=step)
        return [circle(STREAM, y, 11, "sum" if reached else "faint", step=step), plus]
    if kind == "norm":
        return [rect(STREAM - 15, y - 8, 30, 16, "cool" if reached else "panel", radius=3, step=step)]
    off = kind in ("read", "update")
    return [circle(LANE if off else STREAM, y, 6, ("branch" if off else "stream") if reached else "faint", step=step)]


def _side_trip(leaves: float, first: float, last: float, returns: float, out: bool, home: bool) -> str:
    """From the stream to the lane of the branch and back to the sum."""
    bend = f"M{STREAM},{leaves} C{STREAM + 10},{leaves + 18} {LANE},{first - 20} {LANE},{first} L{LANE},{last}"
    back = f"M{LANE},{last} C{LANE},{last + 18} {STREAM + 26},{returns} {STREAM + 13},{returns}"
    return path(bend, "branch" if out else "faint", width=2.5) + path(back, "branch" if home else "faint", width=2.5)


def _vocabulary(top: float, first: int, data: dict[str, Any], step: int) -> list[str]:
    """The words with their scores, then with their probabilities."""
    right = WIDTH - 12
    marks = [text(200, top + 14, "score", "soft", anchor="end"), text(right, top + 14, "probability", "soft", anchor="end")]
    for i, (word, score, chance) in enumerate(zip(WORDS, data["scores"], data["probabilities"])):
        y = top + 28 + 24 * i
        chosen = step >= first + 2 and word == data["next"]
        marks.append(text(LABEL, y + 12, word, "ink" if step >= first else "soft", bold=chosen, step=first + 2))
        if step >= first:
            marks.append(text(200, y + 12, number(score, 3), anchor="end", step=first))
        if step >= first + 1:
            marks.append(rect(214, y, 170 * chance, 15, "stream" if chosen else "cool", radius=2, step=first + 1))
            marks.append(text(right, y + 12, number(chance, 3), anchor="end", bold=chosen, step=first + 1))
    return marks
