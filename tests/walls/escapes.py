"""Every way out that we know of, tried from inside of a connector: a function an attempt, and what stops it.

It is mounted beside a connector's code, so it imports the standard library alone. An attempt has succeeded
when its function returns; it was stopped when that raised, or was ended, in one of the ways listed for its
wall. ``given`` names the targets: real ports, files and processes outside.
"""
# ruff: noqa: BLE001, PTH101, PTH104, PTH108, PTH110, PTH115, PTH116, PTH123, PTH208, PTH211, SIM105, SIM115

import ctypes
import errno
import json
import os
import resource
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

Given = dict[str, Any]
LIBC = ctypes.CDLL(None, use_errno=True)
PATIENCE_S = 20

FILTER, NETWORK, MOUNTS = "system call filter", "own network", "own mounts"
READ_ONLY, PROCESSES, CAPABILITY = "read-only mounts", "own processes", "no capability"
MODES, SCRATCH, FILES = "permissions", "bound on scratch space", "bound on open files"
NO_CORE, DESCRIPTORS = "no core files", "no inherited descriptors"
IDENTITY, OTHER_ROOT = "no other user", "own root"
PROXY, GATE = "egress proxy", "gate"

# How each wall shows itself to who runs into it.
SEEN: dict[str, tuple[str, ...]] = {
    FILTER: ("EPERM", "ENOSYS", "EAFNOSUPPORT", "SIGSYS"),
    NETWORK: ("ENETUNREACH", "ECONNREFUSED", "EADDRNOTAVAIL", "no answer", "no name"),
    MOUNTS: ("ENOENT", "ENOTDIR", "ENXIO"),
    READ_ONLY: ("EROFS", "EACCES", "EPERM", "ENOENT", "EBUSY", "EXDEV"),
    PROCESSES: ("ESRCH", "ENOENT"),
    CAPABILITY: ("EPERM", "EACCES", "ENODEV"),
    MODES: ("EACCES", "EPERM", "empty"),
    IDENTITY: ("EPERM", "EINVAL"),
    OTHER_ROOT: ("ENOENT", "EACCES"),
    SCRATCH: ("ENOSPC",),
    FILES: ("EMFILE",),
    NO_CORE: ("no core",),
    DESCRIPTORS: ("EBADF", "ENOENT"),
    PROXY: ("403", "400", "closed"),
    GATE: ("unlisted", "request", "address"),
}


class Attempt(NamedTuple):
    words: str
    group: str
    wall: str
    act: Callable[[Given], object]


class Stopped(Exception):  # noqa: N818 - it is what is hoped for
    """It was stopped in a way that is no errno; the text is one of ``SEEN``."""


ATTEMPTS: dict[str, Attempt] = {}


def attempt(words: str, group: str, wall: str) -> Callable[[Callable[[Given], object]], None]:
    def keep(act: Callable[[Given], object]) -> None:
        assert words not in ATTEMPTS, words
        ATTEMPTS[words] = Attempt(words, group, wall, act)

    return keep


def checked(value: int) -> int:
    """The value of a C function; OSError with errno where it is -1."""
    if value == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return value


def call(given: Given, name: str, *arguments: int) -> int:
    return checked(LIBC.syscall(*(ctypes.c_long(one) for one in (given["calls"][name], *arguments))))


# the network

NET = "network"


def connected(family: int, kind: int, address: Any, protocol: int = 0) -> str:
    """Connect and be answered: a datagram that nobody takes is none that got out."""
    with socket.socket(family, kind, protocol) as one:
        one.settimeout(2)
        one.connect(address)
        one.send(b"x")
        if kind == socket.SOCK_DGRAM:
            try:
                return repr(one.recv(16))
            except TimeoutError:
                raise Stopped("no answer") from None
        return "connected"


TCP, UDP = socket.SOCK_STREAM, socket.SOCK_DGRAM


@attempt("TCP over IPv4 to a server of this machine", NET, NETWORK)
def _(given: Given) -> object:
    return connected(socket.AF_INET, TCP, ("127.0.0.1", given["tcp"]))


@attempt("TCP over IPv4 to the internet", NET, NETWORK)
def _(given: Given) -> object:
    return connected(socket.AF_INET, TCP, ("192.0.2.1", 443))


@attempt("TCP over IPv4 to a cloud's metadata", NET, NETWORK)
def _(given: Given) -> object:
    return connected(socket.AF_INET, TCP, ("169.254.169.254", 80))


@attempt("TCP over IPv6 to a server of this machine", NET, NETWORK)
def _(given: Given) -> object:
    return connected(socket.AF_INET6, TCP, ("::1", given["tcp"]))


@attempt("TCP over IPv6 to the internet", NET, NETWORK)
def _(given: Given) -> object:
    return connected(socket.AF_INET6, TCP, ("2001:db8::1", 443))


@attempt("TCP to this machine by an IPv6-mapped address", NET, NETWORK)
def _(given: Given) -> object:
    return connected(socket.AF_INET6, TCP, ("::ffff:127.0.0.1", given["tcp"]))


@attempt("UDP over IPv4 to a server of this machine", NET, NETWORK)
def _(given: Given) -> object:
    return connected(socket.AF_INET, UDP, ("127.0.0.1", given["udp"]))


@attempt("UDP over IPv4 to the internet", NET, NETWORK)
def _(given: Given) -> object:
    return connected(socket.AF_INET, UDP, ("192.0.2.1", 9))


@attempt("UDP over IPv6 to the internet", NET, NETWORK)
def _(given: Given) -> object:
    return connected(socket.AF_INET6, UDP, ("2001:db8::1", 9))


@attempt("a DNS query over UDP", NET, NETWORK)
def _(given: Given) -> object:
    with socket.socket(socket.AF_INET, UDP) as one:
        question = struct.pack("!6H", 1, 256, 1, 0, 0, 0) + b"\7example\3com\0\0\1\0\1"
        one.sendto(question, ("9.9.9.9", 53))


@attempt("a name looked up by the C library", NET, NETWORK)
def _(given: Given) -> object:
    try:
        return socket.getaddrinfo("example.com", 443)
    except socket.gaierror:
        raise Stopped("no name") from None


@attempt("a multicast", NET, NETWORK)
def _(given: Given) -> object:
    with socket.socket(socket.AF_INET, UDP) as one:
        one.sendto(b"x", ("224.0.0.251", 5353))


@attempt("a broadcast", NET, NETWORK)
def _(given: Given) -> object:
    with socket.socket(socket.AF_INET, UDP) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        one.sendto(b"x", ("255.255.255.255", 9))


@attempt("an abstract Unix socket of this machine", NET, NETWORK)
def _(given: Given) -> object:
    return connected(socket.AF_UNIX, TCP, given["abstract"])


@attempt("ICMP by a datagram socket", NET, CAPABILITY)
def _(given: Given) -> object:
    return socket.socket(socket.AF_INET, UDP, socket.IPPROTO_ICMP)


@attempt("a raw IPv4 socket", NET, CAPABILITY)
def _(given: Given) -> object:
    return socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)


@attempt("a raw IPv6 socket", NET, CAPABILITY)
def _(given: Given) -> object:
    return socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58)


@attempt("an interface switched off", NET, CAPABILITY)
def _(given: Given) -> object:
    import fcntl

    with socket.socket(socket.AF_INET, UDP) as one:
        return fcntl.ioctl(one, 0x8914, struct.pack("16sh14x", b"lo", 0))  # SIOCSIFFLAGS


FAMILIES = {
    "a vsock, which reaches the hypervisor": (40, TCP),
    "a netlink socket": (16, socket.SOCK_RAW),
    "a packet socket": (17, socket.SOCK_RAW),
    "a socket of the kernel's crypto": (38, socket.SOCK_SEQPACKET),
    "a Bluetooth socket": (31, socket.SOCK_RAW),
    "an XDP socket": (44, socket.SOCK_RAW),
    "a CAN socket": (29, socket.SOCK_RAW),
}
for _words, _pair in FAMILIES.items():
    attempt(_words, NET, FILTER)(lambda given, pair=_pair: socket.socket(*pair))


# sockets and descriptors of others

REACH = "others"


def dialled(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(path)


attempt("the control socket of the controller", REACH, MOUNTS)(lambda given: dialled(given["control"]))
attempt("the socket of another connector", REACH, MOUNTS)(lambda given: dialled(given["other"]))
attempt("the socket of a container engine", REACH, MOUNTS)(lambda given: dialled("/run/docker.sock"))
attempt("the system's message bus", REACH, MOUNTS)(lambda given: dialled("/run/dbus/system_bus_socket"))


@attempt("a link in place of its own socket", REACH, READ_ONLY)
def _(given: Given) -> object:
    return os.symlink(given["control"], "/run/connector/connector.sock")


@attempt("its outbox swapped for a link", REACH, READ_ONLY)
def _(given: Given) -> object:
    return os.rename("/run/connector/out", "/tmp/out")


@attempt("the names of other calls' input files", REACH, MODES)
def _(given: Given) -> object:
    found = os.listdir("/run/connector/in")
    if not found:
        raise Stopped("empty")
    return found


@attempt("the names of other calls' output files", REACH, MODES)
def _(given: Given) -> object:
    return os.listdir("/run/connector/out")


@attempt("a descriptor that the controller forgot to close", REACH, DESCRIPTORS)
def _(given: Given) -> object:
    return os.listdir(f"/proc/self/fd/{given['leaked']}")


# files

READ, KILL = "reading", "processes"
SHOWN = {
    "a home": "home",
    "the state folder of the controller": "state",
    "a secret of the controller's user": "secret",
    "another connector's code": "objects",
}
for _words, _key in SHOWN.items():
    attempt(_words, READ, MOUNTS)(lambda given, key=_key: os.stat(given[key]))
for _path in (
    "/etc/shadow", "/etc/passwd", "/etc/ssh", "/etc/resolv.conf", "/var/log", "/boot", "/sys/kernel",
    "/root/.ssh",
    "/dev/mem", "/dev/kmsg", "/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/loop-control", "/opt",
    "/srv",
):  # fmt: skip
    attempt(_path, READ, MOUNTS)(lambda given, path=_path: os.stat(path))


@attempt("/dev/tty, the terminal of who started the controller", READ, MOUNTS)
def _(given: Given) -> object:
    return os.open("/dev/tty", os.O_RDWR)


def whole(path: str) -> bytes:
    with open(path, "rb") as file:
        data = file.read(65536)
    if not data:
        raise Stopped("empty")
    return data


@attempt("/proc/kcore, the kernel's memory", READ, MODES)
def _(given: Given) -> object:
    if not os.path.exists("/proc/kcore"):
        raise Stopped("empty")  # a kernel that shows nobody its memory
    return whole("/proc/kcore")


attempt("the environment of what built the sandbox", READ, MODES)(lambda given: whole("/proc/1/environ"))
for _key in ("secret", "state"):
    attempt(f"the {_key} of outside, through /proc/1/root", READ, OTHER_ROOT)(
        lambda given, key=_key: os.stat(f"/proc/1/root{given[key]}")
    )


@attempt("a file of outside, through /proc/1/fd", READ, MODES)
def _(given: Given) -> object:
    held = [os.readlink(f"/proc/1/fd/{number}") for number in os.listdir("/proc/1/fd")]
    files = [one for one in held if one.startswith("/") and one != "/dev/null"]
    if not files:
        raise Stopped("empty")
    return files


@attempt("more rights, by the memory of the first process", KILL, MODES)
def _(given: Given) -> object:
    with open("/proc/1/mem", "r+b"):
        pass
    status = dict(line.split(":\t", 1) for line in open("/proc/1/status").read().splitlines())
    none = {"CapEff": "0" * 16, "CapBnd": "0" * 16, "NoNewPrivs": "1", "Seccomp": "2"}
    if none.items() <= status.items():
        raise Stopped("empty")  # it is of the same cell, and can do no more
    return {name: status[name] for name in none}


attempt("the environment of the controller", READ, PROCESSES)(
    lambda given: whole(f"/proc/{given['pid']}/environ")
)
attempt("the files of the controller by /proc", READ, PROCESSES)(
    lambda given: os.listdir(f"/proc/{given['pid']}/root")
)


WRITE = "writing"
for _path in (
    "/", "/app", "/kit", "/usr", "/usr/lib", "/etc", "/dev", "/proc", "/run", "/run/connector",
    "/run/connector/in",
    "/sys",
):  # fmt: skip
    attempt(f"a new file in {_path}", WRITE, READ_ONLY)(lambda given, path=_path: open(f"{path}/made", "w"))
for _path in (
    "/app/main.py", "/kit/handler_connector.py", "/etc/ld.so.cache", "/proc/sys/kernel/core_pattern",
    "/proc/sys/vm/overcommit_memory", "/proc/sys/net/ipv4/ip_forward", "/proc/sysrq-trigger",
    "/proc/self/uid_map",
):  # fmt: skip
    attempt(f"{_path}, overwritten", WRITE, READ_ONLY)(
        lambda given, path=_path: os.write(os.open(path, os.O_WRONLY), b"1")
    )


@attempt("its own end, last when memory is short", WRITE, CAPABILITY)
def _(given: Given) -> object:
    return os.write(os.open("/proc/self/oom_score_adj", os.O_WRONLY), b"-1000")


attempt("its own code, made writable", WRITE, READ_ONLY)(lambda given: os.chmod("/app/main.py", 0o777))
attempt("its own interpreter, removed", WRITE, READ_ONLY)(lambda given: os.unlink(sys.executable))


# processes

attempt("a signal to the controller", KILL, PROCESSES)(lambda given: os.kill(given["pid"], 0))
attempt("a pidfd of the controller", KILL, PROCESSES)(lambda given: os.pidfd_open(given["pid"]))
attempt("a signal to the controller's process group", KILL, PROCESSES)(
    lambda given: os.killpg(given["group"], 0)
)


@attempt("ptrace of what built the sandbox", KILL, FILTER)
def _(given: Given) -> object:
    return checked(LIBC.ptrace(16, 1, 0, 0))


@attempt("ptrace of its own child", KILL, FILTER)
def _(given: Given) -> object:
    return checked(LIBC.ptrace(0, 0, 0, 0))  # PTRACE_TRACEME


@attempt("a higher priority", KILL, CAPABILITY)
def _(given: Given) -> object:
    return os.setpriority(os.PRIO_PROCESS, 0, -10)


@attempt("real-time scheduling", KILL, CAPABILITY)
def _(given: Given) -> object:
    return os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


@attempt("a higher bound on core files", KILL, CAPABILITY)
def _(given: Given) -> object:
    number = resource.RLIM_INFINITY
    limit = struct.pack("QQ", number & 2**64 - 1, number & 2**64 - 1)
    return checked(LIBC.prlimit64(0, resource.RLIMIT_CORE, limit, None))


# privileges

RIGHTS = "privileges"
attempt("user id 0", RIGHTS, IDENTITY)(lambda given: os.setuid(0))
attempt("group id 0", RIGHTS, IDENTITY)(lambda given: os.setgid(0))
attempt("more groups", RIGHTS, CAPABILITY)(lambda given: os.setgroups([0]))


@attempt("every capability", RIGHTS, CAPABILITY)
def _(given: Given) -> object:
    head = struct.pack("Ii", 0x20080522, 0)
    return checked(LIBC.capset(head, struct.pack("6I", *[0xFFFFFFFF] * 6)))


@attempt("a device of its own", RIGHTS, CAPABILITY)
def _(given: Given) -> object:
    return os.mknod("/tmp/mem", 0o20666, os.makedev(1, 1))


@attempt("a disk of its own", RIGHTS, CAPABILITY)
def _(given: Given) -> object:
    return os.mknod("/tmp/disk", 0o60666, os.makedev(254, 0))


@attempt("a program that runs as its owner (setuid)", RIGHTS, MOUNTS)
def _(given: Given) -> object:
    for name in ("su", "sudo", "mount", "passwd", "newgrp", "pkexec"):
        for folder in ("/usr/bin", "/bin"):
            if os.path.exists(f"{folder}/{name}"):
                return name
    return os.stat("/usr/bin/su")


# namespaces and mounts

SPACES = "namespaces and mounts"
NAMESPACES = {
    "user": 0x10000000, "mount": 0x20000, "network": 0x40000000, "process": 0x20000000, "IPC": 0x08000000,
    "host name": 0x04000000, "control group": 0x02000000, "time": 0x80,
}  # fmt: skip
for _words, _flag in NAMESPACES.items():
    attempt(f"a new {_words} namespace", SPACES, FILTER)(
        lambda given, flag=_flag: checked(LIBC.unshare(flag))
    )


@attempt("a child in a new user namespace (clone)", SPACES, FILTER)
def _(given: Given) -> object:
    return call(given, "clone", 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)


@attempt("another namespace entered (setns)", SPACES, FILTER)
def _(given: Given) -> object:
    return checked(LIBC.setns(os.open("/proc/self/ns/net", os.O_RDONLY), 0))


@attempt("memory mounted as a folder", SPACES, FILTER)
def _(given: Given) -> object:
    return checked(LIBC.mount(b"none", b"/tmp", b"tmpfs", 0, None))


@attempt("a read-only mount made writable", SPACES, FILTER)
def _(given: Given) -> object:
    return checked(LIBC.mount(None, b"/app", None, 32 | 4096, None))  # MS_REMOUNT | MS_BIND


@attempt("a mount taken away", SPACES, FILTER)
def _(given: Given) -> object:
    return checked(LIBC.umount2(b"/proc", 2))


attempt("another root (chroot)", SPACES, FILTER)(lambda given: os.chroot("/tmp"))

CALLS = {
    SPACES: ("pivot_root", "move_mount", "fsopen", "open_tree", "mount_setattr", "clone3"),
    "the kernel": (
        "keyctl", "add_key", "request_key", "io_uring_setup", "io_uring_enter", "bpf", "perf_event_open",
        "userfaultfd", "kexec_load", "init_module", "finit_module", "syslog", "swapon", "quotactl", "acct",
        "reboot",
        "settimeofday", "sethostname", "fanotify_init", "name_to_handle_at", "open_by_handle_at",
    ),
    KILL: ("process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp"),
}  # fmt: skip
for _group, _names in CALLS.items():
    for _name in _names:
        attempt(_name, _group, FILTER)(lambda given, name=_name: call(given, name, 0, 0, 0, 0, 0))

KERNEL = "the kernel"


@attempt("a system call of a later kernel", KERNEL, FILTER)
def _(given: Given) -> object:
    return checked(LIBC.syscall(ctypes.c_long(5000), 0))


@attempt("a system call of another table (x32)", KERNEL, FILTER)
def _(given: Given) -> object:
    if os.uname().machine != "x86_64":  # no other machine has such a table
        raise Stopped("SIGSYS")
    return checked(LIBC.syscall(ctypes.c_long(0x40000000 | 39)))


@attempt("a personality without address randomization", KERNEL, FILTER)
def _(given: Given) -> object:
    return checked(LIBC.personality(0x0040000))


def typed(request: int) -> int:
    return checked(LIBC.ioctl(0, ctypes.c_ulong(request), b"x"))


attempt("a key typed into a terminal (TIOCSTI)", KERNEL, FILTER)(lambda given: typed(0x5412))
attempt("the same with high bits set", KERNEL, FILTER)(lambda given: typed(0x1_0000_5412))
attempt("a selection pasted into a console (TIOCLINUX)", KERNEL, FILTER)(lambda given: typed(0x541C))


# bounds that show inside; those of memory, processes and time are seen from outside

BOUNDS = "bounds"


def filled(folder: str) -> int:
    size = 0
    path = f"{folder}/fill-{os.getpid()}"
    with open(path, "wb", buffering=0) as file:
        os.unlink(path)
        for _ in range(512):
            size += file.write(b"z" * 2**20)
    return size


for _folder in ("/tmp", "/dev/shm", "/run/connector/out"):
    attempt(f"512 MiB in {_folder}", BOUNDS, SCRATCH)(lambda given, folder=_folder: filled(folder))


@attempt("100,000 open files", BOUNDS, FILES)
def _(given: Given) -> object:
    return len([os.open("/dev/null", os.O_RDONLY) for _ in range(100_000)])


@attempt("a core file with all that it knows", BOUNDS, NO_CORE)
def _(given: Given) -> object:
    child = os.fork()
    if child == 0:
        os.chdir("/tmp")
        os.abort()
    _, status = os.waitpid(child, 0)
    if os.WCOREDUMP(status):
        return "a core was written"
    raise Stopped("no core")


# the one way out of a connector that lists a host: only run where there is one

GREETING_OF_NOTHING = b"GET / HTTP/1.1\r\n\r\n"
OUT = "through the proxy"


def asked(request: bytes, then: bytes = b"") -> str:
    """What the proxy says to a request, and whether it carries what comes then."""
    with socket.create_connection(("127.0.0.1", 3128), 10) as one:
        one.settimeout(15)
        one.sendall(request)
        first = one.recv(4096)
        status = first.split(b" ", 2)[1].decode() if first else "closed"
        if status != "200":
            raise Stopped(status)
        one.sendall(then)
        try:
            if not one.recv(16):
                raise Stopped("closed")
        except ConnectionError:
            raise Stopped("closed") from None
        return "answered"


def connect_to(target: str, then: bytes = b"") -> str:
    return asked(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode(), then)


def greeting(name: str) -> bytes:
    import ssl

    hello = ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made = context.wrap_bio(ssl.MemoryBIO(), hello, server_hostname=name)
    try:
        made.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return hello.read()


@attempt("a host that is not listed", OUT, PROXY)
def _(given: Given) -> object:
    return connect_to("evil.example:443", greeting("evil.example"))


@attempt("the listed host at another port", OUT, PROXY)
def _(given: Given) -> object:
    return connect_to("api.example.com:22")


@attempt("a server of this machine by its address", OUT, PROXY)
def _(given: Given) -> object:
    return asked(f"GET http://127.0.0.1:{given['tcp']}/ HTTP/1.1\r\n\r\n".encode())


@attempt("plain http to a name", OUT, PROXY)
def _(given: Given) -> object:
    return asked(b"GET http://api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n")


@attempt("a listed name that leads to this machine", OUT, PROXY)
def _(given: Given) -> object:
    return connect_to("inward.example.com:443", greeting("inward.example.com"))


@attempt("a listed name that leads to a cloud's metadata", OUT, PROXY)
def _(given: Given) -> object:
    return connect_to("metadata.example.com:443", greeting("metadata.example.com"))


@attempt("something else than TLS in a tunnel", OUT, PROXY)
def _(given: Given) -> object:
    return connect_to("api.example.com:443", GREETING_OF_NOTHING)


@attempt("TLS for another server in a tunnel", OUT, PROXY)
def _(given: Given) -> object:
    return connect_to("api.example.com:443", greeting("evil.example"))


@attempt("a second host behind the first", OUT, PROXY)
def _(given: Given) -> object:
    first = b"CONNECT api.example.com:443 HTTP/1.1\r\n\r\nCONNECT evil.example:443 HTTP/1.1\r\n\r\n"
    return asked(first)


@attempt("a Host header that names another", OUT, PROXY)
def _(given: Given) -> object:
    return asked(b"CONNECT api.example.com:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n")


@attempt("a name that ends the line early", OUT, PROXY)
def _(given: Given) -> object:
    return asked(b"CONNECT api.example.com:443\r\nX: .evil.example:443 HTTP/1.1\r\n\r\n")


@attempt("a number in place of an address", OUT, PROXY)
def _(given: Given) -> object:
    return connect_to("2130706433:443")


# the gate, where plain requests go; what it refuses says why in a header

AT_GATE = "through the gate"


def requested(data: bytes) -> str:
    """What the gate says to a request: raises what it refused it for."""
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(10)
        one.connect(os.environ["HANDLER_GATE_SOCKET"])
        one.sendall(data)
        head = b""
        while b"\r\n\r\n" not in head and (more := one.recv(4096)):
            head += more
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"x-handler-refused: "):
            raise Stopped(line.partition(b": ")[2].decode())
    return head[:80].decode("latin-1")


LISTED_HOST = b"Host: api.example.com\r\n"
REQUESTS = {
    "a request to a host that is not listed":
        b"GET https://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "one to the listed host at another port":
        b"GET https://api.example.com:8443/ HTTP/1.1\r\nHost: api.example.com:8443\r\n\r\n",
    "one to a server of this machine": b"GET http://127.0.0.1:80/ HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n",
    "one to a cloud's metadata": b"GET http://169.254.169.254/ HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n",
    "one whose Host names another": b"GET https://api.example.com/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "one by plain http to a name": b"GET http://api.example.com/ HTTP/1.1\r\n" + LISTED_HOST + b"\r\n",
    "one with user information": b"GET https://x@api.example.com/ HTTP/1.1\r\n" + LISTED_HOST + b"\r\n",
    "one with two lengths":
        b"POST /a HTTP/1.1\r\n" + LISTED_HOST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "one with a length and chunks":
        b"POST /a HTTP/1.1\r\n" + LISTED_HOST + b"Content-Length: 3\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "one that ends its path early":
        b"GET /a HTTP/1.1\r\nX: HTTP/1.1\n" + LISTED_HOST + b"Host: evil.example\r\n\r\n",
    "a tunnel": b"CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\n\r\n",
}  # fmt: skip
for _words, _data in REQUESTS.items():
    attempt(_words, AT_GATE, GATE)(lambda given, data=_data: requested(data))


def ventured(words: str, given: Given) -> dict[str, str]:
    """What came of one attempt: ``{"stopped": how}``, or ``{"passed": what}``."""
    try:
        return {"passed": repr(ATTEMPTS[words].act(given))[:200]}
    except Stopped as how:
        return {"stopped": str(how)}
    except OSError as fault:
        return {"stopped": errno.errorcode.get(fault.errno or 0, str(fault))}
    except BaseException as fault:
        return {"fault": f"{type(fault).__name__}: {fault}"[:200]}


def alone(words: str, given: Given) -> dict[str, str]:
    """One attempt in a child of its own, which it may take down with it."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(PATIENCE_S)
        os.close(read)
        said = ventured(words, given)
        os.write(write, json.dumps(said).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return {"stopped": signal.Signals(os.WTERMSIG(status)).name}
    found: dict[str, str] = json.loads(answer)
    return found


def run(names: list[str], given: Given) -> dict[str, dict[str, str]]:
    """Each of these attempts, in turn."""
    apart = (SCRATCH, FILES, NO_CORE)
    return {
        words: (alone if ATTEMPTS[words].wall in apart or "x32" in words else ventured)(words, given)
        for words in names
    }


def answer(asked_: dict[str, Any]) -> dict[str, Any]:
    """What a connector of any runtime answers to one request of MCP."""
    if asked_["method"] == "tools/call":
        arguments = asked_["params"]["arguments"]
        found = run(arguments["names"], arguments["given"])
        return {"content": [], "structuredContent": {"answer": found}}
    if asked_["method"] == "tools/list":
        return {"tools": [{"name": "run", "inputSchema": {"type": "object"}}]}
    return {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}


def main() -> None:
    """As a program of its own: on standard input and output, or on the socket that it is given a path of."""
    if sys.argv[1:] == ["stdio"]:
        lines: Any = sys.stdin
        out: Any = sys.stdout
    else:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(os.environ["HANDLER_CONNECTOR_SOCKET"])
        listener.listen()
        wire, _ = listener.accept()
        lines, out = wire.makefile("r"), wire.makefile("w")
    for line in lines:
        message = json.loads(line)
        if "id" in message:
            said = {"jsonrpc": "2.0", "id": message["id"], "result": answer(message)}
            out.write(json.dumps(said) + "\n")
            out.flush()
    time.sleep(60)


if __name__ == "__main__":
    main()
