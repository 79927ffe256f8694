"""``support-bundle``: what somebody who helps needs to see, in one archive, and nothing of what was said.

Left out are arguments, answers, conversations, logs of connectors, secrets and the text of the configuration:
of its files stand names, sizes and digests. Lines that look as if they held a secret are left out whole, and
the home folder is ``~``. A person reads it before it goes anywhere.
"""

import hashlib
import io
import json
import os
import platform
import re
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from reconciler import __version__
from reconciler.control import folders
from reconciler.doors import doctor, offline, problems, usage
from reconciler.model import secretlike

_MOST_LINES = 2_000  # of one journal
_MOST_BYTES = 2**22  # of one file that is read
_LEFT_OUT = "[a line that looks as if it held a secret]"
_VALUE = re.compile(r"\bthe value '[^'\n]*'")  # as problems quote what a file says
# Of what an object's file says, the keys that name objects.
_DECLARED_KEYS = ("connector", "implements", "project", "requires", "harness", "services")
# Of each journal, the keys that hold no payload.
_CALL_KEYS = (
    "at", "call", "session", "agent", "interface", "tool", "binding", "instance", "code", "ms", "inBytes",
    "outBytes", "attempt",
)  # fmt: skip
_RUN_KEYS = ("id", "chain", "agent", "at", "state", "scripted", "ended", "code", "task", "steps")


def run(settings: usage.Settings, out: str) -> int:
    """Write the archive; 0. Raises ``usage.Stopped``; nothing that is there is written over."""
    config, state, _ = folders.places(settings.config)
    if absent := folders.absent(config, usage.path_shown(config)):
        raise usage.Stopped(absent)
    path = Path(out).expanduser().absolute() if out else Path.cwd()
    if path.is_dir():
        path /= time.strftime("handler-support-%Y%m%d-%H%M%S.tar.gz")
    parts = dict(_parts(Path(config), Path(state)))
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        raise usage.Stopped(f"{path} is there already: nothing was written") from None
    except OSError as fault:
        raise usage.Stopped(f"cannot write {path}: {fault.strerror}; --out names another place") from None
    try:
        with os.fdopen(fd, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
            for name, text in parts.items():
                _add(archive, name, cleaned(text))
    except BaseException:
        path.unlink(missing_ok=True)  # half of one helps nobody, and would be in the way
        raise
    sys.stdout.write(f"{path}\n")
    if not settings.quiet:
        listed = "".join(f"  {name}\n" for name in parts)
        sys.stderr.write(
            f"In it, without arguments, answers, secrets:\n{listed}Read it before you give it to anybody.\n"
        )
    return 0


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    data = text.encode(errors="replace")
    entry = tarfile.TarInfo(f"handler-support/{name}")
    entry.size, entry.mode, entry.mtime = len(data), 0o600, int(time.time())
    archive.addfile(entry, io.BytesIO(data))


def cleaned(text: str) -> str:
    """The text with ``~`` for the home folder, without the values that problems quote, and without lines that
    look as if they held a secret.
    """
    home = os.path.expanduser("~")  # noqa: PTH111
    text = _VALUE.sub("the value [left out]", text)
    lines = text.replace(home, "~").split("\n") if len(home) > 1 else text.split("\n")
    return "\n".join(_LEFT_OUT if _holds_one(line) else line for line in lines)


def _holds_one(line: str) -> bool:
    return secretlike.shape(line) is not None or any(True for _ in secretlike.named(line))


def _parts(config: Path, state: Path) -> Iterator[tuple[str, str]]:
    """Each file's name and text; one that cannot be made says why instead."""
    made: Mapping[str, Callable[[], str]] = {
        "about.json": lambda: _json(_about(config, state)),
        "doctor.json": lambda: _json([asdict(one) for one in doctor.findings_of(config)]),
        "problems.json": lambda: _problems(config),
        "files.json": lambda: _json(list(_files(config))),
        "summary.json": lambda: _read(state / "status" / "summary.json"),
        "status.json": lambda: _json(_status(state)),
        "events.jsonl": lambda: _tail(state / "events.jsonl", ()),
        "calls.jsonl": lambda: "".join(
            _tail(path, _CALL_KEYS) for path in _newest(state / "calls", "*.jsonl")
        ),
        "runs.json": lambda: _json([_kept(path) for path in _newest(state / "runs", "*/head.json")]),
        "logs.json": lambda: _json({path.name: path.stat().st_size for path in state.glob("logs/*")}),
    }
    for name, make in made.items():
        try:
            yield name, make()
        except (OSError, ValueError, TypeError, AttributeError, RecursionError, usage.Stopped) as fault:
            yield f"{name}.missing", f"{fault}\n"


def _about(config: Path, state: Path) -> dict[str, object]:
    kernel = platform.uname()
    return {
        "handler": __version__,
        "python": sys.version,
        "system": f"{kernel.system} {kernel.release} {kernel.machine}",
        "root": os.geteuid() == 0,
        "configuration": str(config),
        "state": str(state),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _problems(config: Path) -> str:
    look = offline.look(config)
    found = tuple(look.admission.problems)
    return problems.as_json(
        [problems.Report(look.root, look.admission.inventory, found, len(look.tree.files))]
    )


def _files(config: Path) -> Iterator[dict[str, object]]:
    for name, data in sorted(offline.look(config).tree.files.items()):
        yield {"file": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _status(state: Path) -> dict[str, object]:
    folder = state / "status"
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*.json")):
        if path.name != "summary.json":
            told = json.loads(_read(path))
            said = told.get("declared")
            if isinstance(said, dict):
                told["declared"] = {key: said[key] for key in _DECLARED_KEYS if key in said}
            found[str(path.relative_to(folder))] = told
    return found


def _newest(folder: Path, pattern: str) -> list[Path]:
    """The newest files, the oldest of them first."""
    return sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime)[-50:]


def _kept(path: Path) -> dict[str, object]:
    found = json.loads(_read(path))
    return {key: found[key] for key in _RUN_KEYS if key in found}


def _tail(path: Path, keys: tuple[str, ...]) -> str:
    """The last lines of a journal; with ``keys``, these of each alone."""
    lines = _read(path).splitlines()[-_MOST_LINES:]
    if not keys:
        return "".join(f"{line}\n" for line in lines)
    out = ""
    for line in lines:
        try:
            told = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(told, dict):
            continue
        out += json.dumps({key: told[key] for key in keys if key in told}) + "\n"
    return out


def _read(path: Path) -> str:
    """The end of a plain file; a link or a pipe is none. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(fd, "rb") as file:
        size = os.fstat(fd).st_size
        if size > _MOST_BYTES:
            file.seek(size - _MOST_BYTES)
            file.readline()
        return file.read(_MOST_BYTES).decode(errors="replace")


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
