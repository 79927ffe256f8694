"""What an agent answered, as whoever called it reads it."""

from pathlib import Path

import pytest

from reconciler.attempts import parcels
from reconciler.control.agentjobs import _answer

MOST = 4_000_000  # bytes of an answer that the router passes on


@pytest.mark.parametrize("printed", [b"\0", b"\xff", b'"\n', "é".encode(), b"a"])
@pytest.mark.parametrize("output", [False, True])
def test_whatever_was_printed_makes_an_answer_that_is_passed_on(
    tmp_path: Path, printed: bytes, output: bool
) -> None:
    whole = printed * (900_001 // len(printed))
    path = tmp_path / "result"
    path.write_bytes(b"".join(_answer({"agent": "b", "output": output}, whole)))
    said = parcels.opened(path).said
    assert len(path.read_bytes()) - (len(whole) if output else 0) < MOST
    assert len(said["text"]) <= 1_000_000
    assert said["bytes"] == len(whole)
    assert not said["isWhole"] or said["text"].encode() == whole or b"\xff" in whole
    assert said["text"]


def test_a_sign_that_is_cut_in_two_goes_and_one_that_is_broken_stays_seen(tmp_path: Path) -> None:
    path = tmp_path / "result"
    path.write_bytes(b"".join(_answer({"agent": "b", "output": True}, b"\xff" + "é".encode() * 3000)))
    said = parcels.opened(path).said
    assert said["text"] == "\ufffd" + "é" * 1999
    assert said["isWhole"] is False
