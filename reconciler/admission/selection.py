"""What one agent uses of each interface: which binding, which version, which tools; or why it cannot.

The version is the one that the choice names, else the required one, else the only one that the connector
implements; where several remain the agent is asked to say. A draft is never selected (ruling 8), a missing
requirement names the bindings that would fill it, and what this release cannot do is refused where it is
chosen. Used for an agent as it is now, and for the last admitted form of one that is refused.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from reconciler.admission import absent, several
from reconciler.admission.connectors import implemented
from reconciler.admission.view import View, nearest
from reconciler.admission.wiring import (
    Choice,
    Requirement,
    choice_problems,
    choices,
    connector_of,
    requirement_problems,
    requirements,
    waits,
)
from reconciler.model.inventory import Resource
from reconciler.model.names import InterfaceRef, Kind, ObjectRef
from reconciler.model.problems import Path, Problem, Span, listed, quoted
from reconciler.model.resources import Agent, Binding, Connector, Interface, Project, Record

_WAITS = "A221"


@dataclass(frozen=True, slots=True)
class Selected:
    """One interface that an agent uses: what answers it, what of it is granted, and which key won."""

    interface: InterfaceRef
    binding: str
    tools: tuple[str, ...] | None  # granted tools; None: all of the interface
    max_calls: int | None  # a session, on top of the interface's own limit
    file: str
    path: Path
    others: tuple["Selected", ...] = ()  # of language models: the same of further bindings, in order

    @property
    def each(self) -> tuple["Selected", ...]:
        """It, and the further ones."""
        return (self, *self.others)


class Selections:
    """The services of one agent, judged: ``problems`` of them, and what is ``selected`` nevertheless."""

    __slots__ = ("_about", "_agent", "_required", "_view", "problems", "selected")

    def __init__(self, view: View, agent: Resource[Agent], project: Resource[Project] | None) -> None:
        self._view = view
        self._agent = agent
        self._about = agent.ref
        shared = requirements(project) if project else []
        wanted = shared + requirements(agent)
        self._required: Mapping[str, Requirement] = {one.version.name: one for one in reversed(wanted)}
        effective = {**(choices(project) if project else {}), **choices(agent)}
        doubtful = requirement_problems(view, wanted, agent.ref)
        # A project's own faults are told there, once.
        problems = [problem for problem in doubtful if problem.at.file == agent.file]
        selected: list[Selected] = []
        for name in sorted(effective):
            found, one = self._judged(effective[name])
            clash = list(self._clashes(selected, one)) if one else []
            problems += found + clash
            if one and not clash:
                selected.append(one)
        problems += [
            problem
            for name, one in self._required.items()
            if name not in effective and (problem := self._missing(one))
        ]
        self.problems: tuple[Problem, ...] = tuple(problems)
        self.selected: tuple[Selected, ...] = tuple(selected)

    def _judged(self, choice: Choice) -> tuple[list[Problem], Selected | None]:
        """The problems of one choice, and what it selects all the same: for an agent that keeps an old form.

        A draft can still be routed; what cannot be served, and a binding that is gone, keep a closed place.
        """
        found = list(choice_problems(self._view, choice, self._about))
        binding = self._view.binding(choice.bindings[0])
        if found or binding is None:
            return found, self._in_its_place(choice)
        connector = connector_of(self._view, binding)
        if connector is None:  # the binding is kept in its last form, and its connector is gone
            return [waits(_WAITS, binding.ref, Span(choice.where.file), choice.path, self._about)], None
        version = self._version(choice, connector)
        if isinstance(version, Problem):
            return [version], None
        return self._granted(choice, version, (connector, binding))

    def _granted(
        self, choice: Choice, version: InterfaceRef, behind: tuple[Resource[Connector], Resource[Binding]]
    ) -> tuple[list[Problem], Selected | None]:
        """What is granted of a version, when it is there, published, and can be served."""
        interface = self._view.interface(str(version))
        if interface is None:
            ref = ObjectRef(Kind.INTERFACE, str(version))
            return [waits(_WAITS, ref, Span(choice.where.file), choice.path, self._about)], None
        if found := list(self._unfit_tools(choice, version)):
            return found, None
        found = [*self._unbuilt(choice, (interface, *behind)), *self._draft(choice, interface)]
        found += several.problems(self._view, choice, version, self._about)
        return found, _selected(choice, version)

    def _in_its_place(self, choice: Choice) -> Selected | None:
        """For a binding that cannot answer: its place is known when the version is, and is kept, closed."""
        required = self._required.get(choice.interface)
        version = InterfaceRef(choice.interface, choice.version) if choice.version else None
        version = version or (required.version if required else None)
        return _selected(choice, version) if version and self._view.interface(str(version)) else None

    def _version(self, choice: Choice, connector: Resource[Connector]) -> InterfaceRef | Problem:
        """The version that a choice means, or the problem that asks for it."""
        offered = implemented(connector, choice.interface)
        required = self._required.get(choice.interface)
        named = InterfaceRef(choice.interface, choice.version) if choice.version else None
        if named and required and named != required.version:
            return self._at_version(
                choice,
                f"{named} is selected and {required.version} is required",
                f"write version = {required.version.version}",
            )
        wanted = named or (required.version if required else None)
        if wanted is None:
            return offered[0] if len(offered) == 1 else self._ask(choice, offered)
        if wanted in offered:
            return wanted
        others = self._candidates(wanted)
        return Problem(
            code="A206",
            what=f"binding {quoted(choice.bindings[0])} does not offer {wanted}",
            why=f"{connector.ref} implements {listed(map(str, offered))}"
            + (f", and {required.path[0]} of {required.where.file} asks for {wanted}" if required else ""),
            mend=f"write {quoted(others[0])}" if others else f"add a binding that offers {wanted}",
            at=Span(choice.where.file),
            path=choice.path,
            about=self._about,
            reason="UnresolvedReference",
            candidates=others,
        )

    def _at_version(self, choice: Choice, what: str, mend: str) -> Problem:
        return Problem(
            code="A222",
            what=what,
            why="an agent uses exactly one version of each interface",
            mend=mend,
            at=Span(choice.where.file),
            path=("services", choice.interface, "version"),
            about=self._about,
        )

    def _ask(self, choice: Choice, offered: list[InterfaceRef]) -> Problem:
        name = choice.bindings[0]
        return Problem(
            code="A205",
            what=f"which version of {quoted(choice.interface)} is used is not said",
            why=f"binding {quoted(name)} offers {' and '.join(map(str, offered))}",
            mend=f'write {choice.interface} = {{ binding = "{name}", version = {offered[-1].version} }}',
            at=Span(choice.where.file),
            path=choice.path,
            about=self._about,
            candidates=tuple(map(str, offered)),
        )

    def _unfit_tools(self, choice: Choice, version: InterfaceRef) -> Iterator[Problem]:
        contract = self._view.contract(version)
        for index, tool in enumerate(choice.tools or ()):
            if contract is None or tool in contract.tools:
                continue
            near = nearest(tool, contract.tools)
            yield Problem(
                code="A207",
                what=f"{quoted(tool)} is not a tool of {version}",
                why="only what an interface has can be granted",
                mend=f"write {quoted(near)}"
                if near
                else f"write one of {', '.join(map(quoted, contract.tools))}",
                at=Span(choice.where.file),
                path=("services", choice.interface, "tools", index),
                about=self._about,
                candidates=tuple(contract.tools),
            )

    def _unbuilt(
        self, choice: Choice, rests_on: tuple[Resource[Interface], Resource[Connector], Resource[Binding]]
    ) -> Iterator[Problem]:
        """The first of what a choice rests on that this release cannot serve."""
        interface = rests_on[0]
        if jobs := absent.jobless(interface, rests_on[1], choice.tools):
            yield self._not_built(choice, interface.ref, (jobs, ()), self._fewer(choice, interface))
            return
        for resource in rests_on:
            shared = absent.stateless(interface, rests_on[1]) if resource is interface else ()
            if words := shared or _needed(self._view, resource):
                others = self._candidates(InterfaceRef.parse(interface.ref.name))
                yield self._not_built(choice, resource.ref, (words, others))
                return

    def _fewer(self, choice: Choice, interface: Resource[Interface]) -> str:
        """The selection that leaves out what is not built, as an edit; "" where nothing would remain."""
        served = [
            name for name in absent.served_tools(interface) if choice.tools is None or name in choice.tools
        ] or absent.served_tools(interface)
        if not served:
            return ""
        tools = ", ".join(f'"{name}"' for name in served)
        version = f"version = {choice.version}, " if choice.version else ""
        words = f'binding = "{choice.bindings[0]}", {version}tools = [{tools}]'
        return f"write {choice.interface} = {{ {words} }}"

    def _not_built(
        self, choice: Choice, ref: ObjectRef, said: tuple[tuple[str, ...], tuple[str, ...]], mend: str = ""
    ) -> Problem:
        words, others = said
        mend = mend or (f"write {quoted(others[0])}" if others else "wait for a release that does it")
        return Problem(
            code="A223",
            what=f"{ref} cannot be served: {listed(words)} is not built in this release",
            why="serving without it would give the agent something else than was asked for",
            mend=mend,
            at=Span(choice.where.file),
            path=choice.path,
            about=self._about,
            reason="NotBuilt",
            candidates=others,
        )

    def _draft(self, choice: Choice, interface: Resource[Interface]) -> Iterator[Problem]:
        version = interface.ref.name
        if self._view.locked(interface.layer, version) is not None:
            return
        unread = self._view.lock_is_unread(interface.layer)
        yield Problem(
            code="A224" if unread else "A208",
            what="waits for handler.lock"
            if unread
            else f"{version} is a draft: handler.lock does not list it",
            why="an agent relies on a version that can no longer change",
            mend="mend handler.lock first"
            if unread
            else f"run `handler lock add {version}` once it is reviewed",
            at=Span(choice.where.file),
            path=choice.path,
            about=self._about,
            reason="WaitsFor" if unread else "UnresolvedReference",
        )

    def _clashes(self, before: list[Selected], new: Selected) -> Iterator[Problem]:
        """S5: full tool names are unique within an agent."""
        mine = self._tools(new)
        for other in before:
            if both := sorted(mine & self._tools(other)):
                yield Problem(
                    code="A214",
                    what=f"{new.interface} and {other.interface} both have a tool {quoted(both[0])}",
                    why="a tool is called by its name, so an agent has each name once",
                    mend=f"grant other tools of {quoted(new.interface.name)} with tools = [...]",
                    at=Span(new.file),
                    path=new.path,
                    about=self._about,
                )

    def _tools(self, selected: Selected) -> frozenset[str]:
        contract = self._view.contract(selected.interface)
        return frozenset(selected.tools if selected.tools is not None else contract.tools if contract else ())

    def _missing(self, required: Requirement) -> Problem | None:
        """The refusal that names the interface, why, the candidates and the command that mends it."""
        version, name = required.version, required.version.name
        if self._view.interface(str(version)) is None:
            if required.where is self._agent:
                return None  # told already: it does not exist, or is refused
            ref = ObjectRef(Kind.INTERFACE, str(version))
            return waits(_WAITS, ref, Span(required.where.file), required.path, self._about)
        candidates = self._candidates(version)
        return Problem(
            code="A203",
            what=f"needs {version}, and nothing is bound to {quoted(name)}",
            why="each required interface has a binding before a session starts",
            mend=self._bind(name, candidates[0]) if candidates else self._provide(version),
            at=Span(required.where.file),
            path=required.path,
            about=self._about,
            reason="MissingRequirement",
            candidates=candidates,
        )

    def _bind(self, interface: str, binding: str) -> str:
        pair = f'{interface} = "{binding}"'
        edit = f"add {pair} to services" if self._agent.spec.services else f"write services = {{ {pair} }}"
        return f"{edit}, or run `handler rebind {self._about.name} {interface} {binding}`"

    def _provide(self, version: InterfaceRef) -> str:
        offered = self._view.offered_by(version)
        if not offered:
            return f"add a connector that implements {version}, and a binding of it"
        text = f'apiVersion = "handler.binding/v1" and connector = "{offered[0]}"'
        return f"write bindings/{offered[0]}.toml with {text}, and select it"

    def _candidates(self, version: InterfaceRef) -> tuple[str, ...]:
        """The bindings that would serve a version in this release, sorted; worked out once a view."""
        bound = self._view.bound_to(version)
        if version not in self._view.servable:
            found = tuple(name for name in bound if _can_serve(self._view, name))
            self._view.servable[version] = found
        return self._view.servable[version]


def _selected(choice: Choice, version: InterfaceRef) -> Selected:
    first, *others = (
        Selected(version, name, choice.tools, choice.max_calls, choice.where.file, path)
        for name, path in several.places(choice)
    )
    return replace(first, others=tuple(others)) if others else first


def _can_serve(view: View, name: str) -> bool:
    binding = view.in_force[ObjectRef(Kind.BINDING, name)]
    connector = view.in_force[ObjectRef(Kind.CONNECTOR, getattr(binding.spec, "connector", ""))]
    return not (_needed(view, binding) or _needed(view, connector))


def _needed(view: View, resource: Resource[Record]) -> tuple[str, ...]:
    """What an object in force cannot do without, worked out once a view: thousands may rest on one."""
    known = view.needed.get(resource.ref)
    if known is None:
        known = view.needed[resource.ref] = absent.needed(resource)
    return known
