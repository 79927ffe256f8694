"""Look, load, admit, desire: from two folders to what should be, without touching what runs.

One ``Looker`` keeps what it saw last, so that unchanged objects stay the same objects and a look costs what
changed. It runs on a worker thread, one look at a time; what it returns is frozen. What was admitted is
written down before a look is returned, so that a restart on a broken tree serves the same, and on the disk
once ``settle`` returned: an edit is served and told meanwhile.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from reconciler.admission import admit as admission_room
from reconciler.admission.admit import Admission
from reconciler.config import load
from reconciler.control import choosing, folders, history
from reconciler.control.admitted import Admitted
from reconciler.control.flapbook import FlapBook
from reconciler.control.holding import HeldBack, Holder, held_in
from reconciler.control.place import Place
from reconciler.control.rolling import Rolling
from reconciler.control.source import Busy, Gone, Source
from reconciler.control.withholding import Demands, Withholding
from reconciler.model.inventory import Inventory, Layer, Tree
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.recipes import folder_digest
from reconciler.model.resources import Binding, Config, Probe
from reconciler.model.status import Held, Summary
from reconciler.plan import desired as planning
from reconciler.plan.desired import Desired
from reconciler.runtime.objects import kit_files

_LOG = logging.getLogger("handler.look")

_SETTINGS = "handler.toml"

KIT = Path(__file__).resolve().parents[1] / "kit" / "handler_connector.py"


@dataclass(frozen=True, slots=True)
class Look:
    """One decided look: the admission, what is desired, and what the source says otherwise and waits."""

    admission: Admission
    desired: Desired
    held: Mapping[ObjectRef, Held] = field(default_factory=dict)
    flapping: Mapping[ObjectRef, str] = field(default_factory=dict)  # what changes too often, in words
    changed: bool = True  # False: the same tree as last time
    proofs: Demands = field(default_factory=dict)  # of bindings that ask for evidence
    waits: bool = False  # manual mode: the tree differs, and waits for `handler apply`


class Looker:
    """Looks at one configuration on top of the catalogue."""

    def __init__(
        self, place: Place, admitted: Admitted, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``clock`` is monotonic seconds: how fast things change."""
        self._holder = Holder(clock)
        self._flaps = FlapBook(place.state / "flapping.json", self._holder.flapping, clock)
        self._withholding = Withholding(place.state)
        self._clock = clock
        self._place = place
        self._admitted = admitted
        self._catalog = Source(folders.catalog(), Layer.CATALOG)
        self.source = Source(place.config, Layer.CONFIG)
        self._kit = kit_digest()
        self._trees: dict[Layer, Tree] = {}
        self.last: Look | None = None
        self.fault = ""  # why a restart would not serve the same, or ""
        self.rolling = Rolling(place.state, admitted, time.time)
        self.handled = ""  # when a person last asked for a look and was answered
        self._seen: Tree | None = None  # the source's own, whatever is served
        self._chooser = choosing.Chooser(self.source, place.config, place.state, place.surroundings())
        self._choice: choosing.Choice | None = None  # what was looked at last
        self._began_s = 0.0

    @property
    def admitted(self) -> Admitted:
        """The journal of what was admitted."""
        return self._admitted

    def first(self, tree: Tree | None = None) -> Look:
        """What was in force when the last controller ended, or what this ``tree`` holds; empty the first
        time.
        """
        catalog = self._catalog.scan()
        if not isinstance(catalog, Tree):
            raise OSError(f"the product's own catalogue cannot be read: {catalog.detail}")
        self._trees[Layer.CATALOG] = catalog
        if tree is None:
            admitted = self._admitted.load()
            self.rolling.load()
            self._flaps.load()
        else:
            admitted = tree
        self._trees[Layer.CONFIG] = admitted
        self.source.held_files = bool(admitted.files)
        self.last = self._judge(self._trees, _nothing) if tree is not None else self._resumed()
        return self.last

    def _resumed(self) -> Look:
        """Everything that was in force, also a form that is refused by now because what it rests on changed
        or was removed: a restart takes nothing away. But for what this place itself forbids.
        """
        inventory, where = load.inventory(self._trees), self._place.surroundings()
        first = admission_room.admit(inventory, {}, None, where)
        if not first.refused:
            return self._decided(first, {})
        anywhere = admission_room.admit(inventory, {}, None, replace(where, forbidden=()))
        kept = {
            ref: inventory.resources[ref]
            for ref, why in first.refused.items()
            if ref in inventory.resources and anywhere.refused.get(ref) == why
        }
        return self._decided(admission_room.admit(inventory, kept, None, where), {})

    def look(
        self, held_by: Collection[str] | None, hints: Collection[str] = (), *, prune_all: bool = False
    ) -> Look | Busy | Gone:
        """Look once and decide; what is in force is written down when this returns, and on the disk for an
        explicit apply.

        ``held_by`` names the bindings that open sessions use: their removal waits, as does that of one which
        an agent still selects; None (an explicit apply) does these, and is the only look that decides
        anything in manual mode. What may not be removed at once (``plan.pruning``) waits for ``prune_all``.
        ``hints`` are paths that changed.
        """
        self._began_s = time.monotonic()
        self._choice = self._chosen(hints)
        seen = self._choice.found
        if not isinstance(seen, Tree):
            return seen
        last, explicit = self.last, held_by is None
        self._seen, tree = seen, seen if explicit else self.rolling.instead_of(seen)
        if last and tree is self._trees.get(Layer.CONFIG) and not self._is_due(last, held_by):
            if self.fault:
                self._save(last, ends_rollback=tree is seen)
            proofs = self._withholding.look(last.admission, last.desired)
            self.last = last if proofs is last.proofs else replace(last, proofs=proofs)
            return replace(self.last, changed=False, waits=False)
        trees = {**self._trees, Layer.CONFIG: tree}
        if last and not explicit and self._is_manual(last, trees):
            return replace(last, changed=False, waits=True)
        hold = (
            partial(self._holder.asked, agreed=self._agreed(), prune_all=prune_all)
            if held_by is None
            else partial(self._holder.unasked, in_use=held_by, agreed=self._agreed())
        )
        self.last = self._judge(trees, hold)
        self._trees = trees
        self._save(self.last, ends_rollback=tree is seen, wait=explicit)
        self._flaps.save()
        return self.last

    def roll_back(self, wanted: str) -> Look:
        """Serve an earlier admitted revision ("": the previous one) until the source moves on, or the next
        explicit look; also where the source cannot be read, or is refused. A person asked for it, so nothing
        is held back. Raises ``rolling.NotKept``, and
        OSError where it cannot be written down.
        """
        self._began_s = time.monotonic()
        past = self.rolling.target(wanted)
        self._choice = self._chosen()
        if isinstance(self._choice.found, Tree):
            self._seen = self._choice.found  # else what was there before the merge, or the refused commit
        in_force = self.last.admission.in_force if self.last else {}
        self._trees = {**self._trees, Layer.CONFIG: self.rolling.begin(past, self._seen, in_force)}
        self.last = self._judge(self._trees, partial(self._holder.asked, prune_all=True))
        self._save(self.last)
        return self.last

    def _chosen(self, hints: Collection[str] = ()) -> choosing.Choice:
        """One look at the source that the settings in force name; those of an earlier revision that is served
        on purpose do not count for it.
        """
        admission = self.last.admission if self.last else None
        applied = admission.inventory.trees[Layer.CONFIG].revision if admission else ""
        wanted = settings_in_force(admission).source if admission and applied else None
        if self.rolling.current or (admission and applied and _never_said(admission)):
            wanted = self._chooser.kept
        return self._chooser.choose(wanted, applied, hints)

    @property
    def attempted(self) -> str:
        """The revision of the source that was last looked at, whatever is served."""
        if self._choice is not None and self._choice.attempted:
            return self._choice.attempted
        return self._seen.revision if self._seen else ""

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be said of the source although it was read."""
        return self._choice.notes if self._choice else ()

    def told(self, summary: Summary) -> Summary:
        """The summary with which revisions there were, and which is served on purpose."""
        entries = history.as_json(self._admitted.history)
        choice = self._choice
        refused = choice is not None and not isinstance(choice.found, Tree)
        attempted = self.attempted if self.rolling.current or refused else ""
        return replace(
            summary,
            last_attempted=attempted or summary.last_attempted,
            dirty=choice.dirty if choice else summary.dirty,
            history=entries,
            rollback=self.rolling.as_json(),
            handled=self.handled,
        )

    def due_after_s(self) -> float | None:
        """In how many seconds something held back is to be decided anew without a new word; None: never."""
        due_s = self._holder.due_s()
        return None if due_s is None else max(0.0, due_s - self._clock())

    def can_wait(self, paths: Collection[str]) -> bool:
        """Whether a hint of these paths needs no look of its own: what changes too often is seen in time."""
        return self._holder.can_wait(paths)

    def _is_due(self, last: Look, held_by: Collection[str] | None) -> bool:
        """Whether the same files may be decided otherwise now."""
        return bool(last.held or last.flapping) and self._holder.is_due(held_by)

    def _save(self, look: Look, *, ends_rollback: bool = False, wait: bool = True) -> None:
        """Make what is in force durable; a full disk is said, and tried again by the next look."""

        def save() -> None:
            if ends_rollback:
                self.rolling.end()
            self._admitted.save(look.admission, time.monotonic() - self._began_s, wait=wait)
            if self._choice is not None:
                self._chooser.keep(self._choice)

        self._trying(save)

    def settle(self) -> None:
        """Wait until what the last look put in force is on the disk."""
        if self._admitted.unsettled:
            self._trying(self._admitted.settle)

    def _trying(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            self.fault = f"what is in force cannot be written down: {error.strerror or error}"
            _LOG.warning("%s", self.fault)
        else:
            self.fault = ""

    def _is_manual(self, last: Look, trees: Mapping[Layer, Tree]) -> bool:
        """The mode that is in force decides; before anything ever was, the one that would be."""
        inventory, settings = last.admission.inventory, settings_in_force(last.admission)
        if not inventory.trees[Layer.CONFIG].revision:
            tree = trees[Layer.CONFIG]
            alone = {path: tree.files[path] for path in tree.files.keys() & {_SETTINGS}}
            settings = load.inventory({Layer.CONFIG: Tree(tree.revision, alone)}).config()
        return settings.reconcile.mode == "manual"

    def preview(self, tree: Tree | None = None, *, prune_all: bool = False) -> Look | Busy | Gone:
        """What an explicit apply would decide of the configuration, or of this ``tree``, changing nothing
        (not even what this looker remembers).
        """
        found = tree if tree is not None else self._chosen().found
        if not isinstance(found, Tree):
            return found
        hold = partial(self._holder.would_hold, agreed=self._agreed(), prune_all=prune_all)
        return self._judge({**self._trees, Layer.CONFIG: found}, hold)

    def would_wait(self, previewed: Look, in_use: Collection[str]) -> HeldBack:
        """What would be left as it was, were the files only saved as they were previewed; ``in_use``: the
        bindings of open sessions.
        """
        if self.last is None:
            return {}
        inventory = previewed.admission.inventory
        return self._holder.would_wait(self.last.admission, inventory, in_use, self._agreed())

    def _agreed(self) -> Set[ObjectRef]:
        """What is in force by a rollback alone: it was gone before, so its end may take it away again."""
        return self.rolling.brought_back(self.last.admission.in_force if self.last else {})

    def _judge(self, trees: Mapping[Layer, Tree], hold: Callable[[Admission, Inventory], HeldBack]) -> Look:
        before = self.last.admission if self.last else None
        inventory = load.inventory(trees, before.inventory if before else None)
        last = before.in_force if before else {}
        held = hold(before, inventory) if before else {}
        judged = held_in(inventory, before, held) if before else inventory
        admission = admission_room.admit(judged, last, before, self._place.surroundings())
        return self._decided(admission, held)

    def _decided(self, admission: Admission, held: HeldBack) -> Look:
        was = self.last.desired if self.last else None
        desired = planning.desire(
            admission,
            generation=was.table.generation + 1 if was else 1,
            kit=self._kit,
            home=str(Path.home()),
            previous=was,
        )
        proofs = self._withholding.look(admission, desired)
        return Look(admission, desired, held, self._holder.flaps(), proofs=proofs)


def probe_in_force(admission: Admission, binding: str) -> Probe:
    """What may be asked of a binding besides real calls."""
    form = admission.in_force.get(ObjectRef(Kind.BINDING, binding))
    return form.spec.probe if form is not None and isinstance(form.spec, Binding) else Probe()


def settings_in_force(admission: Admission) -> Config:
    """The settings of ``handler.toml``: its last good form where the newest is refused."""
    return settings_said(admission) or Config()


def settings_said(admission: Admission) -> Config | None:
    """The same; None where no file says any."""
    found = admission.in_force.get(ObjectRef(Kind.CONFIG, "handler"))
    return found.spec if found is not None and isinstance(found.spec, Config) else None


def _never_said(admission: Admission) -> bool:
    """There is a ``handler.toml``, refused, and no earlier form of it: then it decides nothing anew."""
    ref = ObjectRef(Kind.CONFIG, "handler")
    return ref in admission.refused and ref not in admission.in_force


def _nothing(before: Admission, inventory: Inventory) -> HeldBack:
    return {}


def kit_digest() -> str:
    """The digest of the connector kit that this product mounts into python connectors."""
    return folder_digest(kit_files(KIT))
