"""From a binding and its connector to the recipe of one instance, and the code that goes with it.

A recipe holds all that changes the running thing and nothing else (ruling 53): the connector's folder, the
settings by the variables that carry them, references to secrets, models, egress, sandbox, bounds, the
environment's lock and the kit. So a changed description, probe or suspension keeps the instance, and
everything else makes a new one.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import orjson

from reconciler.admission import connectors
from reconciler.admission.admit import Admission
from reconciler.admission.view import inside
from reconciler.model import places
from reconciler.model.hosts import of_address
from reconciler.model.inventory import Resource
from reconciler.model.names import InstanceName, Kind, ObjectRef
from reconciler.model.recipes import Pinned, Recipe, SandboxPolicy, SecretUse, folder_digest
from reconciler.model.resources import (
    Binding,
    Connector,
    Profile,
    SecretReference,
    SecretSlot,
    Setting,
)

_LOCK = "requirements.lock"  # what a python connector needs installed, hashed
_FORMS = ("command", "file", "env", "keyring", "systemd", "age", "sops")


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """One binding's instance, and the values it was made from: the same values need no second making."""

    binding: Resource[Binding]
    connector: Resource[Connector]
    state: str
    recipe: Recipe
    name: InstanceName


@dataclass(frozen=True, slots=True, eq=False)
class Base:
    """What all instances of one connector have in common, worked out once."""

    connector: Resource[Connector]
    code: Pinned
    runtime: str
    entry: str
    environment: str
    egress: tuple[str, ...]
    sandbox: SandboxPolicy
    profiles: tuple[tuple[str, str], ...] = ()


def profiles_of(admission: Admission, connector: Resource[Connector]) -> list[Resource[Profile]]:
    """The profiles in force that a connector speaks by, as it lists them."""
    refs = (ObjectRef(Kind.PROFILE, name) for name in dict.fromkeys(connector.spec.profiles))
    return [cast("Resource[Profile]", admission.in_force[ref]) for ref in refs if ref in admission.in_force]


def spoken(profiles: Iterable[Resource[Profile]]) -> tuple[tuple[str, str], ...]:
    """The profiles that a connector speaks by as a recipe names them: reference and digest of the facts."""
    return tuple((one.ref.name, one.digest) for one in profiles)


def base(connector: Resource[Connector], profiles: Sequence[Resource[Profile]] = ()) -> Base:
    """What a connector's instances share; ``code`` is its folder as they run it, with the facts of its
    profiles as ``profiles/ID@REVISION.json``.
    """
    files = dict(inside(connector))
    files |= {f"profiles/{one.ref.name}.json": _facts(one) for one in profiles}
    start = connector.file.rpartition("/")[0] + "/"
    executable = frozenset(path.removeprefix(start) for path in connector.executable)
    lock, needs = files.get(_LOCK), connector.spec.sandbox
    return Base(
        connector=connector,
        code=Pinned(folder_digest(files, executable), files, executable),
        runtime=connectors.runtime(connector) or "",
        entry=connectors.entry(connector),
        environment=hashlib.sha256(lock).hexdigest() if lock is not None else "",
        egress=_listed(connector.spec, profiles),
        profiles=spoken(profiles),
        sandbox=SandboxPolicy(
            programs=tuple(sorted(needs.programs)),
            read=tuple(sorted(needs.read)),
            tmp_bytes=needs.tmp_bytes,
            memory_bytes=needs.memory_bytes,
            pids=needs.pids,
            cpu=needs.cpu,
            gpu=needs.gpu,
        ),
    )


def recipe(binding: Resource[Binding], of: Base, *, state: str, kit: str) -> Recipe:
    """What an instance of the binding is made of; one that plays a cassette is made of that alone."""
    tape = binding.spec.cassette
    if tape is None:
        return _recipe(binding, of, state=state, kit=kit)
    if tape.mode == "record":
        return replace(_recipe(binding, of, state=state, kit=kit), cassette=tape.path)
    return Recipe(
        binding=binding.ref.name,
        connector=of.connector.ref.name,
        runtime="cassette",
        code=of.code.digest,
        entry="",
        environment="",
        settings=(),
        secrets=(),
        models=binding.spec.models,
        egress=(),
        sandbox=SandboxPolicy(),
        state=state,
        kit=kit,
        max_concurrent_calls=binding.spec.instance.max_concurrent_calls,
        cassette=tape.path,
    )


def _recipe(binding: Resource[Binding], of: Base, *, state: str, kit: str) -> Recipe:
    spec, offer, bounds = binding.spec, of.connector.spec, binding.spec.instance
    sandbox = of.sandbox
    if bounds.memory_bytes or bounds.pids:
        memory_bytes = bounds.memory_bytes or sandbox.memory_bytes
        sandbox = replace(sandbox, memory_bytes=memory_bytes, pids=bounds.pids or sandbox.pids)
    return Recipe(
        binding=binding.ref.name,
        connector=of.connector.ref.name,
        runtime=of.runtime,
        code=of.code.digest,
        entry=of.entry,
        environment=of.environment,
        settings=tuple(sorted(_settings(spec, offer))) if offer.settings else (),
        secrets=tuple(
            secret(slot, spec.secrets[slot], offer.secret_slots[slot]) for slot in _filled(spec, offer)
        ),
        models=spec.models,
        egress=_egress(of.egress, spec, offer),
        sandbox=sandbox,
        state=state,
        kit=kit,
        idle_stop_s=bounds.idle_stop_seconds,
        max_concurrent_calls=bounds.max_concurrent_calls,
        ready_timeout_s=offer.ready.timeout_seconds,
        command=offer.command or (),
        image=offer.image or "",
        socket=offer.socket or "",
        profiles=of.profiles,
        folders=_folders(spec, offer, added_to=False),
        adds=_folders(spec, offer, added_to=True),
    )


def variable(key: str) -> str:
    """The variable that carries a setting without ``env``: ``pageLimit`` gives
    ``HANDLER_SETTING_PAGE_LIMIT``.
    """
    words = "".join(f"_{ch}" if ch.isupper() else ch for ch in key)
    return f"HANDLER_SETTING_{words.upper()}"


def text(value: str | float) -> str:
    """A setting's value as a connector reads it: ``true``, ``12``, ``0.5``, or the string itself."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def secret(slot: str, reference: SecretReference, declared: SecretSlot) -> SecretUse:
    """One filled slot: the form and words of its reference, and how the value is delivered (ruling 27)."""
    form = next((form for form in _FORMS if getattr(reference, form) is not None), "")
    via = declared.via or ("gate" if declared.header else "env")
    header = declared.header if via == "gate" else None
    return SecretUse(slot, form, _words(getattr(reference, form, None)), declared.env, via, header)


def _settings(binding: Binding, connector: Connector) -> Iterator[tuple[str, str]]:
    """Each setting that has a value, as the environment variable that carries it and its text."""
    for key, setting in connector.settings.items():
        value = binding.settings.get(key, setting.default)
        if value is not None:
            yield setting.env or variable(key), _seen(key, setting, value)


def _seen(key: str, setting: Setting, value: str | float) -> str:
    """What a connector reads as a setting's value: of a folder never where it lies."""
    if setting.format != "folder":
        return text(value)
    return key if setting.access == "add" else places.place(key)


def _folders(binding: Binding, connector: Connector, *, added_to: bool) -> tuple[tuple[str, str], ...]:
    """The folders that are shown, or those that files are added to, by the keys of their settings."""
    return tuple(
        sorted(
            (key, path)
            for key, form, path in _formed(binding, connector)
            if form == "folder" and (connector.settings[key].access == "add") == added_to
        )
    )


def _formed(binding: Binding, connector: Connector) -> Iterator[tuple[str, places.Format, str]]:
    """Each setting with a format that has a value: what it opens besides being one."""
    for key, setting in connector.settings.items():
        value = binding.settings.get(key, setting.default)
        if setting.format is not None and isinstance(value, str):
            yield key, setting.format, value


def hosts(binding: Binding, admission: Admission) -> tuple[str, ...]:
    """The hosts that a binding's instance may reach, by the forms in force; a tape that plays has none."""
    connector = admission.in_force.get(ObjectRef(Kind.CONNECTOR, binding.connector or ""))
    if connector is None or (binding.cassette is not None and binding.cassette.mode == "replay"):
        return ()
    found = cast("Resource[Connector]", connector)
    return _egress(_listed(found.spec, profiles_of(admission, found)), binding, found.spec)


def _listed(connector: Connector, profiles: Iterable[Resource[Profile]]) -> tuple[str, ...]:
    return tuple(sorted(_reached(connector) | _origins(profiles)))


def _reached(connector: Connector) -> set[str]:
    """What a connector lists, and the server that it is, where it is one elsewhere."""
    own = {str(of_address(connector.url))} if connector.url else set()
    return {*connector.egress, *own}


def _origins(profiles: Iterable[Resource[Profile]]) -> set[str]:
    """The servers that profiles name; one that leaves that to the binding names none."""
    bases = {one.spec.transport.base for one in profiles} - {"binding"}
    return {str(of_address(base)) for base in bases}


def _facts(profile: Resource[Profile]) -> bytes:
    """A profile's facts as JSON with the keys of its file: what ``Profile.model_validate_json`` reads."""
    told = profile.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return orjson.dumps(told, option=orjson.OPT_SORT_KEYS)


def _egress(listed: tuple[str, ...], binding: Binding, connector: Connector) -> tuple[str, ...]:
    """What the connector lists, and the servers that the binding's settings name."""
    found = (places.targets(form, value) for _, form, value in _formed(binding, connector))
    named = {str(target) for targets in found for target in targets}
    return tuple(sorted({*listed, *named})) if named else listed


def _filled(binding: Binding, connector: Connector) -> list[str]:
    return sorted(binding.secrets.keys() & connector.secret_slots.keys()) if binding.secrets else []


def _words(found: object) -> tuple[str, ...]:
    match found:
        case str():
            return (found,)
        case tuple():
            return tuple(map(str, found))
        case dict():
            return tuple(f"{key}={found[key]}" for key in sorted(found))
        case _:
            return ()
