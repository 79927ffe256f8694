"""``handler`` and ``handlerd`` as processes of their own that import nothing: a brooder has done it for all.

A start of a controller costs seconds of imports on a slow machine, and the flow tests start hundreds. Here
each is forked from one process per worker that has imported every room and waits: the same entry, arguments,
environment, folder, exit code and death by signals. ``HANDLER_EFFORT`` above 1 (`make thorough`) and an
environment that an interpreter would start with otherwise run the installed commands instead.
"""

import atexit
import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any

from tests.kit.effort import EFFORT

ROOT = Path(__file__).resolve().parents[2]
_LARGEST = 1 << 18  # bytes of a request: arguments, environment, folder
_FDS = 4  # stdin, stdout, stderr, and where the brooder says the process's number and its end
_OF_THE_INTERPRETER = ("PYTHON", "LC_", "LANG", "LD_")
_PENS = threading.Lock()
BROODERS: set[int] = set()
"""The number of this worker's brooder, once there is one: no process of what is tested."""


class Hatched:
    """A process that was begun by the brooder; of ``subprocess.Popen`` what tests use."""

    def __init__(self, args: list[str], told: int) -> None:
        self.args = args
        self.returncode: int | None = None
        self._told = told
        self._pen = threading.Lock()
        self.pid = self._number()

    def poll(self) -> int | None:
        with self._pen:
            if self.returncode is None and select.select([self._told], [], [], 0)[0]:
                self._over()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None and not select.select([self._told], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        code = self.poll()
        return self.wait(timeout) if code is None else code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _number(self) -> int:
        said = os.read(self._told, 8)
        if len(said) != 8:
            raise RuntimeError(f"the brooder is gone: {self.args}")
        return int.from_bytes(said, "little", signed=True)

    def _over(self) -> None:
        self.returncode = self._number()
        os.close(self._told)


def can(env: dict[str, str]) -> bool:
    """Whether what is forked here is what the installed command would be with this environment."""
    return EFFORT <= 1 and all(
        env.get(key) == os.environ.get(key)
        for key in {*env, *os.environ}
        if key.startswith(_OF_THE_INTERPRETER)
    )


def begun(args: list[str], env: dict[str, str], cwd: Path, out: IO[Any], err: IO[Any]) -> Hatched:
    """Begin ``handler`` or ``handlerd``, by the path that ``args`` begins with; its input is empty."""
    reading, writing = os.pipe()
    asked = json.dumps([args, {key: os.fsencode(value).hex() for key, value in env.items()}, str(cwd)])
    try:
        with Path(os.devnull).open("rb") as empty, _PENS:
            fds = [empty.fileno(), out.fileno(), err.fileno(), writing]
            socket.send_fds(_brooder(), [asked.encode()], fds)
    finally:
        os.close(writing)
    return Hatched(args, reading)


@functools.cache
def _brooder() -> socket.socket:
    """This worker's brooder; it ends when the worker does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(theirs.fileno())],
            cwd=ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )  # fmt: skip

    BROODERS.add(process.pid)

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _brood(asked: socket.socket) -> None:
    """Fork a process for each request, in which this returns nothing and ends; tell of ends as they come."""
    awake, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    telling: dict[int, int] = {}
    while True:
        ready = select.select([asked, awake], [], [])[0]
        if awake in ready:
            os.read(awake, 4096)
            _tell(telling)
        if asked in ready:
            said, fds, _, _ = socket.recv_fds(asked, _LARGEST, _FDS)
            if not said:
                return
            child = os.fork()
            if not child:
                for other in (asked.fileno(), awake, waker, *telling.values()):
                    os.close(other)
                _become(json.loads(said), fds)
            for fd in fds[:-1]:
                os.close(fd)
            telling[child] = fds[-1]
            os.write(fds[-1], child.to_bytes(8, "little"))


def _tell(telling: dict[int, int]) -> None:
    for child in list(telling):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            told = telling.pop(child)
            with contextlib.suppress(BrokenPipeError):
                os.write(told, os.waitstatus_to_exitcode(status).to_bytes(8, "little", signed=True))
            os.close(told)


def _become(asked: tuple[list[str], dict[str, str], str], fds: list[int]) -> None:
    """In the new process: be the command, and end with its code as an interpreter ends."""
    args, env, cwd = asked
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, fd in enumerate(fds):
        if number < 3:
            os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environb.update({os.fsencode(key): bytes.fromhex(value) for key, value in env.items()})
    os.chdir(cwd)
    sys.argv[:] = args
    code = 1
    try:
        code = _main(Path(args[0]).name)
    except BaseException:  # noqa: BLE001 - as the interpreter would
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        _ended()
        os._exit(code)


def _main(name: str) -> int:
    from reconciler.doors import entry

    try:
        return int(entry.handlerd() if name == "handlerd" else entry.main() or 0)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0


def _ended() -> None:
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()


if __name__ == "__main__":
    import gc
    import importlib
    import pkgutil

    for _room in ("control", "doors"):
        for _found in pkgutil.iter_modules([str(ROOT / "reconciler" / _room)]):
            if _found.name != "openapi_connector":  # what is written beside a connector's kit
                importlib.import_module(f"reconciler.{_room}.{_found.name}")
    gc.collect()
    gc.freeze()
    _brood(socket.socket(fileno=int(sys.argv[1])))
