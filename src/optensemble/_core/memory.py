"""Memory that is used again while the blocks of a pass are worked on."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's mallopt
_LARGEST_REUSED = 32 << 20  # bytes: glibc allows no more
_KEPT, _KEPT_AFTERWARDS = 512 << 20, 64 << 20  # bytes of freed memory


@contextmanager
def reused_memory(give_back: bool = True) -> Iterator[None]:
    """Let arrays that were freed be used again at once; give their memory back to the system in the end, if asked to.

    Blocks are worked on in thousands of arrays of a few megabytes. By default the C library gives such memory back and
    asks for it anew, and the system must clear it each time: measured, a fifth of a fit, and on a Dask worker, whose
    MALLOC_TRIM_THRESHOLD_ has every array mapped anew, a third. Afterwards the thresholds are those that the library
    itself arrives at once a large array was freed.
    """
    library = _c_library()
    if library is None:
        yield
        return
    library.mallopt(_MMAP_THRESHOLD, _LARGEST_REUSED)
    library.mallopt(_TRIM_THRESHOLD, _KEPT)
    try:
        yield
    finally:
        library.mallopt(_TRIM_THRESHOLD, _KEPT_AFTERWARDS)
        if give_back:
            library.malloc_trim(0)


@cache
def _c_library() -> Any:
    """Return the C library, if it is glibc."""
    try:
        library = ctypes.CDLL(None)
        return library if library.mallopt and library.malloc_trim else None
    except (AttributeError, OSError, TypeError):
        return None
