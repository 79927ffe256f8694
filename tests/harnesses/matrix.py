"""Real harnesses, offline, with a model that reads from a script: the exact text that a model receives.

Run by `make flows-harness` alone (it installs 1.6 GB; the file's name keeps it out of `make test`). Each
harness runs once, in a network of its own with nothing but loopback, a home of its own, and an agent's
services as `handler run` gives them; its model asks for one call after another. What came back is held
against what every model must be able to read, and against the tables of `docs/clients.md` and the texts of
`docs/harness-texts.md`; `HANDLER_GOLDEN=write` writes both anew.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harnesses import report as page
from tests.harnesses.ways import HERE, WAYS, Way
from tests.kit import strangers
from tests.kit.house import BIN, House, house

pytestmark = [pytest.mark.flow, pytest.mark.timeout(900)]

CONNECTOR = """apiVersion = "handler.connector/v1"
name = "acme-ocr"
description = "The vendor's reader"
implements = ["ocr/v1"]
runtime = "python"
"""
BINDING = 'apiVersion = "handler.binding/v1"\nconnector = "acme-ocr"\n'
AGENT = """apiVersion = "handler.agent/v1"
requires = ["ocr/v1"]
services = {{ ocr = "acme-ocr" }}
scope = ["{scope}"]
"""
CANARIES = ("acme", "canary", "vendor's words", "quota exceeded")
CASES: dict[str, dict[str, Any]] = {
    "success": {"path": "invoice.pdf"},
    "unsupported_format": {"path": "zip.pdf"},
    "too_large": {"path": "large.pdf"},
    "unavailable": {"path": "down.pdf"},
    "refused": {"path": "../secret.pdf"},
    "invalid_input": {"path": "invoice.pdf", "languages": ["english"]},
    "unknown field": {"path": "invoice.pdf", "lang": "de"},
    "30 kB": {"path": "bytes-30000.pdf"},
    "200 kB": {"path": "bytes-200000.pdf"},
}
SENTENCE = "Invoice INV-2024-0042 of “Müller & Söhne”: 1.204,50 € <b>due</b> `now`.\n"
ANSWER = json.dumps({"pages": [{"text": SENTENCE}, {"text": ""}]}, ensure_ascii=False, separators=(",", ":"))
WORDS = {
    "unsupported_format": "the file is not a PDF or an image",
    "too_large": "the file exceeds limits.maxFileBytes",
    "unavailable": "the service is down or out of quota; retrying later may work",
    "refused": "this is not among what you may use, or it does not exist",
}
CHECKED = {
    "invalid_input": "the input does not fit the tool: languages[0] does not match the pattern",
    "unknown field": "the input does not fit the tool: lang is not a field of this tool; "
    "did you mean languages?",
}


def furnish(made: House) -> None:
    made.write("handler.toml", 'apiVersion = "handler.config/v1"\n')
    made.write("connectors/acme-ocr/connector.toml", CONNECTOR)
    made.write("connectors/acme-ocr/PROVISIONING.md", "nothing\n")
    made.write("connectors/acme-ocr/main.py", (HERE / "connector.py").read_text())
    made.write("connectors/acme-ocr/answer.json", ANSWER)
    made.write("bindings/acme-ocr.toml", BINDING)
    made.write("agents/clerk.toml", AGENT.format(scope=made.inbox))
    for arguments in CASES.values():
        (made.inbox / arguments["path"]).write_bytes(b"%PDF-1.4")
    os.truncate(made.inbox / "large.pdf", 30_000_000)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("harnesses")) as made:
        furnish(made)
        made.start()
        made.handler("apply", "--wait")
        yield made
        assert made.stop() == 0
        assert made.processes() == []


def planned(way: Way, place: House, folder: Path, *, rendered: bool = False) -> dict[str, Any]:
    """One run of a harness: told by `handler run`, or by its project's file as `handler render` writes it."""
    home, work = folder / "home", folder / "work"
    for made in (home / "tmp", work):
        made.mkdir(parents=True)
    node = shutil.which("node")
    programs = [way.programs(), BIN, *([Path(node).parent] if node else []), Path("/usr/bin"), Path("/bin")]
    environment = {
        **{key: value for key, value in place.env.items() if key.startswith("HANDLER_")},
        "HOME": str(home),
        "TMPDIR": str(home / "tmp"),
        "PATH": ":".join(map(str, programs)),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "NO_COLOR": "1",
    }
    if rendered or not way.told:
        place.handler("render", "clerk", "--harness", way.word, "--write", "--into", str(work))
    before = [] if rendered else [str(BIN / "handler"), "run", "clerk", "--"]
    after = way.trust if rendered else ()
    cases = ["success"] if rendered else list(CASES)
    return {
        "wanted": "ocr_extract",
        "cases": [{"name": name, "arguments": CASES[name]} for name in cases],
        "command": [*before, *way.command, *after],
        "env": environment | dict(way.environment),
        "cwd": str(work),
        "files": {str(home / path): text.replace("{work}", str(work)) for path, text in way.home.items()},
        "timeout": 180,
    }


def ran(plan: dict[str, Any], place: House, folder: Path) -> dict[str, Any] | str:
    """The report of a run, in a network and among processes of its own; else what was said of it."""
    (folder / "plan.json").write_text(json.dumps(plan))
    walls = ("bwrap", "--dev-bind", "/", "/", "--unshare-net", "--unshare-pid", "--proc", "/proc")
    inside = (sys.executable, "-m", "tests.harnesses.inside", str(folder / "plan.json"))
    done = subprocess.run(
        [*walls, "--die-with-parent", *inside],
        cwd=strangers.ROOT,
        env=place.env,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    found: dict[str, Any] | str = json.loads(done.stdout) if done.returncode == 0 else done.stderr
    return found


_seen: dict[str, dict[str, Any] | str] = {}


@pytest.fixture(params=WAYS, ids=lambda way: way.word, scope="module")
def way(request: pytest.FixtureRequest) -> Way:
    found: Way = request.param
    return found


@pytest.fixture
def report(way: Way, place: House, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a run of the harness came to; it runs once."""
    if way.word not in _seen:
        folder = tmp_path_factory.mktemp(way.word)
        try:
            plan = planned(way, place, folder)
        except strangers.Missing as why:
            pytest.skip(f"{way.title}: {why}")
        _seen[way.word] = ran(plan, place, folder)
    found = _seen[way.word]
    assert isinstance(found, dict), found
    return found


def test_the_harness_does_the_whole_script_and_ends_well(report: dict[str, Any]) -> None:
    assert report["said"]["code"] == 0, report["said"]
    assert list(report["results"]) == list(CASES), report["said"]


def test_the_model_knows_the_tool_by_the_name_that_we_say_and_by_the_words_of_the_interface(
    report: dict[str, Any], way: Way
) -> None:
    tool = report["tool"]
    assert tool["name"] == way.tool
    text = json.dumps(tool)
    assert "Extract the text of a PDF or image in the work folder, page by page." in text
    assert "a file in the work folder" in text


def test_the_model_reads_the_whole_answer(report: dict[str, Any]) -> None:
    assert ANSWER in page.text_of(report, "success")


@pytest.mark.parametrize("code", list(WORDS))
def test_the_model_reads_the_code_and_the_sentence_of_a_closed_error(
    report: dict[str, Any], code: str
) -> None:
    assert f"ocr_extract ended with the error {code}: {WORDS[code]}" in page.text_of(report, code)


@pytest.mark.parametrize("case", list(CHECKED))
def test_the_model_reads_which_field_does_not_fit(report: dict[str, Any], way: Way, case: str) -> None:
    text = page.text_of(report, case)
    if way.own_checks:
        assert (
            "invalid_input" not in text
        )  # if it were: the harness lets it through now, and the table is wrong
        assert "pattern" in text or "additional properties" in text
    else:
        assert f"ocr_extract ended with the error invalid_input: {CHECKED[case]}" in text


@pytest.mark.parametrize("case", ["30 kB", "200 kB"])
def test_the_model_reads_at_least_the_beginning_of_a_long_answer(report: dict[str, Any], case: str) -> None:
    assert '{"pages":[{"text":"0000000' in page.text_of(report, case).replace(" ", "").replace("\n", "")


def test_a_project_that_was_rendered_serves_the_harness(way: Way, place: House, tmp_path: Path) -> None:
    try:
        plan = planned(way, place, tmp_path, rendered=True)
    except strangers.Missing as why:
        pytest.skip(f"{way.title}: {why}")
    found = ran(plan, place, tmp_path)
    assert isinstance(found, dict), found
    assert list(found["results"]) == ["success"], found["said"]
    assert ANSWER in page.text_of(found, "success")


def test_nothing_that_a_harness_sends_its_model_comes_from_behind_the_interface(
    report: dict[str, Any],
) -> None:
    assert report["requests"], "no request reached the model"
    text = report["requests"].lower()
    assert not [word for word in CANARIES if word in text]


def test_the_docs_say_what_was_seen() -> None:
    missing = [way.title for way in WAYS if not isinstance(_seen.get(way.word), dict)]
    if missing:
        pytest.skip(f"not all harnesses ran: {', '.join(missing)} did not")
    reports = [(way, _seen[way.word]) for way in WAYS]
    wanted = page.pages(strangers.ROOT / "docs", reports)
    if os.environ.get("HANDLER_GOLDEN") == "write":
        for path, text in wanted.items():
            path.write_text(text)
    stale = [path.name for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    assert not stale, "HANDLER_GOLDEN=write make flows-harness, then review the diff"
