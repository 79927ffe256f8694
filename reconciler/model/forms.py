"""The record that every kind is made of: a closed, frozen value, read from a table by checks of its types.

A record states its keys as annotations, like a pydantic model, and has the same face; what differs is when
pydantic is asked. Most files are right, so they are read here, by plain checks that need no import, into
values that hold nothing but the values. Whatever these checks do not take goes to the model that
``model.twins`` makes of the same annotations: it alone refuses, explains, and renders schemas. So a check may
be narrower than pydantic, never wider (a property test compares them), and both give the same values.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NoReturn,
    Self,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
)

if TYPE_CHECKING:
    from pydantic.config import JsonDict

Check = Callable[[Any], Any]  # the value as a record holds it; raises Unfit

_MISSING: Any = object()


class Unfit(ValueError):  # noqa: N818 - it is no error yet
    """A value that the checks here do not take; whether it is wrong is for pydantic to say."""


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """What a key's value keeps besides its type; the words are pydantic's."""

    pattern: str | None = None
    min_length: int | None = None
    max_length: int | None = None
    gt: float | None = None
    ge: float | None = None
    le: float | None = None
    description: str | None = None
    examples: list[Any] | None = None
    alias: str | None = None
    strict: bool | None = None
    default_factory: Callable[[], Any] | None = None

    def stated(self) -> dict[str, Any]:
        """The words that say something."""
        return {word: value for word in self.__slots__ if (value := getattr(self, word)) is not None}


def Field(**words: Any) -> Any:  # noqa: N802 - what pydantic calls the same
    """A rule: in an annotation what its value keeps, after a key its ``default_factory``."""
    return Rule(**words)


class Key(NamedTuple):
    """One key of a record: its name here and in files, its type, and what it is when it is left out."""

    field: str
    alias: str
    annotation: Any
    default: Any  # _MISSING: it must be there, or the factory makes it
    factory: Callable[[], Any] | None

    @property
    def required(self) -> bool:
        return self.default is _MISSING and self.factory is None


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(Field,))
class RecordType(type):
    """Makes the annotations of a record its keys, each in a slot of its own."""

    record_keys: tuple[Key, ...]
    reading: Check | None  # made when the first table comes

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> "RecordType":
        keys = tuple(_key(field, kind, body) for field, kind in body.get("__annotations__", {}).items())
        body["__slots__"] = tuple(key.field for key in keys)
        made = super().__new__(cls, name, bases, body)
        made.record_keys, made.reading = keys, None
        return made

    @property
    def aliases(cls) -> dict[str, str]:
        """The key in files by the name here."""
        return {key.field: key.alias for key in cls.record_keys}


def _key(field: str, annotation: Any, body: dict[str, Any]) -> Key:
    default = body.pop(field, _MISSING)
    factory = None
    if isinstance(default, Rule):
        default, factory = _MISSING, default.default_factory
    alias = next((rule.alias for rule in _rules(annotation) if rule.alias), None) or _camel(field)
    return Key(field, alias, annotation, default, factory)


def _camel(field: str) -> str:
    first, *rest = field.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _rules(annotation: Any) -> list[Rule]:
    return [one for one in getattr(annotation, "__metadata__", ()) if isinstance(one, Rule)]


class Record(metaclass=RecordType):
    """A closed, frozen, strict record; its errors never repeat the input."""

    if not TYPE_CHECKING:  # checkers see a constructor with the keys

        def __new__(cls, **values: Any) -> Self:
            """The record of these keys, as files have them. Raises pydantic's ``ValidationError``."""
            if not values and not any(key.required for key in cls.record_keys):
                return made(cls, {key.field: _default(key) for key in cls.record_keys})
            return cls.model_validate(values)

    @classmethod
    def model_validate(cls, values: Any) -> Self:
        """The record of a table, by the keys of files. Raises pydantic's ValidationError, a ValueError."""
        try:
            found: Self = reading(cls)(values)
        except Unfit:
            from reconciler.model import twins  # noqa: PLC0415 - 0.1 s that right files do not pay

            found = twins.judged(cls, values)
        return found

    @classmethod
    def model_validate_json(cls, text: bytes) -> Self:
        """The record of a JSON object. Raises ValueError."""
        from reconciler.model import twins  # noqa: PLC0415

        return twins.judged_text(cls, text)

    @classmethod
    def model_json_schema(cls, *, by_alias: bool = True) -> "JsonDict":
        """Its JSON Schema, as pydantic renders it."""
        from reconciler.model import twins  # noqa: PLC0415

        return twins.twin(cls).model_json_schema(by_alias=by_alias)

    def model_dump(self, *, mode: Literal["python", "json"] = "python", **options: bool) -> dict[str, Any]:
        """Its keys and values as plain tables; the options are pydantic's ``by_alias``, ``exclude_none`` and
        ``exclude_defaults``.
        """
        found = {}
        for key in type(self).record_keys:
            value = getattr(self, key.field)
            if value is None and options.get("exclude_none"):
                continue
            if options.get("exclude_defaults") and not key.required and value == _default(key):
                continue
            name = key.alias if options.get("by_alias") else key.field
            found[name] = _dumped(value, mode, options)
        return found

    def model_dump_json(self, *, by_alias: bool = False) -> str:
        """The same as one line of JSON."""
        return json.dumps(self.model_dump(mode="json", by_alias=by_alias), separators=(",", ":"))

    def model_copy(self, *, update: Mapping[str, Any]) -> Self:
        """The same with other values for some keys, by their names here; they are not judged."""
        values = {key.field: getattr(self, key.field) for key in type(self).record_keys}
        copied: Self = made(type(self), {**values, **update})
        return copied

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, key.field) == getattr(other, key.field) for key in type(self).record_keys)

    def __hash__(self) -> int:
        return hash((type(self), *(getattr(self, key.field) for key in type(self).record_keys)))

    def __repr__(self) -> str:
        shown = ", ".join(f"{key.field}={getattr(self, key.field)!r}" for key in type(self).record_keys)
        return f"{type(self).__name__}({shown})"

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return ((key.field, getattr(self, key.field)) for key in type(self).record_keys)

    def __reduce__(self) -> tuple[Any, ...]:
        return made, (type(self), dict(self))


def made(kind: type[Record], values: Mapping[str, Any]) -> Any:
    """A record of values that are known to be right, by their names here; all of them."""
    one = object.__new__(kind)
    for key in kind.record_keys:
        object.__setattr__(one, key.field, values[key.field])
    return one


def _default(key: Key) -> Any:
    return key.factory() if key.factory else key.default


def _dumped(value: Any, mode: Literal["python", "json"], options: dict[str, bool]) -> Any:
    if isinstance(value, Record):
        return value.model_dump(mode=mode, **options)
    if isinstance(value, tuple):
        found = [_dumped(one, mode, options) for one in value]
        return found if mode == "json" else tuple(found)
    if isinstance(value, dict):
        return {key: _dumped(one, mode, options) for key, one in value.items()}
    return value


# checks


def reading(kind: RecordType) -> Check:
    """The check of a whole record: a table to a value of this kind. It raises ``Unfit``."""
    if kind.reading is None:
        kind.reading = _reader(kind)
    return kind.reading


def _reader(kind: RecordType) -> Check:
    """What is left out takes its default; an unknown key fits nowhere."""
    slots = vars(kind)
    usual = [
        (key.alias, slots[key.field].__set__, check(key.annotation), key.default, key.factory)
        for key in kind.record_keys
    ]
    new: Callable[[Any], Any] = object.__new__
    missing = _MISSING

    def read(values: Any) -> Any:
        if type(values) is not dict:
            if type(values) is kind:
                return values  # type: ignore[unreachable]  # records are made by it
            raise Unfit
        one, left = new(kind), len(values)
        for alias, put, test, default, factory in usual:
            if alias in values:
                put(one, test(values[alias]))
                left -= 1
            elif default is not missing:
                put(one, default)
            elif factory is not None:
                put(one, factory())
            else:
                raise Unfit
        if left:
            raise Unfit
        return one

    return read


def check(annotation: Any) -> Check:
    """The check of one type with its rules."""
    rules: list[Rule] = []
    while get_origin(annotation) is Annotated:
        rules += _rules(annotation)
        annotation = get_args(annotation)[0]
    stated: dict[str, Any] = {}
    for rule in rules:
        stated.update(rule.stated())
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        return _one_of(get_args(annotation))
    if origin is Literal:
        return _literal(get_args(annotation))
    if origin is tuple:
        return _tuple(check(get_args(annotation)[0]), stated)
    if origin is dict:
        return _dict(*map(check, get_args(annotation)))
    if isinstance(annotation, RecordType):
        return _lazily(annotation)
    return _PLAIN[annotation](stated)


def _lazily(kind: RecordType) -> Check:
    """A record inside another: its own check is made when the first value comes."""

    def test(value: Any) -> Any:
        return (kind.reading or reading(kind))(value)

    return test


def _one_of(options: tuple[Any, ...]) -> Check:
    """A choice, told apart by the exact type of the value: no two forms here have the same."""
    by_type: dict[type, Check] = {}
    for option in options:
        for kind in _types(option):
            assert kind not in by_type, option  # noqa: S101 - a choice that types cannot tell apart
            by_type[kind] = _nothing if kind is type(None) else check(option)
    if float in by_type:
        by_type.setdefault(int, by_type[float])  # 2 is a number too, where no form wants it whole

    def test(value: Any) -> Any:
        way = by_type.get(type(value))
        if way is None:
            raise Unfit
        return way(value)

    return test


def _nothing(value: None) -> None:
    return value


def _types(annotation: Any) -> tuple[type, ...]:
    """The exact types that a value of this type may have before it is read."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        return tuple(kind for option in get_args(annotation) for kind in _types(option))
    if origin is tuple:
        return list, tuple
    if origin is dict:
        return (dict,)
    if origin is Literal:
        return (str,)
    return (dict, annotation) if isinstance(annotation, RecordType) else (annotation,)


def _literal(words: tuple[str, ...]) -> Check:
    known = {word: word for word in words}  # one text for all values: a thousand files need no thousand

    def test(value: Any) -> Any:
        if type(value) is not str or value not in known:
            raise Unfit
        return known[value]

    return test


def _tuple(each: Check, stated: Mapping[str, Any]) -> Check:
    least, most = stated.get("min_length", 0), stated.get("max_length", sys.maxsize)

    def test(value: Any) -> Any:
        if type(value) not in (list, tuple) or not least <= len(value) <= most:
            raise Unfit
        return tuple(map(each, value))

    return test


def _dict(key: Check, each: Check) -> Check:
    def test(value: Any) -> Any:
        if type(value) is not dict:
            raise Unfit
        return {sys.intern(key(name)): each(one) for name, one in value.items()}

    return test


def _text(stated: Mapping[str, Any]) -> Check:
    least, most = stated.get("min_length", 0), stated.get("max_length", sys.maxsize)
    pattern = stated.get("pattern", "")
    # pydantic's engine takes $ for the very end, Python's also for the place before a last newline.
    found = re.compile(re.sub(r"\$(?=$|\))", r"\\Z", pattern)).search

    def test(value: Any) -> Any:
        if type(value) is not str or not least <= len(value) <= most or (pattern and not found(value)):
            raise Unfit
        return value

    return test


def _whole(stated: Mapping[str, Any]) -> Check:
    bounded = _bounds(stated)

    def test(value: Any) -> Any:
        if type(value) is not int or not bounded(value):
            raise Unfit
        return value

    return test


def _number(stated: Mapping[str, Any]) -> Check:
    bounded = _bounds(stated)

    def test(value: Any) -> Any:
        if type(value) is int:
            if abs(value) > _EXACT:
                raise Unfit
            value = float(value)
        if type(value) is not float or value - value != 0 or not bounded(value):
            raise Unfit
        return value

    return test


_EXACT = 2**53  # whole numbers up to here are numbers with a point without loss


def _bounds(stated: Mapping[str, Any]) -> Callable[[float], bool]:
    above, least, most = (stated.get(word) for word in ("gt", "ge", "le"))
    lowest = float("-inf") if least is None else least
    highest = float("inf") if most is None else most
    if above is None:
        return lambda value: lowest <= value <= highest
    return lambda value: above < value <= highest and value >= lowest


def _truth(_stated: Mapping[str, Any]) -> Check:
    def test(value: Any) -> Any:
        if type(value) is not bool:
            raise Unfit
        return value

    return test


_PLAIN: Mapping[Any, Callable[[Mapping[str, Any]], Check]] = {
    str: _text,
    int: _whole,
    float: _number,
    bool: _truth,
}
