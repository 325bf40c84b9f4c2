"""From a model to a folder in the public names, which other programs read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ..checkpoint import write_atomically
from .configs import CONFIG, END, public_config
from .layouts import LAYOUTS, with_prefix
from .weightfiles import INDEX, WEIGHTS, PretrainedError

TOKENIZER = "tokenizer.json"


def export(model: Any, folder: str | Path, layout: str, tokenizer: Any = None) -> None:
    """Write model.safetensors and config.json in the names of `layout` (gpt2, bert, llama); tokenizer.json if there is one.

    Raises PretrainedError, with nothing written, for a model that is something else than what the layout can say, and for
    a folder that already holds weights.
    """
    from safetensors.numpy import save

    folder = Path(folder)
    words: Any = getattr(tokenizer, "to_json", dict)()  # of a Vocabulary, a list
    if tokenizer is not None and (not isinstance(words, dict) or TOKENIZER not in words):
        raise PretrainedError(f"only a Tokenizer can be exported, not a {type(tokenizer).__name__}; leave it out, "
                              "and the weights and their configuration are written without one")  # fmt: skip
    values = public_config(model.config, layout)
    if tokenizer is not None and tokenizer.ends:
        values[END] = tokenizer.ends[0] if len(tokenizer.ends) == 1 else list(tokenizer.ends)
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
        write_atomically(folder / TOKENIZER, words[TOKENIZER])
