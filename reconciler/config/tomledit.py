"""One value of a TOML text changed, and the proof that nothing else was.

tomlkit keeps comments, order and spacing, but has moved keys into the wrong table before. So its result is
parsed by the reader that the product trusts and compared, types included, with what was meant; and every
comment must still be there. Otherwise the edit is refused and nobody's file is touched.
"""

from collections.abc import Callable, MutableMapping, MutableSequence
from copy import deepcopy
from typing import Any

import tomli
import tomlkit
from tomlkit.exceptions import TOMLKitError

from reconciler.config.text import TextFault, comments, decoded
from reconciler.model.problems import Path, quoted

_BOM = "\ufeff"
# What tomlkit is known to raise on texts that it cannot take, besides its own errors.
_BREAKS = (TOMLKitError, ValueError, TypeError, LookupError, AttributeError, AssertionError, RecursionError)


def edit(text: str, path: Path, value: object) -> str:
    """The text with one value changed: see ``toml.edit``."""
    if not path:
        raise ValueError("cannot change a whole file: name a key")
    plain = decoded(text.encode(errors="surrogatepass"))
    if isinstance(plain, TextFault):
        raise ValueError(f"cannot edit this file: line {plain.line}: {plain.what}")
    try:
        before = tomli.loads(plain)
    except (ValueError, RecursionError) as error:
        raise ValueError("cannot edit this file: it is not TOML") from error
    wanted = deepcopy(before)
    _put(wanted, path, deepcopy(value), dict)
    windows = "\r\n" in plain and "\n" not in plain.replace("\r\n", "")
    after = _edited(plain.replace("\r\n", "\n") if windows else plain, path, value)
    _prove(after, wanted, lost=comments(plain) - comments(after) if value is not None else None)
    after = after.replace("\n", "\r\n") if windows else after
    return _BOM + after if text.startswith(_BOM) else after


def _edited(text: str, path: Path, value: object) -> str:
    try:
        document = tomlkit.parse(text)
        _put(document, path, value, tomlkit.table)
        return tomlkit.dumps(document)
    except _BREAKS as error:
        raise ValueError("cannot edit this file and keep its comments: change it by hand") from error


def _put(root: Any, path: Path, value: object, table: Callable[[], Any]) -> None:
    """Set or remove (None) the value at a path, making missing tables, in plain values or in a document."""
    here = root
    for depth, part in enumerate(path[:-1], 1):
        if _lacks(here, part):
            if value is None:
                return
            here[part] = table()
        here = _item(here, part, path[:depth])
    last = path[-1]
    if not _lacks(here, last):
        _item(here, last, path)  # raises where the path leads nowhere
    if value is not None:
        here[last] = value
    elif not _lacks(here, last):
        del here[last]


def _lacks(here: Any, part: str | int) -> bool:
    return isinstance(here, MutableMapping) and isinstance(part, str) and part not in here


def _item(here: Any, part: str | int, path: Path) -> Any:
    if isinstance(here, MutableMapping) and isinstance(part, str):
        return here[part]
    where = quoted(".".join(map(str, path)))
    if not isinstance(here, MutableSequence) or not isinstance(part, int):
        raise ValueError(f"cannot change {where}: what it lies in is no table")
    if not 0 <= part < len(here):
        raise ValueError(f"cannot change {where}: the list has {len(here)} items")
    return here[part]


def _prove(after: str, wanted: object, lost: Any) -> None:
    try:
        proven = same(tomli.loads(after), wanted)
    except (ValueError, RecursionError):
        proven = False
    if not proven:
        raise ValueError("cannot make this edit without changing something else: change the file by hand")
    if lost:
        raise ValueError("cannot make this edit without losing a comment: change the file by hand")


def same(one: object, other: object) -> bool:
    """Equal in value and in type at every level: 1, 1.0 and true are three values, and NaN is itself."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(item, other[key]) for key, item in one.items())
    if isinstance(one, list) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and (one == other or (one != one and other != other))
