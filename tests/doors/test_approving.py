"""approve list and show: what waits comes first, and arguments are read as the JSON that they are."""

import json
import time
from pathlib import Path

import pytest

from reconciler.control import approvals
from reconciler.control.runfiles import Head, RunFiles
from reconciler.doors import approving, chainruns, usage


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An older question of a chain that waits, and a newer one that was answered."""
    now = time.time()
    call = {"run": "7569eafc797f", "tool": "fs_write_file", "arguments": {"path": "a's.md", "new": True}}
    kept = [
        approvals.Approval("aaaaaaaaaaaa", "sha256:1", now - 60, now + 60, about=call),
        approvals.Approval("bbbbbbbbbbbb", "sha256:2", now - 30, now + 60, "used", about={"agent": "max"}),
    ]
    monkeypatch.setattr(approvals, "stored", lambda state: kept)
    monkeypatch.setattr("reconciler.doors.kept.state", lambda settings: tmp_path)


@pytest.mark.usefixtures("asked")
def test_what_waits_is_listed_before_what_was_answered(capsys: pytest.CaptureFixture[str]) -> None:
    settings = usage.Settings()
    settings.output = "name"
    assert approving.listing(settings) == 0
    assert capsys.readouterr().out.split() == ["aaaaaaaaaaaa", "bbbbbbbbbbbb"]


@pytest.mark.usefixtures("asked")
def test_the_arguments_of_a_call_are_shown_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert approving.show(usage.Settings(), "aaaa") == 0
    line = next(one for one in capsys.readouterr().out.splitlines() if one.startswith("arguments"))
    assert json.loads(line.removeprefix("arguments")) == {"path": "a's.md", "new": True}


def test_what_was_not_let_go_is_listed_with_its_rule_and_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("reconciler.doors.kept.state", lambda settings: tmp_path)
    settings = usage.Settings()
    assert approving.receipt_list(settings, 5, denied=True) == 0
    assert capsys.readouterr().err == "Nothing was denied.\n"
    (tmp_path / "receipts").mkdir()
    for day in (1, 2):
        lines = [
            {"n": day * 10 + at, "verdict": verdict, "rule": "own", "agent": "ada", "reason": "too large"}
            for at, verdict in enumerate(("allow", "deny", "deny"))
        ]
        text = "".join(f"{json.dumps(one)}\n" for one in lines)
        (tmp_path / f"receipts/2026-11-0{day}.jsonl").write_text(f"{text}no receipt\n[]\n")
    assert approving.receipt_list(settings, 3, denied=True) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["AT", "VERDICT", "RULE"]
    assert [row.split()[1:4] for row in rows] == [["deny", "own", "ada"]] * 3
    assert rows[0].endswith("too large")
    settings.output = "json"
    assert approving.receipt_list(settings, 2, denied=False) == 0
    assert [json.loads(line)["n"] for line in capsys.readouterr().out.splitlines()] == [21, 22]


@pytest.mark.usefixtures("asked")
def test_on_a_terminal_a_colour_is_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = usage.Settings()
    settings.color = "always"
    assert approving.listing(settings) == 0
    files = RunFiles(tmp_path)
    files.begin(Head("0123456789ab", "c", "clerk", time.time() - 300, state="stopped"), {})
    monkeypatch.setattr("reconciler.doors.kept.state", lambda settings: tmp_path)
    assert chainruns.listing(settings, every=True) == 0
    out = capsys.readouterr().out
    assert "\x1b[33mwaiting" in out and "\x1b[31mstopped" in out and " 5m" in out
    assert "\\x1b" not in out
