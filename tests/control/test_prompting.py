"""Turns by ``llm_complete``: what fits is its arguments, what does not is named, each end is read."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from reconciler.control.prompting import Prompting, Unfit, arguments
from reconciler.model.modelport import Caller, TurnFailed
from reconciler.model.routes import Route
from reconciler.model.turns import Answered, Image, Message, Text, ToolResult, ToolSpec, Turn
from reconciler.router.server import Ask, Pinned
from reconciler.router.within import Said
from tests.router import stage

USER = Message("user", (Text("Why?"),))
ASKED = Turn("small", (USER,))
TOOLS = [stage.tool("llm_complete", stage.closed(prompt=stage.TEXT), stage.closed(text=stage.TEXT))]


def _said(role: Any, text: str) -> Message:
    return Message(role, (Text(text),))


@pytest.mark.parametrize(
    ("turn", "given"),
    [
        (ASKED, {"model": "small", "prompt": "Why?"}),
        (Turn("", (USER,), max_tokens=5), {"prompt": "Why?", "maxTokens": 5}),
        (replace(ASKED, temperature=0.0, think="off"), {"model": "small", "prompt": "Why?"}),
        (
            replace(ASKED, schema={"type": "object"}),
            {"model": "small", "prompt": "Why?", "schema": '{"type":"object"}'},
        ),
        (
            replace(ASKED, messages=(_said("system", "a"), _said("developer", "b"), USER)),
            {"model": "small", "prompt": "Why?", "system": "a\n\nb"},
        ),
        (
            replace(ASKED, messages=(_said("user", "Who?"), _said("assistant", "Me."), USER)),
            {
                "model": "small", "prompt": "Why?",
                "input": "The conversation so far:\n\nuser: Who?\n\nassistant: Me.",
            },
        ),
        (
            replace(ASKED, messages=(USER, _said("assistant", "So."))),
            {
                "model": "small", "prompt": "Give the next message of the assistant in this conversation.",
                "input": "The conversation so far:\n\nuser: Why?\n\nassistant: So.",
            },
        ),
        (
            replace(ASKED, tools=(ToolSpec("t", "", {}),), tool_choice="none"),
            {"model": "small", "prompt": "Why?"},
        ),
    ],
)  # fmt: skip
def test_a_turn_that_fits_becomes_one_prompt(turn: Turn, given: dict[str, Any]) -> None:
    assert arguments(turn) == given


@pytest.mark.parametrize(
    ("turn", "named"),
    [
        (replace(ASKED, tools=(ToolSpec("t", "", {}),)), "field.tools"),
        (replace(ASKED, seed=0), "field.seed"),
        (replace(ASKED, top_p=0.5), "field.top_p"),
        (replace(ASKED, stop=("x",)), "field.stop"),
        (replace(ASKED, think="low"), "field.think"),
        (replace(ASKED, messages=(Message("user", (Image("image/png", b"x"),)),)), "field.messages"),
        (replace(ASKED, messages=(Message("tool", (ToolResult("1", "x"),)), USER)), "field.messages"),
    ],
)
def test_what_has_no_room_is_refused_by_its_name_and_nothing_is_asked(turn: Turn, named: str) -> None:
    with pytest.raises(Unfit, match=named):
        arguments(turn)
    said, asked = _turned(Said("ok"), turn)
    assert isinstance(said, TurnFailed)
    assert (said.fault, said.effect, named in said.cause) == ("refused", "none", True)
    assert not asked


@pytest.mark.parametrize(
    ("code", "fault", "effect"),
    [
        ("invalid_input", "invalid_input", "none"),
        ("too_long", "invalid_input", "none"),
        ("refused", "refused", "none"),
        ("unsupported_schema", "refused", "none"),
        ("limit", "limit", "none"),
        ("unavailable", "unavailable", "unknown"),
        ("another", "unavailable", "unknown"),
    ],
)
def test_each_code_of_the_interface_is_a_fault_of_a_turn(code: str, fault: str, effect: str) -> None:
    said, asked = _turned(Said(code, message="PAYLOAD"))
    assert isinstance(said, TurnFailed)
    assert (said.fault, said.effect) == (fault, effect)
    assert "PAYLOAD" not in said.cause
    assert [one.tool for one in asked] == ["llm_complete"]


def test_an_answer_is_its_text_or_its_value_as_json_and_one_that_fits_no_schema_is_none() -> None:
    usage = {"usage": {"inTokens": 3, "outTokens": 4}, "ms": 1}
    plain, _ = _turned(Said("ok", {"text": "So.", "valid": True, **usage}))
    assert isinstance(plain, Answered)
    assert (plain.turn.text, plain.turn.usage.input_tokens, plain.turn.usage.output_tokens) == ("So.", 3, 4)
    shaped = replace(ASKED, schema={})
    value, _ = _turned(Said("ok", {"text": "```", "value": {"a": 1}, "valid": True, **usage}), shaped)
    assert isinstance(value, Answered)
    assert value.turn.text == '{"a":1}'
    broken, _ = _turned(Said("ok", {"text": "x", "valid": False, **usage}), shaped)
    assert isinstance(broken, TurnFailed)


def test_a_turn_that_takes_too_long_is_given_up() -> None:
    said, _ = _turned(None)
    assert isinstance(said, TurnFailed)
    assert said.fault == "timeout"


def test_candidates_are_the_granted_models_or_the_usual_one_and_none_of_another_contract() -> None:
    made = Prompting(_never)
    route = stage.route(stage.contract("llm", TOOLS))
    assert [one.model for one in made.candidates(route)] == [""]
    named = replace(route, models=("a", "b"))
    assert [(one.model, one.provider) for one in made.candidates(named)] == [
        ("a", "llm-vendor"),
        ("b", "llm-vendor"),
    ]
    for other in (
        replace(route, tools=()),
        stage.route(stage.contract("llm", [stage.tool("llm_say", stage.closed(), stage.closed())])),
        stage.route(stage.contract("chat", TOOLS)),
    ):
        assert not list(made.candidates(other))


def _turned(answer: Said | None, turn: Turn = ASKED) -> tuple[Answered | TurnFailed, list[Ask]]:
    asked: list[Ask] = []

    async def call(pinned: Pinned, ask: Ask) -> Said:
        asked.append(ask)
        if answer is None:
            await asyncio.Event().wait()
        assert answer is not None
        return answer

    route: Route = stage.route(stage.contract("llm", TOOLS))
    caller = Caller("clerk", "", stage.routes(route))
    return asyncio.run(Prompting(call).turn(caller, route, turn, 0.01 if answer is None else 30.0)), asked


async def _never(pinned: Pinned, ask: Ask) -> Said:
    raise AssertionError
