"""The calls that instances have at this moment: the controller's word where one answers.

The status files say how things stand and not each call, for a busy controller has thousands a second.
"""

from contextlib import suppress

from reconciler.doors import client, usage
from reconciler.doors.standing import Standing

_ANSWER_S = 2.0  # of what is known at once


def instances(given: str | None, seen: Standing) -> list[dict[str, object]]:
    """The instances as the status has them, each with its calls of now."""
    if not seen.lives:
        return seen.instances
    with suppress(usage.Stopped):
        now = client.Client(given).ask("hello", {}, _ANSWER_S).get("calls")
        if isinstance(now, dict):
            return [{**one, "calls": now.get(one.get("name"), 0)} for one in seen.instances]
    return seen.instances
