"""Which file a name belongs to, where more than one claims it: never the last one read.

A configuration adds to the catalogue and never changes it, so a file of its own with a catalogue's name is
refused and the catalogue's object stands. Within a layer, names that are one once case and width are folded
refuse every file that claims them.
"""

import unicodedata
from collections.abc import Collection, Iterator, Mapping

from reconciler.config.codes import CODES
from reconciler.config.objects import Unit
from reconciler.model.identity import Edited
from reconciler.model.inventory import Layer, Resource
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.problems import Problem, Span, in_order, quoted
from reconciler.model.resources import Record

Resources = Mapping[ObjectRef, Resource[Record]]


def settled(units: Mapping[Layer, Collection[Unit]]) -> tuple[Resources, tuple[Problem, ...]]:
    """The resources of both layers and all their problems, in order, once every name is settled."""
    resources: dict[ObjectRef, Resource[Record]] = {}
    problems: list[Problem] = []
    shipped = {unit.ref for unit in units[Layer.CATALOG] if unit.ref is not None}
    for layer in (Layer.CATALOG, Layer.CONFIG):
        odd: list[tuple[ObjectRef, Unit]] = []
        for unit in units[layer]:
            if layer is Layer.CONFIG and unit.ref is not None and unit.ref in shipped:
                problems.append(_shadow(unit.ref, unit.file))
                continue
            problems.extend(unit.problems)
            if unit.resource is not None:
                resources[unit.resource.ref] = unit.resource
            if unit.odd and unit.ref is not None:
                odd.append((unit.ref, unit))
        for ref, file, other in (*_folded_alike(odd, units[layer]), *_claimed_twice(units[layer])):
            problems.append(_duplicate(ref, file, other))
            resources.pop(ref, None)
    return Edited(resources), in_order(problems)


def with_new_forms(
    resources: Resources, pairs: Collection[tuple[Unit | None, Unit | None]]
) -> Resources | None:
    """The resources once these units (before, after) took new forms; None when names or problems must be
    settled anew.
    """
    if not pairs:
        return resources
    found = Edited(resources)
    for old, new in pairs:
        if old is None or new is None or old.resource is None or new.resource is None:
            return None
        is_plain = old.ref == new.ref and not (old.problems or new.problems or old.odd or new.odd)
        if not is_plain or resources.get(old.resource.ref) is not old.resource:
            return None
        found[new.resource.ref] = new.resource
    return found


def _folded_alike(
    odd: Collection[tuple[ObjectRef, Unit]], units: Collection[Unit]
) -> Iterator[tuple[ObjectRef, str, str]]:
    """Each name that is another's once folded, with its file and the other's.

    Legal names are folded already, so there can be two only where an odd one stands.
    """
    if not odd:
        return
    alike: dict[ObjectRef, list[tuple[ObjectRef, str]]] = {}
    for ref, unit in odd:
        alike.setdefault(_folded(ref), []).append((ref, unit.file))
    for unit in units:
        if unit.ref is not None and not unit.odd and unit.ref in alike:
            alike[unit.ref].append((unit.ref, unit.file))
    for group in alike.values():
        if len(group) > 1:
            for number, (ref, file) in enumerate(group):
                yield ref, file, group[number - 1][1]


def _claimed_twice(units: Collection[Unit]) -> Iterator[tuple[ObjectRef, str, str]]:
    """Each chain that is written twice, as JSON and as TOML, with both files."""
    files: dict[ObjectRef, list[str]] = {}
    for unit in units:
        if unit.ref is not None and unit.ref.kind is Kind.CHAIN:
            files.setdefault(unit.ref, []).append(unit.file)
    for ref, both in files.items():
        if len(both) > 1:
            yield ref, *sorted(both, reverse=True)  # type: ignore[misc]  # there are two endings


def _folded(ref: ObjectRef) -> ObjectRef:
    name = unicodedata.normalize("NFKC", ref.name).casefold()
    return ObjectRef(ref.kind, unicodedata.normalize("NFKC", name))


def _shadow(ref: ObjectRef, file: str) -> Problem:
    return Problem(
        CODES[ref.kind].duplicate,
        f"the catalogue has {quoted(ref)} already",
        "a configuration adds to the catalogue and never changes it",
        "use the next free version" if ref.kind is Kind.INTERFACE else "give it another name",
        Span(file, 1, 1),
        reason="DuplicateName",  # about no object: the catalogue's is not refused
    )


def _duplicate(ref: ObjectRef, file: str, other: str) -> Problem:
    return Problem(
        CODES[ref.kind].duplicate,
        f"{quoted(file)} and {quoted(other)} claim one name",
        "names are compared without case: some file systems cannot keep such files apart",
        "rename one of them",
        Span(file, 1, 1),
        about=ref,
        reason="DuplicateName",
        candidates=(other,),
    )
