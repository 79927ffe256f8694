"""A binding's answers recorded while its connector runs, and played back where there is none."""

import json
import os
from pathlib import Path

import pytest

from tests.kit import promised
from tests.kit.house import House, house, wait_for

pytestmark = [pytest.mark.flow, pytest.mark.timeout(300)]
AGENT = 'apiVersion = "handler.agent/v1"\nservices = {{ count = "mine" }}\nscope = ["{}"]\n'
BINDING = 'apiVersion = "handler.binding/v1"\nconnector = "counter"\n'
TAPE = "cassettes/mine.jsonl"


def taped(mode: str) -> str:
    return f'{BINDING}cassette = {{ mode = "{mode}", path = "{TAPE}" }}\n'


def call(place: House, *words: str) -> tuple[int, dict[str, object]]:
    before = len(place.calls())
    ran = place.handler("call", "count_words", *words, "--agent", "clerk", check=False)
    wait_for(lambda: len(place.calls()) > before, "the call is recorded")
    return ran.returncode, json.loads(ran.stdout)


def reason(place: House) -> str:
    ready = place.condition("binding", "mine", "Ready")
    return str(ready.get("reason", "")) if ready.get("status") == "True" else ""


def said(place: House) -> str:
    return str(place.calls()[-1]["diagnostic"])


def test_what_was_recorded_is_played_back_without_the_connector(tmp_path: Path) -> None:
    with house(tmp_path) as place:
        promised.lay(place.config)
        place.write("bindings/mine.toml", taped("record"))
        place.write("agents/clerk.toml", AGENT.format(place.inbox))
        place.handler("lock", "add", "count/v1", "--despite-warnings", "--reviewer", "ada")
        (place.inbox / "a.txt").write_text("one two three four")
        (place.inbox / "long.txt").write_text("word " * 200)
        place.start()
        wait_for(lambda: reason(place) == "Recording", "it is marked")
        assert call(place, "path=a.txt", "output=words.txt") == (0, {"words": 4, "first": "one"})
        assert call(place, "path=long.txt")[1]["error"] == "too_large"
        file = place.config / TAPE
        assert file.stat().st_mode & 0o777 == 0o600
        recorded = [json.loads(line) for line in file.read_text().splitlines()]
        assert [one.get("error") for one in recorded] == [None, "too_large"]

        # The engine goes: its program is none any more, and what it wrote is away.
        place.write("connectors/counter/main.py", "raise SystemExit(7)\n")
        (place.inbox / "words.txt").unlink()
        (place.inbox / "a.txt").rename(place.inbox / "b.txt")  # a file is told by its bytes
        place.write("bindings/mine.toml", taped("replay"))
        wait_for(lambda: reason(place) == "Playing", "it plays")
        assert call(place, "path=b.txt", "output=other.txt")[1]["words"] == 4
        assert (place.inbox / "other.txt").read_text() == "one\ntwo\nthree\nfour"
        assert call(place, "path=long.txt")[1]["error"] == "too_large"
        told = place.handler("status").stdout
        assert "it plays cassettes/mine.jsonl back, and no engine answers" in told, told
        assert not [one for one in place.processes() if "i/mine" in one]

        # What is not on it is not guessed, and a cassette that is none ends no more than the calls.
        (place.inbox / "b.txt").write_text("another text")
        assert call(place, "path=b.txt")[1]["error"] == "unavailable"
        wait_for(lambda: said(place) == "the cassette has no answer to this call: record it", "the record")
        whole = file.read_text()
        file.write_text("[]\n" + whole)
        assert call(place, "path=long.txt")[1]["error"] == "unavailable"
        wait_for(lambda: said(place) == "its cassette cannot be played: line 1 is no recording", "it, too")
        checked = place.handler("connector", "check", "counter", "--binding", "mine", check=False)
        assert checked.returncode == 2
        assert "plays a cassette back: what it answers proves nothing" in checked.stderr
        place.stop()
    assert not [one for one in os.listdir("/tmp") if one.startswith("handler-tape-")]  # noqa: PTH208
