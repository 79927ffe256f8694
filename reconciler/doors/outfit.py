"""What a command gets from a session before it starts: variables, and what its harness is told.

Which harness it is, the command itself says by its program's name; else the agent's file. What that harness
reads is made by ``harness.rendering`` and put into the session's own folder, which goes with the session:
nothing of a person's is edited. A wrapper around a harness gets the variables; of arguments that it would
have to pass on, it is told.
"""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reconciler.control import skills
from reconciler.doors import usage
from reconciler.harness import rendering
from reconciler.harness.harnesses import HARNESSES, Service
from reconciler.harness.rendering import Rendered
from reconciler.model.names import InterfaceRef

_PRIVATE = "harness"  # the folder below the session's own
_PROMPTS = ("bash", "dash", "fish", "ksh", "nu", "screen", "sh", "tmux", "zellij", "zsh")
_SCRIPT_BYTES = 65_536  # what a wrapper that a person wrote is shorter than


@dataclass(frozen=True, slots=True)
class Outfit:
    """The command line to start, the variables to add, and what a person should be told (or "")."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    note: str = ""


def fitted(opened: Mapping[str, object], words: Sequence[str], config: str) -> Outfit:
    """The outfit of ``words``, or of the agent's own harness where there are none, its files written.

    ``opened`` is the controller's answer to ``session.open``. Raises ``usage.Usage`` where there is neither a
    command nor a harness with a program, and OSError where a file cannot be written.
    """
    own = str(opened.get("harness") or "none")
    harness = _of_program(words[0]) if words else ""
    told = _told(harness or own, opened, config)
    if not words and not told.program:
        agent = opened.get("agent")
        why = f"agent '{agent}' names no harness" if own == "none" else f"'{own}' is started by a person"
        raise usage.Usage(f"{why}: write a command after --: handler run {agent} -- CMD [ARGUMENT…]")
    environment = {**variables(opened), **told.environment}
    command = rendering.command(told, words)
    if command is not None:
        return Outfit(command, environment, _untold(harness if words else own, opened))
    note = f"If '{words[0]}' starts {told.program}, give {told.program}: {shlex.join(told.arguments)}"
    return Outfit(tuple(words), environment, note if _may_start(words, told.program) else "")


def _may_start(words: Sequence[str], program: str) -> bool:
    """Whether a command is likely to start a program: its line names it, a script that its line names does,
    or it is a shell or terminal in which a person types what comes next.
    """
    names = re.compile(rf"(?<![\w.-]){re.escape(program)}(?![\w.-])")
    if len(words) == 1 and os.path.basename(words[0]) in _PROMPTS:  # noqa: PTH119 - a word, not a path yet
        return True
    if any(names.search(word) for word in words[1:]):
        return True
    scripts = (shutil.which(words[0]) or "", *words[1:])
    return any(names.search(_script(one)) for one in scripts)


def _script(path: str) -> str:
    """The beginning of a script that a person could have written; "" of what is none."""
    try:
        if not path or not Path(path).is_file():
            return ""
        with Path(path).open("rb") as file:
            start = file.read(_SCRIPT_BYTES)
    except (OSError, ValueError):
        return ""
    return start.decode(errors="replace") if start.startswith(b"#!") else ""


def _untold(harness: str, opened: Mapping[str, object]) -> str:
    """What is said where a harness can be told by its project's file alone, and there is none here; or ""."""
    row = HARNESSES.get(harness)
    if row is None or not row.program or row.session is not None or Path(row.file).exists():
        return ""
    words = f"handler render {opened.get('agent')} --harness {harness} --write"
    return f"{row.title} reads its servers from {row.file} alone, which is not here: `{words}` writes it"


def variables(opened: Mapping[str, object]) -> dict[str, str]:
    """What is put into the environment of whoever runs in a session, from the controller's answer."""
    return {
        "HANDLER_SESSION": str(opened.get("session")),
        "HANDLER_SERVICES": str(opened.get("services")),
        "HANDLER_CAPABILITIES": str(opened.get("capabilities")),
    }


def _of_program(word: str) -> str:
    name = os.path.basename(word)  # noqa: PTH119 - a word of a command line, not a path yet
    return next((row.word for row in HARNESSES.values() if row.program and row.program == name), "")


def _told(harness: str, opened: Mapping[str, object], config: str) -> Rendered:
    if harness not in HARNESSES:
        return Rendered()
    folder = Path(str(opened.get("folder"))) / _PRIVATE
    interfaces = _interfaces(opened)
    texts = skills.of(Path(config), [ref for _, ref, _ in interfaces])
    services = [
        Service(name, (bridge(), name, "--socket", socket), limit) for name, _, (socket, limit) in interfaces
    ]
    told = rendering.rendered(harness, services, texts, str(folder))
    for name, data in told.files.items():
        _write(folder / name, data)
    return told


def _interfaces(opened: Mapping[str, object]) -> list[tuple[str, InterfaceRef, tuple[str, float]]]:
    """Name, version, and socket with time limit, of each interface of a session."""
    given, sockets = opened.get("interfaces"), opened.get("sockets")
    assert isinstance(given, dict)  # noqa: S101 - the controller's own answer
    assert isinstance(sockets, dict)  # noqa: S101
    return [
        (name, InterfaceRef.parse(one["interface"]), (sockets[name], float(one["timeoutSeconds"])))
        for name, one in given.items()
    ]


def bridge() -> str:
    """The absolute path of ``handler-service``: beside the command that runs, else beside its Python."""
    for program in (sys.argv[0], sys.executable):
        found = Path(os.path.abspath(program)).with_name("handler-service")  # noqa: PTH100 - links stay links
        if os.access(found, os.X_OK):
            return str(found)
    return "handler-service"


def _write(path: Path, data: bytes) -> None:
    """Write a file of the session's private folder, which nobody else has put anything into."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
