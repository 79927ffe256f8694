"""What differs between two forms of one object: its keys before and after, and the files of its folder.

Keys are named as people write them (``settings.model``) and values as TOML has them, whole: who shows them
may
cut. A reference to a secret is shown as a fingerprint of it, since the words of a command or a path say more
than a change needs. Defaults are left out: a key that is not set has no value.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from reconciler.admission.view import inside
from reconciler.model.inventory import Resource
from reconciler.model.recipes import SecretUse
from reconciler.model.resources import Record

_FINGERPRINT = 8  # hex digits: enough to see that a reference changed


@dataclass(frozen=True, slots=True)
class Field:
    """One key that is not as it was; None: it is not set. Texts are TOML, numbers are bounds with their unit
    in the key.
    """

    key: str
    before: str | float | None
    after: str | float | None


def fields(was: Resource[Record] | None, now: Resource[Record] | None) -> Iterator[Field]:
    """The keys at which two forms of one object differ, sorted; none where one of them is missing."""
    if was is now or was is None or now is None or was.digest == now.digest:
        return
    old, new = _flat(was.spec), _flat(now.spec)
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            yield Field(key, _written(key, old.get(key)), _written(key, new.get(key)))


def files(was: Resource[Record] | None, now: Resource[Record] | None) -> tuple[str, ...]:
    """The files of an object's folder that came, went, changed or got another mode, relative to it."""
    if was is now or was is None or now is None or (len(was.files) < 2 and len(now.files) < 2):
        return ()
    old, new = inside(was), inside(now)
    modes = was.executable ^ now.executable
    start = now.file.rpartition("/")[0] + "/"
    changed = {path for path in old.keys() | new.keys() if old.get(path) != new.get(path)}
    return tuple(sorted(changed | {path.removeprefix(start) for path in modes}))


def fingerprint(use: SecretUse) -> str:
    """A filled slot without the words of its reference: ``api_key (command 1f3a9c02)``."""
    words = "\0".join((use.form, *use.reference))
    return f"{use.slot} ({use.form} {_digest(words)})"


def _flat(spec: Record) -> dict[str, object]:
    """Every key of a spec that is set, as people write it (``settings.model``), defaults left out."""
    found: dict[str, object] = {}
    _flatten(spec.model_dump(by_alias=True, exclude_defaults=True), "", found)
    return found


def _flatten(value: object, key: str, found: dict[str, object]) -> None:
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            _flatten(inner, f"{key}.{name}" if key else str(name), found)
    elif key:
        found[key] = value


def _written(key: str, value: object) -> str | None:
    if value is None:
        return None
    return _digest(repr(value)) if key.startswith("secrets.") else _toml(value)


def _toml(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case tuple() | list():
            return "[" + ", ".join(map(_toml, value)) + "]"
        case Mapping():
            return "{" + ", ".join(f"{name} = {_toml(one)}" for name, one in value.items()) + "}"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return str(value)


def _digest(words: str) -> str:
    return hashlib.sha256(words.encode()).hexdigest()[:_FINGERPRINT]
