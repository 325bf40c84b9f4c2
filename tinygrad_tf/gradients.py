"""The gradients of a batch, slice by slice: one after the other to save memory, or side by side to save time.

Side by side are the threads of this process, or, while a team of processes is at work, those. Threads cost no memory of their
own; but one of them runs Python at a time, and in a small step that is most of the work.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial, reduce
from itertools import chain, islice, pairwise
from typing import Any

import numpy as np

from .data import IGNORE
from .dtypes import as_array
from .engine import _serial, enable_grad, state, written_since
from .generate import evaluating
from .helper import Helper, shared
from .higher import leaf_gradients
from .random import Copies, apart, catch_up
from .replay import Likeness
from .tensor import Tensor
from .threads import alone, count, in_parts, on_threads, processes_for, threads_for

Streams = dict[int, Any]  # id of a generator -> its state
Request = tuple[int, np.ndarray, np.ndarray, int, bool]  # which share, ids, targets, targets that count in the batch, replaying


def kept(y: np.ndarray) -> int:
    """How many targets count."""
    return int(np.count_nonzero(y != IGNORE))


def add_gradients(model: Any, x: np.ndarray, y: np.ndarray, parts: int) -> float:
    """ids x, targets y (B, T) -> mean loss   adds the gradients of the whole batch, computed in `parts` slices of it.

    model.loss(x, y) gives the mean loss of some sequences. Each slice counts by its kept targets (those that are not IGNORE):
    the sum is the gradient of the one big batch. A step draws all its sequences at once: there is no incomplete window.
    Inside `threads.parts` or `helped` a slice is divided again, among threads or processes.
    """
    x, y = as_array(x), as_array(y)
    if parts < 1 or len(x) != len(y):
        raise ValueError(f"{parts} parts of {len(x)} sequences and {len(y)} targets: parts are at least 1, and targets as many")
    number = max(1, kept(y))
    if parts == 1:
        return _add(model, x, y, number)
    return sum(_add(model, *part, number) for part in zip(np.array_split(x, parts), np.array_split(y, parts), strict=True))


def shares(model: Any, sequences: int) -> int:
    """Among how many processes or threads this many sequences would be divided now."""
    return _shares(Team.of(model), sequences)


def _shares(team: Team | None, sequences: int) -> int:
    return min(team.size if team else count(), sequences)


def _add(model: Any, x: np.ndarray, y: np.ndarray, number: int) -> float:
    """One slice. Whoever shares its sequences goes through all layers without waiting for the others.

    To divide every op among threads instead takes longer: each op waits for the slower half, and Python for both. Dropout is
    drawn for each share from a part of the stream that is its own, so with another number of shares the zeros fall elsewhere.
    """
    several = _shares(team := Team.of(model), len(x))
    parameters = [] if several < 2 else team.parameters if team else _trained(model)
    if not parameters or state.observer is not None or any(p.hooks for p in parameters):
        loss, share = model.loss(x, y), kept(y) / number
        loss = loss if share == 1 else loss * share
        loss.backward()
        return float(loss.item())
    replaying = state.replaying and len(x) % several == 0  # which records a model for one shape
    cuts = [len(x) * i // several for i in range(several + 1)]
    requests = [(i, x[start:stop], y[start:stop], number, replaying) for i, (start, stop) in enumerate(pairwise(cuts))]
    if team:
        return team.add(requests)

    losses, found, copies = zip(*on_threads(partial(_share, model), requests), strict=True)
    catch_up(copies[0])
    leaves = list(dict.fromkeys(chain.from_iterable(found)))
    in_parts(partial(_give, found), leaves, numbers=sum(p.numel() for p in leaves))
    return sum(losses)


def _share(model: Any, request: Request) -> tuple[float, dict[Tensor, np.ndarray], Copies]:
    """What one process or thread does: its part of the loss, gradients, and the random streams as they stand then."""
    i, x, y, number, replaying = request
    before, state.replaying = state.replaying, replaying  # a thread has a state of its own
    try:
        with apart(i) as copies:
            loss, share = model.loss(x, y), kept(y) / number
            found = leaf_gradients(loss, share)
            return loss.item() * share, found, copies
    finally:
        state.replaying = before


def _trained(model: Any) -> list[Tensor]:
    return [p for p in model.parameters() if p.requires_grad]


def _give(found: tuple[dict[Tensor, np.ndarray], ...], leaves: list[Tensor]) -> None:
    """Add to each leaf's gradient what every share has for it."""
    for p in leaves:
        given = [gradients[p] for gradients in found if p in gradients]
        total = reduce(np.add, given) if len(given) > 1 else given[0].copy()  # in memory of its own: rules may share arrays
        if p.grad is None:
            p.grad = Tensor(total)
        else:
            p.grad.array += total


# ------------------------------------------------------------------------------------------------ several processes


class Known:
    """A model as it was when its helpers began: they see the parameters of the optimizer change, and nothing else."""

    def __init__(self, model: Any, shared: list[Tensor]):
        self.like, self.parameters, self.serial = Likeness(model), list(model.parameters()), next(_serial)
        self.taking = [p.requires_grad for p in self.parameters]
        seen = {*shared}
        self.others = [t for t in (*self.parameters, *model.buffers()) if t not in seen]
        self.arrays = [t.array for t in self.others]

    def holds(self) -> bool:
        return (
            self.like.holds()
            and [p.requires_grad for p in self.parameters] == self.taking
            and all(t.array is array and written_since(self, array) is None for t, array in zip(self.others, self.arrays))
        )


class Team:
    """This process and its helpers: all have the model and see its parameters; each writes its gradients in rows of its own."""

    at_work: Team | None = None

    def __init__(self, model: Any, optimizer: Any, size: int):
        self.model, self.flats, self.pid = model, optimizer.flats(), os.getpid()
        self.parameters = [p for flat in self.flats for p in flat.params]
        self.drawn: dict[int, np.random.Generator] = {}  # by id, which is the same in a copied process
        self.rows, self.helpers = list[list[np.ndarray]](), list[Helper]()
        self.known: Known | None = None  # the model as the helpers know it
        self.size = 1
        with suppress(OSError):  # there may be no room
            for flat in self.flats if size > 1 else []:
                flat.move(shared)
            self.rows = [[shared(flat.data.size, flat.data.dtype) for flat in self.flats] for _ in range(1, size)]
            for flat, row in zip(self.flats, self.rows[0] if self.rows else [], strict=False):
                flat.hold(row)
            self.size = size
        if self.size == 1:
            self.close()

    def start(self, x: np.ndarray, y: np.ndarray) -> None:
        """Make the helpers, or as many as there is room for: fewer do the same.

        Before, one sequence for nothing: the kernels that it loads are then in memory once, and not once in each process.
        """
        for flat in self.flats:
            flat.adopt()  # somebody may have given a parameter another array, which helpers would not see
        with suppress(Exception), evaluating(self.model), enable_grad():  # whoever has the whole batch meets its errors
            _share(self.model, (0, x[:1], y[:1], 1, False))
        self.known = Known(self.model, self.parameters)
        with suppress(OSError):
            for rows in self.rows:
                self.helpers.append(Helper(partial(self._help, rows)))
        self.size = 1 + len(self.helpers)
        if self.size == 1:
            self.close()

    @classmethod
    def of(cls, model: Any) -> Team | None:
        """The team that computes the gradients of this model, if one does, and the model is still as its helpers know it."""
        team = cls.at_work
        if team is None or team.model is not model or team.pid != os.getpid():
            return None
        if team.known is None:
            return team if {*team.parameters}.issuperset(_trained(model)) else None
        return team if team.known.holds() else None

    def add(self, requests: list[Request]) -> float:
        """The loss of all requests; their gradients are added to the parameters'. The first one is answered here."""
        if not self.helpers:
            self.start(*requests[0][1:3])
        try:
            return self._add(requests)
        except BaseException:
            if any(helper.busy for helper in self.helpers):  # interrupted, or lost: what it still answers is for nobody
                self.close()
            raise

    def _add(self, requests: list[Request]) -> float:
        streams = {key: own.bit_generator.state for key, own in self.drawn.items()}
        for flat in self.flats:
            if not flat.adopted():  # somebody has given a parameter another array
                flat.check_dtype()
                flat.adopt()
            flat.spare()
        asked = self.helpers[: len(requests) - 1]
        for helper, request in zip(asked, requests[1:]):
            i, x, y, *rest = request
            helper.ask(i, *[(array.shape, array.dtype.str, array.tobytes()) for array in (x, y)], *rest, streams)
        try:
            with alone():
                loss, found, states = self._share(requests[0], {})
        finally:
            answers = [helper.answer() for helper in asked]
        answers += [None] * (len(requests) - 1 - len(asked))
        has = [p in found for p in self.parameters]
        for answer, request, rows in zip(answers, requests[1:], self.rows):
            more, also, _ = answer or self._write(rows, request, {})  # what failed there fails here too, with its own error
            loss, has = loss + more, [a or b for a, b in zip(has, also, strict=True)]
            for flat, row in zip(self.flats, rows, strict=True):
                if rows is self.rows[0]:  # where all gradients are added up
                    flat.add(found)
                else:
                    flat.whole.grad.array += row
        self._stand(states)
        which = iter(has)
        for flat in self.flats:
            flat.take([*islice(which, len(flat.params))])
        return loss

    def _share(self, request: Request, streams: Streams) -> tuple[float, dict[Tensor, np.ndarray], Streams]:
        """The loss of a share, its gradients, and where random streams stand then."""
        self._stand(streams)
        loss, found, copies = _share(self.model, request)
        self.drawn |= {key: own for key, (own, _) in copies.items()}
        return loss, found, {key: copy.bit_generator.state for key, (_, copy) in copies.items()}

    def _write(self, rows: list[np.ndarray], request: Request, streams: Streams) -> tuple[float, list[bool], Streams]:
        """The loss of a share, for each parameter whether it has a gradient, which is then in `rows`, and the streams."""
        loss, found, states = self._share(request, streams)
        for flat, row in zip(self.flats, rows, strict=True):
            gradients = [found[p] if p in found else np.zeros_like(p.array) for p in flat.params]
            np.concatenate([g.reshape(-1) for g in gradients], out=row)
        return loss, [p in found for p in self.parameters], states

    def _help(self, rows: list[np.ndarray], i: int, x: tuple, y: tuple, number: int, replaying: bool, streams: Streams) -> Any:
        """What a helper does for a request that has come as plain values."""
        ids, targets = (np.frombuffer(data, dtype).reshape(shape) for shape, dtype, data in (x, y))
        return self._write(rows, (i, ids, targets, number, replaying), streams)

    def _stand(self, streams: Streams) -> None:
        """Move random streams to where they stand in another process."""
        for key in streams.keys() & self.drawn.keys():
            self.drawn[key].bit_generator.state = streams[key]

    def close(self) -> None:
        """End the helpers, and give the parameters memory of their own again."""
        for helper in self.helpers:
            helper.close()
        self.helpers, self.size = [], 1
        for flat in self.flats:
            if flat.data.base is not None:  # it is memory that others see
                flat.move(np.empty)


@contextmanager
def helped(model: Any, optimizer: Any, sequences: int, operations: float) -> Iterator[None]:
    """A block of training steps whose slices have this many sequences, and largest products of this many operations.

    Inside, add_gradients(model, ...) divides each slice among threads, or among several processes if that pays
    (`threads.processes_for`) and the optimizer has all of the model's parameters; as many of either give the same bits. With
    processes the gradients of its parameters lie in the same memory in every step, and from a change to one of the model's
    attributes on (a hook, a parameter, a setting) this process computes alone, which knows of it. One model
    at a time. Raises `helper.Lost` when a helper is killed.
    """
    held = {p for flat in optimizer.flats() for p in flat.params}
    whole = Team.at_work is None and held.issuperset(_trained(model))
    size = min(processes_for(operations), sequences) if whole else 0
    with threads_for(operations, by_batch=True):
        if size == 0:
            yield
            return
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1, user_api="blas"):
            team = Team.at_work = Team(model, optimizer, size)
            try:
                yield
            finally:
                Team.at_work = None
                team.close()
