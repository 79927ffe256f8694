"""What a connector lets a binding fill, and what its sandbox lets in.

Secrets and settings reach a connector by variables of its environment, so no variable may bend the
interpreter, the loader or the sandbox, and no two keys may share one. A setting's default is a value that a
binding could set. Patterns run in linear time, for they meet what a person types.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from reconciler.admission.scopes import holds, overlaps, plain
from reconciler.admission.view import View
from reconciler.model import hosts, places
from reconciler.model.contract import matches, pattern_fault
from reconciler.model.inventory import Resource
from reconciler.model.names import variable_is_reserved
from reconciler.model.problems import Path, Problem, Span, listed, quoted
from reconciler.model.resources import Connector, Setting

_DERIVED = "HANDLER_SETTING_"
# whole worlds, not an engine's data
_WIDE = re.compile(r"/(?:(?:root|home|etc|boot|var|tmp|usr|opt)?|(?:proc|sys|dev|run|var/run)(?:/.*)?)/?")
# where programs keep keys; engines hide their models and modules in other places
_KEPT = re.compile(
    r"(?:.*/)?\.(?:ssh|gnupg|aws|azure|kube|docker|config|netrc|password-store|pki|git-credentials|pgpass|npmrc"
    r"|pypirc|env|mozilla|thunderbird|vault-token)(?:/.*)?"
)
_KEYS = re.compile(r"/etc/(?:g?shadow-?|sudoers|sudoers\.d|ssh|ssl/private)(?:/.*)?|.*/keyrings(?:/.*)?")


class Words(NamedTuple):
    """What is wrong, which rule it breaks, how to mend it."""

    what: str
    why: str
    mend: str


def problem(
    connector: Resource[Connector], path: Path, code: str, words: Words, *, on_key: bool = False
) -> Problem:
    """A problem of a connector's own file."""
    return Problem(
        code=code,
        what=words.what,
        why=words.why,
        mend=words.mend,
        at=Span(connector.file),
        path=path,
        about=connector.ref,
        on_key=on_key,
    )


def slots_say_how_they_are_delivered(view: View, connector: Resource[Connector]) -> Iterator[Problem]:
    """A slot has a variable or a header, and ``via`` fits it (ruling 27)."""
    for name, slot in connector.spec.secret_slots.items():
        path: Path = ("secretSlots", name)
        why = "a secret reaches a connector by a variable, or by a header that the gate adds"
        if slot.env is None and slot.header is None:
            words = Words(
                f"the slot {quoted(name)} has neither env nor header", why, f"write {_variable(name)}"
            )
            yield problem(connector, path, "C210", words)
        elif slot.via == "gate" and slot.header is None:
            words = Words(f"the slot {quoted(name)} goes via gate and has no header", why, "write header")
            yield problem(connector, (*path, "via"), "C210", words)
        elif slot.via in ("fd", "file", "env") and slot.env is None:
            what = f"the slot {quoted(name)} goes via {slot.via} and has no env"
            yield problem(connector, (*path, "via"), "C210", Words(what, why, f"write {_variable(name)}"))


def headers_are_its_own(view: View, connector: Resource[Connector]) -> Iterator[Problem]:
    """A header of a slot steers no connection, stands for one slot, and is sent somewhere."""
    seen: dict[str, str] = {}
    for name, slot in connector.spec.secret_slots.items():
        if slot.header is None or slot.via not in (None, "gate"):
            continue
        header = slot.header.partition(":")[0].lower()
        path: Path = ("secretSlots", name, "header")
        if hosts.header_is_framing(header):
            why = "it says how a message is sent, not who sends it"
            words = Words(f"the header {quoted(header)} is the gate's own", why, "write 'x-api-key'")
            yield problem(connector, path, "C232", words)
        elif header in seen:
            words = Words(
                f"the header {quoted(header)} is that of {quoted(seen[header])} already",
                "one header holds one secret",
                "name another header",
            )
            yield problem(connector, path, "C233", words)
        elif not (
            connector.spec.egress or connector.spec.url or connector.spec.profiles or _opens(connector)
        ):
            why = "a header is added to what is sent to the hosts of egress"
            mend = 'write egress = ["api.example.com:443"], with the vendor\'s host'
            yield problem(connector, path, "C234", Words("egress is empty", why, mend))
        seen.setdefault(header, name)


def _opens(connector: Resource[Connector]) -> bool:
    """Whether a binding names a server that is reached."""
    return any(one.format not in (None, "folder") for one in connector.spec.settings.values())


def _variable(slot: str) -> str:
    return f'env = "{slot.upper().replace("-", "_")}"'


def variables_are_its_own(view: View, connector: Resource[Connector]) -> Iterator[Problem]:
    """No variable bends the interpreter or the sandbox, and no two keys share one."""
    seen: dict[str, str] = {}
    named = [(("secretSlots", key, "env"), slot.env) for key, slot in connector.spec.secret_slots.items()]
    for key, setting in connector.spec.settings.items():
        named.append((("settings", key, "env"), setting.env or setting_variable(key)))
    for path, variable in named:
        if variable is None:
            continue
        if variable_is_reserved(variable) and not variable.startswith(_DERIVED):
            words = Words(
                f"the variable {quoted(variable)} is reserved",
                "it steers the sandbox, the loader or the interpreter",
                f"write {quoted('CONNECTOR_' + variable)}",
            )
            yield problem(connector, path, "C211", words)
        elif variable in seen:
            what = f"the variable {quoted(variable)} is {seen[variable]}'s already"
            words = Words(what, "each value has a variable of its own", "name another variable")
            yield problem(connector, path, "C212", words)
        seen.setdefault(variable, f"{path[0]}.{path[1]}")


def setting_variable(key: str) -> str:
    """What carries a setting without ``env``: ``pageLimit`` goes by ``HANDLER_SETTING_PAGE_LIMIT``."""
    return _DERIVED + "".join(f"_{ch}" if ch.isupper() else ch for ch in key).upper()


def defaults_fit_their_settings(view: View, connector: Resource[Connector]) -> Iterator[Problem]:
    """A default is a value that a binding could have set; a pattern is one that can be run."""
    for key, setting in connector.spec.settings.items():
        path: Path = ("settings", key)
        if setting.pattern is not None and (fault := pattern_fault(setting.pattern)):
            what = f"cannot run the pattern {quoted(setting.pattern)}"
            words = Words(what, f"patterns run in linear time: {fault}", "write a plain pattern")
            yield problem(connector, (*path, "pattern"), "C213", words)
        elif len({_kind(value) for value in setting.enum or ()}) > 1:
            words = Words(
                "the values are of several types", "a setting has one type", "write values of one type"
            )
            yield problem(connector, (*path, "enum"), "C214", words)
        elif setting.default is not None and (fault := value_fault(setting, setting.default)):
            words = Words(
                f"the default {fault}", "a default is a value that a binding could set", _mend(setting)
            )
            yield problem(connector, (*path, "default"), "C214", words)


def value_fault(setting: Setting, value: object) -> str | None:
    """Why a value does not fit a setting, as the rest of a sentence, or None when it does."""
    if setting.format is not None and (fault := places.fault(setting.format, value)):
        return f"{quoted(value)} is no {_FORMS[setting.format][0]}: {fault}"
    return _plain_fault(setting, value)


def _plain_fault(setting: Setting, value: object) -> str | None:
    if setting.enum is not None:
        fits = any(value == one and _kind(value) == _kind(one) for one in setting.enum)
        return None if fits else f"{quoted(value)} is not one of {listed(map(quoted, setting.enum))}"
    if setting.pattern is not None and not isinstance(value, str):
        return f"{quoted(value)} is not text"
    if setting.default is not None and _kind(value) != _kind(setting.default):
        return f"{quoted(value)} is not {_kind(setting.default)}"
    if isinstance(value, str) and "\0" in value:
        return "holds a NUL character, which no variable can"
    if setting.pattern is not None and not matches(setting.pattern, str(value)):
        return f"{quoted(value)} does not match {quoted(setting.pattern)}" if value else "is empty"
    return None


_FORMS = {
    "folder": ("folder that can be shown", "write a folder, like '~/documents'"),
    "url": ("address that can be reached", "write an address, like 'https://api.example.com/v1'"),
    "host": ("server that can be reached", "write host:port, like 'mail.example.com:465'"),
    "hosts": (
        "list of servers that can be reached",
        "write host:port, separated by blanks, like 'api.example.com:443 127.0.0.1:8080'",
    ),
}


def format_mend(setting: Setting) -> str | None:
    """What to type for a setting with a format, or None where it has none."""
    return _FORMS[setting.format][1] if setting.format else None


def _mend(setting: Setting) -> str:
    if mend := format_mend(setting):
        return mend
    if setting.enum:
        first = setting.enum[0]
        return f"write {str(first).lower() if isinstance(first, bool) else repr(first)}"
    return "write a value that fits, or leave the default out"


def _kind(value: object) -> str:
    match value:
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case _:
            return "text"


def data_is_narrow(view: View, connector: Resource[Connector]) -> Iterator[Problem]:
    """``sandbox.read`` names an engine's data, never a whole part of the host or a folder of the product."""
    home = (view.where.home,) if view.where.home else ()
    for index, path in enumerate(connector.spec.sandbox.read):
        why = "a sandbox lets in what an engine needs and nothing of a person's"
        if not plain(path) or not path.isprintable():
            what = f"the folder {quoted(path)} is not written plainly"
        elif _WIDE.fullmatch(path) or overlaps(path, view.where.forbidden) or holds(path, home):
            what = f"the folder {quoted(path)} is more than an engine's data"
        elif _KEYS.fullmatch(path) or _KEPT.fullmatch(path):
            what = f"{quoted(path)} is where keys are kept"
        else:
            continue
        words = Words(what, why, "name the engine's own folder, like '/usr/share/tesseract-ocr'")
        yield problem(connector, ("sandbox", "read", index), "C215", words)


RULES = (
    slots_say_how_they_are_delivered,
    headers_are_its_own,
    variables_are_its_own,
    defaults_fit_their_settings,
    data_is_narrow,
)
