"""Bindings that serve nobody from now on, whatever routes are pinned: removed ones and suspended ones; and
instances of which conformance is asked for and not proven.
"""

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

from reconciler.admission.admit import Admission
from reconciler.control.withholding import Demands
from reconciler.model.calls import Dispatch, Lane, Refusal
from reconciler.model.identity import moved
from reconciler.model.inventory import Resource
from reconciler.model.names import InstanceName, Kind, ObjectRef
from reconciler.model.resources import Binding, Record


class Withdrawn:
    """A dispatch that refuses what was removed, suspended or withheld, for every session at once."""

    def __init__(self, inner: Dispatch) -> None:
        self._inner = inner
        self.why: Mapping[str, str] = {}  # by binding; replaced whole, never edited
        self.withheld: Mapping[InstanceName, str] = {}  # likewise, by instance
        self._forms: Mapping[ObjectRef, Resource[Record]] = {}
        self._suspended: dict[str, str] = {}

    @property
    def told(self) -> Mapping[str, str]:
        """Both, by the names of bindings and of instances."""
        return {**self.why, **{str(name): why for name, why in self.withheld.items()}}

    def follow(
        self, admission: Admission, in_use: Collection[str], demands: Demands = MappingProxyType({})
    ) -> None:
        """From now on nobody is served by what is suspended, nor by what was removed while a session still
        holds it, nor by an instance without the evidence that is asked for.
        """
        self.withheld = {one.instance: one.words for one in demands.values() if not one.passed}
        before, self._forms = self._forms, admission.in_force
        for ref in moved(before, self._forms):
            if ref.kind is Kind.BINDING:
                self._suspended.pop(ref.name, None)
                form = self._forms.get(ref)
                if form is not None and isinstance(form.spec, Binding) and form.spec.suspend:
                    self._suspended[ref.name] = "the binding is suspended"
        removed = (name for name in in_use if ObjectRef(Kind.BINDING, name) not in self._forms)
        self.why = self._suspended | dict.fromkeys(removed, "the binding was removed")

    def lane(self, instance: InstanceName) -> Lane | None:
        if instance.binding in self.why or (self.withheld and instance in self.withheld):
            return None
        return self._inner.lane(instance)

    def open_lane(self, instance: InstanceName, ready: Callable[[Lane | Refusal], None]) -> None:
        why = self.why.get(instance.binding) or self.withheld.get(instance)
        if why is not None:
            ready(Refusal("unavailable", why))
        else:
            self._inner.open_lane(instance, ready)
