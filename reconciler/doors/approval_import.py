"""``handler import approvals``: a JSON policy of the chains' other engines as ``policies/approval.toml``."""

import json
import os
import sys

from reconciler.doors import foreign, offline, usage
from reconciler.harness import approvaljson

_FILE = "policies/approval.toml"


def run(settings: usage.Settings, path: str, *, dry: bool) -> int:
    """Write (or, ``dry``, print) the policy; nothing that is there is written over.

    0 it is there now, 1 something of it was left out or it is refused. Raises ``Usage`` and ``Stopped``.
    """
    if not path:
        raise usage.Usage("a policy is needed: handler import approvals hitl-policy.json")
    root, file = foreign.root(settings), foreign.named(path)
    with foreign.values(file) as values:
        text, left = approvaljson.text(values, file.name)
        data = text.encode()
    look = offline.look(root)
    there = os.path.lexists(look.root / _FILE)
    if there and look.tree.files.get(_FILE) != data:
        raise usage.Stopped(f"{_FILE} is there already: nothing was written; move its rules aside first")
    if foreign.refused(settings, look, {_FILE: text}):
        raise usage.Stopped(
            f"nothing was written: {usage.path_shown(str(file))} says what no policy here can"
        )
    if not dry and not there:
        foreign.write(look.root, {_FILE: text})
    if settings.output == "json":
        told = {
            "dryRun": dry,
            "written": [] if there else [_FILE],
            "left": [{"what": a, "why": b} for a, b in left],
        }
        text = json.dumps(told, indent=2) + "\n"
    sys.stdout.write(text if dry or settings.output == "json" else f"{_FILE}\n")
    sys.stdout.flush()
    for what, why in left:
        sys.stderr.write(f"left out: {what}: {why}\n")
    return 1 if left else 0
