"""The processes that the frameworks run in, and their turns.

Each framework has a process of its own, so that no thread pool disturbs another, and stays warm in it. Only one works at a
time; the others sleep in a read from a pipe.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMBA_NUM_THREADS")
KERNELS = "TINYGRAD_TF_KERNELS"  # read by tinygrad_tf when it is imported


class WorkerError(Exception):
    """A worker ended before it answered."""


class Worker:
    """A task in a process of its own, with this many threads. A context manager: the process ends with the block.

    kernels: which of our kernels it uses if it is ours, numpy or numba.
    """

    def __init__(self, task: str, threads: int, /, kernels: str = "numpy", **options: Any):
        self.task = task
        environment = {**os.environ, **dict.fromkeys(THREADS, str(threads)), KERNELS: kernels}
        command = [sys.executable, "-m", "benchmarks.worker", f"benchmarks.{task}", json.dumps(options)]
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        try:
            self._answer()
        except WorkerError:
            self.__exit__()
            raise

    def call(self, name: str, /, **settings: Any) -> Any:
        """The answer of the task's method `name`."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps({"call": name, "with": settings}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the missing answer says it
        return self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise WorkerError(f"the process of {self.task} ended with status {self.process.wait()}; its message stands above")
        return json.loads(line)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        with suppress(BrokenPipeError):  # a worker that died left its last request unread
            self.process.stdin.close()
        self.process.stdout.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
