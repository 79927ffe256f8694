"""What ``describe`` shows of conditions, and of a binding the three truths apart, each with its age."""

import time

from reconciler.doors import columns, standing

_ASKED = {
    "link": "not observed: `handler probe {name}` asks once, `probe.link` of the binding always",
    "readiness": "not observed: the next call tells",
    "conformance": "not asked for (`conformance.require`): `handler connector check{connector}` tells",
}
_NOTHING = {"link": "unknown", "readiness": "unprobed", "conformance": "unproven"}


def conditions(document: dict[str, object], paint: columns.Paint) -> str:
    """The table of an object's conditions, and below it what was observed of a binding."""
    rows = [["CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE"]]
    for one in columns.records(document.get("conditions")):
        since = _ago(one.get("lastTransitionTime"))
        facts = [one.get("type"), one.get("status"), one.get("reason"), since, one.get("message") or ""]
        rows.append([str(fact) for fact in facts])
    text = columns.table(rows, paint, [["bold"] * 5] + [[""] * 5] * (len(rows) - 1))
    if document.get("kind") != "binding":
        return text
    return f"{text}\n{observations(document, paint)}"


def observations(document: dict[str, object], paint: columns.Paint) -> str:
    """Link, readiness, conformance, a row each operation; where nothing is known it is said how to ask."""
    name, models = document.get("name"), document.get("models")
    seen = columns.records(document.get("observations"))
    declared = document.get("declared")
    connector = declared.get("connector") if isinstance(declared, dict) else None
    rows = [["TRUTH", "OPERATION", "VALUE", "SEEN", "HOLDS", "BY", "WHAT WAS SEEN"]]
    for kind, nothing in _NOTHING.items():
        found = _latest([one for one in seen if one.get("kind") == kind])
        ask = _ASKED[kind].format(name=name, connector=f" {connector}" if connector else "")
        rows += [_row(one) for one in found] or [[kind, "*", nothing, "", "", "", ask]]
    text = columns.table(rows, paint, [["bold"] * 7] + [[""] * 7] * (len(rows) - 1))
    if isinstance(models, dict):
        missing = ", ".join(map(str, models.get("missing") or ())) or "none"
        others = models.get("undeclaredSeen")
        text += f"models that its server does not list: {missing}; beside the binding's it lists: {others}\n"
    return text


def _latest(found: list[dict[str, object]]) -> list[dict[str, object]]:
    """Of several instances of which the same is known, what was seen last."""
    latest: dict[tuple[object, ...], dict[str, object]] = {}
    for one in sorted(found, key=lambda one: str(one.get("observedAt"))):
        subject = one.get("subject")
        operation = subject.get("operation") if isinstance(subject, dict) else None
        latest[operation, one.get("value"), one.get("reason")] = one
    return sorted(latest.values(), key=found.index)


def _row(one: dict[str, object]) -> list[str]:
    subject = one.get("subject")
    subject = subject if isinstance(subject, dict) else {}
    left = standing.instant(str(one.get("expiresAt"))) or 0.0
    holds = columns.age(left - time.time()) if left > time.time() else "over"
    said = f"{one.get('reason')}: {one.get('message')}" if one.get("message") else one.get("reason")
    facts = (
        one.get("kind"), subject.get("operation"), one.get("value"), _ago(one.get("observedAt")), holds,
        one.get("by"), said,
    )  # fmt: skip
    return [str(fact) for fact in facts]


def _ago(text: object) -> str:
    at = standing.instant(str(text))
    return columns.age(max(0.0, time.time() - at)) if at is not None else ""
