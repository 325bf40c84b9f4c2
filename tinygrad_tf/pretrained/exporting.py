"""From a model to a folder in the public names, which other programs read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ..checkpoint import write_atomically
from .configs import CONFIG, public_config
from .layouts import LAYOUTS, with_prefix
from .weightfiles import INDEX, WEIGHTS, PretrainedError


def export(model: Any, folder: str | Path, layout: str, tokenizer: Any = None) -> None:
    """Write model.safetensors and config.json in the names of `layout` (gpt2, bert, llama); tokenizer.json if there is one.

    Raises PretrainedError, with nothing written, for a model that is something else than what the layout can say, and for
    a folder that already holds weights.
    """
    from safetensors.numpy import save

    folder = Path(folder)
    values = public_config(model.config, layout)
    own = model.state_dict()
    tensors, told = {}, set()
    for part in LAYOUTS[layout].parts(model.config):
        array = np.concatenate([own[name].array for name in part.ours]) if len(part.ours) > 1 else own[part.ours[0]].array
        array = array.T if part.turned else array
        tensors[with_prefix(LAYOUTS[layout], part.theirs)] = np.ascontiguousarray(array, "<f4")
        told |= {id(own[name].array) for name in part.ours}
    left = [name for name, tensor in own.items() if id(tensor.array) not in told]
    if left:
        raise PretrainedError(f"the layout {layout} has no place for {', '.join(left)}")
    if any((folder / name).exists() for name in (WEIGHTS, INDEX, CONFIG)):
        raise PretrainedError(f"{folder} already holds a checkpoint; name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / WEIGHTS, save(tensors, {"format": "pt"}))  # without this mark other readers refuse the file
    write_atomically(folder / CONFIG, json.dumps(values, indent=2) + "\n")
    if tokenizer is not None:
        write_atomically(folder / "tokenizer.json", tokenizer.to_json()["tokenizer.json"])
