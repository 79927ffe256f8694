"""Our servers in a harness's own file: put in, brought up to date, taken out; nothing else in it changes.

Whose an entry is, is remembered (``Ours``) and compared: one that a person wrote or changed is never written
over unless that is wished. Every result is read again and compared with what was meant before it is handed
out. A file that cannot be read is never taken for an empty one.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from reconciler.harness import jsontext, reading, rendering, tomltext
from reconciler.harness.harnesses import Harness

_BOM = b"\xef\xbb\xbf"
Entries = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ours:
    """What was written into one file, by name, and what taking it out has to know.

    ``made``: there was no file. ``depth``: so many keys on the way to the table of servers were there.
    ``gaps``: what the texts have around ours.
    """

    entries: Entries = field(default_factory=dict)
    made: bool = False
    depth: int = 0
    gaps: Mapping[str, str] = field(default_factory=dict)


class Theirs(Exception):  # noqa: N818 - a fact about a file
    """Entries of these names are a person's; ``edited`` are ours that a person changed."""

    def __init__(self, foreign: Iterable[str], edited: Iterable[str]) -> None:
        self.foreign, self.edited = tuple(foreign), tuple(edited)
        super().__init__(", ".join((*self.foreign, *self.edited)))


def merged(
    row: Harness, data: bytes | None, wanted: Entries, ours: Ours, *, force: bool = False
) -> tuple[bytes | None, Ours]:
    """A file that holds ``wanted`` of ours and nothing else of it, and what to remember; None for no file.

    ``ours`` is what was remembered of it. What says the same already stays whose it is, and the file as it
    is. Raises ``Theirs``, and ValueError as a clause (with line and column) for a file that cannot be read or
    changed.
    """
    if data is None:
        return _fresh(row, wanted) if wanted else (None, Ours())
    values = _values(row, data)
    there = _servers(row, values)
    foreign = [name for name in wanted if name in there and name not in ours.entries]
    same = [name for name in foreign if there[name] == wanted[name]]
    if not force:
        alike = _alike(wanted, [name for name in there if name not in ours.entries and name not in wanted])
        _refuse_theirs(there, wanted, ours, [*(name for name in foreign if name not in same), *alike])
    mine = {name: entry for name, entry in wanted.items() if name not in same}
    old = [name for name in (*ours.entries, *mine) if name in there]
    if _is_so(there, mine, old):
        return data, Ours(mine, ours.made, ours.depth, ours.gaps)
    bare = _out(row, data.removeprefix(_BOM), dict.fromkeys(old), ours)
    if not mine and ours.made and _is_fresh(row, bare):
        return None, Ours()
    changed, remembered = _in(row, bare, mine, ours)
    if data.startswith(_BOM):
        changed = _BOM + changed
    _prove(row, changed, values, {name: one for name, one in there.items() if name not in old} | mine)
    return changed, remembered


def without_theirs(
    row: Harness, data: bytes | None, wanted: Entries, ours: Ours, *, only: Collection[str] | None = None
) -> tuple[Entries, Ours, tuple[str, ...]]:
    """What is left to write, and of ours, when what a person wrote or changed is left to that person; and
    which servers that is: all of them, or ``only`` those.

    Raises ValueError as ``merged`` does.
    """
    try:
        merged(row, data, wanted, ours)
    except Theirs as theirs:
        found = [one for one in (*theirs.foreign, *theirs.edited) if only is None or one in only]
        left = {name: entry for name, entry in wanted.items() if not is_one_of(name, found)}
        mine = {name: entry for name, entry in ours.entries.items() if name not in found}
        return left, replace(ours, entries=mine), tuple(found)
    return wanted, ours, ()


def is_one_of(name: str, names: Iterable[str]) -> bool:
    """Whether some harness takes ``name`` for one of these: case and joints are not told apart by all."""
    return _folded(name) in {_folded(one) for one in names}


def standing(row: Harness, data: bytes) -> dict[str, Any]:
    """The servers that a file names, by name. Raises ValueError for a file that cannot be read."""
    return _servers(row, _values(row, data))


def _refuse_theirs(there: Entries, wanted: Entries, ours: Ours, foreign: list[str]) -> None:
    edited = [
        name
        for name, entry in ours.entries.items()
        if name in there and there[name] != entry and there[name] != wanted.get(name)
    ]
    if foreign or edited:
        raise Theirs(foreign, edited)


def _alike(wanted: Entries, others: Iterable[str]) -> list[str]:
    """The other names that some harness takes for one of ours."""
    return [name for name in others if is_one_of(name, wanted)]


def _folded(name: str) -> str:
    return re.sub(r"[-_. ]+", "-", name.casefold())


def _is_so(there: Entries, mine: Entries, old: Iterable[str]) -> bool:
    """Whether the file says what it should already."""
    return all(there.get(name) == entry for name, entry in mine.items()) and all(name in mine for name in old)


# forms


def _fresh(row: Harness, wanted: Entries) -> tuple[bytes, Ours]:
    if row.form == "TOML":
        data, gaps = tomltext.given(b"", row.table[0], row.named, wanted)
        return data, Ours(wanted, made=True, depth=len(row.table), gaps=gaps)
    made: Any = dict(wanted)
    for key in reversed(row.table):
        made = {key: made}
    return rendering.text({**row.beside, **made}), Ours(wanted, made=True)


def _out(row: Harness, data: bytes, names: dict[str, Any], ours: Ours) -> bytes:
    if row.form == "TOML":
        before = {name: ours.gaps.get(name, "") for name in (*ours.gaps, *names) if name in names}
        return tomltext.taken(data, row.table[0], row.named, before)
    text = data.decode()
    whole = ours.depth >= len(row.table)
    text = jsontext.taken(text, row.table, list(names), ours.gaps.get("", "") if whole else "")
    if ours.entries and not whole and jsontext.is_bare(text, row.table):
        at, made = row.table[: ours.depth], row.table[ours.depth]
        text = jsontext.taken(text, at, [made], ours.gaps.get("", ""))
    return text.encode()


def _in(row: Harness, data: bytes, mine: Entries, ours: Ours) -> tuple[bytes, Ours]:
    if not mine:
        return data, Ours()
    if row.form == "TOML":
        data, gaps = tomltext.given(data, row.table[0], row.named, mine)
        return data, Ours(mine, ours.made, len(row.table), gaps)
    text = data.decode()
    depth = _depth(row, _values(row, data))
    text, tail = jsontext.given(text, row.table, mine)
    return text.encode(), Ours(mine, ours.made, depth, {"": tail})


def _depth(row: Harness, values: Any) -> int:
    for number, key in enumerate(row.table):
        if key not in values:
            return number
        values = values[key]
    return len(row.table)


def _is_fresh(row: Harness, data: bytes) -> bool:
    """Whether nothing is left but what a file of ours alone has."""
    if row.form == "TOML":
        return not data.strip()
    values = _values(row, data)
    if _servers(row, values) or any(row.beside.get(key) != one for key, one in _besides(row, values).items()):
        return False
    return "".join(data.decode().split()) == "".join(json.dumps(values, ensure_ascii=False).split())


# values


def _values(row: Harness, data: bytes) -> dict[str, Any]:
    return reading.values(data, f"x.{row.form.lower()}")


def _servers(row: Harness, values: Any) -> dict[str, Any]:
    """The entries by name, without the name itself; raises ValueError where the table is none."""
    for key in row.table:
        if key not in values:
            return {}
        values = values[key]
        if not isinstance(values, list if row.named else dict):
            raise ValueError("what should be its table of MCP servers is none")
    if not row.named:
        return dict(values)
    found = {}
    for one in values:
        if isinstance(one, dict) and isinstance(one.get(row.named), str):
            found[one[row.named]] = {key: value for key, value in one.items() if key != row.named}
    return found


def _besides(row: Harness, values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != row.table[0]}


def _prove(row: Harness, data: bytes, before: dict[str, Any], servers: Entries) -> None:
    """Raise ValueError unless the servers are these, and everything else is what it was, in its order."""
    try:
        after = _values(row, data)
        rest = deepcopy(_besides(row, after))
        proven = _servers(row, after) == servers and rest == _besides(row, before)
        proven = proven and list(rest) == list(_besides(row, before))
    except ValueError:
        proven = False
    if not proven:
        raise ValueError("it cannot be changed without changing something else: change it by hand")
