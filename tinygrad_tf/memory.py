"""Keep freed memory for the next step instead of handing it back to the system.

A training step frees and asks for the same large arrays again and again. By default glibc gives each of them back to the
kernel at once, and every page of the next one has to be cleared and mapped anew: a quarter of a step's time or more.
"""

from __future__ import annotations

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # names and numbers of mallopt(3)


def keep_freed_memory() -> bool:
    """Raise malloc's thresholds for this process; True if it took effect (glibc only, harmless elsewhere).

    The process then holds on to its peak. Called by the trainer, never on import.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, 32 << 20)) and bool(mallopt(M_TRIM_THRESHOLD, 2**31 - 1))
