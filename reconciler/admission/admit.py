"""Admission: every object judged, the last admitted form kept where the newest is refused.

Objects are judged kind by kind, each against what is in force below it. A refused object leaves its last
admitted form in force (``retained``), and dependents rest on that; where there is none, they wait. What a
retained object rests on stays in force with it when its file is gone, but for a binding: removing one is an
act, and ends its service. With the admission before, only what changed is judged again: an object, or what
its rules asked of others (``view``). The result is the same as judging everything, which a property test
holds to. Nothing here is a rule.
"""

from collections.abc import Iterable, Mapping, MutableMapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

from reconciler.admission import absent, agents, frozen, judging
from reconciler.admission.selection import Selected
from reconciler.admission.view import (
    MAX_TOLD,
    Key,
    LockKey,
    Surroundings,
    View,
    alike_to_others,
    inside,
    lock_is_unread,
)
from reconciler.config import places
from reconciler.config.codes import TOO_MANY
from reconciler.model.contract import Contract, compiled
from reconciler.model.identity import Edited, laid_over, moved
from reconciler.model.inventory import Inventory, Layer, LockEntry, Resource
from reconciler.model.names import InterfaceRef, Kind, ObjectRef
from reconciler.model.problems import Problem, Severity, Span, in_order
from reconciler.model.resources import Agent, Binding, Connector, Interface, Profile, Record

__all__ = ["Admission", "Selected", "Surroundings", "admit"]

_ORDER = (
    Kind.CONFIG, Kind.INTERFACE, Kind.DIALECT, Kind.PROFILE, Kind.CONNECTOR, Kind.BINDING, Kind.PROJECT,
    Kind.AGENT, Kind.POLICY, Kind.APPROVAL, Kind.CHAIN,
)  # fmt: skip
_NOWHERE = Surroundings()

Resources = Mapping[ObjectRef, Resource[Record]]
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True, eq=False)
class Admission:
    """What is in force, what is refused and why.

    ``absent`` lists, for what is in force, the keys whose capability is not built; ``unusable`` holds the
    objects that cannot be served for that reason (a binding also when its connector is), so that no route and
    no instance is made of them. ``selections`` holds each agent that may open a session.
    """

    inventory: Inventory
    in_force: Resources
    retained: frozenset[ObjectRef]
    refused: Mapping[ObjectRef, tuple[Problem, ...]]
    problems: tuple[Problem, ...]
    contracts: Mapping[InterfaceRef, Contract]
    selections: Mapping[str, tuple[Selected, ...]]
    absent: Mapping[ObjectRef, tuple[str, ...]] = field(default_factory=dict)
    unusable: frozenset[ObjectRef] = frozenset()
    memory: "Memory | None" = field(default=None, repr=False)  # what the next admission starts from


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """One object judged: all that was said, all that was asked, and what came of it."""

    resource: Resource[Record] | None  # None: its text was refused before it was an object
    problems: tuple[Problem, ...]
    reads: tuple[Key, ...]  # each once: a set of a few takes thrice the room
    contract: Contract | None = None
    selected: tuple[Selected, ...] = ()
    errors: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """An admission's working state, from which the next one is cheap. Never changed once made."""

    where: Surroundings
    verdicts: Mapping[ObjectRef, Verdict]
    readers: Mapping[Key, set[ObjectRef]]
    in_force: Resources  # as judged: without what is only held for a retained object
    contracts: Mapping[InterfaceRef, Contract]
    fallbacks: Mapping[ObjectRef, Resource[Record] | None]  # by refused object: the last form it was given
    texts: Mapping[ObjectRef, tuple[Problem, ...]]
    absent: Mapping[ObjectRef, tuple[str, ...]]
    unusable: frozenset[ObjectRef]
    selections: Mapping[str, tuple[Selected, ...]]


_NOTHING = Memory(_NOWHERE, {}, {}, {}, {}, {}, {}, {}, frozenset(), {})


def admit(
    inventory: Inventory,
    last: Resources,
    previous: Admission | None = None,
    where: Surroundings = _NOWHERE,
) -> Admission:
    """Judge an inventory. ``last`` holds the forms that were in force before; ``previous`` only saves work.

    Never raises for anything that a person wrote; every problem is in the result, placed and sorted.
    """
    run = _Run(inventory, last, previous, where)
    run.judge_what_changed()
    return run.admission()


class _Run:
    """One admission in the making: copies of the last one's state, changed where something changed."""

    def __init__(
        self, inventory: Inventory, last: Resources, previous: Admission | None, where: Surroundings
    ) -> None:
        usable = previous is not None and previous.memory is not None and previous.memory.where == where
        self.previous = previous if usable else None
        self.past = previous.memory if usable and previous and previous.memory else _NOTHING
        self.inventory = inventory
        self.last = last
        before = self.previous.inventory if self.previous else None
        same = before is not None and before.problems is inventory.problems
        self.texts = self.past.texts if same else _refused_texts(inventory)
        self.readers: dict[Key, set[ObjectRef]] = {}  # those that change
        self.usability: dict[ObjectRef, bool] = {}  # of those that were looked at
        self.verdicts = _copy(self.past.verdicts)
        self.absent = _copy(self.past.absent)
        self.selections = _copy(self.past.selections)
        self.fallbacks = _copy(self.past.fallbacks)
        self.view = View(inventory, last, where)
        self.view.in_force = _copy(self.past.in_force)
        self.view.contracts = _copy(self.past.contracts)
        self.view.refused = _copy(self.previous.refused if self.previous else {})
        self.todo: dict[Kind, set[ObjectRef]] = {kind: set() for kind in _ORDER}
        same = same or (before is not None and before.problems == inventory.problems)
        self.said_anew = not (same and before is not None and before.locks == inventory.locks)

    # what is judged

    def judge_what_changed(self) -> None:
        """Find what changed in what was read, then judge that and whoever asked for it, in order."""
        before = self.previous.inventory if self.previous else None
        odd = moved(before.resources if before else {}, self.inventory.resources)
        changed = {ref for ref in odd if ref in self.inventory.resources}
        gone = odd - changed
        texts = self.texts.keys() | self.past.texts.keys()
        changed |= {ref for ref in texts if self.texts.get(ref) != self.past.texts.get(ref)}
        doubtful = gone | {ref for ref in texts if ref in changed}
        gone = {ref for ref in doubtful if ref not in self.inventory.resources and ref not in self.texts}
        for ref in gone:
            self._forget(ref)
        for ref in changed - gone:
            self.todo[ref.kind].add(ref)
        new = {ref for ref in changed if ref not in self.past.verdicts}
        for kind in {ref.kind for ref in gone | new}:
            self._touch(kind)
        self._touch_what_lies_beside(before)
        for kind in _ORDER:
            for ref in sorted(self.todo[kind] - gone, key=lambda one: one.name):
                self._judge(ref)

    def _touch_what_lies_beside(self, before: Inventory | None) -> None:
        """Locks, and the forms that refused objects fall back to."""
        for key in _changed_locks(before, self.inventory):
            self._touch(key)
        for ref, form in self.past.fallbacks.items():
            if self.last.get(ref) is not form and ref in self.verdicts:
                self.todo[ref.kind].add(ref)

    def _touch(self, key: Key) -> None:
        """The answer to a question changed: whoever asked is judged again."""
        known: Mapping[Key, set[ObjectRef]] = self.readers if key in self.readers else self.past.readers
        for reader in known.get(key, ()):
            self.todo[reader.kind].add(reader)

    def _judge(self, ref: ObjectRef) -> None:
        self.view.reads = set()
        verdict = self._verdict(ref)
        old = self.verdicts.get(ref)
        self.verdicts[ref] = verdict
        self._index(ref, old.reads if old else (), verdict.reads)
        self.said_anew = self.said_anew or (old.problems if old else ()) != verdict.problems
        self._settle(ref, verdict)
        if verdict.errors and not (
            old and old.resource is verdict.resource and old.problems == verdict.problems
        ):
            self._touch(ref)  # what is in force did not change, but the text that problems of others stand in

    def _verdict(self, ref: ObjectRef) -> Verdict:
        resource = self.inventory.resources.get(ref)
        if ref in self.texts or resource is None:
            problems = self.texts.get(ref, ())
            return Verdict(resource, problems, (), errors=problems)
        found, contract, selected = judging.judged(self.view, resource)
        if resource.layer is Layer.CATALOG:  # what ships cannot be changed by whoever would read a warning
            found = [problem for problem in found if problem.severity is Severity.ERROR]
        problems = in_order(places.placed(one, self.inventory) for one in _told(found)) if found else ()
        errors = tuple(problem for problem in problems if problem.severity is Severity.ERROR)
        return Verdict(resource, problems, tuple(self.view.reads), contract, selected, errors)

    # what comes of it

    def _settle(self, ref: ObjectRef, verdict: Verdict) -> None:
        """Put in force what a verdict leaves in force, and wake whoever asked for it when that changed."""
        waited, was = self.view.waits(ref), self.view.in_force.get(ref)
        self._clear(ref)
        form, contract = verdict.resource, verdict.contract
        if verdict.errors:
            self.view.refused[ref] = verdict.errors
            form = self.fallbacks[ref] = self.last.get(ref)
            contract = self._contract_of(form)
            if ref.kind is Kind.INTERFACE and contract is None:
                form = None  # nothing could be served by it
        if form is None:
            self.view.in_force.pop(ref, None)
        else:
            self.view.in_force[ref] = form  # in its place: two admissions are compared in their order
        if contract is not None:
            self.view.contracts[contract.interface] = contract
        if ref.kind is Kind.AGENT and not verdict.errors:
            self.selections[ref.name] = verdict.selected
        self._note_absences(ref)
        if waited != self.view.waits(ref) or not alike_to_others(was, form):
            self._wake(ref, was, form)

    def _clear(self, ref: ObjectRef) -> None:
        self.view.refused.pop(ref, None)
        self.fallbacks.pop(ref, None)
        self.absent.pop(ref, None)
        self.usability[ref] = False
        if ref.kind is Kind.INTERFACE:
            self.view.contracts.pop(InterfaceRef.parse(ref.name), None)
        if ref.kind is Kind.AGENT:
            self.selections.pop(ref.name, None)

    def _wake(self, ref: ObjectRef, *forms: Resource[Record] | None) -> None:
        """What is in force under a reference changed: whoever asked for it, or for what it offers."""
        self._touch(ref)
        for form in forms:
            for version in self._offers_of(form):
                self._touch(InterfaceRef.parse(version))

    def _contract_of(self, form: Resource[Record] | None) -> Contract | None:
        """The contract of an earlier form, as compiled before or now; None when it cannot be."""
        if form is None or not isinstance(form.spec, Interface):
            return None
        if self.previous and self.previous.in_force.get(form.ref) is form:
            return self.previous.contracts.get(InterfaceRef.parse(form.ref.name))
        try:
            return compiled(form.spec, inside(form).get("tools.json", b""))
        except ValueError:
            return None

    def _offers_of(self, form: Resource[Record] | None) -> Iterable[str]:
        """The versions that a connector, or a binding of one before or now, implements."""
        match form.spec if form else None:
            case Connector(implements=versions):
                return versions
            case Binding(connector=str(name)):
                ref = ObjectRef(Kind.CONNECTOR, name)
                both = (self.past.in_force.get(ref), self.view.in_force.get(ref))
                return [text for one in both if one for text in cast("Connector", one.spec).implements]
            case _:
                return ()

    def _note_absences(self, ref: ObjectRef) -> None:
        form = self.view.in_force.get(ref)
        if form is None or ref in self.view.refused:  # an earlier form rests on others: looked at last
            return
        words, unusable = _lacking(form, self.view.in_force)
        if words:
            self.absent[ref] = words
        self.usability[ref] = unusable

    def _forget(self, ref: ObjectRef) -> None:
        """The object is no longer written anywhere."""
        verdict = self.verdicts.pop(ref, None)
        if verdict is None:
            return
        self.said_anew = self.said_anew or bool(verdict.problems)
        self._index(ref, verdict.reads, ())
        was = self.view.in_force.get(ref)
        self.view.in_force.pop(ref, None)
        self._clear(ref)
        self._wake(ref, was)

    def _index(self, ref: ObjectRef, old: tuple[Key, ...], new: tuple[Key, ...]) -> None:
        if old == new:
            return
        before, after = set(old), set(new)
        for key in before - after:
            self._readers_of(key).discard(ref)
        for key in after - before:
            self._readers_of(key).add(ref)

    def _readers_of(self, key: Key) -> set[ObjectRef]:
        """The readers of a key to be changed: a copy, made once, since the admission before keeps its own."""
        mine = self.readers.get(key)
        if mine is None:
            mine = self.readers[key] = set(self.past.readers.get(key, ()))
        return mine

    def _all_readers(self) -> Mapping[Key, set[ObjectRef]]:
        everyone = _copy(self.past.readers)
        for key, some in self.readers.items():
            if some:
                everyone[key] = some
            else:
                everyone.pop(key, None)
        return everyone

    def _unusable(self) -> frozenset[ObjectRef]:
        past = self.past.unusable
        turned = {ref for ref, is_unusable in self.usability.items() if is_unusable != (ref in past)}
        return past ^ turned if turned else past

    # the result

    def admission(self) -> Admission:
        """Everything together, and what is held in force for those that keep their last form."""
        view = self.view
        retained = {ref for ref in view.refused if ref in view.in_force}
        held = _held(view.in_force, retained, self.last)
        memory = self._memory()
        unusable = memory.unusable
        absences: Mapping[ObjectRef, tuple[str, ...]] = self.absent
        selections: Mapping[str, tuple[Selected, ...]] = self.selections
        if held:
            view = self._view_with(held)
        if retained:
            lacking = {ref: _lacking(view.in_force[ref], view.in_force) for ref in {*held, *retained}}
            absences = laid_over(absences, {ref: words for ref, (words, _) in lacking.items() if words})
            unusable |= {ref for ref, (_, is_unusable) in lacking.items() if is_unusable}
        if standing := [ref for ref in retained if ref.kind is Kind.AGENT]:
            still = {ref.name: self._still(view, ref) for ref in standing}
            selections = laid_over(selections, still)
        return Admission(
            inventory=self.inventory,
            in_force=view.in_force,
            retained=frozenset(retained | held.keys()),
            refused=view.refused,
            problems=self._problems(),
            contracts=view.contracts,
            selections=selections,
            absent=absences,
            unusable=unusable,
            memory=memory,
        )

    def _still(self, view: View, ref: ObjectRef) -> tuple[Selected, ...]:
        agent = cast("Resource[Agent]", view.in_force[ref])
        return agents.what_still_stands(view, agent)

    def _view_with(self, held: Resources) -> View:
        view = View(self.inventory, self.last, self.view.where)
        view.in_force = Edited(self.view.in_force)
        view.in_force.update(held)
        view.refused = self.view.refused
        view.contracts = Edited(self.view.contracts)
        for form in held.values():
            if contract := self._contract_of(form):
                view.contracts[contract.interface] = contract
        return view

    def _memory(self) -> Memory:
        return Memory(
            where=self.view.where,
            verdicts=self.verdicts,
            readers=self._all_readers(),
            in_force=self.view.in_force,
            contracts=self.view.contracts,
            fallbacks=self.fallbacks,
            texts=self.texts,
            absent=self.absent,
            unusable=self._unusable(),
            selections=self.selections,
        )

    def _problems(self) -> tuple[Problem, ...]:
        if self.previous and not self.said_anew:
            return self.previous.problems
        said = [problem for verdict in self.verdicts.values() for problem in verdict.problems]
        return in_order([*self.inventory.problems, *frozen.locks_name_what_is_there(self.inventory), *said])


def _copy(past: Mapping[K, V]) -> MutableMapping[K, V]:
    """A copy to be edited; where there is nothing to share, a dict is quicker."""
    return Edited(past) if past else {}


def _told(found: list[Problem]) -> Iterable[Problem]:
    """What is said of one object: everything, or the first errors and that there are more."""
    errors = [problem for problem in found if problem.severity is Severity.ERROR]
    if len(errors) <= MAX_TOLD:
        return found
    more = replace(
        errors[MAX_TOLD],
        code=TOO_MANY,
        what="more problems are not listed",
        why=f"more than {MAX_TOLD} problems of one object have one cause",
        mend="mend the first ones and look again",
        at=Span(errors[0].at.file),
        path=(),
        candidates=(),
    )
    return (*errors[:MAX_TOLD], more)


def _lacking(form: Resource[Record], in_force: Resources) -> tuple[tuple[str, ...], bool]:
    name = form.spec.connector if isinstance(form.spec, Binding) else None
    return absent.lacking(form, in_force.get(ObjectRef(Kind.CONNECTOR, name)) if name else None)


def _held(in_force: Resources, retained: AbstractSet[ObjectRef], last: Resources) -> Resources:
    """What retained objects rest on and whose files are gone, in its last form; a binding is never held."""
    held: dict[ObjectRef, Resource[Record]] = {}
    waiting = [in_force[ref] for ref in retained]
    while waiting:
        for ref in _rests_on(waiting.pop()):
            form = last.get(ref)
            if ref not in in_force and ref not in held and form is not None:
                held[ref] = form
                waiting.append(form)
    return held


def _rests_on(form: Resource[Record]) -> Iterable[ObjectRef]:
    match form.spec:
        case Agent(project=str(name)):
            return (ObjectRef(Kind.PROJECT, name),)
        case Binding(connector=str(name)):
            return (ObjectRef(Kind.CONNECTOR, name),)
        case Connector(implements=versions, profiles=names):
            spoken = [ObjectRef(Kind.PROFILE, name) for name in names]
            return [*spoken, *(ObjectRef(Kind.INTERFACE, version) for version in versions)]
        case Profile():
            return (ObjectRef(Kind.DIALECT, form.spec.identity.dialect),)
        case _:
            return ()


def _changed_locks(before: Inventory | None, now: Inventory) -> Iterable[LockKey]:
    if before is not None and before.locks is now.locks and before.problems is now.problems:
        return
    for layer in Layer:
        old: Mapping[str, LockEntry] = _entries(before, layer) if before else {}
        new = _entries(now, layer)
        for version in () if old is new else old.keys() | new.keys():
            if old.get(version) != new.get(version):
                yield LockKey(layer, version)
        if (before is not None and lock_is_unread(before, layer)) != lock_is_unread(now, layer):
            yield LockKey(layer, "")


def _entries(inventory: Inventory, layer: Layer) -> Mapping[str, LockEntry]:
    lock = inventory.locks.get(layer)
    return lock.entries if lock else {}


def _refused_texts(inventory: Inventory) -> Mapping[ObjectRef, tuple[Problem, ...]]:
    """The objects whose text was refused before it was an object, and why."""
    found: dict[ObjectRef, list[Problem]] = {}
    for problem in inventory.problems:
        if problem.about is not None and problem.severity is Severity.ERROR:
            found.setdefault(problem.about, []).append(problem)
    return {ref: tuple(problems) for ref, problems in found.items()}
