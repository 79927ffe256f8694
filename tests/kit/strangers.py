"""Other people's clients, each in an environment of its own below `.clients/`, installed when first needed.

An environment is named by the digest of its pins (hashed requirements, a lock with integrity), so a changed
pin makes a new one, and an unchanged one is there in no time. ``Missing`` says in words why there is none: no
node, no network. Whatever else goes wrong (above all a digest that does not fit) is an error, not a skip.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = ROOT / ".clients"

_INSTALL_S = 600
_failed: dict[Path, Exception] = {}  # tried once a run: where there is no network, a try takes its time
_NO_NETWORK = re.compile(
    "ENOTFOUND|EAI_AGAIN|ECONN|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|NewConnectionError|NameResolutionError|"
    "Temporary failure in name|Network is unreachable|ConnectTimeout|ReadTimeout|ProxyError"
)


class Missing(Exception):  # noqa: N818 - a reason to skip, and no error
    """Why an environment cannot be had here."""


def python_environment(requirements: Path, interpreter: str = sys.executable) -> Path:
    """The python of an environment with exactly what ``requirements`` pins and hashes."""

    def fill(folder: Path) -> None:
        _run(interpreter, "-m", "venv", "--without-pip", str(folder))
        hashed = ("--require-hashes", "--only-binary", ":all:", "-r", str(requirements))
        pip = (sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install")
        _run(*pip, "--quiet", "--disable-pip-version-check", "--retries", "1", *hashed)

    return _made(requirements.stem, [requirements], fill) / "bin" / "python"


def node_environment(lock: Path, name: str, scripts: tuple[str, ...] = (), *, whole: bool = True) -> Path:
    """A folder whose `node_modules` is exactly what ``lock`` (beside its package.json) pins.

    ``scripts``: the packages whose install scripts are run; of all others none is.

    ``whole``: the lock knows every optional package, those of other systems too. One that does not is
    installed as far as it goes, which npm does with its digests checked all the same.
    """
    if shutil.which("npm") is None or shutil.which("node") is None:
        raise Missing("node and npm are not installed here")
    package = lock.with_name("package.json")

    def fill(folder: Path) -> None:
        folder.mkdir()
        for file in (package, lock):
            shutil.copy(file, folder)
        verb = ("ci",) if whole else ("install", "--no-save")
        quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=1")
        _run("npm", *verb, *quiet, cwd=folder)
        if scripts:
            _run("npm", "rebuild", "--loglevel=error", *scripts, cwd=folder)

    return _made(name, [package, lock], fill)


def _made(name: str, pins: list[Path], fill: Callable[[Path], None]) -> Path:
    """The folder of an environment; made once, by one process at a time."""
    digest = hashlib.sha256(b"\0".join([sys.version.encode(), *[pin.read_bytes() for pin in pins]]))
    folder = CLIENTS / f"{name}-{digest.hexdigest()[:12]}"
    CLIENTS.mkdir(exist_ok=True)
    with (CLIENTS / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".ready").exists():
            if folder in _failed:
                raise _failed[folder]
            for old in CLIENTS.glob(f"{name}-????????????"):
                shutil.rmtree(old)
            try:
                fill(folder)
            except (Missing, AssertionError) as why:
                _failed[folder] = why
                raise
            (folder / ".ready").touch()
    return folder


def _run(*words: str, cwd: Path | None = None) -> None:
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    env["RES_OPTIONS"] = "timeout:2 attempts:1"  # where there is no network, say so soon
    try:
        done = subprocess.run(
            words, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=_INSTALL_S
        )
    except FileNotFoundError as fault:
        raise Missing(f"{words[0]} is not installed here") from fault
    if done.returncode:
        said = done.stderr + done.stdout
        if _NO_NETWORK.search(said):
            raise Missing(f"no package registry answers {Path(words[0]).name}")
        raise AssertionError(f"{words}: {done.returncode}\n{said[-3000:]}")
