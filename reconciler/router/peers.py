"""Who comes to a door: the process at the other end of a socket, by the kernel's word, and its session.

A door is a folder of sockets. The router listens; whose session a connection belongs to is decided by the
door's ``pin``, which the control room brings.
"""

import os
import resource
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from reconciler.model.routes import AgentRoutes

_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid
_RESERVED = 32  # descriptors
_PARENT, _START = 1, 19  # fields of /proc/PID/stat after the command's closing bracket


@dataclass(frozen=True, slots=True)
class Peer:
    """The process that connected, and its parent, whose start (clock ticks since boot) tells it apart from a
    later process of the same number. The parent is 0, 0 when the peer was gone before it could be asked.
    """

    pid: int
    uid: int
    parent_pid: int
    parent_start: int


@dataclass(frozen=True, slots=True)
class Pinned:
    """The session that a connection belongs to, and the routes it is pinned to."""

    session: str
    routes: AgentRoutes


@dataclass(frozen=True, slots=True)
class Door:
    """A folder of sockets: one an interface, and ``services.sock`` for all. ``pin`` says whose session a
    connection is, or in a sentence why it has none; ``left`` hears of its end,
    by the session it belonged to.
    """

    id: str
    folder: Path
    pin: Callable[[Peer], Pinned | str]
    interfaces: tuple[str, ...]
    left: Callable[[str], object]


def peer_of(connection: socket.socket) -> Peer:
    """Ask the kernel who is at the other end of a connected Unix socket."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(credentials)
    fields = _stat(pid)
    parent = int(fields[_PARENT]) if fields else 0
    above = _stat(parent) if parent else None
    return Peer(pid, uid, parent if above else 0, int(above[_START]) if above else 0)


def is_scarce(connection: socket.socket) -> bool:
    """Whether descriptors run out: the lowest that was free went to this connection. The last few are for
    status files, the journal and the processes that run.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft != resource.RLIM_INFINITY and connection.fileno() >= soft - _RESERVED


def is_own(peer: Peer) -> bool:
    """Only processes of the controller's own user are served: the socket is the caller's identity."""
    return peer.uid == os.geteuid()


def _stat(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return text[text.rindex(")") + 2 :].split()
