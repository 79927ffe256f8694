"""``handler chain vet|show|graph``: what is printed, where problems stand, pictures that hold."""
# ruff: noqa: E501 - the chain is read as a table

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from reconciler.doors import chaining, chainpicture, usage
from reconciler.model.chain import Chain

GOOD = {
    "id": "good",
    "tasks": [
        {"id": "a", "handler": "route", "transition": {"on_failure": "c", "branches": [
            {"operator": "equals", "when": "yes", "goto": "b"}, {"operator": "default", "goto": "a"}]}},
        {"id": "b", "handler": "chat_completion", "execute_config": {"model": "m", "tools": ["fs"]}, "transition": {"branches": [
            {"operator": "equals", "when": "tool_call", "goto": "d"}, {"operator": "default", "goto": "end"}]}},
        {"id": "c", "handler": "noop"},
        {"id": "d", "handler": "execute_tool_calls", "transition": {"branches": [{"operator": "default", "goto": "b"}]}},
    ],
}  # fmt: skip


@pytest.fixture
def settings(tmp_path: Path) -> usage.Settings:
    (tmp_path / "chains").mkdir()
    (tmp_path / "handler.toml").write_text('apiVersion = "handler.config/v1"\n')
    (tmp_path / "chains" / "good.json").write_text(json.dumps(GOOD, indent=1))
    (tmp_path / "chains" / "bad.toml").write_text('id = "bad"\n[[tasks]]\nid = "a"\nhandler = "nop"\n')
    found = usage.Settings()
    found.config, found.color = str(tmp_path), "never"
    return found


@pytest.mark.slow
def test_a_chain_is_judged_by_its_id_or_as_a_file(
    settings: usage.Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert chaining.vet(settings, ["good"], "text") == 0
    assert "H234" in capsys.readouterr().out  # a hint refuses nothing
    file = str(tmp_path / "chains" / "bad.toml")
    assert chaining.vet(settings, [file], "text") == 1
    out, err = capsys.readouterr()
    assert f"{file}:4:11: error H205: 'nop' is no handler" in out
    assert "mend  write 'noop'" in out
    assert err == "1 error and 0 warnings in 1 chain.\n"
    assert chaining.vet(settings, [], "json") == 1
    assert {one["code"] for one in json.loads(capsys.readouterr().out)["problems"]} >= {"H205", "H234"}


def test_what_is_not_there_is_said(settings: usage.Settings, tmp_path: Path) -> None:
    with pytest.raises(usage.Stopped, match="no chain 'goood'"):
        chaining.vet(settings, ["goood"], "text")
    with pytest.raises(usage.Stopped, match="cannot read"):
        chaining.vet(settings, [str(tmp_path / "none.json")], "text")
    with pytest.raises(usage.Stopped, match=r"its name ends in \.json or \.toml"):
        chaining.show(settings, "/etc/hosts")


@pytest.mark.slow
def test_a_chain_is_shown_as_a_table_or_as_json(
    settings: usage.Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert chaining.show(settings, "good") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].split() == ["a", "route", "-", "-", "yes:", "b;", "else:", "a;", "failed:", "c"]
    settings.output = "json"
    assert chaining.show(settings, "good") == 0
    assert json.loads(capsys.readouterr().out)["tasks"][1]["execute_config"]["tools"] == ["fs"]


@pytest.mark.slow
def test_a_picture_holds_every_task_and_way(
    settings: usage.Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert chaining.graph(settings, "good", svg=False) == 0
    text = capsys.readouterr().out
    assert text.startswith("flowchart TD\n")
    assert 't0 -.->|"on_failure"| t2' in text
    assert chaining.graph(settings, "good", svg=True) == 0
    root = ET.fromstring(capsys.readouterr().out)
    said = [one.text for one in root.iter() if one.tag.endswith("text")]
    assert {"a", "b", "c", "d", "yes", "tool_call", "on failure", "route"} <= set(said)


def test_a_name_stays_a_name_in_every_picture() -> None:
    name = '"]; <script>alert(1)</script>'
    chain = Chain.model_validate({"tasks": [{"id": name, "handler": "noop"}]})
    assert "<script>" not in chainpicture.svg(chain)
    assert "<script>" not in chainpicture.mermaid(chain)
    assert '"]' not in chainpicture.mermaid(chain).replace('</i>"]', "")
    ET.fromstring(chainpicture.svg(chain))
