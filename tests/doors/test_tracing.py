"""trace: the key that won, what it overrides, what is in force beside it, and why nobody else answers."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.doors.conftest import World

pytestmark = pytest.mark.slow  # commands as people start them: a process each

_BINDING = 'apiVersion = "handler.binding/v1"\nconnector = "ocr-tesseract"\n'
_CONNECTOR = (
    'apiVersion = "handler.connector/v1"\nname = "second"\ndescription = "d"\nimplements = ["ocr/v2"]\n'
)
_AGENT = """\
apiVersion = "handler.agent/v1"
project = "paperwork"

[services]
ocr = { binding = "mine", tools = ["ocr_extract"] }
"""


@pytest.fixture
def config(world: World) -> Path:
    assert world.handler("init", "config").code == 0
    texts = {
        "agents/clerk.toml": _AGENT,
        "bindings/mine.toml": _BINDING,
        "bindings/other.toml": _BINDING,
        "bindings/slow.toml": f'{_BINDING}suspend = true\nsuspendReason = "too slow"\n',
        "bindings/newer.toml": _BINDING.replace("ocr-tesseract", "second"),
        "bindings/bad.toml": _BINDING.replace("connector", "conector"),
        "connectors/second/connector.toml": _CONNECTOR,
        "connectors/second/main.py": "",
    }
    for path, text in texts.items():
        (world.config / path).parent.mkdir(parents=True, exist_ok=True)
        (world.config / path).write_text(text)
    return world.config


def _traced(world: World, agent: str, interface: str = "ocr", code: int = 0) -> dict[str, Any]:
    ran = world.handler("trace", agent, interface, "-o", "json", "-c", "config")
    assert ran.code == code, ran.err
    found: dict[str, Any] = json.loads(ran.out)
    return found


def test_the_text_names_the_line_that_won_and_why_no_other_did(
    world: World, config: Path, golden: Callable[[str, str], None]
) -> None:
    ran = world.handler("trace", "clerk", "ocr", "-c", "config")
    assert (ran.code, ran.err) == (0, "")
    golden("trace", ran.out)


def test_the_agents_own_choice_overrides_its_projects_default(world: World, config: Path) -> None:
    told = _traced(world, "clerk", "ocr/v1")
    assert (told["binding"], told["version"], told["implements"]) == ("mine", "ocr/v1", True)
    assert told["chosenBy"] == {
        "file": "agents/clerk.toml",
        "line": 5,
        "column": 19,
        "field": "services.ocr.binding",
    }
    (over,) = told["overrides"]
    assert (over["file"], over["binding"]) == ("projects/paperwork.toml", "ocr-tesseract")
    (need,) = told["requiredBy"]
    assert (need["file"], need["field"], need["version"]) == (
        "projects/paperwork.toml",
        "requires[0]",
        "ocr/v1",
    )
    assert told["inForce"] is None
    reader = _traced(world, "reader")
    assert (reader["chosenBy"]["file"], reader["overrides"]) == ("projects/paperwork.toml", [])


def test_each_other_binding_says_why_it_does_not_answer(world: World, config: Path) -> None:
    why = {one["binding"]: one["why"] for one in _traced(world, "clerk")["others"]}
    assert why.keys() == {"bad", "newer", "ocr-tesseract", "other", "slow"}
    assert why["bad"].startswith("refused: bindings/bad.toml:2:1: 'conector' is not a key")
    assert why["newer"] == "offers ocr/v2, not ocr/v1"
    assert why["ocr-tesseract"].startswith("chosen by projects/paperwork.toml:")
    assert why["ocr-tesseract"].endswith("which agents/clerk.toml:5:19 services.ocr.binding overrides")
    assert why["other"] == "not chosen: 'handler rebind clerk ocr other' would"
    assert why["slow"].startswith("suspended: too slow; not chosen")


def test_a_chosen_binding_that_cannot_answer_says_so(world: World, config: Path) -> None:
    assert world.handler("suspend", "binding/mine", "--reason", "a pause", "-c", "config").code == 0
    assert _traced(world, "clerk")["unfit"] == ["suspended: a pause"]
    assert re.search(r"but +suspended: a pause", world.handler("trace", "clerk", "ocr", "-c", "config").out)
    (config / "bindings/mine.toml").write_text("[")
    (why,) = _traced(world, "clerk", code=1)["unfit"]
    assert why.startswith("refused: bindings/mine.toml:1:")


def test_a_binding_of_another_interface_is_not_told(world: World, config: Path) -> None:
    assert world.handler("new", "interface", "scan", "-c", "config").code == 0
    assert world.handler("new", "connector", "c", "--implements", "scan/v1", "-c", "config").code == 0
    assert world.handler("new", "binding", "scanner", "--connector", "c", "-c", "config").code == 0
    assert "scanner" not in [one["binding"] for one in _traced(world, "clerk")["others"]]
    told = _traced(world, "clerk", "scan", code=1)
    assert (told["binding"], told["chosenBy"]) == (None, None)
    assert {"binding": "scanner", "why": "not chosen: 'handler rebind clerk scan scanner' would"} in told[
        "others"
    ]


def test_an_earlier_form_that_is_kept_is_told_beside_the_newest(world: World, config: Path) -> None:
    assert world.handler("apply", "-y", "-c", "config").code == 1  # bad.toml is refused, the rest is applied
    now = _traced(world, "clerk")["inForce"]
    assert (now["binding"], now["file"], now["why"]) == ("mine", "agents/clerk.toml", [])
    (config / "agents/clerk.toml").write_text(_AGENT.replace('"mine"', '"mien"'))
    world.handler("apply", "-y", "-c", "config")
    told = _traced(world, "clerk", code=1)
    assert (told["binding"], told["inForce"]["binding"]) == ("mien", "mine")
    assert told["problems"][0]["mend"] == "write 'mine'"
    assert any(why.startswith("LastGoodRetained: ") for why in told["inForce"]["why"])
    text = world.handler("trace", "clerk", "ocr", "-c", "config").out
    assert re.search(r"in force +binding/mine \(agents/clerk.toml:", text)
    assert re.search(r"because +LastGoodRetained: ", text)


def test_what_serves_by_its_last_good_form_stands_first_and_is_not_told_as_unbound(
    world: World, config: Path
) -> None:
    world.handler("apply", "-y", "-c", "config")
    (config / "agents/clerk.toml").write_text("[services\n")
    world.handler("apply", "-y", "-c", "config")
    told = _traced(world, "clerk", code=1)
    assert (told["binding"], told["servesAllTheSame"]) == (None, "mine")
    assert "mine" not in [one["binding"] for one in told["others"]]
    text = world.handler("trace", "clerk", "ocr", "-c", "config").out
    assert text.startswith("ocr/v1 → binding/mine   in force, though not by the files as they are\n")
    assert "nothing\n" not in text.splitlines()[0]
    assert text.index("in force") < text.index("Why the files are refused, while that serves")
    assert text.index("while that serves") < text.index("error S211")


def test_what_serves_though_its_files_are_gone_says_what_holds_it(world: World, config: Path) -> None:
    world.handler("apply", "-y", "-c", "config")
    shutil.rmtree(config / "projects")
    shutil.rmtree(config / "bindings")
    assert world.handler("apply", "-y", "-c", "config").code == 1
    told = _traced(world, "reader", code=1)
    assert told["servesAllTheSame"] == "ocr-tesseract"
    (why,) = told["inForce"]["why"]
    assert why.startswith("PruneBlocked: ")
    text = world.handler("trace", "reader", "ocr", "-c", "config").out
    assert text.startswith("ocr/v1 → binding/ocr-tesseract   in force")
    assert re.search(r"files +they bind nothing; they are refused, see below", text)
    assert re.search(r"because +PruneBlocked: .*--prune=all", text)


def test_earlier_routes_that_serve_until_a_new_engine_answers_are_told_as_in_force(
    world: World, config: Path
) -> None:
    world.handler("apply", "-y", "-c", "config")
    waits = {
        "type": "Synced",
        "status": "False",
        "reason": "LastGoodRetained",
        "message": "earlier routes serve until mine@2 answers",
    }
    path = world.state / "status/agent/clerk.json"
    document = json.loads(path.read_text())
    document["conditions"] = [waits]

    def in_force(instance: str) -> str:
        document["services"][0]["instance"] = instance
        path.write_text(json.dumps(document))
        return world.handler("trace", "clerk", "ocr", "-c", "config").out

    text = in_force("other@1")
    assert text.startswith("ocr/v1 → binding/mine   agents/clerk.toml:5:19")
    assert re.search(r"instance +other@1 not running, used by 0 agents", text)
    assert re.search(r"in force +binding/other, not what the files say now", text)
    assert re.search(r"because +LastGoodRetained: earlier routes serve until mine@2 answers", text)
    text = in_force("mine@1")
    assert re.search(r"instance +mine@1 not running, used by 1 agent\b", text)
    assert re.search(r"in force +binding/mine, by an earlier form or instance", text)


def test_an_agent_whose_text_is_refused_is_told_with_its_problems(world: World, config: Path) -> None:
    (config / "agents/clerk.toml").write_text("[services\n")
    told = _traced(world, "clerk", code=1)
    assert told["binding"] is None
    assert told["problems"][0]["file"] == "agents/clerk.toml"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["clrk", "ocr"], "did you mean 'clerk'?"),
        (["clerk", "ocrr"], "did you mean 'ocr'?"),
        (["clerk"], "INTERFACE"),
    ],
)
def test_what_there_is_not_is_said(world: World, config: Path, words: list[str], said: str) -> None:
    ran = world.handler("trace", *words, "-c", "config")
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_another_version_than_the_one_in_use_is_not_told_as_bound(world: World, config: Path) -> None:
    told = json.loads(world.handler("trace", "clerk", "ocr", "-o", "json", "-c", "config").out)
    used = told["version"]
    other = "ocr/v1" if used == "ocr/v2" else "ocr/v2"
    assert world.handler("trace", "clerk", used, "-c", "config").code == 0
    ran = world.handler("trace", "clerk", other, "-c", "config")
    assert ran.code == 1
    assert f"{other} is not what clerk uses: it has {used}" in ran.err
