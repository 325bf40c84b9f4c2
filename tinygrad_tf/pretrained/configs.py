"""config.json of the public checkpoints, as a configuration here, and back.

A field that would change what the model computes and has no counterpart here is refused by name, never passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from ..models import TransformerConfig
from .weightfiles import PretrainedError, read_json

CONFIG = "config.json"
END = "eos_token_id"  # its field for the token that ends a text, or for several
ACTIVATIONS = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu", "relu": "relu", "silu": "silu",
               "swish": "silu"}  # fmt: skip
GATES = {"silu": "swiglu", "swish": "swiglu", "gelu": "geglu"}


@dataclass(frozen=True)
class Fields:
    """The values of a config.json, taken one by one; errors name the file and the field."""

    file: Path
    values: dict[str, Any]

    def error(self, field: str, what: str) -> PretrainedError:
        return PretrainedError(f"{self.file}: {field}={self.values.get(field)!r} {what}")

    def count(self, field: str, default: int | None = None) -> Any:
        """A whole number from 1 up; without a default the field must be there."""
        value = self.values.get(field)
        value = default if value is None else value
        if type(value) is not int or value < 1:
            raise self.error(field, "is not a whole number, at least 1")
        return value

    def number(self, field: str, default: float | None = None) -> float:
        value = self.values.get(field)
        value = default if value is None else value
        if type(value) not in (int, float):
            raise self.error(field, "is not a number")
        return float(value)  # type: ignore[arg-type]

    def flag(self, field: str, default: bool) -> bool:
        value = self.values.get(field, default)
        if type(value) is not bool:
            raise self.error(field, "is neither true nor false")
        return value

    def choice(self, field: str, default: str, known: dict[str, str]) -> str:
        value = self.values.get(field, default)
        if not isinstance(value, str) or value not in known:
            raise self.error(field, f"is not supported here; {', '.join(known)} are")
        return known[value]

    def only(self, **allowed: Any) -> None:
        """Refuse a field that says something else than the one thing that is computed here."""
        for field, value in allowed.items():
            if self.values.get(field, value) not in (value, None):
                raise self.error(field, f"is not supported here; {value!r} is")


def _gpt2(f: Fields) -> TransformerConfig:
    f.only(scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False, add_cross_attention=False)
    n_embd, context = f.count("n_embd"), f.count("n_positions", f.values.get("n_ctx"))
    return TransformerConfig(
        f.count("vocab_size"), context, f.count("n_layer"), f.count("n_head"), n_embd=n_embd,
        n_hidden=f.count("n_inner", 4 * n_embd), ffn=f.choice("activation_function", "gelu_new", ACTIVATIONS), bias=True,
        norm_eps=f.number("layer_norm_epsilon", 1e-5), tied=f.flag("tie_word_embeddings", True))  # fmt: skip


def _gpt2_back(c: TransformerConfig) -> dict[str, Any]:
    return {"architectures": ["GPT2LMHeadModel"], "n_embd": c.n_embd, "n_layer": c.n_layer, "n_head": c.n_head,
            "n_positions": c.block_size, "n_inner": c.hidden, "vocab_size": c.vocab_size, "tie_word_embeddings": c.tied,
            "activation_function": _name_of(c.ffn, ACTIVATIONS), "layer_norm_epsilon": eps(c)}  # fmt: skip


def _bert(f: Fields) -> TransformerConfig:
    f.only(position_embedding_type="absolute", is_decoder=False, add_cross_attention=False)
    return TransformerConfig(
        f.count("vocab_size"), f.count("max_position_embeddings"), f.count("num_hidden_layers"), f.count("num_attention_heads"),
        n_embd=f.count("hidden_size"), n_hidden=f.count("intermediate_size"), ffn=f.choice("hidden_act", "gelu", ACTIVATIONS),
        norm_eps=f.number("layer_norm_eps", 1e-12), n_segment=f.count("type_vocab_size", 2), arrangement="encoder", bias=True,
        norm_order="post", embedding_norm=True, pooler=True)  # fmt: skip


def _bert_back(c: TransformerConfig) -> dict[str, Any]:
    return {"architectures": ["BertModel"], "hidden_size": c.n_embd, "num_hidden_layers": c.n_layer, "vocab_size": c.vocab_size,
            "num_attention_heads": c.n_head, "max_position_embeddings": c.block_size, "intermediate_size": c.hidden,
            "hidden_act": _name_of(c.ffn, ACTIVATIONS), "layer_norm_eps": eps(c), "type_vocab_size": c.n_segment,
            "position_embedding_type": "absolute"}  # fmt: skip


def _llama(f: Fields) -> TransformerConfig:
    n_embd, n_head = f.count("hidden_size"), f.count("num_attention_heads")
    f.only(head_dim=n_embd // n_head, partial_rotary_factor=1.0)
    mistral = f.values["model_type"] == "mistral"  # which has a window and no biases, whatever its file says
    window = f.count("sliding_window") if mistral and f.values.get("sliding_window") is not None else None
    bias = not mistral and f.flag("attention_bias", False)
    if not mistral and bias != f.flag("mlp_bias", False):
        raise f.error("attention_bias", "and mlp_bias differ: here either all matrices have biases or none has")
    return TransformerConfig(
        f.count("vocab_size"), f.count("max_position_embeddings", 2048), f.count("num_hidden_layers"), n_head,
        f.count("num_key_value_heads", n_head), n_embd, f.count("intermediate_size"), norm="rms", positions="rotary",
        norm_eps=f.number("rms_norm_eps", 1e-6), ffn=f.choice("hidden_act", "silu", GATES), bias=bias,
        tied=f.flag("tie_word_embeddings", False), window=window, **_rope(f))  # fmt: skip


def _rope(f: Fields) -> dict[str, Any]:
    """Base and scaling of the rotary positions: rope_theta and rope_scaling, or, in newer files, both in rope_parameters."""
    field = "rope_parameters" if f.values.get("rope_parameters") is not None else "rope_scaling"
    inner = f.values.get(field)
    if inner is None:
        inner = {}
    if not isinstance(inner, dict):
        raise f.error(field, "is not an object")
    r = Fields(f.file, {"rope_theta": f.values.get("rope_theta"), **inner})
    kind = r.choice("rope_type" if "rope_type" in inner else "type", "default",
                    {"default": "none", "linear": "linear", "llama3": "llama3"})  # fmt: skip
    told: dict[str, Any] = {"rope_base": r.number("rope_theta", 10000.0), "rope_scaling": kind}
    if kind != "none":
        told["rope_factor"] = r.number("factor")
    if kind == "llama3":
        r.only(low_freq_factor=1.0, high_freq_factor=4.0)
        told["rope_original"] = r.count("original_max_position_embeddings")
    return told


def _llama_back(c: TransformerConfig) -> dict[str, Any]:
    kind = {"linear": "linear", "llama3": "llama3"}.get(c.rope_scaling)
    scaling: dict[str, Any] = {"rope_type": kind, "factor": c.rope_factor}
    if kind == "llama3":
        scaling |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": c.rope_original}
    window = {} if c.window is None else {"model_type": "mistral", "sliding_window": c.window}
    return {"architectures": ["LlamaForCausalLM" if c.window is None else "MistralForCausalLM"], "hidden_size": c.n_embd,
            "num_hidden_layers": c.n_layer, "num_attention_heads": c.n_head, "num_key_value_heads": c.n_kv_head or c.n_head,
            "vocab_size": c.vocab_size, "max_position_embeddings": c.block_size, "intermediate_size": c.hidden,
            "hidden_act": _name_of(c.ffn, GATES), "rms_norm_eps": eps(c), "rope_theta": c.rope_base,
            "rope_scaling": scaling if kind else None,
            "attention_bias": c.bias, "mlp_bias": c.bias, "tie_word_embeddings": c.tied, **window}  # fmt: skip


READERS: dict[str, Callable[[Fields], TransformerConfig]] = {"gpt2": _gpt2, "bert": _bert, "llama": _llama, "mistral": _llama}
WRITERS = {"gpt2": _gpt2_back, "bert": _bert_back, "llama": _llama_back}


def read_config(folder: Path) -> tuple[str, TransformerConfig]:
    """(layout, configuration) of a folder's config.json. Mistral is Llama's layout with a window."""
    file = folder / CONFIG
    values = read_json(file)
    kind = values.get("model_type")
    if kind is None:
        raise PretrainedError(f"{file} names no model_type, as every public checkpoint does; a run of tinygrad-tf is read by "
                              "tinygrad_tf.run.load_model")  # fmt: skip
    if not isinstance(kind, str) or kind not in READERS:
        raise PretrainedError(f"{file}: model_type={kind!r} is no architecture that is known here; {', '.join(READERS)} are")
    return "llama" if kind == "mistral" else kind, _made(file, values)


def _made(file: Path, values: dict[str, Any]) -> TransformerConfig:
    try:
        return READERS[values["model_type"]](Fields(file, values))
    except PretrainedError:
        raise
    except (ValueError, ZeroDivisionError, OverflowError) as error:  # the configuration's own checks
        raise PretrainedError(f"{file}: {error}") from None


def public_config(config: TransformerConfig, layout: str) -> dict[str, Any]:
    """The content of config.json for a model. PretrainedError naming the fields that the layout has no place for."""
    if layout not in WRITERS:
        raise PretrainedError(f"no layout is called {layout!r}; {', '.join(WRITERS)} are known")
    values = {"model_type": layout, "dtype": "float32", "torch_dtype": "float32", **WRITERS[layout](config)}
    lost = differences(config, _made(Path(CONFIG), values))
    if lost:
        raise PretrainedError(f"the layout {layout} has no place for {', '.join(lost)}")
    return values


def differences(config: TransformerConfig, other: TransformerConfig) -> list[str]:
    """The fields, with their values in `config`, in which two models compute or hold something else."""
    one, two = plain(config), plain(other)
    return [f"{spec.name}={getattr(one, spec.name)!r}" for spec in fields(one)
            if getattr(one, spec.name) != getattr(two, spec.name)]  # fmt: skip


def plain(c: TransformerConfig) -> TransformerConfig:
    """What a finished model computes: defaults written out, and what concerns its start or its training left out."""
    turned = c.positions == "rotary"
    scaling = c.rope_scaling if turned else "none"
    return replace(
        c, n_kv_head=c.n_kv_head or c.n_head, n_hidden=c.hidden, norm_eps=eps(c), norm_bias=c.norms_have_bias,
        final_norm=c.ends_in_norm, key_bias=c.bias and c.key_bias, pooler=False,  # where a file has one, it is read
        tied=c.tied if c.arrangement == "decoder" else True, dropout=0.0, recompute=False,
        init_std=None, zero_init=False,
        rope_base=c.rope_base if turned else 1.0, rope_interleaved=turned and c.rope_interleaved, rope_scaling=scaling,
        rope_factor=1.0 if scaling == "none" else c.rope_factor, rope_original=c.rope_original if scaling == "llama3" else 1,
    )  # fmt: skip


def eps(c: TransformerConfig) -> float:
    return c.norm_eps if c.norm_eps is not None else 1e-6 if c.norm == "rms" else 1e-5


def _name_of(ffn: str, names: dict[str, str]) -> str:
    """The public name of an activation; an unknown one comes back as another, and is told as a difference."""
    return next((name for name, own in names.items() if own == ffn), next(iter(names)))
