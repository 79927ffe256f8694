"""What the annotations of a record say, as plain checks: a table to a value, or ``Unfit``.

A check states what a type and its rules mean without pydantic, for files that are right. It may be narrower
than pydantic and never wider (a property test compares them): what it does not take, ``model.twins`` judges.
"""

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, dataclass_transform, get_args, get_origin

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

    def usual(self) -> Any:
        """What it is when it is left out."""
        return self.factory() if self.factory else self.default


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(Field,))
class RecordType(type):
    """Makes the annotations of a record its keys, each in a slot of its own."""

    record_keys: tuple[Key, ...]
    reading: Check | None  # made when the first table comes

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> "RecordType":
        own = body.get("keeps_names") or any(getattr(base, "keeps_names", False) for base in bases)
        name_of = str if own else _camel
        stated = body.get("__annotations__", {}).items()
        keys = tuple(_key(field, kind, body, name_of) for field, kind in stated)
        body["__slots__"] = tuple(key.field for key in keys)
        made = super().__new__(cls, name, bases, body)
        made.record_keys, made.reading = keys, None
        return made

    @property
    def aliases(cls) -> dict[str, str]:
        """The key in files by the name here."""
        return {key.field: key.alias for key in cls.record_keys}


def _key(field: str, annotation: Any, body: dict[str, Any], name_of: Callable[[str], str]) -> Key:
    default = body.pop(field, _MISSING)
    factory = None
    if isinstance(default, Rule):
        default, factory = _MISSING, default.default_factory
    alias = next((rule.alias for rule in _rules(annotation) if rule.alias), None) or name_of(field)
    return Key(field, alias, annotation, default, factory)


def _camel(field: str) -> str:
    first, *rest = field.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _rules(annotation: Any) -> list[Rule]:
    return [one for one in getattr(annotation, "__metadata__", ()) if isinstance(one, Rule)]


class Keyed(metaclass=RecordType):
    """What has keys: the root of every record, without a word of how one is read or shown."""


def made(kind: type[Keyed], values: Mapping[str, Any]) -> Any:
    """A record of values that are known to be right, by their names here; all of them."""
    one = object.__new__(kind)
    for key in kind.record_keys:
        object.__setattr__(one, key.field, values[key.field])
    return one


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
        key, each = map(check, get_args(annotation))
        return _dict(key, each, stated)
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


def _dict(key: Check, each: Check, stated: Mapping[str, Any]) -> Check:
    least, most = stated.get("min_length", 0), stated.get("max_length", sys.maxsize)

    def test(value: Any) -> Any:
        if type(value) is not dict or not least <= len(value) <= most:
            raise Unfit
        return {key(name): each(one) for name, one in value.items()}

    return test


_SHARED, _SHORT = 128, 40  # texts that a check keeps, and the characters of one: a few KB in all


def _text(stated: Mapping[str, Any]) -> Check:
    least, most = stated.get("min_length", 0), stated.get("max_length", sys.maxsize)
    pattern = stated.get("pattern", "")
    # pydantic's engine takes $ for the very end, Python's also for the place before a last newline.
    found = re.compile(re.sub(r"\$(?=$|\))", r"\\Z", pattern)).search

    known: dict[str, str] = {}  # one text for those that many files say, like a connector's name

    def test(value: Any) -> Any:
        if type(value) is not str:
            raise Unfit
        if (same := known.get(value)) is not None:
            return same
        if not least <= len(value) <= most or (pattern and not found(value)):
            raise Unfit
        if len(known) < _SHARED and len(value) <= _SHORT:
            known[value] = value
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
