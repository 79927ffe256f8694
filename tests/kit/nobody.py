"""Run python as an ordinary user, when root: the way to interpreter and checkout opened, root given up."""

import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
NOBODY = 65534


@contextmanager
def place() -> Iterator[Path]:
    """A folder with a home and a scratch folder of that user's, gone at the end."""
    folder = Path(tempfile.mkdtemp(prefix="handler-user-"))
    folder.chmod(0o755)
    for name in ("home", "tmp"):
        (folder / name).mkdir()
        shutil.chown(folder / name, NOBODY, NOBODY)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def closed_folder(path: Path) -> Path | None:
    """The first folder on the way to a path that others cannot pass."""
    return next((one for one in reversed(path.parents) if not one.stat().st_mode & 0o001), None)


def script(base: Path, arguments: tuple[str, ...]) -> str:
    """Open the way to interpreter, packages and checkout, in a mount namespace that ends with the run (a home
    may be closed to others), then give up root.
    """
    packages = [Path(one) for one in sys.path if Path(one).name == "site-packages"]
    needed = [Path(sys.base_prefix), *packages, CHECKOUT]
    hidden = [path for path in needed if closed_folder(path)]
    quoted = {path: shlex.quote(str(path)) for path in needed}
    aside = {path: shlex.quote(str(base / f"aside-{place}")) for place, path in enumerate(hidden)}
    lines = ["set -eu"]
    lines += [f"mkdir -p {aside[path]}; mount --bind {quoted[path]} {aside[path]}" for path in hidden]
    closed = {closed_folder(path) for path in hidden}
    lines += [f"mount -t tmpfs -o mode=755 open {shlex.quote(str(path))}" for path in closed]
    lines += [f"mkdir -p {quoted[path]}; mount --bind {aside[path]} {quoted[path]}" for path in hidden]
    environment = {
        "HOME": str(base / "home"),
        "PATH": "/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": ":".join(map(str, (*packages, CHECKOUT))),
        "TMPDIR": str(base / "tmp"),
    }
    step_down = "setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all"
    variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())
    # By its own name where that is in the checkout: what lies beside it there, as deno does, is found then.
    python = Path(sys.executable)
    python = python if python.is_relative_to(CHECKOUT) else python.resolve()
    command = shlex.join((str(python), *arguments))
    lines += [f"cd {quoted[CHECKOUT]}", f"exec {step_down} env -i {variables} {command}"]
    return "\n".join(lines)


def as_nobody(base: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = ("unshare", "--mount", "sh", "-c", script(base, arguments))
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def user_namespaces(base: Path) -> bool:
    tried = as_nobody(
        base, "-c", "import os, subprocess; raise SystemExit(subprocess.call(['unshare', '-U', 'true']))"
    )
    return tried.returncode == 0
