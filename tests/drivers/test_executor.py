"""Local programs as jobs: a call is one argument list, an end one outcome, hostile values do not get in."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.drivers import executor
from reconciler.drivers.asking import Unsealable
from reconciler.drivers.programs import Ended, Exit, Left, Output, Program
from reconciler.model.outcome import Absent, Cancelled, Done, Media, Pending, Rejected, Unknown

CONVERT = Program(
    "ffmpeg",
    ("-nostdin", "-i", "{in.source}", "{optional.width}", "-f", "{field.format}", "{out.result}"),
    {"result": Output("result.mp4", ("video/mp4", "video/webm"), 1000)},
    {"width": ("-vf", "scale={field.width}:-2")},
    {234: Exit("invalid_input")},
    60.0,
)
SOURCE = {"source": Media("video/webm", b"bytes", "../../Holiday.WEBM")}
HEAD = b"\x00\x00\x00\x18ftypmp42"
KEY = "hdl1-" + "a" * 40
RUN = executor.seal(CONVERT, KEY, {"format": "mp4", "width": 640}, SOURCE)


def test_a_call_is_one_argument_list_and_its_paths_are_ours() -> None:
    assert RUN.argv == (
        "ffmpeg", "-nostdin", "-i", "/run/job/in/source.webm", "-vf", "scale=640:-2", "-f", "mp4",
        "/run/job/out/result.mp4",
    )  # fmt: skip
    assert list(RUN.inputs) == ["source.webm"]
    assert RUN.timeout_s == 60.0


def test_what_is_optional_and_not_given_is_not_said() -> None:
    assert "-vf" not in executor.seal(CONVERT, KEY, {"format": "mp4"}, SOURCE).argv


def test_one_key_is_one_unit_and_other_content_another_digest() -> None:
    again = executor.seal(CONVERT, KEY, {"format": "mp4", "width": 640}, SOURCE)
    assert again == RUN
    other = executor.seal(CONVERT, KEY, {"format": "mp4", "width": 641}, SOURCE)
    assert (other.unit, other.digest == RUN.digest) == (RUN.unit, False)
    changed = executor.seal(
        CONVERT, KEY, {"format": "mp4", "width": 640}, {"source": Media("video/webm", b"x")}
    )
    assert changed.digest != RUN.digest
    assert executor.seal(CONVERT, KEY + "x", {"format": "mp4"}, SOURCE).unit != RUN.unit


@pytest.mark.parametrize(
    ("fields", "fact"),
    [
        ({"format": "-y"}, "field.format"),
        ({"format": "/etc/passwd"}, "field.format"),
        ({"format": "@file"}, "field.format"),
        ({"format": ""}, "field.format"),
        ({"format": "a\0b"}, "field.format"),
        ({"format": "a\nb"}, "field.format"),
        ({"format": ["mp4"]}, "field.format"),
        ({"format": True}, "field.format"),
        ({"format": "x" * 5000}, "field.format"),
        ({"format": "mp4", "bitrate": "1k"}, "field.bitrate"),
        ({}, "field.format"),
    ],
)
def test_a_value_that_is_no_plain_one_does_not_get_in(fields: dict[str, object], fact: str) -> None:
    with pytest.raises(Unsealable) as refused:
        executor.seal(CONVERT, KEY, fields, SOURCE)
    assert refused.value.fact == fact


def test_a_file_that_is_not_given_is_missed() -> None:
    with pytest.raises(Unsealable, match=r"in\.source"):
        executor.seal(CONVERT, KEY, {"format": "mp4"}, {})


@given(st.text(), st.text() | st.integers())
def test_whatever_is_given_the_options_stay_ours(form: str, width: str | int) -> None:
    try:
        run = executor.seal(CONVERT, KEY, {"format": form, "width": width}, SOURCE)
    except Unsealable:
        return
    assert run.argv[:5] == RUN.argv[:5]
    assert run.argv[-1] == RUN.argv[-1]
    assert len(run.argv) == len(RUN.argv)
    assert run.argv[5].startswith("scale=")
    assert not run.argv[7].startswith(("-", "/", "@", "+"))


def _ended(status: int | None = 0, **changes: object) -> Ended:
    return replace(Ended(status, files={"result": Left(100, HEAD)}), **changes)


@pytest.mark.parametrize(
    ("ended", "code"),
    [
        (_ended(1), "unavailable"),
        (_ended(234), "invalid_input"),
        (_ended(None, cause="signal"), "unavailable"),
        (_ended(None, cause="timeout"), "unavailable"),
        (_ended(None, cause="memory"), "unavailable"),
        (_ended(files={}), "unavailable"),
        (_ended(files={"result": Left(0, b"")}), "unavailable"),
        (_ended(files={"result": Left(1001, HEAD)}), "limit"),
        (_ended(files={"result": Left(100, b"#!/bin/sh")}), "unavailable"),
    ],
)
def test_an_end_without_its_outputs_is_a_failure_and_had_no_effect(ended: Ended, code: str) -> None:
    found = executor.read(ended, RUN, CONVERT)
    assert isinstance(found, Rejected)
    assert (found.code, found.effect) == (code, "none")


def test_an_end_with_its_outputs_is_done_and_says_what_they_are() -> None:
    found = executor.read(_ended(), RUN, CONVERT)
    assert isinstance(found, Done)
    assert found.result == {"result": {"file": "result.mp4", "mediaType": "video/mp4", "bytes": 100}}


def test_nothing_is_known_while_a_process_is_left_and_a_cancel_is_proved_when_none_is() -> None:
    assert isinstance(executor.read(_ended(tree_is_gone=False), RUN, CONVERT), Unknown)
    stopped = _ended(None, cause="cancelled")
    assert executor.read(stopped, RUN, CONVERT) == Cancelled("cancelled", proved=True)
    assert executor.read_cancel(stopped).answer == "proved"
    assert executor.read_cancel(_ended(None, cause="cancelled", tree_is_gone=False)).answer == "requested"
    assert executor.read_cancel(None).answer == "unknown"


def test_a_run_that_is_not_there_is_proved_absent() -> None:
    assert executor.read_lookup("absent", RUN, CONVERT) == Absent(proof=True)
    assert executor.read_lookup("running", RUN, CONVERT) == Pending("running", moving=True)
    assert isinstance(executor.read_lookup(_ended(), RUN, CONVERT), Done)
