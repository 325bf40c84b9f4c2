"""A second process that helps this one: it has everything that this one had when it began, and memory that both see.

Threads of one process run their Python one at a time, and wait for each other's at every op. Processes do not. A helper is a
copy of this process (fork), so nothing has to be sent to it but what has changed since; the copy costs some milliseconds, and
memory only where one of the two writes. Linux alone: elsewhere a library that is needed may not survive being copied.
"""

from __future__ import annotations

import gc
import marshal
import mmap
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

import numpy as np

POSSIBLE = sys.platform.startswith("linux")
SPIN = 5e-4  # seconds for which whoever waits keeps looking: to be woken takes longer than what is between two small steps
LOOK = 0.5  # seconds after which whoever sleeps looks whether the other one is still there
LONGEST = 1 << 26  # bytes of a request or an answer; pages that nobody has written to take no memory


def shared(size: int, dtype: Any) -> np.ndarray:
    """(size,) zeros   in memory that this process and its helpers all see, whoever writes there"""
    dtype = np.dtype(dtype)
    return np.frombuffer(mmap.mmap(-1, max(1, size) * dtype.itemsize), dtype, size)


class Lost(RuntimeError):
    """A helper ended although its work was not done."""


class Helper:
    """A copy of this process that answers work(*request) to one request after the other until it is closed, or this one ends.

    Requests and answers are plain values: numbers, strings, bytes, tuples, lists, dicts of these. Where `work` raises an error
    the answer is None: whoever asked can do the work again, and meets the error itself.
    """

    def __init__(self, work: Callable[..., Any]):
        from multiprocessing import get_context  # takes a while, and few need it

        self.asked, self.answered = (get_context("fork").Semaphore(0) for _ in range(2))
        self.letter = shared(LONGEST, np.uint8).data
        self.parent, self.busy = os.getpid(), False
        with warnings.catch_warnings(action="ignore"):  # of threads that the copy will not have: it uses none of theirs
            before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # the copy must not answer for this one
            try:
                self.pid = os.fork()
                if self.pid == 0:
                    self._serve(work, before)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def ask(self, *request: Any) -> None:
        self.busy = True
        self._write(request)
        self.asked.release()

    def answer(self) -> Any:
        """What the request led to. Raises Lost if the helper was killed."""
        while not _came(self.answered):
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # whoever ignores SIGCHLD is told nothing
                pid, status = self.pid, 0
            if pid:
                self.pid, code = 0, os.waitstatus_to_exitcode(status)
                how = f"was ended by {signal.Signals(-code).name}" if code < 0 else "ended"
                raise Lost(f"a process that shared the work {how}{', perhaps for want of memory' * (code == -signal.SIGKILL)}")
        answer, self.busy = marshal.loads(self.letter), False
        return answer

    def close(self) -> None:
        """End it at once, whatever it does."""
        if self.pid:
            with suppress(OSError):  # somebody else has waited for it
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
            self.pid = 0

    def _serve(self, work: Callable[..., Any], mask: Any) -> NoReturn:
        """What the copy does. It leaves without Python's farewells: the files and streams that it has are not its own."""
        try:
            for number in signal.valid_signals():
                if callable(signal.getsignal(number)):
                    signal.signal(number, signal.SIG_DFL)
            for number in (signal.SIGINT, signal.SIGTERM):  # sent to a whole group they reach both; the other one decides
                signal.signal(number, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, 0)
            os.dup2(nothing, 1)
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # a lock of the other one would outlive it here
            gc.freeze()  # a collection would write to each object of before, and so copy its page
            while True:
                while not _came(self.asked):
                    if os.getppid() != self.parent:
                        os._exit(0)
                answer = None
                with suppress(Exception):
                    answer = work(*marshal.loads(self.letter))
                self._write(answer)
                self.answered.release()
        finally:
            os._exit(1)

    def _write(self, letter: Any) -> None:
        data = marshal.dumps(letter)
        self.letter[: len(data)] = data


def _came(semaphore: Any) -> bool:
    """Wait for a semaphore: looking again and again at first, then asleep, and not for ever."""
    until = time.perf_counter() + SPIN
    while not semaphore.acquire(False):
        if time.perf_counter() > until:
            return semaphore.acquire(True, LOOK)
        os.sched_yield()
    return True
