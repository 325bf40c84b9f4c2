"""Keep freed memory for the next step instead of handing it back to the system, in large pages.

A training step frees and asks for the same large arrays again and again. By default glibc gives each of them back to the
kernel at once, and every page of the next one has to be cleared and mapped anew: nearly a fifth of a step's time. And pages
are of 4 KiB: a core remembers where some 2,000 lie, 8 MiB in all, and has to look up each other one. Of 2 MiB few are enough.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
from pathlib import Path

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -2, -3, -8  # names and numbers of mallopt(3)
MADV_HUGEPAGE = 14  # of madvise(2)
LARGEST = 32 << 20  # bytes: glibc maps larger arrays by themselves, whatever the threshold
ROOM = 1 << 30  # bytes of addresses that the heap gets at once; they take no memory before something is written there
PAGE = 2 << 20


def installed() -> float:
    """Bytes of memory that this machine has; inf where it does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return math.inf


def keep_freed_memory() -> bool:
    """Raise malloc's thresholds for this process; True if it took effect (glibc only, harmless elsewhere).

    All threads share one heap, so that what one has freed the others can use; on Linux its first GiB may be in large pages. The
    process then holds on to its peak. Called by `tinygrad-tf train` and `sample`, never on import.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        libc = ctypes.CDLL(None)
        mallopt = libc.mallopt
    except (OSError, AttributeError):
        return False
    settings = {M_MMAP_THRESHOLD: LARGEST, M_TRIM_THRESHOLD: 2**31 - 1, M_ARENA_MAX: 1, M_TOP_PAD: ROOM}
    if not all(mallopt(name, value) for name, value in settings.items()):
        return False
    _ask_for_large_pages(libc)
    mallopt(M_TOP_PAD, PAGE)
    return True


def _ask_for_large_pages(libc: ctypes.CDLL) -> None:
    """Let the heap grow, and tell the kernel that large pages are welcome there: it may do so, or not."""
    libc.malloc.argtypes, libc.malloc.restype, libc.free.argtypes = [ctypes.c_size_t], ctypes.c_void_p, [ctypes.c_void_p]
    libc.free(libc.malloc(LARGEST - PAGE))
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return
    for line in maps.splitlines():
        if line.endswith("[heap]"):
            start, stop = (int(address, 16) for address in line.split()[0].split("-"))
            start += -start % PAGE
            if start < stop:
                libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(stop - start), MADV_HUGEPAGE)
