"""Where the parameters of a model live: every part with its formula, from the configuration alone.

Nothing is allocated, so a model of any size can be counted. That the formulas are those of the real models is tested on many
small ones, part by part.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ..nn.feedforward import GATED
from .config import ADDED, TransformerConfig

T5_BUCKETS = 32


@dataclass(frozen=True)
class Row:
    """One part: `times` copies of `formula`, whose letters have the values in `letters`. "4 d² + 4 d" is 4 d d + 4 d."""

    part: str
    formula: str
    letters: dict[str, int]
    times: int
    names: tuple[str, ...]  # patterns of the names of its parameters in the model

    @property
    def each(self) -> int:
        return sum(math.prod(map(self._factor, term.split())) for term in self.formula.split(" + "))

    def _factor(self, word: str) -> int:
        base = word.removesuffix("²")
        value = int(base) if base.isdigit() else self.letters[base]
        return value**2 if word.endswith("²") else value

    @property
    def in_blocks(self) -> bool:
        return any("blocks." in name for name in self.names)

    @property
    def total(self) -> int:
        return self.times * self.each

    def holds(self, name: str) -> bool:
        """Whether the parameter of this name is counted here. The first row that says so has it."""
        return any(fnmatchcase(name, pattern) for pattern in self.names)


LETTERS = {
    "V": "vocabulary", "T": "longest context", "d": "width of the stream", "k": "width of all keys, where it is not d",
    "f": "width inside the feed-forward, where it is not 4 d", "H": "heads", "b": "buckets", "s": "segments", "m": "bands",
}  # fmt: skip


def ledger(config: TransformerConfig) -> list[Row]:
    """The rows of a model, in the order of its parts."""
    c = config
    if c.arrangement != "encoder-decoder":
        return list(_side(c, "", ""))
    left = list(_side(c.encoder_side(), "encoder ", "encoder.", head=False))
    right = list(_side(c.decoder_side(), "decoder ", "decoder.", cross=True))
    if c.n_mels is None:  # one table for both texts: the encoder comes first and has it
        table = next(row for row in left if row.part == "encoder token embedding")
        left[left.index(table)] = Row("token embedding, shared", table.formula, table.letters, 1, table.names)
        right = [row for row in right if row.part != "decoder token embedding"]
    return [*left, *right]


def count(config: TransformerConfig) -> int:
    """The number of parameters."""
    return sum(row.total for row in ledger(config))


def _side(c: TransformerConfig, side: str, at: str, head: bool = True, cross: bool = False) -> Iterator[Row]:
    """The rows of one stack, `side` before the name of each part and `at` before those of its parameters."""
    keys = (c.n_kv_head or c.n_head) * c.head_dim
    letters = {"V": c.vocab_size or 0, "T": c.block_size, "d": c.n_embd, "k": keys, "f": c.hidden, "H": c.n_head,
               "b": T5_BUCKETS, "s": c.n_segment, "m": c.n_mels or 0}  # fmt: skip

    def row(part: str, formula: str, *names: str, times: int = 1) -> Row:
        return Row(side + part, formula, letters, times, tuple(at + name for name in names))

    def norms(number: int) -> str:
        number *= 2 if c.norms_have_bias else 1
        return f"{number} d" if number > 1 else "d"

    if c.n_mels is not None:
        yield row("first convolution", "3 m d + d", "front.conv1.*")
        yield row("second convolution", "3 d² + d", "front.conv2.*")
    elif c.arrangement != "stack":
        yield row("token embedding", "V d", "token_embedding.*")
    if c.positions == "t5":
        yield row("position bias, shared by all blocks", "b H", "blocks.*.positions.*")
    elif c.positions != "none":
        learned = c.positions == "learned"
        kind = "learned" if learned else c.positions.split("_")[0]
        yield row(f"positions, {kind}", "T d" if learned else "0", *(("position_embedding.*",) if c.positions in ADDED else ()))
    if c.n_segment:
        yield row("segments", "s d", "segment_embedding.*")
    if c.embedding_norm:
        yield row("norm of the embedding", norms(1), "embedding_norm.*")

    branches = 3 if cross else 2
    per_block = 1 if c.parallel else branches  # norms that stand before branches or after sums
    per_block += branches if c.norm_order == "both" else 0
    yield row("attention", _attention(c, keys), "blocks.*.attn.*", times=c.n_layer)
    if cross:
        yield row("cross-attention", _attention(c, keys), "blocks.*.cross.*", times=c.n_layer)
    yield row("feed-forward", _feed_forward(c), "blocks.*.ffn.*", times=c.n_layer)
    yield row("norms", norms(per_block), "blocks.*_norm.*", "blocks.*_after.*", times=c.n_layer)
    if c.layer_scale is not None:
        yield row("scales of the updates", f"{branches} d", "blocks.*_scale.*", times=c.n_layer)

    if c.ends_in_norm:
        yield row("last norm", norms(1), "norm.*")
    if c.pooler:
        yield row("pooler", "d² + d", "pooler.*")
    if head and c.arrangement != "stack":
        tied = c.tied and c.n_mels is None
        yield row("head, tied to the embedding" if tied else "head", "0" if tied else "V d", "lm_head.*")


def _attention(c: TransformerConfig, keys: int) -> str:
    if keys == c.n_embd:
        return "4 d²" + (f" + {4 if c.key_bias else 3} d" if c.bias else "")
    return "2 d² + 2 d k" + (f" + 2 d + {2 if c.key_bias else 1} k" if c.bias else "")


def _feed_forward(c: TransformerConfig) -> str:
    if c.ffn in GATED:
        return "3 d f" + (" + 2 f + d" if c.bias else "")
    if c.hidden == 4 * c.n_embd:
        return "8 d²" + (" + 5 d" if c.bias else "")
    return "2 d f" + (" + f + d" if c.bias else "")


def multiplications(config: TransformerConfig, tokens: int) -> tuple[int, int]:
    """Of the blocks of one stack, for one text of so many tokens: (in matrices that hold parameters, between tokens).

    The first grows with the text in line: a number is multiplied once a token by each matrix entry it meets. The second is
    scores and mixing, tokens x keys x d each, and grows with its square; with a window there are at most so many keys, and
    twice as many, less one, where a position looks both ways. A causal mask would spare half of it. Linear attention has
    a matrix of head width x head width in each head in place of the keys, written and read once a token.
    """
    c, matrices = config, 0
    keys = tokens if c.window is None else min(tokens, c.window if c.arrangement == "decoder" else 2 * c.window - 1)
    keys = c.head_dim if c.attention == "linear" else keys
    for row in ledger(c):
        if row.part in ("attention", "feed-forward"):
            squares = [term for term in row.formula.split(" + ") if len(term.split()) > 2 or "²" in term]  # biases left out
            matrices += Row("", " + ".join(squares), row.letters, row.times, ()).total
    return matrices * tokens, 2 * tokens * keys * c.n_embd * c.n_layer
