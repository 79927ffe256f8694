"""The file systems of OCI images, unpacked once a digest below ``<state>/images``, out of podman's store.

Podman is asked for two things: what an image says of itself, and its files. Nothing is ever pulled: a person
does that, and until then the condition says how. No container is run by it either: the files are shown to a
sandbox of ours, which has the same walls as any other. What is unpacked keeps no device and no set-user-id
bit (``unpacking``), and nothing that an image says of itself becomes an option of the sandbox.
"""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from reconciler.runtime import host, unpacking
from reconciler.runtime.environments import NotBuiltError, is_being_made, plain

_HALF_MADE = ".making-"
_ASK_S = 60.0
_REMOVE_S = 10.0
_ABSENT = re.compile("not known|no such", re.IGNORECASE)  # what podman says of an image that it has not


@dataclass(frozen=True, slots=True)
class Image:
    """An unpacked image: its files, and how it wants to be run. ``words`` are its entry point and command."""

    root: Path
    words: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]
    folder: str


class Images:
    """The folder ``<state>/images``. An image is unpacked once, however many ask for it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._unpacking: dict[str, asyncio.Future[None]] = {}
        self._running: set[subprocess.Popen[bytes]] = set()
        self._closed = False
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in root.glob(f"{_HALF_MADE}*"):  # a controller that was killed while it unpacked
            if not is_being_made(left.name):
                shutil.rmtree(left, ignore_errors=True)

    def unpacked(self, reference: str) -> Image | None:
        """The image ``name@sha256:…`` as it lies here, or None before it is unpacked."""
        place = self.place(reference)
        try:
            config = json.loads((place / "config.json").read_bytes())
        except (OSError, ValueError):
            return None
        pairs = (one.partition("=") for one in config.get("Env") or ())
        return Image(
            root=place / "root",
            words=(*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ())),
            variables=tuple((name, value) for name, _, value in pairs if name),
            folder=config.get("WorkingDir") or "/",
        )

    def place(self, reference: str) -> Path:
        """Where an image lies once it is unpacked."""
        return self._root / reference.rpartition(":")[2]

    async def unpack(self, reference: str) -> None:
        """Unpack an image that podman has; raises NotBuiltError with what a person can do. Who gives up
        waiting leaves it to those who ask next.
        """
        if (task := self._unpacking.get(reference)) is None:
            task = asyncio.get_running_loop().run_in_executor(None, self._unpack, reference)
            self._unpacking[reference] = task
            task.add_done_callback(lambda done: self._finished(reference, done))
        await asyncio.shield(task)

    def _finished(self, reference: str, task: "asyncio.Future[None]") -> None:
        del self._unpacking[reference]
        if not task.cancelled():
            task.exception()  # whoever asked may have left: that is no fault to report

    def close(self) -> None:
        """End what is being unpacked, and begin nothing more."""
        self._closed = True
        for child in tuple(self._running):
            _end(child)

    def _unpack(self, reference: str) -> None:
        config = _inspected(self._ask("image", "inspect", reference))
        container = self._ask("create", "--network", "none", "--pull", "never", reference, "/none").strip()
        making = Path(tempfile.mkdtemp(prefix=f"{_HALF_MADE}{os.getpid()}-", dir=self._root))
        try:
            self._export(container, making / "root", config["WorkingDir"])
            (making / "config.json").write_text(json.dumps(config))
            making.chmod(0o755)
            place = self.place(reference)
            shutil.rmtree(place, ignore_errors=True)
            making.rename(place)
        except (tarfile.TarError, OSError) as fault:
            words = (fault.strerror or type(fault).__name__) if isinstance(fault, OSError) else fault
            raise NotBuiltError(f"its image cannot be unpacked: {words}") from None
        finally:
            with suppress(NotBuiltError):
                _podman(_begun("rm", "--force", container), _REMOVE_S)  # also at the end of everything
            shutil.rmtree(making, ignore_errors=True)

    def _ask(self, *words: str) -> str:
        """What podman says; NotBuiltError, also where everything is being ended."""
        with self._known(_begun(*words)) as child:
            return _podman(child, _ASK_S)

    @contextmanager
    def _known(self, child: "subprocess.Popen[bytes]") -> Iterator["subprocess.Popen[bytes]"]:
        """A podman that ``close`` ends."""
        self._running.add(child)
        try:
            with child:
                if self._closed:  # before it was known
                    _end(child)
                yield child
        finally:
            self._running.discard(child)

    def _export(self, container: str, root: Path, start: str) -> None:
        with self._known(_begun("export", container)) as child:
            assert child.stdout is not None  # noqa: S101 - a pipe was asked for
            assert child.stderr is not None  # noqa: S101
            child.stderr.close()
            unpacking.unpack(child.stdout, root)
            unpacking.make_folder(root, start)
        if child.returncode:
            raise NotBuiltError(f"podman export ended with exit {child.returncode}")


def _tool() -> str:
    try:
        return host.program("podman").mounts[0][0]
    except host.Missing:
        raise NotBuiltError("podman is not installed: install the package podman") from None


def _begun(*words: str) -> "subprocess.Popen[bytes]":
    """Podman, in a process group of its own."""
    return subprocess.Popen(  # noqa: S603 - a program of the system; a reference follows its options
        (_tool(), *words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip


def _end(child: "subprocess.Popen[bytes]") -> None:
    if child.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)


def _podman(child: "subprocess.Popen[bytes]", limit_s: float) -> str:
    """What it says until it ends; NotBuiltError in a person's words."""
    words = cast("tuple[str, ...]", child.args)[1:]
    try:
        out, err = child.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        _end(child)
        child.communicate()
        raise NotBuiltError(f"podman {words[0]} did not answer within {limit_s:.0f} s") from None
    if child.returncode:
        said = [
            line
            for line in err.decode(errors="replace").splitlines()
            if line and not line.startswith("time=")
        ]
        if words[0] == "image" and (not said or _ABSENT.search(said[-1])):
            raise NotBuiltError(f"the image is not on this machine: podman pull {words[-1]}")
        told = f": {plain(said[-1])}" if said else ""
        raise NotBuiltError(f"podman {words[0]} ended with exit {child.returncode}{told}")
    return out.decode(errors="replace")


def _inspected(said: str) -> dict[str, Any]:
    """What an image says of itself, as podman told it; NotBuiltError where that cannot be used."""
    try:
        found = json.loads(said)
        config: dict[str, Any] = found[0].get("Config") or {}
    except (ValueError, LookupError):
        raise NotBuiltError("podman says nothing that can be read of the image") from None
    config = {key: config.get(key) for key in ("Entrypoint", "Cmd", "Env", "WorkingDir")}
    if not (config["Entrypoint"] or config["Cmd"]):
        raise NotBuiltError("the image says nothing to run: it needs an entry point or a command")
    for key, told in config.items():
        if not all(isinstance(one, str) and "\0" not in one for one in _texts(told)):
            raise NotBuiltError(f"what the image says of its {key} is no text that a program can be given")
    config["WorkingDir"] = f"/{(config['WorkingDir'] or '').lstrip('/')}"
    return config


def _texts(said: object) -> list[object]:
    return said if isinstance(said, list) else [said or ""]
