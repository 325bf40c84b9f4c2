"""Three small tasks that a minute of training solves, and the short loop that trains on them.

    reversing     "stream" -> "maerts"                   an encoder-decoder: where to look is all there is to learn
    counting      "four hundred twelve" -> "412"         an encoder-decoder: what to look at, and what it means there
    hiding        "the f?x was c?ld" -> "o", "o"         an encoder: a hidden character, told by both of its sides
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .data import IGNORE
from .generate import padded
from .nn.utils import clip_grad_norm_
from .optim import AdamW, Muon, Together, warmup_cosine
from .text import Vocabulary

PAD, START, END, HIDDEN = "_^$?"  # characters that no task's own texts hold
LETTERS = "abcdefghijklmnopqrstuvwxyz"
ONES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen",
        "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]  # fmt: skip
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]

Pair = tuple[str, str]
Batch = Callable[[np.random.Generator], tuple[Any, ...]]  # what model.loss takes


# ------------------------------------------------------------------------------------------------ pairs of texts


def reversing(n: int, generator: np.random.Generator, longest: int = 12) -> list[Pair]:
    """n different strings of 1 to `longest` letters, each with its reverse, in random order. ValueError if there are fewer."""
    there = sum(len(LETTERS) ** length for length in range(1, longest + 1))
    if not 0 <= n <= there:
        raise ValueError(f"n={n}: there are {there:,} different strings of 1 to {longest} letters")
    found: dict[str, None] = {}
    while len(found) < n:
        found["".join(generator.choice(list(LETTERS), generator.integers(1, longest + 1)))] = None
    # The few short ones are all found early: without a shuffle, the first pairs would hold every one of them.
    return [(text, text[::-1]) for text in generator.permutation(list(found)).tolist()]


def counting(stop: int, generator: np.random.Generator) -> list[Pair]:
    """The numbers below `stop`, at most a million, in words and in digits, in a random order."""
    return [(in_words(int(i)), str(i)) for i in generator.permutation(stop)]


def in_words(i: int) -> str:
    """412 -> "four hundred twelve"   for 0 to 999,999"""
    if not 0 <= i < 1_000_000:
        raise ValueError(f"the words go from 0 to 999,999, not to {i}")
    for unit, name in (1000, "thousand"), (100, "hundred"):
        if i >= unit:
            rest = f" {in_words(i % unit)}" if i % unit else ""
            return f"{in_words(i // unit)} {name}{rest}"
    if i < 20:
        return ONES[i]
    return TENS[i // 10 - 2] + (f" {ONES[i % 10]}" if i % 10 else "")


def vocabulary_of(pairs: Sequence[Pair]) -> Vocabulary:
    """Every character of the pairs, and those that mark padding, the start and the end of a target."""
    return Vocabulary({PAD, START, END}.union(*(set(a + b) for a, b in pairs)))


def pair_batches(pairs: Sequence[Pair], vocabulary: Vocabulary, size: int) -> Batch:
    """Batches of `size` random pairs: source (B, S), ids (B, T), targets (B, T), source_mask (B, S).

    A length of target comes as often as the square root of the number of pairs that have it. Short texts are few; as often as
    any other they would hardly come at all, and not be learned.
    """
    sources = [vocabulary.encode(a) for a, _ in pairs]
    targets = [vocabulary.encode(START + b + END) for _, b in pairs]
    lengths = np.array([len(target) for target in targets])
    weights = np.bincount(lengths)[lengths] ** -0.5
    reached = np.cumsum(weights / weights.sum())

    def batch(generator: np.random.Generator) -> tuple[Any, ...]:
        chosen = np.minimum(np.searchsorted(reached, generator.random(size), side="right"), len(pairs) - 1)
        source, mask = padded([sources[i] for i in chosen])
        ids, real = padded([targets[i] for i in chosen])
        return source, ids[:, :-1], np.where(real, ids, IGNORE)[:, 1:], mask  # each position is asked for the next one

    return batch


# ------------------------------------------------------------------------------------------------ hidden characters


def hide(ids: np.ndarray, hidden: int, share: float, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """ids (B, T) -> ids with a share of them replaced by `hidden`, and targets that are IGNORE everywhere else."""
    chosen = generator.random(ids.shape) < share
    chosen[:, 0] |= ~chosen.any(axis=1)  # a row without one would ask for nothing
    return np.where(chosen, hidden, ids), np.where(chosen, ids, IGNORE)


def hidden_batches(text: np.ndarray, hidden: int, size: int, length: int, share: float = 0.15) -> Batch:
    """Batches of `size` random windows of text (n,): ids (B, T), targets (B, T)."""

    def batch(generator: np.random.Generator) -> tuple[Any, ...]:
        starts = generator.integers(0, len(text) - length + 1, size)
        return hide(text[starts[:, None] + np.arange(length)].astype(np.int64), hidden, share, generator)

    return batch


def entropy_of_characters(text: np.ndarray) -> float:
    """Nats per character for whoever knows how often each comes, and nothing of its neighbours."""
    p = np.unique(text, return_counts=True)[1] / len(text)
    return float(-(p * np.log(p)).sum())


# ------------------------------------------------------------------------------------------------ the loop


def fit(model: Any, batch: Batch, steps: int, generator: np.random.Generator, lr: float = 3e-3, muon_lr: float = 0.02,
        clip: float = 1.0) -> list[float]:
    """Train `model` for so many batches; the loss of each step. Muon moves the matrices in the blocks, AdamW the rest."""
    named = dict(model.named_parameters())
    inner = [p for name, p in named.items() if p.ndim == 2 and "blocks." in name]
    others = [p for name, p in named.items() if p.ndim != 2 or "blocks." not in name]
    optimizer = Together(Muon(inner, lr=muon_lr), AdamW(others, lr=lr, betas=(0.9, 0.99), weight_decay=0.0))
    peaks = [group["lr"] for group in optimizer.param_groups]
    losses = []
    for step in range(steps):
        share = warmup_cosine(step, lr=1.0, warmup=min(50, steps // 10), total=steps)
        for group, peak in zip(optimizer.param_groups, peaks):
            group["lr"] = share * peak
        loss = model.loss(*batch(generator))
        optimizer.zero_grad()
        loss.backward()
        norm = clip_grad_norm_(list(named.values()), clip)
        losses.append(loss.item())
        if not math.isfinite(losses[-1] + norm):
            raise ValueError(f"the loss is {losses[-1]} and its gradient {norm} long at step {step + 1}: a smaller lr helps")
        optimizer.step()
    return losses
