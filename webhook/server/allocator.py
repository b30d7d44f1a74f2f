"""How the C library keeps memory that was freed: as little as it can.

A body and what parses it are buffers of megabytes, made and freed by whichever thread has the baton. glibc would keep
them for each of its arenas, eight for every processor, and raise the size from which it maps memory for one buffer
alone with each that is freed, to 32 MiB: a replica would stay as large as all threads have ever been together.
"""

import ctypes
import logging

log = logging.getLogger("gpu_policy.server")

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Parameters of mallopt(3)."""

_SETTINGS = ((_ARENA_MAX, 2), (_MMAP_THRESHOLD, 256 * 1024), (_TRIM_THRESHOLD, 1024 * 1024))
"""Arenas; bytes from which a buffer is memory of its own, given back when it is freed; unused bytes at the end of an
arena from which they are given back."""


def give_back_freed_memory() -> bool:
    """Set it for this process, before it starts threads; return whether the C library is one that can be told."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        log.info("this C library keeps freed memory as it likes")
        return False
    return not [name for name, value in _SETTINGS if not mallopt(name, value)]
