"""A chain's bounds on ``shell``, and the arguments that chains of other engines give its one tool.

``_allowed_commands`` holds of the program as it is named, so that a file of the scope that bears the name of
an allowed one is none; ``_denied_commands`` holds of it and of every program that it is seen to run (``sh``,
``env``, ``xargs``, …), by name and path. With ``_allowed_dir`` a bare name means the program of that folder.
"""

import posixpath
import shlex
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from reconciler.chains import commands
from reconciler.chains.allowlists import NOWHERE, NUMBER
from reconciler.model import commandline

KEYS = frozenset({"_allowed_commands", "_denied_commands", "_allowed_dir", "_max_output_bytes"})
_NO, _YES = ("false", "0", ""), ("true", "1")
_SECOND, _LONGEST_S = 1, 110
_SYSTEM = ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin")
_LEAST, _MOST = 256, 524_288  # of max_output_bytes


def modern(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """With ``args`` as a list, ``timeout`` in seconds and no ``shell``, as the interface has them. What it
    cannot say stays, and is refused there.
    """
    found = dict(arguments)
    if isinstance(text := found.get("args"), str):
        with suppress(ValueError):
            found["args"] = list(commandline.words(f"x {text}")[1:])
    if str(found.get("shell", "")).lower() in _NO:
        found.pop("shell", None)
    timeout = str(found.get("timeout", ""))
    if (number := timeout.removesuffix("s")).isdecimal():
        del found["timeout"]
        found["timeout_seconds"] = max(_SECOND, min(_LONGEST_S, int(number[:9])))
    return found


def judged(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """With the whole line for its command, whether it came as one or as words."""
    command, args = arguments.get("command"), arguments.get("args")
    if not isinstance(command, str) or not isinstance(args, list):
        return arguments
    return {**arguments, "command": shlex.join((command, *map(str, args)))}


def kept(arguments: Mapping[str, Any], policies: Mapping[str, str]) -> dict[str, Any] | str:
    """The arguments as they may be called with, or why they may not."""
    found = dict(arguments)
    words = _words(found)
    if isinstance(words, str):
        return words
    if beyond := _beyond(words, policies):
        return beyond
    if folder := policies.get("_allowed_dir", ""):
        program = words[0] if "/" in words[0] else f"{folder.rstrip('/')}/{words[0]}"
        inside = f"{posixpath.normpath(program)}/".startswith(f"{posixpath.normpath(folder)}/")
        if folder == NOWHERE or not folder.startswith("/") or not inside:
            return "the chain does not allow programs of that folder"
        found |= {"command": program, "args": list(words[1:])}
    if most := policies.get("_max_output_bytes", ""):
        if not NUMBER.fullmatch(most.strip()):
            return "the chain's bound '_max_output_bytes' is no number"
        if 0 < int(most) < _LEAST:
            return f"the chain's bound '_max_output_bytes' is below {_LEAST}, the least that can be kept here"
        if int(most) > 0:
            asked = found.get("max_output_bytes", _MOST)
            found["max_output_bytes"] = min(int(most), asked) if isinstance(asked, int | float) else asked
    return found


def _beyond(words: tuple[str, ...], policies: Mapping[str, str]) -> str:
    allowed, denied = _items(policies, "_allowed_commands"), _items(policies, "_denied_commands")
    try:
        run = {words[0], *commands.programs(commands.line(shlex.join(words)))}
    except commands.UnclearError as fault:
        return f"what it would run is not known: {fault}"
    # A folder of the system holds the same programs under another name of it: /bin is /usr/bin.
    denied |= {posixpath.basename(one) for one in denied if posixpath.dirname(one) in _SYSTEM}
    if any(one in denied or posixpath.basename(one) in denied for one in run):
        return "the chain denies this program"
    if allowed and words[0] not in allowed:
        return "the chain does not allow this program"
    return ""


def _words(arguments: Mapping[str, Any]) -> tuple[str, ...] | str:
    command, args = arguments.get("command"), arguments.get("args")
    if not isinstance(command, str) or not command.strip():
        return "it names no program"
    if isinstance(args, list):
        return (command, *map(str, args))
    try:
        return commandline.words(command)
    except ValueError as fault:
        return f"the command cannot be read: {fault}"


def _items(policies: Mapping[str, str], key: str) -> frozenset[str]:
    return frozenset(one.strip() for one in policies.get(key, "").split(",") if one.strip())
