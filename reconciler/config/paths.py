"""Whose a file is, by its path alone: an object's, the lock's, nobody's yet, or nobody's at all.

The table of kinds gives the shapes. What editors, git and people keep beside a configuration (dot-files,
backups, README, docs) is passed over in silence everywhere, also inside an object's folder: it is neither
part of a digest nor shown to a connector. Anything else that has no owner is told, since it is most often a
misspelt folder.
"""

import difflib
import re
from enum import Enum
from typing import NamedTuple

from reconciler.model.names import Kind
from reconciler.model.resources import KINDS

LOCK = "handler.lock"
NOT_BUILT = frozenset({"addons"})

# In any part of a path: dot-files, what editors, merges and interpreters leave, what package managers fetch.
_PASSED_OVER = re.compile(
    r"(?:^|/)(?:[.#]|(?:4913|__pycache__|node_modules)(?:/|$))"
    r"|(?:~|\.(?:swp|swo|swx|tmp|bak|orig|rej|pyc))(?:/|$)"
)
_BESIDE = re.compile(
    r"^(?:README|LICENSE|LICENCE|NOTICE|CHANGELOG|CONTRIBUTING|SECURITY|CODEOWNERS)(?:\..*)?$"
    r"|^(?:docs|cassettes|schemas|tombi\.toml|taplo\.toml|Makefile|justfile)$",
    re.IGNORECASE,
)


class Owner(Enum):
    """What a path belongs to."""

    OBJECT = "object"
    LOCK = "lock"
    NOT_BUILT = "not built"  # a folder whose capability comes later
    NOBODY = "nobody"
    PASSED_OVER = "passed over"


class Home(NamedTuple):  # ten thousand are made in a cold load: a tuple is made fastest
    """Where a path belongs. ``key`` is what its files are gathered under.

    For an object the key is the path of its defining file, ``name`` is what the path calls it (which need not
    be a legal name), and ``folder`` the folder that is its own ("" when it is one file).
    """

    owner: Owner
    key: str
    kind: Kind = Kind.CONFIG
    name: str = ""
    folder: str = ""


_ALONE = {row.pattern: row.kind for row in KINDS if "<" not in row.pattern}
_OF_NAMED = {path.partition("/")[0] for path in _ALONE if "/" in path}  # policies: its files have fixed names
_FLAT = {
    row.pattern.split("/")[0]: row.kind
    for row in KINDS
    if row.pattern.endswith(("/<name>.toml", "/<name>.json"))
}  # bindings/<name>.toml
_ENDINGS = {Kind.CHAIN: (".json", ".toml")}  # of one file's objects; every other kind has TOML alone
_TOML = (".toml",)
_DEEP = {
    parts[0]: (row.kind, len(parts) - 1, parts[-1])
    for row in KINDS
    if len(parts := row.pattern.split("/")) > 2
}  # interfaces/<name>/v<N>/interface.toml
FOLDERS = (*_FLAT, *_DEEP, *sorted(_OF_NAMED | NOT_BUILT))


_FLAT_OBJECT = re.compile(rf"({'|'.join(_FLAT)})/([a-z0-9-]+)\.toml")  # most paths, told apart at once


def home(path: str) -> Home:
    """Whose the file at ``path`` (posix, relative to a layer's root) is."""
    if plain := _FLAT_OBJECT.fullmatch(path):
        return Home(Owner.OBJECT, path, _FLAT[plain[1]], plain[2])
    parts = path.split("/")
    top = parts[0]
    if top in _FLAT and path == f"{top}/.toml":
        return Home(Owner.OBJECT, path, _FLAT[top])  # an object without a name, not a dot-file
    if _PASSED_OVER.search(path) or _BESIDE.match(top):
        return Home(Owner.PASSED_OVER, "")
    if top in _FLAT or top in _DEEP:
        return _inside(path, parts)
    return _at_the_top(path, parts)


def nearest_folder(path: str) -> str | None:
    """The known folder that the first part of ``path`` may be a misspelling of."""
    near = difflib.get_close_matches(path.partition("/")[0], FOLDERS, n=1, cutoff=0.7)
    return near[0] if near else None


def shape(kind: Kind) -> str:
    """Where files of a kind lie, as people read it: ``bindings/NAME.toml``."""
    pattern = next(row.pattern for row in KINDS if row.kind is kind)
    return pattern.replace("<name>", "NAME").replace("<N>", "N")


def _inside(path: str, parts: list[str]) -> Home:
    top = parts[0]
    if top in _FLAT and len(parts) == 2 and path.endswith(_ENDINGS.get(_FLAT[top], _TOML)):
        return Home(Owner.OBJECT, path, _FLAT[top], parts[1].rpartition(".")[0])
    if top in _DEEP:
        kind, depth, manifest = _DEEP[top]
        if len(parts) > depth:
            folder = "/".join(parts[:depth])
            joint = "@" if kind is Kind.PROFILE else "/"  # openai-chat.gpt-5@1, ocr/v1
            return Home(Owner.OBJECT, f"{folder}/{manifest}", kind, joint.join(parts[1:depth]), folder)
    if _BESIDE.match(parts[-1]):
        return Home(Owner.PASSED_OVER, "")
    return Home(Owner.NOBODY, path)


def _at_the_top(path: str, parts: list[str]) -> Home:
    if path in _ALONE:
        return Home(Owner.OBJECT, path, _ALONE[path], parts[-1].removesuffix(".toml"))
    if path == LOCK:
        return Home(Owner.LOCK, path)
    if parts[0] in NOT_BUILT:
        return Home(Owner.NOT_BUILT, f"{parts[0]}/")
    is_named = len(parts) == 1 or parts[0] in _OF_NAMED
    return Home(Owner.NOBODY, path if is_named else f"{parts[0]}/")


def shown(path: str) -> str:
    """A path as a message can have it, whatever bytes its name was made of."""
    return path if path.isascii() else path.encode(errors="backslashreplace").decode()
