"""``handler probe``: have the controller ask a service now, and show what was seen."""

import json
import sys

from reconciler.doors import client, columns, truthtable, usage

_PATIENCE_S = 120.0


def run(settings: usage.Settings, binding: str) -> int:
    """Probe a binding; 0, or 1 where something bad was seen. Raises as ``ask``."""
    report = client.Client(settings.config).ask(
        "probe", {"binding": binding.removeprefix("binding/")}, _PATIENCE_S
    )
    found = report.get("observations")
    seen = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    if settings.output == "json":
        sys.stdout.write(json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    else:
        paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
        sys.stdout.write(truthtable.observations(seen, report.get("models"), paint))
    return 1 if any(one.get("value") in ("down", "not-ready") for one in seen) else 0
