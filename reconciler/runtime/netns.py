"""A listening socket inside a network namespace that has nothing else: the one way out of a sandbox.

A socket belongs to the namespace that it was opened in, whoever holds it. So a short-lived child enters the
namespace (first the user namespace that owns it, where that is another: an ordinary user has no power over it
otherwise), listens on loopback there, sends the socket back and ends. Nothing of the proxy runs inside, and
inside there is nothing but an address. bubblewrap may still be bringing loopback up: the address is bound
all the same (``IP_FREEBIND``), and connections come once it is up.
"""

import asyncio
import fcntl
import os
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress

from reconciler.runtime.wayout import HOST, PORT

BACKLOG = 64
_PATIENCE_S = 10.0  # a child that starts, and three system calls
_GET_USERNS = 0xB701  # NS_GET_USERNS of linux/nsfs.h: the user namespace that owns a namespace

# Enters the namespaces of the later descriptors, in their order, and sends a listener to the first.
_ENTER = """
import sys, posix, _socket
back, spaces = int(sys.argv[1]), list(map(int, sys.argv[4:]))
if hasattr(posix, "setns"):
    enter = posix.setns
else:
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    def enter(fd, kind):
        if libc.setns(fd, kind):
            raise OSError(ctypes.get_errno(), "setns")
for fd in spaces:
    enter(fd, 0)
listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
listener.setsockopt(_socket.SOL_IP, 15, 1)
listener.bind((sys.argv[2], int(sys.argv[3])))
listener.listen(%d)
sent = listener.fileno().to_bytes(4, sys.byteorder)
_socket.socket(fileno=back).sendmsg([b"1"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, sent)])
posix._exit(0)
"""


class NoListenerError(OSError):
    """A socket could not be opened inside; the text says at which step, for operators."""


async def listener(pid: int) -> socket.socket:
    """A listening socket at ``HOST:PORT`` in the network namespace of a process; NoListenerError."""
    loop = asyncio.get_running_loop()
    with ExitStack() as owned:
        child, ours = _entering(pid, owned)
        readable = asyncio.Event()
        loop.add_reader(ours.fileno(), readable.set)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await readable.wait()
        except TimeoutError:
            raise NoListenerError("the child that enters its network took too long") from None
        finally:
            loop.remove_reader(ours.fileno())
        return _received(child, ours)


def _entering(pid: int, owned: ExitStack) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """The child at work, and where its answer comes; both end with ``owned``."""
    try:
        spaces = _spaces(pid, owned)
    except OSError as fault:
        raise NoListenerError(f"its network cannot be entered: {fault.strerror}") from None
    ours, theirs = socket.socketpair()
    owned.callback(ours.close)
    with theirs:
        numbers = (theirs.fileno(), HOST, PORT, *spaces)
        child = subprocess.Popen(  # noqa: S603 - our own interpreter and code
            (sys.executable, "-I", "-S", "-c", _ENTER % BACKLOG, *map(str, numbers)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=(theirs.fileno(), *spaces),
            cwd="/",
            env={},
        )
    owned.callback(_reap, child)
    return child, ours


def _spaces(pid: int, owned: ExitStack) -> list[int]:
    """Descriptors of the namespaces to enter, in order: the owning user namespace unless it is ours."""
    network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    owned.callback(os.close, network)
    if os.path.samestat(os.fstat(network), os.stat("/proc/self/ns/net")):  # noqa: PTH116 - a link into the kernel
        raise OSError(0, "it has no network of its own")
    user = fcntl.ioctl(network, _GET_USERNS)
    owned.callback(os.close, user)
    ours = os.stat("/proc/self/ns/user")  # noqa: PTH116
    return [network] if os.path.samestat(os.fstat(user), ours) else [user, network]


def _received(child: subprocess.Popen[bytes], ours: socket.socket) -> socket.socket:
    try:
        _, numbers, _, _ = socket.recv_fds(ours, 1, 1)
    except OSError:
        numbers = []
    if len(numbers) == 1:
        return socket.socket(fileno=numbers[0])
    child.kill()
    _, said = child.communicate()
    last = said.decode("utf-8", "replace").strip().rpartition("\n")[2]
    raise NoListenerError(f"no socket can be opened in its network: {last or 'the child ended'}")


def _reap(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait()
    if child.stderr is not None:
        with suppress(OSError):
            child.stderr.close()
