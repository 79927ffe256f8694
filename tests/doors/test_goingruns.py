"""The lines of status about what waits for a person, read from files alone."""

import json
import os
import time
from pathlib import Path

from reconciler.doors import goingruns


def test_questions_of_calls_are_counted_while_they_wait_and_anything_else_there_is_not(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "approvals"
    assert goingruns.asked(str(tmp_path)) == ""
    folder.mkdir()
    late = time.time() + 600
    files: dict[str, object] = {
        "waits": {"state": "waiting", "until": late, "about": {"agent": "clerk"}},
        "of-a-run": {"state": "waiting", "until": late, "about": {"run": "r"}},
        "answered": {"state": "used", "until": late, "about": {}},
        "over": {"state": "waiting", "until": 1.0, "about": {}},
        "odd": ["waiting"],
        "other": {"state": "waiting", "until": "soon", "about": {}},
    }
    for name, what in files.items():
        (folder / f"{name}.json").write_text(json.dumps(what))
    (folder / "broken.json").write_bytes(b"{\xff")
    os.mkfifo(folder / "pipe.json")
    assert goingruns.asked(str(tmp_path)) == "calls    that wait for a person: 1 ('handler approve list')\n"


def test_calls_that_a_person_has_to_settle_are_counted_over_all_objects() -> None:
    rows: list[dict[str, object]] = [{"indeterminate": 2}, {}, {"indeterminate": "x"}, {"indeterminate": 1}]
    assert (
        goingruns.unsettled(rows) == "calls    of which nobody knows what became: 3 ('handler jobs list')\n"
    )
    assert goingruns.unsettled([{"indeterminate": 0}]) == ""
