"""The official clients of both languages and both generations, through every kind of call, at once.

Each client is a program in an environment of its own (``drive_*``), speaks through the real bridge to a real
controller and a real sandboxed connector, and writes down what an application would get. All of them run
side by side on one connector; then each report is held against what every client must have met. Where a
client cannot be installed (no node, no network) its column is skipped, and the summary says why.
"""

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.kit import strangers
from tests.kit.house import BIN, FIXTURES, House, house, wait_for

pytestmark = [pytest.mark.flow, pytest.mark.timeout(600)]

HERE = Path(__file__).parent
CANARIES = ("acme", "canary", "vendor", "quota of")
SIZE = 16_000_000
TEXT = {"type": "string", "maxLength": 200}
IN = TEXT | {"format": "handler-file", "description": "the path of a file in the work folder"}
OUT = TEXT | {"format": "handler-output-file", "description": "a path in the work folder"}
NUMBER = {"type": "integer", "minimum": 0, "maximum": 100_000_000}
INPUTS: Mapping[str, Mapping[str, Any]] = {
    "drill_echo": {"text": TEXT},
    "drill_fail": {"code": {"type": "string", "enum": ["broken", "worn_out"]}},
    "drill_steps": {"steps": NUMBER, "tag": TEXT},
    "drill_release": {"tag": TEXT},
    "drill_wait": {"tag": TEXT},
    "drill_seen": {"tag": TEXT},
    "drill_measure": {"path": IN},
    "drill_fill": {"path": OUT, "size": NUMBER},
}
INTERFACE = """apiVersion = "handler.interface/v1"
name = "drill"
version = 1
description = "What a client has to bear"
[limits]
timeoutSeconds = 90
maxFileBytes = 20_000_000
concurrentCalls = 8
[errors]
broken = "the drill is broken"
worn_out = "the drill is worn out"
"""
SKILL = """---
name: drill
description: Drill with {tools}.
---

`broken`, `worn_out`, `refused`, `limit`, `invalid_input`: stop. `unavailable`: wait.
"""
CASE = '[[case]]\nname = "{0}"\ntool = "{0}"\ninput = {{ text = "a" }}\nexpect.contains = ["a"]\n'
CONNECTOR = """apiVersion = "handler.connector/v1"
name = "acme-drill"
description = "The vendor's drill"
implements = ["drill/v1"]
runtime = "python"
"""
BINDING = 'apiVersion = "handler.binding/v1"\nconnector = "acme-drill"\n[instance]\nmaxConcurrentCalls = 32\n'
AGENT = """apiVersion = "handler.agent/v1"
requires = ["drill/v1", "ocr/v1"]
services = {{ drill = "acme-drill", ocr = "ocr-tesseract" }}
scope = ["{scope}"]
"""


@dataclass(frozen=True, slots=True)
class Column:
    """One client: which release it must be, how it is asked, and the version that it comes to speak."""

    name: str
    release: str
    mode: str
    protocol: str | None  # None: the client does not tell

    def command(self) -> list[str]:
        """What runs its driver, up to the plan; Missing where it cannot be installed."""
        if self.name.startswith("python-1"):
            pins = strangers.ROOT / "requirements" / "client-python-1.txt"
            return [str(strangers.python_environment(pins)), str(HERE / "drive_python_1.py")]
        if self.name.startswith("python-2"):
            return [sys.executable, str(HERE / "drive_python_2.py")]
        folder = strangers.node_environment(HERE / "package-lock.json", "typescript")
        return ["node", str(HERE / "drive_typescript.mjs"), str(folder)]


COLUMNS = (
    Column("python-1", "1.30.", "legacy", "2025-11-25"),
    Column("python-2-legacy", "2.3.", "legacy", "2025-11-25"),
    Column("python-2-auto", "2.3.", "auto", "2026-07-28"),
    Column("typescript-1", "1.32.", "1", None),
    Column("typescript-2-legacy", "2.4.", "legacy", "2025-11-25"),
    Column("typescript-2-auto", "2.4.", "auto", "2026-07-28"),
)


def step(act: str, named: str, tool: str, **arguments: Any) -> dict[str, Any]:
    return {"name": named, "act": act, "tool": tool, "arguments": arguments}


def steps(name: str) -> list[dict[str, Any]]:
    """What every client is to do, in this order, on one connection."""
    return [
        step("call", "ok", "drill_echo", text="Grüße, 世界 \u2028 🦀"),
        step("call", "broken", "drill_fail", code="broken"),
        step("call", "worn_out", "drill_fail", code="worn_out"),
        step("call", "wrong type", "drill_echo", text=7),
        step("call", "unknown field", "drill_echo", text="a", txt="b"),
        step("call", "missing field", "drill_echo"),
        step("fault", "unknown tool", "drill_nothing", text="a"),
        step("progress", "progress", "drill_steps", steps=5, tag=name),
        step("cancel", "cancel", "drill_wait", tag=name),
        step("call", "after cancel", "drill_echo", text="still here"),
        step("call", "file in", "drill_measure", path="large.bin"),
        step("call", "file out", "drill_fill", path="filled.bin", size=SIZE),
        step("call", "file outside", "drill_measure", path="../large.bin"),
    ]


class Reports:
    """What each client reported, or why it could not be had; one that failed fails its column."""

    def __init__(self, place: House) -> None:
        self.place = place
        self.missing: dict[str, str] = {}
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._read: dict[str, Any] = {}

    def begin(self, column: Column, command: list[str]) -> None:
        plan = self.plan(column, "drill") | {"steps": steps(column.name)}
        self._running[column.name] = subprocess.Popen(
            [*command, json.dumps(plan)],
            env={**os.environ, "NODE_NO_WARNINGS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def plan(self, column: Column, interface: str) -> dict[str, Any]:
        """How this client starts its server: as any harness would, by the bridge's command."""
        return {
            "command": str(BIN / "handler-service"),
            "args": [interface, "--agent", column.name],
            "env": self.place.env,
            "mode": column.mode,
        }

    def of(self, column: Column) -> dict[str, Any]:
        if column.name in self.missing:
            pytest.skip(f"{column.name}: {self.missing[column.name]}")
        if column.name not in self._read:
            process = self._running[column.name]
            out, err = process.communicate(timeout=180)
            ended_well = process.returncode == 0 and out
            self._read[column.name] = json.loads(out) | {"said": err} if ended_well else f"{out}\n{err}"
        found = self._read[column.name]
        assert isinstance(found, dict), found
        return found

    def end(self) -> None:
        for process in self._running.values():
            if process.poll() is None:
                process.kill()
            process.communicate()


def furnish(made: House) -> None:
    """One connector, and an agent a client, each with a work folder of its own."""

    def closed(properties: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
        return {
            "type": "object",
            "additionalProperties": False,
            "required": required,
            "properties": properties,
        }

    outputs = closed({"text": TEXT, "size": NUMBER}, ["text"])
    tools = [
        {
            "name": name,
            "description": f"Do the {name} of a drill.",
            "inputSchema": closed(inputs, list(inputs)),
            "outputSchema": outputs,
        }
        for name, inputs in INPUTS.items()
    ]
    made.write("handler.toml", 'apiVersion = "handler.config/v1"\n')
    made.write("interfaces/drill/v1/interface.toml", INTERFACE)
    made.write("interfaces/drill/v1/tools.json", json.dumps(tools))
    made.write("interfaces/drill/v1/skills/drill/SKILL.md", SKILL.format(tools=", ".join(INPUTS)))
    made.write("interfaces/drill/v1/conformance/cases.toml", "".join(CASE.format(name) for name in INPUTS))
    made.write("connectors/acme-drill/connector.toml", CONNECTOR)
    made.write("connectors/acme-drill/PROVISIONING.md", "nothing\n")
    made.write("connectors/acme-drill/main.py", (HERE / "connector.py").read_text())
    made.write("bindings/acme-drill.toml", BINDING)
    made.write(
        "bindings/ocr-tesseract.toml", 'apiVersion = "handler.binding/v1"\nconnector = "ocr-tesseract"\n'
    )
    (made.inbox / "large.bin").write_bytes(b"outside the scope of every agent")
    large = made.inbox / "large"
    large.write_bytes(bytes(range(250)) * (SIZE // 250))
    for column in COLUMNS:
        scope = made.inbox / column.name
        scope.mkdir()
        (scope / "large.bin").hardlink_to(large)
        shutil.copy(FIXTURES / "invoice.png", scope)
        made.write(f"agents/{column.name}.toml", AGENT.format(scope=scope))
    large.unlink()


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reports]:
    with house(tmp_path_factory.mktemp("matrix")) as made, ThreadPoolExecutor() as pool:
        commands = [(column, pool.submit(column.command)) for column in COLUMNS]  # installed meanwhile
        furnish(made)
        made.handler("lock", "add", "drill/v1", "--despite-warnings")
        made.start()
        made.handler("apply", "--wait")
        found = Reports(made)
        with contextlib.ExitStack() as ending:
            ending.callback(found.end)
            for column, command in commands:
                try:
                    found.begin(column, command.result())
                except strangers.Missing as why:
                    found.missing[column.name] = str(why)
            yield found
        assert made.stop() == 0
        assert made.processes() == []


@pytest.fixture(params=COLUMNS, ids=lambda column: column.name, scope="module")
def column(request: pytest.FixtureRequest) -> Column:
    found: Column = request.param
    return found


@pytest.fixture
def report(reports: Reports, column: Column) -> dict[str, Any]:
    return reports.of(column)


def failed(tool: str, code: str, words: str) -> dict[str, Any]:
    """A tool error as every client must hand it on: prose, the JSON on its own line, nothing structured."""
    body = {"error": code, "message": words}
    text = f"{tool} ended with the error {code}: {words}\n{json.dumps(body, separators=(',', ':'))}"
    return {"isError": True, "structured": None, "texts": [text], "meta": {"ai.handler/error": body}}


def answered(seen: dict[str, Any], structured: dict[str, Any]) -> None:
    """A success: the structured answer, and the identical JSON as one text."""
    assert not seen["isError"], seen
    assert seen["structured"] == structured
    assert len(seen["texts"]) == 1
    assert json.loads(seen["texts"][0]) == structured


def test_it_is_the_release_that_we_say_and_speaks_the_newest_version_that_it_can(
    report: dict[str, Any], column: Column
) -> None:
    assert report["sdk"].startswith(column.release)
    assert report["protocol"] == column.protocol
    assert report["server"] == "drill"


def test_it_is_told_what_the_service_is_for_and_what_its_errors_mean(report: dict[str, Any]) -> None:
    words = report["instructions"]
    for expected in (
        "drill/v1",
        "What a client has to bear",
        "worn_out",
        "the drill is worn out",
        "invalid_input",
    ):
        assert expected in words


def test_it_lists_the_tools_of_the_interface_and_nothing_else(
    report: dict[str, Any], reports: Reports
) -> None:
    published = json.loads((reports.place.config / "interfaces/drill/v1/tools.json").read_text())
    keys = ("name", "description", "inputSchema", "outputSchema")
    assert [{key: tool[key] for key in keys} for tool in report["tools"]] == published


def test_a_call_is_answered_structured_and_as_the_same_text(report: dict[str, Any]) -> None:
    answered(report["ok"], {"text": "Grüße, 世界 \u2028 🦀"})


@pytest.mark.parametrize(
    ("code", "words"), [("broken", "the drill is broken"), ("worn_out", "the drill is worn out")]
)
def test_a_closed_error_arrives_in_the_words_of_the_interface(
    report: dict[str, Any], code: str, words: str
) -> None:
    assert report[code] == failed("drill_fail", code, words)


@pytest.mark.parametrize(
    ("case", "field"), [("wrong type", "text"), ("unknown field", "txt"), ("missing field", "text")]
)
def test_bad_input_is_a_tool_error_that_names_the_field(
    report: dict[str, Any], case: str, field: str
) -> None:
    seen = report[case]
    assert seen["isError"]
    assert seen["structured"] is None
    first, second = seen["texts"][0].split("\n")
    assert first.startswith("drill_echo ended with the error invalid_input: ")
    assert field in first
    assert json.loads(second) == seen["meta"]["ai.handler/error"]
    assert json.loads(second)["error"] == "invalid_input"


def test_an_unknown_tool_is_an_error_of_the_protocol(report: dict[str, Any]) -> None:
    assert report["unknown tool"]["code"] == -32602
    assert "there is no such tool" in report["unknown tool"]["message"]


def test_progress_grows_and_carries_no_words(report: dict[str, Any]) -> None:
    seen = report["progress"]
    answered(seen["answer"], {"text": "5 steps"})
    answered(seen["release"], {"text": "released"})
    done = [one[0] for one in seen["heard"]]
    assert done[0] == 1
    assert done == sorted(set(done))
    assert done[-1] <= 5  # the last ones may come with the answer, and then some clients drop them
    assert {one[1] for one in seen["heard"]} == {5}
    assert {one[2] for one in seen["heard"]} == {None}


def test_a_cancelled_call_ends_at_the_connector_and_the_connection_goes_on(
    report: dict[str, Any], reports: Reports, column: Column
) -> None:
    assert report["cancel"] == {"given_up": True}
    answered(report["after cancel"], {"text": "still here"})

    def heard() -> bool:
        said = reports.place.handler("call", "drill_seen", f"tag={column.name}", "--agent", column.name)
        return "cancelled" in said.stdout

    wait_for(heard, "the connector hears that nobody waits any more", 45)


def test_a_large_file_goes_in_and_out_beside_the_wire(
    report: dict[str, Any], reports: Reports, column: Column
) -> None:
    scope = reports.place.inbox / column.name
    digest = hashlib.sha256((scope / "large.bin").read_bytes()).hexdigest()
    answered(report["file in"], {"text": digest, "size": SIZE})
    answered(report["file out"], {"text": "written", "size": SIZE})
    assert (scope / "filled.bin").stat().st_size == SIZE
    assert (scope / "filled.bin").read_bytes()[:256] == bytes(range(256))

    def wires() -> list[int]:
        calls = [call for call in reports.place.calls() if call["agent"] == column.name]
        mine = [call for call in calls if call["tool"] in ("drill_measure", "drill_fill")]
        return [call["inBytes"] + call["outBytes"] for call in mine]

    wait_for(lambda: len(wires()) == 3, "the records of three calls", 30)
    assert max(wires()) < 2048


def test_a_file_outside_the_scope_is_refused_like_one_that_is_missing(report: dict[str, Any]) -> None:
    words = "this is not among what you may use, or it does not exist"
    assert report["file outside"] == failed("drill_measure", "refused", words)


def test_nothing_that_reaches_a_client_comes_from_behind_the_interface(report: dict[str, Any]) -> None:
    text = json.dumps(report).lower()
    assert not [word for word in CANARIES if word in text]


def test_the_client_has_nothing_to_complain_of(report: dict[str, Any]) -> None:
    assert report["said"] == ""


@pytest.mark.parametrize("name", ["python-1", "typescript-1", "typescript-2-auto"])  # python 2: test_main_job
def test_it_reads_an_invoice_with_a_real_engine(reports: Reports, name: str) -> None:
    column = next(one for one in COLUMNS if one.name == name)
    reports.of(column)
    plan = reports.plan(column, "ocr") | {"steps": [step("call", "read", "ocr_extract", path="invoice.png")]}
    done = subprocess.run(
        [*column.command(), json.dumps(plan)], capture_output=True, text=True, check=True, timeout=180
    )
    seen = json.loads(done.stdout)["read"]
    assert not seen["isError"], seen
    assert "INV-2024-0042" in seen["structured"]["pages"][0]["text"]
    assert json.loads(seen["texts"][0]) == seen["structured"]


def test_every_call_left_a_record_with_its_code(
    report: dict[str, Any], reports: Reports, column: Column
) -> None:
    def codes() -> list[str]:
        calls = [call for call in reports.place.calls() if call["agent"] == column.name]
        return [call["code"] for call in calls if call["tool"] not in ("drill_seen", "drill_release")]

    expected = (
        ["ok", "broken", "worn_out"] + ["invalid_input"] * 3 + ["ok", "cancelled", *["ok"] * 3, "refused"]
    )
    wait_for(lambda: len(codes()) >= len(expected), "the records of all calls")
    assert codes() == expected
