"""Moments by Go's layouts: the reference time ``Mon Jan 2 15:04:05 MST 2006``, written as it should look.

``written`` prints a moment by a layout, ``read`` reads a text by one, with the pieces of Go's ``time``
package. A moment is an aware ``datetime``; it is handed in, for there is no clock here. Names of days and
months are English, whatever the machine's language.
"""

import re
from datetime import UTC, datetime, timedelta, timezone

RFC3339 = "2006-01-02T15:04:05Z07:00"
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_ZONES = r"Z07:00:00|Z070000|Z07:00|Z0700|Z07|-07:00:00|-070000|-07:00|-0700|-07"
_PIECE = re.compile(
    rf"January|Jan(?![a-z])|Monday|Mon(?![a-z])|MST|2006|__2|002|01|02|03|04|05|06|_2(?!006)|15|{_ZONES}"
    r"|PM|pm|[.,](?:0+|9+)(?![0-9])|1|2|3|4|5"
)


def written(moment: datetime, layout: str) -> str:
    """``moment`` as ``layout`` shows it; what is no piece of a layout stands as it is."""
    return _PIECE.sub(lambda match: _shown(moment, match[0]), layout)


def _shown(moment: datetime, piece: str) -> str:
    if piece[0] in ".,":
        return _fraction(moment, piece)
    if piece[0] in "Z-":
        return _offset(moment, piece)
    hour = moment.hour % 12 or 12
    half = "PM" if moment.hour >= 12 else "AM"
    return {
        "January": _MONTHS[moment.month - 1],
        "Jan": _MONTHS[moment.month - 1][:3],
        "Monday": _DAYS[moment.weekday()],
        "Mon": _DAYS[moment.weekday()][:3],
        "MST": _zone(moment),
        "2006": f"{moment.year:04d}",
        "06": f"{moment.year % 100:02d}",
        "01": f"{moment.month:02d}",
        "1": f"{moment.month}",
        "02": f"{moment.day:02d}",
        "_2": f"{moment.day:2d}",
        "2": f"{moment.day}",
        "002": f"{moment.timetuple().tm_yday:03d}",
        "__2": f"{moment.timetuple().tm_yday:3d}",
        "15": f"{moment.hour:02d}",
        "03": f"{hour:02d}",
        "3": f"{hour}",
        "04": f"{moment.minute:02d}",
        "4": f"{moment.minute}",
        "05": f"{moment.second:02d}",
        "5": f"{moment.second}",
        "PM": half,
        "pm": half.lower(),
    }[piece]


def _fraction(moment: datetime, piece: str) -> str:
    digits = f"{moment.microsecond:06d}000"[: len(piece) - 1]
    if piece[1] == "9":
        digits = digits.rstrip("0")
    return piece[0] + digits if digits else ""


def _offset_s(moment: datetime) -> int:
    offset = moment.utcoffset()
    return int(offset.total_seconds()) if offset else 0


def _offset(moment: datetime, piece: str) -> str:
    seconds = _offset_s(moment)
    if piece[0] == "Z" and seconds == 0:
        return "Z"
    sign, size = ("-" if seconds < 0 else "+"), abs(seconds)
    parts = (f"{size // 3600:02d}", f"{size // 60 % 60:02d}", f"{size % 60:02d}")
    count = len(re.findall("[0-9]{2}", piece))
    return sign + (":" if ":" in piece else "").join(parts[:count])


def _zone(moment: datetime) -> str:
    name = moment.tzname() or "UTC"
    if re.fullmatch("[A-Z]{3,5}", name):
        return name
    return _offset(moment, "-0700") if _offset_s(moment) else "UTC"


_READ = {
    "2006": r"(?P<year>\d{4})",
    "06": r"(?P<short>\d{2})",
    "01": r"(?P<month>\d{2})",
    "1": r"(?P<month>\d{1,2}+)",
    "02": r"(?P<day>\d{2})",
    "_2": r" ?(?P<day>\d{1,2}+)",
    "2": r"(?P<day>\d{1,2}+)",
    "15": r"(?P<hour>\d{2})",
    "03": r"(?P<hour>\d{2})",
    "3": r"(?P<hour>\d{1,2}+)",
    "04": r"(?P<minute>\d{2})",
    "4": r"(?P<minute>\d{1,2}+)",
    "05": r"(?P<second>\d{2})(?P<part>[.,]\d{1,9})?",
    "5": r"(?P<second>\d{1,2}+)(?P<part>[.,]\d{1,9})?",
    "January": "(?P<name>" + "|".join(_MONTHS) + ")",
    "Jan": "(?P<name>" + "|".join(name[:3] for name in _MONTHS) + ")",
    "Monday": "(?:" + "|".join(_DAYS) + ")",
    "Mon": "(?:" + "|".join(name[:3] for name in _DAYS) + ")",
    "PM": "(?P<half>AM|PM)",
    "pm": "(?P<half>am|pm)",
    "MST": "(?:UTC|GMT)",  # of any other name we could not know the offset
}


def read(layout: str, text: str) -> datetime:
    """The moment that ``text`` writes by ``layout``; in UTC where no offset stands. Raises ValueError."""
    pattern, at = "", 0
    for match in _PIECE.finditer(layout):
        pattern += re.escape(layout[at : match.start()])
        piece = match[0]
        if piece[0] in "Z-":
            pattern += ("(?P<zone>Z|" if piece[0] == "Z" else "(?P<zone>") + r"[+-]\d{2}:?(?:\d{2})?)"
        elif piece[0] not in ".,":
            if piece not in _READ:
                raise ValueError(f"cannot read a time by {piece!r}")
            pattern += _READ[piece]
        at = match.end()
    try:
        found = re.fullmatch(pattern + re.escape(layout[at:]), text, re.IGNORECASE | re.ASCII)
    except re.error:
        raise ValueError(f"the layout {layout[:80]!r} names a part of a time twice") from None
    if found is None:
        raise ValueError(f"{text[:80]!r} is not written as {layout[:80]!r} says")
    return _moment({name: value for name, value in found.groupdict().items() if value is not None})


def _moment(parts: dict[str, str]) -> datetime:
    year = int(parts.get("year", "0"))
    if "short" in parts:
        short = int(parts["short"])
        year = short + (1900 if short >= 69 else 2000)
    month = int(parts.get("month", "1"))
    if "name" in parts:
        month = next(
            at for at, name in enumerate(_MONTHS, 1) if name[:3].lower() == parts["name"][:3].lower()
        )
    hour = int(parts.get("hour", "0"))
    if "half" in parts:
        hour = hour % 12 + (12 if parts["half"].lower() == "pm" else 0)
    micro = int(parts.get("part", ".0")[1:].ljust(6, "0")[:6])
    zone = UTC
    if (offset := parts.get("zone", "Z").replace(":", "")) not in {"Z", "z"}:
        size = timedelta(hours=int(offset[1:3]), minutes=int(offset[3:5] or 0))
        zone = timezone(-size if offset[0] == "-" else size)
    return datetime(
        max(year, 1),
        month,
        int(parts.get("day", "1")),
        hour,
        int(parts.get("minute", "0")),
        int(parts.get("second", "0")),
        micro,
        zone,
    )
