"""One file's values to one typed record, or to all that is wrong with their shape.

First what makes the rest senseless (an empty file, another format), then every key at once, then what spans
two keys and what the path must agree with. What other objects say is not asked here.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.config import words
from reconciler.config.codes import BOTH_OR_NEITHER, REFERENCE_FORM, TOO_MANY
from reconciler.config.words import Subject
from reconciler.model.names import Kind
from reconciler.model.problems import Path, Problem, Span, key_path, listed, quoted
from reconciler.model.resources import Binding, Config, KindRow, Record, SecretReference

MAX_TOLD = 50  # problems of one file; whoever has more needs another tool first

_FORMS = tuple(SecretReference.aliases.values())


def sound(row: KindRow, values: Mapping[str, Any], given: Mapping[Path, object]) -> Record | None:
    """The record of values that are right, or None: the short way, since most files are right."""
    try:
        spec = row.model.model_validate(values)
    except ValueError:
        return None
    if isinstance(spec, Binding):
        if (spec.connector is None) == (spec.addon is None):
            return None
        if any(_forms(reference) != 1 for reference in spec.secrets.values()):
            return None
    elif isinstance(spec, Config) and spec.ledger.password and _forms(spec.ledger.password) != 1:
        return None
    return spec if all(words.found(values, path, value) == value for path, value in given.items()) else None


def _forms(reference: SecretReference) -> int:
    return sum(getattr(reference, field) is not None for field in SecretReference.aliases)


def problems(subject: Subject) -> tuple[Problem, ...]:
    """All that is wrong with values that are not sound. Places are still to be looked up."""
    if early := _senseless(subject):
        return (early,)
    found = list(_across(subject))
    from reconciler.config import faults  # noqa: PLC0415 - what explains is not needed where all is right

    found.extend(faults.problems(subject))
    return _bounded(found, subject)


def _senseless(subject: Subject) -> Problem | None:
    """An empty file, or another format than this release reads: one problem, and nothing more to say."""
    expected = subject.row.api_version
    given = subject.values.get("apiVersion")
    path = ("apiVersion",)
    if not subject.values and subject.row.kind not in (Kind.CONFIG, Kind.CHAIN):
        mend = f"add apiVersion = {words.literal(expected)}"
        return subject.problem(
            subject.codes.missing_key, ("the file is empty", f"it is {subject.noun}", mend), path
        )
    if given is None or given == expected:
        return None
    what = f"this release does not read {_named(given)} here"
    told = what, f"{subject.noun} is {expected}", f"write apiVersion = {words.literal(expected)}"
    return subject.problem(subject.codes.wrong_value, told, path, candidates=(expected,))


def _named(given: object) -> str:
    return f"the format {quoted(given)}" if isinstance(given, str) else "a format that is no text"


# what spans two keys, and what the path gives


def _across(subject: Subject) -> Iterator[Problem]:
    yield from _values_are_what_the_path_says(subject)
    if subject.row.kind is Kind.BINDING:
        yield from _a_binding_names_one_connector_or_one_addon(subject)
        yield from _a_secret_has_one_form(subject, "secrets", "API_KEY")
    elif subject.row.kind is Kind.CONFIG:
        yield from _a_secret_has_one_form(subject, "ledger", "LEDGER_PASSWORD", ("password",))


def _values_are_what_the_path_says(subject: Subject) -> Iterator[Problem]:
    for path, given in subject.given.items():
        value, key = words.found(subject.values, path, given), path[-1]
        if type(value) is type(given) and value != given:
            what = f"{key} is {quoted(value)}, and the path says {quoted(given)}"
            why = f"the path of {subject.noun} gives its {key}, so that no two files can claim one"
            mend = f"write {key} = {words.literal(given)}, or move the file"
            yield subject.problem(subject.codes.wrong_name, (what, why, mend), path)


def _a_binding_names_one_connector_or_one_addon(subject: Subject) -> Iterator[Problem]:
    named = [key for key in ("connector", "addon") if key in subject.values]
    if len(named) == 1 or _is_misspelt(subject, "connector") or _is_misspelt(subject, "addon"):
        return
    why = "a binding configures exactly one connector or one addon"
    if named:
        what, mend = "it names both a connector and an addon", "remove one of them"
    else:
        what, mend = "it names neither a connector nor an addon", 'add connector = "ocr-tesseract"'
    yield subject.problem(BOTH_OR_NEITHER, (what, why, mend), ("addon",) if named else ())


def _is_misspelt(subject: Subject, key: str) -> bool:
    unknown = subject.values.keys() - words.keys(subject, ())
    return len(unknown) <= MAX_TOLD and any(words.nearest_key(subject, (other,)) == key for other in unknown)


def _a_secret_has_one_form(
    subject: Subject, table: str, example: str, only: tuple[str, ...] = ()
) -> Iterator[Problem]:
    secrets = subject.values.get(table)
    if not isinstance(secrets, Mapping):
        return
    for slot, reference in secrets.items():
        if not isinstance(reference, Mapping) or any(key not in _FORMS for key in reference):
            continue  # told as a wrong value or an unknown key
        forms = list(reference)
        if len(forms) == 1 or (only and slot not in only):
            continue
        field = key_path((table, slot))
        what = f"{field} has {len(forms)} forms: {', '.join(forms)}" if forms else f"{field} says nothing"
        why = f"a reference has exactly one form: {listed(_FORMS)}"
        mend = "keep one of them" if forms else f'write {slot} = {{ env = "{example}" }}'
        yield subject.problem(REFERENCE_FORM, (what, why, mend), (table, slot))


def _bounded(found: list[Problem], subject: Subject) -> tuple[Problem, ...]:
    if len(found) <= MAX_TOLD:
        return tuple(found)
    more = len(found) - MAX_TOLD
    rest = Problem(
        TOO_MANY,
        f"{more:,} more problems are not listed",
        f"more than {MAX_TOLD} problems in one file have one cause",
        "mend the first ones and look again",
        Span(subject.file),
        about=subject.about,
    )
    return (*found[:MAX_TOLD], rest)
