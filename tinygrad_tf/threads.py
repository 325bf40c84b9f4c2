"""How many threads or processes the work uses, by its size: one, those of the matrix products, or our own for everything."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from functools import partial
from itertools import pairwise
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

from .helper import POSSIBLE

SMALL = 64_000_000  # operations of one product, multiplications and additions
LARGE = 400_000_000
SHARE = 50_000_000  # of the largest product of a whole batch, for each thread that takes some of its sequences
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


def threads_for(operations: float, by_batch: bool = False) -> AbstractContextManager:
    """A block of work whose largest products have about this many operations.

    Small ones run on one thread: two wait for each other after every product. For a small one that wait is most of the time,
    and when another program holds one of the cores it is nearly all of it. Whoever sets one of VARIABLES has decided already.
    With large ones everything else is large too and runs in `parts`. In between NumPy does as it always does.

    `by_batch`: the work hands whole sequences to `on_threads`, as `gradients.py` does. Threads then wait for each other once,
    and for Python, of which one thread runs at a time: so two are worth it from SHARE on, and more of them with more to do.
    """
    if by_batch and operations >= SHARE:
        return parts(max(2, int(operations / SHARE)))
    if operations >= LARGE:
        return parts()
    if (operations >= SMALL and not by_batch) or any(os.environ.get(name) for name in VARIABLES):
        return nullcontext()
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, user_api="blas")


def processes_for(operations: float) -> int:
    """How many processes are to share the sequences of a batch whose largest products have this many operations.

    As many as `threads_for` would take threads, and at least two if there are as many cores, while much of a step is Python and
    memory is small. 0: threads are better, or there can be no other process (`helper.py`).
    """
    if operations >= (LARGE if POSSIBLE else SHARE):
        return 0
    return min(_of_products()[1], max(2, int(operations / SHARE))) if POSSIBLE else 1


def _of_products() -> tuple[Any, int]:
    """The libraries that compute NumPy's matrix products, and how many threads they use now."""
    from threadpoolctl import ThreadpoolController

    blas = ThreadpoolController().select(user_api="blas")
    return blas, min([library.num_threads for library in blas.lib_controllers], default=1)


# ------------------------------------------------------------------------------------------------ work in parts

WORTH = 1 << 17  # numbers to go through: with fewer, waking a thread and waiting for it costs more than it saves

GRAIN = 16  # cuts lie at multiples of this where there are enough rows: so a product takes the same rows together, cut or not

_tasks: SimpleQueue | None = None  # what the helping threads are to do; None outside `parts`
_count = 1  # threads, the caller's own among them
_turn = Lock()  # held while parts run: work within work is not cut again, nor is another thread's at the same time


@contextmanager
def parts(most: int | None = None) -> Iterator[None]:
    """Inside, `in_parts` and `on_threads` use as many threads as products had outside, or `most`, and each product only one.

    Mixing the two would spoil both: after a product OpenBLAS's threads wait for the next one for a tenth of a second without
    leaving their cores, and whatever else is to run there gets half of one. Here they are never called. For all threads of the
    process; a block within a block changes nothing.
    """
    global _tasks, _count
    if _tasks is not None:
        yield
        return
    blas, number = _of_products()
    number = number if most is None else min(number, most)
    tasks: SimpleQueue = SimpleQueue()
    one = partial(blas.limit, limits=1)
    helpers = [Thread(target=_help, args=(tasks, one), daemon=True) for _ in range(number - 1)]
    with one():
        for helper in helpers:
            helper.start()
        _tasks, _count = tasks, number
        try:
            yield
        finally:
            with _turn:
                _tasks, _count = None, 1
            for _ in helpers:
                tasks.put(None)
            for helper in helpers:
                helper.join()


def _help(tasks: SimpleQueue, one: Callable) -> None:
    """A helping thread: do what comes, say how it ended."""
    one()  # some libraries keep a number of threads for each thread that calls them
    while task := tasks.get():
        context, work, done = task
        try:
            context.run(work)
            done.put(None)
        except BaseException as error:
            done.put(error)
        del task, context, work, done  # and the arrays that they hold


def count() -> int:
    """How many threads `on_threads` would use."""
    return 1 if _turn.locked() else _count


def worth(rows: int, numbers: int) -> bool:
    """Whether `in_parts` would use more than one thread."""
    return numbers >= WORTH and 1 < _count <= rows and not _turn.locked()


def in_parts(work: Callable[..., Any], *whole: Any, numbers: int) -> None:
    """work(*whole), or on each thread work(*parts) with some rows of each array or list, if that pays.

    What work writes must not depend on where the cuts are. `numbers` is how many it goes through.
    """
    rows = len(whole[0])
    if not worth(rows, numbers):
        work(*whole)
        return
    grain = GRAIN if rows >= 2 * GRAIN * _count else 1
    cuts = [rows * i // _count // grain * grain for i in range(_count)] + [rows]
    on_threads(lambda part: work(*[a[part] for a in whole]), [slice(*pair) for pair in pairwise(cuts)])


def on_threads(work: Callable[..., Any], items: Sequence[Any]) -> list[Any]:
    """[work(item) for item in items], where each thread takes the next item as soon as it has done one.

    Inside `parts`; elsewhere, and within such work, one after the other.
    """
    if len(items) < 2 or _count < 2 or not _turn.acquire(blocking=False):
        return [work(item) for item in items]
    try:
        if _tasks is None:  # the block has just ended, in another thread
            return [work(item) for item in items]
        results, todo = [None] * len(items), iter(range(len(items)))

        def some() -> None:
            for i in todo:
                results[i] = work(items[i])

        done: SimpleQueue = SimpleQueue()
        helpers = min(_count, len(items)) - 1
        for _ in range(helpers):
            _tasks.put((copy_context(), some, done))  # the context holds np.errstate
        try:
            some()
        finally:
            errors = [error for error in [done.get() for _ in range(helpers)] if error is not None]
        if errors:
            raise errors[0]
        return results
    finally:
        _turn.release()


@contextmanager
def alone() -> Iterator[None]:
    """Inside, work is not cut: whoever else is at work has the other cores."""
    own = _turn.acquire(blocking=False)
    try:
        yield
    finally:
        if own:
            _turn.release()


def _copied() -> None:
    """A forked process has the memory of the helping threads, but not the threads."""
    global _tasks, _count, _turn
    _tasks, _count, _turn = None, 1, Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_copied)
