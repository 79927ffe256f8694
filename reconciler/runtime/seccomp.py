"""The seccomp filter of every sandbox, as classic BPF: what namespaces and lost capabilities leave open.

Without it a process in an empty network namespace can still open AF_VSOCK (which reaches the hypervisor) and
AF_NETLINK sockets, make user namespaces of its own, and reach the kernel's rarely used and often broken
doors. What is refused gets an errno that programs fall back from; another architecture's system calls (i386,
x32) end the process, since their numbers would mean something else. The form of an instruction and of
``seccomp_data`` is that of linux/filter.h and linux/seccomp.h; the numbers are those of the kernel's tables.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

_ALLOW = 0x7FFF0000
_KILL_PROCESS = 0x80000000
_ERRNO = 0x00050000
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97

_LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
_EQUAL, _GREATER, _AT_LEAST, _ANY_BIT = 0x15, 0x25, 0x35, 0x45  # BPF_JMP | BPF_J… | BPF_K
_RETURN = 0x06
_AT_NUMBER, _AT_ARCH, _AT_ARGUMENTS = 0, 4, 16  # offsets in seccomp_data; both tables are little-endian

_NEWEST = 469  # file_setattr, Linux 6.17: a call that this table has never heard of does not exist
_X32_BIT = 0x40000000
_FAMILIES = (1, 2, 10)  # UNIX, INET, INET6: harmless without a route
_NETLINK = 16
_NEW_NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_NEW_TIME = 0x80  # CLONE_NEWTIME: unshare only, in clone the bit belongs to the exit signal
_TERMINAL_INJECTION = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
_PERSONALITIES = (0, 0xFFFFFFFF)  # plain, and "which one is it?"

# name → (x86_64, aarch64); None where the architecture has no such call
_REFUSED: Mapping[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}
# Refused as if the kernel were older: the C library and event loops then take their other road.
_UNHEARD_OF: Mapping[str, tuple[int | None, int | None]] = {
    "clone3": (435, 435),  # its flags lie in memory, where a filter cannot look; clone remains
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
# Looked at more closely: name → (x86_64, aarch64)
_WEIGHED: Mapping[str, tuple[int, int]] = {
    "clone": (56, 220),
    "ioctl": (16, 29),
    "personality": (135, 92),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "unshare": (272, 97),
}


@dataclass(frozen=True, slots=True)
class _Architecture:
    audit: int  # AUDIT_ARCH_…, what the kernel says a system call's table is
    column: int
    has_x32: bool


_ARCHITECTURES: Mapping[str, _Architecture] = {
    "x86_64": _Architecture(0xC000003E, 0, has_x32=True),
    "aarch64": _Architecture(0xC00000B7, 1, has_x32=False),
}

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, k


def architectures() -> tuple[str, ...]:
    """The machines (as ``uname -m`` names them) that there is a filter for."""
    return tuple(_ARCHITECTURES)


@cache
def program(machine: str, *, routes: bool = False) -> bytes:
    """The filter for one machine, as ``bwrap --seccomp`` reads it; KeyError for an unknown one.

    ``routes``: the network's interfaces may be asked for (``AF_NETLINK``, ``NETLINK_ROUTE`` alone), which the
    programs of agents do at their start and which tells of an empty network only.
    """
    return b"".join(struct.pack("=HBBI", *one) for one in instructions(machine, routes=routes))


def instructions(machine: str, *, routes: bool = False) -> tuple[Instruction, ...]:
    """The same filter, before packing: one check after another, each ending in its own verdict."""
    architecture = _ARCHITECTURES[machine]
    code: list[Instruction] = [
        _load(_AT_ARCH),
        (_EQUAL, 1, 0, architecture.audit),
        _verdict(_KILL_PROCESS),
        _load(_AT_NUMBER),
    ]
    if architecture.has_x32:
        code += [(_AT_LEAST, 0, 1, _X32_BIT), _verdict(_KILL_PROCESS)]
    code += [(_GREATER, 0, 1, _NEWEST), _verdict(_ERRNO | _ENOSYS)]
    code += _each(_UNHEARD_OF, architecture, _ENOSYS) + _each(_REFUSED, architecture, _EPERM)
    for name, check in _weighings(routes=routes).items():
        code += [(_EQUAL, 0, len(check), _WEIGHED[name][architecture.column]), *check]
    return (*code, _verdict(_ALLOW))


def _each(
    names: Mapping[str, tuple[int | None, int | None]], architecture: _Architecture, errno: int
) -> list[Instruction]:
    numbers = [pair[architecture.column] for pair in names.values()]
    return [
        one
        for number in numbers
        if number is not None
        for one in ((_EQUAL, 0, 1, number), _verdict(_ERRNO | errno))
    ]


def _weighings(*, routes: bool) -> Mapping[str, Sequence[Instruction]]:
    """Checks of an argument; each ends in a verdict, so nothing falls out of it."""
    families = _only_if_in(0, _FAMILIES, _EAFNOSUPPORT)
    return {
        "socket": _socket_with_routes() if routes else families,
        "socketpair": families,
        "clone": _refused_if(0, (_ANY_BIT,), (_NEW_NAMESPACES,)),
        "unshare": _refused_if(0, (_ANY_BIT,), (_NEW_NAMESPACES | _NEW_TIME,)),
        "ioctl": _refused_if(1, (_EQUAL, _EQUAL), _TERMINAL_INJECTION),
        "personality": _only_if_in(0, _PERSONALITIES, _EPERM),
    }


def _only_if_in(argument: int, values: Sequence[int], errno: int) -> list[Instruction]:
    tests = [(_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    return [_load_argument(argument), *tests, _verdict(_ERRNO | errno), _verdict(_ALLOW)]


def _refused_if(argument: int, codes: Sequence[int], values: Sequence[int]) -> list[Instruction]:
    pairs = list(zip(codes, values, strict=True))
    tests = [(code, len(pairs) - place, 0, value) for place, (code, value) in enumerate(pairs)]
    return [_load_argument(argument), *tests, _verdict(_ALLOW), _verdict(_ERRNO | _EPERM)]


def _socket_with_routes() -> list[Instruction]:
    """The families as ever, and one protocol of netlink: ``NETLINK_ROUTE``, which is 0."""
    to_allow = len(_FAMILIES) + 3
    tests = [(_EQUAL, to_allow - place, 0, value) for place, value in enumerate(_FAMILIES)]
    return [
        _load_argument(0),
        *tests,
        (_EQUAL, 0, 2, _NETLINK),
        _load_argument(2),
        (_EQUAL, 1, 0, 0),
        _verdict(_ERRNO | _EAFNOSUPPORT),
        _verdict(_ALLOW),
    ]


def _load(offset: int) -> Instruction:
    return (_LOAD, 0, 0, offset)


def _load_argument(index: int) -> Instruction:
    """The low half of an argument: the kernel reads these four as 32 bits, so the high half says nothing."""
    return _load(_AT_ARGUMENTS + 8 * index)


def _verdict(value: int) -> Instruction:
    return (_RETURN, 0, 0, value)
