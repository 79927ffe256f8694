"""Both layers' trees to one inventory: every object found, and every problem of its text.

Nothing here raises on what people write. A file belongs to an object by its path; an object is read anew only
when one of its files changed, and is otherwise the same value as before, by identity. So a pass costs one
look at every path and the parsing of what changed. What objects say of each other is admission's to judge,
but for one question that only paths answer: whether two files claim one name.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from reconciler.config import claims, objects, strays
from reconciler.config.objects import Unit
from reconciler.config.paths import LOCK, Home, Owner, home
from reconciler.model.identity import Edited, moved
from reconciler.model.inventory import Inventory, Layer, Lock, Resource, Tree
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.problems import Problem
from reconciler.model.resources import Record

Exchange = tuple[Unit | None, Unit | None]  # before, after

_EMPTY = Tree("", {})


@dataclass(frozen=True, slots=True)
class _Seen:
    """One layer as it was last read: what the next reading is compared with."""

    tree: Tree
    units: Mapping[str, Unit]  # by the path of the defining file, or of whatever belongs to no object


@dataclass(frozen=True, slots=True)
class _Memory:
    layers: Mapping[Layer, _Seen]
    locks: Mapping[Layer, Lock]
    resources: Mapping[ObjectRef, Resource[Record]]
    problems: tuple[Problem, ...]


def inventory(trees: Mapping[Layer, Tree], previous: Inventory | None = None) -> Inventory:
    """Everything found in the trees. Never raises for what they hold.

    With ``previous``, an inventory of the same two layers, objects whose files did not change keep their
    identity; the result equals that of a first reading.
    """
    memory = previous.memory if previous is not None and isinstance(previous.memory, _Memory) else None
    layers: dict[Layer, _Seen] = {}
    pairs: list[Exchange] = []
    for layer in Layer:
        before = memory.layers[layer] if memory else None
        layers[layer], exchanged = _layer(layer, trees.get(layer, _EMPTY), before)
        pairs += exchanged
    memory = _settled(layers, pairs, memory)
    return Inventory(
        revision=layers[Layer.CONFIG].tree.revision,
        resources=memory.resources,
        problems=memory.problems,
        sources=_Sources({layer: seen.tree.files for layer, seen in layers.items()}),
        locks=memory.locks,
        trees={layer: seen.tree for layer, seen in layers.items()},
        memory=memory,
    )


class _Sources(Mapping[tuple[Layer, str], bytes]):
    """The bytes of every file of both layers: a view, since few are ever asked for."""

    __slots__ = ("_files",)

    def __init__(self, files: Mapping[Layer, Mapping[str, bytes]]) -> None:
        self._files = files

    def __getitem__(self, key: tuple[Layer, str]) -> bytes:
        layer, path = key
        return self._files[layer][path]

    def __iter__(self) -> Iterator[tuple[Layer, str]]:
        return ((layer, path) for layer, files in self._files.items() for path in files)

    def __len__(self) -> int:
        return sum(map(len, self._files.values()))


def _settled(layers: Mapping[Layer, _Seen], pairs: Collection[Exchange], memory: _Memory | None) -> _Memory:
    """Whose every name is; what was settled before stands where objects only took a new form."""
    if memory is not None:
        resources = claims.with_new_forms(memory.resources, pairs)
        if resources is not None:
            return _Memory(layers, memory.locks, resources, memory.problems)
    resources, problems = claims.settled({layer: seen.units.values() for layer, seen in layers.items()})
    locks = {layer: _lock(seen) for layer, seen in layers.items()}
    return _Memory(layers, locks, resources, problems)


# one layer


def _layer(layer: Layer, tree: Tree, seen: _Seen | None) -> tuple[_Seen, Collection[Exchange]]:
    """The layer as it is now, and which units took the place of which since it was seen."""
    if seen is None:
        return _Seen(tree, _units(layer, tree, (*tree.files, *tree.faults))), ()
    changed = _changed(tree, seen.tree)
    if not changed:
        return _Seen(tree, seen.units), ()
    # Whose a path is can change with a fault, so both its owners are read anew.
    owners = (_home(path, one) for path in changed for one in (tree, seen.tree))
    touched = {owner.key: owner for owner in owners if owner is not None}
    again = _units(layer, tree, _paths_of(touched.values(), tree))
    units = Edited(seen.units)  # what is read anew keeps its place: two readings are compared in their order
    for key in touched.keys() - again.keys():
        units.pop(key, None)
    units.update(again)
    keys = touched.keys() | again.keys()
    return _Seen(tree, units), [(seen.units.get(key), again.get(key)) for key in keys]


def _changed(tree: Tree, before: Tree) -> set[str]:
    """The paths whose bytes, mode or fault differ; equal bytes do not, whoever read them."""
    now, was = tree.files, before.files
    paths = {path for path in moved(was, now) if was.get(path) != now.get(path)}
    paths |= {path for path, _ in tree.faults.items() ^ before.faults.items()}
    return paths | (tree.executable ^ before.executable)


def _paths_of(homes: Collection[Home], tree: Tree) -> Collection[str]:
    """Every path that belongs to one of the homes; the whole tree is looked through only for folders."""
    paths = {one.key: None for one in homes if one.key in tree.files or one.key in tree.faults}
    folders = {one.folder or one.key.removesuffix("/") for one in homes if one.folder or one.key[-1:] == "/"}
    if folders:
        inside = tuple(f"{folder}/" for folder in folders)
        for path in (*tree.files, *tree.faults):
            if path.startswith(inside) or path in folders:
                paths[path] = None
    return paths.keys()


def _units(layer: Layer, tree: Tree, paths: Iterable[str]) -> dict[str, Unit]:
    units: dict[str, Unit] = {}
    gathered: dict[str, tuple[Home, list[str]]] = {}
    for path in paths:
        one = _home(path, tree)
        if one is None:
            continue
        if one.key == path and not one.folder:  # most objects are one file
            units[path] = _unit(layer, one, tree, [path])
        else:
            gathered.setdefault(one.key, (one, []))[1].append(path)
    for key, (one, own) in gathered.items():
        units[key] = _unit(layer, one, tree, own)
    return units


_CONFIGURATIONS_ALONE = (Kind.CONFIG, Kind.POLICY, Kind.APPROVAL)


def _unit(layer: Layer, one: Home, tree: Tree, own: list[str]) -> Unit:
    if one.owner is Owner.OBJECT and not (layer is Layer.CATALOG and one.kind in _CONFIGURATIONS_ALONE):
        return objects.unit(layer, one, tree, own)
    return strays.unit(one, tree, own)


def _home(path: str, tree: Tree) -> Home | None:
    """Whose a path is; an object's folder that was not read is the object's. None: passed over."""
    one = home(path)
    if one.owner is Owner.NOBODY and path in tree.faults:
        inside = home(f"{path}/x")
        return inside if inside.owner is Owner.OBJECT else one
    return None if one.owner is Owner.PASSED_OVER else one


def _lock(seen: _Seen) -> Lock:
    """The layer's lock; one that is missing, or cannot be read, publishes nothing."""
    unit = seen.units.get(LOCK)
    return (unit.lock if unit else None) or Lock()
