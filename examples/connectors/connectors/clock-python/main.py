"""The time of a zone, by Python's own time zones."""

import re
from datetime import datetime
from zoneinfo import ZoneInfo

from handler_connector import Failure, serve


def zone(name):
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise Failure("unknown_zone", "zoneinfo does not know it") from None


def told(moment):
    return {"time": moment.isoformat(timespec="seconds"), "summerTime": bool(moment.dst())}


def clock_now(args, call):
    return {"zone": args["zone"], **told(datetime.now(zone(args["zone"])))}


def clock_convert(args, call):
    here, there = zone(args["from"]), zone(args["to"])
    if not re.fullmatch(r"([01][0-9]|2[0-3]):[0-5][0-9]", args["time"]):
        raise Failure("bad_time", "it is not HH:MM")
    hour, minute = map(int, args["time"].split(":"))
    moment = datetime.now(here).replace(hour=hour, minute=minute, second=0, microsecond=0)
    return told(moment.astimezone(there))


serve({"clock_now": clock_now, "clock_convert": clock_convert})
