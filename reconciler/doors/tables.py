"""``status``, ``get``, ``describe``: what the status files say, for people and for programs.

``status`` is one screen: what is not ready comes with its reason and its place in a file, what is ready is
folded to a line a kind once there is more of it than fits a screen. Exit codes are those of reconcile.md's
table: 0 everything is ready, 1 something is not, 2 the status cannot be read.
"""

import json
import sys

from reconciler.doors import columns, goingruns, sheet, standing, truthtable, usage
from reconciler.doors.standing import Standing, Unknown
from reconciler.model import revisions

_SCREEN = 40  # objects that fit a screen; more ready ones are folded
_DETAIL = 3  # the column that may be cut on a live screen
_LOG_LINES = 5  # of the log of a binding that is not ready
WITHIN = ("builtin", "cassette", "dialect")  # runtimes that have no process
_UNSELECTED = ("approval", "chain", "config", "policy")  # nobody selects one: it holds, or is run, for all
_SHORT = 7  # digits of a commit that people read
_STARTING = ("Starting", "CapacityWait")
_HELP = {
    "status": """\
Usage: handler status [-w] [-o wide|json|name]

One screen: what is ready, what is not, why, and where in which file. Reads files alone: it works without a
controller and says how old the files are.

  -w, --watch   keep the screen up to date
  -o wide       every object, with its instances

  Exit: 0 everything is ready, 1 something is not (or no controller runs), 2 the status cannot be read
""",
    "get": """\
Usage: handler get KIND [NAME…] [-o wide|json|name]

A table of one kind: interface (if), connector (con), binding (b), project (p), agent (a), policy, approval,
profile, dialect, chain, instance (inst); or 'all'. Names are kind/name or plain names.

  handler get agents
  handler get binding ocr-tesseract -o json

  Exit: 0 found, 1 no such object, 2 wrong command line or the status cannot be read
""",
    "describe": """\
Usage: handler describe KIND/NAME|configuration [-o json]

Everything about one object: its file, its conditions and since when, its problems with why and mend, its
instances, who uses it.

  handler describe agent/clerk

  Exit: 0 found, 1 no such object, 2 wrong command line or the status cannot be read
""",
}


def run(command: str, settings: usage.Settings, arguments: list[str]) -> int:
    """Run one of the three commands; the exit code. Raises ``usage.Usage`` and ``standing.Unreadable``."""
    if "--help" in arguments or "-h" in arguments:
        sys.stdout.write(_HELP[command])
        return 0
    wrong = [word for word in arguments if word.startswith("-")]
    if wrong:
        raise usage.Usage(f"'{wrong[0]}' is not an option of 'handler {command}'")
    try:
        if command == "status":
            return _status(settings, arguments)
        return _get(settings, arguments) if command == "get" else _describe(settings, arguments)
    except Unknown as fault:
        sys.stderr.write(f"handler: {fault}\n")
        return 1


def _paint(settings: usage.Settings) -> columns.Paint:
    return columns.Paint(settings.color, tty=sys.stdout.isatty())


def _status(settings: usage.Settings, arguments: list[str]) -> int:
    if arguments:
        raise usage.Usage("'handler status' takes no object: try 'handler describe KIND/NAME'")
    seen = standing.read(settings.config)
    if settings.output == "json":
        told = {**seen.summary, "ageSeconds": round(seen.age_s, 1), "controllerLives": seen.lives}
        sys.stdout.write(json.dumps(told, indent=2, ensure_ascii=False) + "\n")
    elif settings.output == "name":
        sys.stdout.write("".join(f"{columns.shown(_name(one))}\n" for one in seen.objects))
    else:
        sys.stdout.write(screen(seen, _paint(settings), wide=settings.output == "wide"))
    return 0 if is_ready(seen) else 1


def is_ready(seen: Standing) -> bool:
    """Everything is ready, and a controller that has looked keeps it so."""
    return seen.lives and not (seen.is_starting or seen.is_blind or waiting(seen))


def waiting(seen: Standing) -> list[str]:
    """What keeps the whole from being ready: objects by name, then files."""
    objects = [_name(one) for one in seen.objects if not _fine(one)]
    return objects + [str(one.get("file")) for one in seen.problems if one.get("severity") != "warning"]


def screen(seen: Standing, paint: columns.Paint, *, wide: bool = False, room: int | None = None) -> str:
    """The status as text; with ``room``, details are cut so that lines have so many cells."""
    fold = len(seen.objects) > _SCREEN and not wide
    rows, colours = [], []
    for row, colour in _rows(seen, fold=fold):
        rows.append(row)
        colours.append([colour, "", colour, "", "grey"])
    fit = None if room is None else (_DETAIL, room)
    text = _header(seen, paint, room) + columns.table(rows, paint, colours, fit=fit)
    if fold:
        text += _folded(seen, paint)
    if wide and seen.instances:
        text += "\n" + _instances(seen.instances, paint)
    return text + _footer(seen, paint)


def _rows(seen: Standing, *, fold: bool) -> list[tuple[list[str], str]]:
    """A row and its colour for each object and stray file: what is not as it should be comes first."""
    rows = [_row(one) for one in seen.objects if not _fine(one)]
    rows += [_row(one) for one in seen.objects if _fine(one) and one.get("drifted")]
    for one in seen.problems:
        mark, colour = ("!", "yellow") if one.get("severity") == "warning" else ("✗", "red")
        row = [mark, str(one.get("file")), str(one.get("code")), str(one.get("what")), _place(one)]
        rows.append((row, colour))
    plain = [one for one in seen.objects if _fine(one) and not one.get("drifted")]
    return rows if fold else rows + [_row(one) for one in plain]


def _header(seen: Standing, paint: columns.Paint, room: int | None) -> str:
    summary = seen.summary
    applied = str(summary.get("lastAppliedRevision") or summary.get("servingRevision") or "")
    counts = [
        columns.counted(sum(one.get("kind") == kind for one in seen.objects), kind)
        for kind in ("agent", "binding")
    ]
    counts.append(columns.counted(sum(bool(one.get("pid")) for one in seen.instances), "instance"))
    config = usage.path_shown(seen.config)
    first = ["config", config, revision(applied), f"applied {columns.age(seen.applied_s())} ago"]
    text = columns.table([[*first, " · ".join(counts)]], paint, [["bold", "", "", "", ""]])
    if not seen.lives:
        then = f"this is what was so {columns.age(seen.since_s())} ago"
        text += paint("no controller runs", "red") + f": {then}. Start one with 'handlerd -c {config}'\n"
    attempted = str(summary.get("lastAttemptedRevision") or "")
    if attempted and applied and attempted != applied and not summary.get("rollback"):
        whole = "" if seen.is_unread else " whole"
        text += f"{paint('newest', 'yellow')}   {columns.shown(revision(attempted))} is not applied{whole}\n"
    for one in columns.records(summary.get("conditions")):
        if one.get("message"):
            word = {"Drifted": "drift ", "Stalled": "stall "}.get(str(one.get("type")), "source")
            plain = one.get("reason") == "ReconcileSuccess"
            told = one.get("message") if plain else f"{one.get('reason')}: {one.get('message')}"
            colour = "red" if one.get("status") == "False" else "yellow"
            told = columns.folded(columns.shown(revisions.shortened(str(told))), 9, room)
            text += f"{paint(word, colour)}   {told}\n"
    if summary.get("dirty") and not revisions.parts(applied).edits:
        text += f"{paint('edits', 'yellow')}    the work tree differs: what is not committed is not applied\n"
    waiting = goingruns.told(seen.state), goingruns.asked(seen.state), goingruns.unsettled(seen.objects)
    return text + "".join(waiting)


def _folded(seen: Standing, paint: columns.Paint) -> str:
    kinds: dict[str, int] = {}
    for one in seen.objects:
        if _fine(one) and not one.get("drifted"):
            kinds[str(one.get("kind"))] = kinds.get(str(one.get("kind")), 0) + 1
    rows = [["✓", columns.counted(number, kind), "Ready"] for kind, number in kinds.items()]
    return columns.table(rows, paint, [["green", "", "green"] for _ in rows])


def _footer(seen: Standing, paint: columns.Paint) -> str:
    if seen.is_starting:
        return "The controller is starting: what it keeps is told in a moment.\n"
    found = waiting(seen)
    broken = sum(one.get("severity") != "warning" for one in seen.problems)
    whole = len(seen.objects) + broken
    one, many = ("is", "are") if seen.lives else ("was", "were")
    if not whole and seen.is_blind:
        return "Nothing is in force yet.\n"
    if not whole:
        return "The configuration is empty. Try: handler init\n"
    if not found:
        drift = sum(bool(row.get("drifted")) for row in seen.objects)
        but = f"; {columns.counted(drift, 'object')} drifted" if drift else ""
        return (
            f"All {whole} objects {many} ready{but}.\n"
            if whole > 1
            else f"The one object {one} ready{but}.\n"
        )
    verb = one if len(found) == 1 else many
    late = all(row.get("ready") == "True" for row in seen.objects) and not broken
    its = "its" if len(found) == 1 else "their"
    state = f"not in {its} newest form" if late else "not ready"
    said = f"{len(found)} of {columns.counted(whole, 'object')} {verb} {state}."
    known = any(_name(row) == found[0] for row in seen.objects)
    hint = f"handler describe {found[0]}" if known else "handler validate"
    return f"{paint(said, 'bold')} Try: {columns.shown(hint)}\n"


def _fine(one: dict[str, object]) -> bool:
    """Ready, and by its newest form."""
    return one.get("ready") == "True" and one.get("synced") != "False"


def _row(one: dict[str, object]) -> tuple[list[str], str]:
    """A status row of an object, and its colour."""
    ready, reason, message = (str(one.get(key) or "") for key in ("ready", "reason", "message"))
    if ready == "True" and one.get("synced") == "False":
        told = f"an earlier form serves: {_cause(one)}"
        return ["!", _name(one), "Ready", told, _place(one)], "yellow"
    if ready == "True" and one.get("drifted"):
        return ["!", _name(one), "Ready", str(one["drifted"]), _place(one)], "yellow"
    if ready == "True":
        detail = reason.lower() if reason in ("Idle", "Running") else message
        return ["✓", _name(one), "Ready", detail, ""], "green"
    if reason == "Suspended":
        told = message if message != "suspended" else ""
        return ["-", _name(one), "Suspended", told, _place(one)], "yellow"
    told = f"{reason}: {message}" if message else reason
    if ready == "False":
        return ["✗", _name(one), "NotReady", told, _place(one)], "red"
    return [
        "…",
        _name(one),
        "Progressing" if reason in _STARTING else "Unknown",
        message or reason,
        "",
    ], "yellow"


def _cause(one: dict[str, object]) -> str:
    """Why an object's newest form is not in force, without the command that `describe` shows with it."""
    return str(one.get("late") or "the newest is not in force").partition(": `")[0]


def _instances(found: list[dict[str, object]], paint: columns.Paint) -> str:
    rows = [["INSTANCE", "PHASE", "PID", "RESTARTS", "IN FLIGHT", "MESSAGE"]]
    for one in found:
        ended = one.get("lastExit") if one.get("phase") == "failed" else ""  # how a stop ended is no news
        said = one.get("message") or one.get("reason") or ended or ""
        facts = [one.get("name"), _phase(one), one.get("pid") or "-", one.get("restarts") or 0]
        rows.append([str(fact) for fact in (*facts, one.get("calls") or 0, said)])
    return columns.table(rows, paint)


def _phase(one: dict[str, object]) -> str:
    """Where in its life an instance is, in words for people: whether it works now is another column's."""
    phase = str(one.get("phase"))
    if phase in ("ready", "idle") and one.get("pid"):
        return "running"
    if phase == "declared" and not one.get("pid"):
        return "in the controller" if one.get("runtime") in WITHIN else "stopped"
    return phase


def _get(settings: usage.Settings, arguments: list[str]) -> int:
    if not arguments:
        raise usage.Usage("'handler get' wants a kind, like 'handler get agents', or 'all'")
    kind, slash, name = arguments[0].partition("/")
    wanted = [name, *arguments[1:]] if slash else arguments[1:]
    kind = "" if kind == "all" and not slash else standing.kind_of(kind)
    if kind == "instance":
        return _get_instances(settings, wanted)
    if wanted and kind:
        found = [_summed(standing.document(settings.config, kind, name)) for name in wanted]
    else:
        found = [one for one in standing.read(settings.config).objects if kind in ("", one.get("kind"))]
        if settings.output in ("", "table", "wide"):
            found = [{**one, "since": _ready_since(settings, one)} for one in found]
    if settings.output == "json":
        sys.stdout.write(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    elif settings.output == "name":
        sys.stdout.write("".join(f"{columns.shown(_name(one))}\n" for one in found))
    else:
        sys.stdout.write(_table(found, _paint(settings), wide=settings.output == "wide"))
        if not found and not settings.quiet:
            sys.stderr.write(f"There is no {kind or 'object'}.\n")
    return 0


def _ready_since(settings: usage.Settings, one: dict[str, object]) -> object:
    """When an object's readiness last changed, of its own file; None when that does not say."""
    try:
        told = standing.document(settings.config, str(one.get("kind")), str(one.get("name")))
    except usage.Stopped:
        return None
    return _ready(told).get("lastTransitionTime")


def _ready(document: dict[str, object]) -> dict[str, object]:
    return next(
        (one for one in columns.records(document.get("conditions")) if one.get("type") == "Ready"), {}
    )


def _get_instances(settings: usage.Settings, wanted: list[str]) -> int:
    from reconciler.doors import inflight  # noqa: PLC0415 - no other table asks the controller

    found = inflight.instances(settings.config, standing.read(settings.config))
    if wanted:
        found = [one for one in found if one.get("name") in wanted or one.get("binding") in wanted]
        if not found:
            raise Unknown(f"there is no instance {', '.join(wanted)}")
    if settings.output == "json":
        sys.stdout.write(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    elif settings.output == "name":
        sys.stdout.write("".join(f"{columns.shown(one.get('name'))}\n" for one in found))
    else:
        sys.stdout.write(_instances(found, _paint(settings)))
    return 0


def _table(found: list[dict[str, object]], paint: columns.Paint, *, wide: bool) -> str:
    rows = [["NAME", "SYNCED", "READY", "REASON", "USED-BY", "AGE", *(["FILE", "MESSAGE"] if wide else [])]]
    colours = [["bold"] * len(rows[0])]
    for one in found:
        users = [str(user) for user in _list_of(one.get("usedBy"))]
        row = [_name(one), str(one.get("synced")), str(one.get("ready")), str(one.get("reason"))]
        row += [", ".join(users) if wide or len(users) < 3 else f"{users[0]} +{len(users) - 1}", _since(one)]
        rows.append(row + ([_place(one), str(one.get("message") or "")] if wide else []))
        colour = "green" if _fine(one) else "red" if one.get("ready") == "False" else "yellow"
        colours.append(["", "", colour, *[""] * (len(row) - 3 + 2 * wide)])
    return columns.table(rows, paint, colours)


def _summed(document: dict[str, object]) -> dict[str, object]:
    """An object's own file in the form that the summary has of it."""
    conditions = {str(one.get("type")): one for one in columns.records(document.get("conditions"))}
    ready, synced = conditions.get("Ready", {}), conditions.get("Synced", {})
    source = document.get("source")
    problem = next(iter(columns.records(document.get("problems"))), {})
    return {
        "kind": document.get("kind"),
        "name": document.get("name"),
        "ready": ready.get("status", "Unknown"),
        "reason": ready.get("reason"),
        "message": ready.get("message"),
        "since": ready.get("lastTransitionTime"),
        "synced": synced.get("status", "Unknown"),
        "file": source.get("file") if isinstance(source, dict) else None,
        "line": problem.get("line", 0),
        "column": problem.get("column", 0),
        "usedBy": document.get("usedBy", []),
    }


def _describe(settings: usage.Settings, arguments: list[str]) -> int:
    if len(arguments) != 1 or "/" not in arguments[0]:
        raise usage.Usage("'handler describe' wants one object, like 'handler describe agent/clerk'")
    word, _, name = arguments[0].partition("/")
    kind = standing.kind_of(word)
    if kind == "instance":
        return _get_instances(settings, [name])
    document = standing.document(settings.config, kind, name)
    if settings.output == "json":
        sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(_whole(document, settings))
    return 0


def _whole(document: dict[str, object], settings: usage.Settings) -> str:
    paint = _paint(settings)
    source = document.get("source")
    file = source.get("file") if isinstance(source, dict) else ""
    users = ", ".join(map(str, _list_of(document.get("usedBy")))) or "nobody"
    head = [["object", _name(document)], ["file", str(file)]]
    if _list_of(document.get("usedBy")) or document.get("kind") not in _UNSELECTED:
        head.append(["used by", users])
    if document.get("suspended"):
        head.append(["suspended", "yes"])
    seen = _seen(settings)
    if seen and not seen.lives:
        head.append(["controller", f"none runs: this is what was so {columns.age(seen.age_s)} ago"])
    head += sheet.rows(document, settings)
    generation, observed = document.get("generation"), document.get("observedGeneration")
    if generation and observed and generation != observed:
        head.append(["in force", f"an earlier form ({str(observed)[:19]}), not the newest"])
    text = columns.table(head, paint, [["bold", ""] for _ in head])
    instances = _instances_of(document, seen)
    if services := columns.records(document.get("services")):
        text += "\n" + _services(services, instances, paint)
    text += "\n" + truthtable.conditions(document, paint)
    for one in columns.records(document.get("problems")):
        text += "\n" + problem_text(one, paint)
    if document.get("kind") == "binding" and instances:
        text += "\n" + _instances(instances, paint)
    return text + _log(document, settings, paint)


def _seen(settings: usage.Settings) -> Standing | None:
    try:
        return standing.read(settings.config)
    except standing.Unreadable:
        return None  # the object's own file says enough


def _instances_of(document: dict[str, object], seen: Standing | None) -> list[dict[str, object]]:
    """The instances that may be behind an object, while a controller lives: those of a binding, else all."""
    found = seen.instances if seen and seen.lives else []
    whole = document.get("kind") != "binding"
    return [one for one in found if whole or one.get("binding") == document.get("name")]


def _services(
    services: list[dict[str, object]], instances: list[dict[str, object]], paint: columns.Paint
) -> str:
    """What answers each interface of an agent, and the key that chose it."""
    phases = {one.get("name"): _phase(one) for one in instances}
    rows = [["SERVICE", "BINDING", "CHOSEN BY", "SERVED BY", "GRANTED"]]
    for one in services:
        instance = one.get("instance")
        served = f"{instance} ({phases[instance]})" if instance in phases else str(instance or "nothing yet")
        tools, most = one.get("tools"), one.get("maxCalls")
        granted = ", ".join(map(str, tools)) if isinstance(tools, list) else "every tool"
        granted += f", {most} calls a session" if most else ""
        chosen = f"{_place(one)} {one.get('field')}"
        rows.append([str(one.get("interface")), str(one.get("binding")), chosen, served, granted])
    return columns.table(rows, paint, [["bold"] * 5] + [[""] * 5] * (len(rows) - 1))


def _log(document: dict[str, object], settings: usage.Settings, paint: columns.Paint) -> str:
    """The end of a binding's log, where the binding is not ready."""
    ready = _ready(document)
    waits = ready.get("status") == "False" or ready.get("reason") in _STARTING
    if document.get("kind") != "binding" or not waits:
        return ""
    lines = standing.log_lines(standing.log_path(settings.config, str(document.get("name"))), _LOG_LINES)
    told = "".join(f"  {columns.shown(line)}\n" for line in lines)
    return f"\n{paint('The log ends with:', 'bold')}\n{told}" if lines else ""


def problem_text(one: dict[str, object], paint: columns.Paint, excerpt: str = "") -> str:
    """A problem, as JSON has it, in the words of every surface; ``excerpt`` follows its first line."""
    warning = one.get("severity") == "warning"
    label = paint(f"{one.get('severity', 'error')} {one.get('code')}", "yellow" if warning else "red")
    text = (
        f"{paint(columns.shown(_place(one)), 'bold')}: {label}: {columns.shown(one.get('what'))}\n{excerpt}"
    )
    text += f"  why   {columns.shown(one.get('why'))}\n"
    return text + f"  mend  {columns.shown(one.get('mend'))}\n"


def revision(text: str) -> str:
    """A revision as people read it: ``main@4f2c1aa``, with ``+edits`` when the work tree differs."""
    found = revisions.parts(text)
    short = found.name[:_SHORT]
    if not found.commit and found.name:
        return f"no git, {short}"
    return (f"{found.branch}@{short}" if short else text) + (" +edits" if found.edits else "")


def _place(one: dict[str, object]) -> str:
    file, line = one.get("file") or "", one.get("line")
    return f"{file}:{line}:{one.get('column')}" if line else str(file)


def _name(one: dict[str, object]) -> str:
    return f"{one.get('kind')}/{one.get('name')}"


def _since(one: dict[str, object]) -> str:
    import time  # noqa: PLC0415

    at = standing.instant(str(one.get("since") or ""))
    return "-" if at is None else columns.age(time.time() - at)


def _list_of(value: object) -> list[object]:
    return value if isinstance(value, list) else []
