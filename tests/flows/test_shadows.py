"""A binding whose calls are copied to another one: the caller is answered first, whatever that does."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.flows.test_observing import CONFIG, page, read
from tests.kit import promised
from tests.kit.house import House, house, wait_for

pytestmark = [pytest.mark.flow, pytest.mark.timeout(300)]
AGENT = 'apiVersion = "handler.agent/v1"\nservices = {{ count = "mine" }}\nscope = ["{}"]\n'
OTHER = 'apiVersion = "handler.binding/v1"\nconnector = "counter"\n[settings]\nwrong = {}\n'
# The shadow alone never answers to a text that begins so.
MAIN = "import threading\n" + promised.MAIN.replace(
    "    if len(words)",
    '    if words[0] == "hang" and os.environ.get("WRONG") == "true":\n'
    "        threading.Event().wait()\n    if len(words)",
)
WORD = "confidential"


def call(place: House, *words: str) -> dict[str, Any]:
    ran = place.handler("call", "count_words", *words, "--agent", "clerk", check=False)
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def records(place: House) -> list[dict[str, Any]]:
    file = place.state / "shadow" / "mine.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def ready(place: House, name: str) -> dict[str, Any]:
    return place.condition("binding", name, "Ready")


def counted(place: House) -> dict[str, float]:
    """The counts of the metrics, by outcome."""
    told = read(page(place, "/metrics")[1])
    return {of["outcome"]: value for name, of, value in told if name == "handler_shadow_calls_total"}


def settled(place: House, count: int) -> dict[str, Any]:
    wait_for(lambda: len(records(place)) >= count, f"copy {count} is compared")
    assert len(records(place)) == count
    return records(place)[-1]


def test_a_shadow_is_asked_what_was_answered_and_only_compared(tmp_path: Path) -> None:
    with house(tmp_path) as place:
        promised.lay(place.config, settings='shadow = "other"\n', main=MAIN)
        place.write("bindings/other.toml", OTHER.format("false"))
        place.write("handler.toml", CONFIG + '[http]\nlisten = "127.0.0.1:0"\n')
        place.write("agents/clerk.toml", AGENT.format(place.inbox))
        place.handler("lock", "add", "count/v1", "--reviewer", "ada", "--despite-warnings")
        (place.inbox / "a.txt").write_text(f"{WORD} two three four")
        (place.inbox / "long.txt").write_text("word " * 200)
        (place.inbox / "hang.txt").write_text("hang two")
        (place.inbox / "large.txt").write_bytes(b"x" * (16 * 2**20 + 1))
        place.start()
        wait_for(lambda: ready(place, "mine").get("reason") == "Shadowed", "it is marked")

        # The same connector says the same, of an answer and of an error.
        assert call(place, "path=a.txt") == {"words": 4, "first": WORD}
        one = settled(place, 1)
        assert (one["outcome"], one["codes"]) == ("same", {"own": "ok", "shadow": "ok"}), one
        assert (one["equal"], one["different"]) == (["first", "words"], [])
        assert one["instance"].startswith("other@")
        assert one["ms"]["own"] > 0 and one["ms"]["shadow"] > 0
        assert call(place, "path=long.txt")["error"] == "too_large"
        two = settled(place, 2)
        assert (two["outcome"], two["codes"]) == ("same", {"own": "too_large", "shadow": "too_large"}), two

        # A call that writes a file, and one with more than is copied, are left out.
        assert call(place, "path=a.txt", "output=words.txt")["words"] == 4
        call(place, "path=large.txt")
        # Another answer is told by its field.
        place.write("bindings/other.toml", OTHER.format("true"))
        before = place.status("binding", "other").get("observedDigest")
        wait_for(lambda: place.status("binding", "other").get("observedDigest") == before, "it is in force")

        def differs() -> bool:
            call(place, "path=a.txt")
            return any(one["outcome"] == "different" for one in records(place))

        wait_for(differs, "the shadow in force answers otherwise")
        last = next(one for one in records(place) if one["outcome"] == "different")
        assert (last["equal"], last["different"]) == (["first"], ["words"])
        assert last["missed"]["left_out"] == 2, last

        # A shadow that hangs holds nobody up; what would wait for it is dropped.
        def dropped() -> bool:
            assert call(place, "path=hang.txt") == {"words": 2, "first": "hang"}
            return counted(place).get("dropped", 0) > 0

        wait_for(dropped, "what would wait is dropped, and every caller is answered")
        assert counted(place)["left_out"] == 2

        # Nothing of it is payload, an operator is told of it, an agent is not.
        text = (place.state / "shadow" / "mine.jsonl").read_text()
        assert WORD not in text and "a.txt" not in text
        assert (place.state / "shadow" / "mine.jsonl").stat().st_mode & 0o777 == 0o600
        told = place.handler("describe", "binding/mine").stdout
        assert "copies of some calls go to binding/other and are only compared" in told
        assert "other: " in told and "answered the same" in told, told
        assert "copies of some calls go to binding/other" in place.handler("status").stdout
        assert {(one["agent"], one["binding"]) for one in place.calls()} == {("clerk", "mine")}
        assert place.stop() == 0
    assert not place.processes()
