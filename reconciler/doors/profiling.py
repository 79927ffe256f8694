"""``handler profile``: the profiles that there are, what one states, and whether a call is within it.

Reads files alone: nothing is started, asked or sent. What ``admit`` says is what a call would be told.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from reconciler.control import folders
from reconciler.doors import columns, offline, usage
from reconciler.model import admitting
from reconciler.model.dialect import Operation, Profile
from reconciler.model.inventory import Resource
from reconciler.model.names import Kind, ObjectRef

_HEAD = ["PROFILE", "DIALECT", "OPERATIONS", "MODELS", "PROVIDER", "STATE"]


def listed(settings: usage.Settings, dialect: str) -> int:
    """Print a table of them; 0 some, 1 none."""
    look = offline.look(folders.configuration(settings.config))
    found = [one for one in _all(look) if _is_of(one.spec, dialect)]
    if settings.output == "json":
        told = [_told(look, one) for one in found]
        sys.stdout.write(json.dumps(told, indent=2, ensure_ascii=False) + "\n")
    elif settings.output == "name":
        sys.stdout.write("".join(f"profile/{one.ref.name}\n" for one in found))
    elif found:
        paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
        sys.stdout.write(columns.table([_HEAD, *(_row(look, one) for one in found)], paint))
    if not found and not settings.quiet:
        sys.stderr.write("handler: there is no such profile\n")
    return 0 if found else 1


def show(settings: usage.Settings, reference: str) -> int:
    """Print what one states. Raises ``usage.Stopped`` where there is none."""
    look = offline.look(folders.configuration(settings.config))
    one = _found(look, reference)
    if settings.output == "json":
        facts = one.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        told = {**_told(look, one), "facts": facts}
        sys.stdout.write(json.dumps(told, indent=2, ensure_ascii=False) + "\n")
        return 0
    paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
    sys.stdout.write(
        f"{paint(columns.shown(one.ref.name), 'bold')}  {columns.shown(one.spec.description)}\n\n"
    )
    sys.stdout.write(columns.table([list(row) for row in _facts(look, one)], paint))
    for operation in one.spec.operations:
        sys.stdout.write(f"\n{paint(operation.name, 'bold')}  {operation.method} {operation.path}\n")
        sys.stdout.write(columns.table([list(row) for row in _of_operation(one.spec, operation)], paint))
    sys.stdout.write("\nWhat is not said here is not supported. Nothing here was tried: evidence is.\n")
    return 0


def admit(
    settings: usage.Settings, what: tuple[str, str], fields: Iterable[str], needs: Iterable[str]
) -> int:
    """Say each fact that a call of an operation (``what``: profile and operation) asks for and that is not
    stated; 0 none, 1 some.
    """
    reference, operation = what
    look = offline.look(folders.configuration(settings.config))
    profile = _found(look, reference).spec
    values = dict(map(_field, fields))
    if values or not needs:
        found = admitting.admit(profile, operation, values, needs)
    else:
        found = tuple(admitting.unmet(profile, operation, needs))
    if settings.output == "json":
        told = [{"fact": one.fact, "detail": one.detail, "invalid": one.invalid} for one in found]
        sys.stdout.write(json.dumps(told, indent=2, ensure_ascii=False) + "\n")
    else:
        for one in found:
            word = "invalid_input" if one.invalid else "refused"
            sys.stdout.write(columns.shown(f"{word}  {one.fact}: {one.detail}") + "\n")
    if not found and not settings.quiet:
        sys.stderr.write(f"All of it is stated by {profile.ref}.\n")
    return 1 if found else 0


def _all(look: offline.Look) -> list[Resource[Profile]]:
    found = (one for one in look.admission.in_force.values() if one.ref.kind is Kind.PROFILE)
    return sorted((cast("Resource[Profile]", one) for one in found), key=lambda one: one.ref.name)


def _found(look: offline.Look, reference: str) -> Resource[Profile]:
    name = reference.removeprefix("profile/")
    found = look.admission.in_force.get(ObjectRef(Kind.PROFILE, name))
    if found is None:
        near = usage.nearest(name, [one.ref.name for one in _all(look)])
        hint = f"did you mean '{near}'?" if near else "'handler profile list' lists them"
        raise usage.Stopped(f"there is no profile '{name}': {hint}")
    return cast("Resource[Profile]", found)


def _is_of(profile: Profile, dialect: str) -> bool:
    spoken = profile.identity.dialect
    return not dialect or dialect in (spoken, spoken.partition("@")[0])


def _state(look: offline.Look, one: Resource[Profile]) -> str:
    lock = look.admission.inventory.locks.get(one.layer)
    return "published" if lock and one.ref.name in lock.entries else "draft"


def _row(look: offline.Look, one: Resource[Profile]) -> list[str]:
    spec = one.spec
    return [
        one.ref.name,
        spec.identity.dialect,
        ", ".join(operation.name for operation in spec.operations),
        ", ".join(spec.identity.models) or "the binding's",
        spec.identity.provider,
        _state(look, one),
    ]


def _told(look: offline.Look, one: Resource[Profile]) -> Mapping[str, object]:
    spec = one.spec
    return {
        "profile": one.ref.name,
        "dialect": spec.identity.dialect,
        "operations": [operation.name for operation in spec.operations],
        "models": list(spec.identity.models),
        "provider": spec.identity.provider,
        "state": _state(look, one),
        "layer": one.layer.value,
        "digest": f"sha256:{one.digest}",
    }


def _facts(look: offline.Look, one: Resource[Profile]) -> Iterator[tuple[str, str]]:
    spec = one.spec
    identity, kept = spec.identity, spec.retention
    yield "dialect", f"{identity.dialect}, by {identity.driver}"
    yield "server", identity.server or identity.provider
    yield "models", ", ".join(identity.models) or "those that a binding names"
    yield (
        "address",
        "the binding's settings.baseUrl" if spec.transport.base == "binding" else spec.transport.base,
    )
    yield "secret", spec.auth.secret or "none"
    yield "refuses", ", ".join(identity.refuses) or "none of the dialect's operations"
    yield "keeps requests", _days(kept.request_days)
    yield "keeps results", _days(kept.result_days)
    yield "trains on them", kept.training or "unstated"
    yield "file", f"{one.layer.value}: {one.file}, {_state(look, one)}"
    yield "facts", f"sha256:{one.digest}"


def _days(days: float | None) -> str:
    if days is None:
        return "unstated"
    return f"{days:g} days" if days else "not at all"


def _of_operation(spec: Profile, one: Operation) -> Iterator[tuple[str, str]]:
    yield "effect", one.effect
    yield "fields", ", ".join(f"{name}*" if name in one.required else name for name in one.fields)
    if one.rejected:
        yield "rejected", ", ".join(one.rejected)
    for word, types in (("takes", spec.media.in_), ("gives", spec.media.out)):
        stated = [media.type for media in types if not media.operations or one.name in media.operations]
        if stated:
            yield word, ", ".join(stated)
    yield "stream", one.stream.meaning
    yield "sent twice", {"none": "may have two effects"}.get(one.idempotency.mode, one.idempotency.mode)
    yield "lookup", ", ".join(one.lookup.by) or "none"
    yield "cancel", one.cancel.mode


def _field(word: str) -> tuple[str, object]:
    name, sign, text = word.partition("=")
    if not sign or not name:
        raise usage.Usage(f"'{word}' is no FIELD=VALUE")
    try:
        return name, json.loads(text)
    except ValueError:
        return name, text
