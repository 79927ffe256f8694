"""Which tools a task may use: the algebra of allowlists, hidden tools and policies.

An allowlist is a list of provider names, ``*`` for all, ``!name`` to take one away; order never matters and
taking away always wins. Absent and empty are different: absent restricts nothing where it narrows another
list, empty allows nothing.
"""

import posixpath
import re
from collections.abc import Collection, Mapping, Sequence

Policies = Mapping[str, Mapping[str, str]]
"""``tools_policies``: by provider, by key, a text."""

_CEILINGS = ("_max_", "_request_timeout_", "_initial_backoff_")  # the smaller number is the stricter one
_DENIALS = ("_denied_", "_skip_")  # lists that forbid: together
_GRANTS = ("_allowed_", "_list_extensions")  # lists that permit: what both permit


def allowed(wanted: Sequence[str] | None, registered: Collection[str]) -> tuple[str, ...]:
    """The providers of ``registered`` that an ``execute_config.tools`` of ``wanted`` allows, sorted."""
    if not wanted:
        return ()
    taken = {entry[1:] for entry in wanted if entry.startswith("!")}
    named = {entry for entry in wanted if not entry.startswith("!")}
    return tuple(sorted(name for name in registered if ("*" in named or name in named) and name not in taken))


def narrowed(
    wanted: Sequence[str] | None, caller: Sequence[str] | None, registered: Collection[str]
) -> tuple[str, ...]:
    """As ``allowed``, and within what the ``caller`` of the run allows; None for ``caller`` restricts
    nothing.
    """
    own = allowed(wanted, registered)
    return own if caller is None else tuple(name for name in own if name in set(allowed(caller, registered)))


def executable(
    wanted: Sequence[str] | None, caller: Sequence[str] | None, registered: Collection[str]
) -> tuple[str, ...]:
    """What a task that executes may run: an absent list restricts nothing there, an empty one everything."""
    return narrowed(("*",) if wanted is None else wanted, caller, registered)


def hidden(tool: str, hide_tools: Sequence[str]) -> bool:
    """Whether ``provider.tool`` is hidden: by its full name or by its name alone, when offered and when
    called.
    """
    return tool in hide_tools or tool.partition(".")[2] in hide_tools


def strictest(requesting: Policies, executing: Policies) -> dict[str, dict[str, str]]:
    """The policies a call is under: those of the task that asked and of the one that executes, strictest
    first.

    A key that one of them has holds. Where both have it: ceilings take the smaller number, denials are
    joined, permissions cut to what both permit, switches that forbid stay on; of anything else the executing
    task's word holds, but never where it is empty.
    """
    merged: dict[str, dict[str, str]] = {}
    for provider in sorted(requesting.keys() | executing.keys()):
        one, other = requesting.get(provider, {}), executing.get(provider, {})
        merged[provider] = {
            key: _stricter(key, one[key], other[key])
            if key in one and key in other
            else one.get(key, other.get(key, ""))
            for key in sorted(one.keys() | other.keys())
        }
    return merged


def _stricter(key: str, one: str, other: str) -> str:
    if key.startswith(_CEILINGS):
        return _smaller(one, other)
    if key.startswith(_DENIALS):
        return ",".join(dict.fromkeys([*_items(one), *_items(other)]))
    if key == "_allowed_dir":
        return _deeper(one, other)
    if key.startswith(_GRANTS):
        return _common(one, other)
    if key.startswith("_disallow_"):
        return one if one.strip().lower() == "true" else other
    return other or one


def _smaller(one: str, other: str) -> str:
    """The smaller of two ceilings; 0 and below are unlimited; what is no number stays, to be refused."""
    numbers = []
    for text in (one, other):
        try:
            numbers.append((int(text), text))
        except ValueError:
            return text
    limits = [pair for pair in numbers if pair[0] > 0]
    return min(limits or numbers)[1]


def _deeper(one: str, other: str) -> str:
    """The folder of the two that lies inside the other; apart from each other, none: a folder that no path is
    in.
    """
    a, b = posixpath.normpath(one or "."), posixpath.normpath(other or ".")
    if not one or not other or a == b:
        return one or other
    if _inside(a, b):
        return one
    return other if _inside(b, a) else NOWHERE


def _inside(path: str, folder: str) -> bool:
    if folder == ".":
        return not path.startswith(("/", ".."))
    return f"{path}/".startswith(f"{folder.rstrip('/')}/")


def _common(one: str, other: str) -> str:
    left, right = _items(one), set(_items(other))
    if not left or not right:
        return one if left else other
    return ",".join(item for item in left if item in right) or NOWHERE


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


NUMBER = re.compile(r"-?[0-9]{1,18}")
"""A bound as a text, without blanks around it; nothing else is one."""

NOWHERE = "/dev/null/nothing"
"""What two permissions with nothing in common permit: the name of something that cannot exist."""
