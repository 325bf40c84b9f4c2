"""Every setting of a training run, each with its default, its help text and its smallest legal value; and the presets.

The command line, the saved configuration and the checks are all made from the fields below.
"""

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from .errors import OneLine
from .models.decoder import DecoderConfig


def setting(default: Any, help: str, least: float | None = None) -> Any:
    return field(default=default, metadata={"help": help, "least": least})


def option(name: str) -> str:
    """A setting as it is written on the command line: n_embd -> --n-embd"""
    return "--" + name.replace("_", "-")


class SettingError(OneLine):
    """A setting that is not what it must be. The message is one line that names the field."""

    def in_options(self) -> str:
        """The message for the command line, where a field is an option."""
        names = "|".join(spec.name for spec in fields(TrainConfig))
        return re.sub(rf"\b(?:{names})(?==| must be)", lambda name: option(name[0]), str(self))


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """One training run. The defaults are the preset "tiny". Raises SettingError, naming the field, for a bad value."""

    preset: str = setting("tiny", "The preset that the other settings start from.")
    text: str = setting("stories", "stories (embedded), tinyshakespeare (downloaded once), or a UTF-8 text file.")
    seed: int = setting(0, "Seed of every random stream.", 0)
    init_from: str | None = setting(
        None, "A run, or a folder with a public GPT-2 or Llama-style checkpoint and its tokenizer.json, whose model goes on "
              "learning; it brings the model's settings and its vocabulary.")

    # the model: the fields of DecoderConfig, under the same names
    block_size: int = setting(96, "Context length in tokens.", 1)
    n_layer: int = setting(2, "Number of blocks.", 1)
    n_head: int = setting(4, "Attention heads per block.", 1)
    n_kv_head: int | None = setting(None, "Heads of keys and values; fewer than the heads shares them (default: all).", 1)
    n_embd: int = setting(64, "Model width.", 1)
    n_hidden: int | None = setting(None, "Hidden width of the feed-forward (default: by its kind).", 1)
    norm: Literal["layer", "rms"] = setting("rms", "Kind of norm.")
    norm_order: Literal["pre", "post", "both"] = setting("pre", "Where the norms stand in a residual branch.")
    ffn: Literal["gelu", "gelu_tanh", "relu", "silu", "relu2", "swiglu", "geglu"] = setting(
        "swiglu", "Kind of feed-forward.")
    positions: Literal["learned", "sinusoidal", "sinusoidal_halves", "rotary", "t5", "alibi", "none"] = setting(
        "rotary", "How the model is told where a token stands: learned and sinusoidal are added to the tokens, rotary turns "
                  "queries and keys, t5 and alibi are added to the scores of attention.")
    attention: Literal["softmax", "linear"] = setting(
        "softmax", "How a position mixes what came before; linear costs the same for each token of a long text, and goes with "
                   "learned, sinusoidal or no positions and without a window.")
    window: int | None = setting(None, "Tokens that a position looks back at, itself counted (default: all of the context).", 1)
    rope_base: float = setting(10000.0, "Base of the rotary angles.", 0)
    qk_norm: bool = setting(True, "Normalise queries and keys.")
    bias: bool = setting(False, "Biases in linear layers and norms.")
    tied: bool = setting(True, "One matrix for the embedding and the output head.")
    dropout: float = setting(0.0, "Share of activations dropped in training.", 0)
    layer_scale: float | None = setting(None, "Start value of a learned scale on each branch (default: no such scale).", 0)
    zero_init: bool = setting(True, "Start the projections into the residual stream at zero.")
    init_std: float | None = setting(0.02, "Standard deviation of the matrices at the start.", 0)

    # optimisation
    steps: int = setting(1800, "Optimizer steps.", 1)
    batch_size: int = setting(8, "Sequences per forward pass.", 1)
    recompute: bool = setting(False, "Keep what goes into each block alone and compute the rest again in backward: the same "
                                     "gradients, less memory, about half more time.")
    grad_accum: int = setting(1, "Forward passes per step; gradients add up to those of the one big batch.", 1)
    optimizer: Literal["adamw", "muon"] = setting("muon", "adamw for all, or muon for the matrices inside the blocks.")
    muon_lr: float = setting(0.02, "Peak learning rate of the matrices that muon moves.", 0)
    muon_momentum: float = setting(0.95, "Decay of the mean gradient that muon moves along.", 0)
    lr: float = setting(1e-2, "Peak learning rate.", 0)
    min_lr: float = setting(0.0, "Learning rate at the end.", 0)
    warmup: int = setting(50, "Steps of linear warm-up.", 0)
    schedule: Literal["cosine", "linear"] = setting("cosine", "How the learning rate falls after the warm-up.")
    beta1: float = setting(0.9, "Adam's decay of the mean gradient.", 0)
    beta2: float = setting(0.99, "Adam's decay of the mean squared gradient.", 0)
    weight_decay: float = setting(0.1, "Decoupled weight decay, on matrices only.", 0)
    clip: float = setting(1.0, "Largest norm of the whole gradient (0: no clipping).", 0)

    # what is looked at on the way; 0 switches it off
    eval_every: int = setting(200, "Steps between evaluations on held-out text (0: only at the end).", 0)
    eval_batches: int = setting(40, "Random batches per evaluation; the one at the end takes the whole split.", 1)
    eval_overlap: float = setting(2 / 3, "Share of an evaluation window that is only context.", 0)
    sample_every: int = setting(600, "Steps between samples (0: only at the end).", 0)
    sample_tokens: int = setting(200, "Tokens per sample.", 0)
    sample_temperature: float = setting(0.8, "Temperature of the samples; 0 is greedy.", 0)
    checkpoint_every: int = setting(200, "Steps between checkpoints (0: only at the end).", 0)

    def __post_init__(self) -> None:
        types = get_type_hints(TrainConfig)
        for spec in fields(self):
            value, least = getattr(self, spec.name), spec.metadata["least"]
            if not _fits(value, types[spec.name]):
                wanted = getattr(types[spec.name], "__name__", str(types[spec.name]))
                raise SettingError(f"{spec.name} must be {_wording(types[spec.name], wanted)}, not {value!r}")
            if least is not None and value is not None and not least <= value < math.inf:
                finite = "" if type(value) is int else "a finite number and "
                raise SettingError(f"{spec.name} must be {finite}at least {least}, not {value}")
        if self.init_from == "":
            raise SettingError("init_from must be a run or a folder with a public checkpoint, not empty")
        if not self.text:
            raise SettingError("text must be stories, tinyshakespeare or the path of a text file, not empty")
        if self.muon_momentum >= 1:
            raise SettingError(f"muon_momentum must be below 1, not {self.muon_momentum}")
        if self.beta1 >= 1 or self.beta2 >= 1:
            raise SettingError(f"beta1={self.beta1} and beta2={self.beta2}: each must be below 1")
        if self.min_lr > self.lr:
            raise SettingError(f"min_lr={self.min_lr} is above lr={self.lr}")
        if self.eval_overlap >= 1:
            raise SettingError(f"eval_overlap must be a share of the window, from 0 to below 1, not {self.eval_overlap}")
        try:
            self.decoder(vocab_size=1)  # the model's own checks
        except ValueError as error:
            raise SettingError(str(error)) from None

    def decoder(self, vocab_size: int) -> DecoderConfig:
        """The model's part of the configuration."""
        shared = {spec.name for spec in fields(DecoderConfig)} & {spec.name for spec in fields(self)}
        return DecoderConfig(vocab_size=vocab_size, **{name: getattr(self, name) for name in shared})

    def of_model(self, model: DecoderConfig) -> "TrainConfig":
        """A copy with the settings of a model that there is already; windows may be shorter than its context."""
        return replace(self, **{name: getattr(model, name) for name in FIXED_BY_MODEL})

    @property
    def context_only(self) -> int:
        """Tokens at the start of an evaluation window that are not counted."""
        return min(round(self.eval_overlap * self.block_size), self.block_size - 1)

    def changed(self, **settings: Any) -> "TrainConfig":
        """A copy with these settings; those that are None stay as they are."""
        return replace(self, **{name: value for name, value in settings.items() if value is not None})

    def check_effect(self, given: Collection[str]) -> None:
        """Raises SettingError if one of the settings that were given by name changes nothing beside the others."""
        for name, (other, wanted) in NEEDS.items():
            if name in given and getattr(self, other) != wanted:
                raise SettingError(f"{name}={getattr(self, name)} has no effect with {other}={getattr(self, other)}: leave it "
                                   f"out, or take {other}={wanted}")
        if "window" in given and self.window is not None and self.window >= self.block_size:
            raise SettingError(f"window={self.window} has no effect: a position looks back at all of the context, block_size="
                               f"{self.block_size}, without it; leave it out, or take fewer tokens")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: Any) -> "TrainConfig":
        """What `to_json` gave, also in an older version: a setting that it did not have yet takes its default.

        Raises SettingError for a setting that this version does not have.
        """
        if not isinstance(values, Mapping):
            raise SettingError("its configuration is no list of settings by name")
        unknown = set(values) - {spec.name for spec in fields(cls)}
        if unknown:
            raise SettingError(f"its configuration has settings that this version does not know: {', '.join(sorted(unknown))}; "
                             "a newer version of tinygrad-tf wrote it, so update yours")
        return cls(**values)


# A setting that changes nothing unless another one has this value.
NEEDS = {"muon_lr": ("optimizer", "muon"), "muon_momentum": ("optimizer", "muon"), "rope_base": ("positions", "rotary")}

# What a model that is there already decides. Dropout and recomputation belong to the training, and a window can be shorter
# than the context.
OF_THE_TRAINING = ("block_size", "dropout", "recompute")
FIXED_BY_MODEL = [spec.name for spec in fields(TrainConfig)
                  if spec.name in DecoderConfig.__dataclass_fields__ and spec.name not in OF_THE_TRAINING]


def _fits(value: Any, wanted: Any) -> bool:
    """Whether a value, as from JSON, is of the annotated type. A whole number will do for a float; True is no number."""
    options = get_args(wanted)
    if get_origin(wanted) is Literal:
        return value in options
    if options:
        return any(_fits(value, option) for option in options)
    if wanted is float:
        return type(value) in (int, float)
    return type(value) is wanted


def _wording(wanted: Any, name: str) -> str:
    if get_origin(wanted) is Literal:
        return " or ".join(map(str, get_args(wanted)))
    kinds = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", type(None): "nothing"}
    return " or ".join(kinds[option] for option in get_args(wanted) or (wanted,))


PRESETS = {
    # Whatever the stories repeat was said at most 64 characters before, so that is what an evaluation window begins with.
    "tiny": TrainConfig(),
    # Muon for the matrices in the blocks, everything else as it is common today: benchmarks/laptop.md has the runs.
    "laptop": TrainConfig(
        preset="laptop", text="tinyshakespeare", block_size=128, n_layer=4, n_head=2, n_embd=128, tied=False,
        optimizer="muon", steps=1300, batch_size=12, muon_lr=0.012, muon_momentum=0.8, lr=6e-3, beta2=0.95, warmup=20,
        schedule="linear", eval_overlap=0, eval_every=200, eval_batches=20, sample_every=700, checkpoint_every=200),
    "baby": TrainConfig(
        preset="baby", text="tinyshakespeare", block_size=256, n_layer=6, n_head=6, n_embd=384, dropout=0.2,
        optimizer="adamw", steps=5000, batch_size=8, lr=1e-3, min_lr=1e-4, warmup=100, eval_overlap=0, eval_every=250,
        eval_batches=20, sample_every=1000,
        checkpoint_every=100),
    # nanoGPT's published settings for a CPU.
    "nanogpt-char-cpu": TrainConfig(
        preset="nanogpt-char-cpu", text="tinyshakespeare", block_size=64, n_layer=4, n_head=4, n_embd=128,
        norm="layer", ffn="gelu", positions="learned", qk_norm=False, zero_init=False,
        optimizer="adamw", steps=2000, batch_size=12, lr=1e-3, min_lr=1e-4, warmup=100, eval_overlap=0.5, eval_every=250,
        eval_batches=20, sample_every=1000,
        checkpoint_every=250),
}
