"""The file systems of OCI images, unpacked once a digest below ``<state>/images``, out of podman's store.

Podman is asked for two things: what an image says of itself, and its files. Nothing is ever pulled: a person
does that, and until then the condition says how. No container is run by it either: the files are shown to a
sandbox of ours, which has the same walls as any other. What is unpacked keeps no device, no set-user-id bit
and no link that leads out of its folder while it is written.
"""

import asyncio
import json
import os
import shutil
import subprocess
import tarfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from reconciler.runtime import host
from reconciler.runtime.environments import NotBuiltError

_HALF_MADE = ".making-"
_ASK_S = 60.0
_MAX_BYTES = 32 * 2**30
_MAX_ENTRIES = 2_000_000
_MODE = 0o755  # no set-user-id, no write for others


@dataclass(frozen=True, slots=True)
class Image:
    """An unpacked image: its files, and how it wants to be run. ``words`` are its entry point and command."""

    root: Path
    words: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]
    folder: str


class Images:
    """The folder ``<state>/images``."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._running: set[subprocess.Popen[bytes]] = set()
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in root.glob(f"{_HALF_MADE}*"):  # a controller that was killed while it unpacked
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
            variables=tuple((name, value) for name, _, value in pairs),
            folder=config.get("WorkingDir") or "/",
        )

    def place(self, reference: str) -> Path:
        """Where an image lies once it is unpacked."""
        return self._root / reference.rpartition(":")[2]

    async def unpack(self, reference: str) -> None:
        """Unpack an image that podman has; raises NotBuiltError with what a person can do."""
        try:
            await asyncio.to_thread(self._unpack, reference)
        except asyncio.CancelledError:
            self.close()
            raise

    def close(self) -> None:
        """End what is being unpacked."""
        for child in tuple(self._running):
            child.kill()

    def _unpack(self, reference: str) -> None:
        config = _inspected(reference)
        making = self._root / f"{_HALF_MADE}{os.getpid()}-{self.place(reference).name}"
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(mode=0o755)
        container = _podman("create", "--network", "none", "--pull", "never", reference, "/none").strip()
        try:
            with subprocess.Popen(  # noqa: S603 - a program of the system, and an id that it gave
                (_tool(), "export", container), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
            ) as child:
                self._running.add(child)
                assert child.stdout is not None  # noqa: S101 - a pipe was asked for
                _extract(child.stdout, making / "root")
            if child.returncode:
                raise NotBuiltError(f"podman export ended with exit {child.returncode}")
            (making / "config.json").write_text(json.dumps(config))
            place = self.place(reference)
            shutil.rmtree(place, ignore_errors=True)
            making.rename(place)
        except (tarfile.TarError, OSError) as fault:
            raise NotBuiltError(f"its image cannot be unpacked: {type(fault).__name__}") from None
        finally:
            self._running = {one for one in self._running if one.poll() is None}
            with suppress(NotBuiltError):
                _podman("rm", "--force", container)
            shutil.rmtree(making, ignore_errors=True)


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
        raise NotBuiltError(f"podman {words[0]} ended with exit {done.returncode}")
    return done.stdout


def _inspected(reference: str) -> dict[str, Any]:
    """What the image says of itself; NotBuiltError when podman does not have it."""
    _tool()
    try:
        found = json.loads(_podman("image", "inspect", reference))
        config: dict[str, Any] = found[0].get("Config") or {}
    except (NotBuiltError, ValueError, LookupError):
        raise NotBuiltError(f"the image is not on this machine: podman pull {reference}") from None
    if not (config.get("Entrypoint") or config.get("Cmd")):
        raise NotBuiltError("the image says nothing to run: it needs an entry point or a command")
    return config


def _extract(stream: IO[bytes], root: Path) -> None:
    """Write the entries of an archive below ``root``, and nothing anywhere else."""
    root.mkdir(mode=0o755)
    written, real = 0, root.resolve()
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        archive.extraction_filter = lambda entry, _: entry  # ``_stays`` decides, on every python alike
        for number, entry in enumerate(archive):
            written += entry.size
            if written > _MAX_BYTES or number > _MAX_ENTRIES:
                raise tarfile.TarError("the image is too large")
            if _stays(entry, real):
                entry.mode = (entry.mode & _MODE) | (0o700 if entry.isdir() else 0o400)
                archive.extract(entry, real, numeric_owner=True)


def _stays(entry: tarfile.TarInfo, root: Path) -> bool:
    """Whether an entry is written: plain files, folders and links, all inside; devices are left out.

    Where a name leads is asked of what lies there by now, so no link that was written before leads out. A
    symbolic link may point anywhere: it is met inside the sandbox alone, and never followed here.
    """
    if not (entry.isreg() or entry.isdir() or entry.issym() or entry.islnk()):
        return False
    entry.name = entry.name.lstrip("/")
    names = [entry.name, *([entry.linkname] if entry.islnk() else [])]
    for name in names:
        if ".." in name.split("/") or not (root / name).parent.resolve().is_relative_to(root):
            raise tarfile.TarError("an entry leads out of the image")
    entry.uid = entry.gid = 0 if os.geteuid() == 0 else os.geteuid()
    return True
