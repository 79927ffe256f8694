"""JSON Schemas of every file and document, rendered from the models: what editors complete and check by.

Kept to what the TOML language servers understand: no tuples, no null (TOML has none), every object closed,
no ``$id`` and no reference to a host. The text under each key of a model becomes its description; it is read
from the models' source, so only rendering pays for it. Writing the files is ``.ci/schemas``.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from types import ModuleType
from typing import TYPE_CHECKING, Any

from reconciler.model import (
    agentrun,
    approvalfile,
    chain,
    dialect,
    policies,
    references,
    register,
    resources,
    settings,
)
from reconciler.model.forms import Record
from reconciler.model.problems import Path
from reconciler.model.resources import KINDS

if TYPE_CHECKING:
    from pydantic import BaseModel

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]


def render() -> Mapping[str, str]:
    """The text of every schema by file name: ``binding.schema.json`` and so on, ready to be written."""
    # ruff: noqa: PLC0415 - 40 ms that only rendering pays
    from reconciler.config import (
        capabilities,
        differences,
        documents,
        evidence,
        jobfile,
        moves,
        objectfile,
        statuses,
    )

    models = {row.kind.value: (row.api_version, row.model) for row in KINDS} | documents.DOCUMENTS
    written = (documents, objectfile, statuses, moves, differences, capabilities, evidence, jobfile)
    descriptions = _descriptions(
        (resources, agentrun, references, settings, policies, approvalfile, chain, *written)
    )
    apart = {kind.__name__: _descriptions((kind,)) for kind in (dialect, register)}  # some names are both's
    rendered = {}
    for name, (title, model) in sorted(models.items()):
        texts = {**descriptions, **apart.get(model.__module__, {})}
        whole = _described(schema_of(model), texts[model.__name__], texts)
        text = json.dumps({"$schema": _DIALECT, "title": title, **whole}, indent=2, ensure_ascii=False)
        rendered[f"{name}.schema.json"] = f"{text}\n"
    return rendered


@lru_cache(maxsize=32)
def schema_of(model: "type[Record | BaseModel]") -> Schema:
    """The schema of one model, by the keys of its file. Not to be changed: it is kept."""
    cleaned = _cleaned(model.model_json_schema(by_alias=True))
    assert isinstance(cleaned, dict)  # noqa: S101 - a schema is an object
    return cleaned


def nodes(model: "type[Record | BaseModel]", path: Path) -> tuple[Schema, ...]:
    """The schemas that the value at ``path`` may have: several where it is a choice, none where unknown."""
    whole = schema_of(model)
    found = list(_options(whole, whole))
    for part in path:
        found = [
            option for node in found for child in _children(node, part) for option in _options(whole, child)
        ]
    return tuple(found)


def _options(whole: Schema, node: Schema) -> Iterator[Schema]:
    if "$ref" in node:
        node = whole["$defs"][node["$ref"].rpartition("/")[2]]
    if "anyOf" in node:
        for option in node["anyOf"]:
            yield from _options(whole, option)
    else:
        yield node


def _children(node: Schema, part: str | int) -> Iterable[Schema]:
    if isinstance(part, int):
        return [node["items"]] if "items" in node else []
    if part in node.get("properties", {}):
        return [node["properties"][part]]
    more = [*node.get("patternProperties", {}).values(), node.get("additionalProperties")]
    return [schema for schema in more if isinstance(schema, dict)]


# what pydantic writes, made fit for TOML

_MAPS = frozenset({"properties", "patternProperties", "$defs"})  # here keys are names, not keywords


def _cleaned(node: Any) -> Any:
    """Without titles made of names, without null where that only says that a key may be left out, closed."""
    if isinstance(node, list):
        return [_cleaned(item) for item in node]
    if not isinstance(node, dict):
        return node
    if {"type": "null"} in node.get("anyOf", ()) and node.get("default", ...) is None:
        node = _without_null(node)
    kept: Schema = {}
    for key, value in node.items():
        if key in _MAPS:
            kept[key] = {name: _cleaned(item) for name, item in value.items()}
        elif key == "default":
            kept[key] = _without_nulls(value)
        elif key != "title":
            kept[key] = _cleaned(value)
    if "patternProperties" in kept:
        kept["additionalProperties"] = False
        kept.get("propertyNames", {}).pop("examples", None)
    return kept


def _without_null(node: Schema) -> Schema:
    options = [option for option in node["anyOf"] if option != {"type": "null"}]
    rest = {key: value for key, value in node.items() if key not in ("anyOf", "default")}
    return {**rest, **options[0]} if len(options) == 1 else {**rest, "anyOf": options}


def _without_nulls(value: Any) -> Any:
    """A default as it can be written: a key that is not set is left out."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return value


# descriptions


def _described(
    schema: Schema, texts: Mapping[str, str], descriptions: Mapping[str, Mapping[str, str]]
) -> Schema:
    """The schema with the text of each key, at its top and in each of its definitions."""
    top = _with_texts(schema, texts)
    definitions = {
        name: _with_texts(node, descriptions[name]) for name, node in sorted(schema.get("$defs", {}).items())
    }
    return {**top, "$defs": definitions} if definitions else top


def _with_texts(node: Schema, texts: Mapping[str, str]) -> Schema:
    properties = {key: {**value, "description": texts[key]} for key, value in node["properties"].items()}
    return {**node, "properties": properties}


def _descriptions(sources: Iterable[ModuleType]) -> Mapping[str, Mapping[str, str]]:
    """For each model of the sources, the text that stands under each key, by the key as files have it.

    Raises KeyError for a key without a text: a key that nobody explains is not ready to be written.
    """
    import inspect

    found: dict[str, dict[str, str]] = {}
    for source in sources:
        texts = _attribute_texts(inspect.getsource(source))
        for name, model in vars(source).items():
            if isinstance(model, type) and name in texts and (keys := _keys(model)):
                found[name] = {alias: texts[name][field] for field, alias in keys.items()}
    return found


def _keys(model: type) -> Mapping[str, str]:
    """The keys of a model as files have them, by their names in its source; none where it is no model."""
    if issubclass(model, Record):
        return model.aliases
    fields = getattr(model, "model_fields", {})
    return {field: info.alias or field for field, info in fields.items()}


def _attribute_texts(source: str) -> dict[str, dict[str, str]]:
    """The string under each annotated name of each class."""
    import ast

    found: dict[str, dict[str, str]] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = {
                name.target.id: " ".join(text.value.value.split())
                for name, text in pairwise(node.body)
                if isinstance(name, ast.AnnAssign)
                and isinstance(name.target, ast.Name)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
                and isinstance(text.value.value, str)
            }
    return found
