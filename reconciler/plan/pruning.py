"""Which removals are not done: what nobody asked to lose at once, and what somebody still needs. Pure.

A removal is an object of the configuration's own that was in force and whose file is gone; what is refused or
cannot be read was not removed. Four sorts stay in force in their last form:

* **too much at once** (``PruneBlocked``): everything; or, where more than one object goes, more than
  ``prune.maxFraction`` of all objects or of one kind. Then nothing of that edit is removed. One object alone
  may always go, unless it is the last one; ``prune.allowEmpty`` lets everything go. ``handler.toml`` is not
  counted.
* **too much within a minute** (``AwaitingApply``): an edit that is small by itself, but too much together
  with what was removed in the minute before, since a folder which is deleted slowly is no series of small
  edits; and what was too much and is so no more, for objects came since. It stays so until some of it comes
  back or a person applies: each sort is told by what an apply makes of it.
* **required** (``PruneBlocked``): a binding that an agent selects for an interface it ``requires``.
* **in use** (``AwaitingApply``): a binding that an agent selects or an open session uses: apply removes it.

What only a rollback brought back (``Edit.agreed``) was gone before it, as the rules or a person had it. So
its going at the end of the rollback is never too much, and an apply removes it whoever requires it.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import cast

from reconciler.admission import wiring
from reconciler.model.inventory import Inventory, Layer, Resource
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.resources import Agent, Binding, Project, Record
from reconciler.model.settings import Prune
from reconciler.model.status import Held

COMMAND = "handler apply --prune=all"
LATELY_S = 60.0  # longer than deleting ten thousand files takes, shorter than a person's next thought

Forms = Mapping[ObjectRef, Resource[Record]]


@dataclass(frozen=True, slots=True)
class Memory:
    """What the next look has to know: what was removed unasked and when, and what is blocked as too much."""

    lately: Mapping[ObjectRef, float] = field(default_factory=dict)
    blocked: frozenset[ObjectRef] = frozenset()
    limits: Prune | None = None  # by which it is blocked
    words: str = ""


@dataclass(frozen=True, slots=True)
class Edit:
    """One edit: the ``inventory`` as read, the ``forms`` in force before it, and those that are ``gone``."""

    inventory: Inventory
    forms: Forms
    gone: Forms
    limits: Prune
    agreed: Set[ObjectRef] = frozenset()  # was gone before, and is back by a rollback alone

    @property
    def fresh(self) -> "Edit":
        """The edit without what is agreed."""
        if not self.agreed:
            return self
        forms, gone = (
            {ref: form for ref, form in found.items() if ref not in self.agreed}
            for found in (self.forms, self.gone)
        )
        return Edit(self.inventory, forms, gone, self.limits)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What of an edit is held, and what to remember of it."""

    held: Mapping[ObjectRef, Held]
    memory: Memory


def judged(edit: Edit, in_use: Collection[str], memory: Memory, now_s: float) -> Verdict:
    """An edit that nobody asked for: all four sorts are held. ``in_use``: bindings of open sessions."""
    lately = _still_lately(edit, memory, now_s)
    new, held = edit.fresh, _needed(edit, in_use)
    if words := _too_much(new, ()):
        held = {**held, **_all_held(new, words)}
        return Verdict(held, Memory(lately, frozenset(new.gone), edit.limits, words))
    if words := _too_much(new, lately) or _as_before(new, memory):
        waits = {**_all_waiting(new, words), **held}
        return Verdict(waits, Memory(lately, frozenset(new.gone), edit.limits, words))
    removed = dict.fromkeys(new.gone.keys() - held.keys(), now_s)
    return Verdict(held, Memory({**lately, **removed}))


def asked(edit: Edit) -> Verdict:
    """An edit that a person asked for: what is too much and what is required is held, nothing else waits."""
    edit = edit.fresh
    if words := _too_much(edit, ()):
        return Verdict(_all_held(edit, words), Memory({}, frozenset(edit.gone), edit.limits, words))
    held = _needed(edit, ())
    return Verdict({ref: one for ref, one in held.items() if one.reason == "PruneBlocked"}, Memory())


def too_much(own: Collection[ObjectRef], gone: Collection[ObjectRef], limits: Prune) -> str:
    """The share that may not go at once, in words (``all 5 bindings``), or "" when ``gone`` may.

    ``own`` holds every object there was, ``gone`` included. The first to be named are kinds, then the whole.
    """
    own = [ref for ref in own if ref.kind is not Kind.CONFIG]
    gone = [ref for ref in gone if ref.kind is not Kind.CONFIG]
    if not gone:
        return ""
    if len(gone) == len(own):
        return "" if limits.allow_empty else _share(own, gone)
    all_of, gone_of = Counter(ref.kind for ref in own), Counter(ref.kind for ref in gone)
    kinds = [kind for kind in Kind if gone_of[kind] > _allowed(all_of[kind], limits)]
    if kinds:
        return _and(_counted(gone_of[kind], all_of[kind], f"{kind.value}s") for kind in kinds)
    return _share(own, gone) if len(gone) > _allowed(len(own), limits) else ""


def summed_up(held: Mapping[ObjectRef, Held]) -> str:
    """What the configuration's own condition says while something is blocked, or ""."""
    blocked = [ref for ref, one in held.items() if one.reason == "PruneBlocked"]
    if not blocked:
        return ""
    kinds = Counter(ref.kind.value for ref in blocked)
    counts = _and(f"{kinds[kind]} {kind}{'s' * (kinds[kind] > 1)}" for kind in sorted(kinds))
    verb = "stays" if len(blocked) == 1 else "stay"
    return f"{counts} {verb} in force though removed: {held[min(blocked)].message}"


def _allowed(count: int, limits: Prune) -> float:
    return max(1.0, count * limits.max_fraction + 1e-9)  # 0.29 * 100 is a little less than 29


def _and(words: Iterable[str]) -> str:
    return " and ".join(words)


def _share(own: Collection[ObjectRef], gone: Collection[ObjectRef]) -> str:
    kinds = {ref.kind for ref in own}
    word = f"{next(iter(kinds)).value}s" if len(kinds) == 1 else "objects"
    return _counted(len(gone), len(own), word)


def _counted(gone: int, of: int, word: str) -> str:
    if gone < of:
        return f"{gone} of {of} {word}"
    return f"all {of} {word}" if of > 1 else f"the only {word.removesuffix('s')}"


def _too_much(edit: Edit, lately: Collection[ObjectRef]) -> str:
    if not edit.gone:
        return ""  # nothing could be held
    own = {ref for ref, form in edit.forms.items() if form.layer is Layer.CONFIG}
    return too_much(own | set(lately), edit.gone.keys() | set(lately), edit.limits)


def _still_lately(edit: Edit, memory: Memory, now_s: float) -> dict[ObjectRef, float]:
    """What was removed within the last minute and did not come back."""
    return {
        ref: at_s
        for ref, at_s in memory.lately.items()
        if now_s - at_s < LATELY_S and ref not in edit.inventory.resources
    }


def _as_before(edit: Edit, memory: Memory) -> str:
    """The words by which it was too much, while all of that is still gone and the limits are the same."""
    stands = memory.blocked and memory.blocked <= edit.gone.keys() and memory.limits == edit.limits
    return memory.words if stands else ""


def _all_held(edit: Edit, words: str) -> dict[ObjectRef, Held]:
    message = (
        f"{words} of this configuration would go at once: `{COMMAND}` removes what is gone from the files, "
        "until then it serves"
    )
    return dict.fromkeys(edit.gone, Held("PruneBlocked", message))


def _all_waiting(edit: Edit, words: str) -> dict[ObjectRef, Held]:
    message = (
        f"its file is gone, and {words} of this configuration went within a minute: "
        "`handler apply` removes it, until then it serves"
    )
    return dict.fromkeys(edit.gone, Held("AwaitingApply", message))


_OPENS = (
    "its file is gone, and without it all that connectors list may be reached: `handler apply` removes it"
)


def _needed(edit: Edit, in_use: Collection[str]) -> dict[ObjectRef, Held]:
    """Bindings that are gone and needed, each with its connector where that is gone too; and a policy, since
    without it more may leave.
    """
    bindings = [ref for ref in edit.gone if ref.kind is Kind.BINDING]
    held = {ref: Held("AwaitingApply", _OPENS) for ref in edit.gone if ref.kind is Kind.POLICY}
    if not bindings:
        return held
    uses = _Uses(edit)
    for ref in bindings:
        one = uses.held(ref.name, in_session=ref.name in in_use)
        if one is None:
            continue
        held[ref] = one
        spec = edit.gone[ref].spec
        connector = ObjectRef(Kind.CONNECTOR, (spec.connector if isinstance(spec, Binding) else "") or "")
        if connector in edit.gone:
            held[connector] = Held(one.reason, f"its files are gone, and {ref} rests on it: {one.message}")
    return held


class _Uses:
    """Who selects which binding, of the agents and projects that stay: by their newest form, or their last
    where the newest is refused.
    """

    def __init__(self, edit: Edit) -> None:
        self._selects: dict[str, set[str]] = {}
        self._requires: dict[str, set[str]] = {}
        stays = dict(_staying(edit))
        for form in stays.values():
            if isinstance(form.spec, Project):
                self._note(self._selects, cast("Resource[Project]", form), f"agent of {form.ref}")
            elif isinstance(form.spec, Agent):
                self._agent(cast("Resource[Agent]", form), stays)

    def held(self, binding: str, *, in_session: bool) -> Held | None:
        """Why a binding that is gone stays in force, or None."""
        if needed := sorted(self._requires.get(binding, ())):
            who = f"{', '.join(needed)} require{'s' * (len(needed) == 1)} what it answers"
            return Held(
                "PruneBlocked",
                f"its file is gone, but {who}: rebind first; `{COMMAND}` removes it all the same",
            )
        users = sorted(self._selects.get(binding, ())) + ["an open session"] * in_session
        if not users:
            return None
        who = ", ".join(users)
        return Held("AwaitingApply", f"its file is gone, but {who} uses it: `handler apply` removes it")

    def _agent(self, agent: Resource[Agent], stays: Forms) -> None:
        self._note(self._selects, agent, str(agent.ref))
        name = agent.spec.project
        project = stays.get(ObjectRef(Kind.PROJECT, name)) if name else None
        shared = cast("Resource[Project]", project) if project else None
        effective = {**(wiring.choices(shared) if shared else {}), **wiring.choices(agent)}
        for one in [*(wiring.requirements(shared) if shared else ()), *wiring.requirements(agent)]:
            choice = effective.get(one.version.name)
            for binding in choice.bindings if choice else ():
                self._requires.setdefault(binding, set()).add(str(agent.ref))

    def _note(
        self, uses: dict[str, set[str]], where: Resource[Agent] | Resource[Project], label: str
    ) -> None:
        for choice in wiring.choices(where).values():
            for binding in choice.bindings:
                uses.setdefault(binding, set()).add(label)


def _staying(edit: Edit) -> Iterator[tuple[ObjectRef, Resource[Record]]]:
    """The agents and projects that there still are, in the form that counts."""
    for ref, form in edit.inventory.resources.items():
        if ref.kind in (Kind.AGENT, Kind.PROJECT):
            yield ref, form
    for ref, form in edit.forms.items():
        if ref.kind in (Kind.AGENT, Kind.PROJECT) and not (
            ref in edit.inventory.resources or ref in edit.gone
        ):
            yield ref, form


def removed(
    inventory: Inventory, forms: Forms, suspects: Iterable[ObjectRef]
) -> dict[ObjectRef, Resource[Record]]:
    """The ``suspects`` that were in force and are removed: ours, and no file is left, refused or unread."""
    return {
        ref: forms[ref]
        for ref in suspects
        if _was_ours(forms, ref) and ref not in inventory.resources and not _is_there(inventory, forms[ref])
    }


def _was_ours(forms: Forms, ref: ObjectRef) -> bool:
    return ref in forms and forms[ref].layer is Layer.CONFIG


def _is_there(inventory: Inventory, form: Resource[Record]) -> bool:
    """The file is there and refused, or cannot be read: that is no removal."""
    tree = inventory.trees[form.layer]
    return (form.layer, form.file) in inventory.sources or tree.unread(form.file) is not None
