"""Beam search: the `width` most probable beginnings are followed at once, in place of the one that looks best so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .generate import check_decodes, evaluating, going_on, whole_numbers


@dataclass(frozen=True)
class Hypothesis:
    """A text that a search has found."""

    ids: tuple[int, ...]  # the new tokens, without the one that ended them
    ended: bool  # by the end token; if not, by their number
    log_probability: float  # nats, of all new tokens, the end token among them
    score: float  # log_probability / tokens ** length_penalty, the end token counted


def beam_search(model: Any, ids: Any, n: int, *, end: int, width: int = 4, length_penalty: float = 1.0,
                early_stop: bool = True, cache: bool = True) -> list[Any]:
    """(T,) -> at most `width` texts of at most n new tokens, the best first; (B, T) -> such a list for each of B searches

    model: a decoder, or `Reader(model, sources)` of an encoder-decoder, whose ids are the start token, once for each source. A
    text that has ended keeps its place among the `width`, so the search narrows: with width 1 it is greedy, and with as many
    as there are texts it tries them all. Every token makes a text less probable; length_penalty 0 compares the probabilities
    as they are, 1 those per token, and more favours long texts. early_stop ends a search when no text that goes on can still
    beat the best one that has ended: the first of the list is the same then, the others may be fewer. All beams of all
    searches go through the model side by side, until their search is over.
    """
    check_decodes(model, "beam_search")
    several = isinstance(ids, (list, tuple, np.ndarray)) and np.ndim(ids[0] if len(ids) else 0) > 0
    prompts = [whole_numbers(row, "the ids that a search starts from") for row in (ids if several else [ids])]
    if len(set(map(len, prompts))) != 1 or not len(prompts[0]):
        raise ValueError("a search starts from one token at least, and several searches from as many each")
    whole_numbers([end], "end tokens")
    whole_numbers([width, n], "width and n")
    if width < 1 or n < 1 or not 0 <= length_penalty < np.inf:
        raise ValueError(f"width and n are at least 1 and length_penalty at least 0, not {width}, {n} and {length_penalty}")
    size = model.config.block_size
    if len(prompts[0]) + n - 1 > size:
        raise ValueError(f"{len(prompts[0])} tokens and {n} new ones do not fit the context, block_size={size}")

    searches = [_Search(prompt[None], n, end, width, length_penalty, early_stop) for prompt in prompts]
    kept = model.new_cache(batch=len(searches)) if cache else None
    going = searches
    for step in range(1, n + 1):
        texts = np.concatenate([each.alive for each in going])
        with evaluating(model):
            logits = model(texts) if kept is None else model(texts[:, kept.length :], cache=kept)
        logs, first, rows = _log_softmax(logits.numpy()[:, -1], step), 0, []
        for each in going:
            last = first + len(each.alive)
            rows.append(first + each.step(logs[first:last], step))
            first = last
        going = [each for each in going if len(each.alive)]
        if not going:
            break
        chosen = np.concatenate(rows)
        model = going_on(model, chosen)
        if kept is not None:
            kept.take(chosen)
    found = [sorted(each.done, key=lambda one: -one.score) for each in searches]
    return found if several else found[0]


class _Search:
    """The beams of one prompt (1, T): `alive` (k, T) go on, `done` have ended."""

    def __init__(self, prompt: np.ndarray, n: int, end: int, width: int, length_penalty: float, early_stop: bool):
        self.alive, self.total = prompt, np.zeros(1)  # (k, T), (k,) nats
        self.done: list[Hypothesis] = []
        self.n, self.end, self.width, self.length_penalty, self.early_stop = n, end, width, length_penalty, early_stop
        self.first = prompt.shape[1]

    def step(self, logs: np.ndarray, step: int) -> np.ndarray:
        """Log-probabilities (k, V) of new token number `step` -> the rows (k',) from which the beams go on; none at the end."""
        scores = self.total[:, None] + logs
        best = np.argsort(-scores, axis=None, kind="stable")[: self.width - len(self.done)]
        rows, tokens = np.unravel_index(best, scores.shape)
        total = scores[rows, tokens]
        alive = np.concatenate([self.alive[rows], tokens[:, None]], axis=1)

        over = (tokens == self.end) | (step == self.n)
        for text, nats in zip(alive[over], total[over].tolist()):
            new, ended = text[self.first :].tolist(), bool(text[-1] == self.end)
            score = nats / step**self.length_penalty
            self.done.append(Hypothesis(tuple(new[:-1] if ended else new), ended, nats, score))
        rows, alive, total = rows[~over], alive[~over], total[~over]
        if len(total) and self.early_stop and self.done:
            possible = total.max() / self.n**self.length_penalty  # if all that follows is certain, and as long as it may be
            if max(each.score for each in self.done) >= possible:
                rows, alive, total = rows[:0], alive[:0], total[:0]
        self.alive, self.total = alive, total
        return rows


def _log_softmax(logits: np.ndarray, step: int) -> np.ndarray:
    """(k, V) -> (k, V) float64"""
    z = logits.astype(np.float64)
    if not np.isfinite(z).all():
        raise ValueError(f"new token {step}: the logits are not finite")
    z -= z.max(axis=1, keepdims=True)
    return z - np.log(np.exp(z).sum(axis=1, keepdims=True))
