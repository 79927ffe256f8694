"""What diff answers, whole: golden reports as text and as JSON, from real trees through the real looker.

``HANDLER_GOLDEN=write pytest tests/control/test_comparing.py`` rewrites them; the difference is reviewed.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler.config.differences import Difference
from reconciler.control import comparing, folders, looking
from reconciler.control.admitted import Admitted
from reconciler.control.looking import Looker
from reconciler.control.place import Place
from reconciler.doors import columns, radius
from reconciler.plan.losses import Live, Open
from tests.plan.build import agent, binding, connector, interface, whole

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "diff"
OLD, NEW = "main@sha1:" + "1" * 40, "main@sha1:" + "2" * 40

CONFIG = {
    **interface("ocr"),
    **interface("web"),
    **connector("ocr-fast", "ocr/v1", more='[settings.speed]\ndescription = "How."\ndefault = 3\n'),
    **connector("ocr-good", "ocr/v1"),
    **connector("web-plain", "web/v1"),
    **binding("shared", "ocr-fast"),
    **binding("good", "ocr-good"),
    **binding("web", "web-plain"),
    **agent("clerk", {"ocr": "shared"}),
    **agent("reviewer", {"ocr": "shared", "web": "web"}),
    **agent("auditor", {"web": "web"}),
}


def _without(part: str) -> dict[str, str]:
    return {path: text for path, text in CONFIG.items() if part not in path}


_MISSPELT = 'apiVersion = "handler.binding/v1"\nconector = "ocr-fast"\n'
_SKILL = "interfaces/ocr/v1/skills/ocr/SKILL.md"
CASES: Mapping[str, Mapping[str, str]] = {
    "shared-connector": CONFIG
    | connector(
        "ocr-fast",
        "ocr/v1",
        more='[settings.speed]\ndescription = "How."\ndefault = 3\n[sandbox]\nprograms = ["git"]\n'
        "memoryBytes = 536870912\npids = 32\n",
        code="print(2)\n",
    ),
    "rebind": CONFIG | agent("clerk", {"ocr": "good"}),
    "removed-binding": _without("bindings/shared"),
    "frozen-interface": CONFIG | {_SKILL: CONFIG[_SKILL] + "Go on.\n"},
    "refused": CONFIG
    | {"bindings/shared.toml": 'apiVersion = "handler.binding/v1"\nconector = "ocr-fast"\n'},
    "first-file": CONFIG | binding("spare", "ocr-good"),
    "everything-removed": {},
    "nothing": CONFIG,
}


@pytest.fixture
def looker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Looker:
    """A looker that has the configuration in force; what this machine has stands in no golden."""
    monkeypatch.setattr(looking, "kit_digest", lambda: "c" * 64)
    (tmp_path / "catalog").mkdir()
    monkeypatch.setattr(folders, "catalog", lambda: tmp_path / "catalog")
    monkeypatch.setattr(Path, "home", lambda: Path("/home/ada"))
    made = Looker(
        Place(tmp_path / "config", tmp_path / "state", tmp_path / "run"), Admitted(tmp_path / "none")
    )
    made.first(whole(CONFIG, OLD))
    return made


def running(looker: Looker) -> Live:
    """Two sessions of two agents, opened at two revisions, and the instance that both use."""
    assert looker.last is not None
    (shared,) = [name for name in looker.last.desired.recipes if name.binding == "shared"]
    sessions = (
        Open("5e551011", "clerk", OLD, 3, {shared}, {"ocr/v1"}, standing=True),
        Open("5e551012", "reviewer", "main@sha1:" + "0" * 40 + "+dirty:abc", 2, {shared}, {"ocr/v1"}),
    )
    return Live(sessions, {str(shared)})


def report(looker: Looker, files: Mapping[str, str]) -> dict[str, Any]:
    lock = whole(CONFIG).files["handler.lock"].decode()
    return comparing.preview(looker, running(looker), tree=whole({"handler.lock": lock, **files}, NEW))


@pytest.mark.parametrize("case", CASES)
def test_a_report_is_the_golden_one_as_text_and_as_json(case: str, looker: Looker) -> None:
    found = report(looker, CASES[case])
    text = radius.text(found, columns.Paint("never", tty=False))
    _golden(f"{case}.txt", text)
    _golden(f"{case}.json", json.dumps(found, indent=2, ensure_ascii=False) + "\n")


@pytest.mark.parametrize("case", CASES)
def test_a_report_has_the_shape_of_its_schema(case: str, looker: Looker) -> None:
    told = {**report(looker, CASES[case]), "applied": False, "ready": False}
    assert Difference.model_validate_json(json.dumps(told))


@pytest.mark.parametrize("case", CASES)
def test_a_preview_changes_nothing_of_what_the_looker_remembers(case: str, looker: Looker) -> None:
    before = looker.last
    first = report(looker, CASES[case])
    assert looker.last is before
    assert report(looker, CASES[case]) == first


def test_two_agents_of_a_shared_connector_are_reached_and_the_third_is_not(looker: Looker) -> None:
    found = report(looker, CASES["shared-connector"])
    assert found["agents"] == {"reached": ["clerk", "reviewer"], "untouched": ["auditor"]}
    assert [one["revision"] for one in found["sessions"]] == [
        OLD, "main@sha1:" + "0" * 40 + "+dirty:abc",
    ]  # fmt: skip


def test_what_only_a_persons_apply_does_says_so(looker: Looker) -> None:
    found = report(looker, CASES["removed-binding"])
    assert [(one["object"], one["reason"]) for one in found["held"]] == [("binding/shared", "AwaitingApply")]
    (change,) = [one for one in found["changes"] if one["object"] == "binding/shared"]
    assert [one["sort"] for one in change["losses"]] == ["session", "session", "agent", "agent", "instance"]


def test_a_configuration_that_cannot_be_read_has_no_report(looker: Looker) -> None:
    with pytest.raises(OSError, match="cannot be read now"):
        comparing.preview(looker, Live())


def _golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("HANDLER_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()
