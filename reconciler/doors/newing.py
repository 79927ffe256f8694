"""``handler new``: one commented object of any kind, judged after it is written; nothing is overwritten.

An interface is a whole folder, since its parts only make sense together; every other kind is one file (a
connector has its program beside it). Names are checked first, also against those that differ only in case.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from reconciler.control import folders
from reconciler.doors import columns, drafts, offline, problems, standing, usage
from reconciler.model.names import (
    MAX_INTERFACE_NAME,
    MAX_NAME,
    RESERVED_INTERFACES,
    InterfaceRef,
    Kind,
    ObjectRef,
    name_fault,
)
from reconciler.model.problems import Severity

_KINDS = ("binding", "agent", "project", "connector", "interface")
_OPTIONS = {"binding": "--connector", "connector": "--implements"}


def run(settings: usage.Settings, kind: str, name: str, options: Mapping[str, str]) -> int:
    """Write a new object's files; ``options`` name the connector of a binding (``--connector``) or the
    interface of a connector (``--implements``). 0 written. Raises ``usage.Usage`` for a name that is none
    and an option that does not fit, ``Stopped`` where something is there.
    """
    kind = standing.kind_of(kind)
    if kind not in _KINDS:
        raise usage.Usage(f"'{kind}' is no kind of file that can be written: {', '.join(_KINDS)}")
    ref = _reference(kind, name)
    fits = _OPTIONS.get(kind)
    if odd := sorted(options.keys() - {fits}):
        raise usage.Usage(
            f"{odd[0]} says nothing about {_article(kind)}" + (f": {fits} does" if fits else "")
        )
    look = offline.look(folders.configuration(settings.config))
    files = _files(look, ref, options.get(fits or "", ""))
    _write(look, {path: with_schema(look.root, path, text) for path, text in files.items()})
    sys.stdout.write("".join(f"{path}\n" for path in files))
    sys.stdout.flush()
    _say(settings, offline.look(look.root), ref)
    return 0


def _reference(kind: str, name: str) -> ObjectRef:
    if kind == "interface":
        bare, slash, _ = name.partition("/")
        try:
            version = InterfaceRef.parse(name if slash else f"{bare}/v1")
        except ValueError as error:
            raise usage.Usage(str(error)) from None
        bare, name = version.name, str(version)
    else:
        bare = name
    fault = name_fault(bare, MAX_INTERFACE_NAME if kind == "interface" else MAX_NAME)
    if kind == "interface" and bare in RESERVED_INTERFACES:
        fault = "it is reserved"
    if fault:
        raise usage.Usage(f"'{columns.shown(bare)}' is not a name: {fault}")
    return ObjectRef(Kind(kind), name)


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _files(look: offline.Look, ref: ObjectRef, of: str) -> dict[str, str]:
    admission = look.admission
    match ref.kind:
        case Kind.BINDING:
            known = [one.name for one in admission.in_force if one.kind is Kind.CONNECTOR]
            return drafts.binding(ref.name, _chosen("--connector", of, known), admission)
        case Kind.CONNECTOR:
            versions = [str(one) for one in admission.contracts]
            chosen = InterfaceRef.parse(_chosen("--implements", of, versions))
            return drafts.connector(ref.name, chosen, admission)
        case Kind.AGENT:
            return drafts.agent(ref.name, admission)
        case Kind.PROJECT:
            return drafts.project(ref.name, admission)
        case _:
            return drafts.interface(InterfaceRef.parse(ref.name))


def _chosen(option: str, word: str, known: list[str]) -> str:
    """What an option names; raises ``usage.Usage`` when that is nothing that is there."""
    if word in known:
        return word
    there = ", ".join(sorted(known)) or "none"
    if not word:
        raise usage.Usage(f"say which with {option}: {there}")
    near = usage.nearest(word, known)
    raise usage.Usage(
        f"there is no '{word}': " + (f"did you mean '{near}'?" if near else f"there are {there}")
    )


def _write(look: offline.Look, files: dict[str, str]) -> None:
    """Write every file, or none where one is there; raises ``Stopped``."""
    there = {path.casefold(): path for path in (*look.tree.files, *look.tree.faults)}
    for path in files:
        folder = path.rpartition("/")[0]
        for known in (path, folder) if path.count("/") > 1 else (path,):
            taken = [
                one for one in there if one == known.casefold() or one.startswith(f"{known.casefold()}/")
            ]
            if taken:
                raise usage.Stopped(f"{there[taken[0]]} is there already: nothing was written")
        if (look.root / path).exists() or (look.root / path).is_symlink():
            raise usage.Stopped(f"{path} is there already: nothing was written")
    for path, text in files.items():
        target = look.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("x", encoding="utf-8") as file:
            file.write(text)


def with_schema(root: Path, path: str, text: str) -> str:
    """The text with the line by which editors find the schema, where the configuration has one."""
    kind = {"cases.toml": "cases"}.get(path.rpartition("/")[2], path.partition("/")[0].removesuffix("s"))
    schema = f"schemas/{kind}.schema.json"
    if not path.endswith(".toml") or not (root / schema).is_file():
        return text
    return f"#:schema {'../' * path.count('/')}{schema}\n{text}"


def _say(settings: usage.Settings, look: offline.Look, ref: ObjectRef) -> None:
    """What is still to be filled in, and what comes next."""
    found = [one for one in look.admission.problems if one.about == ref and one.severity is Severity.ERROR]
    if found:
        paint = columns.Paint(settings.color, tty=sys.stderr.isatty())
        sys.stderr.write(problems.text(found, look.admission.inventory, paint))
        sys.stderr.write(f"{ref} is not admitted before that is filled in.\n")
    elif not settings.quiet:
        sys.stderr.write(f"{ref} is admitted as it stands. {_next(ref)}\n")


def _next(ref: ObjectRef) -> str:
    match ref.kind:
        case Kind.BINDING:
            return f"Select it: handler rebind AGENT INTERFACE {ref.name}"
        case Kind.AGENT:
            return f"Give it a service: handler rebind {ref.name} INTERFACE BINDING"
        case Kind.PROJECT:
            return f'An agent joins with project = "{ref.name}".'
        case Kind.CONNECTOR:
            return f"Write main.py, then: handler new binding NAME --connector {ref.name}"
        case _:
            return f"Publish it once it is reviewed: handler lock add {ref.name}"
