"""swap --check: the suite of both bindings side by side; the edit where the new one passed, else nothing."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doors.conftest import Ran, World
from tests.kit import promised

AGENT = """\
# who counts
apiVersion = "handler.agent/v1"
[services]
count = "mine"  # the words
"""
CONNECTOR = 'apiVersion = "handler.binding/v1"\nconnector = "counter"\n'
pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("world"))
    made.config.mkdir()
    promised.lay(made.config, settings="settings.wrong = true\n")
    assert (
        made.handler(
            "-c", "config", "lock", "add", "count/v1", "--despite-warnings", "--reviewer", "ada"
        ).code
        == 0
    )
    (made.config / "bindings/right.toml").write_text(CONNECTOR)
    far = made.config / "connectors/far"
    far.mkdir()
    text = promised.CONNECTOR.replace('"counter"', '"far"').replace(
        "[settings", 'egress = ["a.example:1"]\n[settings'
    )
    (far / "connector.toml").write_text(text)
    (far / "main.py").write_text(promised.MAIN)
    (made.config / "agents").mkdir()
    yield made
    assert list(made.root.glob("handler-check-*")) == []  # nothing stays of what was made to ask them


@pytest.fixture
def agent(place: World) -> Path:
    (place.config / "bindings/far.toml").write_text(CONNECTOR.replace("counter", "far"))
    file = place.config / "agents/clerk.toml"
    file.write_text(AGENT)
    return file


def swap(place: World, *words: str) -> Ran:
    return place.handler("-c", "config", "swap", "clerk", "count", *words)


@pytest.mark.flow
def test_a_binding_that_passes_every_case_takes_the_place_of_one_that_does_not(
    place: World, agent: Path
) -> None:
    ran = swap(place, "right", "--check", "-o", "json")
    assert ran.code == 0, ran.out + ran.err
    told = json.loads(ran.out)
    assert (told["agent"], told["interface"]) == ("clerk", "count/v1")
    assert (told["old"]["binding"], told["old"]["passed"]) == ("mine", 3)
    assert (told["new"]["binding"], told["new"]["passed"], told["new"]["notAsked"]) == ("right", 4, None)
    first = told["cases"][0]
    assert (first["old"]["verdict"], first["old"]["faults"]) == ("failed", ["words is not 3"])
    assert (first["new"]["verdict"], first["new"]["bytes"]) == ("passed", len('{"words":3,"first":"one"}'))
    assert told["cases"][1]["new"]["bytes"] == len('{"words":3,"first":"one"}one two three')
    assert agent.read_text() == AGENT.replace('count = "mine"', 'count = "right"')
    assert '+count = "right"  # the words' in ran.err
    assert "The next session of clerk uses right; open ones stay." in ran.err
    again = swap(place, "right", "--check")
    assert (again.code, again.out) == (0, "")


@pytest.mark.flow
def test_a_binding_that_fails_a_case_is_refused_with_the_case_and_nothing_is_saved(
    place: World, agent: Path
) -> None:
    text = AGENT.replace('"mine"', '"right"')
    agent.write_text(text)
    ran = swap(place, "mine", "--check")
    assert ran.code == 1
    lines = ran.out.splitlines()
    assert lines[0] == "clerk: count/v1"
    assert lines[1].split() == ["right", "(now)", "mine", "(then)"]
    assert "✓" in lines[2]
    assert "✗" in lines[2]
    assert ["passed", "4", "of", "4", "3", "of", "4"] in [line.split() for line in lines]
    assert ["reaches", "nothing", "nothing"] in [line.split() for line in lines]
    assert "then, a short text: words is not 3" in lines
    assert "agents/clerk.toml is left as it was: mine did not pass 1 case" in ran.err
    assert agent.read_text() == text


@pytest.mark.slow
def test_without_the_check_it_is_a_rebind(place: World, agent: Path) -> None:
    assert swap(place, "right").code == 0
    assert 'count = "right"' in agent.read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (
            ("far", "--check"),
            77,
            "it reaches a.example:1: with --live the fixtures of its cases are sent there",
        ),
        (("rihgt", "--check"), 1, "is left as it was, since the result would not be admitted"),
        (("right", "--live"), 2, "they need --check"),
        (("right", "--dry-run"), 2, "they need --check"),
    ],
)
def test_what_is_not_compared_is_not_saved(
    place: World, agent: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    ran = swap(place, *words)
    assert ran.code == code
    assert said in ran.err
    assert agent.read_text() == AGENT


@pytest.mark.flow
def test_one_that_may_not_be_asked_is_no_reason_to_keep_it(place: World, agent: Path) -> None:
    agent.write_text(AGENT.replace('"mine"', '"far"'))
    ran = swap(place, "right", "--check", "--dry-run")
    assert ran.code == 0, ran.out + ran.err
    assert "far was not asked: it reaches a.example:1" in ran.out
    assert 'count = "far"' in agent.read_text()
    (agent.parent.parent / "bindings/far.toml").unlink()
    gone = swap(place, "right", "--check")
    assert gone.code == 0, gone.out + gone.err
    assert 'count = "right"' in agent.read_text()
