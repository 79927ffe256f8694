"""What a rule may look at: the objects in force so far, and a note of everything that was asked for.

Objects are judged kind by kind, each against what is in force below it, so a rule never sees a half-judged
object. Every question leaves its key in ``reads``: when no answer changed since the last admission, neither
does the verdict, which is what makes a look cost what changed instead of what there is. A rule therefore asks
the view and never the inventory. ``InterfaceRef`` as a key stands for "which bindings implement it".
"""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from reconciler.model.contract import Contract
from reconciler.model.inventory import Inventory, Layer, LockEntry, Resource
from reconciler.model.names import InterfaceRef, Kind, ObjectRef
from reconciler.model.problems import Problem, Severity
from reconciler.model.resources import Binding, Connector, Interface, Project, Record

R = TypeVar("R", bound=Record)
LOCK = "handler.lock"
MAX_TOLD = 50  # errors of one object that are told: whoever has more has one cause
_MAX_WORD = 100  # beyond it a word is no misspelling


class LockKey(NamedTuple):
    """The question "what does this layer's ``handler.lock`` say of this version?" ("": can it be read?)."""

    layer: Layer
    version: str


Key = ObjectRef | Kind | InterfaceRef | LockKey


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where a configuration lives: whose ``~`` it is, and the folders that no agent may write to.

    Paths are absolute and real. An empty ``home`` means that ``~/`` cannot be compared.
    """

    home: str = ""
    forbidden: tuple[str, ...] = ()  # the configuration itself is the first


class View:
    """What is in force so far. Filled by ``admit`` kind by kind; rules only ask."""

    __slots__ = (
        "_last",
        "_names",
        "_offers",
        "contracts",
        "in_force",
        "inventory",
        "needed",
        "reads",
        "refused",
        "servable",
        "where",
    )

    def __init__(
        self,
        inventory: Inventory,
        last: Mapping[ObjectRef, Resource[Record]],
        where: Surroundings,
    ) -> None:
        self.inventory = inventory
        self.where = where
        self.in_force: MutableMapping[ObjectRef, Resource[Record]] = {}
        self.refused: MutableMapping[ObjectRef, tuple[Problem, ...]] = {}
        self.contracts: MutableMapping[InterfaceRef, Contract] = {}
        self.reads: set[Key] = set()
        self._last = last
        self._names: dict[Kind, tuple[str, ...]] = {}
        self._offers: _Offers | None = None
        # Worked out by `selection` of what is in force when agents are judged; no question of its own.
        self.servable: dict[InterfaceRef, tuple[str, ...]] = {}
        self.needed: dict[ObjectRef, tuple[str, ...]] = {}

    def interface(self, version: str) -> Resource[Interface] | None:
        """The interface version in force under ``ocr/v1``, or None."""
        return self._typed(ObjectRef(Kind.INTERFACE, version), Interface)

    def connector(self, name: str) -> Resource[Connector] | None:
        return self._typed(ObjectRef(Kind.CONNECTOR, name), Connector)

    def binding(self, name: str) -> Resource[Binding] | None:
        return self._typed(ObjectRef(Kind.BINDING, name), Binding)

    def project(self, name: str) -> Resource[Project] | None:
        return self._typed(ObjectRef(Kind.PROJECT, name), Project)

    def find(self, ref: ObjectRef) -> Resource[Record] | None:
        """What is in force under a reference: admitted now, or kept from before."""
        self.reads.add(ref)
        return self.in_force.get(ref)

    def waits(self, ref: ObjectRef) -> bool:
        """Whether the object exists but is refused, and no earlier form of it is in force."""
        self.reads.add(ref)
        return ref in self.refused and ref not in self.in_force

    def names(self, kind: Kind) -> tuple[str, ...]:
        """Every name of a kind that is written, refused or not: what a misspelt one is compared with."""
        self.reads.add(kind)
        if kind not in self._names:
            found = {ref.name for ref in self.inventory.resources if ref.kind is kind}
            about = (problem.about for problem in self.inventory.problems)
            found |= {ref.name for ref in about if ref is not None and ref.kind is kind}
            self._names[kind] = tuple(sorted(found))
        return self._names[kind]

    def bound_to(self, version: InterfaceRef) -> tuple[str, ...]:
        """The bindings in force whose connector implements a version, sorted."""
        return self._offers_of(version).bindings.get(str(version), ())

    def offered_by(self, version: InterfaceRef) -> tuple[str, ...]:
        """The connectors in force that implement a version, sorted."""
        return self._offers_of(version).connectors.get(str(version), ())

    def contract(self, version: InterfaceRef) -> Contract | None:
        """The compiled contract of a version in force, or None."""
        self.reads.add(ObjectRef(Kind.INTERFACE, str(version)))
        return self.contracts.get(version)

    def locked(self, layer: Layer, version: str) -> LockEntry | None:
        """The entry of a layer's ``handler.lock``, or None: the version is a draft."""
        self.reads.add(LockKey(layer, version))
        lock = self.inventory.locks.get(layer)
        return lock.entries.get(version) if lock else None

    def lock_is_unread(self, layer: Layer) -> bool:
        """Whether the layer's ``handler.lock`` is there and could not be read."""
        self.reads.add(LockKey(layer, ""))
        return lock_is_unread(self.inventory, layer)

    def last_admitted(self, ref: ObjectRef) -> Resource[Record] | None:
        """The form that was admitted last. Leaves no key: whoever refuses is asked again when it changes."""
        return self._last.get(ref)

    def _offers_of(self, version: InterfaceRef) -> "_Offers":
        self.reads.add(version)
        if self._offers is None:
            self._offers = _offers(self.in_force.values())
        return self._offers

    def _typed(self, ref: ObjectRef, model: type[R]) -> Resource[R] | None:
        found = self.find(ref)
        if found is None or not isinstance(found.spec, model):
            return None
        return found  # type: ignore[return-value]


Rule = Callable[[View, Resource[R]], Iterator[Problem]]

_ITS_OWN = ("settings", "instance", "description")  # keys of a binding that no rule of another object reads
_SEEN = tuple(field for field in Binding.aliases if field not in _ITS_OWN)


def alike_to_others(was: Resource[Record] | None, now: Resource[Record] | None) -> bool:
    """Whether whoever asks for an object gets the same answer as before: a binding with other settings is
    nothing new to its agents.
    """
    if was is None or now is None or not isinstance(now.spec, Binding) or not isinstance(was.spec, Binding):
        return was is now
    old, new = was.spec, now.spec
    same_place = was.layer is now.layer and was.file == now.file
    return same_place and all(getattr(old, field) == getattr(new, field) for field in _SEEN)


def lock_is_unread(inventory: Inventory, layer: Layer) -> bool:
    """Whether a layer's ``handler.lock`` was refused as a text."""
    lock = inventory.locks.get(layer)
    if (layer, LOCK) not in inventory.sources or (lock and lock.entries):
        return False
    return any(p.at.file == LOCK and p.severity is Severity.ERROR for p in inventory.problems)


def inside(resource: Resource[R]) -> Mapping[str, bytes]:
    """The files of an interface's or a connector's folder by their path inside it."""
    return resource.files


def whole_path(resource: Resource[R], path: str) -> str:
    """A path inside an object's folder as a problem shows it: from the configuration's root."""
    return f"{resource.file.rpartition('/')[0]}/{path}"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that a misspelt one most likely means, or None."""
    near = difflib.get_close_matches(word, list(known), n=1) if len(word) <= _MAX_WORD else ()
    return near[0] if near else None


def enough(problems: Iterable[Problem]) -> Iterator[Problem]:
    """Problems as they come, up to the number of errors that a person reads at once."""
    errors = 0
    for problem in problems:
        yield problem
        errors += problem.severity is Severity.ERROR
        if errors > MAX_TOLD:
            return


@dataclass(frozen=True, slots=True)
class _Offers:
    """Who offers an interface version, by its text."""

    connectors: Mapping[str, tuple[str, ...]]
    bindings: Mapping[str, tuple[str, ...]]


def _offers(resources: Iterable[Resource[Record]]) -> _Offers:
    bindings: list[tuple[str, str]] = []
    implements: dict[str, tuple[str, ...]] = {}
    for resource in resources:
        spec = resource.spec
        if isinstance(spec, Binding):
            if spec.connector:
                bindings.append((resource.ref.name, spec.connector))
        elif isinstance(spec, Connector):
            implements[resource.ref.name] = spec.implements
    by_connector: dict[str, list[str]] = {}
    for connector in sorted(implements):
        for version in implements[connector]:
            by_connector.setdefault(version, []).append(connector)
    by_binding: dict[str, list[str]] = {}
    for name, connector in sorted(bindings):
        for version in implements.get(connector, ()):
            by_binding.setdefault(version, []).append(name)
    return _Offers(_frozen(by_connector), _frozen(by_binding))


def _frozen(lists: Mapping[str, list[str]]) -> Mapping[str, tuple[str, ...]]:
    return {key: tuple(dict.fromkeys(names)) for key, names in lists.items()}
