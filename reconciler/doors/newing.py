"""``handler new``: one commented object of any kind, judged after it is written; nothing is overwritten.

An interface is a whole folder, since its parts only make sense together; every other kind is one file (a
connector has its program beside it). Names are checked first, also against those that differ only in case.
"""

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from reconciler.admission.admit import Admission
from reconciler.control import folders
from reconciler.doors import columns, draftkinds, drafts, offline, problems, standing, usage
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

_KINDS = ("binding", "agent", "project", "connector", "interface", "chain", "policy", "profile")
_OPTIONS: dict[str, tuple[str, ...]] = {
    "binding": ("--connector",),
    "connector": ("--implements", "--runtime"),
    "profile": ("--like",),
}
_LIKE = "local-chat.generic@2"
_PROFILE = re.compile(r"[a-z][a-z0-9]*([.-][a-z0-9]+)*")  # as model.profilewords has it


def run(settings: usage.Settings, kind: str, name: str, options: Mapping[str, str]) -> int:
    """Write a new object's files; ``options`` name the connector of a binding (``--connector``), the
    interface and the runtime of a connector (``--implements``, ``--runtime``), what a profile begins as
    (``--like``). 0 written. Raises ``usage.Usage`` for a name that is none and an option that does not
    fit, ``Stopped`` where something is there.
    """
    kind = standing.kind_of(kind)
    if kind not in _KINDS:
        raise usage.Usage(f"'{kind}' is no kind of file that can be written: {', '.join(_KINDS)}")
    ref = _reference(kind, name)
    fits = _OPTIONS.get(kind, ())
    if odd := sorted(options.keys() - set(fits)):
        does = f": {' and '.join(fits)} {'do' if len(fits) > 1 else 'does'}" if fits else ""
        raise usage.Usage(f"{odd[0]} says nothing about {_article(kind)}{does}")
    look = offline.look(folders.configuration(settings.config))
    files = _files(look, ref, options)
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
    elif kind == "policy":
        if name not in draftkinds.POLICIES:
            known = " or ".join(draftkinds.POLICIES)
            raise usage.Usage(f"a policy is {known}, not '{columns.shown(name)}'")
        return ObjectRef(draftkinds.POLICIES[name], name)
    elif kind == "profile":
        if not _PROFILE.fullmatch(name) or len(name) > 80:
            raise usage.Usage(f"'{columns.shown(name)}' is no profile's name: write one like acme-chat.small")
        return ObjectRef(Kind.PROFILE, f"{name}@1")
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


def _files(look: offline.Look, ref: ObjectRef, options: Mapping[str, str]) -> dict[str, str]:
    admission, name = look.admission, ref.name
    make: Mapping[Kind, Callable[[], dict[str, str]]] = {
        Kind.BINDING: lambda: _binding(name, options, admission),
        Kind.CONNECTOR: lambda: _connector(name, options, admission),
        Kind.AGENT: lambda: drafts.agent(name, admission),
        Kind.PROJECT: lambda: drafts.project(name, admission),
        Kind.CHAIN: lambda: draftkinds.chain(name),
        Kind.POLICY: lambda: draftkinds.policy(name),
        Kind.APPROVAL: lambda: draftkinds.policy(name),
        Kind.PROFILE: lambda: _profile(name, options, admission),
        Kind.INTERFACE: lambda: drafts.interface(InterfaceRef.parse(name)),
    }
    return make[ref.kind]()


def _binding(name: str, options: Mapping[str, str], admission: Admission) -> dict[str, str]:
    known = [one.name for one in admission.in_force if one.kind is Kind.CONNECTOR]
    return drafts.binding(name, _chosen("--connector", options.get("--connector", ""), known), admission)


def _connector(name: str, options: Mapping[str, str], admission: Admission) -> dict[str, str]:
    versions, word = [str(one) for one in admission.contracts], options.get("--implements", "")
    if word not in versions and (why := admission.refused.get(ObjectRef(Kind.INTERFACE, word))):
        raise usage.Usage(f"{word} is refused, and has to be mended first: {why[0].at.file}: {why[0].what}")
    of = InterfaceRef.parse(_chosen("--implements", word, versions))
    runtime = _chosen("--runtime", options.get("--runtime", "python"), list(draftkinds.RUNTIMES))
    if runtime == "python":
        return drafts.connector(name, of, admission)
    return draftkinds.connector(name, of, runtime, admission)


def _profile(name: str, options: Mapping[str, str], admission: Admission) -> dict[str, str]:
    like = _chosen("--like", options.get("--like", _LIKE), draftkinds.profiles(admission))
    return draftkinds.profile(name.partition("@")[0], draftkinds.source(admission, like))


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
        sys.stderr.write(f"{ref} is admitted as it stands. {_NEXT[ref.kind].format(name=ref.name)}\n")


_NEXT = {
    Kind.BINDING: "Select it: handler rebind AGENT INTERFACE {name}",
    Kind.AGENT: "Give it a service: handler rebind {name} INTERFACE BINDING",
    Kind.PROJECT: 'An agent joins with project = "{name}".',
    Kind.CONNECTOR: "Write its code, then: handler new binding NAME --connector {name}",
    Kind.CHAIN: "Run it: handler chain run {name} --agent AGENT --text … -w",
    Kind.POLICY: "It is in force as soon as the configuration is.",
    Kind.APPROVAL: "It is in force as soon as the configuration is.",
    Kind.PROFILE: 'A connector of runtime "dialect" names it: profiles = ["{name}"]',
    Kind.INTERFACE: "Publish it once it is reviewed: handler lock add {name}",
}
