"""From logits to text: temperature, top-k, top-p, greedy, and the loop that feeds each token back.

The rule for long texts: the context of every new token is the last `block_size` tokens. While the text still fits, the
KV cache holds what was computed for it and each token costs one position. Once it does not fit, the window moves with
every token; then each position of the window stands somewhere else and rests on other tokens than before, nothing that
was kept is valid any more, and the whole window is computed again for every token.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np

from .decoding import MANY, Steps
from .engine import no_grad

TOP_P_PRECISION = 1e-7  # float32 logits tell probabilities no better: 0.5 + 0.3 reaches 0.8


@dataclass
class GenerationStats:
    """What one `generate` call has cost so far, in positions of one sequence run through the model."""

    computed: int = 0  # positions run through the model
    recomputed: int = 0  # those among them that had been computed before
    reused: int = 0  # positions read from the cache in place of computing them
    cache_bytes: int = 0  # memory of the cache at its largest


def check_sampling(temperature: float, top_k: int | None, top_p: float | None) -> None:
    """Raises ValueError for settings that `sample_token` does not take."""
    if not 0 <= temperature < np.inf:
        raise ValueError(f"temperature must be 0 (greedy) or a positive number, not {temperature}")
    if top_k is not None and (top_k < 1 or top_k != int(top_k)):
        raise ValueError(f"top-k must be a whole number, at least 1, not {top_k}")
    if top_p is not None and not top_p >= 0:
        raise ValueError(f"top-p must be at least 0, and from 1 on keeps every character, not {top_p}")


def probabilities(logits: np.ndarray, temperature: float = 1.0, top_k: int | None = None,
                  top_p: float | None = None) -> np.ndarray:
    """(V,) -> (V,) float64   the distribution that `sample_token` draws from.

    Softmax of logits / temperature; then only the `top_k` most probable tokens; then only the shortest run of the most
    probable whose sum reaches `top_p` (at least one token; from 1 on, all). Of equal tokens the lower index goes first.
    """
    check_sampling(temperature, top_k, top_p)
    z = np.asarray(logits, dtype=np.float64)
    if temperature == 0:
        return np.eye(1, len(z), int(z.argmax()))[0]
    with np.errstate(over="ignore"):  # -40 / 1e-310 is -inf: probability 0, as it should be
        p = np.exp((z - z.max()) / temperature)
    p /= p.sum()
    if top_k is None and (top_p is None or top_p >= 1):
        return p
    order = np.argsort(-p, kind="stable")
    if top_k is not None:
        p[order[top_k:]] = 0.0
        p /= p.sum()
    if top_p is not None and top_p < 1:
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
    logits = np.asarray(logits)
    if np.count_nonzero(np.isfinite(logits)) < logits.size:
        bad = np.flatnonzero(~np.isfinite(logits))
        raise ValueError(f"the logits are not finite: {logits[bad[0]]} for token {bad[0]}")
    if temperature == 0:
        check_sampling(temperature, top_k, top_p)
        return int(logits.argmax())
    p = probabilities(logits, temperature, top_k, top_p)
    if generator is None:
        raise ValueError("sampling at a temperature above 0 needs a generator: np.random.default_rng(seed)")
    total = p.cumsum()
    drawn = int(total.searchsorted(generator.random() * total[-1], side="right"))
    return drawn if drawn < len(p) else int(np.flatnonzero(p)[-1])  # rounding may carry the product up to the total itself


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
    takes = signature(getattr(model, "forward", model.__call__)).parameters
    if "cache" not in takes:
        raise TypeError(f"{who} needs a Decoder, not {type(model).__name__}"
                        + ("; translate.Reader(model, sources) is one" if "source" in takes else ""))  # fmt: skip


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
    ids, real = _prompts(ids)
    check_sampling(temperature, top_k, top_p)
    if ids.ndim not in (1, 2) or ids.shape[-1] == 0 or ids.dtype.kind not in "iu":
        raise ValueError(f"a prompt is whole numbers (T,) or (B, T), T at least 1, not {ids.dtype} of shape {ids.shape}")
    if n < 0:
        raise ValueError(f"the number of new tokens must not be negative: {n}")
    if temperature > 0 and generator is None:
        raise ValueError("sampling at a temperature above 0 needs a generator: np.random.default_rng(seed)")
    texts = np.atleast_2d(ids).astype(np.int64)
    generators = list(generator) if isinstance(generator, (list, tuple)) else [generator] * len(texts)
    if temperature > 0 and not all(isinstance(each, np.random.Generator) for each in generators):
        raise TypeError(f"a generator is np.random.default_rng(seed), not {generator!r}")
    if len(generators) != len(texts):
        raise ValueError(f"{len(generators)} generators for {len(texts)} texts: one for each, or one for all")
    how = [(temperature, top_k, top_p, each) for each in generators]
    tokens = _tokens(model, texts, real, n, how, cache, stats or GenerationStats(),
                     whole_numbers([stop] if np.ndim(stop) == 0 else stop, "stop tokens"))  # fmt: skip
    return tokens if ids.ndim == 2 else (int(token[0]) for token in tokens)


def _prompts(ids: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """The prompts as one array; if they differ in length, padded on the left, with the mask of what is no padding."""
    rows = isinstance(ids, (list, tuple)) and any(isinstance(row, (list, tuple, np.ndarray)) and np.ndim(row) for row in ids)
    if not rows:
        return np.asarray(ids), None
    ids, real = padded(ids, left=True)
    if not real.any(axis=1).all():
        raise ValueError("each of several prompts has at least one token")
    return ids, None if real.all() else real


def _tokens(model: Any, text: np.ndarray, real: np.ndarray | None, n: int, how: list[tuple], cache: bool,
            stats: GenerationStats, stop: np.ndarray) -> Iterator[np.ndarray]:
    """text (B, T), growing; real (B, T): where no padding stands; how: settings of `sample_token`, for each text.

    From the step on at which some are over, all of these have rows for the others alone, as the cache has.
    """
    size = model.config.block_size
    kept = model.new_cache(batch=len(text)) if cache else None
    quick = Steps.of(model) if cache else None
    alive, latest = np.arange(len(text)), text[:, -1].copy()
    seen = 0  # positions of the text that have been through the model at least once
    for step in range(n):
        window = text[:, -size:]
        if kept is not None and kept.length + text.shape[1] - seen > size:
            kept = None  # the window begins to move
        if kept is not None and kept.length:
            stats.reused += kept.length
            window = text[:, seen:]
        options = {} if kept is None else {"cache": kept}
        quick = quick if kept is not None and quick is not None and quick.hold() else None
        if real is not None and not real[:, -size:].all():  # without a cache the window may have left the padding behind
            options["mask"] = real[:, -size:]
        if quick is not None and window.shape[1] == 1 and len(window) <= MANY:
            logits = quick(window[:, 0], **options)  # (B, V)
        else:
            with evaluating(model):
                logits = model(window, **options).numpy()[:, -1]
        new = min(text.shape[1] - seen, window.shape[1])
        seen = text.shape[1]
        stats.computed += window.shape[1]
        stats.recomputed += window.shape[1] - new
        if not step and kept is not None:
            stats.cache_bytes = max(stats.cache_bytes, kept.nbytes)  # of all texts: later there may be fewer
        try:
            latest[alive] = [sample_token(row, *how[i]) for row, i in zip(logits, alive)]
        except ValueError as error:
            raise ValueError(f"new token {step + 1}: {error}") from None
        text = np.concatenate((text, latest[alive, None]), 1)
        real = None if real is None else np.pad(real, ((0, 0), (0, 1)), constant_values=True)
        yield latest.copy()
        if not len(stop):
            continue
        on = np.flatnonzero(~np.isin(text[:, -1], stop))
        if not len(on):
            return
        if len(on) < len(text):
            alive, text, real = alive[on], text[on], None if real is None else real[on]
            model = going_on(model, on)
            if kept is not None:
                kept.take(on)


def going_on(model: Any, rows: np.ndarray) -> Any:
    """The model for these of its texts (B',), each as often as it is named: a `Reader` has a source for each, others are as
    they were."""
    return model.take(rows) if hasattr(model, "take") else model
