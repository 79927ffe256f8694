"""Services: which binding stands behind which interface, for a project's defaults and for an agent (G3).

An agent's own choice hides its project's default for the same interface. A choice is judged twice: where it
is written (the binding exists and offers the interface at all) and where it is used (an agent's requirements
decide the version). Only the second makes a ``Selected``. One cause is one problem: what rests on a refused
object says that it waits for it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from reconciler.admission.connectors import implemented
from reconciler.admission.view import View, nearest
from reconciler.model.inventory import Resource
from reconciler.model.names import InterfaceRef, Kind, ObjectRef
from reconciler.model.problems import Path, Problem, Span, listed, quoted
from reconciler.model.resources import Agent, Binding, Connector, Project, Selection

SEVERAL = "llm"  # the one interface that may list several bindings (ruling 13)
# The same fault has a code of its own in each of the two kinds.
_PROJECT = {
    "unknown": "P201",
    "waits": "P202",
    "addon": "P203",
    "other": "P204",
    "several": "P205",
    "version": "P206",
    "versions": "P207",
}
_AGENT = {
    "unknown": "A202",
    "waits": "A217",
    "addon": "A209",
    "other": "A204",
    "several": "A210",
    "version": "A216",
    "versions": "A220",
}


@dataclass(frozen=True, slots=True)
class Choice:
    """One entry of a ``services`` table, short or long form, and where it is written."""

    interface: str
    bindings: tuple[str, ...]
    where: Resource[Project] | Resource[Agent]
    path: Path
    version: int | None = None
    tools: tuple[str, ...] | None = None
    max_calls: int | None = None


@dataclass(frozen=True, slots=True)
class Requirement:
    """One entry of a ``requires`` list, and where it is written."""

    version: InterfaceRef
    where: Resource[Project] | Resource[Agent]
    path: Path


def choices(where: Resource[Project] | Resource[Agent]) -> Mapping[str, Choice]:
    """The ``services`` of one file by interface."""
    found: dict[str, Choice] = {}
    for name, value in where.spec.services.items():
        path: Path = ("services", name)
        match value:
            case Selection():
                names, path = (value.binding,), (*path, "binding")
                found[name] = Choice(name, names, where, path, value.version, value.tools, value.max_calls)
            case str():
                found[name] = Choice(name, (value,), where, path)
            case _:
                found[name] = Choice(name, value, where, path)
    return found


def requirements(where: Resource[Project] | Resource[Agent]) -> list[Requirement]:
    """The ``requires`` of one file."""
    return [
        Requirement(InterfaceRef.parse(text), where, ("requires", index))
        for index, text in enumerate(where.spec.requires)
    ]


def choice_problems(view: View, choice: Choice, about: ObjectRef) -> Iterator[Problem]:
    """What is wrong with a choice where it is written, whatever version is wanted; at most one a binding."""
    codes = _PROJECT if about.kind is Kind.PROJECT else _AGENT
    if len(choice.bindings) > 1 and choice.interface != SEVERAL:
        yield Problem(
            code=codes["several"],
            what=f"{quoted(choice.interface)} lists {len(choice.bindings)} bindings",
            why=f"each interface has one binding; {SEVERAL} alone may list several",
            mend=f"write {quoted(choice.bindings[0])}",
            at=Span(choice.where.file),
            path=choice.path,
            about=about,
        )
        return
    for index, name in enumerate(choice.bindings):
        several = isinstance(choice.where.spec.services[choice.interface], tuple)
        path = (*choice.path, index) if several else choice.path
        yield from _binding_problem(view, choice, (name, path), (codes, about))


def _binding_problem(
    view: View, choice: Choice, named: tuple[str, Path], by: tuple[Mapping[str, str], ObjectRef]
) -> Iterator[Problem]:
    (name, path), (codes, about) = named, by
    ref = ObjectRef(Kind.BINDING, name)
    at = Span(choice.where.file)
    binding = view.binding(name)
    if binding is None and view.waits(ref):
        yield waits(codes["waits"], ref, at, path, about)
    elif binding is None:
        near = nearest(name, view.names(Kind.BINDING))
        yield Problem(
            code=codes["unknown"],
            what=f"binding {quoted(name)} for {quoted(choice.interface)} does not exist",
            why="a service is answered by exactly one known binding",
            mend=f"write {quoted(near)}" if near else f"add bindings/{name}.toml",
            at=at,
            path=path,
            about=about,
            reason="UnresolvedReference",
            candidates=(near,) if near else (),
        )
    elif binding.spec.addon is not None:
        yield Problem(
            code=codes["addon"],
            what=f"binding {quoted(name)} is of an addon",
            why="an addon lives inside an agent's sandbox; a service is answered by a connector",
            mend="name a binding of a connector",
            at=at,
            path=path,
            about=about,
        )
    elif (connector := connector_of(view, binding)) and not implemented(connector, choice.interface):
        near = nearest(
            choice.interface, {InterfaceRef.parse(text).name for text in connector.spec.implements}
        )
        yield Problem(
            code=codes["other"],
            what=f"binding {quoted(name)} does not offer {quoted(choice.interface)}",
            why=f"{connector.ref} implements {listed(connector.spec.implements)}",
            mend=f"write {quoted(near)} as the key, or name a binding that offers {quoted(choice.interface)}"
            if near
            else f"name a binding that offers {quoted(choice.interface)}",
            at=at,
            path=path,
            about=about,
            reason="UnresolvedReference",
        )


def connector_of(view: View, binding: Resource[Binding]) -> Resource[Connector] | None:
    """The connector in force behind a binding, or None."""
    return view.connector(binding.spec.connector) if binding.spec.connector else None


def waits(code: str, ref: ObjectRef, at: Span, path: Path, about: ObjectRef) -> Problem:  # noqa: PLR0917
    """The one problem of what rests on a refused object."""
    return Problem(
        code=code,
        what=f"waits for {ref}",
        why="what rests on a refused object is not admitted before it",
        mend=f"mend {ref} first",
        at=at,
        path=path,
        about=about,
        reason="WaitsFor",
    )


def services_name_fitting_bindings(view: View, project: Resource[Project]) -> Iterator[Problem]:
    """Each default of a project is a known binding that offers the interface."""
    for choice in choices(project).values():
        yield from choice_problems(view, choice, project.ref)


def requirements_are_there(view: View, project: Resource[Project]) -> Iterator[Problem]:
    """A project requires versions that exist, one of each interface."""
    yield from requirement_problems(view, requirements(project), project.ref)


def requirement_problems(view: View, wanted: list[Requirement], about: ObjectRef) -> Iterator[Problem]:
    """Versions that do not exist or are refused, and two versions of one interface."""
    codes = _PROJECT if about.kind is Kind.PROJECT else _AGENT
    seen: dict[str, Requirement] = {}
    for one in wanted:
        ref = ObjectRef(Kind.INTERFACE, str(one.version))
        other = seen.setdefault(one.version.name, one)
        if view.find(ref) is None and view.waits(ref):
            yield waits(codes["waits"], ref, Span(one.where.file), one.path, about)
        elif view.find(ref) is None:
            near = nearest(str(one.version), view.names(Kind.INTERFACE))
            yield Problem(
                code=codes["version"],
                what=f"interface {quoted(one.version)} does not exist",
                why="only a version that is there can be required",
                mend=f"write {quoted(near)}" if near else f"add interfaces/{one.version}/interface.toml",
                at=Span(one.where.file),
                path=one.path,
                about=about,
                reason="UnresolvedReference",
                candidates=(near,) if near else (),
            )
        elif other.version != one.version:
            yield Problem(
                code=codes["versions"],
                what=f"{one.version} is required beside {other.version}",
                why="an agent uses exactly one version of each interface",
                mend=f"write {quoted(other.version)}",
                at=Span(one.where.file),
                path=one.path,
                about=about,
            )


PROJECT_RULES = (services_name_fitting_bindings, requirements_are_there)
