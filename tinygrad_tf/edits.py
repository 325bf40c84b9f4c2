"""Running a model with a part of it set to zero, or to something else: what a part does is told by taking it away.

    with zeroed(model, "blocks.2.attn"):                    the whole branch
    with zeroed(model, "blocks.2.attn.heads.3"):            one head
    with zeroed(model, "blocks.*.ffn", positions=[0, 5]):   at some positions only; `*` also runs across dots
    with replaced(model, "blocks.2.attn", other):           an array, or a function of the output

Inside, the model, its loss and its generation run with the change, gradients included: it is made by hooks. Afterwards, also
after an exception, they are gone. Blocks nest; of two changes to one thing the inner has the last word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from inspect import signature
from typing import Any

import numpy as np

from . import nn, ops
from .engine import Traced
from .generate import evaluating
from .tensor import as_array
from .writes import attention_maps


def zeroed(model: nn.Module, *paths: str, positions: Any = None) -> Any:
    """Inside, the outputs of these modules or heads are zero; as `replaced(model, paths, 0)`."""
    given = [each for path in paths for each in (path if isinstance(path, (list, tuple)) else [path])]
    return replaced(model, given, 0, positions=positions)


@contextmanager
def replaced(model: nn.Module, paths: str | Sequence[str], with_: Any, positions: Any = None) -> Iterator[None]:
    """Inside, `with_` stands in the place of what these modules return, or of what these heads read.

    paths: a dotted path, that of an attention layer with `.heads.3` for a head, a pattern such as "blocks.*.attn", or several.
    with_: a number, an array or a tensor that broadcasts to the output, (B, T, d), or to the head's mixture, (B, T, E); or a
    function of it that returns one. positions: an index, a slice or a list, where it is to stand; None: everywhere. They count
    within one call of the module, which with a cache is not the place in the text: generate with cache=False.

    What is replaced is what the module returns, before a norm or a scale that the block puts between it and the stream. A head
    that is zeroed writes nothing; the bias of the output projection, which belongs to no head, stays.
    ValueError, with near names, for a path that names nothing.
    """
    with ExitStack() as stack:
        for path, (module, head) in find(model, paths).items():
            if head is None:
                change = lambda module, args, out, path=path: _each(out, lambda x: _put(path, x, with_, positions))
                stack.callback(module.register_forward_hook(change).remove)
            else:
                width = module.out_proj.in_features // module.n_head
                columns = slice(head * width, (head + 1) * width)
                swap = lambda _, args, path=path, columns=columns: (_put(path, args[0], with_, positions, columns), *args[1:])
                stack.callback(module.out_proj.register_forward_pre_hook(swap).remove)
        yield


def find(model: nn.Module, patterns: str | Sequence[str]) -> dict[str, tuple[Any, int | None]]:
    """Path -> (module, None) or (attention layer, number of the head), for all that match a pattern."""
    names = parts(model)
    found: dict[str, tuple[Any, int | None]] = {}
    for pattern in (patterns,) if isinstance(patterns, str) or patterns is None else patterns:
        if not isinstance(pattern, str):
            raise TypeError(f"a path is a text such as 'blocks.0.attn', not {pattern!r}")
        hits = {path: part for path, part in names.items() if fnmatchcase(path, pattern)}
        if not hits and any(path.startswith(pattern + ".") for path in names):
            raise ValueError(f"{pattern!r} is a list, which has no output: name what is in it, as {pattern}.*")
        if not hits:
            near = get_close_matches(pattern, names, n=4, cutoff=0.5) or list(names)[:4]
            has = f"near: {', '.join(near)}" if near else "it has no modules"
            raise ValueError(f"{pattern!r} names nothing in this {type(model).__name__}; {has}")
        found |= hits
    if not found:
        raise ValueError('no path is given; give one such as "blocks.0.attn"')
    return found


def parts(model: nn.Module) -> dict[str, tuple[Any, int | None]]:
    """Everything that can be zeroed: each module inside that is called, and after an attention layer its heads."""
    names: dict[str, tuple[Any, int | None]] = {}
    for path, module in model.named_modules():
        if path and type(module).forward is not nn.Module.forward:  # a list of modules is not called
            names[path] = module, None
        if isinstance(module, nn.MultiHeadAttention):
            names |= {f"{path}.heads.{r}".lstrip("."): (module, r) for r in range(module.n_head)}
    return names


def _each(out: Any, change: Callable) -> Any:
    """The same structure with every tensor in it changed."""
    if isinstance(out, Traced):
        return change(out)
    if isinstance(out, dict):
        return {name: _each(part, change) for name, part in out.items()}
    return type(out)(_each(part, change) for part in out) if type(out) in (list, tuple) else out


def _put(path: str, x: Any, with_: Any, positions: Any, columns: slice = slice(None)) -> Any:
    """x (..., T, d) with some columns at some positions replaced: left out, not multiplied by 0, since 0 * inf is no zero."""
    old = x[..., columns]
    new = with_(old) if callable(with_) else with_
    shape = np.shape(as_array(new))
    try:
        fits = np.broadcast_shapes(shape, old.shape) == old.shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"{path}: its output has the shape {old.shape}, and {shape} does not broadcast to it")
    rows: Any = slice(None)
    if positions is not None:
        try:
            rows = np.unique(np.arange(x.shape[-2])[list(positions) if isinstance(positions, tuple) else positions])
        except IndexError:
            length = x.shape[-2]
            raise IndexError(f"{path}: positions={positions!r} are not among the {length} positions of this call") from None
        full = new.expand(*old.shape) if isinstance(new, Traced) else np.broadcast_to(new, old.shape)  # type: ignore[attr-defined]
        new = full[..., rows, :]
    return ops.put(x, new, index=(..., rows, columns))


@dataclass(frozen=True, eq=False)
class HeadEffect:
    """What the loss says of one head, beside where it looked."""

    path: str  # as blocks.0.attn.heads.3
    loss: float  # with this head at zero
    change: float  # that loss less the loss of the model as it is
    spread: float  # entropy of its weights in nats, the mean over the positions: 0 where it looks at one place
    reach: float  # how many positions away it looks, the mean by weight; of no meaning between two texts
    map: np.ndarray  # (B, T, S)


@dataclass(frozen=True, eq=False)
class HeadEffects:
    """Every head of a model, zeroed in turn. Printed, it is a table with the largest change first."""

    loss: float  # of the model as it is
    heads: tuple[HeadEffect, ...]  # in the order of the model

    def __str__(self) -> str:
        width = max(len(head.path) for head in self.heads)
        lines = [f"loss {self.loss:.4f} as it is", "", f"{'head at zero':<{width}}    loss   change  spread   reach"]
        for head in sorted(self.heads, key=lambda head: -head.change):
            lines.append(f"{head.path:<{width}}  {head.loss:.4f}  {head.change:+.4f}  {head.spread:6.3f}  {head.reach:6.2f}")
        return "\n".join(lines)


def head_effects(model: Any, *given: Any, paths: str = "*.heads.*") -> HeadEffects:
    """Zero each head in turn and measure `model.loss(*given)`; beside it, the head's map in the run as it is.

    given: what `model.loss` takes, masks included: ids and targets, or source, ids and targets of an encoder-decoder. A map
    shows where a head looks. Whether that matters is in the change: a sharp map may come with a change near 0.
    """
    named = signature(model.loss).bind(*given).arguments  # forward takes the same names, but no targets
    maps = attention_maps(model, **{name: value for name, value in named.items() if name not in ("targets", "ignore_index")})
    with evaluating(model):
        loss = model.loss(*given).item()
        heads = []
        for path, (_, r) in find(model, paths).items():
            layer = path.rpartition(".heads.")[0]
            if r is None or layer not in maps:
                continue
            with zeroed(model, path):
                without = model.loss(*given).item()
            heads.append(HeadEffect(path, without, without - loss, *_shape_of(maps[layer][:, r]), maps[layer][:, r]))
    if not heads:
        raise ValueError(f"{paths!r} names no head that ran; a path is as {next(iter(maps), 'blocks.0.attn')}.heads.0")
    return HeadEffects(loss, tuple(heads))


def _shape_of(weights: np.ndarray) -> tuple[float, float]:
    """(B, T, S) -> mean entropy in nats, mean distance"""
    w = weights.astype(np.float64)
    logs = np.log(w, out=np.zeros_like(w), where=w > 0)
    away = np.abs(np.arange(w.shape[1])[:, None] - np.arange(w.shape[2]))
    return float(-(w * logs).sum(-1).mean()), float((w * away).sum(-1).mean())
