"""``handler import approvals``: a JSON policy of the chains' other engines as ``policies/approval.toml``."""

import json
import os
import sys
from pathlib import Path

from reconciler.control import checkouts, folders, harnessfiles
from reconciler.doors import columns, importing, offline, problems, usage
from reconciler.harness import approvaljson, reading
from reconciler.model.problems import Severity

_FILE = "policies/approval.toml"


def run(settings: usage.Settings, path: str, *, dry: bool) -> int:
    """Write (or, ``dry``, print) the policy; nothing that is there is written over.

    0 it is there now, 1 something of it was left out or it is refused. Raises ``Usage`` and ``Stopped``.
    """
    if not path:
        raise usage.Usage("a policy is needed: handler import approvals hitl-policy.json")
    root = folders.configuration(settings.config)
    if checkouts.is_bare(root.resolve()):
        raise usage.Stopped("a bare repository has no files to write: import into a checkout of it")
    file = Path(path).expanduser().absolute()
    shown = usage.path_shown(str(file))
    try:
        text, left = approvaljson.text(reading.values(harnessfiles.held(file), file.name), file.name)
        data = text.encode()
    except ValueError as fault:
        raise usage.Stopped(f"cannot import {shown}: {fault}") from None
    except OSError as fault:
        raise usage.Stopped(f"cannot read {shown}: {fault.strerror}") from None
    look = offline.look(root)
    there = os.path.lexists(look.root / _FILE)
    if there and look.tree.files.get(_FILE) != data:
        raise usage.Stopped(f"{_FILE} is there already: nothing was written; move its rules aside first")
    judged = look.with_files({_FILE: data})
    refused = [
        one for one in judged.admission.problems if one.at.file == _FILE and one.severity is Severity.ERROR
    ]
    if refused:
        paint = columns.Paint(settings.color, tty=sys.stderr.isatty())
        sys.stderr.write(problems.text(refused, judged.admission.inventory, paint))
        raise usage.Stopped(f"nothing was written: {shown} says what no policy here can")
    if not dry and not there:
        importing.write(look.root, {_FILE: text})
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
