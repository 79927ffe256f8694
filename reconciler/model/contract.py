"""A compiled contract: what an agent sees of one interface version, and what its calls are checked against.

The only importer of jsonschema-rs, the engine of the hot path; its retriever refuses every reference that
leaves
the schema, and patterns run in linear time. A fault names a field and the rule it breaks, never a value. The
tools are served exactly as ``tools.json`` has them, in its order. What a published schema may look like is
not
decided here but in ``admission.interfaces``.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import jsonschema_rs
import orjson

from reconciler.model import labour
from reconciler.model.names import InterfaceRef
from reconciler.model.nesting import nesting
from reconciler.model.resources import Interface

_MOST_STEPS = 50_000  # of holding a value to a caller's schema: some 0.1 s
_TELLING_STEPS = 10_000  # and up to which a fault is told in words, which costs a hundred times as much
_SHALLOW = 60  # levels; a line on a socket has a few more around them, and may have 64
NOT_A_FIELD = "is not a field of this tool"  # ends a fault that names what its author made up
FILE_IN = "handler-file"
FILE_OUT = "handler-output-file"
MODEL = "model"  # the input by which a call chooses among the models that it may ask for
SUBMIT = "_submit"  # ends the name of a tool that is a job
COMPANIONS: Mapping[str, str] = {"status": "_status", "result": "_result", "cancel": "_cancel"}  # its own
ROUTER_CODES = ("invalid_input", "refused", "limit", "unavailable")


@dataclass(frozen=True, slots=True)
class FileField:
    """A top-level input property that names a file; ``many`` when it is an array of such names."""

    name: str
    output: bool
    many: bool


class Tool:
    """One tool: its definition as served, and its validators, compiled once."""

    __slots__ = (
        "_check_in", "_check_out", "accepts", "allows", "definition", "effect", "files", "is_shallow_in",
        "is_shallow_out", "kind", "name", "takes_model",
    )  # fmt: skip

    def __init__(self, definition: Mapping[str, Any], *, kind: str, effect: str) -> None:
        """Compile; raises ValueError when a schema cannot be compiled, naming the tool and not the text."""
        self.name: str = definition["name"]
        self.definition = definition
        self.kind = kind
        self.effect = effect
        self._check_in = _compiled(definition["inputSchema"], self.name)
        self._check_out = _compiled(definition["outputSchema"], self.name)
        # Whether a call's arguments and an answer fit, at once and without a word.
        self.accepts: Callable[[object], bool] = self._check_in.is_valid
        self.allows: Callable[[object], bool] = self._check_out.is_valid
        # Whether a schema itself keeps what it allows from being nested too deep.
        self.is_shallow_in = _is_shallow(definition["inputSchema"])
        self.is_shallow_out = _is_shallow(definition["outputSchema"])
        self.files = file_fields(definition["inputSchema"])
        self.takes_model = MODEL in definition["inputSchema"].get("properties", {})
        if any(field.output and field.many for field in self.files):
            raise ValueError(f"{self.name} has a list of output files: an output file is a field of its own")

    def input_fault(self, arguments: Mapping[str, Any]) -> str | None:
        """The first fault of a call's arguments as one clause naming the field, or None."""
        return None if self._check_in.is_valid(arguments) else _first(self._check_in, arguments)

    def output_fault(self, structured: object) -> str | None:
        """The first fault of an answer as one clause naming the field, or None."""
        if self._check_out.is_valid(structured):
            return None
        return _outside(self._check_out, structured, "the answer")

    def input_rule(self, arguments: Mapping[str, Any]) -> str:
        """What ``input_fault`` says, in the schema's words alone: for records, which hold no payload."""
        return _outside(self._check_in, arguments, "the input")


class Contract:
    """One interface version, compiled. Made by ``compiled``; two of the same bytes are interchangeable."""

    __slots__ = ("errors", "interface", "spec", "tools", "tools_json")

    def __init__(self, spec: Interface, tools_json: bytes, tools: Mapping[str, Tool]) -> None:
        self.interface = InterfaceRef(spec.name, spec.version)
        self.spec = spec
        self.tools_json = tools_json
        self.tools = tools
        self.errors = spec.errors

    def error_text(self, code: str) -> str | None:
        """The sentence an agent reads for a listed code, verbatim; None when the code is not listed."""
        return self.errors.get(code)

    def as_json(self) -> dict[str, Any]:
        """What a session keeps on disk, so that an upgrade never changes what is open."""
        return {
            "interface": self.spec.model_dump(by_alias=True, mode="json", exclude_none=True),
            "tools": self.tools_json.decode(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Contract":
        return compiled(Interface.model_validate(value["interface"]), value["tools"].encode())


def compiled(spec: Interface, tools_json: bytes) -> Contract:
    """Compile an interface version from its two files; raises ValueError (a clause, no values) when it
    cannot be.
    """
    try:
        definitions = orjson.loads(tools_json)
    except orjson.JSONDecodeError as error:
        raise ValueError("tools.json is not JSON") from error
    if not isinstance(definitions, list):
        raise ValueError("tools.json is not an array of tools")
    tools: dict[str, Tool] = {}
    asking = _asking(spec)
    for definition in definitions:
        _need_shape(definition)
        operation = spec.operations.get(definition["name"])
        tools[definition["name"]] = Tool(
            definition,
            kind=operation.kind if operation else asking.get(definition["name"], "call"),
            effect=operation.effect if operation else "none",
        )
    return Contract(spec, tools_json, tools)


def _asking(spec: Interface) -> dict[str, str]:
    """The tools that ask about a version's jobs, with their kinds: ``status``, ``result``, ``cancel``."""
    return {
        name.removesuffix(SUBMIT) + suffix: kind
        for name, operation in spec.operations.items()
        if operation.kind == "job" and name.endswith(SUBMIT)
        for kind, suffix in COMPANIONS.items()
    }


def file_fields(schema: Mapping[str, Any]) -> tuple[FileField, ...]:
    """The top-level properties of an input schema that name files, arrays of names included."""
    found = []
    for name, prop in schema.get("properties", {}).items():
        for many, node in ((False, prop), (True, prop.get("items") if isinstance(prop, Mapping) else None)):
            if isinstance(node, Mapping) and node.get("format") in (FILE_IN, FILE_OUT):
                found.append(FileField(name, node["format"] == FILE_OUT, many))
    return tuple(found)


def pattern_fault(pattern: str) -> str | None:
    """Why a pattern cannot be run in linear time, or None when it can."""
    try:
        jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions())
    except (ValueError, jsonschema_rs.ValidationError):
        return "it needs look-around or back-references, or escapes that a linear engine lacks"
    return None


def matches(pattern: str, text: str) -> bool:
    """Whether a pattern is found in a text, in linear time; raises ValueError as ``pattern_fault`` says."""
    linear = jsonschema_rs.RegexOptions()
    try:
        return jsonschema_rs.is_valid({"pattern": pattern}, text, pattern_options=linear)
    except jsonschema_rs.ValidationError as error:
        raise ValueError("the pattern needs look-around or back-references") from error


def finder(pattern: str) -> Callable[[str], bool]:
    """Whether a text holds what a pattern means, compiled once, small, and in linear time; raises ValueError
    where the pattern is none of that engine's or too large.
    """
    small = jsonschema_rs.RegexOptions(size_limit=200_000, dfa_size_limit=2**20)
    try:
        return jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=small).is_valid
    except (ValueError, jsonschema_rs.ValidationError) as error:
        raise ValueError("the pattern is none of the linear engine's") from error


def checker(schema: Mapping[str, Any]) -> Callable[[object], str]:
    """What says of a value where it does not fit a caller's schema, in one sentence, or "". Patterns run in
    linear time and nothing is fetched; ValueError for a schema that cannot be compiled, or that takes too
    long whatever the value is.
    """
    if labour.steps(schema, None, _TELLING_STEPS) > _TELLING_STEPS:
        raise ValueError("its references and branches lead to the same too often")
    compiled = _compiled(schema, "")

    def fault(value: object) -> str:
        taken = labour.steps(schema, value, _MOST_STEPS)
        if taken > _MOST_STEPS:
            return "it takes too long to hold it to the schema"
        if taken > _TELLING_STEPS:
            return "" if compiled.is_valid(value) else "it does not fit the schema"
        error = next(compiled.iter_errors(value), None)
        return "" if error is None else error.message

    return fault


def arguments_fault(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
    """The first fault of arguments by a tool's own schema, as ``Tool.input_fault`` names it; "" for none."""
    compiled = _compiled(schema, "a tool")
    return "" if compiled.is_valid(arguments) else _first(compiled, arguments)


def _need_shape(definition: object) -> None:
    keys = ("name", "inputSchema", "outputSchema")
    if not isinstance(definition, dict) or any(key not in definition for key in keys):
        raise ValueError("a tool of tools.json lacks name, inputSchema or outputSchema")


def _compiled(schema: Mapping[str, Any], tool: str) -> jsonschema_rs.Draft202012Validator:
    try:
        return jsonschema_rs.Draft202012Validator(
            dict(schema),
            retriever=_refuse,
            validate_formats=False,
            pattern_options=jsonschema_rs.RegexOptions(),
        )
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
        raise ValueError(f"a schema of {tool} cannot be compiled") from error


def _is_shallow(schema: object) -> bool:
    levels = nesting(schema)
    return levels is not None and levels <= _SHALLOW


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"references outside the schema are refused: {uri}")


_WORDS = {
    "required": "is missing",
    "type": "has the wrong type",
    "pattern": "does not match the pattern",
    "enum": "is not one of the allowed values",
    "minimum": "is too small",
    "maximum": "is too large",
    "minLength": "is too short",
    "maxLength": "is too long",
    "minItems": "has too few items",
    "maxItems": "has too many items",
    "additionalProperties": "has a field that is not in the schema",
}


def _first_error(
    validator: jsonschema_rs.Draft202012Validator, instance: object
) -> jsonschema_rs.ValidationError | None:
    """The first error alone: collecting those of 100,000 wrong elements took two seconds."""
    try:
        validator.validate(instance)
    except jsonschema_rs.ValidationError as error:
        return error
    return None


def _first(validator: jsonschema_rs.Draft202012Validator, instance: object) -> str:
    error = _first_error(validator, instance)
    if error is None:
        return "the input breaks its schema"
    where = _field(error.instance_path)
    match error.kind:
        case jsonschema_rs.ValidationErrorKind.Required(property=name):
            return f"{_field([*error.instance_path, name])} is missing"
        case jsonschema_rs.ValidationErrorKind.AdditionalProperties(unexpected=names):
            return f"{_field([*error.instance_path, str(names[0])])} {NOT_A_FIELD}"
        case _:
            pass
    return f"{where} {_rule(error.schema_path)}"


def _outside(validator: jsonschema_rs.Draft202012Validator, instance: object, whole: str) -> str:
    """The first fault by the schema's own names: a name of the instance could hold payload, so of a field
    that is too many it is said only where it has the form in which programs name theirs.
    """
    error = _first_error(validator, instance)
    if error is None:
        return f"{whole} breaks its schema"
    where = _schema_field(error.schema_path[:-1]) or whole
    match error.kind:
        case jsonschema_rs.ValidationErrorKind.Required(property=name):
            return f"{where}: {name} is missing"
        case jsonschema_rs.ValidationErrorKind.AdditionalProperties(unexpected=names):
            plain = next((f" ('{name}')" for name in map(str, names) if _PLAIN.fullmatch(name)), "")
            return f"{where} {_rule(error.schema_path)}{plain}"
        case jsonschema_rs.ValidationErrorKind.Type() if error.instance is None:
            return f"{where} is null"
        case _:
            pass
    return f"{where} {_rule(error.schema_path)}"


_PLAIN = re.compile(r"[a-z][a-z]{0,15}([_A-Z][a-z]{1,15}){0,2}")


def _rule(schema_path: Sequence[object]) -> str:
    rule = str(schema_path[-1]) if schema_path else "schema"
    return _WORDS.get(rule, f"breaks the rule {rule}")


def _schema_field(path: Sequence[object]) -> str:
    """Where a schema's path leads in an instance: ``pages[].text``, and ``.*`` for any value of a map."""
    text, parts = "", iter(path)
    for part in parts:
        if part == "properties":
            name = str(next(parts, ""))
            text += f".{name}" if text else name
        elif part == "items":
            text += "[]"
        elif part == "additionalProperties":
            text += ".*"
    return text


def _field(path: Sequence[object]) -> str:
    """A place in an instance, short and on one line: a name in it may be whatever its author made up."""
    text = ""
    for part in path:
        name = part if isinstance(part, int) else _UNSEEN.sub("?", str(part)[:_MAX_NAME])
        text += f"[{name}]" if isinstance(part, int) else f".{name}" if text else str(name)
    return (text if len(text) <= _MAX_PLACE else f"{text[:_MAX_PLACE]}…") or "the input"


_MAX_NAME = 64
_MAX_PLACE = 256
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
