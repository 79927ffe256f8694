"""What a look finds in the files and does not do, or not yet: removals, and changes that come too often.

The rules are pure (``plan.pruning``, ``control.flapping``); here lies what they remember from one look to the
next. A restart forgets what is blocked, which is judged once more then, against what was in force; what flaps
is kept (``control.flapbook``).
"""

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Set
from dataclasses import replace

from reconciler.admission.admit import Admission
from reconciler.control import walk, withholding
from reconciler.control.flapping import Flapping
from reconciler.control.withholding import Demands
from reconciler.model.identity import moved
from reconciler.model.inventory import Inventory, Layer, Lock
from reconciler.model.names import PUBLISHED, Kind, ObjectRef
from reconciler.model.resources import Config
from reconciler.model.settings import Prune
from reconciler.model.status import Condition, Held
from reconciler.plan import pruning

HeldBack = Mapping[ObjectRef, Held]
News = tuple[str, str, str, str]  # object, severity, reason, message

_SETTINGS = ObjectRef(Kind.CONFIG, "handler")


class Holder:
    """Decides what is held back; one look at a time. ``clock`` is monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._memory = pruning.Memory()
        self._agreed: Set[ObjectRef] = frozenset()  # what waits although its going was agreed to before
        self.flapping = Flapping()
        self._slowed: Collection[ObjectRef] = ()
        self._places: tuple[str, ...] = ()  # where their files lie
        self._in_use: frozenset[str] | None = None  # by which was held back last; None: a person asked

    def unasked(
        self,
        before: Admission,
        inventory: Inventory,
        in_use: Collection[str],
        agreed: Set[ObjectRef] = frozenset(),
    ) -> HeldBack:
        """What an edit that was only saved leaves as it was. ``in_use``: bindings of open sessions.

        ``agreed``, here and below: what was gone before a rollback brought it back.
        """
        now_s = self._clock()
        suspects = _suspects(before, inventory) | self.flapping.flaps().keys()
        self._watch(before, inventory, suspects, now_s)
        slowed = self._held_as_flapping(before, inventory, suspects, now_s)
        agreed = agreed | self._agreed
        edit = _edit(before, inventory, suspects - slowed.keys(), agreed)
        verdict = pruning.judged(edit, in_use, self._memory, now_s)
        self._agreed = agreed & verdict.held.keys()
        self._memory, self._slowed, self._in_use = verdict.memory, slowed.keys(), frozenset(in_use)
        self._places = tuple(_place(before.in_force[ref].file) for ref in slowed)
        return {**slowed, **verdict.held}

    def asked(
        self,
        before: Admission,
        inventory: Inventory,
        agreed: Set[ObjectRef] = frozenset(),
        *,
        prune_all: bool,
    ) -> HeldBack:
        """What an apply leaves as it was: nothing with ``prune_all``."""
        now_s = self._clock()
        suspects = _suspects(before, inventory)
        self._watch(before, inventory, suspects, now_s)
        self._slowed, self._places, self._in_use = (), (), None
        for ref in suspects:
            self.flapping.let_through(ref, _form(before, inventory, ref), now_s)
        agreed, self._agreed = agreed | self._agreed, frozenset()
        self._memory = pruning.Memory()
        if prune_all:
            return {}
        verdict = pruning.asked(_edit(before, inventory, suspects, agreed))
        self._memory = verdict.memory
        return verdict.held

    def would_hold(
        self,
        before: Admission,
        inventory: Inventory,
        agreed: Set[ObjectRef] = frozenset(),
        *,
        prune_all: bool,
    ) -> HeldBack:
        """What an apply would leave as it was; nothing is remembered."""
        if prune_all:
            return {}
        edit = _edit(before, inventory, _suspects(before, inventory), agreed | self._agreed)
        return pruning.asked(edit).held

    def would_wait(
        self,
        before: Admission,
        inventory: Inventory,
        in_use: Collection[str],
        agreed: Set[ObjectRef] = frozenset(),
    ) -> HeldBack:
        """What an edit that was only saved would leave as it was; nothing is remembered."""
        edit = _edit(before, inventory, _suspects(before, inventory), agreed | self._agreed)
        return pruning.judged(edit, in_use, self._memory, self._clock()).held

    def is_due(self, in_use: Collection[str] | None) -> bool:
        """Whether the same files are to be decided anew, while something is held back or flaps."""
        due_s = self.due_s()
        if due_s is not None and due_s <= self._clock():
            return True
        return in_use is None or self._in_use is None or frozenset(in_use) != self._in_use

    def due_s(self) -> float | None:
        """The instant at which something that changes too often is to be decided anew, or None."""
        return self.flapping.due_s(self._slowed)

    def can_wait(self, paths: Collection[str]) -> bool:
        """Whether what changed is only what is slowed down, so that the timed look will do."""
        if not paths or not self._places:
            return False
        return all(path.startswith(self._places) for path in paths if walk.taken(path))

    def flaps(self) -> Mapping[ObjectRef, str]:
        """What changes too often, in words."""
        return self.flapping.flaps()

    def _watch(
        self, before: Admission, inventory: Inventory, suspects: Collection[ObjectRef], now_s: float
    ) -> None:
        for ref in suspects:
            was = before.inventory.resources.get(ref)
            self.flapping.saw(ref, was.digest if was else "", _form(before, inventory, ref), now_s)
        self.flapping.settle(now_s)

    def _held_as_flapping(
        self, before: Admission, inventory: Inventory, suspects: Collection[ObjectRef], now_s: float
    ) -> dict[ObjectRef, Held]:
        held: dict[ObjectRef, Held] = {}
        for ref in suspects:
            last, form = before.in_force.get(ref), _form(before, inventory, ref)
            if last is not None and self.flapping.holds(ref, now_s):  # also when it reads so just now
                held[ref] = Held(
                    "Flapping", "it changes too often: its last applied form serves till its turn comes"
                )
            else:
                self.flapping.let_through(ref, form, now_s)
        return held


def held_in(inventory: Inventory, before: Admission, held: HeldBack) -> Inventory:
    """The inventory with the last form of everything that is held back, and its line of the lock."""
    if not held:
        return inventory
    kept = {ref: before.in_force[ref] for ref in held}
    entries = dict(inventory.locks.get(Layer.CONFIG, Lock()).entries)
    published = before.inventory.locks.get(Layer.CONFIG, Lock()).entries
    for ref in held:
        if ref.kind in PUBLISHED and ref.name in published:
            entries[ref.name] = published[ref.name]
    locks = {**inventory.locks, Layer.CONFIG: Lock(entries)}
    return replace(inventory, resources={**inventory.resources, **kept}, locks=locks)


def condition(held: HeldBack) -> Condition | None:
    """The configuration's own condition while removals are blocked."""
    words = pruning.summed_up(held)
    return Condition("Synced", "False", "PruneBlocked", words) if words else None


def news(
    before: tuple[HeldBack, Mapping[ObjectRef, str], Demands],
    after: tuple[HeldBack, Mapping[ObjectRef, str], Demands],
) -> Iterator[News]:
    """The events of what came to be held back, withheld, or to flap, and of what ceased to."""
    (held, flapping, was), (holds, flaps, now) = before, after
    yield from withholding.news(was, now)
    words = pruning.summed_up(holds)
    if words and words != pruning.summed_up(held):
        yield "configuration", "Warning", "PruneBlocked", words
    for ref, one in holds.items():
        if one.reason == "AwaitingApply" and held.get(ref) != one:
            yield str(ref), "Warning", one.reason, one.message
    for ref in flaps.keys() - flapping.keys():
        yield str(ref), "Warning", "Flapping", flaps[ref]
    for ref in flapping.keys() - flaps.keys():
        yield str(ref), "Normal", "ReconcileSuccess", "it is quiet: changes are applied at once again"


def _suspects(before: Admission, inventory: Inventory) -> Set[ObjectRef]:
    """What may have another form than the one in force: what moved, since a look costs what changed."""
    return moved(before.inventory.resources, inventory.resources) | before.retained


def _edit(
    before: Admission, inventory: Inventory, suspects: Set[ObjectRef], agreed: Set[ObjectRef]
) -> pruning.Edit:
    gone = pruning.removed(inventory, before.in_force, suspects)
    return pruning.Edit(inventory, before.in_force, gone, _limits(before, inventory), agreed)


def _limits(before: Admission, inventory: Inventory) -> Prune:
    """The newest settings decide; where there are none, or refused ones, those that were in force."""
    form = inventory.resources.get(_SETTINGS) or before.in_force.get(_SETTINGS)
    return form.spec.prune if form is not None and isinstance(form.spec, Config) else Prune()


def _place(file: str) -> str:
    """The file of an object, or the folder of one that has a folder of its own."""
    return file if file.count("/") < 2 else f"{file.rpartition('/')[0]}/"


def _form(before: Admission, inventory: Inventory, ref: ObjectRef) -> str:
    """The digest of what the source holds of an object; "" for nothing."""
    now = inventory.resources.get(ref)
    if now is not None:
        return now.digest
    known = before.inventory.resources.get(ref) or before.in_force.get(ref)
    text = inventory.sources.get((known.layer, known.file)) if known else None
    return hashlib.sha256(text).hexdigest() if text is not None else ""
