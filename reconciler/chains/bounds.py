"""A chain's own bounds on a tool (``tools_policies``), held on top of what its agent may do.

Their names are those of the format. A bound that nothing here can keep refuses the call: a chain that sets
one means it, and a bound that is passed over would be none.
"""

import posixpath
from collections.abc import Mapping
from typing import Any

from reconciler.chains import shellbounds, webbounds
from reconciler.chains.allowlists import NOWHERE

_SIZES = frozenset({"_max_read_bytes", "_max_output_bytes"})
_FOLDERS = frozenset({"_allowed_dir", "_denied_path_substrings"})


def kept(
    provider: str, tool: str, arguments: Mapping[str, Any], policies: Mapping[str, str]
) -> Mapping[str, Any] | str:
    """The arguments that a call may be made with, narrowed by its chain's bounds where the tool itself can
    keep them; or why it may not be made.
    """
    keys = _KEYS.get(provider)
    for key in policies:
        if keys is not None and key not in keys:
            return f"the chain bounds {provider} by {key!r}, which cannot be kept here"
    if provider == "shell" and policies:
        return shellbounds.kept(arguments, policies)
    if provider == "http":
        return webbounds.kept(tool, arguments, policies)
    return arguments if keys is not None else refusal(provider, arguments, policies) or arguments


def modern(provider: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """A task's own arguments as the tool has them, where chains of other engines write them differently."""
    return shellbounds.modern(arguments) if provider == "shell" else arguments


def judged(provider: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments as a policy judges them: of a program its whole line is the command."""
    return shellbounds.judged(arguments) if provider == "shell" else arguments


_KEYS = {"shell": shellbounds.KEYS, "http": webbounds.KEYS}


def refusal(provider: str, arguments: Mapping[str, Any], policies: Mapping[str, str]) -> str | None:
    """Why a call may not be made by its chain's bounds; None: it may."""
    for key, value in policies.items():
        if provider != "fs" or key not in _SIZES | _FOLDERS:
            return f"the chain bounds {provider} by {key!r}, which cannot be kept here"
        if key in _SIZES and not _is_number(value):
            return f"the chain's bound {key!r} is no number"
    path = arguments.get("path")
    inside = posixpath.normpath(path) if isinstance(path, str) and path else "."
    folder = policies.get("_allowed_dir", "")
    if folder and not _is_within(inside, posixpath.normpath(folder)):
        return "the path is outside of the folder that the chain allows"
    for part in policies.get("_denied_path_substrings", "").split(","):
        if part.strip() and part.strip() in inside:
            return "the path is one that the chain denies"
    return None


def too_large(provider: str, size_bytes: int, policies: Mapping[str, str]) -> bool:
    """Whether a result is larger than the chain takes; 0 and below set no bound. A program's outputs were
    cut to it already, and its result says so.
    """
    if provider == "shell":
        return False
    most = [int(value) for key, value in policies.items() if key in _SIZES and _is_number(value)]
    return any(0 < one < size_bytes for one in most)


def _is_number(text: str) -> bool:
    return text.strip().lstrip("-").isdecimal()


def _is_within(path: str, folder: str) -> bool:
    if folder == NOWHERE:
        return False
    if folder == ".":
        return not path.startswith(("/", ".."))
    return f"{path}/".startswith(f"{folder.rstrip('/')}/")
