"""Schemas of OpenAPI 3 as the portable subset that tools are described in: closed, bounded, self-contained.

What cannot be said there (choices, recursion, records of anything, nesting beyond a depth) becomes a text
that holds JSON: the connector reads it, and the server judges it. Nothing that a server would refuse is made
possible by that, and nothing is left out.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

_DEEPEST = 6
_MOST_LOOKS = 50_000  # at tables of one document, however its references fold them
_LONGEST_TEXT, _MOST_ITEMS, _MOST_KEYS, _MOST_CHOICES = 65_536, 1000, 100, 500
_LONGEST_WORDS = 1000
_LONGEST_INDEX = 8  # digits
_HARD = ("oneOf", "anyOf", "not", "if", "discriminator")
_UNSEEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]+|[\U000e0000-\U000e007f]+"
)
_KEY = re.compile(r"[^A-Za-z0-9_]+")


@dataclass(frozen=True, slots=True)
class Portable:
    """A schema; ``as_json``: its value is a text that holds JSON."""

    schema: dict[str, Any]
    as_json: bool = False


@dataclass(slots=True)
class Document:
    """A document's values, followed reference by reference. Scalars of YAML come as texts."""

    values: Mapping[str, Any]
    left: int = _MOST_LOOKS

    def followed(self, value: Any) -> Mapping[str, Any]:
        """What a table is, or what it refers to elsewhere in the document. ValueError for others."""
        self.left -= 1
        if self.left < 0:
            raise ValueError("the document unfolds to more than can be read")
        for _ in range(20):
            if not isinstance(value, Mapping):
                raise ValueError("something that is to be a table is none")
            reference = value.get("$ref")
            if reference is None:
                return value
            value = self._at(str(reference))
        raise ValueError("references lead to each other")

    def _at(self, reference: str) -> Any:
        if not reference.startswith("#/"):
            raise ValueError("a reference leads out of the document: bundle it first")
        found: Any = self.values
        for part in unquote(reference[2:]).split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and key.isdecimal() and len(key) < _LONGEST_INDEX:
                found = found[int(key)] if int(key) < len(found) else None
            elif isinstance(found, Mapping) and key in found:
                found = found[key]
            else:
                raise ValueError(f"the reference {reference[:80]!r} leads to nothing")
        return found


def words(value: Any, most: int = _LONGEST_WORDS) -> str:
    """A text of a document on one line, without what nobody sees."""
    text = " ".join(_UNSEEN.sub(" ", value).split()) if isinstance(value, str) else ""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def named(name: str, taken: Mapping[str, Any]) -> str:
    """A property's name of letters, digits and ``_``, that is not taken."""
    plain = _KEY.sub("_", name).strip("_")[:60] or "value"
    found, number = plain, 2
    while found in taken:
        found, number = f"{plain}_{number}", number + 1
    return found


def portable(document: Document, value: Any, describe: str = "") -> Portable:
    """A schema as the subset has it; ``describe`` stands before its own words. ValueError."""
    made = _made(document, value, 0)
    if made is None:
        told = words(document.followed(value).get("description")) if isinstance(value, Mapping) else ""
        about = "; ".join(one for one in (describe or told, "as JSON text") if one)
        return Portable({"type": "string", "maxLength": _LONGEST_TEXT, "description": about}, as_json=True)
    if describe or "description" not in made:
        made["description"] = describe or "as the server's own document has it"
    return Portable(made)


def record(document: Document, value: Any) -> tuple[dict[str, Portable], list[str]] | None:
    """The parts of a record that a caller may set, each as ``portable`` has it, and which of them must be;
    None for what is no record, or has parts that it does not name.
    """
    schema = _merged(document, document.followed(value))
    if schema is None or any(key in schema for key in _HARD) or _kind(schema) != "object":
        return None
    properties = table(schema.get("properties"))
    if not 0 < len(properties) <= _MOST_KEYS:
        return None
    made = {
        str(name): portable(document, one)
        for name, one in properties.items()
        if isinstance(one, Mapping) and not truth(document.followed(one).get("readOnly"))
    }
    return made, [str(one) for one in listed(schema.get("required")) if str(one) in made]


def table(value: Any) -> Mapping[str, Any]:
    """A table, empty where it is none."""
    return value if isinstance(value, Mapping) else {}


def listed(value: Any) -> list[Any]:
    """A list, empty where it is none."""
    return value if isinstance(value, list) else []


def truth(value: Any) -> bool:
    """Whether a word of a document says yes."""
    return value is True or value == "true"


def _made(document: Document, value: Any, deep: int) -> dict[str, Any] | None:
    """The schema, None for what the subset cannot say."""
    if deep > _DEEPEST:
        return None
    schema = _merged(document, document.followed(value)) if isinstance(value, Mapping) else None
    if schema is None or any(key in schema for key in _HARD):
        return None
    kind = _kind(schema)
    made = _KINDS[kind](document, schema, deep) if kind in _KINDS else None
    if made is not None and (told := words(schema.get("description"))):
        made["description"] = told
    return made


def _merged(document: Document, schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """A record of several parts as one; None where they are no records."""
    parts = schema.get("allOf")
    if not isinstance(parts, Sequence) or not parts:
        return schema
    found: dict[str, Any] = {key: one for key, one in schema.items() if key != "allOf"}
    properties: dict[str, Any] = dict(table(found.get("properties")))
    required: list[Any] = list(listed(found.get("required")))
    for part in parts:
        one = document.followed(part)
        if "allOf" in one or _kind(one) not in ("object", "") or any(key in one for key in _HARD):
            return one if len(parts) == 1 and not properties else None
        properties |= table(one.get("properties"))
        required += listed(one.get("required"))
    return {**found, "type": "object", "properties": properties, "required": required}


def _kind(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        left = [one for one in kind if one != "null"]
        kind = left[0] if len(left) == 1 else "several"
    if kind is None:
        return "object" if "properties" in schema else "string" if "enum" in schema else ""
    return str(kind)


def _text(document: Document, schema: Mapping[str, Any], deep: int) -> dict[str, Any]:
    choices = [one for one in listed(schema.get("enum")) if isinstance(one, str)][:_MOST_CHOICES]
    if choices and not any(
        map(_UNSEEN.search, choices)
    ):  # what nobody sees no model is shown, and cut is another
        return {"type": "string", "enum": list(dict.fromkeys(choices))}
    most = _most(schema.get("maxLength"), _LONGEST_TEXT)
    least = _number(schema.get("minLength")) or 0
    return {
        "type": "string",
        **({"minLength": int(least)} if 0 < least <= most else {}),
        "maxLength": most,
    }


def _counted(document: Document, schema: Mapping[str, Any], deep: int) -> dict[str, Any]:
    kind = _kind(schema)
    choices = [found for one in listed(schema.get("enum")) if (found := _number(one)) is not None]
    if choices and kind == "integer":
        return {"type": kind, "enum": list(dict.fromkeys(map(int, choices)))[:_MOST_CHOICES]}
    bounds = {key: _number(schema.get(key)) for key in ("minimum", "maximum")}
    return {"type": kind} | {
        key: int(one) if kind == "integer" else one for key, one in bounds.items() if one is not None
    }


def _flag(document: Document, schema: Mapping[str, Any], deep: int) -> dict[str, Any]:
    return {"type": "boolean"}


def _list(document: Document, schema: Mapping[str, Any], deep: int) -> dict[str, Any] | None:
    items = _made(document, schema.get("items"), deep + 1)
    most = _most(schema.get("maxItems"), _MOST_ITEMS)
    return None if items is None else {"type": "array", "items": items, "maxItems": most}


def _record(document: Document, schema: Mapping[str, Any], deep: int) -> dict[str, Any] | None:
    """A closed record, or a map; None for a record of anything."""
    properties = table(schema.get("properties"))
    if not properties:
        others = _made(document, schema.get("additionalProperties"), deep + 1)
        return (
            None
            if others is None
            else {"type": "object", "maxProperties": _MOST_KEYS, "additionalProperties": others}
        )
    if len(properties) > _MOST_KEYS or any(_KEY.search(str(name)) for name in properties):
        return None
    made = {str(name): one for name, one in _parts(document, properties, deep)}
    if any(one is None for one in made.values()):
        return None
    required = [str(one) for one in listed(schema.get("required")) if str(one) in made]
    closed = {"type": "object", "additionalProperties": False, "properties": made}
    return {**closed, "required": list(dict.fromkeys(required))} if required else closed


def _parts(
    document: Document, properties: Mapping[str, Any], deep: int
) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """What a caller may set: a property that only the server sets is left out."""
    for name, value in properties.items():
        found = document.followed(value) if isinstance(value, Mapping) else {}
        if not truth(found.get("readOnly")):
            yield name, _made(document, value, deep + 1)


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if abs(found) < 2**53 else None


def _most(value: Any, most: int) -> int:
    """An upper bound, no more than ``most``; that alone where none is said."""
    found = _number(value)
    return most if found is None or found < 0 else min(int(found), most)


_KINDS = {
    "string": _text, "integer": _counted, "number": _counted, "boolean": _flag, "array": _list,
    "object": _record,
}  # fmt: skip
