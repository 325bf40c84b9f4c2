"""Training on several processes, each with a part of every batch: data-parallel training through MPI.

    mpirun -n 4 tinygrad-tf train --data-parallel

Every rank (process) holds the whole model and the whole text. All draw the same batch, each computes the gradient of its own
sequences, and one all-reduce over all gradients as one flat array gives everybody their mean. From that mean everybody computes
the same update, so no parameter has to be sent. The mean over N ranks of the means over B / N sequences is the mean over B: N
ranks differ from one in the last digits only, whatever the optimizer, the clipping and the number of passes that make a step.

Dropout is drawn by each rank from a part of the stream that is its own: with another number of ranks the zeros fall elsewhere.

The first rank alone reads the text, reads and writes the run folder, and speaks. The others get the state of the run and the
text from it. `ONE` does the same for a single process, so the training loop has no second form.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from itertools import islice, zip_longest
from typing import Any

import numpy as np

from .process import READ, launched, refuse
from .runfolder import RunError
from .tensor import Tensor
from .threads import VARIABLES

PAUSE = 2e-4  # seconds, at most, between two looks at whether the others have come
PATIENCE = 60  # seconds that a rank which cannot go on waits for the first one, in the middle of a step, to say so and end it
INSTALL = "pip install mpi4py mpich, or pip install -e '.[mpi]' in a clone"
FAILED = 1  # the tag of a message that says why
WITNESS = 'read -r said || echo "error: $1" >&2'  # for sh: nobody said anything before the other end was closed


class One:
    """A single process: what ranks do together, done alone."""

    rank, size, remark = 0, 1, ""

    @property
    def first(self) -> bool:
        """Whether this is the rank that speaks and writes."""
        return self.rank == 0

    def share(self, make: Callable[[], Any] | None = None) -> Any:
        """What `make()` gives on the first rank, on every rank. The others need no `make`."""

    def check(self, sequences: int, begun: bool = False) -> None:
        """Raises RunError unless every rank gets as many of the sequences of a pass. A run that has begun keeps them."""
        if sequences % self.size == 0:
            return
        less = sequences // self.size * self.size
        near = f"{_either(count for count in (less, less + self.size) if count)} does"
        if begun:
            near = f"start {_either(count for count in range(1, sequences + 1) if sequences % count == 0)}"
        raise RunError(f"--batch-size {sequences} does not divide among {self.size} ranks; {near}")

    def part(self, count: int) -> slice:
        """This rank's part of `count` sequences."""
        own = count // self.size
        return slice(self.rank * own, (self.rank + 1) * own)

    def own_numbers(self, stream: np.random.Generator) -> None:
        """Move a stream of random numbers to where no other rank comes; the first rank's stays where it is.

        All ranks draw as many, so the state of the first one, which a checkpoint holds, says where every other one is.
        """
        stream.bit_generator.state = stream.bit_generator.jumped(self.rank).state  # type: ignore[attr-defined]

    def mean(self, loss: float, parameters: Iterable[Tensor]) -> float:
        """The mean loss of all ranks. The gradients of the parameters become the means of all ranks' gradients."""
        return loss

    def any(self, flag: bool) -> bool:
        """Whether the flag is true on any rank."""
        return flag

    def deal(self, items: Iterable[Any]) -> Iterable[Any]:
        """This rank's items: each goes to one rank."""
        return items

    def collect(self, own: list[Any]) -> list[Any]:
        """What every rank made of its items, on every rank, in the order that they had before they were dealt."""
        return own

    def align(self, arrays: Iterable[np.ndarray]) -> None:
        """Give every rank the first one's numbers."""

    def if_killed(self, message: str) -> None:
        """Called on the first rank: what is to be said if the whole job dies without a word of its own."""

    def end(self, error: BaseException) -> BaseException:
        """The error, for which every rank ends now, and knows it of the others."""
        return error


ONE = One()


def _either(numbers: Iterable[int]) -> str:
    """As in `1, 2 or 4`."""
    *first, last = map(str, numbers)
    return f"{', '.join(first)} or {last}" if first else last


class Ranks(One):
    """All processes of a job. Every method is called by every rank, and each call waits for the slowest."""

    left_behind: Any = None  # the communicator of those that wait for this process, if it has failed

    def __init__(self, mpi: Any):
        self.mpi, self.comm = mpi, mpi.COMM_WORLD
        self.rank, self.size = self.comm.rank, self.comm.size
        self.ended = False
        self.witness: subprocess.Popen | None = None
        self.flat = np.empty(0, np.float32)  # all gradients

    def share(self, make: Callable[[], Any] | None = None) -> Any:
        value = make() if make and self.first else None
        self._wait(self.comm.Ibarrier())
        return self.comm.bcast(value)

    def mean(self, loss: float, parameters: Iterable[Tensor]) -> float:
        grads = [p.grad for p in parameters if p.grad is not None]
        ends = np.cumsum([g.array.size for g in grads]).tolist()
        if self.flat.size != ends[-1]:
            self.flat = np.empty(ends[-1], grads[0].array.dtype)
        for g, end in zip(grads, ends):
            part = self.flat[end - g.array.size : end].reshape(g.array.shape)
            part[...] = g.array
            g.array = part
        total = np.array([loss])
        self._wait(self.comm.Iallreduce(self.mpi.IN_PLACE, total))  # who is early sleeps here, and not in the large one
        self.comm.Allreduce(self.mpi.IN_PLACE, self.flat)
        self.flat *= 1 / self.size
        return total.item() / self.size

    def any(self, flag: bool) -> bool:
        found = np.array([flag], np.int32)
        self._wait(self.comm.Iallreduce(self.mpi.IN_PLACE, found, self.mpi.MAX))
        return bool(found[0])

    def deal(self, items: Iterable[Any]) -> Iterable[Any]:
        return islice(items, self.rank, None, self.size)

    def collect(self, own: list[Any]) -> list[Any]:
        self._wait(self.comm.Ibarrier())
        nothing = object()
        rounds = zip_longest(*self.comm.allgather(own), fillvalue=nothing)
        return [item for items in rounds for item in items if item is not nothing]

    def align(self, arrays: Iterable[np.ndarray]) -> None:
        for array in arrays:
            self.comm.Bcast(array)

    def if_killed(self, message: str) -> None:
        """If a rank is killed, mpirun kills all others at once, but reads what a process outside of its job still writes."""
        if os.name == "posix":
            self.witness = subprocess.Popen(["sh", "-c", WITNESS, "sh", message], stdin=subprocess.PIPE,
                                            stdout=subprocess.DEVNULL, start_new_session=True)  # fmt: skip

    def end(self, error: BaseException) -> BaseException:
        self.ended = True
        return error

    def threads(self) -> AbstractContextManager:
        """Matrix products on as many threads that the ranks of a machine together have no more than cores; and the remark.

        Whoever sets one of threads.VARIABLES has decided already.
        """
        near = self.comm.Split_type(self.mpi.COMM_TYPE_SHARED)  # the ranks of this machine
        own = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
        cores = len(set().union(*near.allgather(own)))  # a launcher may have given each rank cores of its own, or all the same
        count = max(1, min(len(own), cores // near.size))
        near.Free()
        decided = [name for name in VARIABLES if os.environ.get(name)]
        each = f"threads by {decided[0]}" if decided else f"{count} thread{'s'[: count != 1]} each"
        self.remark = f"{self.size} ranks, {each}"
        if decided:
            return nullcontext()
        from threadpoolctl import threadpool_limits

        return threadpool_limits(count, user_api="blas")

    def _wait(self, request: Any) -> None:
        """Wait asleep: MPI itself waits by looking again and again, on a core that the slowest rank may need."""
        pause = 0.0
        while not request.Test():
            if self.comm.Iprobe(tag=FAILED):
                raise RunError(self.comm.recv(tag=FAILED))
            time.sleep(pause)
            pause = min(PAUSE, pause + 1e-6)


def speaks() -> bool:
    """Whether this process says what went wrong: of those that fail together the first, else the one that failed."""
    return launched()[0] == 0 or Ranks.left_behind is not None


def leave(status: int) -> None:
    """Called last of all, with the exit status: if other ranks still wait for this one, they end too."""
    if Ranks.left_behind is not None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        time.sleep(READ)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # MPI would add a line of its own to the one that has just been written
        Ranks.left_behind.Abort(status or 1)


@contextmanager
def joined(wanted: bool) -> Iterator[One]:
    """The ranks of this job, to be left by all together.

    Raises RunError without mpi4py; if several processes were started and `wanted` is false (they would write into one
    folder), or if they are of another MPI than mpi4py's.
    """
    started = launched()[1]
    if not wanted:
        if started > 1:
            raise RunError(f"{started} processes were started, and each would train a run of its own; add --data-parallel to "
                           "train one run together, or start one process")  # fmt: skip
        yield ONE
        return
    ranks = Ranks(_mpi())
    if ranks.size == 1:
        if started > 1:
            raise RunError(f"{started} processes were started, but mpi4py's MPI sees one alone: mpirun is that of another MPI; "
                           f"use the one that belongs to {ranks.mpi.get_vendor()[0]}")  # fmt: skip
        alone = One()
        alone.remark = "one rank: start several with mpirun -n 2 tinygrad-tf train --data-parallel"
        yield alone
        return
    try:
        with ranks.threads():
            yield ranks
        ranks.ended = True
    except BaseException as error:
        if ranks.ended and not ranks.first:
            return  # the first one says it, and its exit status is that of the job
        if not ranks.ended:
            error = _failed(ranks, error)
        raise error from None
    finally:
        if ranks.witness:
            ranks.witness.communicate(b"this rank speaks for itself\n")
        if ranks.ended:
            ranks._wait(ranks.comm.Ibarrier())


def _failed(ranks: Ranks, error: BaseException) -> BaseException:
    """What this rank ends with while the others wait for it: for what nobody foresaw, a line that says which rank it was."""
    foreseen = isinstance(error, (KeyboardInterrupt, BrokenPipeError)) or (ranks.first and isinstance(
        error, (ValueError, OSError, MemoryError)))  # fmt: skip
    if not foreseen and isinstance(error, Exception):
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(place.filename)}:{place.lineno}"
        error = RunError(f"rank {ranks.rank}: {type(error).__name__}: {error} ({where})")
    if not ranks.first:
        if not foreseen:
            ranks.comm.isend(str(error), 0, FAILED)
        time.sleep(PATIENCE)
    Ranks.left_behind = ranks.comm
    return error


def _mpi() -> Any:
    try:
        with warnings.catch_warnings(action="ignore"):  # mpi4py warns of another MPI's mpirun, which is an error below
            return import_module("mpi4py.MPI")  # by name: an extra, which the rest of the package must not need
    except (ImportError, RuntimeError) as error:
        missing = "" if isinstance(error, ModuleNotFoundError) else f" ({' '.join(str(error).split())})"
        lacking = RunError(f"--data-parallel needs mpi4py and an MPI library{missing}: {INSTALL}")
        if launched()[1] > 1:
            refuse(lacking)
        raise lacking from None
