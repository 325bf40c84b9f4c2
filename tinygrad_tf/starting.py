"""What a training run starts from, if not from nothing: a model that has learned something already."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from . import checkpoint
from .models.decoder import Decoder
from .pretrained.configs import CONFIG
from .pretrained.loading import load_pretrained
from .pretrained.tokenizer import Tokenizer, load_tokenizer
from .run import Run
from .runfolder import CHECKPOINT, RunError
from .settings import TrainConfig
from .text import Vocabulary


def learned(config: TrainConfig) -> tuple[TrainConfig, Decoder, Vocabulary | Tokenizer]:
    """The model and the vocabulary of `config.init_from`, and the configuration with that model's settings.

    It is a run (its folder or its checkpoint), whose characters stay the only ones; or a folder with a public checkpoint and
    its tokenizer, which encodes the text. What is not done: to train an encoder, or to give a model another vocabulary.
    """
    place = Path(config.init_from or "").absolute()
    if place.is_file() or (place / CHECKPOINT).is_file():
        try:
            model, vocabulary = _of_run(place if place.is_file() else place / CHECKPOINT, config.dropout)
        except checkpoint.NoCheckpoint as error:
            raise RunError(f"--init-from: {error}, or of weights") from None
    elif (place / CONFIG).is_file():
        model, vocabulary = _of_public(place, config.dropout)
    else:
        what = f"holds no {CHECKPOINT} of a run, no {CONFIG} of a public checkpoint" if place.is_dir() else "is not there"
        raise RunError(f"--init-from: {config.init_from} {what}; name the folder of a run, such as runs/tiny-1, or of weights")
    longest = model.config.block_size
    if config.block_size > longest:
        raise RunError(f"--block-size {config.block_size} is more than the context of {config.init_from}, {longest} "
                       f"{vocabulary.unit}s; give --block-size {longest} or less")  # fmt: skip
    model.config = replace(model.config, recompute=config.recompute)
    return config.changed(init_from=str(place)).of_model(model.config), model, vocabulary


def _of_run(path: Path, dropout: float) -> tuple[Decoder, Vocabulary | Tokenizer]:
    run = Run.load(path)
    model = Decoder(replace(run.model.config, dropout=dropout))
    checkpoint.unpack_model(model, checkpoint.pack_model(run.model))
    return model, run.vocabulary


def _of_public(folder: Path, dropout: float) -> tuple[Decoder, Tokenizer]:
    model = load_pretrained(folder, dropout)
    if not isinstance(model, Decoder):
        raise RunError(f"{folder} holds an encoder, and this training is that of decoders; embed() makes vectors with it")
    tokenizer = load_tokenizer(folder)
    if len(tokenizer) > (model.config.vocab_size or 0):
        raise RunError(f"{folder}: its tokenizer has {len(tokenizer)} entries, its model {model.config.vocab_size}: "
                       "they do not belong together")  # fmt: skip
    return model.train(), tokenizer
