"""The pydantic model of a record, made of the same annotations: what refuses, explains and renders schemas.

It is made when it is first asked for, since a configuration whose files are right never needs it, and
importing pydantic costs more than reading a thousand of them.
"""

from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic_core import ErrorDetails

from reconciler.model.checks import Keyed, RecordType, Rule, made

R = TypeVar("R", bound=Keyed)


class _Twin(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        validate_by_name=False,
        validate_by_alias=True,
        hide_input_in_errors=True,
        protected_namespaces=(),
    )


def judged(kind: type[R], values: object) -> R:
    """The record of a table, as pydantic reads it. Raises its ``ValidationError``."""
    return _record(kind, twin(kind).model_validate(_tables(values)))


def judged_text(kind: type[R], text: bytes) -> R:
    """The record of a JSON object. Raises pydantic's ``ValidationError``."""
    return _record(kind, twin(kind).model_validate_json(text))


def errors(kind: type[Keyed], values: object) -> list[ErrorDetails]:
    """All that is wrong with a table, in pydantic's words; none when it is right."""
    try:
        twin(kind).model_validate(values)
    except ValidationError as error:
        return error.errors(include_url=False, include_input=False)
    return []


@cache
def twin(kind: RecordType) -> type[BaseModel]:
    """The pydantic model with the same keys, types, rules and defaults."""
    keys: dict[str, Any] = {}
    for key in kind.record_keys:
        words: dict[str, Any] = {"alias": key.alias}
        if key.factory:
            words["default_factory"] = key.factory
        elif not key.required:
            words["default"] = _twinned(key.default)
        keys[key.field] = (_annotation(key.annotation), Field(**words))
    return create_model(
        kind.__name__, __base__=_Twin, __doc__=kind.__doc__, __module__=kind.__module__, **keys
    )


def _annotation(annotation: Any) -> Any:
    """The same type with pydantic's own words for the rules, and twins for records."""
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        rules = [_rule(one) if isinstance(one, Rule) else one for one in annotation.__metadata__]
        return Annotated[(_annotation(inside[0]), *rules)]
    if origin in (Union, UnionType):
        return Union[tuple(map(_annotation, inside))]  # noqa: UP007 - made of a tuple
    if origin is tuple:
        return tuple.__class_getitem__((_annotation(inside[0]), ...))
    if origin is dict:
        return dict.__class_getitem__(tuple(map(_annotation, inside)))
    if origin is Literal or not isinstance(annotation, RecordType):
        return annotation
    return twin(annotation)


def _rule(rule: Rule) -> Any:
    return Field(**rule.stated())


def _twinned(value: Any) -> Any:
    """A default with twins for records: as it is, since defaults are not judged."""
    if not isinstance(value, Keyed):
        return value
    return twin(type(value)).model_construct(**{key: _twinned(one) for key, one in _by_key(value).items()})


def _tables(value: Any) -> Any:
    """Records inside the values as tables: pydantic knows their twins alone."""
    if isinstance(value, Keyed):
        return {key: _tables(one) for key, one in _by_key(value).items() if one is not None}
    if isinstance(value, dict):
        return {key: _tables(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_tables(one) for one in value)
    return value


def _by_key(value: Keyed) -> dict[str, Any]:
    return {key.alias: getattr(value, key.field) for key in type(value).record_keys}


def _record(kind: type[R], model: BaseModel) -> R:
    """The record of a model's values, which are judged already."""
    values = {key.field: _value(key.annotation, getattr(model, key.field)) for key in kind.record_keys}
    found: R = made(kind, values)
    return found


def _value(annotation: Any, value: Any) -> Any:
    if isinstance(value, BaseModel):
        return _record(_kind(annotation, type(value)), value)
    if isinstance(value, tuple):
        return tuple(_value(annotation, one) for one in value)
    if isinstance(value, dict):
        return {key: _value(annotation, one) for key, one in value.items()}
    return value


def _kind(annotation: Any, model: type[BaseModel]) -> Any:
    """The record in a type whose twin a model is."""
    if isinstance(annotation, RecordType):
        return annotation if twin(annotation) is model else None
    inside = get_args(annotation)
    return next((kind for one in inside if (kind := _kind(one, model)) is not None), None)
