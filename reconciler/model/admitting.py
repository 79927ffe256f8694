"""Whether a call is within a profile: the one law that admission and the moment of a call both ask.

Nothing unstated is ever sent: a field without a table, a value out of its bounds, a need that the profile
does not state are refused here, and the refusal names the fact. ``within`` judges the fields of one call;
``unmet`` judges what a connector says that it needs, before any call is there. Both are pure and total.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from reconciler.model.dialect import FieldFact, FieldRule, Operation, Profile

_MISSING = object()
_RANKS: Mapping[str, tuple[str, ...]] = {  # facts whose values are ordered, the weakest first
    "cancel.mode": ("none", "abort-unproven", "request", "proved"),
    "idempotency.mode": ("none", "client-key", "natural"),
    "echo.model": ("unreliable", "prefix", "exact"),
}
_LISTS = ("lookup.by", "cancel.cancels", "fetch.parts")
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "object": (Mapping,),
    "array": (list, tuple),
}
_PLAIN = (str, bool, int, float, list, tuple, Mapping)
NEED = re.compile(
    r"(?P<fact>field\.[A-Za-z_][A-Za-z0-9_-]*(\[\])?(\.types|\.roles|\.enum)?|[a-z]+(\.[a-zA-Z]+)*)"
    r"(?:(?P<sign>>=|=|:)(?P<value>[!-~]+))?"
)


@dataclass(frozen=True, slots=True)
class Unstated:
    """One fact that is asked for and not stated.

    ``fact`` is its name, like ``field.seed``; ``detail`` one clause for operators, with names of the
    provider's. ``invalid``: a stated field has a value out of its bounds, so the caller reads
    ``invalid_input``; else the fact is not there, and the caller reads ``refused``.
    """

    fact: str
    detail: str
    invalid: bool = False


def admit(
    profile: Profile, operation: str, fields: Mapping[str, object], needs: Iterable[str] = ()
) -> tuple[Unstated, ...]:
    """Every fact that a call asks for and the profile does not state; () when it is within the profile.

    ``fields`` are the provider's, as they would be sent; ``model`` among them is judged against the profile's
    list where it has one.
    """
    found = profile.operation(operation)
    if found is None:
        return (Unstated(f"operation.{operation}", f"{profile.ref} does not offer {operation!r}"),)
    return (*within(profile, found, fields), *unmet(profile, operation, needs))


def offering(profiles: Iterable[Profile], operation: str) -> tuple[Profile, ...]:
    """The profiles that state an operation."""
    return tuple(one for one in profiles if one.operation(operation) is not None)


def selected(profiles: Iterable[Profile], operation: str, model: str) -> Profile | None:
    """The one profile that answers an operation for an exact model: one that lists it, else one that leaves
    its models to the binding. No family, no prefix, no fallback.
    """
    offered = offering(profiles, operation)
    exact = [one for one in offered if model in one.identity.models]
    return next(iter(exact or [one for one in offered if not one.identity.models]), None)


def within(profile: Profile, operation: Operation, fields: Mapping[str, object]) -> Iterator[Unstated]:
    """What of the fields of one call is not stated, in the fields' order."""
    model = fields.get("model")
    listed = profile.identity.models
    if "model" in fields and listed and model not in listed:
        yield Unstated("models", f"{model!r} is not one of the models")
    for name, value in fields.items():
        yield from _field(operation, name, value, model)
    for name in operation.required:
        if name not in fields:
            yield Unstated(f"field.{name}", f"{name} must be given", invalid=True)
    for rule in operation.rules:
        if _applies(rule, fields):
            yield from _consequences(rule, fields)


def unmet(profile: Profile, operation: str, needs: Iterable[str]) -> Iterator[Unstated]:
    """What of a connector's needs the profile does not state for an operation.

    A need is ``FACT``, ``FACT=VALUE`` (exactly, or among a list), ``FACT>=VALUE`` (where values are ordered:
    `cancel.mode`, `idempotency.mode`, `echo.model`) or ``media.out:TYPE``.
    """
    found = profile.operation(operation)
    if found is None:
        yield Unstated(f"operation.{operation}", f"{profile.ref} does not offer {operation!r}")
        return
    for need in needs:
        match = NEED.fullmatch(need)
        if match is None:
            yield Unstated(need, "it cannot be read as a fact")
        elif fault := _need(profile, found, match):
            yield Unstated(need, fault)


# fields


def _field(operation: Operation, name: str, value: object, model: object) -> Iterator[Unstated]:
    fact = operation.fields.get(name)
    if name in operation.rejected:
        yield Unstated(f"field.{name}", f"{name} is known and refused by this server")
    elif fact is None:
        yield Unstated(f"field.{name}", f"{name} is not stated")
    elif fact.models and model is not None and model not in fact.models:
        yield Unstated(f"field.{name}", f"{name} is not stated for this model")
    elif fault := _value(fact, value):
        yield Unstated(f"field.{name}", f"{name} {fault}", invalid=True)


def _value(fact: FieldFact, value: object) -> str | None:
    """Why a value does not fit its field, as a clause; None when it does."""
    kinds = (fact.type, *fact.also)
    if not any(_is(kind, value) for kind in kinds):
        return f"is not of type {' or '.join(kinds)}"
    items: Collection[object] = value if isinstance(value, list | tuple) else (value,)
    if fact.enum is not None and any(not _among(one, fact.enum) for one in items):
        return f"is not one of {_list(fact.enum)}"
    if isinstance(value, str):
        return _text(fact, value)
    if isinstance(value, int | float):
        return _number(fact, value)
    if isinstance(value, list | tuple | Mapping):
        return _many(fact, value)
    return _size(fact, value)


def _is(kind: str, value: object) -> bool:
    if kind == "integer":
        return type(value) is int or (type(value) is float and value.is_integer())
    if kind == "number":
        return type(value) is int or (type(value) is float and value - value == 0)
    if kind == "file":
        return value is not None and not isinstance(value, _PLAIN)
    return isinstance(value, _TYPES[kind])


def _among(value: object, values: Collection[object]) -> bool:
    return any(type(one) is type(value) and one == value for one in values)


def _text(fact: FieldFact, value: str) -> str | None:
    if fact.max_chars is not None and len(value) > fact.max_chars:
        return f"has more than {fact.max_chars:,} characters"
    if fact.pattern is not None and re.fullmatch(fact.pattern, value) is None:
        return "is not written as this server takes it"
    return None


def _number(fact: FieldFact, value: float) -> str | None:
    if fact.min is not None and value < fact.min:
        return f"is less than {fact.min:g}"
    if fact.max is not None and value > fact.max:
        return f"is more than {fact.max:g}"
    return None


def _many(fact: FieldFact, value: Collection[object]) -> str | None:
    if fact.max_items is not None and len(value) > fact.max_items:
        return f"has more than {fact.max_items:,} items"
    records = [value] if isinstance(value, Mapping) else [one for one in value if isinstance(one, Mapping)]
    for word, allowed in (("type", fact.types), ("role", fact.roles)):
        if allowed is not None and any(one.get(word, _MISSING) not in allowed for one in records):
            return f"has a {word} that is not one of {_list(allowed)}"
    if fact.keys is not None and (odd := [key for one in records for key in one if key not in fact.keys]):
        return f"has {odd[0]!r}, which is not stated"
    return None


def _size(fact: FieldFact, value: object) -> str | None:
    size = value if fact.max_bytes is None else getattr(value, "size", None)
    if isinstance(value, bytes):
        size = len(value)
    if fact.max_bytes is not None and isinstance(size, int) and size > fact.max_bytes:
        return f"has more than {fact.max_bytes:,} bytes"
    return None


def _list(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))


# rules


def _applies(rule: FieldRule, fields: Mapping[str, object]) -> bool:
    wanted = rule.if_
    return (
        all(name in fields for name in wanted.present)
        and not any(name in fields for name in wanted.absent)
        and all(fields.get(name, _MISSING) == value for name, value in wanted.equals.items())
        and (not wanted.models or fields.get("model") in wanted.models)
    )


def _consequences(rule: FieldRule, fields: Mapping[str, object]) -> Iterator[Unstated]:
    for name in rule.then.require:
        if name not in fields:
            yield Unstated(f"field.{name}", f"{name} must be given with the others", invalid=True)
    for name in rule.then.reject:
        if name in fields:
            yield Unstated(f"field.{name}", f"{name} does not go with the others", invalid=True)
    for name, values in rule.then.enum.items():
        if name in fields and not _among(fields[name], values):
            yield Unstated(
                f"field.{name}", f"{name} with the others is not one of {_list(values)}", invalid=True
            )


# needs


def _need(profile: Profile, operation: Operation, match: re.Match[str]) -> str | None:
    """Why a need is not met, as a clause that says what the profile states; None when it is."""
    fact, sign, value = match["fact"], match["sign"], match["value"]
    if fact.startswith("field."):
        return _field_need(operation, fact, sign, value)
    if fact in ("media.in", "media.out") and sign == ":":
        types = profile.media.in_ if fact == "media.in" else profile.media.out
        stated = [one.type for one in types if not one.operations or operation.name in one.operations]
        return None if value in stated else _states(stated)
    if fact in _RANKS and sign in ("=", ">="):
        ranks, stands = _RANKS[fact], str(_fact(profile, operation, fact))
        if value not in ranks:
            return f"its values are {_list(ranks)}"
        met = stands == value if sign == "=" else ranks.index(stands) >= ranks.index(value)
        return None if met else _states([stands])
    return _plain_need(_fact(profile, operation, fact), fact, sign, value)


def _plain_need(stands: object, fact: str, sign: str | None, value: str | None) -> str | None:
    if stands is _MISSING:
        return "it is no fact of a profile"
    if fact in _LISTS and sign == "=":
        stated = list(map(str, stands)) if isinstance(stands, Iterable) else []
        return None if value in stated else _states(stated)
    if sign == "=":
        return None if _word(stands) == value else _states([] if stands is None else [_word(stands)])
    if sign is None:
        return None if stands not in (None, (), {}, False, "none") else _states([])
    return f"{sign} does not go with it"


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _field_need(operation: Operation, fact: str, sign: str | None, value: str | None) -> str | None:
    _, name, *more = fact.split(".")
    stands = operation.fields.get(name)
    if stands is None or name in operation.rejected:
        return f"it is not among the {len(operation.fields)} fields that are stated"
    if not more:
        return None if sign is None else f"write {fact}.enum={value}"
    listed = {"types": stands.types, "roles": stands.roles, "enum": stands.enum}[more[0]]
    if sign != "=" or listed is None:
        return _states([])
    words = [str(one) for one in listed]
    return None if value in words else _states(words)


def _fact(profile: Profile, operation: Operation, fact: str) -> object:
    """What stands under a fact's name: of the operation, else of the profile; _MISSING: there is no such."""
    here: object = operation
    first, *rest = fact.split(".")
    if first not in type(operation).aliases.values():
        here = profile
    for part in (first, *rest):
        names = {alias: field for field, alias in getattr(type(here), "aliases", {}).items()}
        if part not in names:
            return None if here is None else _MISSING
        here = getattr(here, names[part])
    return here


def _states(stated: Iterable[str]) -> str:
    return f"the profile states [{', '.join(stated)}]"
