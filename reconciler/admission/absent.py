"""What the formats name and this release does not do: said in a condition wherever it is used.

A key whose capability is not built is accepted, so that a file written for a later release stays valid,
and is never silently ignored. Two sorts are kept apart. A key of the first has no effect yet, and what is
served without it is right. Without one of the second, serving would be wrong (a grant wider than asked, a
secret that is not there, an effect without a ledger): whatever rests on such an object is refused with reason
``NotBuilt``. Of an interface with jobs that a connector cannot do, an agent is served the rest when it
selects that alone. When a capability is built, its row is deleted here.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import orjson

from reconciler.admission import connectors
from reconciler.admission.view import inside
from reconciler.model.inventory import Layer, Resource
from reconciler.model.jobs import companions
from reconciler.model.names import Kind
from reconciler.model.problems import Path, Problem, Severity, Span
from reconciler.model.resources import Binding, Config, Connector, Interface, Record

_CODES = {
    Kind.INTERFACE: "I290",
    Kind.CONNECTOR: "C290",
    Kind.BINDING: "B290",
    Kind.AGENT: "A290",
    Kind.CONFIG: "S290",
}
_BUILT_RUNTIMES = ("python", "command", "mcp", "deno", "image", "remote", "attached", "builtin", "dialect")
_ONLY_REACHED = ("attached", "remote")


@dataclass(frozen=True, slots=True)
class Absence:
    """A key that is used and whose capability is not built; ``needed`` when serving without it is wrong."""

    path: Path
    needed: bool

    @property
    def word(self) -> str:
        """The key as people write it: ``secrets.api_key``."""
        return ".".join(map(str, self.path))


def absences(resource: Resource[Record]) -> tuple[Absence, ...]:
    """Every such key of one object, in a fixed order; ``()`` for most."""
    found: Iterator[Absence] = iter(())
    match resource.spec:
        case Connector():
            found = _of_connector(resource)  # type: ignore[arg-type]
        case Binding():
            found = _of_binding(resource.spec)
        case Config():
            found = _of_config(resource.spec)
        case _:
            pass
    return tuple(found)


def needed(resource: Resource[Record]) -> tuple[str, ...]:
    """The keys without which serving the object would be wrong."""
    return tuple(absence.word for absence in absences(resource) if absence.needed)


def jobless(
    interface: Resource[Interface], connector: Resource[Connector], tools: Collection[str] | None
) -> tuple[str, ...]:
    """The jobs of a version that nobody would do, by the keys that make them jobs: a connector that is only
    reached has no process of ours to do one by, and what keeps state for a session ends with it, and a job
    does not. Of these of its tools alone; None: all.
    """
    runs, keeps = connectors.runtime(connector), interface.spec.state == "session"
    if runs not in _ONLY_REACHED and not keeps:
        return ()
    because = "with the state of a session" if keeps else f"by the runtime {runs}"
    jobs = (
        name for name in interface.spec.operations if tools is None or not _rest_on(name).isdisjoint(tools)
    )
    return tuple(
        f"operations.{name}.kind {because}" for name in jobs if interface.spec.operations[name].kind == "job"
    )


def stateless(interface: Resource[Interface], connector: Resource[Connector]) -> tuple[str, ...]:
    """The key that asks for state of a session where one process of somebody else's answers them all."""
    is_shared = connectors.runtime(connector) == "attached" and interface.spec.state == "session"
    return ("state by the runtime attached",) if is_shared else ()


def served_tools(interface: Resource[Interface]) -> tuple[str, ...]:
    """The tools of a version that are no jobs and ask about none, in its order."""
    of_jobs = {
        tool
        for name, operation in interface.spec.operations.items()
        if operation.kind == "job"
        for tool in _rest_on(name)
    }
    try:
        tools = orjson.loads(inside(interface).get("tools.json", b""))
        return tuple(name for tool in tools if (name := str(tool["name"])) not in of_jobs)
    except (ValueError, TypeError, KeyError):
        return ()  # told where the file is judged


def lacking(form: Resource[Record], below: Resource[Record] | None) -> tuple[tuple[str, ...], bool]:
    """What an object uses that is not built, as a condition says it, and whether it is unusable for that.

    ``below`` is a binding's connector: what that cannot do without, the binding cannot either.
    """
    own = absences(form)
    missing = needed(below) if below else ()
    words = [absence.word for absence in own]
    if below is not None:
        words += [f"{word} of {below.ref.name}" for word in missing]
    return tuple(words), bool(missing) or any(absence.needed for absence in own)


def warnings(resource: Resource[Record]) -> Iterator[Problem]:
    """One warning for each such key of a configuration's own file (what ships is known to its readers)."""
    if resource.layer is not Layer.CONFIG:
        return
    for absence in absences(resource):
        yield Problem(
            code=_CODES[resource.ref.kind],
            what=f"'{absence.word}' is not built in this release",
            why="whatever rests on it is refused until it is" if absence.needed else "it has no effect yet",
            mend="leave it for a later release, or delete it",
            at=Span(resource.file),
            path=absence.path,
            severity=Severity.WARNING,
            about=resource.ref,
            reason="NotBuilt",
        )


def _rest_on(job: str) -> set[str]:
    """The tools that a job takes with it: its own, and what asks about it."""
    return {job, *companions(job).values()}


def _of_connector(resource: Resource[Connector]) -> Iterator[Absence]:
    spec = resource.spec
    runs = connectors.runtime(resource)
    if runs is not None and runs not in _BUILT_RUNTIMES:
        yield Absence(("runtime",), needed=True)
    if spec.sandbox.gpu:
        yield Absence(("sandbox", "gpu"), needed=True)
    if spec.reserve.gpu:
        yield Absence(("reserve",), needed=False)


def _of_binding(spec: Binding) -> Iterator[Absence]:
    if spec.addon is not None:
        yield Absence(("addon",), needed=True)


def _of_config(spec: Config) -> Iterator[Absence]:
    if spec.capacity.gpu:
        yield Absence(("capacity", "gpu"), needed=False)
