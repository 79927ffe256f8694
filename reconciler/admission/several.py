"""Several bindings behind one interface: language models, each binding with models of its own (ruling 13).

Which of them a call goes to is said by the exact model that it names, and by nothing else: so each binding
states its models, and none is stated by two. The first binding's first model is the default.
"""

from collections.abc import Iterator

from reconciler.admission.connectors import implemented
from reconciler.admission.view import View
from reconciler.admission.wiring import Choice, connector_of
from reconciler.model.dialect import Profile
from reconciler.model.inventory import Resource
from reconciler.model.names import InterfaceRef, Kind, ObjectRef
from reconciler.model.problems import Path, Problem, Span, listed, quoted
from reconciler.model.resources import Binding, Connector


def places(choice: Choice) -> Iterator[tuple[str, Path]]:
    """The bindings of a choice, each with its key."""
    is_list = isinstance(choice.where.spec.services[choice.interface], tuple)
    for index, name in enumerate(choice.bindings):
        yield name, (*choice.path, index) if is_list else choice.path


def problems(view: View, choice: Choice, version: InterfaceRef, about: ObjectRef) -> Iterator[Problem]:
    """Why the bindings of a choice cannot stand side by side; nothing where there is one. Each is known."""
    if len(choice.bindings) == 1:
        return
    taken: dict[str, str] = {}
    for index, (name, path) in enumerate(places(choice)):
        binding = view.binding(name)
        connector = connector_of(view, binding) if binding else None
        if binding is None or connector is None:
            continue  # told as what is missing
        words = _unfit(view, (binding, connector), (choice, index), (version, taken))
        if words is not None:
            code, what, why, mend = words
            yield Problem(
                code, what, why, mend, Span(choice.where.file), path, about=about,
                reason="UnresolvedReference" if code == "A231" else "SchemaInvalid",
            )  # fmt: skip
        taken.update(dict.fromkeys(binding.spec.models, name))


def _unfit(
    view: View,
    behind: tuple[Resource[Binding], Resource[Connector]],
    at: tuple[Choice, int],
    others: tuple[InterfaceRef, dict[str, str]],
) -> tuple[str, str, str, str] | None:
    (binding, connector), (choice, index), (version, taken) = behind, at, others
    name, models = choice.bindings[index], binding.spec.models
    if name in choice.bindings[:index]:
        return "A230", f"binding {quoted(name)} stands twice", _WHY, "delete one"
    offered = implemented(connector, choice.interface)
    if version not in offered:
        what = f"binding {quoted(name)} does not offer {version}"
        why = f"{connector.ref} implements {listed(map(str, offered))}, and all of a list answer one version"
        return "A231", what, why, f"delete {quoted(name)}, or name a binding that offers {version}"
    if not models:
        known = [model for one in _profiles(view, connector) for model in one.identity.models]
        example = ", ".join(f'"{model}"' for model in known) or '"…"'
        mend = f"write models = [{example}] in {binding.file}"
        return "A229", f"binding {quoted(name)} states no models", _WHY, mend
    if both := [model for model in models if model in taken]:
        what = f"{quoted(taken[both[0]])} and {quoted(name)} both have the model {quoted(both[0])}"
        return "A230", what, _WHY, f"delete {quoted(both[0])} from models in {binding.file}"
    return None


_WHY = "where several are listed, the exact model of a call says which of them answers"


def _profiles(view: View, connector: Resource[Connector]) -> Iterator[Profile]:
    for name in connector.spec.profiles:
        found = view.find(ObjectRef(Kind.PROFILE, name))
        if found is not None and isinstance(found.spec, Profile):
            yield found.spec
