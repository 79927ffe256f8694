"""A connector that was there before us: a socket of our own user's, never started or stopped.

Nothing contains it. It is told from a running sandbox in one condition, and treated as one otherwise: it is
gone when the process that listens is, and whoever asks next looks for it again.
"""

import asyncio
import os
import shutil
import stat
from collections.abc import Collection
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from reconciler.runtime import sockets
from reconciler.runtime.cell import Endpoint

WALLS = {"sandbox": "none"}  # what is told of its walls


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


def attached(path: str, folder: Path, ours: Collection[Path]) -> Attachment:
    """Connect to what listens at ``path``; ``folder`` is ours, and so are the real paths ``ours``, where no
    socket is met. ValueError with the words of a condition.
    """
    place = Path(path)
    if any(place.parent.resolve().is_relative_to(one) for one in ours):
        raise ValueError(f"the socket {path} leads into Handler's own files: name that of another program")
    with ExitStack() as undo:
        try:
            at = sockets.folder(place.parent)
            undo.callback(os.close, at)
            with sockets.connect(at, place.name) as trial:
                pid, uid = sockets.peer(trial)
        except OSError:
            raise ValueError(f"nothing listens at {path}: start what it is attached to") from None
        if uid != os.geteuid():
            raise ValueError(f"what listens at {path} is another user's: run it as the user that Handler is")
        if not pid:
            raise ValueError(f"what listens at {path} is in a container of its own: run it beside Handler")
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        boxes = [_box(folder / name, undo) for name in ("in", "out")]
        try:
            process = Stranger(pid)
        except OSError:
            raise ValueError(f"what listened at {path} is gone: start it again") from None
        undo.pop_all()
    endpoint = Endpoint(pid, boxes[0], boxes[1], process.ended, at, name=place.name, user=uid)
    return Attachment(process, endpoint, place, folder)


def _box(folder: Path, undo: ExitStack) -> int:
    """An empty folder, for files that no attached connector is handed; its descriptor."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    undo.callback(os.close, number)
    return number
