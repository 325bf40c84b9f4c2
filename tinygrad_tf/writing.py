"""Text in, text out: a decoder goes on from several prompts at once, and stops where a stop string appears.

A stop string is looked for in the text and not among the tokens, because a tokenizer may cut it in more than one way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from .generate import generate


def until(pieces: Iterable[str], stops: Sequence[str]) -> Iterator[str]:
    """The pieces of a text as they come, up to the first stop string, without it.

    The end of what has come is held back as long as it may be the beginning of a stop string. The string that is complete
    first counts; of those complete at the same character, the longest.
    """
    if isinstance(stops, str) or not all(stops):
        raise ValueError(f"stop strings are a list of strings that are not empty, not {stops!r}")
    return _until(pieces, stops)


def _until(pieces: Iterable[str], stops: Sequence[str]) -> Iterator[str]:
    held = ""
    for piece in pieces:
        for character in piece:
            held += character
            if found := [stop for stop in stops if held.endswith(stop)]:
                if before := held[: -max(map(len, found))]:
                    yield before
                return
        begun = max((i for stop in stops for i in range(1, len(stop)) if held.endswith(stop[:i])), default=0)
        if begun < len(held):
            yield held[: len(held) - begun]
            held = held[len(held) - begun :]
    if held:
        yield held


def write(model: Any, vocabulary: Any, prompts: Sequence[str], n: int, *, stops: Sequence[str] = (), **how: Any) -> list[str]:
    """What the model writes after each prompt: at most n tokens, and nothing from the first stop string on.

    `how`: the settings of `generate`. A text is over after a stop string, or a stop token: those of the vocabulary, as a public
    checkpoint has them, if `stop` says nothing else. It ends when every text is.
    """
    ends = np.atleast_1d(how.setdefault("stop", vocabulary.ends))
    if isinstance(prompts, str) or not all(prompts):
        raise ValueError("prompts are a list of texts that are not empty: write(model, vocabulary, [text], n), "
                         f"not {prompts!r}")  # fmt: skip
    if not prompts:
        return []
    new: list[list[int]] = [[] for _ in prompts]
    texts = [""] * len(prompts)
    over = [False] * len(prompts)
    for tokens in generate(model, [vocabulary.encode(prompt) for prompt in prompts], n, **how):
        for i, token in enumerate(tokens.tolist()):
            if not over[i]:
                new[i].append(token)
                whole = vocabulary.decode(new[i])
                texts[i] = "".join(until([whole], stops))
                over[i] = any(stop in whole for stop in stops) or token in ends
        if all(over):
            break
    return texts
