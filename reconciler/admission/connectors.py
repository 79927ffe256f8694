"""Connectors: what they claim to implement, what runs them, and what their files may be.

Whether the claim is true is decided by the conformance suite, not here. Their code is pinned and mounted
read-only, so what matters is that the folder is plain files, that everything installed is fixed by hash
(ruling 56), and that no variable of the environment can bend the interpreter or another slot.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from reconciler.admission import commands, companions, dialects, mappings, slots
from reconciler.admission.slots import Words, problem
from reconciler.admission.view import View, inside, nearest, whole_path
from reconciler.model import hosts
from reconciler.model.inventory import Resource
from reconciler.model.names import InterfaceRef, Kind, ObjectRef
from reconciler.model.problems import Problem, Severity, Span, listed, quoted
from reconciler.model.resources import Connector

LOCK = "requirements.lock"
_SUFFIXES = {".py": "python", ".ts": "deno"}
_ENTRIES = {"python": "main.py", "deno": "main.ts"}
_NEEDS = {  # the key that a runtime cannot do without
    "command": "command",
    "mcp": "command",
    "image": "image",
    "remote": "url",
    "attached": "socket",
    "dialect": "profiles",
}
_BELONGS = {  # the runtimes that a key says something to
    "entry": ("python", "deno"),
    "command": ("command", "mcp"),
    "image": ("image",),
    "url": ("remote",),
    "socket": ("attached",),
    "profiles": ("dialect",),
    "tool": ("mcp", "remote", "image", "dialect"),
}
_WRAPS = ("mcp", "remote", "image")  # a server that is there already: which interface it fits comes later
_REQUIREMENT = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[A-Za-z0-9._,\s-]+\])?\s*==\s*[A-Za-z0-9.!+_-]+\s*(?:;[^#]*?)?"
    r"(?:\s+--hash=sha256:[0-9a-f]{64})+"
)


def runtime(connector: Resource[Connector]) -> str | None:
    """What runs a connector: as it says, else by the entry file; None when neither tells."""
    spec = connector.spec
    if spec.runtime:
        return spec.runtime
    if spec.entry:
        return _SUFFIXES.get("." + spec.entry.rpartition(".")[2])
    found = [name for name, file in _ENTRIES.items() if file in inside(connector)]
    return found[0] if len(found) == 1 else None


def entry(connector: Resource[Connector]) -> str:
    """The file that starts a python or deno connector, relative to its folder; what of the product a builtin
    one is; the file that maps the tools of an image that is a wrapped server; "" for other runtimes.
    """
    if runtime(connector) == "builtin":
        return " ".join(sorted(set(connector.spec.implements)))
    if runtime(connector) == "image" and connector.spec.tool:
        return "connector.toml"
    return connector.spec.entry or _ENTRIES.get(runtime(connector) or "", "")


def implements_what_is_there(view: View, connector: Resource[Connector]) -> Iterator[Problem]:
    """Each implemented version exists, once; a refused one makes the connector wait."""
    seen: set[str] = set()
    for index, version in enumerate(connector.spec.implements):
        path = ("implements", index)
        ref = ObjectRef(Kind.INTERFACE, version)
        if version in seen:
            yield problem(
                connector,
                path,
                "C202",
                Words(
                    f"{version} stands twice",
                    "each implemented version is listed once",
                    f"delete one {quoted(version)}",
                ),
            )
        elif view.waits(ref):
            yield Problem(
                code="C203",
                what=f"waits for {ref}",
                why="a connector is admitted with every version that it implements",
                mend=f"mend {ref} first",
                at=Span(connector.file),
                path=path,
                about=connector.ref,
                reason="WaitsFor",
            )
        elif view.interface(version) is None:
            near = nearest(version, view.names(Kind.INTERFACE))
            yield Problem(
                code="C201",
                what=f"interface {quoted(version)} does not exist",
                why="a connector implements versions of interfaces that are there",
                mend=f"write {quoted(near)}" if near else f"add interfaces/{version}/interface.toml",
                at=Span(connector.file),
                path=path,
                about=connector.ref,
                reason="UnresolvedReference",
            )
        seen.add(version)


def egress_names_exact_hosts(view: View, connector: Resource[Connector]) -> Iterator[Problem]:
    """What it may reach are hosts in the one form that a list can be compared by."""
    for index, fault in hosts.faults(connector.spec.egress):
        words = Words(
            f"{quoted(connector.spec.egress[index])} is no host that can be reached",
            fault,
            "write host:port, like 'api.example.com:443'",
        )
        yield problem(connector, ("egress", index), "C217", words)
    for index, *doubt in hosts.doubts(connector.spec.egress):
        doubted = problem(connector, ("egress", index), "C224", Words(*doubt))
        yield replace(doubted, severity=Severity.WARNING)


def address_names_a_server(view: View, connector: Resource[Connector]) -> Iterator[Problem]:
    """A remote server's address names a host that can be reached."""
    if connector.spec.url is None:
        return
    try:
        hosts.of_address(connector.spec.url)
    except ValueError as fault:
        what = f"{quoted(connector.spec.url)} is no address that can be reached"
        mend = "write an address like 'https://mcp.example.com/mcp'"
        yield problem(connector, ("url",), "C235", Words(what, str(fault), mend))


def something_is_implemented(view: View, connector: Resource[Connector]) -> Iterator[Problem]:
    """A connector fulfils an interface; only a wrapped MCP server may wait for one."""
    if connector.spec.implements or runtime(connector) in _WRAPS:
        return
    words = Words(
        "implements is empty",
        "an agent reaches a connector by an interface alone",
        'write implements = ["ocr/v1"], with the version that it fulfils',
    )
    yield problem(connector, ("implements",), "C216", words)


def runtime_is_told(view: View, connector: Resource[Connector]) -> Iterator[Problem]:
    """The key or exactly one entry file says what runs it, and the keys beside it belong to that runtime."""
    runs = runtime(connector)
    spec = connector.spec
    if runs is None:
        both = all(file in inside(connector) for file in _ENTRIES.values())
        words = Words(
            "main.py and main.ts both stand here" if both else "nothing says what runs the connector",
            "the runtime is told by a key, or by the one entry file",
            'write runtime = "python"' if both else "add main.py, or write runtime",
        )
        yield problem(connector, (), "C204", words)
        return
    if (need := _NEEDS.get(runs)) and not getattr(spec, need):
        words = Words(
            f"{quoted(need)} is missing", f"runtime {runs} cannot start without it", f"write {need}"
        )
        yield problem(connector, ("runtime",), "C205", words)
    for key, runtimes in _BELONGS.items():
        if getattr(spec, key) and runs not in runtimes:
            words = Words(
                f"{quoted(key)} says nothing to runtime {runs}",
                f"{quoted(key)} belongs to runtime {listed(runtimes)}",
                f"delete {quoted(key)}",
            )
            yield problem(connector, (key,), "C206", words, on_key=True)


def entry_lies_inside(view: View, connector: Resource[Connector]) -> Iterator[Problem]:
    """The entry is a file of the connector's own folder."""
    runs = runtime(connector)
    if runs not in _ENTRIES:
        return
    file = entry(connector)
    if file in inside(connector):
        return
    outside = file.startswith("/") or ".." in file.split("/")
    near = nearest(file, inside(connector))
    named = bool(connector.spec.entry)
    if named or not near:
        mend = f"write {quoted(near)}" if near else f"add {_ENTRIES[runs]}"
    else:
        mend = f'write entry = "{near}", or add {file}'
    words = Words(
        f"the entry {quoted(file)} {'lies outside the folder' if outside else 'is not in the folder'}",
        "only the connector's own folder is mounted into its sandbox",
        mend,
    )
    path = ("entry",) if named else ("runtime",) if connector.spec.runtime else ()
    yield problem(connector, path, "C207", words)


def requirements_are_hashed(view: View, connector: Resource[Connector]) -> Iterator[Problem]:
    """``requirements.lock``: exact versions with sha256 hashes, and no option that builds or fetches."""
    data = inside(connector).get(LOCK)
    if data is None:
        return
    for number, line in _logical_lines(data.decode(errors="replace")):
        if _REQUIREMENT.fullmatch(line) is None:
            yield Problem(
                code="C209",
                what=f"cannot read {quoted(line)} as a fixed requirement",
                why="what is installed is fixed by version and sha256, and comes as a wheel",
                mend="write NAME==VERSION --hash=sha256:DIGEST, as `pip-compile --generate-hashes` does",
                at=Span(whole_path(connector, LOCK), number, 1),
                about=connector.ref,
            )


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Requirements with their continuation lines joined, by the number of their first line."""
    held, start = "", 0
    for number, raw in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        line = re.sub(r"(^|\s)#.*$", "", raw).strip()
        start = start if held else number
        if line.endswith("\\"):
            held += line[:-1] + " "
            continue
        whole = re.sub(r"\s+", " ", held + line).strip()
        held = ""
        if whole:
            yield start, whole


RULES = (
    implements_what_is_there,
    something_is_implemented,
    runtime_is_told,
    entry_lies_inside,
    requirements_are_hashed,
    egress_names_exact_hosts,
    address_names_a_server,
    *commands.RULES,
    *mappings.RULES,
    *dialects.RULES,
    *slots.RULES,
    *companions.RULES,
)


def implemented(connector: Resource[Connector], interface: str) -> list[InterfaceRef]:
    """The versions of one interface that a connector implements, ascending."""
    versions = map(InterfaceRef.parse, dict.fromkeys(connector.spec.implements))
    return sorted(version for version in versions if version.name == interface)
