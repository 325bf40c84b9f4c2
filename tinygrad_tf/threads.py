"""How many threads the work uses, by its size: one, those of the matrix products, or our own for everything."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from functools import partial
from itertools import pairwise
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

SMALL = 64_000_000  # operations of one product, multiplications and additions
LARGE = 400_000_000
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


def threads_for(operations: float) -> AbstractContextManager:
    """A block of work whose largest products have about this many operations.

    Small ones run on one thread: two wait for each other after every product. For a small one that wait is most of the time,
    and when another program holds one of the cores it is nearly all of it. Whoever sets one of VARIABLES has decided already.
    With large ones everything else is large too and runs in `parts`. In between NumPy does as it always does.
    """
    if operations >= LARGE:
        return parts()
    if operations >= SMALL or any(os.environ.get(name) for name in VARIABLES):
        return nullcontext()
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, user_api="blas")


# ------------------------------------------------------------------------------------------------ work in parts

WORTH = 1 << 17  # numbers to go through: with fewer, waking a thread and waiting for it costs more than it saves

GRAIN = 16  # cuts lie at multiples of this where there are enough rows: so a product takes the same rows together, cut or not

_tasks: SimpleQueue | None = None  # what the helping threads are to do; None outside `parts`
_count = 1  # threads, the caller's own among them
_turn = Lock()  # held while parts run: work within work is not cut again, nor is another thread's at the same time


@contextmanager
def parts() -> Iterator[None]:
    """Inside, `in_parts` uses as many threads as products had outside, and each product only the thread that calls it.

    Mixing the two would spoil both: after a product OpenBLAS's threads wait for the next one for a tenth of a second without
    leaving their cores, and whatever else is to run there gets half of one. Here they are never called. For all threads of the
    process; a block within a block changes nothing.
    """
    global _tasks, _count
    if _tasks is not None:
        yield
        return
    from threadpoolctl import ThreadpoolController

    blas = ThreadpoolController().select(user_api="blas")
    count = min([library.num_threads for library in blas.lib_controllers], default=1)
    tasks: SimpleQueue = SimpleQueue()
    one = partial(blas.limit, limits=1)
    helpers = [Thread(target=_help, args=(tasks, one), daemon=True) for _ in range(count - 1)]
    with one():
        for helper in helpers:
            helper.start()
        _tasks, _count = tasks, count
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
        context, work, part, done = task
        try:
            context.run(work, *part)
            done.put(None)
        except BaseException as error:
            done.put(error)
        del task, context, work, part, done  # and the arrays that they hold


def worth(rows: int, numbers: int) -> bool:
    """Whether `in_parts` would use more than one thread."""
    return numbers >= WORTH and 1 < _count <= rows and not _turn.locked()


def in_parts(work: Callable[..., Any], *whole: Any, numbers: int) -> None:
    """work(*whole), or on each thread work(*parts) with some rows of each array or list, if that pays.

    What work writes must not depend on where the cuts are. `numbers` is how many it goes through.
    """
    rows = len(whole[0])
    if not worth(rows, numbers) or not _turn.acquire(blocking=False):
        work(*whole)
        return
    try:
        if _tasks is None:  # the block has just ended, in another thread
            work(*whole)
            return
        grain = GRAIN if rows >= 2 * GRAIN * _count else 1
        cuts = [rows * i // _count // grain * grain for i in range(_count)] + [rows]
        first, *others = [[a[start:stop] for a in whole] for start, stop in pairwise(cuts)]
        done: SimpleQueue = SimpleQueue()
        for part in others:
            _tasks.put((copy_context(), work, part, done))  # the context holds np.errstate
        try:
            work(*first)
        finally:
            errors = [error for error in [done.get() for _ in others] if error is not None]
        if errors:
            raise errors[0]
    finally:
        _turn.release()


def _alone() -> None:
    """A forked process has the memory of the helping threads, but not the threads."""
    global _tasks, _count, _turn
    _tasks, _count, _turn = None, 1, Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_alone)
