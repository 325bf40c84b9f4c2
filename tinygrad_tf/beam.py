"""Beam search: the `width` most probable beginnings are followed at once, in place of the one that looks best so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .generate import evaluating


@dataclass(frozen=True)
class Hypothesis:
    """A text that a search has found."""

    ids: tuple[int, ...]  # the new tokens, without the one that ended them
    ended: bool  # by the end token; if not, by their number
    log_probability: float  # nats, of all new tokens, the end token among them
    score: float  # log_probability / tokens ** length_penalty, the end token counted


def beam_search(model: Any, ids: Any, n: int, *, end: int, width: int = 4, length_penalty: float = 1.0,
                early_stop: bool = True, cache: bool = True) -> list[Hypothesis]:
    """(T,) -> at most `width` texts of at most n new tokens, the best first

    model: a decoder, or `Reader(model, [source])` of an encoder-decoder, whose ids are the one start token. A text that has
    ended keeps its place among the `width`, so the search narrows: with width 1 it is greedy, and with as many as there are
    texts it tries them all. Every token makes a text less probable; length_penalty 0 compares the probabilities as they are,
    1 those per token, and more favours long texts. early_stop ends the search when no text that goes on can still beat the
    best one that has ended: the first of the list is the same then, the others may be fewer.
    """
    prompt = np.asarray(ids)
    if prompt.ndim != 1 or not prompt.size or prompt.dtype.kind not in "iu":
        raise ValueError(f"a search starts from whole numbers (T,), T at least 1, not {prompt.dtype} of shape {prompt.shape}")
    if width < 1 or n < 1 or not 0 <= length_penalty < np.inf:
        raise ValueError(f"width and n are at least 1 and length_penalty at least 0, not {width}, {n} and {length_penalty}")
    size = model.config.block_size
    if len(prompt) + n - 1 > size:
        raise ValueError(f"{len(prompt)} tokens and {n} new ones do not fit the context, block_size={size}")

    kept = model.new_cache() if cache else None
    alive, total = prompt[None].astype(np.int64), np.zeros(1)  # (k, T), (k,) nats
    done: list[Hypothesis] = []
    for step in range(1, n + 1):
        with evaluating(model):
            logits = model(alive) if kept is None else model(alive[:, kept.length :], cache=kept)
        scores = total[:, None] + _log_softmax(logits.numpy()[:, -1], step)  # (k, V)
        best = np.argsort(-scores, axis=None, kind="stable")[: width - len(done)]
        rows, tokens = np.unravel_index(best, scores.shape)
        total = scores[rows, tokens]
        alive = np.concatenate([alive[rows], tokens[:, None]], axis=1)

        over = (tokens == end) | (step == n)
        for text, nats in zip(alive[over], total[over].tolist()):
            new, ended = text[len(prompt) :].tolist(), bool(text[-1] == end)
            done.append(Hypothesis(tuple(new[:-1] if ended else new), ended, nats, nats / step**length_penalty))
        rows, alive, total = rows[~over], alive[~over], total[~over]
        if not len(alive):
            break
        possible = total.max() / n**length_penalty  # if all that follows is certain, and the text as long as it may be
        if early_stop and done and max(each.score for each in done) >= possible:
            break
        if kept is not None:
            kept.take(rows)
    return sorted(done, key=lambda each: -each.score)


def _log_softmax(logits: np.ndarray, step: int) -> np.ndarray:
    """(k, V) -> (k, V) float64"""
    z = logits.astype(np.float64)
    if not np.isfinite(z).all():
        raise ValueError(f"new token {step}: the logits are not finite")
    z -= z.max(axis=1, keepdims=True)
    return z - np.log(np.exp(z).sum(axis=1, keepdims=True))
