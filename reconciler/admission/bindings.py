"""Bindings: one configured connector each, whose slots and settings are filled as the connector says (G2).

A binding names references to secrets, never secrets, so no message here can repeat one. What the connector
does not know is refused with the nearest key that it does, for a misspelt setting would be silently ignored.
"""

import posixpath
import re
from collections.abc import Iterator

from reconciler.admission import dialects
from reconciler.admission.models import models_are_listed_once, some_tool_takes_a_model
from reconciler.admission.scopes import holds, overlaps
from reconciler.admission.shadows import shadow_answers_the_same, shadow_is_another_binding
from reconciler.admission.slots import format_mend, value_fault
from reconciler.admission.smoke import smoke_cases_are_known_and_do_nothing
from reconciler.admission.view import View, nearest
from reconciler.model.inventory import Resource
from reconciler.model.names import Kind, ObjectRef, variable_is_ours
from reconciler.model.problems import Path, Problem, Span, listed, quoted
from reconciler.model.resources import Binding, Connector, Setting


def connector_is_known(view: View, binding: Resource[Binding]) -> Iterator[Problem]:
    """A binding configures exactly one connector that exists; a refused one makes it wait."""
    name = binding.spec.connector
    if name is None:
        return
    ref = ObjectRef(Kind.CONNECTOR, name)
    if view.find(ref) is not None:
        return
    if view.waits(ref):
        yield Problem(
            code="B202",
            what=f"waits for {ref}",
            why="a binding is admitted with its connector",
            mend=f"mend {ref} first",
            at=Span(binding.file),
            path=("connector",),
            about=binding.ref,
            reason="WaitsFor",
        )
    else:
        near = nearest(name, view.names(Kind.CONNECTOR))
        yield Problem(
            code="B201",
            what=f"connector {quoted(name)} does not exist",
            why="a binding configures exactly one known connector",
            mend=f"write {quoted(near)}" if near else f"add connectors/{name}/connector.toml",
            at=Span(binding.file),
            path=("connector",),
            about=binding.ref,
            reason="UnresolvedReference",
            candidates=(near,) if near else (),
        )


def settings_are_known_and_fit(view: View, binding: Resource[Binding]) -> Iterator[Problem]:
    """Each setting is one of the connector's, with a value that it allows."""
    connector = _connector(view, binding)
    if connector is None:
        return
    known = connector.spec.settings
    for key, value in binding.spec.settings.items():
        setting = known.get(key)
        if setting is None:
            near = nearest(key, known)
            yield _unknown(binding, ("settings", key), f"a setting of {connector.ref}", near)
        elif fault := value_fault(setting, value):
            yield Problem(
                code="B204",
                what=f"the value {fault}",
                why=f"{connector.ref} says what {quoted(key)} may be",
                mend=_value_mend(setting),
                at=Span(binding.file),
                path=("settings", key),
                about=binding.ref,
                candidates=tuple(map(str, setting.enum or ())),
            )


def folders_leave_the_product_alone(view: View, binding: Resource[Binding]) -> Iterator[Problem]:
    """A folder that a setting names is a person's documents: not their whole home, and nothing of ours."""
    connector = _connector(view, binding)
    if connector is None:
        return
    home = view.where.home
    for key, setting in connector.spec.settings.items():
        value = binding.spec.settings.get(key, setting.default)
        if setting.format != "folder" or not isinstance(value, str) or value_fault(setting, value):
            continue
        folder = value if not value.startswith("~/") else f"{home}/{value[2:]}" if home else ""
        if folder and (overlaps(folder, view.where.forbidden) or holds(folder, (home,) if home else ())):
            yield Problem(
                code="B214",
                what=f"the folder {quoted(value)} holds more than documents",
                why="what answers agents sees no whole home and none of our own folders",
                mend="name a folder of documents alone, like '~/documents'",
                at=Span(binding.file),
                path=("settings", key) if key in binding.spec.settings else (),
                about=binding.ref,
            )


def required_settings_are_set(view: View, binding: Resource[Binding]) -> Iterator[Problem]:
    """A required setting without a default has a value."""
    connector = _connector(view, binding)
    if connector is None:
        return
    for key, setting in connector.spec.settings.items():
        if setting.required and setting.default is None and key not in binding.spec.settings:
            value = toml_value(setting.enum[0]) if setting.enum else _EXAMPLES[setting.format]
            yield Problem(
                code="B205",
                what=f"the setting {quoted(key)} is missing",
                why=f"{connector.ref} cannot run without it",
                mend=_fill("settings", key, value, there=bool(binding.spec.settings)),
                at=Span(binding.file),
                path=("settings",) if binding.spec.settings else (),
                about=binding.ref,
            )


def secrets_fill_known_slots(view: View, binding: Resource[Binding]) -> Iterator[Problem]:
    """Each reference fills a slot of the connector, and every required slot is filled (G2)."""
    connector = _connector(view, binding)
    if connector is None:
        return
    slots = connector.spec.secret_slots
    for slot in binding.spec.secrets:
        if slot not in slots:
            near = nearest(slot, slots)
            yield _unknown(binding, ("secrets", slot), f"a secret slot of {connector.ref}", near)
    for slot, spec in slots.items():
        if spec.required and slot not in binding.spec.secrets:
            reference = f'{{ env = "{spec.env or slot.upper().replace("-", "_")}" }}'
            yield Problem(
                code="B207",
                what=f"the secret slot {quoted(slot)} is empty",
                why=f"{connector.ref} cannot run without it",
                mend=_fill("secrets", slot, reference, there=bool(binding.spec.secrets)),
                at=Span(binding.file),
                path=("secrets",) if binding.spec.secrets else (),
                about=binding.ref,
                reason="SecretUnresolved",
            )


def secrets_take_nothing_of_ours(view: View, binding: Resource[Binding]) -> Iterator[Problem]:
    """A variable that is named leaves the controller's environment, so it is none that others go by."""
    for slot, reference in binding.spec.secrets.items():
        if reference.env is not None and variable_is_ours(reference.env):
            own = quoted(slot.upper().replace("-", "_"))
            yield Problem(
                code="B215",
                what=f"the variable {quoted(reference.env)} is no secret's own",
                why="a variable that a reference names is taken out, and the controller goes by this one",
                mend=f"write {{ env = {own} }}, and give handlerd that variable",
                at=Span(binding.file),
                path=("secrets", slot, "env"),
                about=binding.ref,
            )


def secret_files_are_found_and_lie_elsewhere(view: View, binding: Resource[Binding]) -> Iterator[Problem]:
    """A file that holds a secret has a whole path, and does not lie in what is kept and shared."""
    home, root = view.where.home, "".join(view.where.forbidden[:1])
    for slot, reference in binding.spec.secrets.items():
        path = reference.file
        if path is None:
            continue
        whole = f"{home}/{path[2:]}" if home and path.startswith("~/") else path
        there = quoted(f"~/.secrets/{slot}")  # the text itself is not shown: it may be the secret
        if not path.startswith(("/", "~")):
            what, mend = "is not whole", f"write it from '/' or '~/', like {there}"
            why = "the controller is started in any folder, so nobody knows what it begins at"
        elif root and holds(root, (posixpath.normpath(whole),)):
            what, mend = "leads into the configuration", f"move the file out, and write {there}"
            why = "a configuration is kept and shared, and a secret is not"
        else:
            continue
        yield Problem(
            code="B216",
            what=f"the path of the secret {quoted(slot)} {what}",
            why=why,
            mend=mend,
            at=Span(binding.file),
            path=("secrets", slot, "file"),
            about=binding.ref,
            reason="SecretUnresolved",
        )


def pinned_digest_is_the_connectors(view: View, binding: Resource[Binding]) -> Iterator[Problem]:
    """A pinned connector is byte for byte the one that was looked at."""
    connector = _connector(view, binding)
    pin = binding.spec.connector_digest
    if connector is None or pin is None or pin == f"sha256:{connector.digest}":
        return
    yield Problem(
        code="B208",
        what=f"{connector.ref} is not the one that is pinned",
        why="connectorDigest accepts one digest of the connector's folder and no other",
        mend=f"look at what changed, then write 'sha256:{connector.digest}'",
        at=Span(binding.file),
        path=("connectorDigest",),
        about=binding.ref,
        reason="FrozenModified",
    )


RULES = (
    connector_is_known,
    settings_are_known_and_fit,
    folders_leave_the_product_alone,
    required_settings_are_set,
    secrets_fill_known_slots,
    secrets_take_nothing_of_ours,
    secret_files_are_found_and_lie_elsewhere,
    pinned_digest_is_the_connectors,
    models_are_listed_once,
    some_tool_takes_a_model,
    *dialects.BINDING_RULES,
    shadow_is_another_binding,
    shadow_answers_the_same,
    smoke_cases_are_known_and_do_nothing,
)


def toml_value(value: object) -> str:
    """A scalar as TOML text."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}'" if isinstance(value, str) else str(value)


def _connector(view: View, binding: Resource[Binding]) -> Resource[Connector] | None:
    return view.connector(binding.spec.connector) if binding.spec.connector else None


def _unknown(binding: Resource[Binding], path: Path, role: str, near: str | None) -> Problem:
    key = path[-1]
    return Problem(
        code="B206" if path[0] == "secrets" else "B203",
        what=f"{quoted(key)} is not {role}",
        why="what a connector does not know would be ignored, so it is refused",
        mend=f"write {quoted(near)}" if near else f"delete {quoted(key)}",
        at=Span(binding.file),
        path=path,
        about=binding.ref,
        reason="UnknownField",
        candidates=(near,) if near else (),
        on_key=True,
    )


_EXAMPLES = {
    None: "VALUE",
    "folder": "'~/documents'",
    "url": "'https://api.example.com/v1'",
    "host": "'mail.example.com:465'",
    "hosts": "'api.example.com:443 127.0.0.1:8080'",
}


def _fill(table: str, key: str, value: str, *, there: bool) -> str:
    return f"add {key} = {value} to {table}" if there else f"write {table} = {{ {key} = {value} }}"


def _value_mend(setting: Setting) -> str:
    if mend := format_mend(setting):
        return mend
    if setting.enum:
        return f"write {listed(map(toml_value, setting.enum))}"
    if setting.default is not None:
        return f"write a value like {toml_value(setting.default)}"
    if setting.pattern is None:
        return "write plain text"
    said = re.split(r"[,;:(]", setting.description, maxsplit=1)[0].strip()
    return f"write {said}; it matches {quoted(setting.pattern)}"
