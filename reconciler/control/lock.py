"""One controller per state folder: a kernel lock, so that a dead owner never holds it.

The file's text names the owner for messages only; what counts is ``flock``. The descriptor is close-on-exec,
since an inherited one would keep the lock after the owner ended.
"""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reconciler.control import processes, unwaiting


class Held(Exception):  # noqa: N818 - a fact about another process
    """The state folder belongs to a running controller; ``pid`` names it (0 when its text is not there
    yet).
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        owner = f"process {pid}" if pid else "another process"
        super().__init__(f"the state folder is held by {owner}: one controller per configuration")


class Lock:
    """The lock of one state folder, taken when made; ``close`` lets it go."""

    def __init__(self, state: Path) -> None:
        """The folder is made 0700 when missing; raises ``Held`` when another process has the lock."""
        self._path = state / "lock"
        self._fd = _taken(self._path)

    def is_lost(self) -> bool:
        """Whether another file, or none, lies where it was taken: then it keeps nobody out."""
        try:
            found = self._path.lstat()
        except OSError:
            return True
        mine = os.fstat(self._fd)
        return (found.st_dev, found.st_ino) != (mine.st_dev, mine.st_ino)

    def take_again(self) -> None:
        """Take what lies there now, made anew when missing; raises ``Held`` and OSError."""
        lost, self._fd = self._fd, _taken(self._path)
        os.close(lost)

    def close(self) -> None:
        os.close(self._fd)


@contextmanager
def held(state: Path) -> Iterator[Lock]:
    """Hold the lock of a state folder (made 0700 when missing); raises ``Held`` when another process does."""
    lock = Lock(state)
    try:
        yield lock
    finally:
        lock.close()


def _taken(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(f"{path} is no file: remove it")
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()} {processes.start_time(os.getpid())}\n".encode(), 0)
    except BlockingIOError:
        pid = _owner(fd)
        os.close(fd)
        raise Held(pid) from None
    except BaseException:
        os.close(fd)
        raise
    return fd


def owner(state: Path) -> processes.Process | None:
    """The living controller of a state folder, by its own words checked against the process table."""
    try:
        with open(state / "lock", opener=unwaiting.opener) as file:
            words = file.read(64).split()
    except OSError:
        return None
    if len(words) != 2 or not all(word.isdigit() for word in words):
        return None
    process = processes.Process(int(words[0]), int(words[1]))
    return process if processes.lives(process) else None


def _owner(fd: int) -> int:
    word = os.pread(fd, 64, 0).split()
    return int(word[0]) if word and word[0].isdigit() else 0
