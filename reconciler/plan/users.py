"""Who names one frozen version of an interface: the agents that select or require it, the projects that
require it, the connectors that implement it.

Both sides count: whoever used a version that is gone is its user too. Agents that are answered through a
project's choice select it as any other.
"""

from collections.abc import Iterable, Mapping

from reconciler.admission.admit import Admission
from reconciler.model.inventory import Resource
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.resources import Agent, Connector, Project, Record

Resources = Mapping[ObjectRef, Resource[Record]]


class Users:
    """The users of every version, found when the first one is asked for."""

    def __init__(self, before: Resources, after: Resources, admissions: Iterable[Admission]) -> None:
        self._resources = (before, after)
        self._admissions = tuple(admissions)
        self._found: dict[str, set[str]] | None = None

    def of(self, interface: ObjectRef) -> tuple[str, ...]:
        """The users of a version, as KIND/NAME, sorted."""
        if self._found is None:
            self._found = {}
            self._fill(self._found)
        return tuple(sorted(self._found.get(interface.name, ())))

    def _fill(self, found: dict[str, set[str]]) -> None:
        for admission in self._admissions:
            for agent, selected in admission.selections.items():
                for one in selected:
                    found.setdefault(str(one.interface), set()).add(f"{Kind.AGENT.value}/{agent}")
        for resources in self._resources:
            for ref, resource in resources.items():
                for version in _named(resource.spec):
                    found.setdefault(version, set()).add(str(ref))


def _named(spec: Record) -> tuple[str, ...]:
    match spec:
        case Connector():
            return spec.implements
        case Agent() | Project():
            return spec.requires
        case _:
            return ()
