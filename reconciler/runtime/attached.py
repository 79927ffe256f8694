"""A connector that was there before us: a socket of our own user's, never started or stopped.

Nothing contains it. It is told from a running sandbox in one condition, and treated as one otherwise: it is
gone when the process that listens is, and whoever asks next looks for it again.
"""

import asyncio
import os
import shutil
import socket
import stat
import struct
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from reconciler.runtime import sockets
from reconciler.runtime.cell import Endpoint

WALLS = {"sandbox": "none"}  # what is told of its walls
_PEER = struct.Struct("3i")  # pid, uid, gid


class Stranger:
    """The process that listens. ``ended`` resolves when it is gone, or when we let go of it."""

    out_of_memory = False  # its memory is not ours to bound

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[str] = self._loop.create_future()
        self._pidfd = os.pidfd_open(pid)
        self._loop.add_reader(self._pidfd, self._over, "an end of its own")

    async def stop(self) -> str:
        """Let go of it: it goes on."""
        self.cut()
        return self.ended.result()

    def cut(self) -> None:
        """Let go of it, at once."""
        self._over("nobody needing it")

    def _over(self, how: str) -> None:
        if not self.ended.done():
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self.ended.set_result(how)


@dataclass(frozen=True, slots=True)
class Attachment:
    """What stands in the place of a cell."""

    process: Stranger
    endpoint: Endpoint
    path: Path
    folder: Path

    def stands(self) -> bool:
        """Whether its socket is still where it was."""
        with suppress(OSError):
            return stat.S_ISSOCK(self.path.lstat().st_mode)
        return False

    def clear(self) -> None:
        """After its end: our own folder goes. The endpoint stays open."""
        shutil.rmtree(self.folder, ignore_errors=True)


def attached(path: str, folder: Path) -> Attachment:
    """Connect to what listens at ``path``; ``folder`` is ours. ValueError with the words of a condition."""
    place = Path(path)
    with ExitStack() as undo:
        try:
            at = sockets.folder(place.parent)
            undo.callback(os.close, at)
            with sockets.connect(at, place.name) as trial:
                data = trial.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        except OSError:
            raise ValueError(f"nothing listens at {path}: start what it is attached to") from None
        pid, uid, _ = _PEER.unpack(data)
        if uid != os.geteuid():
            raise ValueError(f"what listens at {path} is another user's")
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        boxes = [_box(folder / name, undo) for name in ("in", "out")]
        try:
            process = Stranger(pid)
        except OSError:
            raise ValueError(f"what listened at {path} is gone") from None
        undo.pop_all()
    endpoint = Endpoint(pid, boxes[0], boxes[1], process.ended, at, name=place.name)
    return Attachment(process, endpoint, place, folder)


def _box(folder: Path, undo: ExitStack) -> int:
    """An empty folder, for files that no attached connector is handed; its descriptor."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    undo.callback(os.close, number)
    return number
