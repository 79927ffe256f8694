"""``session``: opening and closing one for a launcher, and what is known of each: services, state, calls.

What is open is asked of the controller; records of calls are read from the state folder, so those of a
session that is over can be shown as well, without a controller. No payload is in either.
"""

import json
import shlex
import sys
import time

from reconciler.control import folders
from reconciler.doors import callrecords, client, columns, lines, tables, usage

_STATES = {"bound": "green", "degraded": "yellow", "missing": "red"}


def open_one(settings: usage.Settings, agent: str) -> int:
    """Open a session and print what a launcher needs: lines that a shell takes as its variables, or JSON."""
    from reconciler.doors import outfit  # noqa: PLC0415 - the others do without

    opened = client.Client(settings.config).ask("session.open", {"agent": agent})
    if settings.output == "json":
        sys.stdout.write(json.dumps(opened, indent=2) + "\n")
        return 0
    if settings.output == "name":
        sys.stdout.write(f"{opened.get('session')}\n")
        return 0
    given = outfit.variables(opened).items()
    sys.stdout.write("".join(f"export {name}={shlex.quote(value)}\n" for name, value in given))
    if not settings.quiet:
        sys.stderr.write(
            f"It ends with 'handler session close {opened.get('session')}', or after a quiet day.\n"
        )
    return 0


def close(settings: usage.Settings, session: str) -> int:
    """End a session: its sockets go, its calls end."""
    client.Client(settings.config).ask("session.close", {"session": session})
    return 0


def listed(settings: usage.Settings, *, over: bool = False) -> int:
    """Print the open sessions and what each is pinned to; with ``over`` also the others, as far as records of
    their calls are kept. Raises ``client.NoController`` where nothing can be shown without one.
    """
    state, why = folders.places(settings.config)[1], ""
    try:
        found = client.Client(settings.config).sessions()
    except client.NoController as fault:
        if not over:
            raise
        found, why = [], str(fault)
    names = {one.get("session") for one in found}
    gone = [name for name in callrecords.known(state) if name not in names]
    past = [_over(state, name) for name in gone] if over else []
    if settings.output == "json":
        opened = [{**one, "open": True} for one in found] if over else found
        sys.stdout.write(json.dumps([*opened, *past], indent=2) + "\n")
    elif settings.output == "name":
        sys.stdout.write("".join(f"{one.get('session')}\n" for one in [*found, *past]))
    elif found or past:
        rows = [["SESSION", "AGENT", "AGE", "STATE", "CALLS", "ROUTES"]]
        rows += [_row(one, callrecords.count(state, str(one.get("session")))) for one in found]
        rows += [_past_row(one) for one in past]
        colours = [[""] * 6, *(["", "", "", _colour(one), "", ""] for one in [*found, *past])]
        sys.stdout.write(columns.table(rows, _paint(settings), colours))
    if (told := _said(found, len(gone), why, over=over)) and not settings.quiet:
        sys.stderr.write(told)
    return 0


def show(settings: usage.Settings, session: str, count: int) -> int:
    """Print one session and its last calls; 1 when nothing is known of it."""
    try:
        found = client.Client(settings.config).sessions()
        why = ""
    except client.NoController as fault:
        found, why = [], str(fault)
    one = next((one for one in found if one.get("session") == session), None)
    calls = callrecords.of(folders.places(settings.config)[1], session)
    if one is None and not calls:
        sys.stderr.write(f"handler: {why or _unknown(session)}\n")
        return 1
    last = calls[-count:] if count else []
    if settings.output == "json":
        facts = one or {"session": session, "agent": calls[-1].get("agent")}
        sys.stdout.write(json.dumps({**facts, "open": one is not None, "calls": last}, indent=2) + "\n")
        return 0
    paint = _paint(settings)
    sys.stdout.write(_facts(one, session, calls, paint))
    if one is not None:
        sys.stdout.write(_services(one, paint))
    if last:
        sys.stdout.write("\n" + _calls(last, paint, wide=settings.output == "wide"))
    return 0


def _row(one: lines.Json, calls: int) -> list[str]:
    told = [str(one.get("session")), str(one.get("agent")), _age(one), _state(one), str(calls)]
    return [*told, _routes(one)]


def _routes(one: lines.Json) -> str:
    routes = one.get("routes")
    return (
        ", ".join(f"{name} → {route}" for name, route in routes.items()) if isinstance(routes, dict) else ""
    )


def _unknown(session: str) -> str:
    return (
        f"nothing is known of session '{columns.shown(session)}': it is not open, and no call of it is kept "
        "('handler session list --all' lists those that are known)"
    )


def _over(state: str, session: str) -> lines.Json:
    """What the records tell of a session that is over."""
    calls = [call for call in callrecords.of(state, session) if "agent" in call]
    return {
        "session": session,
        "open": False,
        "agent": calls[-1].get("agent") if calls else None,
        "lastCallAt": calls[-1].get("at") if calls else None,
        "calls": callrecords.count(state, session),
        "routes": {str(call.get("interface")).partition("/")[0]: call.get("instance") for call in calls},
    }


def _past_row(one: lines.Json) -> list[str]:
    called = _instant(one.get("lastCallAt"))
    age = "-" if called is None else columns.age(time.time() - called)
    return [str(one["session"]), str(one["agent"] or "-"), age, "over", str(one["calls"]), _routes(one)]


def _instant(text: object) -> float | None:
    from datetime import datetime  # noqa: PLC0415 - open sessions do without

    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None


def _said(found: list[lines.Json], gone: int, why: str, *, over: bool) -> str:
    """What is told beside the table: why it may be incomplete, that it is empty, where the rest is."""
    if over:
        empty = "" if found or gone else "No session is open, and of none is a call recorded.\n"
        return (f"{why}\n" if why else "") + empty
    if found:
        return ""
    more = columns.counted(gone, "session") + (" that is" if gone == 1 else " that are")
    return "No session is open.\n" + (f"'handler session list --all' shows {more} over.\n" if gone else "")


def _facts(one: lines.Json | None, session: str, calls: list[lines.Json], paint: columns.Paint) -> str:
    failed = sum(call.get("code", "ok") != "ok" for call in calls)
    told = f"{len(calls)}, {failed} of them not ok" if failed else str(len(calls))
    if one is None:
        rows = [["session", session], ["agent", str(calls[-1].get("agent"))], ["state", "over"]]
    else:
        revision = tables.revision(str(one.get("revision") or "none@"))
        rows = [
            ["session", session],
            ["agent", str(one.get("agent"))],
            ["opened", f"{_age(one)} ago, at {revision}, generation {one.get('generation')}"],
            ["ends", _end(one)],
            ["state", _state(one)],
            ["folder", usage.path_shown(str(one.get("folder")))],
        ]
    rows.append(["calls", told])
    return columns.table(rows, paint, [["bold", ""] for _ in rows])


def _services(one: lines.Json, paint: columns.Paint) -> str:
    stands, routes = one.get("stands"), one.get("routes")
    if not isinstance(stands, dict) or not isinstance(routes, dict) or not stands:
        return ""
    rows = [["INTERFACE", "STATE", "SINCE", "ROUTE"]]
    for name, stand in stands.items():
        rows.append([stand["interface"], stand["state"], stand["since"], str(routes.get(name))])
    colours = [[""] * 4, *(["", _STATES.get(row[1], ""), "", ""] for row in rows[1:])]
    return "\n" + columns.table(rows, paint, colours)


def _calls(calls: list[lines.Json], paint: columns.Paint, *, wide: bool) -> str:
    rows = [["WHEN", "TOOL", "CODE", "MS", "IN", "OUT", *(["BINDING", "DIAGNOSTIC"] if wide else [])]]
    colours = [[""] * len(rows[0])]
    for call in calls:
        code = str(call.get("code", f"{call.get('dropped')} records were lost: the disk was full"))
        figures = [str(call.get(key, "")) for key in ("ms", "inBytes", "outBytes")]
        more = [str(call.get("binding", "")), str(call.get("diagnostic", ""))] if wide else []
        rows.append([str(call.get("at", "")), str(call.get("tool", "")), code, *figures, *more])
        colours.append(["", "", "" if code == "ok" else "yellow", *[""] * (len(rows[0]) - 3)])
    return columns.table(rows, paint, colours)


def _end(one: lines.Json) -> str:
    opener = one.get("opener")
    pid = opener.get("pid") if isinstance(opener, dict) else None
    if one.get("standing"):
        return f"with the last bridge of process {pid}"
    return (
        f"with process {pid}" if pid else f"by 'handler session close {one.get('session')}', or a quiet day"
    )


def _state(one: lines.Json) -> str:
    return "draining" if one.get("draining") else "current"


def _colour(one: lines.Json) -> str:
    return "grey" if one.get("open") is False else "yellow" if one.get("draining") else "green"


def _age(one: lines.Json) -> str:
    opened = one.get("openedAt")
    return columns.age(time.time() - opened) if isinstance(opened, int | float) else "-"


def _paint(settings: usage.Settings) -> columns.Paint:
    return columns.Paint(settings.color, tty=sys.stdout.isatty())
