"""``handler secret check``: whether the controller finds each secret now. The value is never shown, and never
leaves the controller.
"""

import json
import sys

from reconciler.doors import client, columns, usage

_HEAD = ["BINDING", "SLOT", "FORM", "VIA", "FOUND", "BYTES", "FINGERPRINT", ""]
_WAIT_S = 120.0  # a program has ten seconds, and eight run at once


def run(settings: usage.Settings, binding: str) -> int:
    """Show each slot of a binding, or of all; 0 all are found, 1 some are not."""
    name = binding.removeprefix("binding/")
    told = client.Client(settings.config).ask(
        "secret.check", {"binding": name}, settings.timeout_s or _WAIT_S
    )
    rows = told.get("secrets")
    found = [one for one in rows if isinstance(one, dict)] if isinstance(rows, list) else []
    if settings.output == "json":
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
    elif found:
        paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
        sys.stdout.write(columns.table([_HEAD, *map(_row, found)], paint))
    elif not settings.quiet:
        whose = f"binding/{name}" if name else "any binding"
        sys.stderr.write(f"No slot of {whose} is filled.\n")
    return 0 if all(one.get("found") for one in found) else 1


def _row(one: dict[str, object]) -> list[str]:
    words = [str(one.get(key, "")) for key in ("binding", "slot", "form", "via")]
    if not one.get("found"):
        return [*words, "no", "-", "-", str(one.get("message", ""))]
    more = "what runs was started with another value: handler apply replaces it" if one.get("changed") else ""
    return [*words, "yes", str(one.get("length", "")), str(one.get("fingerprint", "")), more]
