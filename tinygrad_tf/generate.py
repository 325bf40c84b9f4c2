"""From logits to text: temperature, top-k, top-p, greedy, and the loop that feeds each token back.

The rule for long texts: the context of every new token is the last `block_size` tokens. While the text still fits, the
KV cache holds what was computed for it and each token costs one position. Once it does not fit, the window moves with
every token; then each position of the window stands somewhere else and rests on other tokens than before, nothing that
was kept is valid any more, and the whole window is computed again for every token.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from inspect import signature
from operator import itemgetter
from typing import Any

import numpy as np

from .engine import no_grad
from .errors import real, shown, whole
from .steps import Steps

TOP_P_PRECISION = 1e-7  # float32 logits tell probabilities no better: 0.5 + 0.3 reaches 0.8


@dataclass
class GenerationStats:
    """What one `generate` call has cost so far, in positions of one sequence run through the model."""

    computed: int = 0  # positions run through the model
    recomputed: int = 0  # those among them that had been computed before
    reused: int = 0  # positions read from the cache in place of computing them
    cache_bytes: int = 0  # memory of the cache at its largest


def check_sampling(temperature: float, top_k: int | None, top_p: float | None) -> None:
    """Raises ValueError or TypeError for settings that `sample_token` does not take."""
    if not 0 <= real("temperature", temperature, -np.inf) < np.inf:
        raise ValueError(f"temperature must be 0 (greedy) or a positive number, not {temperature}")
    if top_k is not None and whole("top_k", top_k) < 1:
        raise ValueError(f"top-k must be a whole number, at least 1, not {top_k}")
    if top_p is not None and not 0 < real("top_p", top_p, -np.inf) <= 1:
        raise ValueError(f"top-p must be above 0, and at most 1, which keeps every token, not {top_p}")


def probabilities(logits: np.ndarray, temperature: float = 1.0, top_k: int | None = None,
                  top_p: float | None = None) -> np.ndarray:
    """(V,) -> (V,) float64   the distribution that `sample_token` draws from.

    Softmax of logits / temperature; then only the `top_k` most probable tokens; then only the shortest run of the most
    probable whose sum reaches `top_p` (at least one token; at 1, all). Of equal tokens the lower index goes first.
    Logits may be -inf, which is probability 0, but not all of them.
    """
    check_sampling(temperature, top_k, top_p)
    logits = np.asarray(logits)
    if logits.ndim != 1 or not np.isfinite(top := logits.max(initial=-np.inf)):
        found = shown(logits) if logits.ndim != 1 else f"of {len(logits)} with {top} as the largest"
        raise ValueError(f"logits are one row of numbers, with a largest one, not {found}")
    return _probabilities(logits, temperature, top_k, top_p)


def _probabilities(logits: np.ndarray, temperature: float, top_k: int | None, top_p: float | None) -> np.ndarray:
    """The same with settings that have been checked."""
    z = logits.astype(np.float64)
    if temperature == 0:
        return np.eye(1, len(z), int(z.argmax()))[0]
    with np.errstate(over="ignore"):  # -40 / 1e-310 or -1e308 - 1e308 is -inf: probability 0, as it should be
        p = np.exp((z - z.max()) / temperature)
    p /= p.sum()
    if top_k is None and top_p in (None, 1):
        return p
    order = np.argsort(-p, kind="stable")
    if top_k is not None:
        p[order[top_k:]] = 0.0
        p /= p.sum()
    if top_p not in (None, 1):
        reached = np.cumsum(p[order])[:-1]  # the mass before the 2nd, 3rd, ... token
        p[order[1:][reached > top_p - TOP_P_PRECISION]] = 0.0
        p /= p.sum()
    return p


def sample_token(logits: np.ndarray, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None,
                 generator: np.random.Generator | None = None) -> int:
    """(V,) -> id   one token drawn from `probabilities(...)` with one random number.

    Temperature 0 takes the most probable token, the lowest index among equals, and no random number. Raises ValueError
    for logits that are not all finite, and for settings out of range.
    """
    check_sampling(temperature, top_k, top_p)
    if temperature > 0:
        _check_generator(generator)
    return _chosen(np.asarray(logits)[None], temperature, top_k, top_p, [generator])[0]


def _check_generator(generator: Any) -> None:
    if generator is None:
        raise ValueError("sampling at a temperature above 0 needs a generator: np.random.default_rng(seed)")
    if not hasattr(generator, "random"):
        raise TypeError(f"a generator is np.random.default_rng(seed), not {shown(generator)}")


def _chosen(logits: np.ndarray, temperature: float, top_k: int | None, top_p: float | None, generators: list) -> list[int]:
    """logits (B, V) -> B tokens, the same with settings that have been checked"""
    if np.count_nonzero(np.isfinite(logits)) < logits.size:
        i, bad = np.argwhere(~np.isfinite(logits))[0]
        raise ValueError(f"the logits are not finite: {logits[i, bad]} for token {bad}")
    if temperature == 0:
        return logits.argmax(1).tolist()
    tokens = []
    for row, generator in zip(logits, generators):
        p = _probabilities(row, temperature, top_k, top_p)
        total = p.cumsum()
        drawn = int(total.searchsorted(generator.random() * total[-1], side="right"))
        tokens.append(drawn if drawn < len(p) else int(np.flatnonzero(p)[-1]))  # rounding may carry the product up to the total
    return tokens


def padded(rows: Sequence[Any], value: int = 0, left: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Rows of different lengths -> ids (B, T) and mask (B, T), true where a token stands and false where padding does."""
    rows = [whole_numbers(row, "ids of a text") for row in rows]
    longest = max(map(len, rows))
    ids, mask = np.full((len(rows), longest), value), np.zeros((len(rows), longest), bool)
    for i, row in enumerate(rows):
        place = slice(longest - len(row), longest) if left else slice(len(row))
        ids[i, place], mask[i, place] = row, True
    return ids, mask


def whole_numbers(ids: Any, what: str) -> np.ndarray:
    """Ids (T,) as int64. ValueError if they are anything else: 5.7 is no id, and neither is True."""
    try:
        array = np.asarray(ids)
    except (ValueError, OverflowError):  # rows of different lengths, or a number beyond 64 bits
        array = np.asarray(ids, object)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        shown = repr(ids) if len(repr(ids)) <= 60 else f"{array.dtype} of shape {array.shape}"
        raise ValueError(f"{what} are one row of whole numbers, not {shown}")
    return array.astype(np.int64)


def check_decodes(model: Any, who: str) -> None:
    """Raises TypeError for a model that does not say what comes next, or only together with a source."""
    function = getattr(model, "forward", model.__call__)
    takes = _arguments(function.__func__) if hasattr(function, "__func__") else signature(function).parameters
    if "cache" not in takes:
        raise TypeError(f"{who} needs a Decoder, not {type(model).__name__}"
                        + ("; translate.Reader(model, sources) is one" if "source" in takes else ""))  # fmt: skip


@lru_cache(64)
def _arguments(function: Any) -> Any:
    """Their names are the same at every call, and finding them takes as long as a token."""
    return signature(function).parameters


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Evaluation mode and no tape inside; every module's own mode again afterwards, also after an exception."""
    modes = [(module, module.training) for module in model.modules()]
    for module, _ in modes:
        module.training = False
    try:
        with no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


def generate(model: Any, ids: Any, n: int, *, temperature: float = 1.0, top_k: int | None = None,
             top_p: float | None = None, generator: Any = None, cache: bool = True,
             stats: GenerationStats | None = None, stop: int | Sequence[int] = ()) -> Iterator[Any]:
    """(T,) -> n ids, or (B, T) -> n arrays (B,)   yields each new token as soon as it is chosen.

    The prompt `ids` may be longer than the context, but not empty. Prompts of different lengths are a list of rows: the
    shorter ones get padding on their left, which nothing looks at, so each goes on as it would alone. `cache=False` computes
    the whole window for every token; the tokens are the same. A text is over after a `stop` token, which it then repeats
    until all others are over too; nothing is computed for it any more. `generator` may be a list, one for each text. Between
    two tokens the model is in the caller's mode and the tape is as the caller left it. Each call has a cache of its own.
    Raises ValueError for bad settings at once, and for logits that are not finite at the step where they appear.
    """
    check_decodes(model, "generate")
    ids, first = _prompts(ids)
    check_sampling(temperature, top_k, top_p)
    if ids.ndim not in (1, 2) or ids.shape[-1] == 0 or ids.dtype.kind not in "iu":
        raise ValueError(f"a prompt is whole numbers (T,) or (B, T), T at least 1, not {ids.dtype} of shape {ids.shape}")
    whole("n, the number of new tokens,", n, 0)
    texts = np.atleast_2d(ids).astype(np.int64)
    generators = list(generator) if isinstance(generator, (list, tuple)) else [generator] * len(texts)
    for each in generators if temperature > 0 else ():
        _check_generator(each)
    if len(generators) != len(texts):
        raise ValueError(f"{len(generators)} generators for {len(texts)} texts: one for each, or one for all")
    tokens = _tokens(model, texts, first, n, (temperature, top_k, top_p), generators, cache, stats or GenerationStats(),
                     whole_numbers([stop] if np.ndim(stop) == 0 else stop, "stop tokens").tolist())  # fmt: skip
    return map(np.array, tokens) if ids.ndim == 2 else map(itemgetter(0), tokens)


def _prompts(ids: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """The prompts as one array; if they differ in length, padded on the left, with the places (B,) of their first tokens."""
    rows = isinstance(ids, (list, tuple)) and any(isinstance(row, (list, tuple, np.ndarray)) and np.ndim(row) for row in ids)
    if not rows:
        return np.asarray(ids), None
    ids, real = padded(ids, left=True)
    if not real.any(axis=1).all():
        raise ValueError("each of several prompts has at least one token")
    return ids, None if real.all() else np.count_nonzero(~real, axis=1)


def _tokens(model: Any, text: np.ndarray, first: np.ndarray | None, n: int, how: tuple[Any, Any, Any], generators: list,
            cache: bool, stats: GenerationStats, stop: list[int]) -> Iterator[list[int]]:
    """text (B, T), which grows; first (B,): how much padding stands on the left; how: settings of `sample_token`.

    From the step on at which some are over, all of these have rows for the others alone, as the cache has.
    """
    size = model.config.block_size
    kept = model.new_cache(batch=len(text)) if cache else None
    quick = Steps.of(model) if cache else None
    columns = list(text.T)  # the ids (B,) at each position
    alive, latest = list(range(len(text))), text[:, -1].tolist()
    seen = 0  # positions of the text that have been through the model at least once
    for step in range(n):
        length = len(columns)
        if kept is not None and kept.length + length - seen > size:
            kept = quick = None  # the window begins to move
        held = 0 if kept is None else kept.length
        start = seen if held else max(0, length - size)
        stats.reused += held
        stats.computed += length - start
        stats.recomputed += max(0, seen - start)
        quick = quick if quick is not None and quick.hold() else None
        if kept is not None and quick is not None and length - start == 1:
            logits = quick(columns[-1], kept, first)  # (B, V)
        else:
            options = {} if kept is None else {"cache": kept}
            if first is not None and (first > start - held).any():  # the window may have left the padding behind
                options["mask"] = np.arange(start - held, length) >= first[:, None]
            with evaluating(model):
                logits = model(np.stack(columns[start:], 1), **options).numpy()[:, -1]
        seen = length
        if not step and kept is not None:
            stats.cache_bytes = max(stats.cache_bytes, kept.nbytes)  # of all texts: later there may be fewer
        try:
            new = _chosen(logits, *how, [generators[i] for i in alive])
        except ValueError as error:
            raise ValueError(f"new token {step + 1}: {error}") from None
        columns.append(np.array(new))
        for i, token in zip(alive, new):
            latest[i] = token
        yield latest.copy()
        if not stop:
            continue
        on = [i for i, token in enumerate(new) if token not in stop]
        if not on:
            return
        if len(on) < len(new):
            alive, columns, first = [alive[i] for i in on], [ids[on] for ids in columns], None if first is None else first[on]
            model = going_on(model, np.array(on))
            if kept is not None:
                kept.take(on)


def going_on(model: Any, rows: np.ndarray) -> Any:
    """The model for these of its texts (B',), each as often as it is named: a `Reader` has a source for each, others are as
    they were."""
    return model.take(rows) if hasattr(model, "take") else model
