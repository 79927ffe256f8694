"""One object from its files: its name from the path, its record from the text, its digest over all of them.

Every problem of an object is found in the same reading and leaves with its line and column. An object with a
problem has no resource: what it was when it was last admitted stays in force until it is mended.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from reconciler.config import chaintext, leaks, places, profiles, shape, toml
from reconciler.config.codes import CODES
from reconciler.config.paths import Home, shown
from reconciler.config.paths import shape as shape_of
from reconciler.config.text import TOO_LARGE, TextFault
from reconciler.config.words import Subject, suggested
from reconciler.model.inventory import Fault, Layer, Lock, Resource, Tree
from reconciler.model.names import (
    MAX_INTERFACE_NAME,
    NAME_PATTERN,
    RESERVED_INTERFACES,
    Kind,
    ObjectRef,
    name_fault,
)
from reconciler.model.problems import Path, Problem, Severity, Span, quoted
from reconciler.model.recipes import folder_digest
from reconciler.model.resources import KINDS, KindRow, Record

_ROWS: Mapping[Kind, KindRow] = {row.kind: row for row in KINDS}
_VERSION = re.compile(r"v([1-9][0-9]{0,5})")
_NOTHING: frozenset[str] = frozenset()
EVIDENCE = "evidence/"  # in the folder of a connector or a profile
_NO_FILE = "S218"
_MAX_SHOWN_NAME = 100  # a name beyond it is no name of an object, and gets no status of its own


class Unit(NamedTuple):  # ten thousand are made in a cold load: a tuple is made fastest
    """What was found under one key: an object, the lock, or files that are neither.

    ``odd`` says that the name is not legal, so that it may be another one once case is folded.
    """

    file: str
    ref: ObjectRef | None = None
    resource: Resource[Record] | None = None
    problems: tuple[Problem, ...] = ()
    odd: bool = False
    lock: Lock | None = None


def unit(layer: Layer, home: Home, tree: Tree, paths: list[str]) -> Unit:
    """The object that the paths belong to, or why there is none."""
    file, ref = shown(home.key), _ref(home)
    if tree.faults:
        found = [unread_problem(path, tree.faults[path], ref) for path in paths if path in tree.faults]
        if found:
            return Unit(file, ref, problems=tuple(found))
    if wrong := _name_problem(home, ref):
        return Unit(file, ref, problems=(wrong,), odd=True)
    if home.key not in tree.files:
        return Unit(file, None, problems=(_without_its_file(home),))
    if home.folder and (unnamed := [path for path in paths if not _has_a_readable_name(path)]):
        return Unit(file, ref, problems=(unread_problem(unnamed[0], Fault("name"), ref),))
    return _read(layer, home, tree, paths)


def unread_problem(path: str, fault: Fault, about: ObjectRef | None) -> Problem:
    """The problem of a file or folder that was not taken in."""
    code, what, why, mend = _UNREAD.get(fault.word, _UNREAD["unreadable"])
    detail = f": {fault.detail}" if fault.detail else ""
    reason = "SourceUnavailable" if fault.word == "unreadable" else "SchemaInvalid"
    return Problem(code, what + detail, why, mend, Span(shown(path)), about=about, reason=reason)


_UNREAD = {
    "too_large": (
        TOO_LARGE,
        "the file is too large",
        "a file that takes long to read would hold up every other one",
        "keep large data outside the configuration",
    ),
    "symlink": (
        "S213",
        "it is a symbolic link",
        "a link can lead out of the configuration, and change without a sign",
        "put the file itself there",
    ),
    "special": ("S214", "it is no regular file", "only regular files can be read safely", "remove it"),
    "unreadable": (
        "S215",
        "cannot read it",
        "what cannot be read is not taken for removed",
        "make it readable for whoever runs the controller",
    ),
    "lfs": (
        "S221",
        "it is a pointer of Git LFS, not the file itself",
        "the content lies outside of what git stores, and nothing is fetched",
        "run `git lfs pull`, or keep the file itself in git: a commit holds only pointers",
    ),
    "submodule": (
        "S222",
        "it is a submodule whose files are not here",
        "nothing is fetched while a configuration is read",
        "run `git submodule update --init`",
    ),
    "name": ("S219", "the name of a file is not UTF-8", "a digest covers the names of files", "rename it"),
}


# names


def _ref(home: Home) -> ObjectRef | None:
    """The object that a path names; None where the name cannot even be shown."""
    if home.name and home.name.isprintable() and len(home.name) <= _MAX_SHOWN_NAME:
        return ObjectRef(home.kind, home.name)
    return None


def _name_problem(home: Home, ref: ObjectRef | None) -> Problem | None:
    fault = _name_fault(home)
    if fault is None:
        return None
    better = suggested(home.name.partition("/")[0], NAME_PATTERN)
    what = f"{quoted(home.name)} does not fit as the name of {_noun(home.kind)}: {fault}"
    why = f"files lie in {shape_of(home.kind)}; names become file, socket and tool names"
    mend = (
        f"rename it, for example to {quoted(better)}" if better and better not in home.name else "rename it"
    )
    return Problem(CODES[home.kind].wrong_name, what, why, mend, Span(shown(home.key)), about=ref)


def _name_fault(home: Home) -> str | None:
    if home.kind in (Kind.PROFILE, Kind.DIALECT):
        return profiles.name_fault(home.name)
    if home.kind is not Kind.INTERFACE:
        return name_fault(home.name)
    name, _, version = home.name.partition("/")
    if fault := name_fault(name, MAX_INTERFACE_NAME):
        return fault
    if name in RESERVED_INTERFACES:
        return f"{quoted(name)} is reserved"
    if _VERSION.fullmatch(version) is None:
        return f"{quoted(version)} is not a version: folders of versions are v1, v2 and so on"
    return None


def _noun(kind: Kind) -> str:
    return f"an {kind.value}" if kind.value[0] in "aeiou" else f"a {kind.value}"


def _has_a_readable_name(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _without_its_file(home: Home) -> Problem:
    return Problem(
        _NO_FILE,
        f"the folder has no {home.key.rpartition('/')[2]}",
        f"{_noun(home.kind)} is defined by {shape_of(home.kind)}",
        f"add {quoted(shown(home.key))}, or remove the folder",
        Span(shown(home.folder)),
        severity=Severity.WARNING,
    )


# texts


def _read(layer: Layer, home: Home, tree: Tree, paths: list[str]) -> Unit:
    data = tree.files[home.key]
    ref = ObjectRef(home.kind, home.name)
    values = read_text(home.key, data)
    known = None if isinstance(values, TextFault) else values
    is_own = layer is Layer.CONFIG  # what ships is looked at where it is judged as a configuration of its own
    if is_own and (leaked := leaks.problems(home.key, data, known, ref)):
        return Unit(home.key, ref, problems=leaked)  # nothing else: other problems repeat what stands in it
    if isinstance(values, TextFault):
        return Unit(home.key, ref, problems=(values.problem(home.key, ref),))
    row, given = _ROWS[home.kind], _given(home)
    told: tuple[Problem, ...] = ()
    if home.kind is Kind.CHAIN:
        values, told = chaintext.read(values, home.key, ref)
    spec = shape.sound(row, values, given)
    if spec is None:
        found = shape.problems(Subject(row, home.key, ref, values, given))
        return Unit(home.key, ref, problems=tuple(_placed((*told, *found), data)))
    cut = len(home.folder) + 1 if home.folder else home.key.rfind("/") + 1
    if home.kind is Kind.PROFILE and (odd := tuple(profiles.odd_values(values))):
        unfit = tuple(Problem(*words, Span(home.key), path, about=ref) for path, words in odd)
        return Unit(home.key, ref, problems=tuple(_placed(unfit, data)))
    if home.kind in (Kind.CONNECTOR, Kind.PROFILE):  # what was found out about it is no part of it
        paths = [path for path in paths if not path.startswith(EVIDENCE, cut)]
    files = {path[cut:]: tree.files[path] for path in paths}
    executable = _NOTHING
    if tree.executable:
        executable = frozenset(path[cut:] for path in paths if path in tree.executable)
    is_profile = home.kind is Kind.PROFILE  # its facts are what it is, whatever stands around them
    digest = profiles.digest(values) if is_profile else folder_digest(files, executable)
    resource = Resource(ref, layer, home.key, digest, spec, files, executable)
    return Unit(home.key, ref, resource, tuple(_placed(told, data)))


def read_text(file: str, data: bytes) -> dict[str, Any] | TextFault:
    """The values of a text, by the ending of its file: JSON, else TOML."""
    if not file.endswith(".json"):
        return toml.read(data)
    from reconciler.config import jsontext  # noqa: PLC0415 - only chains are written in it

    return jsontext.read(data)


def _given(home: Home) -> Mapping[Path, object]:
    """What the path says of the keys."""
    if home.kind in (Kind.CONFIG, Kind.POLICY, Kind.APPROVAL):
        return {}
    if home.kind is Kind.INTERFACE:
        name, _, version = home.name.partition("/v")
        return {("name",): name, ("version",): int(version)}
    if home.kind is Kind.PROFILE:
        name, _, version = home.name.partition("@")
        return {("profile", "id"): name, ("profile", "revision"): int(version)}
    if home.kind is Kind.DIALECT:
        name, _, version = home.name.partition("@")
        return {("name",): name, ("version",): int(version)}
    return {("id" if home.kind is Kind.CHAIN else "name",): home.name}


def _placed(problems: tuple[Problem, ...], data: bytes) -> Iterator[Problem]:
    for problem in problems:
        place = places.at(problem.at.file, data, problem.path, on_key=problem.on_key)
        yield problem.placed(Span(problem.at.file, *(place or (1, 1))))
