"""How the process keeps its heap: freed space stays for the next call, and goes back when nobody calls.

Each call frees buffers of the size that the next one needs. By default glibc returns the top of the heap to
the system above 128 KiB and maps larger buffers afresh, so that every call pays for new pages: half the time
of a 20 KB call, as measured. Elsewhere than on glibc nothing is done.
"""

import ctypes

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of mallopt(3)
_KEPT_BYTES = 64 * 2**20  # free space at the top of the heap before any goes back
_PAD_BYTES = 2 * 2**20
_MAPPED_BYTES = 32 * 2**20  # the most that glibc allows

_libc = ctypes.CDLL(None)


def keep() -> None:
    """Keep freed space in this process from now on, up to a bound."""
    if hasattr(_libc, "mallopt"):
        _libc.mallopt(_MMAP_THRESHOLD, _MAPPED_BYTES)
        _libc.mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        _libc.mallopt(_TOP_PAD, _PAD_BYTES)


def give_back() -> None:
    """Return what is free to the system; some milliseconds."""
    if hasattr(_libc, "malloc_trim"):
        _libc.malloc_trim(0)
