"""The same walls and the same life for an ordinary user, who has user namespaces and not root's powers."""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="not root: the other files already ran as an ordinary user"),
]

CHECKOUT = Path(__file__).resolve().parents[2]
NOBODY = 65534


@pytest.fixture
def base() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="handler-user-"))
    folder.chmod(0o755)
    for name in ("home", "tmp"):
        (folder / name).mkdir()
        shutil.chown(folder / name, NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder)


def closed_folder(path: Path) -> Path | None:
    """The first folder on the way to a path that others cannot pass."""
    return next((one for one in reversed(path.parents) if not one.stat().st_mode & 0o001), None)


def script(base: Path, arguments: tuple[str, ...]) -> str:
    """Open the way to interpreter, packages and checkout, in a mount namespace that ends with the run (a home
    may be closed to others), then give up root.
    """
    needed = [Path(sys.base_prefix), Path(sysconfig.get_path("purelib")), CHECKOUT]
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
        "PYTHONPATH": f"{needed[1]}:{CHECKOUT}",
        "TMPDIR": str(base / "tmp"),
    }
    step_down = "setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all"
    variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())
    command = shlex.join((str(Path(sys.executable).resolve()), *arguments))
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


@pytest.mark.timeout(300)
def test_the_whole_suite_of_walls_and_life_holds_for_an_ordinary_user(base: Path) -> None:
    if not user_namespaces(base):
        pytest.skip("this machine gives ordinary users no user namespaces: no connector could start for them")
    names = ("test_containment.py", "test_supervisor.py", "test_death.py", "test_netns.py")
    names += ("test_secret_delivery.py",)
    files = [*(f"tests/runtime/{name}" for name in names), "tests/doors/test_boxing.py"]
    files += ["tests/control/test_leaving.py"]
    ran = as_nobody(base, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--color=no", *files)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "skipped" not in ran.stdout.splitlines()[-1], ran.stdout
