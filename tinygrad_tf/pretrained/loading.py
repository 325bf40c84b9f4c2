"""From a folder with a public checkpoint to a model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..models import Decoder, Encoder, TransformerConfig
from ..models.ledger import count
from ..nn import init
from .configs import CONFIG, read_config
from .layouts import LAYOUTS, Layout, Part, without_prefix
from .weightfiles import BYTES, PretrainedError, Weights


def load_pretrained(folder: str | Path, dropout: float = 0.0) -> Any:
    """The model of a folder with config.json and safetensors files: GPT-2, Llama or Mistral (a Decoder), BERT (an Encoder).

    Names are the public ones, with or without their prefix, in one file or in shards with an index. The model is in
    evaluation mode; `dropout` is for training it, since the files speak of several kinds. A BERT has no head: its vectors are
    model.hidden(ids, mask), and model.pooled(ids, mask) if the file has the pooler.

    Parameters of float32 files show the mapped memory of the file: nothing is copied, and pages that are not looked at are
    not read. Writing into one changes this process's copy of the page, never the file; an optimizer moves its parameters into
    memory of its own. Half-precision files are widened to float32. While the model is in use the file must not be
    overwritten in place; replacing it by renaming, as all writers here do, is harmless.

    Raises PretrainedError, one line, before the first parameter is set: with every entry that is missing, extra, of the wrong
    shape, or of a kind that is no number of a model. Nothing in the folder is run, and no file outside of it is read, except
    where the folder itself holds a link.
    """
    folder = Path(folder)
    weights = Weights(folder)
    kind, config = read_config(folder)
    layout = LAYOUTS[kind]
    names = without_prefix(layout, list(weights.entries))
    config = replace(config, dropout=dropout, pooler=config.pooler and "pooler.dense.weight" in names)
    model = _empty(config, weights)
    parts = list(layout.parts(config))
    own = dict(model.state_dict())
    problems = [*_misfits(parts, own, weights, names), *_extra(layout, parts, config, weights, names)]
    if problems:
        raise PretrainedError(f"{folder} does not fit its {CONFIG}: " + "; ".join(problems))
    parameters = dict(model.named_parameters())
    for part in parts:
        array = weights.read(names[part.theirs])
        array = array.T if part.turned else array  # a view, as are the pieces
        for name, piece in zip(part.ours, np.split(array, len(part.ours))):
            parameters[name].data = piece
    return model.eval()


def _empty(config: TransformerConfig, weights: Weights) -> Any:
    """The model, its matrices without values and, until they get some, without memory."""
    needed = count(config)
    # A few missing entries are told one by one; this much is another model.
    if needed > 2 * weights.held or config.n_layer > len(weights.entries):
        raise PretrainedError(f"{weights.folder / CONFIG} describes a model of {needed:,} numbers, the files beside it hold "
                              f"{weights.held:,}: they do not belong together, or a file is missing")  # fmt: skip
    with init.skipped():
        return Encoder(config, head=False) if config.arrangement == "encoder" else Decoder(config)


def _misfits(parts: list[Part], own: dict[str, Any], weights: Weights, names: dict[str, str]) -> Iterator[str]:
    for part in parts:
        if part.theirs not in names:
            yield f"missing {part.theirs}"
            continue
        entry = weights.entries[names[part.theirs]]
        first, rest = own[part.ours[0]].shape[0], own[part.ours[0]].shape[1:]
        shape = (len(part.ours) * first, *rest)
        shape = shape[::-1] if part.turned else shape
        if entry.shape != shape:
            yield f"{part.theirs} has shape {entry.shape}, by {CONFIG} it is {shape}"
        if entry.kind not in BYTES:
            yield f"{part.theirs} holds {entry.kind}, which is none of {', '.join(BYTES)}"


def _extra(layout: Layout, parts: list[Part], config: TransformerConfig, weights: Weights,
           names: dict[str, str]) -> Iterator[str]:
    known = {part.theirs for part in parts}
    for short, name in names.items():
        if short in known or re.fullmatch(layout.ignored, short):
            continue
        if short == "lm_head.weight" and layout.tied in names and config.tied:  # some files write the one matrix twice
            table = names[layout.tied]
            readable = all(weights.entries[each].kind in BYTES for each in (name, table))
            if readable and not np.array_equal(weights.read(name), weights.read(table)):
                yield f"{short} and {layout.tied} differ, by {CONFIG} they are one matrix"
        else:
            yield f"unexpected {name}"
