"""What a profile states, asked the way drivers ask it; whatever is not stated raises ``Unsealable``."""

from collections.abc import Iterator

from reconciler.drivers.asking import Call, Unsealable
from reconciler.model.dialect import FieldFact, Operation, Profile


def takes(operation: Operation, name: str, model: str) -> FieldFact | None:
    """The facts of a field, where the operation states it for this model; else None."""
    fact = operation.fields.get(name)
    if fact is None or name in operation.rejected:
        return None
    return fact if fact.models is None or model in fact.models else None


def asked(operation: Operation, name: str, model: str) -> FieldFact:
    """The facts of a field that is needed."""
    fact = takes(operation, name, model)
    if fact is None:
        raise Unsealable(f"field.{name}")
    return fact


def one_of(operation: Operation, names: tuple[str, ...], model: str) -> str:
    """The first of several names of one thing that the operation states."""
    for name in names:
        if takes(operation, name, model) is not None:
            return name
    raise Unsealable(f"field.{names[0]}")


def typed(fact: FieldFact | None, word: str) -> bool:
    """Whether objects of this ``type`` may stand in a field: any, where the profile lists none."""
    return fact is not None and (fact.types is None or word in fact.types)


def valued(fact: FieldFact | None, value: str) -> bool:
    """Whether a field may have this value: any, where the profile lists none."""
    return fact is not None and (fact.enum is None or value in fact.enum)


def media_in(profile: Profile, operation: Operation, kind: str) -> Iterator[str]:
    """The media types of a kind (``image``, ``audio``) that may be handed in."""
    for one in profile.media.in_:
        if one.type.startswith(f"{kind}/") and (not one.operations or operation.name in one.operations):
            yield one.type


def media_out(profile: Profile, operation: Operation) -> tuple[str, ...]:
    """The media types that may come out."""
    return tuple(
        one.type for one in profile.media.out if not one.operations or operation.name in one.operations
    )


def shown(profile: Profile, operation: Operation, media_type: str) -> None:
    """Unsealable where the operation takes nothing of this media type."""
    if media_type not in media_in(profile, operation, media_type.partition("/")[0]):
        raise Unsealable(f"media.in:{media_type}")


def judged(call: Call, operation: Operation) -> dict[str, object]:
    """All that a call gives, files among it, as ``model.admitting`` judges it: one file where the field is a
    file, a list of them where it is an array.
    """
    given: dict[str, object] = dict(call.fields)
    for name, files in call.files.items():
        fact = operation.fields.get(name)
        given[name] = files[0] if len(files) == 1 and (fact is None or fact.type == "file") else files
    return given
