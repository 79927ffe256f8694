"""Bindings that serve nobody from now on, whatever routes are pinned: removed ones and suspended ones."""

from collections.abc import Callable, Collection, Mapping

from reconciler.control.looking import Look
from reconciler.model.calls import Dispatch, Lane, Refusal
from reconciler.model.names import InstanceName, Kind, ObjectRef
from reconciler.model.resources import Binding


class Withdrawn:
    """A dispatch that refuses bindings which were removed or suspended, for every session at once."""

    def __init__(self, inner: Dispatch) -> None:
        self._inner = inner
        self.why: Mapping[str, str] = {}  # by binding; replaced whole, never edited

    def lane(self, instance: InstanceName) -> Lane | None:
        return None if instance.binding in self.why else self._inner.lane(instance)

    def open_lane(self, instance: InstanceName, ready: Callable[[Lane | Refusal], None]) -> None:
        why = self.why.get(instance.binding)
        if why is not None:
            ready(Refusal("unavailable", why))
        else:
            self._inner.open_lane(instance, ready)


def withdrawn(look: Look, in_use: Collection[str]) -> dict[str, str]:
    """Bindings that serve nobody from now on, and why: suspended, or removed while a session still holds
    them.
    """
    in_force = look.admission.in_force
    why = {
        ref.name: "the binding is suspended"
        for ref, one in in_force.items()
        if isinstance(one.spec, Binding) and one.spec.suspend
    }
    removed = (name for name in in_use if ObjectRef(Kind.BINDING, name) not in in_force)
    return why | dict.fromkeys(removed, "the binding was removed")
