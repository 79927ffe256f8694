"""``handler.lock``: which interface versions and profiles are published, and what they were when they were.

Machine-written and sorted, so that its differences in git are one entry each. It is trusted whole or not at
all: a lock that cannot be read publishes nothing, and nothing is ever written over it.
"""

import re
from collections.abc import Iterator
from typing import Any

from reconciler.config import toml
from reconciler.config.text import TextFault
from reconciler.model.inventory import Lock, LockEntry
from reconciler.model.names import InterfaceRef
from reconciler.model.problems import Path, quoted

FORMAT = "handler.lock/v1"
_HEADER = """\
# Written by `handler lock add`. Each entry publishes one version of an interface, which then never changes.
# Keep it in git; do not edit it by hand.
"""
_PROFILE = re.compile(r"[a-z][a-z0-9]*(?:[.-][a-z0-9]+)*@[1-9][0-9]{0,5}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_KEYS = {"digest": _DIGEST, "modelDigest": _DIGEST, "reviewedBy": re.compile(r"[^\s].*"), "published": _DATE}
_OF_PROFILE = {key: form for key, form in _KEYS.items() if key != "modelDigest"}
_TABLES = ("interfaces", "profiles")
_WHY = "a lock is trusted whole or not at all"
_MEND = "take the last good handler.lock from git, then use `handler lock add`"


def read(data: bytes) -> Lock | TextFault:
    """The entries of a lock, each with the line that it starts on; or the first fault, with its place."""
    values = toml.read(data)
    if isinstance(values, TextFault):
        return values
    for path, what in _faults(values):
        line, column = toml.place(data, path)
        return TextFault(line, column, what, _WHY, _MEND, "S220")
    return Lock(
        {
            ref: LockEntry(
                ref=ref,
                digest=entry["digest"],
                model_digest=entry.get("modelDigest", ""),
                reviewed_by=entry["reviewedBy"],
                published=entry["published"],
                files=tuple(sorted(entry.get("files", {}).items())),
                line=toml.place(data, (table, ref))[0],
            )
            for table in _TABLES
            for ref, entry in values.get(table, {}).items()
        }
    )


def render(lock: Lock) -> str:
    """The text of a lock; reading it gives the same entries. Raises ValueError for what could not be read."""
    parts = [f'{_HEADER}apiVersion = "{FORMAT}"\n']
    parts += [_profile(one) for one in sorted(_profiles(lock), key=lambda one: one.ref)]
    versions = [one for one in lock.entries.values() if one.model_digest]
    for entry in sorted(versions, key=lambda one: InterfaceRef.parse(one.ref)):
        parts.append(
            f'\n[interfaces."{entry.ref}"]\n'
            f'digest = "{entry.digest}"\n'
            f'modelDigest = "{entry.model_digest}"\n'
            f"reviewedBy = {_text(entry.reviewed_by)}\n"
            f'published = "{entry.published}"\n'
        )
        if entry.files:
            parts.append(f'\n[interfaces."{entry.ref}".files]\n')
            parts += [f"{_text(path)} = {_text(digest)}\n" for path, digest in sorted(entry.files)]
    text = "".join(parts)
    again = read(text.encode())
    if isinstance(again, TextFault):
        raise ValueError(f"cannot write this lock: line {again.line}: {again.what}")
    return text


def folder(ref: str) -> str:
    """The folder of a published interface version or profile, as a lock names it."""
    name, _, revision = ref.partition("@")
    return f"profiles/{name}/{revision}/" if revision else f"interfaces/{ref}/"


def _profiles(lock: Lock) -> list[LockEntry]:
    return [one for one in lock.entries.values() if not one.model_digest]


def _profile(entry: LockEntry) -> str:
    return (
        f'\n[profiles."{entry.ref}"]\n'
        f'digest = "{entry.digest}"\n'
        f"reviewedBy = {_text(entry.reviewed_by)}\n"
        f'published = "{entry.published}"\n'
    )


def _faults(values: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    if values.get("apiVersion") != FORMAT:
        yield ("apiVersion",), f"the lock is not {FORMAT}"
    for key in values.keys() - {"apiVersion", *_TABLES}:
        yield (key,), f"{quoted(key)} is not a key of a lock"
    for table in _TABLES:
        entries = values.get(table, {})
        if not isinstance(entries, dict):
            yield (table,), f"{table} is not a table"
            continue
        for ref, entry in entries.items():
            if not _names(table, ref):
                noun = "an interface version" if table == "interfaces" else "a profile and its revision"
                yield (table, ref), f"{quoted(ref)} is not {noun}"
            yield from _entry_faults((table, ref), entry)


def _names(table: str, ref: str) -> bool:
    if table == "profiles":
        return _PROFILE.fullmatch(ref) is not None
    try:
        InterfaceRef.parse(ref)
    except ValueError:
        return False
    return True


def _entry_faults(path: tuple[str, str], entry: object) -> Iterator[tuple[Path, str]]:
    table, ref = path
    keys = _KEYS if table == "interfaces" else _OF_PROFILE
    if not isinstance(entry, dict):
        yield path, f"{quoted(ref)} is not a table"
        return
    files = entry.get("files", {})
    if not isinstance(files, dict) or any(
        not isinstance(digest, str) or not _DIGEST.fullmatch(digest) for digest in files.values()
    ):
        yield (*path, "files"), f"files of {ref} is no table of digests"
    for key in sorted(entry.keys() - keys.keys() - ({"files"} if table == "interfaces" else set())):
        yield (*path, key), f"{quoted(key)} is not a key of a locked version"
    for key, form in keys.items():
        value = entry.get(key)
        if not isinstance(value, str) or form.fullmatch(value) is None:
            yield (*path, key), f"{key} of {ref} is missing or does not have its form"


def _text(value: str) -> str:
    """A basic string; what a person's name may hold beyond print is escaped."""
    return '"' + "".join(map(_escaped, value)) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08x}"
