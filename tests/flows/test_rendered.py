"""Rendered, the whole way: what each harness's file says starts a server that has the agent's tools."""

import json
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler.doors import rendering, usage
from reconciler.harness.harnesses import HARNESSES
from tests.kit.house import House, house
from tests.reasons.running import furnish

pytestmark = [pytest.mark.flow, pytest.mark.timeout(240)]

ASKS = [
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("rendered")) as made:
        furnish(made, "says")
        made.start()
        made.handler("apply", "--wait")
        yield made


def _entry(word: str, project: Path) -> dict[str, Any]:
    """The entry of ocr in what was written, as its harness reads it."""
    row = HARNESSES[word]
    file = project / row.file.format(agent="says-user").removeprefix("~/")
    data: Any = file.read_bytes()
    found: Any = tomllib.loads(data.decode()) if row.form == "TOML" else json.loads(data)
    for key in row.table:
        found = found[key]
    made: dict[str, Any] = next(one for one in found if one["name"] == "ocr") if row.named else found["ocr"]
    return made


def _tools(entry: Mapping[str, Any], folder: Path) -> list[str]:
    """The tools that the server of an entry offers to a harness that shows it nothing of its surroundings."""
    command = entry["command"] if isinstance(entry["command"], list) else [entry["command"], *entry["args"]]
    given = {**entry.get("env", {}), **entry.get("environment", {})}
    with subprocess.Popen(
        command, cwd=folder, env=given, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write("".join(json.dumps(one) + "\n" for one in ASKS))
        server.stdin.flush()
        answers = [json.loads(server.stdout.readline()) for _ in range(2)]
        server.stdin.close()
    listed = next(one for one in answers if one["id"] == 2)
    return [tool["name"] for tool in listed["result"]["tools"]]


def _render(act: str, word: str, project: Path) -> None:
    settings = usage.Settings()
    settings.quiet = True
    assert rendering.run(settings, rendering.Asked("says-user", word, str(project), act)) == 0


def test_what_a_harnesss_file_says_starts_the_agents_services(
    place: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HANDLER_CONFIG", "HANDLER_STATE", "HANDLER_RUN"):
        monkeypatch.setenv(name, place.env[name])
    monkeypatch.setenv("HOME", str(tmp_path))
    for word, row in HARNESSES.items():
        _render("write", word, tmp_path)
        folder = (tmp_path / row.file.format(agent="says-user")).parent if row.whole else tmp_path
        assert _tools(_entry(word, tmp_path), folder) == ["ocr_extract"], word
    _render("remove", "", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_is_printed_names_the_instance_that_runs(place: House) -> None:
    told = json.loads(place.handler("render", "says-user", "-o", "json").stdout)
    running = {one["name"] for one in json.loads(place.handler("get", "instances", "-o", "json").stdout)}
    assert set(told["instances"]) <= running, (told["instances"], running)
    assert told["instances"] == [told["routes"][0]["instance"]]
