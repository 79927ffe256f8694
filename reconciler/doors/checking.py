"""``handler check agent/NAME``: can this agent be served now? One exit code for cron and launchers.

It reads status files and asks nobody, so it answers at once: 0 it can (also by earlier forms), 1 a fault of
Handler's own, 10 not now and trying later may help, 11 a person must act, 12 there is no such agent.
"""

import json
import sys

from reconciler.doors import columns, standing, usage, verdicts
from reconciler.doors.standing import Standing

_FIELDS = ("interface", "binding", "ready", "reason", "message")


def run(settings: usage.Settings, subject: str) -> int:
    """Check one agent; the exit code. Raises ``usage.Usage``, and ``standing.Unreadable`` (a fault: 1)."""
    kind, slash, name = subject.rpartition("/")
    if slash and standing.kind_of(kind) != "agent":
        raise usage.Usage(f"only agents are checked: 'handler check agent/NAME', not '{subject}'")
    if not name:
        raise usage.Usage("name an agent: 'handler check agent/NAME'")
    try:
        seen = standing.read(settings.config)
    except standing.Unreadable as nothing:
        if nothing.starting is None:
            raise
        sys.stderr.write(f"handler: {columns.shown(nothing)}\n")
        return verdicts.LATER if nothing.starting else verdicts.PERSON
    try:
        document = standing.document(settings.config, "agent", name)
    except standing.Unknown:
        return _unknown(seen, name)
    code, reason, message = _verdict(seen, document)
    if settings.output == "json":
        told = {
            "object": f"agent/{name}",
            "code": code,
            "ready": code == verdicts.READY,
            "reason": reason,
            "message": message,
            "requires": _required(seen, document),
        }
        sys.stdout.write(json.dumps(told, indent=2, ensure_ascii=False) + "\n")
    elif not settings.quiet or code:
        stream = sys.stderr if code else sys.stdout
        stream.write(_text(f"agent/{name}", code, reason, message) + _services(seen, document))
    return code


def _unknown(seen: Standing, name: str) -> int:
    if seen.is_starting:
        sys.stderr.write("handler: the controller is starting: ask again in a moment\n")
        return verdicts.LATER
    known = ", ".join(str(one.get("name")) for one in seen.objects if one.get("kind") == "agent") or "none"
    sys.stderr.write(f"handler: there is no agent '{columns.shown(name)}'; agents: {columns.shown(known)}\n")
    return verdicts.UNKNOWN


def _verdict(seen: Standing, document: dict[str, object]) -> tuple[int, str, str]:
    """The exit code, the reason and the words of one agent."""
    if not seen.lives:
        shown = usage.path_shown(seen.config)
        return verdicts.PERSON, "NoController", f"no controller runs: start one with 'handlerd -c {shown}'"
    if seen.is_starting:
        return verdicts.LATER, "Starting", "the controller is starting"
    ready = verdicts.conditions(document).get("Ready", {})
    reason, message = ready.get("reason", "Starting"), ready.get("message", "")
    if ready.get("status") == "True":
        return verdicts.READY, reason, message
    if ready.get("status") != "False":
        return verdicts.LATER, reason, message
    return verdicts.code(reason), reason, message


def _text(name: str, code: int, reason: str, message: str) -> str:
    detail = f": {message}" if message else ""
    if code == verdicts.READY:
        return f"{name} is ready{columns.shown(detail)}\n"
    act = {verdicts.LATER: "try again later", verdicts.PERSON: "a person must act"}.get(
        code, "a fault of Handler"
    )
    return f"handler: {name} is not ready ({act}): {reason}{columns.shown(detail)}\n"


def _services(seen: Standing, document: dict[str, object]) -> str:
    """A line for each interface whose binding is not ready."""
    rows = [one for one in _required(seen, document) if one["ready"] != "True"]
    return "".join(
        columns.shown(f"  {one['interface']}: {one['binding']} {one['reason']} {one['message']}").rstrip()
        + "\n"
        for one in rows
    )


def _required(seen: Standing, document: dict[str, object]) -> list[dict[str, str]]:
    """What the agent selects and requires, with how each stands."""
    bindings = {str(one.get("name")): one for one in seen.objects if one.get("kind") == "binding"}
    services = document.get("services")
    found: list[dict[str, str]] = []
    for one in services if isinstance(services, list) else []:
        binding = bindings.get(str(one.get("binding")), {})
        told = [str(binding.get(key) or "") for key in ("ready", "reason", "message")]
        found.append(
            dict(zip(_FIELDS, [str(one.get("interface")), str(one.get("binding")), *told], strict=True))
        )
    bound = {one["interface"] for one in found}
    declared = document.get("declared")
    wanted = declared.get("requires") if isinstance(declared, dict) else None
    for version in wanted if isinstance(wanted, list) else []:
        if str(version) not in bound:
            row = [str(version), "nothing", "False", "MissingRequirement", "it is not bound"]
            found.append(dict(zip(_FIELDS, row, strict=True)))
    return found
