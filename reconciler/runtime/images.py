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
import subprocess
import tarfile
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler.runtime import host, unpacking
from reconciler.runtime.environments import NotBuiltError, is_being_made, plain

_HALF_MADE = ".making-"
_ASK_S = 60.0
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
            child.kill()

    def _unpack(self, reference: str) -> None:
        config = _inspected(reference)
        container = _podman("create", "--network", "none", "--pull", "never", reference, "/none").strip()
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
                _podman("rm", "--force", container)
            shutil.rmtree(making, ignore_errors=True)

    def _export(self, container: str, root: Path, start: str) -> None:
        child = subprocess.Popen(  # noqa: S603 - a program of the system, and an id that it gave
            (_tool(), "export", container), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
        self._running.add(child)
        try:
            with child:
                if self._closed:  # before it was known
                    child.kill()
                assert child.stdout is not None  # noqa: S101 - a pipe was asked for
                unpacking.unpack(child.stdout, root)
                unpacking.make_folder(root, start)
        finally:
            self._running.discard(child)
        if child.returncode:
            raise NotBuiltError(f"podman export ended with exit {child.returncode}")


def _tool() -> str:
    try:
        return host.program("podman").mounts[0][0]
    except host.Missing:
        raise NotBuiltError("podman is not installed: install the package podman") from None


def _podman(*words: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - a program of the system; a reference follows its options
            (_tool(), *words), capture_output=True, text=True, check=False, timeout=_ASK_S,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise NotBuiltError(f"podman {words[0]} did not answer within {_ASK_S:.0f} s") from None
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line and not line.startswith("time=")]
        if words[0] == "image" and (not said or _ABSENT.search(said[-1])):
            raise NotBuiltError(f"the image is not on this machine: podman pull {words[-1]}")
        told = f": {plain(said[-1])}" if said else ""
        raise NotBuiltError(f"podman {words[0]} ended with exit {done.returncode}{told}")
    return done.stdout


def _inspected(reference: str) -> dict[str, Any]:
    """What the image says of itself; NotBuiltError when podman does not have it."""
    _tool()
    try:
        found = json.loads(_podman("image", "inspect", reference))
        config: dict[str, Any] = found[0].get("Config") or {}
    except (ValueError, LookupError):
        raise NotBuiltError("podman says nothing that can be read of the image") from None
    config = {key: config.get(key) for key in ("Entrypoint", "Cmd", "Env", "WorkingDir")}
    if not (config["Entrypoint"] or config["Cmd"]):
        raise NotBuiltError("the image says nothing to run: it needs an entry point or a command")
    for key, said in config.items():
        if not all(isinstance(one, str) and "\0" not in one for one in _texts(said)):
            raise NotBuiltError(f"what the image says of its {key} is no text that a program can be given")
    config["WorkingDir"] = f"/{(config['WorkingDir'] or '').lstrip('/')}"
    return config


def _texts(said: object) -> list[object]:
    return said if isinstance(said, list) else [said or ""]
