"""The bodies of turns are, to the byte, those that the vendors' own types were last asked about.

`HANDLER_GOLDEN=write` writes them anew: run `make flows-vendors` with it.
"""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.drivers import roll
from reconciler.model.turns import Message, Sound, Text, Turn
from tests.drivers.test_model_drivers import ADD, HELLO, HISTORY, SCHEMA
from tests.kit import dialects
from tests.kit.vendors import WAV

GOLDEN = Path(__file__).with_name("bodies.json")
HEARD = Turn("m-1", (Message("user", (Text("What is said?"), Sound("audio/wav", WAV))),), max_tokens=9)
TURNS = {
    "hello": HELLO,
    "history": HISTORY,
    "streamed": replace(HISTORY, stream=True),
    "named tool": replace(HELLO, tools=(ADD,), tool_choice="tool:add"),
    "some tool": replace(HELLO, tools=(ADD,), tool_choice="required"),
    "schema": replace(HELLO, schema=SCHEMA, think="low"),
}


ASKED = [
    *((name, label, turn) for name in ("chat", "messages", "responses") for label, turn in TURNS.items()),
    ("chat", "heard", HEARD),
]


def _body(name: str, turn: Turn) -> str:
    profile = dialects.named(name)
    driver = roll.MODELS[profile.identity.driver]
    return driver.seal(driver.call_of(turn, "c", profile, None), profile).body.decode()


NAMED = [f"{name} {label}" for name, label, _ in ASKED]


@pytest.mark.parametrize(("name", "label", "turn"), ASKED, ids=NAMED)
def test_a_turns_body_is_the_one_that_was_examined(name: str, label: str, turn: Turn) -> None:
    if os.environ.get("HANDLER_GOLDEN") == "write":
        known = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
        known[f"{name} {label}"] = _body(name, turn)
        GOLDEN.write_text(json.dumps(known, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    assert _body(name, turn) == json.loads(GOLDEN.read_text())[f"{name} {label}"]


def test_nothing_is_kept_that_is_no_longer_asked() -> None:
    assert json.loads(GOLDEN.read_text()).keys() == set(NAMED)
