"""What of this machine an agent's program needs to run, found on it: its own files, and no more of a home.

A program is followed as the kernel follows it: link by link to its file, and to the interpreter that the file
names. Each step shows the installation that it belongs to (a folder with ``bin`` and ``lib``, a virtual
environment, the ``node_modules`` it lies in) or, where that would be a person's whole home or ``~/.local``,
the one file. Nothing is shown that holds a home, the scope, or anything of ours.
"""
# ruff: noqa: PTH100, PTH110, PTH112, PTH114, PTH115, PTH118, PTH119, PTH120 - links are looked at as text

import os
import stat
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.runtime.agentbox import Mount

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = (
    "alternatives",
    "ca-certificates",
    "crypto-policies",
    "fonts",
    "inputrc",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "magic",
    "mime.types",
    "pki/ca-trust/extracted",
    "pki/tls/cert.pem",
    "pki/tls/certs",
    "protocols",
    "services",
    "ssl/cert.pem",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
)
# Of the kernel's own files those that root may write to without any capability, as whom root's sandbox runs:
# /proc/sys/kernel/core_pattern alone would let it run a program outside.
_KERNEL = (
    "/proc/acpi",
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/mtrr",
    "/proc/pressure",
    "/proc/scsi",
    "/proc/sys",
    "/proc/sysrq-trigger",
)
_WIDE = ("/", "/etc", "/home", "/media", "/mnt", "/opt", "/root", "/run", "/srv", "/tmp", "/var")  # noqa: S108
_MOST_STEPS = 40  # links that the kernel follows
_MOST_INTERPRETERS = 6  # and scripts that are run by scripts


@dataclass(slots=True)
class Found:
    """What is to be shown, read-only, and the links that lead to it."""

    mounts: dict[str, str] = field(default_factory=dict)  # by the place inside: the real one outside
    links: dict[str, str] = field(default_factory=dict)

    def shows(self, path: str) -> bool:
        """Whether a path is inside something that is shown, or of the system."""
        return within(path, SYSTEM) or within(path, self.mounts)

    def as_mounts(self) -> tuple[Mount, ...]:
        """The mounts, for a box."""
        return tuple(Mount(outside, inside) for inside, outside in self.mounts.items())


def system() -> Found:
    """The machine's programs and libraries, what of ``/etc`` is no secret and needed, and the kernel's own
    files that must not be written to.
    """
    found = Found()
    for path in SYSTEM:
        if os.path.islink(path):
            found.links[path] = os.readlink(path).lstrip("/")
        elif os.path.isdir(path):
            found.mounts[path] = path
    for name in _ETC:
        path = f"/etc/{name}"
        if os.path.exists(path):
            found.mounts[path] = os.path.realpath(path)
    found.mounts |= {path: path for path in _KERNEL if os.path.exists(path)}
    return found


def add_program(
    found: Found,
    path: str,
    search: Iterable[str],
    kept_out: Collection[str],
    *,
    scope: Collection[str] = (),
) -> None:
    """Show what the program at an absolute path needs; ``search`` is where its interpreter is looked up.

    ``kept_out`` are folders that nothing shown may hold: the home, the scope, what is ours. What lies in the
    ``scope`` is shown anyway, and not followed from there: whoever may write there would say what is shown.
    """
    for steps in _chain(path, search):
        for at, step in enumerate(steps):
            if within(step, scope):
                return
            if found.shows(step):
                continue
            if whole := _installation(step, kept_out):
                found.mounts[whole] = os.path.realpath(whole)
            elif at + 1 < len(steps):
                found.links[step] = steps[at + 1]
            else:
                found.mounts[step] = step


def hidden_step(found: Found, path: str, search: Iterable[str], shown: Collection[str]) -> str:
    """Where the way from a program to its file and interpreter leads to what is not shown, also counting the
    folders that are ``shown`` besides; "" where it does not.
    """
    steps = (step for chain in _chain(path, search) for step in chain)
    return next((s for s in steps if not (found.shows(s) or s in found.links or within(s, shown))), "")


def add_ours(found: Found, kept_out: Collection[str]) -> None:
    """Show the running product itself, so that ``handler-service`` and ``handler`` work inside."""
    add_program(found, os.path.abspath(sys.executable), (), kept_out)
    package = Path(__file__).resolve().parents[1]
    for entry in sys.path:
        real = os.path.realpath(entry)
        if not os.path.isdir(real) or found.shows(real):
            continue
        if package.parent == Path(real):
            found.mounts[str(package)] = str(package)  # of a checkout the package alone
        elif os.path.basename(real) in {"site-packages", "dist-packages"}:
            found.mounts[real] = real
    if not found.shows(str(package)):
        found.mounts[str(package)] = str(package)


def way_to(path: str) -> Iterator[str]:
    """A program's path, what it links to, and so on to its file; from the second on with real folders."""
    for _ in range(_MOST_STEPS):
        yield path
        folder = os.path.realpath(os.path.dirname(path))
        real = os.path.join(folder, os.path.basename(path))
        if real != path:
            path = real
            continue
        try:
            if not stat.S_ISLNK(os.lstat(path).st_mode):
                return
            path = os.path.normpath(os.path.join(folder, os.readlink(path)))
        except OSError:
            return


def within(path: str, folders: Iterable[str]) -> bool:
    """Whether an absolute path is, or lies in, one of the folders."""
    return any(path == one or path.startswith(one.rstrip("/") + "/") for one in folders)


def real_folder(path: str) -> tuple[str, int, int]:
    """The real path of a folder with its device and inode, opened without following any link; OSError."""
    real = os.path.realpath(path, strict=True)
    at = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in real.split("/")[1:]:
            if not part:
                continue
            below = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            os.close(at)
            at = below
        found = os.fstat(at)
    finally:
        os.close(at)
    return real, found.st_dev, found.st_ino


def _chain(path: str, search: Iterable[str]) -> Iterator[list[str]]:
    """The steps to a program, to its interpreter, and so on."""
    search = tuple(search)
    for _ in range(_MOST_INTERPRETERS):
        steps = list(way_to(path))
        yield steps
        interpreter = _interpreter(steps[-1], search)
        if not interpreter or interpreter in steps:
            return
        path = interpreter


def _installation(path: str, kept_out: Collection[str]) -> str:
    """The folder that a file is installed in, "" where none may be shown whole."""
    parts = path.split("/")
    if "node_modules" in parts[:-1]:
        folder = "/".join(parts[: parts.index("node_modules") + 1])
    elif len(parts) > 3 and parts[-2] in {"bin", "sbin", "libexec"}:
        folder = "/".join(parts[:-2])
        if not any(os.path.exists(f"{folder}/{name}") for name in ("lib", "lib64", "pyvenv.cfg")):
            return ""
    else:
        return ""
    wide = (
        folder in _WIDE
        or folder.endswith("/.local")
        or (folder.startswith("/home/") and folder.count("/") == 2)
    )
    held = any(within(one, (folder, os.path.realpath(folder))) for one in kept_out)
    return "" if wide or held else folder


def _interpreter(path: str, search: Iterable[str]) -> str | None:
    """The program that a script's first line names; None for what is no script."""
    try:
        with Path(path).open("rb") as file:
            first = file.readline(512)
    except OSError:
        return None
    if not first.startswith(b"#!"):
        return None
    words = os.fsdecode(first[2:]).split()
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        name = words[0] if words else ""
        return next((f"{folder}/{name}" for folder in search if os.access(f"{folder}/{name}", os.X_OK)), None)
    return words[0] if words and words[0].startswith("/") else None
