"""The record that every kind is made of: a closed, frozen value with a slot for each key.

A record states its keys as annotations, like a pydantic model, and has the same face; what differs is when
pydantic is asked. Most files are right, so they are read by the plain checks of ``model.checks``, that need
no import, into values that hold nothing else. Whatever these do not take goes to the model that
``model.twins`` makes of the same annotations: it alone refuses, explains, and renders schemas.
"""

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

from reconciler.model.checks import Field as Field  # noqa: PLC0414 - part of this module's face
from reconciler.model.checks import Keyed, Unfit, made, reading

if TYPE_CHECKING:
    from pydantic.config import JsonDict


class Record(Keyed):
    """A closed, frozen, strict record; its errors never repeat the input."""

    if not TYPE_CHECKING:  # checkers see a constructor with the keys

        def __new__(cls, **values: Any) -> Self:
            """The record of these keys, as files have them. Raises pydantic's ``ValidationError``."""
            if not values and not any(key.required for key in cls.record_keys):
                return made(cls, {key.field: key.usual() for key in cls.record_keys})
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
            if options.get("exclude_defaults") and not key.required and value == key.usual():
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


def _dumped(value: Any, mode: Literal["python", "json"], options: dict[str, bool]) -> Any:
    if isinstance(value, Record):
        return value.model_dump(mode=mode, **options)
    if isinstance(value, tuple):
        found = [_dumped(one, mode, options) for one in value]
        return found if mode == "json" else tuple(found)
    if isinstance(value, dict):
        return {key: _dumped(one, mode, options) for key, one in value.items()}
    return value
