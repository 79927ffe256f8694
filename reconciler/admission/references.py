"""Where the references of a schema lead: to a place inside it, without a loop, and to a bounded whole.

References are followed as a harness that writes them out would: the walk ends on a loop, on more than 32
levels, or with the weight of the whole, so that a doubling chain cannot hide in a short text.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from reconciler.admission.findings import Finding
from reconciler.admission.nodes import BRANCHES, Node, children, is_text, mapping, seq
from reconciler.model.problems import Path

MAX_NODES = 5_000  # schema nodes with references written out: a doubling chain of references counts
MAX_DEPTH = 32


def resolve(root: Mapping[str, Any], reference: str) -> Mapping[str, Any] | None:
    """The schema that a ``#/…`` reference points at, or None: an object that is no schema (a default, an
    example, the properties themselves) was judged by no rule, and engines take it for one that is open.
    """
    parts = [part.replace("~1", "/").replace("~0", "~") for part in reference.removeprefix("#/").split("/")]
    found: object = root
    while parts:
        word = parts.pop(0)
        if not isinstance(found, Mapping) or word not in found:
            return None
        found = found[word]
        if word in ("properties", "$defs") and parts:
            found = mapping(found).get(parts.pop(0))
        elif word in BRANCHES and parts:
            index = parts.pop(0)
            found = seq(found)[int(index)] if _is_index(index, found) else None
        elif word not in ("items", "additionalProperties"):
            return None
    return found if isinstance(found, Mapping) else None


def _is_index(text: str, values: object) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 6 and int(text) < len(seq(values))


def end(schema: Mapping[str, Any]) -> Iterator[Finding]:
    """References do not loop, and written out they stay within bounds."""
    why = "a harness that writes references out must come to an end"
    try:
        total = _Expansion(schema).weight(Node((), schema, schema, ""), 0)
    except _Endless as endless:
        yield Finding("I227", endless.path, endless.what, why, "state a bounded shape without recursion")
        return
    if total > MAX_NODES:
        yield Finding(
            code="I227",
            path=(),
            what=f"the schema has {total} nodes with its references written out",
            why=f"{why}: at most {MAX_NODES} nodes",
            mend="state a smaller shape",
        )


@dataclass(slots=True)
class _Expansion:
    """Walks a schema with every reference written out; remembers the weight of what it has left."""

    root: Mapping[str, Any]
    weights: dict[int, int] = field(default_factory=dict)
    inside: set[int] = field(default_factory=set)

    def weight(self, node: Node, depth: int) -> int:
        """Nodes below, references included; raises _Endless on a loop or a depth of more than 32."""
        me = id(node.value)
        if me in self.inside:
            raise _Endless(node.path, "the reference leads back to itself")
        if depth > MAX_DEPTH:
            raise _Endless(
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


class _Endless(Exception):  # noqa: N818 - names what the schema is
    def __init__(self, path: Path, what: str) -> None:
        super().__init__(what)
        self.path = path
        self.what = what
