"""The blast radius of an edit: what would be added, changed, removed or refused, and whom it reaches.

Drawn from two admissions, whole or not at all: every object that differs has its line, every key that
changed is shown before and after, and an instance, a route, an open session that is touched is named where
it is touched. A secret is shown as the form of its reference and a fingerprint of it, never as a value.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from reconciler.admission.admit import Admission
from reconciler.admission.view import inside
from reconciler.model.inventory import Layer, Resource
from reconciler.model.names import InstanceName, Kind, ObjectRef
from reconciler.model.problems import quoted
from reconciler.model.recipes import Recipe, SecretUse
from reconciler.model.resources import Binding, Record
from reconciler.model.routes import AgentRoutes, Route
from reconciler.plan.desired import Desired, desire

_FINGERPRINT = 8  # hex digits: enough to see that a reference changed
_MANY = 6  # names in one line; the rest is counted

Verb = Literal["add", "change", "remove", "refuse"]
Resources = Mapping[ObjectRef, Resource[Record]]


@dataclass(frozen=True, slots=True)
class Held:
    """An open session as the blast radius sees it: whose it is, and the instances it is pinned to."""

    agent: str
    instances: Collection[InstanceName]


@dataclass(frozen=True, slots=True)
class Change:
    """One object that differs. ``sessions`` counts the open ones that stay on what serves them now,
    ``agents`` names those whose next session gets something else.
    """

    verb: Verb
    object: str
    lines: tuple[str, ...]
    sessions: int = 0
    agents: tuple[str, ...] = ()


def as_json(change: Change) -> dict[str, Any]:
    """A change as the control socket and ``-o json`` have it."""
    return {
        "verb": change.verb,
        "object": change.object,
        "lines": list(change.lines),
        "sessions": change.sessions,
        "agents": list(change.agents),
    }


def impact(
    before: Admission | None,
    after: Admission,
    sessions: Iterable[Held] = (),
    *,
    kit: str = "",
    home: str = "",
) -> tuple[Change, ...]:
    """Every object that differs between two admissions, sorted by kind and name; () when nothing would
    change.

    ``kit`` and ``home`` are what ``desire`` is given; with another kit the digests shown are not those that
    run.
    """
    return tuple(_Radius(before, after, tuple(sessions), kit=kit, home=home).changes())


class _Radius:
    """Two admissions side by side, with what each would run."""

    def __init__(
        self, before: Admission | None, after: Admission, sessions: tuple[Held, ...], *, kit: str, home: str
    ) -> None:
        self._before, self._after, self._sessions = before, after, sessions
        self._old = desire(before, generation=0, kit=kit, home=home) if before else None
        self._new = desire(after, generation=1, kit=kit, home=home, previous=self._old)
        self._was: Resources = before.in_force if before else {}
        self._names = (_by_binding(self._old), _by_binding(self._new))
        self._moved = self._moved_agents()
        self._users = self._users_of_what_they_use()

    def changes(self) -> Iterator[Change]:
        """The changes, sorted by object."""
        for ref in sorted(self._touched()):
            if change := self._change(ref):
                yield change

    def _touched(self) -> set[ObjectRef]:
        now = self._after.in_force
        found = {ref for ref in self._was.keys() | now.keys() if self._was.get(ref) is not now.get(ref)}
        found |= self._after.refused.keys()
        old, new = self._names
        found |= {
            ObjectRef(Kind.BINDING, name)
            for name in old.keys() | new.keys()
            if old.get(name) != new.get(name)
        }
        return found | {ObjectRef(Kind.AGENT, name) for name in self._moved}

    def _moved_agents(self) -> dict[str, tuple[AgentRoutes, ...]]:
        """The agents whose next session gets something else, with their routes before and after."""
        old: Mapping[str, AgentRoutes] = self._old.table.agents if self._old else {}
        new = self._new.table.agents
        names = (name for name in old.keys() | new.keys() if old.get(name) is not new.get(name))
        return {name: tuple(one[name] for one in (old, new) if name in one) for name in names}

    def _users_of_what_they_use(self) -> dict[ObjectRef, set[str]]:
        found: dict[ObjectRef, set[str]] = {}
        for name, tables in self._moved.items():
            for ref in {ref for routes in tables for ref in self._used(routes)}:
                found.setdefault(ref, set()).add(name)
        return found

    def _used(self, routes: AgentRoutes) -> Iterator[ObjectRef]:
        agent = ObjectRef(Kind.AGENT, routes.agent)
        yield agent
        for resources in (self._was, self._after.in_force):
            if project := getattr(resources[agent].spec, "project", None) if agent in resources else None:
                yield ObjectRef(Kind.PROJECT, project)
        for route in routes.routes.values():
            yield ObjectRef(Kind.BINDING, route.binding)
            yield ObjectRef(Kind.INTERFACE, str(route.interface))
            if connector := self._connector(route.binding):
                yield ObjectRef(Kind.CONNECTOR, connector)

    def _change(self, ref: ObjectRef) -> Change | None:
        was, now = self._was.get(ref), self._after.in_force.get(ref)
        lines = list(_differences(was, now))
        match ref.kind:
            case Kind.BINDING:
                lines += self._instance_lines(ref.name)
            case Kind.AGENT:
                lines += self._route_lines(ref.name)
            case _:
                pass
        if problems := self._after.refused.get(ref):
            lines = [
                f"{problem.at}: {problem.code}: {problem.what}; {problem.mend}" for problem in problems
            ] + lines
            lines.append("the last admitted form stays in force" if now else "nothing of it is in force")
            return self._told("refuse", ref, lines)
        if was is None and now is not None:
            return self._told("add", ref, lines) if self._shown(now) else None
        if now is None:
            return self._told("remove", ref, lines) if was and self._shown(was) else None
        return self._told("change", ref, lines) if lines else None

    def _shown(self, resource: Resource[Record]) -> bool:
        """What ships with the product comes and goes unsaid, unless it changes under a configuration."""
        return resource.layer is Layer.CONFIG

    def _told(self, verb: Verb, ref: ObjectRef, lines: list[str]) -> Change:
        agents = tuple(sorted(self._users.get(ref, ())))
        return Change(verb, str(ref), tuple(lines), self._staying(ref), agents)

    def _instance_lines(self, binding: str) -> Iterator[str]:
        old, new = self._names[0].get(binding), self._names[1].get(binding)
        if old is None or new is None or old == new:
            return
        yield f"new instance: {old} → {new}"
        yield from _recipe_lines(self._recipe(self._old, old), self._recipe(self._new, new))
        if staying := self._staying(ObjectRef(Kind.BINDING, binding)):
            yield f"{_sessions(staying)} on {old} until {'it ends' if staying == 1 else 'they end'}"

    def _recipe(self, desired: Desired | None, name: InstanceName) -> Recipe | None:
        return desired.recipes.get(name) if desired else None

    def _route_lines(self, agent: str) -> Iterator[str]:
        old = self._old.table.agents.get(agent) if self._old else None
        new = self._new.table.agents.get(agent)
        if old is new:
            return
        if new is None:
            yield "opens no session any more"
            return
        if old is None:
            yield "opens sessions"
        for name in sorted((old.routes.keys() if old else set()) | new.routes.keys()):
            yield from _route_line(name, old.routes.get(name) if old else None, new.routes.get(name))
        yield from self._reach_lines(old, new)
        if old and (staying := self._staying(ObjectRef(Kind.AGENT, agent))):
            yield f"next session; {_sessions(staying)} as {'it is' if staying == 1 else 'they are'}"

    def _reach_lines(self, old: AgentRoutes | None, new: AgentRoutes) -> Iterator[str]:
        """What the agent's services may reach, and which secrets they hold, before and after."""
        for word, of in (("egress", _egress), ("secrets", _fingerprints)):
            was = {one for recipe in self._recipes(self._old, old) for one in of(recipe)}
            now = {one for recipe in self._recipes(self._new, new) for one in of(recipe)}
            yield from (f"{word}: - {one}" for one in sorted(was - now))
            yield from (f"{word}: + {one}" for one in sorted(now - was))

    def _recipes(self, desired: Desired | None, routes: AgentRoutes | None) -> Iterator[Recipe]:
        for route in routes.routes.values() if routes else ():
            if recipe := self._recipe(desired, route.instance):
                yield recipe

    def _connector(self, binding: str) -> str | None:
        ref = ObjectRef(Kind.BINDING, binding)
        resource = self._after.in_force.get(ref) or self._was.get(ref)
        return resource.spec.connector if resource and isinstance(resource.spec, Binding) else None

    def _staying(self, ref: ObjectRef) -> int:
        """How many open sessions go on with what they were opened with, though the next ones get something
        else.
        """
        if ref.kind is Kind.AGENT:
            return sum(session.agent == ref.name for session in self._sessions)
        if ref.kind is Kind.BINDING:
            now = self._names[1].get(ref.name)
            return sum(
                any(name.binding == ref.name and name != now for name in session.instances)
                for session in self._sessions
            )
        return 0


def _by_binding(desired: Desired | None) -> dict[str, InstanceName]:
    return {name.binding: name for name in desired.recipes} if desired else {}


def _sessions(count: int) -> str:
    return f"{count} session stays" if count == 1 else f"{count} sessions stay"


def _route_line(name: str, old: Route | None, new: Route | None) -> Iterator[str]:
    if new is None or old is None:
        yield f"services.{name}: {_answered_by(old)} → {_answered_by(new)}"
        return
    if (old.binding, old.interface) != (new.binding, new.interface):
        yield f"services.{name}: {_answered_by(old)} → {_answered_by(new)}"
    elif old.instance != new.instance:
        yield f"services.{name}: {old.instance} → {new.instance}"
    if old.tools != new.tools or old.max_calls != new.max_calls:
        yield f"services.{name}: other tools or limits are granted"
    if old.suspended != new.suspended:
        why = f"unavailable, {new.suspended}" if new.suspended else "answers again"
        yield f"services.{name}: {why}"


def _answered_by(route: Route | None) -> str:
    return f"{route.binding} ({route.interface})" if route else "nothing"


def _egress(recipe: Recipe) -> tuple[str, ...]:
    return recipe.egress


def _fingerprints(recipe: Recipe) -> tuple[str, ...]:
    return tuple(_fingerprint(use) for use in recipe.secrets)


def _fingerprint(use: SecretUse) -> str:
    words = "\0".join((use.form, *use.reference))
    return f"{use.slot} ({use.form} {hashlib.sha256(words.encode()).hexdigest()[:_FINGERPRINT]})"


def _recipe_lines(old: Recipe | None, new: Recipe | None) -> Iterator[str]:
    """What reaches a running connector and no key of its binding's file shows: its code, its reach, its
    walls.
    """
    if old is None or new is None:
        return
    if old.code != new.code:
        yield f"connector {new.connector}: {old.code[:12]} → {new.code[:12]}"
    if old.kit != new.kit:
        yield "connector kit: another release"
    for word, was, now in (
        ("egress", set(old.egress), set(new.egress)),
        ("secrets", set(_fingerprints(old)), set(_fingerprints(new))),
        ("programs", set(old.sandbox.programs), set(new.sandbox.programs)),
        ("read", set(old.sandbox.read), set(new.sandbox.read)),
    ):
        yield from (f"{word}: - {one}" for one in sorted(was - now))
        yield from (f"{word}: + {one}" for one in sorted(now - was))


def _differences(was: Resource[Record] | None, now: Resource[Record] | None) -> Iterator[str]:
    """Each key that is not as it was, before → after; then the files of the folder that changed."""
    if was is now or was is None or now is None or was.digest == now.digest:
        return
    old, new = _flat(was.spec), _flat(now.spec)
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            yield f"{key}: {_shown_value(key, old.get(key))} → {_shown_value(key, new.get(key))}"
    if len(was.files) > 1 or len(now.files) > 1:
        yield from _file_lines(inside(was), inside(now))


def _file_lines(old: Mapping[str, bytes], new: Mapping[str, bytes]) -> Iterator[str]:
    changed = sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))
    if changed:
        more = f" and {len(changed) - _MANY} more" if len(changed) > _MANY else ""
        yield f"files: {', '.join(changed[:_MANY])}{more}"


def _flat(spec: Record) -> dict[str, object]:
    """Every key of a spec that is set, as people write it (``settings.model``), defaults left out."""
    found: dict[str, object] = {}
    _flatten(spec.model_dump(by_alias=True, exclude_defaults=True), "", found)
    return found


def _flatten(value: object, key: str, found: dict[str, object]) -> None:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            _flatten(inner, f"{key}.{name}" if key else str(name), found)
    elif key:
        found[key] = value


def _shown_value(key: str, value: object) -> str:
    if value is None:
        return "(default)" if not key.startswith(("services.", "secrets.", "settings.")) else "nothing"
    if key.startswith("secrets."):
        return hashlib.sha256(repr(value).encode()).hexdigest()[:_FINGERPRINT]
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_shown_value("", one) for one in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_shown_value('', one)}" for name, one in value.items()) + "}"
    return quoted(value) if isinstance(value, str) else str(value)
