"""A run's question as a model's turn, and back: names, pictures, and which model answers."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.chains import speaking
from reconciler.chains.asks import AskModel, Candidate, ToolFace
from reconciler.chains.history import Image, Message, ToolCall
from reconciler.chains.ports import NotTurned, Offered, Turned
from reconciler.chains.replies import ModelFailed, ModelSaid
from reconciler.chains.retrying import ErrorClass
from reconciler.chains.speaking import Choice
from reconciler.model.turns import ModelFacts, ModelTurn, ToolResult, ToolUse

SEEING = Offered("eye", "hosted", "vendor", ModelFacts(vision=True))
BLIND = Offered("ear", "here", "local")
ASK = AskModel("r/1", "t", "chat", (Candidate(),), (Message("user", "hi"),))


def model(*candidates: Candidate, offered: tuple[Offered, ...] = (BLIND, SEEING), **more: Any) -> str:
    found = speaking.chosen(replace(ASK, candidates=candidates, **more), offered)
    return found.model if isinstance(found, Choice) else found.code


def test_the_first_candidate_that_is_there_answers() -> None:
    assert model(Candidate()) == "ear"
    assert model(Candidate("eye")) == "eye"
    assert model(Candidate("none"), Candidate("eye", "hosted")) == "eye"
    assert model(Candidate("eye", "vendor")) == "eye"
    assert model(Candidate("", "vendor")) == "eye"
    assert model(Candidate("eye", "here")) == "no_models"
    assert model(Candidate("EYE")) == "no_models"  # exact
    assert model(Candidate(), offered=()) == "no_models"


def test_a_picture_needs_a_model_that_sees() -> None:
    assert model(Candidate(), needs_vision=True) == "eye"
    assert model(Candidate("ear"), needs_vision=True) == "no_vision_model"
    assert model(Candidate("nobody"), needs_vision=True) == "no_models"


def test_tools_go_by_names_without_dots_and_come_back_by_their_own() -> None:
    call = ToolCall("c1", "fs.fs_read_file", '{"path": "a"}')
    messages = (
        Message("user", "read", images=(Image("aGk=", "image/png"),)),
        Message("assistant", "", calls=(call,)),
        Message("tool", "text", tool_call_id="c1"),
    )
    ask = replace(ASK, messages=messages, tools=(ToolFace("fs", "fs_read_file", "Read."),), think="on")
    turn = speaking.turn(ask, "eye", stream=False)
    assert [one.name for one in turn.tools] == ["fs_fs_read_file"]
    assert turn.messages[1].parts == (ToolUse("c1", "fs_fs_read_file", '{"path": "a"}'),)
    assert turn.messages[2].parts == (ToolResult("c1", "text"),)
    assert turn.think == "high"
    answered = ModelTurn("", "tools", (ToolUse("x", "fs_fs_read_file", "{}"), ToolUse("y", "made_up", "{")))
    said = speaking.reply(ask, Turned(answered, "eye", "hosted"))
    assert isinstance(said, ModelSaid)
    assert [one.name for one in said.message.calls] == ["fs.fs_read_file", "made_up"]


def test_a_picture_that_is_no_base64_is_said() -> None:
    ask = replace(ASK, messages=(Message("user", "", images=(Image("%%", "image/png"),)),))
    with pytest.raises(ValueError, match="no base64"):
        speaking.turn(ask, "eye", stream=False)


def test_what_was_shown_before_a_failure_makes_it_final() -> None:
    fault = NotTurned(ErrorClass.SERVER_ERROR, "unavailable")
    for pieces, midstream in ((0, False), (3, True)):
        said = speaking.reply(ASK, fault, pieces)
        assert isinstance(said, ModelFailed)
        assert said.midstream is midstream
