"""May this call be made, must a person say so, or not at all: a policy applied to one call.

The arguments are those that the tool will get, whole. What cannot be read for certain is denied: a command
with an open quote, an address that two programs would read differently. Where an argument is a list, one
element is enough for a rule that asks or denies; a rule that allows must fit every element, and its wildcards
never stand for ``..``.
"""

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from reconciler.chains import commands
from reconciler.chains.commands import UnclearError
from reconciler.model import globs
from reconciler.model.approvals import Action, Condition, Op, Policy, Rule
from reconciler.templates import printing


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a call: by which rule, from 0 (None: by the policy's default), within which time.

    ``unclear`` says, for the operator, what could not be read when that is why it is denied.
    """

    action: Action
    rule: int | None = None
    timeout_s: int = 0
    unclear: str = ""


def decided(policy: Policy, provider: str, tool: str, arguments: Mapping[str, object]) -> Decision:
    """What ``policy`` says of a call of ``provider``'s ``tool``: its first rule that fits, else its
    default.
    """
    for number, rule in enumerate(policy.rules):
        if rule.provider not in {"", provider} or rule.tool not in {"", tool}:
            continue
        try:
            if all(_fits(condition, rule, arguments) for condition in rule.when):
                return Decision(rule.action, number, rule.timeout_s)
        except UnclearError as fault:
            return Decision(Action.DENY, number, 0, str(fault))
    return Decision(policy.default)


def _fits(condition: Condition, rule: Rule, arguments: Mapping[str, object]) -> bool:
    """Whether the argument is as the condition says; one that is missing never is."""
    if condition.op is Op.NO_COMMAND_SUBSTITUTION:
        looked = arguments.get(condition.key) if condition.key else arguments
        return any(commands.substitutes(text) for text in _texts(looked))
    value = arguments.get(condition.key)
    if value is None:
        return False
    if not isinstance(value, list | tuple):
        return _one_fits(condition, rule, value)
    each = [_one_fits(condition, rule, item) for item in value]
    return bool(each) and (all(each) if rule.action is Action.ALLOW else any(each))


def _one_fits(condition: Condition, rule: Rule, value: object) -> bool:
    text = printing.text(value)
    match condition.op:
        case Op.EQ:
            return text == condition.value
        case Op.GLOB:
            return globs.matches(condition.patterns, text, climbing=rule.action is not Action.ALLOW)
        case Op.HOST:
            return _host_is(text, condition.value)
        case Op.COMMAND_BLACKLIST | Op.COMMAND_ASK_ALWAYS:
            return bool(commands.programs(commands.line(text)) & _names(condition.value))
        case Op.COMMAND_PREFIX_ALLOWLIST:
            prefixes = [part.split() for part in condition.value.split(",") if part.strip()]
            return commands.begins(commands.line(text), prefixes)
        case Op.NO_COMMAND_SUBSTITUTION:
            return commands.substitutes(text)


def _names(value: str) -> frozenset[str]:
    return frozenset(part.strip() for part in value.split(",") if part.strip())


def _texts(value: object) -> Iterator[str]:
    """Every text within ``value``."""
    left = [value]
    while left:
        inner = left.pop()
        if isinstance(inner, str):
            yield inner
        elif isinstance(inner, Mapping):
            left.extend([*inner.keys(), *inner.values()])
        elif isinstance(inner, list | tuple):
            left.extend(inner)


_STRANGE = re.compile(r"[\\\s\x00-\x1f\x7f]")
_NUMERIC = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)(?:\.(?:0x[0-9a-f]*|[0-9]+))*\.?", re.IGNORECASE)


def _host_is(address: str, wanted: str) -> bool:
    """Whether the address is on the host ``wanted`` or below it; an IP address must be that very one."""
    if _STRANGE.search(address):
        raise UnclearError("the address holds what programs read differently")
    try:
        host = _plain(urlsplit(address if "//" in address else f"//{address}").hostname or "")
    except ValueError:
        raise UnclearError("the address cannot be read") from None
    named = _plain(wanted.strip().strip("[]"))
    if (ip := _ip(host)) is not None or _ip(named) is not None:
        return ip == _ip(named)
    if _NUMERIC.fullmatch(host):
        raise UnclearError("the address is a number that programs read differently")
    return bool(host) and (host == named or host.endswith(f".{named}"))


def _plain(host: str) -> str:
    lowered = host.rstrip(".").lower()
    if lowered.isascii():
        return lowered
    try:
        return lowered.encode("idna").decode()
    except UnicodeError:
        raise UnclearError("the address has a name that cannot be written in ASCII") from None


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found
