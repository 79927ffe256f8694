"""Bindings that serve nobody from now on, whatever routes are pinned: removed ones and suspended ones; and
instances of which conformance is asked for and not proven.
"""

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

from reconciler.admission.admit import Admission
from reconciler.control.shadowing import Shadows
from reconciler.control.withholding import Demands
from reconciler.model.calls import Dispatch, Lane, Refusal
from reconciler.model.identity import moved
from reconciler.model.inventory import Resource
from reconciler.model.names import InstanceName, Kind, ObjectRef
from reconciler.model.resources import Binding, Record


class Withdrawn:
    """A dispatch that refuses what was removed, suspended or withheld, for every session at once. What may be
    served goes by a lane that ``shadows`` overhears where the binding asks for it.
    """

    def __init__(self, inner: Dispatch, shadows: Shadows | None = None) -> None:
        self._inner = inner
        self._shadows = shadows
        self._shadowed: dict[str, str] = {}
        self.followed: Callable[[Admission], None] = lambda admission: None  # told first
        self.shared: Callable[[InstanceName], InstanceName] = lambda name: name  # what one is made like
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
        self.followed(admission)
        self.withheld = {one.instance: one.words for one in demands.values() if not one.passed}
        before, self._forms = self._forms, admission.in_force
        for ref in moved(before, self._forms):
            if ref.kind is Kind.BINDING:
                self._suspended.pop(ref.name, None)
                self._shadowed.pop(ref.name, None)
                form = self._forms.get(ref)
                if form is not None and isinstance(form.spec, Binding) and form.spec.shadow:
                    self._shadowed[ref.name] = form.spec.shadow
                if form is not None and isinstance(form.spec, Binding) and form.spec.suspend:
                    self._suspended[ref.name] = "the binding is suspended"
        if self._shadows is not None and (self._shadowed or self._shadows.plans):
            self._shadows.follow(admission, self._shadowed)
        removed = (name for name in in_use if ObjectRef(Kind.BINDING, name) not in self._forms)
        self.why = self._suspended | dict.fromkeys(removed, "the binding was removed")

    def barred(self, instance: InstanceName) -> str:
        """Why an instance serves nobody now, or ""."""
        return self.why.get(instance.binding) or self.withheld.get(self.shared(instance)) or ""

    def lane(self, instance: InstanceName) -> Lane | None:
        if instance.binding in self.why or (self.withheld and self.shared(instance) in self.withheld):
            return None
        lane = self._inner.lane(instance)
        if lane is None or self._shadows is None or not self._shadowed:
            return lane
        return self._shadows.over(instance, lane)

    def open_lane(self, instance: InstanceName, ready: Callable[[Lane | Refusal], None]) -> None:
        shadows = self._shadows
        if shadows is None or instance.binding not in self._shadowed:
            self.open_plain(instance, ready)
            return

        def came(lane: Lane | Refusal) -> None:
            ready(lane if isinstance(lane, Refusal) else shadows.over(instance, lane))

        self.open_plain(instance, came)

    def open_plain(self, instance: InstanceName, ready: Callable[[Lane | Refusal], None]) -> None:
        """As ``open_lane``, and nobody overhears."""
        if why := self.barred(instance):
            ready(Refusal("unavailable", why))
        else:
            self._inner.open_lane(instance, ready)
