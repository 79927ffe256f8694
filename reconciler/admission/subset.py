"""The portable subset of JSON Schema 2020-12 that every agent harness and both of our engines read alike.

A schema is hostile input: the meta-schema is happy with a misspelt ``additionalproperties`` that leaves an
object open, with a reference to another host, with a pattern that each engine reads differently. So keywords
come from a list, every record is closed in every branch, references stay inside and end, patterns are
ECMA-262 with flag u and run in linear time, and files stand only where the router looks for them
(router.md, reliability.md §3.9 Q12 and Q13, S2, S4). Nothing here reads a file: schemas in, findings out.
"""

from collections.abc import Callable, Iterator, Mapping

from reconciler.admission import fields, references
from reconciler.admission.findings import Finding
from reconciler.admission.nodes import (
    BRANCHES,
    Node,
    is_text,
    mapping,
    no_record,
    seq,
    walk,
)
from reconciler.admission.view import nearest
from reconciler.model.problems import quoted

# fmt: off
_ALLOWED = frozenset({
    "type", "properties", "required", "additionalProperties", "items", "minItems", "maxItems", "uniqueItems",
    "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength",
    "maxLength", "pattern", "format", "title", "description", "default", "examples", "minProperties",
    "maxProperties", "$ref", "$defs", "deprecated", *BRANCHES,
})
_OUTSIDE = {  # legal JSON Schema, and why it is not portable
    "prefixItems": "several harnesses do not know it",
    "$schema": "the dialect is fixed, and some harnesses refuse the keyword",
    "$id": "it moves what references mean",
    "$anchor": "it names a place that not every reader finds",
    "$dynamicRef": "what it means depends on who refers",
    "$dynamicAnchor": "what it means depends on who refers",
    "$vocabulary": "the dialect is fixed",
    "$comment": "a model would read it as text of the contract",
    "definitions": "2020-12 calls it $defs",
    "dependencies": "2020-12 does not know it",
    "additionalItems": "2020-12 does not know it",
} | dict.fromkeys((
    "not", "if", "then", "else", "dependentSchemas", "dependentRequired", "patternProperties",
    "propertyNames", "contains", "minContains", "maxContains", "unevaluatedProperties", "unevaluatedItems",
    "contentEncoding", "contentMediaType", "contentSchema", "readOnly", "writeOnly", "$recursiveRef",
    "$recursiveAnchor",
), "not every harness reads it alike")
_BESIDE_A_REFERENCE = frozenset({"$ref", "title", "description", "default", "examples", "deprecated"})
# fmt: on


def findings(schema: object, side: str) -> Iterator[Finding]:
    """Every fault of one schema, root first; ``side`` is ``inputSchema`` or ``outputSchema``."""
    if not isinstance(schema, Mapping):
        yield no_record((), "the schema is not an object of keywords")
        return
    if schema.get("type") != "object":
        yield Finding(
            code="I211",
            path=("type",) if "type" in schema else (),
            what="the schema's root is not of type object",
            why="a tool takes and returns one object, and harnesses refuse any other root",
            mend='write "type": "object" at the root, and put the value into a property',
        )
    nodes, broken = walk(schema, side)
    yield from broken
    for node in nodes:
        for rule in RULES:
            yield from rule(node)
    yield from references.end(schema)
    yield from fields.bounds_are_set(nodes)


def keywords_are_in_the_subset(node: Node) -> Iterator[Finding]:
    """A keyword outside the list is refused; a misspelt one names the right one."""
    for word in node.value:
        if word in _ALLOWED:
            continue
        if word in _OUTSIDE:
            mend = "write '$defs'" if word == "definitions" else f"leave {quoted(word)} out"
            yield Finding(
                code="I214",
                path=(*node.path, word),
                what=f"{quoted(word)} is outside the portable subset",
                why=_OUTSIDE[word],
                mend=mend,
                on_key=True,
            )
            continue
        near = nearest(word, _ALLOWED)
        yield Finding(
            code="I213",
            path=(*node.path, word),
            what=f"{quoted(word)} is not a keyword of JSON Schema",
            why="an unknown keyword is ignored by every validator, so a misspelt one leaves a door open",
            mend=f"write {quoted(near)}" if near else f"leave {quoted(word)} out",
            on_key=True,
        )


def objects_are_closed(node: Node) -> Iterator[Finding]:
    """A record refuses unknown properties (S2); a map says what its values are (ruling 4)."""
    if "object" not in node.types() and "properties" not in node.value:
        return
    extra = node.value.get("additionalProperties")
    is_record = "properties" in node.value
    if extra is False or (not is_record and isinstance(extra, Mapping)) or _closed_by_branches(node):
        return
    if any(nearest(word, ["additionalProperties"]) for word in node.value.keys() - _ALLOWED):
        return  # misspelt, and said as such
    yield Finding(
        code="I212",
        path=node.path,
        what="the object is open: it takes properties that the contract does not name",
        why="every object is closed, or a map with a schema for its values, so that no connector adds fields",
        mend='write "additionalProperties": false',
    )


def values_say_what_they_are(node: Node) -> Iterator[Finding]:
    """No node accepts just anything: a type, a reference, an enumeration or branches narrow it."""
    narrows = ("type", "$ref", "enum", "const", *BRANCHES)
    if not node.closed and not any(word in node.value for word in narrows):
        yield Finding(
            code="I223",
            path=node.path,
            what="the value may be anything",
            why="a schema without a type lets open objects through",
            mend='write a "type"',
        )
    if "array" in node.types() and "items" not in node.value:
        yield Finding(
            code="I224",
            path=node.path,
            what="the array may hold anything",
            why="an array without items lets open objects through",
            mend='write "items" with the schema of one element',
        )


def required_properties_are_declared(node: Node) -> Iterator[Finding]:
    """A closed record that requires what it does not name can never be valid."""
    known = node.value.get("properties", {})
    if node.closed or not isinstance(known, Mapping):
        return
    for index, name in enumerate(seq(node.value.get("required"))):
        if is_text(name) and name not in known and "properties" in node.value:
            near = nearest(name, known)
            yield Finding(
                code="I221",
                path=(*node.path, "required", index),
                what=f"{quoted(name)} is required and is not a property",
                why="a closed object that requires an undeclared property accepts nothing",
                mend=f"write {quoted(near)}" if near else f"declare {quoted(name)} in properties",
            )


def references_stay_inside(node: Node) -> Iterator[Finding]:
    """A reference is ``#/…`` and finds a schema in the same document; nothing is ever fetched."""
    if "$ref" not in node.value:
        return
    target = node.value["$ref"]
    if not is_text(target) or not target.startswith("#/"):
        what = f"the reference {quoted(target)} leaves the schema or points at its root"
    elif references.resolve(node.root, target) is None:
        what = f"the reference {quoted(target)} points at no schema"
    else:
        return
    near = nearest(str(target), [f"#/$defs/{name}" for name in mapping(node.root.get("$defs"))])
    yield Finding(
        code="I215",
        path=(*node.path, "$ref"),
        what=what,
        why="references are '#/…' inside the schema: nothing is fetched, and every reader resolves them",
        mend=f"write {quoted(near)}" if near else "put the schema into \"$defs\" and refer to '#/$defs/NAME'",
    )


def references_stand_alone(node: Node) -> Iterator[Finding]:
    """Beside a reference stand words only: older readers ignore every rule that is written there."""
    if "$ref" not in node.value:
        return
    for word in node.value.keys() & _ALLOWED - _BESIDE_A_REFERENCE:
        yield Finding(
            code="I230",
            path=(*node.path, word),
            what=f"{quoted(word)} stands beside a reference",
            why="older readers of JSON Schema ignore what stands beside $ref: there the rule would not hold",
            mend="put it into the schema that is referred to, or join both in an allOf",
            on_key=True,
        )


RULES: tuple[Callable[[Node], Iterator[Finding]], ...] = (
    keywords_are_in_the_subset,
    objects_are_closed,
    values_say_what_they_are,
    required_properties_are_declared,
    references_stay_inside,
    references_stand_alone,
    *fields.RULES,
)


def _closed_by_branches(node: Node) -> bool:
    """Every instance must fit one of some branches, each of which is asked to be closed itself."""
    alone = "properties" not in node.value and "additionalProperties" not in node.value
    return alone and (node.closed or any(seq(node.value.get(word)) for word in ("anyOf", "oneOf")))
