"""A JSON Schema as nodes: every schema inside a schema, where it stands, and what is found there.

Walking is separate from judging: ``subset`` and ``fields`` judge one node at a time, and what they find has
a path inside the schema. A walk follows the document; ``references`` follows where references lead.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from reconciler.admission.findings import Finding
from reconciler.model.problems import Path, quoted

BRANCHES = ("anyOf", "oneOf", "allOf")


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
    """The finding that anything but an object is where a schema should stand."""
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
    """Whether a value of a schema, which may be anything, is text."""
    return isinstance(value, str)


def seq(value: object) -> list[Any]:
    """A list as it is, anything else as an empty one."""
    return value if isinstance(value, list) else []


def mapping(value: object) -> Mapping[str, Any]:
    """An object as it is, anything else as an empty one."""
    return value if isinstance(value, Mapping) else {}
