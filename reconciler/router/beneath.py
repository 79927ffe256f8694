"""openat2(2), the one road to a person's files: nothing that it opens lies outside of where it starts.

BENEATH, NO_SYMLINKS and NO_MAGICLINKS hold in the kernel, at every part of a path, whatever is swapped while
it resolves (S4). Where the call is missing (Linux before 5.6, or a container that filters it) nothing is
opened, and ``missing`` says so in words: checking a path first and opening it then is what races win. What
the kernel makes up (/proc, /sys and the like) is no file of a person, wherever it is mounted.
"""

import ctypes
import errno
import os
from enum import Enum

FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_SYS_OPENAT2 = 437  # the same on every architecture
_RESOLVE = 0x08 | 0x04 | 0x02  # BENEATH | NO_SYMLINKS | NO_MAGICLINKS
_TRIES = 16  # a rename somewhere on the machine ends a resolution with EAGAIN, now and then
# Magic numbers of statfs(2): proc, sysfs, debugfs, tracefs, securityfs, cgroup, cgroup2, configfs, bpf,
# efivarfs, pstore, selinuxfs, devpts, mqueue, fusectl, rpc_pipefs, binfmt_misc, nsfs, anonymous inodes.
# fmt: off
_KERNEL = frozenset({
    0x9FA0, 0x62656572, 0x64626720, 0x74726163, 0x73636673, 0x27E0EB, 0x63677270, 0x62656570, 0xCAFE4A11,
    0xDE5E81E4, 0x6165676C, 0xF97CFF8C, 0x1CD1, 0x19800202, 0x65735543, 0x67596969, 0x42494E4D, 0x6E736673,
    0x09041934,
})
# fmt: on

_libc = ctypes.CDLL(None, use_errno=True)


class Denial(Enum):
    """Why a file is not handed over. Missing and forbidden are one: the agent learns nothing from it."""

    REFUSED = "refused"
    TOO_LARGE = "too_large"
    FAILED = "unavailable"  # our own side: no space, a lost folder, a call that ended meanwhile


class Denied(Exception):  # noqa: N818 - an answer of the scope, not an error of the program
    """Ends a hand-off; ``diagnostic`` is for the record and names no path."""

    def __init__(self, denial: Denial, diagnostic: str) -> None:
        super().__init__(diagnostic)
        self.denial = denial
        self.diagnostic = diagnostic


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class _Statfs(ctypes.Structure):
    _fields_ = (("type", ctypes.c_long), ("rest", ctypes.c_byte * 248))  # longer than any machine's


def open_beneath(root: int, path: str, flags: int) -> int:
    """Open a path below a folder's descriptor; raises Denied. The path holds no NUL (ctypes would cut there)
    and encodes (``files`` looked).
    """
    fault = 0
    for _ in range(_TRIES):
        found = _openat2(root, path, flags)
        if found >= 0:
            return found
        fault = -found
        if fault not in (errno.EAGAIN, errno.EINTR):
            break
    if fault in (errno.ENOSYS, errno.EPERM) and (words := missing()) is not None:
        raise Denied(Denial.FAILED, words)
    raise Denied(Denial.REFUSED, f"the path does not open: {errno.errorcode.get(fault, fault)}")


def missing() -> str | None:
    """Why no file can be opened on this machine, as a sentence, or None when openat2 is there."""
    root = os.open("/", FOLDER)
    try:
        found = _openat2(root, ".", FOLDER)
    finally:
        os.close(root)
    if found >= 0:
        os.close(found)
        return None
    fault = errno.errorcode.get(-found, "unknown")
    return f"openat2 is missing here ({fault}): files are opened by no other road; Linux 5.6 or newer has it"


def need_real(descriptor: int) -> None:
    """See that what is open lies on a file system of files, not of the kernel's making; raises Denied."""
    found = _Statfs()
    if _libc.fstatfs(descriptor, ctypes.byref(found)) != 0 or found.type & 0xFFFFFFFF in _KERNEL:
        raise Denied(Denial.REFUSED, "it lies on a file system that the kernel makes up")


def short(error: OSError) -> str:
    """An error's name alone: its text may hold a path."""
    return errno.errorcode.get(error.errno or 0, "unknown")


def _openat2(root: int, path: str, flags: int) -> int:
    """A descriptor, or the error's number below zero."""
    how = _How(flags, 0, _RESOLVE)
    found: int = _libc.syscall(_SYS_OPENAT2, root, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
    return found if found >= 0 else -ctypes.get_errno()
