"""What python connectors need installed: one directory a ``requirements.lock``, built once, from wheels only.

Built beside its place and renamed, so a half-built one is never used; every file is checked against the
lock's hashes by the installer. No code of a package runs while it is installed. The installer is the running
interpreter's pip, else uv, else the pip that comes with python's ensurepip; it is called with the person's
own configuration, so packages come from the index that their pip uses. A directory's name also names the
interpreter, since wheels are built for one.
"""

import asyncio
import hashlib
import importlib.util
import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

from reconciler.runtime import fingerprint, host

_HALF_MADE = ".making-"
_SEAL = ".handler-seal"  # in an environment: how it looked when it was built
_PLACES = re.compile(
    r"\S+://\S+|(?<![\w.])(?:\.{0,2}/)[^\s,;:'\"]+"
)  # URLs and paths: neither belongs in a status
_WHY = re.compile(r" \((?:from |line )[^()]*(?:\([^()]*\))?[^()]*\)")  # of a step: whose line asked for it
_TOLD = (
    "Collecting ",
    "Downloading ",
    "Using cached ",
    "Installing ",
    "Resolved ",
    "Prepared ",
    "Installed ",
)
_MAX_LINE = 200
_MAX_BUILD_S = 1800.0  # a gigabyte over a slow line; a person sees the progress


class NotBuiltError(Exception):
    """An environment could not be built; the text is the installer's last line, without URLs and paths."""


class Environments:
    """The folder ``<state>/envs``. One build of an environment at a time, however many ask for it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._building: dict[str, asyncio.Task[Path]] = {}
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in root.glob(f"{_HALF_MADE}*"):  # a controller that was killed while it built
            if not is_being_made(left.name):
                shutil.rmtree(left, ignore_errors=True)

    def path(self, digest: str) -> Path | None:
        """Where the environment of this lock lies, or None before it is built."""
        place = place_of(self._root, digest)
        return place if place.is_dir() else None

    def intact(self, digest: str) -> bool:
        """Whether the environment of this lock is there and looks as it did when it was built."""
        place = place_of(self._root, digest)
        try:
            sealed = (place / _SEAL).read_text()
        except FileNotFoundError:
            if not place.is_dir():
                return False
            sealed = _seal(place)  # built before environments were sealed: taken as it is
        return sealed == fingerprint.lasting(place, but=_SEAL)

    async def rebuild(self, digest: str, lock: bytes, progress: Callable[[str], None]) -> Path:
        """Build an environment anew beside what lies there, which serves until then, and put it in its place.

        Whoever still runs in the old one has lost its files then. Raises as ``build`` does.
        """
        return await self._once(digest, lock, progress)

    async def build(self, digest: str, lock: bytes, progress: Callable[[str], None]) -> Path:
        """Build the environment of a lock unless it is there; raises NotBuiltError.

        ``digest`` is the sha256 (hex) of ``lock``. ``progress`` hears one short line a step; of several that
        ask at once, the first one's.
        """
        if (place := self.path(digest)) is not None and _names(digest, lock):
            return place
        return await self._once(digest, lock, progress)

    async def _once(self, digest: str, lock: bytes, progress: Callable[[str], None]) -> Path:
        if not _names(digest, lock):
            raise NotBuiltError("requirements.lock is not the one that the digest names")
        task = self._building.get(digest)
        if task is None:
            task = asyncio.create_task(self._build(digest, lock, progress))
            self._building[digest] = task
            task.add_done_callback(lambda done: self._finished(digest, done))
        return await asyncio.shield(task)

    def _finished(self, digest: str, task: asyncio.Task[Path]) -> None:
        del self._building[digest]
        if not task.cancelled():
            task.exception()  # whoever asked may have left: that is no fault to report

    async def close(self) -> None:
        """Stop what is being built."""
        tasks = list(self._building.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _build(self, digest: str, lock: bytes, progress: Callable[[str], None]) -> Path:
        place = place_of(self._root, digest)
        making = self._root / f"{_HALF_MADE}{os.getpid()}-{place.name}"
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(mode=0o755, parents=True)
        try:
            requirements = making / "requirements.lock"
            requirements.write_bytes(lock)
            target = making / "packages"
            await _install(installer(target, requirements), progress)
            target.mkdir(exist_ok=True)  # a lock of comments alone installs nothing
            target.chmod(0o755)
            await asyncio.to_thread(_settle, target, place)
        finally:
            await asyncio.to_thread(shutil.rmtree, making, ignore_errors=True)
        return place


def _settle(made: Path, place: Path) -> None:
    """Put a built environment in its place, and what lies there beside it, to be removed with its rest."""
    _seal(made)
    if os.path.lexists(place):
        place.rename(made.parent / "old")
    made.rename(place)


def is_being_made(name: str) -> bool:
    """Whether another program that lives builds there: a check installs where the controller does."""
    maker = name.removeprefix(_HALF_MADE).partition("-")[0]
    return maker.isdecimal() and int(maker) != os.getpid() and Path("/proc", maker).is_dir()


def _names(digest: str, lock: bytes) -> bool:
    return hashlib.sha256(lock).hexdigest() == digest


def _seal(place: Path) -> str:
    """Write down how an environment looks now."""
    seal = place / _SEAL
    seal.touch(mode=0o644)  # first: a new entry changes how its folder looks, new words in it do not
    look = fingerprint.lasting(place, but=_SEAL)
    seal.write_text(look)
    return look


def place_of(root: Path, digest: str) -> Path:
    """Where the environment of a lock lies below ``root`` once it is built, for this interpreter."""
    return root / f"{digest}-{sys.implementation.cache_tag}-{sysconfig.get_platform()}"


def installer(target: Path, requirements: Path) -> tuple[str, ...]:
    """The command that installs a lock into ``target``; raises NotBuiltError where there is no installer."""
    strict = ("--only-binary", ":all:", "--require-hashes", "--target", str(target), "-r", str(requirements))
    quiet = (
        "--no-input",
        "--disable-pip-version-check",
        "--progress-bar",
        "off",
        "--no-warn-script-location",
    )
    if importlib.util.find_spec("pip") is not None:
        return (sys.executable, "-I", "-m", "pip", "install", *quiet, *strict)
    if uv := _uv():
        return (uv, "pip", "install", "--python", sys.executable, "--compile-bytecode", *strict)
    if bundled := _bundled_pip():
        return (sys.executable, "-I", bundled, "install", *quiet, *strict)
    raise NotBuiltError("this python has neither pip nor ensurepip, and there is no uv: install one of them")


def plain(line: str) -> str:
    """A line of an installer as people may see it: short, without URLs and paths."""
    return _PLACES.sub("…", line).strip()[:_MAX_LINE]


def step(line: str) -> str:
    """A step of an installer as people may see it: a clause, without the line that asked for it."""
    verb, _, rest = plain(_WHY.sub("", line)).partition(" ")
    return f"its packages are fetched and installed once: {verb.lower()} {rest}".rstrip()[:_MAX_LINE]


async def _install(command: tuple[str, ...], progress: Callable[[str], None]) -> None:
    lines: list[str] = []
    installing = await asyncio.create_subprocess_exec(
        *_readable(_mortal(command)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        limit=2**20,
    )
    assert installing.stdout is not None  # noqa: S101 - a pipe was asked for
    try:
        async with asyncio.timeout(_MAX_BUILD_S):
            while line := await installing.stdout.readline():
                text = line.decode("utf-8", "replace").strip()
                lines = [*lines[-200:], text]
                if text.startswith(_TOLD):
                    progress(step(text))
            code = await installing.wait()
    except (TimeoutError, ValueError) as fault:
        raise NotBuiltError(
            "the installer took too long" if isinstance(fault, TimeoutError) else "it"
        ) from None
    finally:
        if installing.returncode is None:
            installing.kill()
            await installing.wait()
    if code != 0:
        raise NotBuiltError(_last_words(lines, code))


def _last_words(lines: list[str], code: int) -> str:
    said = [line for line in lines if line and not line.startswith(("[notice]", "WARNING:"))]
    errors = [line for line in said if line.lower().startswith("error")]
    last = (errors or said or [""])[-1]
    return plain(re.sub(r"^error:\s*", "", last, flags=re.I)) or f"the installer ended with exit {code}"


def _mortal(command: tuple[str, ...]) -> tuple[str, ...]:
    """An installer that dies with the controller, where setpriv is there to say so."""
    try:
        setpriv = host.survey().setpriv
    except host.Missing:
        setpriv = ""
    return (setpriv, "--pdeathsig", "KILL", "--", *command) if setpriv else command


def _readable(command: tuple[str, ...]) -> tuple[str, ...]:
    """A command whose files the connector's own user id can read (uvloop takes no ``umask``)."""
    return ("/bin/sh", "-c", 'umask 022; exec "$@"', "sh", *command)


def _uv() -> str | None:
    beside = Path(sys.executable).parent / "uv"
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("uv")


def _bundled_pip() -> str | None:
    """The wheel of pip inside ensurepip; a wheel of pip runs as it is."""
    spec = importlib.util.find_spec("ensurepip")
    folder = Path(spec.origin).parent / "_bundled" if spec and spec.origin else None
    wheels = sorted(folder.glob("pip-*.whl")) if folder and folder.is_dir() else []
    return str(wheels[-1] / "pip") if wheels else None
