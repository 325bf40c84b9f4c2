"""Named models as configurations, each with the number of parameters that is public, and where."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from .config import TransformerConfig


@dataclass(frozen=True)
class Named:
    """A model that has a name: its configuration, and what is public about its size."""

    config: TransformerConfig
    published: int | None  # the exact public number of parameters, if there is one
    source: str  # where the published size stands; what the count leaves out
    other: int = 0  # numbers that the published figure counts beside the parameters


def gpt2(n_layer: int, n_head: int, n_embd: int) -> TransformerConfig:
    """Radford et al. 2019: pre-norm, learned positions, GELU by tanh, the embedding scores too."""
    return TransformerConfig(50257, 1024, n_layer, n_head, n_embd=n_embd, ffn="gelu_tanh", bias=True)


def bert(n_layer: int, n_head: int, n_embd: int) -> TransformerConfig:
    """Devlin et al. 2019: post-norm, learned positions, two segments, full attention."""
    return TransformerConfig(30522, 512, n_layer, n_head, n_embd=n_embd, arrangement="encoder", norm_order="post", bias=True,
                             norm_eps=1e-12, dropout=0.1, embedding_norm=True, n_segment=2, pooler=True)  # fmt: skip


def of_2017(n_embd: int, n_head: int, dropout: float) -> TransformerConfig:
    """Vaswani et al. 2017: post-norm, sinusoidal positions, ReLU, one matrix as both embeddings and as the head."""
    return TransformerConfig(37000, 1024, 6, n_head, n_embd=n_embd, arrangement="encoder-decoder", norm_order="post",
                             ffn="relu", bias=True, positions="sinusoidal", scale_embedding=True, dropout=dropout)  # fmt: skip


def whisper(n_layer: int, n_head: int, n_embd: int, vocab_size: int = 51865, n_mels: int = 80) -> TransformerConfig:
    """Radford et al. 2022: pre-norm, a sinusoidal encoder over two convolutions, a learned decoder, no bias on keys."""
    return TransformerConfig(vocab_size, 448, n_layer, n_head, n_embd=n_embd, arrangement="encoder-decoder", bias=True,
                             key_bias=False, n_mels=n_mels, encoder_size=1500,
                             encoder_positions="sinusoidal_halves")  # fmt: skip


def llama(vocab_size: int, block_size: int, n_layer: int, n_head: int, n_kv_head: int, n_embd: int, n_hidden: int,
          **others: Any) -> TransformerConfig:
    """Touvron et al. 2023: RMSNorm, rotary positions, SwiGLU, no biases, heads of keys and values shared in later ones."""
    modern = {"norm": "rms", "norm_eps": 1e-5, "ffn": "swiglu", "positions": "rotary", "tied": False}
    return TransformerConfig(vocab_size, block_size, n_layer, n_head, n_kv_head, n_embd, n_hidden, **{**modern, **others})


# The two sizes of 2017. The paper prints 65 and 213 million, in Table 3, for a shared vocabulary of "about 37000" (English and
# German). With 37,000 rows, one table for source, target and scores, and biases on every projection: 18,944,000 + 44,138,496 =
# 63,082,496 and 37,888,000 + 176,357,376 = 214,245,376, 3 % below and 0.6 % above. The paper gives no exact number.
GIVEN_2017 = "{} million in Table 3 of the paper, which does not say how it counts"
CARD = "the file of {}"
SPECTRA = "the file of openai/whisper-{1}, with its sines; {0} million in the paper"

MODELS: dict[str, Named] = {
    "gpt2": Named(gpt2(12, 12, 768), 124_439_808, CARD.format("openai-community/gpt2")),
    "gpt2-medium": Named(gpt2(24, 16, 1024), 354_823_168, CARD.format("openai-community/gpt2-medium")),
    "gpt2-large": Named(gpt2(36, 20, 1280), 774_030_080, CARD.format("openai-community/gpt2-large")),
    "gpt2-xl": Named(gpt2(48, 25, 1600), 1_557_611_200, CARD.format("openai-community/gpt2-xl")),
    "bert-base": Named(bert(12, 12, 768), 109_482_240, "BertModel of bert-base-uncased, with its pooler alone"),
    "bert-large": Named(bert(24, 16, 1024), 335_141_888, "BertModel of bert-large-uncased, likewise"),
    "2017-base": Named(of_2017(512, 8, 0.1), None, GIVEN_2017.format(65)),
    "2017-big": Named(of_2017(1024, 16, 0.3), None, GIVEN_2017.format(213)),
    "whisper-tiny": Named(whisper(4, 6, 384), 37_760_640, SPECTRA.format(39, "tiny"), 1500 * 384),
    "whisper-base": Named(whisper(6, 8, 512), 72_593_920, SPECTRA.format(74, "base"), 1500 * 512),
    "whisper-small": Named(whisper(12, 12, 768), 241_734_912, SPECTRA.format(244, "small"), 1500 * 768),
    "whisper-medium": Named(whisper(24, 16, 1024), 763_857_920, SPECTRA.format(769, "medium"), 1500 * 1024),
    "whisper-large": Named(whisper(32, 20, 1280), 1_543_304_960, SPECTRA.format("1,550", "large"), 1500 * 1280),
    "tinyllama-1.1b": Named(llama(32000, 2048, 22, 32, 4, 2048, 5632), 1_100_048_384, CARD.format("TinyLlama/TinyLlama-1.1B")),
    "llama-2-7b": Named(llama(32000, 4096, 32, 32, 32, 4096, 11008), 6_738_415_616, CARD.format("meta-llama/Llama-2-7b-hf")),
    "llama-2-13b": Named(llama(32000, 4096, 40, 40, 40, 5120, 13824), 13_015_864_320, CARD.format("meta-llama/Llama-2-13b-hf")),
    "llama-2-70b": Named(llama(32000, 4096, 80, 64, 8, 8192, 28672), 68_976_648_192, CARD.format("meta-llama/Llama-2-70b-hf")),
    "llama-3-8b": Named(llama(128256, 8192, 32, 32, 8, 4096, 14336, rope_base=500000.0), 8_030_261_248,
                        CARD.format("meta-llama/Meta-Llama-3-8B")),
    "llama-3-70b": Named(llama(128256, 8192, 80, 64, 8, 8192, 28672, rope_base=500000.0), 70_553_706_496,
                         CARD.format("meta-llama/Meta-Llama-3-70B")),
    "llama-3.2-1b": Named(llama(128256, 131072, 16, 32, 8, 2048, 8192, tied=True, rope_base=500000.0, rope_scaling="llama3",
                                rope_factor=32.0), 1_235_814_400, CARD.format("meta-llama/Llama-3.2-1B")),
    "mistral-7b": Named(llama(32000, 32768, 32, 32, 8, 4096, 14336, window=4096), 7_241_732_096,
                        CARD.format("mistralai/Mistral-7B-v0.1")),
    "helium-1-preview-2b": Named(llama(48000, 4096, 24, 20, 20, 2560, 7040, rope_base=100000.0, norm_eps=1e-8), None,
                                 "2 billion; the file of kyutai/helium-1-preview-2b, two bytes each, has 4.35 GB"),
    "moshi-7b": Named(llama(32000, 3000, 32, 32, 32, 4096, 11264, window=3000, norm_eps=1e-8, rope_interleaved=True), None,
                      "7 billion in the paper (2024); here its temporal transformer and text tables"),
    "mimi": Named(TransformerConfig(None, 8000, 8, 8, n_embd=512, arrangement="stack", positions="rotary", window=250,
                                    layer_scale=0.01, norm_bias=True, final_norm=False), None,
                  "no figure; here one of the two transformers of the codec"),
}  # fmt: skip


def named(name: str) -> Named:
    """The model of this name; ValueError with the names that are near."""
    if name not in MODELS:
        raise ValueError(f"no model is called {name!r}; {near(name, MODELS)}")
    return MODELS[name]


def near(name: str, known: Any) -> str:
    close = get_close_matches(name.lower(), known, n=4, cutoff=0.4)
    return f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(known)}"


def reduced(config: TransformerConfig, **others: Any) -> TransformerConfig:
    """The same arrangement at a size that runs in a blink: everything that says how stays, what says how much shrinks."""
    heads = 4 if config.n_kv_head is None or config.n_kv_head in (1, config.n_head) else 8
    shared = None if config.n_kv_head is None else {1: 1, config.n_head: heads}.get(config.n_kv_head, heads // 4)
    small: dict[str, Any] = {
        "block_size": 16, "n_layer": 2, "n_head": heads, "n_kv_head": shared, "n_embd": 8 * heads,
        "vocab_size": None if config.vocab_size is None else 29,
        "n_hidden": None if config.n_hidden is None else 20,
        "window": None if config.window is None else 5,
        "n_mels": None if config.n_mels is None else 6,
        "encoder_size": None if config.encoder_size is None else 12,
    }  # fmt: skip
    return replace(config, **{**small, **others})
