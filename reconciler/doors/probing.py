"""``handler probe``: have the controller ask a service now, and show what was seen."""

import json
import sys

from reconciler.doors import client, columns, truthtable, usage

_PATIENCE_S = 120.0


def run(settings: usage.Settings, binding: str) -> int:
    """Probe a binding; 0, or 1 where something bad was seen. Raises as ``ask``."""
    name = binding.removeprefix("binding/")
    report = client.Client(settings.config).ask("probe", {"binding": name}, _PATIENCE_S)
    if settings.output == "json":
        sys.stdout.write(json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    else:
        paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
        sys.stdout.write(truthtable.observations({"name": name, **report}, paint))
    seen = columns.records(report.get("observations"))
    return 1 if any(one.get("value") in ("down", "not-ready") for one in seen) else 0
