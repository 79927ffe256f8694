"""``handler chain run`` and ``handler runs``: begin a run, follow it, look at it, end it.

Lists and sheets are read from the runs' own files, beside the controller that writes them; the rest is the
controller's to do, since a run goes on in it.
"""

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from reconciler.control import lock
from reconciler.control.runfiles import Head, RunFiles
from reconciler.control.status import iso
from reconciler.doors import client, columns, kept, usage

_HEAD = ["RUN", "STATE", "CHAIN", "AGENT", "AGE", "WHY"]
_COLOURS = {
    "completed": "green", "failed": "red", "cancelled": "yellow", "stopped": "red",
    "waiting_approval": "yellow", "waiting_service": "yellow",
}  # fmt: skip
_SERVICE = "waiting_service"
_FOLLOW_S = 30
_STOPPED = 3  # exit of a run that can be resumed
_MOST_INPUT = 16 * 2**20  # bytes


def run(settings: usage.Settings, words: Mapping[str, Any]) -> int:
    """Begin a run, and with ``wait`` follow it. Raises ``usage.Stopped``."""
    params: dict[str, object] = {"chain": words["chain"], "agent": words["agent"]}
    params |= {"inputType": words["kind"], "input": _input(words), "vars": _pairs(words["pairs"])}
    if words["script"]:
        params["script"] = _json(str(words["script"]), "script")
    control = client.Client(settings.config)
    begun = control.ask("chain.run", params)
    return _begun(settings, control, begun, wait=bool(words["wait"]))


def resume(settings: usage.Settings, text: str, *, wait: bool) -> int:
    """Go on with a run; 0. Raises ``usage.Stopped``."""
    control = client.Client(settings.config)
    begun = control.ask("run.resume", {"run": text})
    return _begun(settings, control, begun, wait=wait)


def cancel(settings: usage.Settings, text: str) -> int:
    """End a run; 0. Raises ``usage.Stopped``."""
    told = client.Client(settings.config).ask("run.cancel", {"run": text})
    if settings.output == "json":
        _out(told)
    elif not settings.quiet:
        sys.stdout.write(f"{told.get('id')}: {told.get('state')}\n")
    return 0


def listing(settings: usage.Settings, *, every: bool) -> int:
    """List runs, the newest first; 0."""
    state = kept.state(settings)
    found = [_true(state, one) for one in RunFiles(state).heads() if every or not one.is_over]
    if settings.output == "json":
        _out({"runs": [one.as_json() for one in found]})
    elif settings.output == "name":
        sys.stdout.write("".join(f"{one.id}\n" for one in found))
    elif found:
        paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
        rest = [""] * (len(_HEAD) - 2)
        colours = [["bold"] * len(_HEAD), *(["", _COLOURS.get(one.state, ""), *rest] for one in found)]
        sys.stdout.write(columns.table([_HEAD, *map(_row, found)], paint, colours))
    elif not settings.quiet:
        sys.stderr.write("There is no run.\n" if every else "No run goes on ('--all' lists what is over).\n")
    return 0


def show(settings: usage.Settings, text: str) -> int:
    """Show one run; 0. Raises ``usage.Stopped`` where there is none."""
    state = kept.state(settings)
    files = RunFiles(state)
    head = files.head(text)
    if head is None:
        raise usage.Stopped(f"there is no run '{text[:40]}', or more than one begins so: 'handler runs list'")
    head, events, output = _true(state, head), files.events(head.id), files.output(head.id)
    if settings.output == "json":
        _out({"run": head.as_json(), "told": events, "output": output})
        return 0
    sys.stdout.write(_sheet(head))
    for event in events:
        if line := _line(event):
            sys.stdout.write(f"  {str(event.get('timestamp', ''))[11:19]}  {line}\n")
    if output is not None:
        sys.stdout.write(f"\n{output.get('text', '')}\n")
    return 0


# beginning and following


def _begun(settings: usage.Settings, control: client.Client, begun: Mapping[str, Any], *, wait: bool) -> int:
    run_id = str(begun.get("id"))
    if begun.get("scripted") and not settings.quiet:
        sys.stderr.write("A script answers in the place of a model.\n")
    if wait:
        return _follow(settings, control, run_id)
    if settings.output == "json":
        _out(dict(begun))
    else:
        sys.stdout.write(f"{run_id}\n")
        if not settings.quiet:
            number = begun.get("waits_for")
            waits = f"waits for a person: handler approve show {number}, then handler approve {number}"
            if begun.get("state") == _SERVICE:
                waits = f"waits for a job: handler jobs get {number}"
            goes = f"goes on in the controller: handler runs show {run_id}"
            sys.stderr.write(f"The run {waits if number else goes}\n")
    return 0


def _follow(settings: usage.Settings, control: client.Client, run_id: str) -> int:
    after = asked = state = ""
    try:
        while True:
            wish: dict[str, object] = {
                "run": run_id,
                "after": after,
                "state": state,
                "waitSeconds": _FOLLOW_S,
            }
            found: dict[str, Any] = control.ask("run.follow", wish, _FOLLOW_S + client.ANSWER_S)
            after = str(found.get("after"))
            _tell(settings, found)
            number = str(found["run"].get("waits_for") or "")
            if number and number != asked and not settings.quiet:
                is_job = found["run"].get("state") == _SERVICE
                words = (
                    f"a job is waited for: {_job(number)}" if is_job else f"a person is asked: {_ask(number)}"
                )
                sys.stderr.write(f"  {words}\n")
            asked, state = number, str(found["run"].get("state") or "")
            if "output" in found:
                return _ended(settings, found)
    except KeyboardInterrupt:
        sys.stderr.write(f"\nThe run goes on: 'handler runs cancel {run_id}' ends it.\n")
        return 130
    except client.NoController as fault:
        raise usage.Stopped(f"{fault}; the run {run_id} goes on when a controller is back") from None


def _tell(settings: usage.Settings, found: Mapping[str, Any]) -> None:
    if settings.quiet:
        return
    for event in found.get("told") or ():
        if line := _line(event):
            sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _ended(settings: usage.Settings, found: Mapping[str, Any]) -> int:
    head, output = found["run"], found.get("output")
    if settings.output == "json":
        _out({"run": head, "output": output})
    elif output is not None:
        sys.stdout.write(f"{output.get('text', '')}\n")
    if head["state"] == "completed":
        return 0
    if not settings.quiet:
        why = head.get("message") or head.get("code") or ""
        sys.stderr.write(f"The run {head['id']} {head['state']}{f': {why}' if why else ''}\n")
        if head["state"] == "stopped":
            sys.stderr.write(f"  'handler runs resume {head['id']}' goes on with it\n")
    return _STOPPED if head["state"] == "stopped" else 1


def _line(event: Mapping[str, Any]) -> str:
    """What a person is told of an event; "" for what is of no interest."""
    task, kind, error = event.get("task_id", ""), event.get("kind"), event.get("error", "")
    tool, by = event.get("tool_name"), event.get("by")
    again = f", try {event['retry'] + 1}" if event.get("retry") else ""
    words = {
        "step_started": f"{event.get('task_handler')}{again}",
        "step_failed": f"failed: {error}",
        "tool_call_pending": f"calls {tool}",
        "tool_call": f"{tool} answered {error}" if error else "",
        "model_call": f"{event.get('model_name') or 'a model'}: {error}" if error else "",
        "hitl_decision": f"{tool} is denied by {_rule(event)}" if event.get("hitl_action") == "deny" else "",
        "approval_requested": f"{tool} waits for a person",
        "approval_answered": f"{tool}: {event.get('verdict')}" + (f" by {by}" if by else ""),
        "print": str(event.get("content", "")),
    }
    line = words.get(str(kind), "")
    return f"{task}: {line}" if line and task else line


# words


def _rule(event: Mapping[str, Any]) -> str:
    """Which rule of the policy of approvals spoke, as its problems name it."""
    number = event.get("hitl_matched_rule")
    whose = event.get("hitl_policy_name") or "the policy of approvals"
    return f"the default of {whose}" if number is None else f"rules[{number}] of {whose}"


def _input(words: Mapping[str, Any]) -> object:
    source, text = str(words["source"]), str(words["text"])
    if source and text:
        raise usage.Usage("write --input FILE or --text TEXT, not both")
    if source:
        try:
            text = _bounded(source, "input").decode()
        except OSError as fault:
            raise usage.Stopped(f"cannot read {source}: {fault.strerror}") from None
        except UnicodeDecodeError:
            raise usage.Stopped(f"{source} is no text in UTF-8") from None
    return _parsed(text, "input") if words["kind"] == "chat_history" else text


def _bounded(path: str, what: str) -> bytes:
    """What a file holds, ``-`` being stdin; raises OSError, and ``Stopped`` of one that does not end."""
    if path == "-":
        raw = sys.stdin.buffer.read(_MOST_INPUT + 1)
    else:
        with Path(path).open("rb") as opened:
            raw = opened.read(_MOST_INPUT + 1)
    if len(raw) > _MOST_INPUT:
        raise usage.Stopped(f"the {what} has more than {_MOST_INPUT} bytes")
    return raw


def _pairs(pairs: Any) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, equals, value = str(pair).partition("=")
        if not name or not equals:
            raise usage.Usage(f"--var is NAME=VALUE, not '{pair}'")
        found[name] = value
    return found


def _json(path: str, what: str) -> Any:
    try:
        return _parsed(_bounded(path, what), f"{what} {path}")
    except OSError as fault:
        raise usage.Stopped(f"cannot read {path}: {fault.strerror}") from None


def _parsed(text: str | bytes, what: str) -> Any:
    import orjson  # noqa: PLC0415 - nothing else here needs it

    try:
        return orjson.loads(text)
    except ValueError as fault:
        raise usage.Stopped(f"the {what} is no JSON: {fault}") from None


def _true(state: Path, head: Head) -> Head:
    """A run as it is: without a controller none goes on."""
    if head.is_over or head.state == "stopped" or lock.owner(state) is not None:
        return head
    return replace(head, message="no controller runs: it goes on when one does")


def _waits(one: Head) -> str:
    return f"jobs get {one.waits_for}" if one.state == _SERVICE else f"approve {one.waits_for}"


def _job(number: str) -> str:
    return f"handler jobs get {number}"


def _ask(number: str) -> str:
    return f"handler approve {number}"


def _row(one: Head) -> list[str]:
    why = one.code or (_waits(one) if one.waits_for else one.message)
    state = f"{one.state}{' (scripted)' if one.scripted else ''}"
    began = columns.age(max(0.0, time.time() - one.at))
    return [one.id, state, one.chain, one.agent, began, why[:60]]


def _sheet(head: Head) -> str:
    rows = [("run", head.id), ("state", head.state), ("chain", head.chain), ("agent", head.agent)]
    rows += [("began", iso(head.at)), ("ended", iso(head.ended) if head.ended else "")]
    rows += [("model", "scripted: a script answers, nothing is sent" if head.scripted else "")]
    kind = "a job" if head.state == _SERVICE else "a person"
    rows += [("waits for", f"{kind}: handler {_waits(head)}" if head.waits_for else "")]
    rows += [("for", " > ".join(head.above))]
    rows += [("task", head.task), ("code", head.code), ("why", head.message)]
    return "".join(f"{name:<10} {value}\n" for name, value in rows if value)


def _out(told: Any) -> None:
    sys.stdout.write(json.dumps(told, indent=2, ensure_ascii=False) + "\n")
