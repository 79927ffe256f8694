"""``handler convert``: from one version of a kind's format to the next, once there is a next.

Each kind has exactly one version now, so there is nothing to convert to; the command says so and writes
nothing. It is there so that scripts may call it from the first release on.
"""

import json
import sys
from collections import Counter
from pathlib import Path

from reconciler.config import toml
from reconciler.control import folders
from reconciler.doors import columns, offline, usage
from reconciler.model.resources import KINDS


def run(settings: usage.Settings, path: str, to: str) -> int:
    """Say which versions there are and how many files have which; 0, and nothing is written."""
    known = [row.api_version for row in KINDS]
    if to and to not in known:
        raise usage.Usage(f"'{columns.shown(to)}' is no version of a file: there are {', '.join(known)}")
    root = offline.root_of(Path(path)) if path else folders.configuration(settings.config)
    look = offline.look(root)
    inside = Path(path).absolute() if path else root
    found = Counter[str]()
    for file, data in look.tree.files.items():
        if file.endswith(".toml") and inside in ((root / file), *(root / file).parents):
            told = toml.read(data)
            version = told.get("apiVersion") if isinstance(told, dict) else None
            if version in known:
                found[str(version)] += 1
    if path and not found and not inside.exists():
        raise usage.Usage(f"there is nothing at {usage.path_shown(path)}")
    if settings.output == "json":
        value = {"versions": known, "files": dict(sorted(found.items())), "converted": 0}
        sys.stdout.write(json.dumps(value, indent=2) + "\n")
        return 0
    paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
    rows = [[version, columns.counted(found[version], "file")] for version in known if found[version]]
    sys.stdout.write(columns.table(rows, paint))
    sys.stdout.flush()
    if not settings.quiet:
        sys.stderr.write("Each kind of file has one version in this release: there is nothing to convert.\n")
    return 0
