"""What of a conversation a model is shown."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.chains import window
from reconciler.chains.history import Message, ToolCall
from reconciler.chains.window import OverflowsError, Window


def _says(role: str, content: str = "x", *calls: str) -> Message:
    return Message(role, content, calls=tuple(ToolCall(call, "p.t") for call in calls))  # type: ignore[arg-type]


def _result(call: str, content: str = "r") -> Message:
    return Message("tool", content, tool_call_id=call)


def _stub(asker: Message, call: str) -> Message:
    return Message("tool", f"no result for {len(asker.calls)}", tool_call_id=call)


def _tokens(message: Message) -> int:
    return len(message.content)


def _shortened(message: Message, content: str) -> Message:
    return replace(message, content=content, thinking="")


USER, SYSTEM = _says("user", "u"), _says("system", "s")


def test_orphans_and_seconds_are_dropped_and_what_is_missing_is_stubbed() -> None:  # C29, A2
    asks = _says("assistant", "a", "c1", "c2")
    history = [USER, asks, _result("c1", "one"), _result("c9"), _result("c1", "two"), _says("user", "on")]
    stub = _stub(asks, "c2")
    assert window.paired(history, _stub) == (USER, asks, _result("c1", "one"), stub, _says("user", "on"))


def test_a_result_that_strayed_comes_back_to_its_call() -> None:
    asks = _says("assistant", "a", "c1")
    assert window.paired([asks, USER, _result("c1")], _stub) == (asks, _result("c1"), USER)


def test_a_call_that_bears_the_name_of_an_earlier_one_gets_a_result_of_its_own() -> None:
    asks = _says("assistant", "a", "c1")
    history = [asks, _result("c1", "one"), asks, _result("c1", "two"), asks]
    assert window.paired(history, _stub) == (*history, _stub(asks, "c1"))


_HISTORIES = st.lists(
    st.one_of(
        st.builds(_says, st.sampled_from(["user", "system"]), st.text("ab", max_size=4)),
        st.builds(
            lambda calls: _says("assistant", "a", *calls), st.lists(st.sampled_from("123"), max_size=3)
        ),
        st.builds(_result, st.sampled_from("1234")),
    ),
    max_size=12,
)


@given(_HISTORIES)
def test_after_pairing_every_call_has_one_result_behind_it_and_nothing_else_moved(
    history: list[Message],
) -> None:
    out = window.paired(history, _stub)
    assert [one for one in out if one.role != "tool"] == [one for one in history if one.role != "tool"]
    owed: list[str] = []
    for message in out:
        if message.role == "tool":
            owed.remove(message.tool_call_id)
        else:
            assert not owed
            owed = list(dict.fromkeys(message.call_ids))
    assert not owed
    assert window.paired(out, _stub) == out


@given(_HISTORIES, st.integers(0, 30))
def test_what_is_slid_fits_keeps_pairs_whole_and_never_loses_the_question(
    history: list[Message], limit: int
) -> None:
    whole = window.paired(history, _stub)
    room = Window(limit, max_tokens=1)
    try:
        out = window.slid(whole, room, _tokens)
    except OverflowsError:
        return
    assert sum(map(_tokens, out)) <= room.budget
    assert window.paired(out, _stub) == out  # C30
    assert [one for one in out if one.role == "system"] == [one for one in whole if one.role == "system"]
    assert next((one for one in reversed(whole) if one.role == "user"), USER) in (*out, USER)
    assert out[-1] == whole[-1]


def test_the_newest_turn_of_the_user_stays_while_a_long_loop_of_tools_slides() -> None:
    rounds = [(_says("assistant", "a" * 9, f"c{at}"), _result(f"c{at}", "r" * 9)) for at in range(9)]
    history = [SYSTEM, _says("user", "old"), USER, *(message for one in rounds for message in one)]
    out = window.slid(history, Window(50, max_tokens=10), _tokens)
    assert out == (SYSTEM, USER, *rounds[-2], *rounds[-1])


@pytest.mark.parametrize(
    ("history", "limit"),
    [
        ([SYSTEM, USER, _says("assistant", "a" * 9, "c"), _result("c", "r" * 9)], 12),  # E22
        ([_says("system", "s" * 99), USER], 50),
        ([SYSTEM, _says("user", "u" * 99), _says("assistant", "a")], 50),  # B10
        ([SYSTEM], 50),
        ([], 50),
    ],
)
def test_what_cannot_be_shown_whole_is_no_question(history: list[Message], limit: int) -> None:
    with pytest.raises(OverflowsError):
        window.slid(history, Window(limit, max_tokens=1), _tokens)


def test_without_sliding_a_history_fits_or_not() -> None:  # C31
    assert window.fits([USER, SYSTEM], Window(3, spent=1), _tokens)
    assert not window.fits([USER, SYSTEM], Window(2, spent=1), _tokens)


@pytest.mark.parametrize(
    ("token_limit", "context", "limit"),
    [(0, 0, None), (5, 0, 5), (0, 7, 7), (5, 7, 5), (9, 7, 7), (-1, 0, None)],
)
def test_the_smaller_of_two_limits_holds(token_limit: int, context: int, limit: int | None) -> None:
    assert window.limit_tokens(token_limit, context) == limit


def test_the_answer_has_a_reserve() -> None:
    assert Window(80).budget == 70
    assert Window(7).budget == 7
    assert Window(80, spent=10, max_tokens=20).budget == 50


def test_a_long_text_is_cut_with_its_size_and_digest_and_no_half_character() -> None:
    cut = window.cut_text("aé" * 10, 5)
    assert cut.startswith("aéa\n[cut: 30 bytes in all, sha256 ")
    assert window.cut_text("abc", 3) == "abc"
    assert window.cut_text("abc", 0) == "abc"


def test_of_a_long_history_the_newest_bytes_stay() -> None:
    thinking = replace(_says("assistant", "cc"), thinking="tt")
    history = [_says("user", "aaaa"), _says("user", "bbbb"), thinking]
    out = window.cut_history(history, 6, _shortened)
    assert [message.content.partition("\n")[0] for message in out] == ["bb", "cc"]
    assert window.cut_history(history, 0, _shortened) == tuple(history)
    assert window.cut_history(history, 12, _shortened) == tuple(history)
    assert window.cut_history(history, 8, _shortened) == tuple(history[1:])
