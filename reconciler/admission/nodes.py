"""A JSON Schema as nodes: every schema inside a schema, where it stands, and where its references lead.

Walking is separate from judging: ``subset`` and ``fields`` judge one node at a time. A walk follows the
document; ``Expansion`` follows references too, as a harness that writes them out would, and ends on a loop,
on more than 32 levels or with the weight of the whole, so that a doubling chain cannot hide in a short text.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from reconciler.model.problems import Path, Severity, quoted

MAX_DEPTH = 32
BRANCHES = ("anyOf", "oneOf", "allOf")


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of a schema; ``path`` is relative to the schema."""

    code: str
    path: Path
    what: str
    why: str
    mend: str
    severity: Severity = Severity.ERROR
    on_key: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """One schema inside a schema. ``closed`` says that a branch refines a record that is closed already."""

    path: Path
    value: Mapping[str, Any]
    root: Mapping[str, Any]
    side: str  # inputSchema or outputSchema
    closed: bool = False

    def types(self) -> frozenset[str]:
        stated = self.value.get("type", ())
        return frozenset([stated] if isinstance(stated, str) else filter(is_text, seq(stated)))


def walk(schema: Mapping[str, Any], side: str) -> tuple[list[Node], list[Finding]]:
    """Every schema inside a schema, the root first, and a finding for each place that holds none."""
    nodes: list[Node] = []
    broken: list[Finding] = []
    waiting = [Node((), schema, schema, side)]
    while waiting:
        node = waiting.pop()
        nodes.append(node)
        for path, value, closed in children(node):
            if isinstance(value, Mapping):
                waiting.append(Node(path, value, schema, side, closed))
            else:
                broken.append(no_record(path, f"{quoted(_last(path))} is not an object of keywords"))
    return nodes, broken


def resolve(root: Mapping[str, Any], reference: str) -> object:
    """What a ``#/…`` reference points at, or None."""
    found: object = root
    for part in reference.removeprefix("#/").split("/"):
        word = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping):
            found = found.get(word)
        elif isinstance(found, list) and word.isdigit() and int(word) < len(found):
            found = found[int(word)]
        else:
            return None
    return found


@dataclass(slots=True)
class Expansion:
    """Walks a schema with every reference written out; remembers the weight of what it has left."""

    root: Mapping[str, Any]
    weights: dict[int, int] = field(default_factory=dict)
    inside: set[int] = field(default_factory=set)

    def weight(self, node: Node, depth: int) -> int:
        """Nodes below, references included; raises Endless on a loop or a depth of more than 32."""
        me = id(node.value)
        if me in self.inside:
            raise Endless(node.path, "the reference leads back to itself")
        if depth > MAX_DEPTH:
            raise Endless(
                node.path, f"the schema is more than {MAX_DEPTH} deep with its references written out"
            )
        if me in self.weights:
            return self.weights[me]
        self.inside.add(me)
        total = 1
        for path, value, _ in children(node):
            if isinstance(value, Mapping):
                total += self.weight(Node(path, value, self.root, node.side), depth + 1)
        target = node.value.get("$ref")
        if is_text(target) and target.startswith("#/"):
            found = resolve(self.root, target)
            if isinstance(found, Mapping):
                total += self.weight(Node((*node.path, "$ref"), found, self.root, node.side), depth + 1)
        self.inside.discard(me)
        self.weights[me] = total
        return total


class Endless(Exception):  # noqa: N818 - names what the schema is
    def __init__(self, path: Path, what: str) -> None:
        super().__init__(what)
        self.path = path
        self.what = what


def children(node: Node) -> Iterator[tuple[Path, object, bool]]:
    """The places of a node that hold schemas: path, what stands there, whether a closed record is refined."""
    for word in ("properties", "$defs"):
        for name, value in mapping(node.value.get(word)).items():
            yield (*node.path, word, name), value, False
    if "items" in node.value:
        yield (*node.path, "items"), node.value["items"], False
    extra = node.value.get("additionalProperties", False)
    if extra is not False and "properties" not in node.value and extra is not True:
        yield (*node.path, "additionalProperties"), extra, False
    closed = node.closed or node.value.get("additionalProperties") is False
    for word in BRANCHES:
        for index, value in enumerate(seq(node.value.get(word))):
            yield (*node.path, word, index), value, closed


def no_record(path: Path, what: str) -> Finding:
    return Finding(
        code="I222",
        path=path,
        what=what,
        why="true, false and lists in the place of a schema leave the value open or impossible",
        mend='write an object of keywords with a "type"',
    )


def _last(path: Path) -> object:
    return path[-1] if path else "schema"


def is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str)


def seq(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
