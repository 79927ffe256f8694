"""The law of a call, step by step, without I/O."""

from collections.abc import Generator
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.calls import Refusal, Result
from reconciler.model.contract import Contract
from reconciler.router.call import (
    QUEUE,
    Answer,
    HandOver,
    Look,
    Outcome,
    Place,
    Refused,
    Send,
    Step,
    Turn,
    Usage,
    serve,
)
from tests.router import stage

LONGEST = int(4_000_000 * 2.5) + 65536


class Playbook:
    """Plays one call: what it asks is compared, what is replied goes in."""

    def __init__(self, made: Contract, tool: str, arguments: dict[str, Any], **more: Any) -> None:
        usage = more.pop("usage", None)
        route = stage.route(made, **more)
        self.usage = usage or Usage(route)
        self.law: Generator[Step, Any, Outcome] = serve(route, made.tools[tool], arguments, self.usage)
        self.answer: Outcome | None = None
        self.asked: Step | None = None
        self._go(None)

    def asks(self, step: Step, *, reply: object) -> "Playbook":
        assert self.asked == step
        self._go(reply)
        return self

    def _go(self, reply: object) -> None:
        try:
            self.asked = self.law.send(reply)
        except StopIteration as end:
            self.asked, self.answer = None, end.value


def say(text: str = "hi") -> Playbook:
    return Playbook(stage.echo(), "echo_say", {"text": text})


SEND_HI = Send("echo_say", {"text": "hi"}, LONGEST)


def test_a_call_is_sent_as_it_was_checked_and_its_answer_is_checked_too() -> None:
    play = say().asks(SEND_HI, reply=Result({"text": "ho"}, {}))
    assert play.answer == Answer(b'{"text":"ho"}')


@pytest.mark.parametrize(
    ("arguments", "detail"),
    [
        ({"path": "a", "langages": ["fr"]}, "langages is not a field of this tool; did you mean languages?"),
        (
            {"path": "a", "Languages": ["fr"]},
            "Languages is not a field of this tool; did you mean languages?",
        ),
        ({"path": "a", "zzz": 1}, "zzz is not a field of this tool"),
        ({"path": "a", "languages": [], "language": 1}, "language is not a field of this tool"),
        ({"pth": "a"}, "pth is not a field of this tool; did you mean path?"),
        ({}, "path is missing"),
        ({"path": "a", "l" * 500: 1}, "l" * 64 + " is not a field of this tool"),
    ],
)
def test_a_misspelt_argument_is_refused_with_the_nearest_name(arguments: dict[str, Any], detail: str) -> None:
    play = Playbook(stage.ocr(), "ocr_extract", arguments)
    assert isinstance(play.answer, Refused)
    assert (play.answer.code, play.answer.detail) == ("invalid_input", detail)
    assert "ang" not in play.answer.diagnostic  # what an agent made up is not written down


def test_an_answer_outside_the_contract_is_unavailable_and_says_nothing_of_the_vendor() -> None:
    play = say().asks(SEND_HI, reply=Result({"text": "ho", "vendor": "boom"}, {}))
    fault = "the answer has a field that is not in the schema ('vendor')"
    assert play.answer == Refused("unavailable", diagnostic=f"answered outside its contract: {fault}")


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({}, "path is missing"),
        ({"path": 5}, "path has the wrong type"),
        ({"path": "a", "more": 1}, "more is not a field of this tool"),
        ({"path": "a", "languages": ["fr\n"]}, "languages[0] does not match the pattern"),
        ({"path": "a", "languages": ["fr", "FR"]}, "languages[1] does not match the pattern"),
        ({"path": "a", "languages": "fr"}, "languages has the wrong type"),
    ],
)
def test_an_input_fault_names_the_field_and_reaches_no_connector(
    arguments: dict[str, Any], field: str
) -> None:
    play = Playbook(stage.ocr(), "ocr_extract", arguments)
    assert play.asked is None
    assert isinstance(play.answer, Refused)
    assert (play.answer.code, play.answer.detail) == ("invalid_input", field)
    assert "more" not in play.answer.diagnostic  # what the agent made up is not recorded
    assert play.usage.made == 0


def test_a_name_that_an_agent_made_up_in_a_map_is_told_to_it_and_not_recorded() -> None:
    prices = {"type": "object", "additionalProperties": stage.NUMBER}
    tools = [stage.tool("echo_map", stage.closed(prices=prices), stage.closed(text=stage.TEXT))]
    play = Playbook(stage.contract("echo", tools), "echo_map", {"prices": {"SALARY of Ada": "much"}})
    fault = "prices.SALARY of Ada has the wrong type"
    assert play.answer == Refused("invalid_input", fault, "prices.* has the wrong type")


def test_the_argument_that_one_harness_adds_to_every_call_is_dropped() -> None:
    play = Playbook(stage.echo(), "echo_say", {"text": "hi", "wait_for_previous": True})
    assert play.asked == SEND_HI


def test_an_argument_by_that_name_stays_where_the_tool_declares_it() -> None:
    made = stage.contract(
        "echo", [stage.tool("echo_say", stage.closed(wait_for_previous={"type": "boolean"}), stage.closed())]
    )
    play = Playbook(made, "echo_say", {"wait_for_previous": True})
    assert play.asked == Send("echo_say", {"wait_for_previous": True}, LONGEST)


def test_a_suspended_route_is_unavailable() -> None:
    play = Playbook(stage.echo(), "echo_say", {"text": "hi"}, suspended="by hand")
    assert play.answer == Refused("unavailable", diagnostic="by hand")


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        ("unsupported_format", "unsupported_format"),
        ("too_large", "too_large"),
        ("unavailable", "unavailable"),
        ("limit", "unavailable"),
        ("refused", "unavailable"),
        ("invalid_input", "unavailable"),
        ("HTTP 429", "unavailable"),
    ],
)
def test_only_codes_that_the_interface_lists_pass(code: str, seen: str) -> None:
    play = Playbook(stage.ocr(), "ocr_extract", {"path": "a"})
    play.asks(Look({"path": ("a",)}, {}, 20_000_000), reply=None)
    play.asks(HandOver(), reply={"path": {"blob": "b"}})
    play.asks(Send("ocr_extract", {"path": {"blob": "b"}}, LONGEST), reply=Refusal(code, "boom at line 5"))
    unlisted = "" if seen == code else f"answered the error '{code}', which ocr/v1 does not list: "
    assert play.answer == Refused(seen, diagnostic=f"{unlisted}boom at line 5")


def test_a_session_has_so_many_calls_and_no_more() -> None:
    made = stage.echo(callsPerSession=2)
    usage = Usage(stage.route(made))
    for _ in range(2):
        Playbook(made, "echo_say", {"text": "hi"}, usage=usage).asks(
            SEND_HI, reply=Result({"text": "ho"}, {})
        )
    play = Playbook(made, "echo_say", {"text": "hi"}, usage=usage)
    assert play.answer == Refused("limit", diagnostic="2 calls a session")


@pytest.mark.parametrize(
    ("own", "granted", "most"), [(0, None, None), (5, None, 5), (0, 3, 3), (5, 3, 3), (2, 3, 2)]
)
def test_the_narrower_of_the_interface_and_the_grant_counts(
    own: int, granted: int | None, most: int | None
) -> None:
    assert Usage(stage.route(stage.echo(callsPerSession=own), max_calls=granted)).most == most


def busy(calls: int = 1, **limits: Any) -> tuple[Contract, Usage, list[Playbook]]:
    made = stage.echo(concurrentCalls=1, **limits)
    usage = Usage(stage.route(made))
    return made, usage, [Playbook(made, "echo_say", {"text": "hi"}, usage=usage) for _ in range(calls)]


def test_a_call_above_the_limit_waits_for_its_turn() -> None:
    _, usage, (first, second) = busy(2)
    assert second.asked == Turn()
    assert usage.waiting == 1
    first.asks(SEND_HI, reply=Result({"text": "ho"}, {}))
    second.asks(Turn(), reply=None).asks(SEND_HI, reply=Result({"text": "ho"}, {}))
    assert second.answer == Answer(b'{"text":"ho"}')
    assert (usage.running, usage.waiting) == (0, 0)


def test_a_call_whose_turn_never_came_is_over_the_limit() -> None:
    _, usage, (_, second) = busy(2)
    second.asks(Turn(), reply=Refusal("unavailable", "no end within 120 s"))
    assert second.answer == Refused("limit", diagnostic="no end within 120 s")
    assert (usage.running, usage.waiting) == (1, 0)


def test_only_so_many_calls_may_wait() -> None:
    _, _, plays = busy(QUEUE + 2)
    assert plays[QUEUE].asked == Turn()
    assert plays[QUEUE + 1].answer == Refused("limit", diagnostic=f"1 calls at once and {QUEUE} waiting")


def test_a_deadline_while_the_call_is_out_is_unavailable() -> None:
    play = say().asks(SEND_HI, reply=Refusal("unavailable", "no end within 120 s"))
    assert play.answer == Refused("unavailable", diagnostic="no end within 120 s")


@pytest.mark.parametrize("step", [0, 1])
def test_a_call_that_is_given_up_leaves_no_trace_in_what_was_used(step: int) -> None:
    _, usage, plays = busy(2)
    plays[step].law.close()
    assert (usage.running, usage.waiting) == ((0, 1) if step == 0 else (1, 0))


def test_an_answer_above_the_interface_s_bound_is_unavailable() -> None:
    made = stage.echo(maxOutputBytes=100)
    play = Playbook(made, "echo_say", {"text": "hi"})
    play.asks(Send("echo_say", {"text": "hi"}, 250 + 65536), reply=Result({"text": "x" * 100}, {}))
    assert play.answer == Refused("unavailable", diagnostic="answered with 111 bytes, more than 100")


def test_files_are_looked_at_then_handed_over_then_the_call_is_sent() -> None:
    play = Playbook(stage.ocr(), "ocr_extract", {"path": "a.pdf", "languages": ["de"]})
    play.asks(Look({"path": ("a.pdf",)}, {}, 20_000_000), reply=None)
    play.asks(HandOver(), reply={"path": {"name": "a.pdf", "blob": "b1"}})
    arguments = {"path": {"name": "a.pdf", "blob": "b1"}, "languages": ["de"]}
    play.asks(Send("ocr_extract", arguments, LONGEST), reply=Result({"pages": []}, {}))
    assert play.answer == Answer(b'{"pages":[]}')


def merge() -> Playbook:
    play = Playbook(stage.ocr(maxFileBytes=9), "ocr_merge", {"paths": ["a", "b"], "to": "c"})
    play.asks(Look({"paths": ("a", "b")}, {"to": "c"}, 9, frozenset({"paths"})), reply=None)
    return play.asks(HandOver(), reply={"paths": ["A", "B"], "to": "C"})


def test_output_files_are_placed_after_the_answer_was_found_right() -> None:
    play = merge()
    play.asks(
        Send("ocr_merge", {"paths": ["A", "B"], "to": "C"}, LONGEST), reply=Result({"pages": 2}, {"to": "C"})
    )
    play.asks(Place({"to": "C"}), reply=None)
    assert play.answer == Answer(b'{"pages":2}')


def test_an_answer_that_is_wrong_places_no_file() -> None:
    play = merge()
    play.asks(
        Send("ocr_merge", {"paths": ["A", "B"], "to": "C"}, LONGEST),
        reply=Result({"pages": "x"}, {"to": "C"}),
    )
    assert isinstance(play.answer, Refused)
    assert play.answer.code == "unavailable"


def test_an_answer_without_its_file_is_unavailable() -> None:
    play = merge()
    play.asks(Send("ocr_merge", {"paths": ["A", "B"], "to": "C"}, LONGEST), reply=Result({"pages": 2}, {}))
    assert play.answer == Refused("unavailable", diagnostic="answered without the file of to")


@pytest.mark.parametrize(
    ("code", "listed", "seen"),
    [
        ("refused", True, "refused"),
        ("too_large", True, "too_large"),
        ("too_large", False, "refused"),
        ("unavailable", False, "unavailable"),
    ],
)
def test_a_file_that_is_denied_ends_the_call_with_a_word_the_agent_knows(
    code: str, listed: bool, seen: str
) -> None:
    made = stage.ocr() if listed else stage.contract("scan", stage.OCR_TOOLS)
    play = Playbook(made, "ocr_extract", {"path": "a"})
    play.asks(Look({"path": ("a",)}, {}, 20_000_000), reply=Refusal(code, "why"))
    assert play.answer == Refused(seen, diagnostic="why")


def test_a_hand_over_that_fails_sends_nothing() -> None:
    play = Playbook(stage.ocr(), "ocr_extract", {"path": "a"})
    play.asks(Look({"path": ("a",)}, {}, 20_000_000), reply=None)
    play.asks(HandOver(), reply=Refusal("too_large", "grew"))
    assert play.answer == Refused("too_large", diagnostic="grew")


@given(st.dictionaries(st.text(), st.none() | st.text() | st.integers() | st.lists(st.text())))
def test_only_valid_input_is_ever_sent(arguments: dict[str, Any]) -> None:
    play = Playbook(stage.echo(), "echo_say", arguments)
    if isinstance(play.asked, Send):
        assert orjson.dumps(play.asked.arguments) == orjson.dumps({"text": play.asked.arguments["text"]})
        assert type(play.asked.arguments["text"]) is str
    else:
        assert isinstance(play.answer, Refused)
        assert play.answer.code == "invalid_input"


ASKED = stage.contract(
    "llm",
    [stage.tool("llm_say", stage.closed(text=stage.TEXT, _model=stage.TEXT), stage.closed(text=stage.TEXT))],
)
SMALL_OR_LARGE = ("small", "large")


@pytest.mark.parametrize(
    ("models", "asked", "sent"),
    [
        (None, {}, {}),
        (None, {"model": "any"}, {"model": "any"}),
        (None, {"model": ""}, {"model": ""}),
        (SMALL_OR_LARGE, {}, {"model": "small"}),
        (SMALL_OR_LARGE, {"model": ""}, {"model": "small"}),
        (SMALL_OR_LARGE, {"model": "small"}, {"model": "small"}),
        (SMALL_OR_LARGE, {"model": "large"}, {"model": "large"}),
    ],
)
def test_a_model_is_one_of_those_granted_and_the_first_where_none_is_named(
    models: tuple[str, ...] | None, asked: dict[str, str], sent: dict[str, str]
) -> None:
    play = Playbook(ASKED, "llm_say", {"text": "hi"} | asked, models=models)
    play.asks(Send("llm_say", {"text": "hi"} | sent, LONGEST), reply=Result({"text": "ho"}, {}))
    assert play.answer == Answer(b'{"text":"ho"}')


@pytest.mark.parametrize("asked", ["Large", "large ", "larg", "CANARY"])
def test_a_model_that_is_not_granted_is_refused_and_nothing_is_sent(asked: str) -> None:
    play = Playbook(ASKED, "llm_say", {"text": "hi", "model": asked}, models=SMALL_OR_LARGE)
    assert play.answer == Refused(
        "refused", "the models that you may ask for: small, large", "a model that is not granted"
    )
    assert play.usage.made == 0


def test_an_agent_that_may_ask_for_no_model_is_refused_with_and_without_one() -> None:
    for asked in ({}, {"model": "small"}):
        play = Playbook(ASKED, "llm_say", {"text": "hi"} | asked, models=())
        assert isinstance(play.answer, Refused)
        assert (play.answer.code, play.answer.detail) == ("refused", "the models that you may ask for: none")


def test_a_tool_without_a_model_is_called_as_ever() -> None:
    play = Playbook(stage.echo(), "echo_say", {"text": "hi"}, models=SMALL_OR_LARGE)
    assert play.asked == SEND_HI
