"""Unix sockets by descriptor: no path is resolved twice, and no path is too long.

A folder that a connector can write to may hold a link where its socket should be, and following it would hand
an agent's call to whatever listens there. So the folder and the name are opened without following links, the
name is checked to be a socket, and the connection goes to that very inode through ``/proc/self/fd``.
"""

import os
import socket
import stat
import struct
from pathlib import Path

BACKLOG = 128  # calls that wait while an interpreter starts
_PEER = struct.Struct("3i")  # pid, uid, gid


class NotASocketError(OSError):
    """What stands at the name is a link, a file, or something else that cannot be connected to."""


def listen(folder: int, name: str) -> socket.socket:
    """A listening, blocking Unix socket at ``name`` in an open directory; the name must not exist yet."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(f"/proc/self/fd/{folder}/{name}")
        listener.listen(BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def folder(path: Path) -> int:
    """A descriptor of a directory, for the functions here; NotASocketError when it is a link."""
    try:
        return os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC)
    except NotADirectoryError as fault:
        raise NotASocketError(fault.errno, "the folder of a socket is no directory") from None


def connect(folder: int, name: str) -> socket.socket:
    """A connected, non-blocking socket to ``name`` in an open directory.

    Raises NotASocketError for anything but a socket, FileNotFoundError, ConnectionRefusedError when nothing
    listens, BlockingIOError when the backlog is full.
    """
    if "/" in name or name in {"", ".", ".."}:
        raise ValueError("the name of a socket is one part of a path")
    at = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        if not stat.S_ISSOCK(os.fstat(at).st_mode):
            raise NotASocketError(f"'{name}' is not a socket")
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(0)
            connection.connect(f"/proc/self/fd/{at}")
        except BaseException:
            connection.close()
            raise
        return connection
    finally:
        os.close(at)


def peer(connection: socket.socket) -> tuple[int, int]:
    """Process and user of whoever listens at the other end; process 0 where it is in no namespace of ours."""
    pid, uid, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return pid, uid
