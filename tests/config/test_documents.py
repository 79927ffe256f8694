"""What the controller really writes has the shape that the schemas say."""

import json
from pathlib import Path

from reconciler.config import lock
from reconciler.config.documents import Event, LockFile
from reconciler.config.objectfile import StatusFile
from reconciler.config.statuses import Summary as SummaryFile
from reconciler.config.toml import read
from reconciler.control import say
from reconciler.control.journal import Journal
from reconciler.control.status import Board
from reconciler.model.inventory import Lock, LockEntry
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.problems import Problem, Span
from reconciler.model.status import Condition, InstanceSeen, ObjectStatus, Summary

PROBLEM = say.problem_json(
    Problem(
        "B101",
        "what",
        "why",
        "mend",
        Span("bindings/a.toml", 2, 1),
        ("x",),
        about=ObjectRef(Kind.BINDING, "a"),
    )
)
INSTANCE = {
    "id": "a@0123456789ab",
    "phase": "ready",
    "pid": 1,
    "startedAt": "",
    "restarts": 0,
    "lastExit": "",
}
STATUS = ObjectStatus(
    "binding",
    "a",
    "bindings/a.toml",
    "sha256:x",
    "",
    suspended=False,
    conditions=(Condition("Ready", "False", "UnknownField", "m"),),
    problems=(PROBLEM,),
    inventory=(INSTANCE,),
    used_by=("agent/b",),
    declared={
        "description": "",
        "project": None,
        "requires": [],
        "scope": [{"path": "~/inbox", "access": "read"}],
        "harness": None,
        "connector": "c",
        "settings": {"fast": True, "pages": 3},
        "egress": [],
        "implements": [],
    },
    services=(
        {
            "interface": "ocr/v1",
            "binding": "a",
            "instance": None,
            "tools": None,
            "maxCalls": None,
            "file": "agents/b.toml",
            "line": 4,
            "column": 9,
            "field": "services.ocr",
        },
    ),
)


def test_a_status_file_and_the_summary_are_what_their_schemas_say(tmp_path: Path) -> None:
    board = Board(tmp_path, lambda: 1_700_000_000.0)
    board.publish([STATUS])
    controller = {"pid": 1, "startTime": 2, "bootId": "b", "version": "0.1.0", "http": None}
    instances = (
        {
            "name": "a@0123456789ab",
            "binding": "a",
            "phase": "failed",
            "pid": None,
            "startedAt": "",
            "restarts": 3,
            "lastExit": "exit 1",
            "reason": "CrashLoop",
            "message": "",
            "calls": 0,
            "runtime": "python",
            "walls": {"network": "none"},
        },
    )
    board.summary(
        Summary(configuration="/c", controller=controller, instances=instances, problems=(PROBLEM,))
    )
    StatusFile.model_validate_json((tmp_path / "binding" / "a.json").read_bytes(), strict=True)
    summary = SummaryFile.model_validate_json((tmp_path / "summary.json").read_bytes(), strict=True)
    assert summary.objects[0].line == 2
    board.summary(Summary(configuration="/c"))
    assert not SummaryFile.model_validate_json((tmp_path / "summary.json").read_bytes()).controller


def test_an_event_is_what_its_schema_says(tmp_path: Path) -> None:
    journal = Journal(tmp_path, lambda: 1_700_000_000.0)
    journal.event("binding/a", "Warning", "LastGoodRetained", "why")
    journal.instance(InstanceSeen("a@0123456789ab", "failed", last_exit="exit 1", reason="CrashLoop"))
    journal.close()
    lines = (tmp_path / "events.jsonl").read_text().splitlines()
    assert [Event.model_validate(json.loads(line)).object for line in lines] == ["binding/a", "binding/a"]


def test_a_lock_is_what_its_schema_says() -> None:
    digest = "sha256:" + "a" * 64
    text = lock.render(Lock({"ocr/v1": LockEntry("ocr/v1", digest, digest, "A. Person", "2026-11-30")}))
    assert LockFile.model_validate(read(text.encode())).interfaces["ocr/v1"].reviewed_by == "A. Person"
