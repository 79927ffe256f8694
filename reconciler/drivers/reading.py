"""Answers into outcomes: what every HTTP driver shares, as functions. Nothing here raises.

Refusals go through the profile's error map, first match; a refusal that fits none is ``unavailable`` with an
unknown effect. A vendor's words are never taken over: of its error code only what looks like a code.
"""

import email.utils
import re
from collections.abc import Mapping
from datetime import datetime

from reconciler.drivers.picking import at, parsed, text
from reconciler.model.dialect import ErrorRule, Profile
from reconciler.model.outcome import Limits, Rejected, Seen, Unknown
from reconciler.model.sealed import Reply

_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_NUMBER = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?")
_GO = re.compile(r"(?:[0-9]{1,9}(?:\.[0-9]{1,9})?(?:h|ms|us|µs|ns|m|s))+")
_GO_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(h|ms|us|µs|ns|m|s)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_LONGEST_SAID = 64  # characters of a rate limit's header that are kept


def succeeded(reply: Reply) -> bool:
    """Whether the status is one of success."""
    return 200 <= reply.status < 300


def opened(reply: Reply, profile: Profile, model: str) -> dict[str, object] | Rejected | Unknown:
    """The object that a successful answer is, or what else it is. An ``error`` in it is a refusal, whatever
    the status; another model than was asked for (none is where ``model`` is "") is an outcome of its own.
    """
    if not succeeded(reply):
        return refusal(reply, profile)
    body = parsed(reply.body)
    if body is None:
        return Unknown("the answer is no JSON object", seen(reply, profile))
    if isinstance(body.get("error"), dict | str):
        return refusal(reply, profile, body)
    return replaced(reply, profile) if substituted(profile, model, body) else body


def refusal(reply: Reply, profile: Profile, body: Mapping[str, object] | None = None) -> Rejected:
    """What a refusal means by the profile's error map. ``body`` is given where it is not the whole reply: an
    error in the middle of a stream.
    """
    if body is None:
        body = parsed(reply.body) or {}
    found = listed(reply, profile, body)
    return found if found is not None else _rejected(_UNLISTED, reply, profile, body)


def listed(reply: Reply, profile: Profile, body: Mapping[str, object]) -> Rejected | None:
    """What the profile's error map says of it; None where it says nothing."""
    rule = next((rule for rule in profile.errors if _fits(rule, reply.status, body)), None)
    return None if rule is None else _rejected(rule, reply, profile, body)


def code(found: object) -> str:
    """A word of the server's that looks like a code, else nothing."""
    return word if _CODE.fullmatch(word := text(found)) else ""


def seconds(value: str) -> float | None:
    """A header's plain number of seconds."""
    return float(value) if _NUMBER.fullmatch(value) else None


def _rejected(rule: ErrorRule, reply: Reply, profile: Profile, body: Mapping[str, object]) -> Rejected:
    word = next((c for path in ("error.code", "error.type", "code") if (c := code(at(body, path)))), "")
    detail = f"status {reply.status}" + (f", {word}" if word else "")
    return Rejected(rule.code, detail, rule.effect, rule.retry, seen=seen(reply, profile))


_UNLISTED = ErrorRule(status="5xx")  # for its defaults: unavailable, unknown, never


def _fits(rule: ErrorRule, status: int, body: Mapping[str, object]) -> bool:
    if isinstance(rule.status, str):
        if status // 100 != int(rule.status[0]):
            return False
    elif rule.status != status:
        return False
    return all(_same(at(body, path), wanted) for path, wanted in rule.when.items())


def _same(found: object, wanted: object) -> bool:
    return isinstance(found, bool) == isinstance(wanted, bool) and found == wanted


def seen(reply: Reply, profile: Profile) -> Seen:
    """Status, request id and rate limits, as far as the profile says where they stand."""
    header = profile.transport.request_id_header
    found = reply.headers.get(header, "") if header else ""
    return Seen(reply.status, found if _REQUEST_ID.fullmatch(found) else "", _limits(reply, profile))


def _limits(reply: Reply, profile: Profile) -> Limits:
    said: dict[str, str] = {}
    resets: dict[str, float] = {}
    for name, header in profile.rate_limit.headers.items():
        value = reply.headers.get(header, "")[:_LONGEST_SAID]
        if not value.isascii() or not value.isprintable() or not value:
            continue
        said[name] = value
        after = _span(value, profile.rate_limit.reset_format, reply) if name.endswith("Reset") else None
        if after is not None:
            resets[name] = after
    return Limits(said, resets, _retry_after(said, reply))


def _retry_after(said: Mapping[str, str], reply: Reply) -> float | None:
    """The wait in seconds that an answer asks for. A date counts from the answer's own: there is no clock."""
    millis, plain = said.get("retryAfterMs", ""), said.get("retryAfter", "")
    if _NUMBER.fullmatch(millis):
        return float(millis) / 1000
    if _NUMBER.fullmatch(plain):
        return float(plain)
    return _from_date(_http_date(plain), reply)


def _span(value: str, form: str | None, reply: Reply) -> float | None:
    if form == "go-duration" and _GO.fullmatch(value):
        return sum(float(number) * _UNITS[unit] for number, unit in _GO_PART.findall(value))
    if form == "seconds" and _NUMBER.fullmatch(value):
        return float(value)
    if form == "epoch" and _NUMBER.fullmatch(value):
        return _from_date(float(value), reply)
    if form == "rfc3339":
        try:
            instant = datetime.fromisoformat(value)
        except ValueError:
            return None
        return _from_date(instant.timestamp(), reply) if instant.tzinfo else None
    return None


def _from_date(instant: float | None, reply: Reply) -> float | None:
    now = _http_date(reply.headers.get("date", ""))
    return None if instant is None or now is None else max(0.0, instant - now)


def _http_date(value: str) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(value).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def substituted(profile: Profile, asked: str, body: Mapping[str, object]) -> bool:
    """Whether the answer names another model than was asked for, where the profile says that it names it."""
    said, fact = at(body, profile.echo.at), profile.echo.model
    if fact == "unreliable" or not asked:
        return False
    if not isinstance(said, str):
        return True
    return not (said == asked or (fact == "prefix" and said.startswith(asked)))


def replaced(reply: Reply, profile: Profile) -> Rejected:
    """The outcome of a call that another model answered: it happened, and its answer is not given on."""
    return Rejected(
        "unavailable",
        "the answer names another model than was asked for",
        "happened",
        reason="ModelSubstituted",
        seen=seen(reply, profile),
    )
