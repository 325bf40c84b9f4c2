"""The names of the public checkpoints, beside those here.

Here the names are those of the modules: token_embedding, position_embedding, segment_embedding, embedding_norm, then for each
block N blocks.N.attn.{q_proj,k_proj,v_proj,out_proj}, blocks.N.attn_norm, blocks.N.ffn.{gate,up,down}, blocks.N.ffn_norm, and
norm, pooler, lm_head; each with a .weight, and a .bias where it has one. Matrices are (out, in).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..models import TransformerConfig
from .weightfiles import PretrainedError


@dataclass(frozen=True)
class Part:
    """One entry of a public file, and the parameters here that it holds, one below the other."""

    theirs: str
    ours: tuple[str, ...]
    turned: bool = False  # the file has the matrix as (in, out)


# GPT-2 was written with a layer called Conv1D, which is a linear layer whose matrix is (in, out). These four are all of them;
# a shape alone would not tell: the second is square.
CONV1D = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")


def gpt2(c: TransformerConfig) -> Iterator[Part]:
    """wte, wpe, h.N.ln_1, h.N.attn.c_attn (queries, keys and values as one matrix), ..., ln_f"""
    yield Part("wte.weight", ("token_embedding.weight",))
    yield Part("wpe.weight", ("position_embedding.weight",))
    for n in range(c.n_layer):
        for theirs, ours in {
            "ln_1": ("attn_norm",), "attn.c_attn": ("attn.q_proj", "attn.k_proj", "attn.v_proj"),
            "attn.c_proj": ("attn.out_proj",), "ln_2": ("ffn_norm",), "mlp.c_fc": ("ffn.up",), "mlp.c_proj": ("ffn.down",),
        }.items():  # fmt: skip
            for kind in ("weight", "bias"):
                name = f"{theirs}.{kind}"
                yield Part(f"h.{n}.{name}", tuple(f"blocks.{n}.{own}.{kind}" for own in ours), name in CONV1D)
    yield from _both("ln_f", "norm")
    if not c.tied:
        yield Part("lm_head.weight", ("lm_head.weight",))


def bert(c: TransformerConfig) -> Iterator[Part]:
    """embeddings.word_embeddings, ..., encoder.layer.N.attention.self.query, ..., pooler.dense"""
    for theirs, ours in {"word": "token", "position": "position", "token_type": "segment"}.items():
        yield Part(f"embeddings.{theirs}_embeddings.weight", (f"{ours}_embedding.weight",))
    yield from _both("embeddings.LayerNorm", "embedding_norm")
    for n in range(c.n_layer):
        for theirs, ours in {
            "attention.self.query": "attn.q_proj", "attention.self.key": "attn.k_proj", "attention.self.value": "attn.v_proj",
            "attention.output.dense": "attn.out_proj", "attention.output.LayerNorm": "attn_norm",
            "intermediate.dense": "ffn.up", "output.dense": "ffn.down", "output.LayerNorm": "ffn_norm",
        }.items():  # fmt: skip
            yield from _both(f"encoder.layer.{n}.{theirs}", f"blocks.{n}.{ours}")
    if c.pooler:
        yield from _both("pooler.dense", "pooler")


def llama(c: TransformerConfig) -> Iterator[Part]:
    """embed_tokens, layers.N.self_attn.q_proj, ..., layers.N.mlp.gate_proj, ..., norm, lm_head"""
    yield Part("embed_tokens.weight", ("token_embedding.weight",))
    for n in range(c.n_layer):
        yield Part(f"layers.{n}.input_layernorm.weight", (f"blocks.{n}.attn_norm.weight",))
        yield Part(f"layers.{n}.post_attention_layernorm.weight", (f"blocks.{n}.ffn_norm.weight",))
        for theirs, ours in {
            "self_attn.q_proj": "attn.q_proj", "self_attn.k_proj": "attn.k_proj", "self_attn.v_proj": "attn.v_proj",
            "self_attn.o_proj": "attn.out_proj",
            "mlp.gate_proj": "ffn.gate", "mlp.up_proj": "ffn.up", "mlp.down_proj": "ffn.down",
        }.items():  # fmt: skip
            yield from _both(f"layers.{n}.{theirs}", f"blocks.{n}.{ours}", bias=c.bias)
    yield Part("norm.weight", ("norm.weight",))
    if not c.tied:
        yield Part("lm_head.weight", ("lm_head.weight",))


def _both(theirs: str, ours: str, bias: bool = True) -> Iterator[Part]:
    for kind in ("weight", "bias") if bias else ("weight",):
        yield Part(f"{theirs}.{kind}", (f"{ours}.{kind}",))


@dataclass(frozen=True)
class Layout:
    """How the files of one family are written."""

    parts: Callable[[TransformerConfig], Iterator[Part]]
    prefix: str  # before all names of the model itself, in some files
    outside: tuple[str, ...]  # names that never carry the prefix
    ignored: str  # pattern of entries that are no weights of what is loaded
    tied: str = ""  # the embedding that the head repeats, if it is written at all


LAYOUTS = {
    # attn.bias and attn.masked_bias are the causal mask, which old files hold.
    "gpt2": Layout(gpt2, "transformer.", ("lm_head.",), r"h\.\d+\.attn\.(masked_)?bias", "wte.weight"),
    # cls and classifier are what stood on the encoder in its training.
    "bert": Layout(bert, "bert.", ("cls.", "classifier."), r"embeddings\.position_ids|cls\..*|classifier\..*"),
    "llama": Layout(llama, "model.", ("lm_head.",), r"(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq", "embed_tokens.weight"),
}


def without_prefix(layout: Layout, names: list[str]) -> dict[str, str]:
    """The name in the layout -> the name in the file. BERT's first files call the weight of a norm gamma and its bias beta."""
    plain: dict[str, str] = {}
    for name in names:
        short = name.removeprefix(layout.prefix)
        short = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", short))
        if short in plain:
            raise PretrainedError(f"{plain[short]} and {name} are two entries for one thing; a file has one of them")
        plain[short] = name
    return plain


def with_prefix(layout: Layout, name: str) -> str:
    return name if name.startswith(layout.outside) else layout.prefix + name
