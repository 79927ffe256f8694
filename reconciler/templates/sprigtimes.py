"""Sprig's functions of moments, paths and addresses. No clock, no folder and no zone but UTC is looked at."""

import posixpath
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from reconciler.model import durations
from reconciler.templates import golang, layouts, printing, sprigmath, values
from reconciler.templates.values import Duration, Owned, Unusable

_NO_TIME = datetime(1, 1, 1, tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = "2006-01-02"


def _moment(value: object) -> datetime:
    """A moment, or seconds since 1970 in UTC."""
    if isinstance(value, datetime):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return _EPOCH + timedelta(seconds=value)
        except OverflowError:
            raise Unusable("the moment is out of reach") from None
    raise Unusable(f"it takes a moment, not {values.type_name(value)}")


def _in_zone(layout: str, value: object, zone: str) -> str:
    if zone not in {"UTC", "GMT", ""}:
        raise Unusable("the only zone there is here is 'UTC'")
    return layouts.written(_moment(value).astimezone(UTC), layout)


def _read(layout: str, text: str) -> datetime:
    try:
        return layouts.read(layout, text)
    except (ValueError, OverflowError) as fault:
        raise Unusable(str(fault)) from None


def _read_or_none(layout: str, text: str) -> datetime:
    try:
        return _read(layout, text)
    except Unusable:
        return _NO_TIME


def _moved(span: str, value: object) -> datetime:
    try:
        return _moment(value) + timedelta(microseconds=durations.nanoseconds(span) // 1000)
    except (ValueError, OverflowError) as fault:
        raise Unusable(str(fault)) from None


def _moved_or_not(span: str, value: object) -> datetime:
    try:
        return _moved(span, value)
    except Unusable:
        return _moment(value)


def since(now: datetime, moment: datetime) -> str:
    """How long ago ``moment`` was, in whole seconds, as ``ago`` says it."""
    return durations.written(int((now - moment).total_seconds()) * 1_000_000_000)


def _seconds(value: object) -> str:
    """``95`` as ``1m35s``, of a text or a whole number in 64 bits; 0s of anything else, a literal too, as
    Sprig.
    """
    seconds = sprigmath.whole(value) if isinstance(value, str) else 0
    return durations.written(seconds * 1_000_000_000)


_ROUNDED = (
    (31_536_000, "y"),
    (2_592_000, "mo"),
    (86_400, "d"),
    (3_600, "h"),
    (60, "m"),
    (1, "s"),
)


def _rounded(value: object) -> str:
    """The largest unit of a span, cut: ``2h10m5s`` as ``2h``."""
    ns = 0
    if isinstance(value, Duration):
        ns = value.ns
    elif isinstance(value, str):
        try:
            ns = durations.nanoseconds(value)
        except ValueError:
            ns = 0
    elif isinstance(value, int) and not isinstance(value, bool):
        ns = value
    seconds = abs(ns) // 1_000_000_000
    return next((f"{seconds // size}{unit}" for size, unit in _ROUNDED if seconds >= size), "0s")


def _clean(path: str) -> str:
    cleaned = posixpath.normpath(path) if path else "."
    return "/" + cleaned.lstrip("/") if cleaned.startswith("/") else cleaned


def _base(path: str) -> str:
    if not path:
        return "."
    return path.rstrip("/").rpartition("/")[2] or "/"


def _dir(path: str) -> str:
    head, slash, _ = path.rpartition("/")
    return _clean(head + slash)


def _ext(path: str) -> str:
    name = path.rpartition("/")[2]
    return name[name.rindex(".") :] if "." in name else ""


_PARTS = ("scheme", "opaque", "host", "hostname", "path", "query", "fragment", "userinfo")


def _url_parse(text: str) -> Owned:
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
    except ValueError:
        raise Unusable("the text is no address") from None
    user, at, place = parts.netloc.rpartition("@")
    opaque = bool(parts.scheme and not parts.netloc and parts.path and not parts.path.startswith("/"))
    return Owned(
        scheme=parts.scheme,
        opaque=parts.path if opaque else "",
        host=place,
        hostname=re.sub(r":\d*$", "", place).strip("[]") if host else "",
        path="" if opaque else parts.path,
        query=parts.query,
        fragment=parts.fragment,
        userinfo=user if at else "",
    )


def _url_join(parts: dict[str, object]) -> str:
    scheme, opaque, host, _, path, query, fragment, user = (
        printing.text(parts.get(name) or "") for name in _PARTS
    )
    place = f"{user}@{host}" if user else host
    text = f"{scheme}:" if scheme else ""
    if opaque:
        text += opaque
    else:
        text += f"//{place}" if place else ""
        text += "/" + path if place and path and not path.startswith("/") else path
    return text + (f"?{query}" if query else "") + (f"#{fragment}" if fragment else "")


_PATHS: Mapping[str, golang.Entry] = {
    "base": (_base, "s"),
    "dir": (_dir, "s"),
    "clean": (_clean, "s"),
    "ext": (_ext, "s"),
    "isAbs": (lambda path: path.startswith("/"), "s"),
}

FUNCTIONS: Mapping[str, golang.Entry] = {
    **_PATHS,
    **{f"os{name[0].upper()}{name[1:]}": entry for name, entry in _PATHS.items()},
    "date": (lambda layout, value: layouts.written(_moment(value), layout), "sa"),
    "dateInZone": (_in_zone, "sas"),
    "date_in_zone": (_in_zone, "sas"),
    "htmlDate": (lambda value: layouts.written(_moment(value), _DAY), "a"),
    "htmlDateInZone": (lambda value, zone: _in_zone(_DAY, value, zone), "as"),
    "dateModify": (_moved_or_not, "sa"),
    "date_modify": (_moved_or_not, "sa"),
    "mustDateModify": (_moved, "sa"),
    "must_date_modify": (_moved, "sa"),
    "toDate": (_read_or_none, "ss"),
    "mustToDate": (_read, "ss"),
    "unixEpoch": (lambda value: str(int((_moment(value) - _EPOCH).total_seconds())), "a"),
    "duration": (_seconds, "a"),
    "durationRound": (_rounded, "a"),
    "urlParse": (_url_parse, "s"),
    "urlJoin": (_url_join, "d"),
}
