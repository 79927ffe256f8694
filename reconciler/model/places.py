"""What a setting's value opens besides being a value: a folder that is shown, a server that may be reached.

A connector states what it may touch, and a person the few things that only they know: which folder, and
where their own server is. A setting with ``format`` is such a thing. Its value stands in the binding's file,
is judged there, and widens the sandbox of that binding's instance by exactly itself: one folder, read-only,
at a place inside that tells nothing of where it lies; or one host and port (or each of a list), by https for
a name, and by plain http for an address alone, since only TLS holds a name to its server.
"""

import re
from typing import Literal

from reconciler.model.hosts import Target, doubts

Format = Literal["folder", "url", "host", "hosts"]
FOLDERS = "/folders"  # where the sandbox shows them, each under its setting's key
_URL = re.compile(r"(https?)://([^/?#@\s]{1,300})((?:/[\x21-\x22\x24-\x3e\x40-\x7e]*)?)")
_PORTS = {"https": 443, "http": 80}
_MOST_HOSTS = 256
# Whole worlds of a machine, none of them somebody's documents.
_WIDE = re.compile(
    r"/(?:(?:root|home|mnt|media|srv|var|tmp|usr|opt)?|(?:etc|boot|proc|sys|dev|run)(?:/.*)?)|~|/home/[^/]+"
)


def place(key: str) -> str:
    """Where the sandbox shows the folder of a setting; what the connector reads as the setting's value."""
    return f"{FOLDERS}/{key}"


def targets(form: Format, text: str) -> tuple[Target, ...]:
    """The servers that a setting's value names; none for a folder. Raises ValueError, as a clause."""
    if form == "folder":
        return ()
    if form == "hosts":
        words = text.split()
        if not 0 < len(words) <= _MOST_HOSTS:
            raise ValueError(f"it is no list of 1 to {_MOST_HOSTS} hosts, separated by blanks")
        return tuple(_named(word) for word in words)
    return (_target(form, text),)


def _named(word: str) -> Target:
    try:
        return _likely(Target.parse(word))
    except ValueError as why:
        raise ValueError(f"of '{word[:80]}': {why}") from None


def _target(form: Format, text: str) -> Target:
    if form == "host":
        return _likely(Target.parse(text))
    found = _URL.fullmatch(text)
    if found is None:
        raise ValueError("it is no plain http(s) address without a user, a query or a fragment")
    scheme, authority, _ = found.groups()
    named = re.search(r":[0-9]+$", authority) is not None
    one = Target.parse(authority if named else f"{authority}:{_PORTS[scheme]}")
    if scheme == "http" and one.address is None:
        raise ValueError("plain http goes to an address like 127.0.0.1, and to names only https")
    return _likely(one)


def fault(form: Format, value: object) -> str | None:
    """Why a value cannot be a setting of this format, as a clause about it, or None when it can."""
    if not isinstance(value, str):
        return "it is not text"
    if form == "folder":
        return _folder_fault(value)
    try:
        targets(form, value)
    except ValueError as why:
        return str(why)
    return None


def _likely(one: Target) -> Target:
    """The target itself, unless it will hardly do what is meant."""
    for _, _, why, mend in doubts((str(one),)):
        raise ValueError(f"{why} ({mend})")
    return one


def _folder_fault(text: str) -> str | None:
    path = text.rstrip("/") or "/"
    parts = path.split("/")[1:]
    if not text.startswith(("/", "~/")) or not text.isprintable():
        return "it is no folder that begins with / or ~/"
    if {".", "..", ""} & set(parts):
        return "it is not written plainly: '.', '..' and '//' are left out"
    if _WIDE.fullmatch(path):
        return "it is a whole part of the machine, not one folder of documents"
    if any(part.startswith(".") for part in parts):
        return "programs keep their keys and settings in hidden folders"
    return None
