"""The state of a training run, and its way into a checkpoint and back."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import checkpoint
from .checkpoint import CheckpointError
from .models.decoder import Decoder, DecoderConfig
from .nn import Dropout
from .optim import AdamW, Muon, Optimizer, Together
from .pretrained.tokenizer import Tokenizer
from .runfolder import CHECKPOINT, checkpoint_in
from .settings import TrainConfig
from .text import Vocabulary

STREAMS = ("init", "batches", "dropout", "evaluation", "sampling")


@dataclass(repr=False)
class Run:
    """Everything that training changes. A checkpoint holds exactly this, so a resumed run goes on as if never stopped."""

    config: TrainConfig
    vocabulary: Vocabulary | Tokenizer
    text_sha256: str  # of the text that it learns from
    streams: dict[str, np.random.Generator]  # one source of random numbers for each of STREAMS
    model: Decoder
    optimizer: Optimizer | Together
    names: list[str]  # of the parameters, in the optimizer's order
    step: int  # optimizer steps done
    history: list[dict[str, Any]]  # the lines of metrics.jsonl
    sample: str  # the last text it wrote
    start: str  # what its samples go on from
    threads: int = 0  # those that shared the sequences of a batch last; 0: none has been seen yet

    def __repr__(self) -> str:
        size = sum(p.numel() for p in self.model.parameters())
        words = f"{len(self.vocabulary)} {self.vocabulary.unit}s"
        return f"Run of {type(self.model).__name__}: {size:,} parameters, {self.step:,} steps, {words}"

    @classmethod
    def new(cls, config: TrainConfig, vocabulary: Vocabulary | Tokenizer, text_sha256: str, start: str = "",
            model: Decoder | None = None) -> Run:
        """A run before its first step; `config.seed` decides every random number that it will ever draw.

        model: one that has learned something already; None: a new one, as the configuration says.
        """
        seeds = np.random.SeedSequence(config.seed).spawn(len(STREAMS))
        streams = {name: np.random.default_rng(seed) for name, seed in zip(STREAMS, seeds)}
        model = model or Decoder(config.decoder(len(vocabulary)), streams["init"])
        for module in model.modules():
            if isinstance(module, Dropout):
                module.generator = streams["dropout"]
        optimizer, names = _optimizer(config, model)
        return cls(config, vocabulary, text_sha256, streams, model, optimizer, names, 0, [], "",
                   start or vocabulary.default_start())

    def pack(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """(arrays, JSON values): all that `unpack` needs. The arrays share memory with the model and the optimizer."""
        moments, rest = checkpoint.pack_optimizer(self.optimizer, self.names)
        return {**checkpoint.pack_model(self.model), **moments}, {
            "config": self.config.to_json(), "vocabulary": self.vocabulary.to_json(), "text_sha256": self.text_sha256,
            "streams": {name: generator.bit_generator.state for name, generator in self.streams.items()},
            "optimizer": rest, "step": self.step, "history": self.history, "sample": self.sample,
            "start": self.start, "threads": self.threads,
            **({"decoder": asdict(self.model.config)} if self.config.init_from else {}),
        }

    @classmethod
    def unpack(cls, tensors: dict[str, np.ndarray], state: dict[str, Any]) -> Run:
        """The run that was packed, in memory of its own. Raises several kinds of error for what `pack` would not give."""
        moments = {name: array for name, array in tensors.items() if name.startswith("optimizer.")}
        tensors = {name: array for name, array in tensors.items() if name not in moments}
        config, words = TrainConfig.from_json(state["config"]), state["vocabulary"]
        vocabulary = Tokenizer.from_json(words) if isinstance(words, dict) else Vocabulary.from_json(words)
        # A model that came from elsewhere has settings that no run has.
        decoder = DecoderConfig(**state["decoder"]) if config.init_from else config.decoder(len(vocabulary))
        _check_size(decoder, len(vocabulary), tensors)
        model = Decoder(decoder) if config.init_from else None
        run = cls.new(config, vocabulary, state["text_sha256"], state.get("start", ""), model)  # an older one has none
        for name, generator in run.streams.items():
            generator.bit_generator.state = state["streams"][name]
        checkpoint.unpack_model(run.model, tensors)
        checkpoint.unpack_optimizer(run.optimizer, run.names, moments, state["optimizer"])
        run.step, run.history, run.sample = state["step"], state["history"], state["sample"]
        run.threads = state.get("threads", 0)
        _check_history(run)
        vocabulary.encode(run.start)
        return run

    def save(self, folder: Path) -> None:
        """Write the checkpoint into the run folder, whole or not at all. Raises OSError."""
        checkpoint.save(folder / CHECKPOINT, *self.pack())

    @classmethod
    def load(cls, path: Path) -> Run:
        """Raises CheckpointError, one line, for a file that is missing, damaged or foreign, or does not fit together."""
        packed = checkpoint.load(path / CHECKPOINT if path.is_dir() else path)
        try:
            return cls.unpack(*packed)
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise CheckpointError(f"{path}: {error}") from None


def _optimizer(c: TrainConfig, model: Decoder) -> tuple[Optimizer | Together, list[str]]:
    """The optimizer, and the names of its parameters in its order. Each group's `peak` is the learning rate of its schedule.

    Decay pulls towards zero, which is right for a matrix and wrong for a gain.
    """
    named = dict(model.named_parameters())
    inner = {name: p for name, p in named.items() if p.ndim == 2 and name.startswith("blocks.") and c.optimizer == "muon"
             and not name.endswith("positions.weight")}  # a table of numbers for scores maps nothing to anything
    matrices = {name: p for name, p in named.items() if p.ndim >= 2 and name not in inner}
    vectors = {name: p for name, p in named.items() if p.ndim < 2}
    groups = [{"params": matrices.values(), "weight_decay": c.weight_decay}, {"params": vectors.values(), "weight_decay": 0.0}]
    adamw = AdamW(groups, lr=c.lr, betas=(c.beta1, c.beta2))
    optimizer: Optimizer | Together = adamw
    if inner:
        optimizer = Together(Muon(inner.values(), c.muon_lr, c.weight_decay, c.muon_momentum), adamw)
    for group in optimizer.param_groups:
        group["peak"] = group["lr"]
    return optimizer, [*inner, *matrices, *vectors]


def _check_size(c: DecoderConfig, words: int, tensors: dict[str, np.ndarray]) -> None:
    """A stranger's file may describe a model that fills the memory; the numbers it really has are a bound."""
    if (c.vocab_size or 0) < words:
        raise CheckpointError(f"its vocabulary has {words} entries, its model {c.vocab_size}")
    rows = (c.vocab_size or 0) + c.n_layer * (c.n_embd + c.hidden) + (c.block_size if c.positions == "learned" else 0)
    held = sum(array.size for array in tensors.values())  # and each block has an entry of its own, however narrow it is
    if rows * c.n_embd > held or c.n_layer > len(tensors):
        raise CheckpointError(f"its configuration describes a model of more than the {held} numbers in the file")


def _check_history(run: Run) -> None:
    numbers = [value for line in run.history for value in line.values()]
    counts, texts = (run.step, run.threads), (run.sample, run.start)
    types = [(counts, (int,)), (texts, (str,)), (numbers, (int, float))]
    if any(type(value) not in kinds for values, kinds in types for value in values):
        raise CheckpointError("its step, threads, history, sample or start is not what training writes")


def load_model(run: str | Path) -> tuple[Decoder, Vocabulary | Tokenizer]:
    """The model of a run (its folder or its checkpoint file), in evaluation mode, and its vocabulary."""
    loaded = Run.load(checkpoint_in(Path(run)))
    loaded.model.eval()
    return loaded.model, loaded.vocabulary
