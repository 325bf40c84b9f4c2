"""This process: whether it is a command of the project, and which one it is of those that were started together."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import NoReturn

ROOMS = ("tinygrad_tf", "viz", "lessons", "benchmarks")  # `python -m` with one of these, or a module in it, is our command

# Where a program that starts ranks says which one this is, of how many: MPICH and Intel MPI, Open MPI, MVAPICH, Slurm.
LAUNCHERS = [("PMI_RANK", "PMI_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
             ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"), ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")]  # fmt: skip

PATIENCE = 2  # seconds that the others leave the first process to say what is wrong with all of them
READ = 0.5  # seconds in which mpirun has read what was said: what it has not when it hears of the end is lost


def launched() -> tuple[int, int]:
    """(rank, number of ranks) as the program that started this process says; (0, 1) if none did."""
    for names in LAUNCHERS:
        rank, size = (os.environ.get(name, "") for name in names)
        if rank.isdecimal() and size.isdecimal():
            return int(rank), int(size)
    return 0, 1


def runs(*rooms: str) -> bool:
    """Whether this process is the command `tinygrad-tf`, or `python -m` with a module of these rooms."""
    words = sys.orig_argv
    module = words[2] if words[1:2] == ["-m"] and len(words) > 2 else ""
    return module.partition(".")[0] in rooms or any(word.endswith(("tinygrad-tf", "tinygrad-tf.exe")) for word in words[:2])


def examines() -> bool:
    """Whether this process is the command that says what is wrong with all of them, `tinygrad-tf doctor`."""
    return runs("tinygrad_tf") and sys.argv[1:2] == ["doctor"]


if runs("tinygrad_tf"):  # until the command's `main` takes over, Ctrl-C ends it at once and without a traceback
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def refuse(error: Exception) -> NoReturn:
    """End a command that cannot begin: status 2 and one line, by the first process if it cannot either, and all others end too.

    They wait in MPI's own beginning for everybody. The mpirun of MPICH ends them if it is told to, by PMI, the protocol between
    it and a process; that of Open MPI ends them by itself.
    """
    rank, size = launched()
    if rank:
        time.sleep(PATIENCE)
    print(f"error: {f'rank {rank}: ' if rank else ''}{error}", file=sys.stderr, flush=True)
    mpirun = os.environ.get("PMI_FD", "")
    if size > 1 and mpirun.isdecimal():
        time.sleep(READ)
        os.write(int(mpirun), b"cmd=abort exitcode=2\n")
        time.sleep(READ)
    sys.exit(2)
