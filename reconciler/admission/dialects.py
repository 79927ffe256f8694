"""Connectors of runtime ``dialect`` and their bindings: which profile answers a call, and that it can.

Such a connector has no code: each of its tools names an operation of a dialect and the facts that it needs.
Operation and exact model select one profile among those that it lists, so no two may offer the same. Whether
the facts are stated is known once a binding names its models: a binding whose profile does not state one is
refused with the fact's name, before any call.
"""

from collections.abc import Iterator, Mapping

from reconciler.admission.slots import Words, problem
from reconciler.admission.view import View, nearest
from reconciler.model.admitting import NEED, offering, selected, unmet
from reconciler.model.dialect import Profile
from reconciler.model.inventory import Resource
from reconciler.model.names import InterfaceRef, Kind, ObjectRef
from reconciler.model.problems import Path, Problem, Span, listed, quoted
from reconciler.model.resources import Binding, Connector, ToolMapping

RUNTIME = "dialect"
ADDRESS = "baseUrl"  # the setting that names a server whose profile leaves that to the binding


def profiles_are_there(view: View, connector: Resource[Connector]) -> Iterator[Problem]:
    """Each profile that a connector speaks by exists, once; a refused one makes the connector wait."""
    seen: set[str] = set()
    for index, name in enumerate(connector.spec.profiles):
        ref, path = ObjectRef(Kind.PROFILE, name), ("profiles", index)
        if name in seen:
            words = Words(f"{name} stands twice", "each profile is listed once", "delete one")
            yield problem(connector, path, "C250", words)
        elif view.waits(ref):
            yield _unresolved(connector, path, f"waits for {ref}", f"mend {ref} first", reason="WaitsFor")
        elif view.find(ref) is None:
            known = view.names(Kind.PROFILE)
            near = nearest(name, known)
            mend = f"write {quoted(near)}" if near else _new_profile(name)
            yield _unresolved(
                connector, path, f"profile {quoted(name)} does not exist", mend, reason="UnresolvedReference"
            )
        seen.add(name)


def profiles_leave_no_choice(view: View, connector: Resource[Connector]) -> Iterator[Problem]:
    """Operation and exact model select one profile: no two of a connector offer the same."""
    taken: dict[tuple[str, str], str] = {}
    for index, name in enumerate(connector.spec.profiles):
        profile = _profile(view, name)
        if profile is None or name in connector.spec.profiles[:index]:
            continue
        anything = [other for (_, model), other in taken.items() if model == "*"]
        for operation in profile.operations:
            for model in profile.identity.models or ("*",):
                other = taken.get((operation.name, model)) or next(iter(anything), None)
                if other is None and model == "*":
                    other = next((one for (known, _), one in taken.items() if known == operation.name), None)
                if other is not None and other != name:
                    yield _overlap(connector, index, (operation.name, model), other)
                    break
                taken[operation.name, model] = name


def tools_name_operations(view: View, connector: Resource[Connector]) -> Iterator[Problem]:
    """Each tool of each implemented version names an operation that one of the profiles offers."""
    if connector.spec.runtime != RUNTIME:
        return
    profiles = _profiles(view, connector)
    offered = sorted({one.name for profile in profiles for one in profile.operations})
    for name in sorted(_answered(view, connector)):
        mapping = connector.spec.tool.get(name)
        path: Path = ("tool", name) if mapping else ("tool",)
        if mapping is None or mapping.operation is None:
            words = Words(
                f"the tool {quoted(name)} names no operation",
                "a connector answers every tool of a version, and one without code by an operation",
                f"add [tool.{name}] with operation = {quoted(offered[0] if offered else 'complete')}",
            )
            yield problem(connector, path, "C253", words)
        elif offered and mapping.operation not in offered and len(profiles) == len(connector.spec.profiles):
            near = nearest(mapping.operation, offered)
            words = Words(
                f"no profile offers the operation {quoted(mapping.operation)}",
                f"the profiles of the connector offer {listed(offered)}",
                f"write {quoted(near)}" if near else "list a profile that offers it",
            )
            yield problem(connector, (*path, "operation"), "C253", words)


def needs_can_be_read(view: View, connector: Resource[Connector]) -> Iterator[Problem]:
    """A need is a fact's name, with a value where the fact has several."""
    for name, mapping in connector.spec.tool.items():
        for index, need in enumerate(mapping.needs):
            if NEED.fullmatch(need) is None:
                words = Words(
                    f"{quoted(need)} cannot be read as a fact",
                    "a need is FACT, FACT=VALUE, FACT>=VALUE or media.out:TYPE",
                    "write one like 'lookup.by=job-id'",
                )
                yield problem(connector, ("tool", name, "needs", index), "C254", words)


def what_profiles_leave_open_is_declared(view: View, connector: Resource[Connector]) -> Iterator[Problem]:
    """A slot for each secret that a profile sends, and the setting that names a server it leaves open."""
    if connector.spec.runtime != RUNTIME:
        return
    for profile in _profiles(view, connector):
        slot = profile.auth.secret
        if slot is not None and slot not in connector.spec.secret_slots:
            form = (
                f"{profile.auth.header}: Bearer {{}}"
                if profile.auth.scheme == "bearer"
                else profile.auth.header
            )
            words = Words(
                f"the slot {quoted(slot)} is missing",
                f"{profile.ref} sends a secret, and a binding fills the slots that its connector has",
                f"add [secretSlots.{slot}] with header = {quoted(form or 'x-api-key')}",
            )
            yield problem(connector, ("profiles",), "C255", words)
        setting = connector.spec.settings.get(ADDRESS)
        if profile.transport.base == "binding" and (setting is None or setting.format != "url"):
            words = Words(
                f"the setting {quoted(ADDRESS)} is missing",
                f"{profile.ref} leaves the server's address to the binding",
                f'add [settings.{ADDRESS}] with format = "url" and required = true',
            )
            yield problem(connector, ("profiles",), "C256", words)


def models_are_stated(view: View, binding: Resource[Binding]) -> Iterator[Problem]:
    """Each model of a binding is one of its profiles', exactly; where they name none, the binding does."""
    connector = _connector(view, binding)
    if connector is None or connector.spec.runtime != RUNTIME:
        return
    profiles = _profiles(view, connector)
    if not profiles or len(profiles) != len(connector.spec.profiles):
        return
    union = list(dict.fromkeys(model for one in profiles for model in one.identity.models))
    is_open = any(not one.identity.models for one in profiles)
    if is_open and not union and not binding.spec.models and _takes_model(view, connector):
        words = Words(
            "no model is named",
            f"the profiles of {connector.ref} leave the models to the binding, and none is guessed",
            'write models = ["…"], with the exact ids that may be asked for',
        )
        yield _of_binding(binding, "B221", words, ())
    for index, model in enumerate(binding.spec.models if not is_open else ()):
        if model not in union:
            near = nearest(model, union)
            words = Words(
                f"no profile of {connector.ref} states the model {quoted(model)}",
                f"models are exact, and those are {listed(union)}",
                f"write {quoted(near)}" if near else f"delete {quoted(model)}, or list a profile that has it",
            )
            yield _of_binding(binding, "B220", words, ("models", index))


def needs_are_stated(view: View, binding: Resource[Binding]) -> Iterator[Problem]:
    """What each tool needs is stated by the profile of each model that the binding may be asked for."""
    connector = _connector(view, binding)
    if connector is None or connector.spec.runtime != RUNTIME:
        return
    profiles = _profiles(view, connector)
    if len(profiles) != len(connector.spec.profiles):
        return
    told: set[tuple[str, str]] = set()
    for name in sorted(_answered(view, connector)):
        mapping = connector.spec.tool.get(name)
        if mapping is None or mapping.operation is None or not offering(profiles, mapping.operation):
            continue  # told of the connector
        for fact, detail in _lacking(profiles, mapping, binding.spec.models):
            if (name, fact) not in told:
                told.add((name, fact))
                words = Words(
                    f"{name} needs {fact}: {detail}",
                    "what a profile does not state is not supported",
                    f"use a connector whose profile states {fact}, or another model",
                )
                path: Path = ("models",) if binding.spec.models else ("connector",)
                yield _of_binding(binding, "B222", words, path, reason="UnsupportedFact")


RULES = (
    profiles_are_there,
    profiles_leave_no_choice,
    tools_name_operations,
    needs_can_be_read,
    what_profiles_leave_open_is_declared,
)
BINDING_RULES = (models_are_stated, needs_are_stated)


def _lacking(
    profiles: list[Profile], mapping: ToolMapping, models: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """What of a tool's needs some profile that would answer it does not state. A model that another operation
    is asked with is none of this one's.
    """
    operation = mapping.operation or ""
    known = {model for one in profiles for model in one.identity.models}
    if all(one.identity.models for one in profiles) and not known.issuperset(models):
        return  # told as a model that nobody states
    asked = models or tuple(m for one in offering(profiles, operation) for m in one.identity.models) or ("",)
    answering = (selected(profiles, operation, model) for model in asked)
    found = {one.ref: one for one in answering if one is not None}
    if not found:
        yield f"operation.{operation}", f"no profile states it for {listed(map(quoted, models))}"
    for name, profile in found.items():
        for one in unmet(profile, operation, mapping.needs):
            yield one.fact, f"{name}: {one.detail}"


def _answered(view: View, connector: Resource[Connector]) -> Mapping[str, str]:
    """The tools that the connector itself answers, and how each is driven: not a job's companions."""
    found: dict[str, str] = {}
    for version in dict.fromkeys(connector.spec.implements):
        contract = view.contract(InterfaceRef.parse(version))
        for name, tool in contract.tools.items() if contract is not None else ():
            found[name] = tool.kind
    stems = [name.removesuffix("_submit") for name, kind in found.items() if kind == "job"]
    companions = {f"{stem}_{word}" for stem in stems for word in ("status", "result", "cancel")}
    return {name: kind for name, kind in found.items() if name not in companions}


def _takes_model(view: View, connector: Resource[Connector]) -> bool:
    """Whether some operation that a tool names sends a model."""
    named = {one.operation for one in connector.spec.tool.values()}
    profiles = _profiles(view, connector)
    return any(
        "model" in one.fields for profile in profiles for one in profile.operations if one.name in named
    )


def _profile(view: View, name: str) -> Profile | None:
    found = view.find(ObjectRef(Kind.PROFILE, name))
    return found.spec if found is not None and isinstance(found.spec, Profile) else None


def _profiles(view: View, connector: Resource[Connector]) -> list[Profile]:
    found = (_profile(view, name) for name in dict.fromkeys(connector.spec.profiles))
    return [one for one in found if one is not None]


def _connector(view: View, binding: Resource[Binding]) -> Resource[Connector] | None:
    return view.connector(binding.spec.connector) if binding.spec.connector else None


def _new_profile(name: str) -> str:
    profile, _, revision = name.partition("@")
    return f"add profiles/{profile}/{revision or 1}/profile.toml, and write it as 'ID@REVISION'"


def _overlap(connector: Resource[Connector], index: int, what: tuple[str, str], other: str) -> Problem:
    operation, model = what
    named = "every model" if model == "*" else f"the model {quoted(model)}"
    words = Words(
        f"{connector.spec.profiles[index]} and {other} both offer {quoted(operation)} for {named}",
        "operation and exact model select one profile",
        "list one of them",
    )
    return problem(connector, ("profiles", index), "C252", words)


def _unresolved(connector: Resource[Connector], path: Path, what: str, mend: str, *, reason: str) -> Problem:
    why = "a connector without code speaks by profiles that are there"
    at = Span(connector.file)
    return Problem("C251", what, why, mend, at, path, about=connector.ref, reason=reason)


def _of_binding(
    binding: Resource[Binding], code: str, words: Words, path: Path, *, reason: str = "SchemaInvalid"
) -> Problem:
    return Problem(code, *words, Span(binding.file), path, about=binding.ref, reason=reason)
