"""Cassettes: a question by its bytes, and nothing that is hostile on either side of one gets further."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.builtin import tape
from reconciler.model.calls import Refusal, Reply, Result

FILE = {"name": "a.txt", "mediaType": "text/plain", "size": 3, "blob": "x-i0.txt"}
OUTPUT = {"name": "o.txt", "blob": "x-o0.txt"}


@pytest.fixture
def boxes(tmp_path: Path) -> Iterator[tuple[int, int]]:
    numbers = []
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
        numbers.append(os.open(tmp_path / name, os.O_RDONLY | os.O_DIRECTORY))
    (tmp_path / "in/x-i0.txt").write_bytes(b"one")
    yield numbers[0], numbers[1]
    for number in numbers:
        os.close(number)


def test_a_question_is_its_tool_its_arguments_and_the_bytes_of_its_files(
    tmp_path: Path, boxes: tuple[int, int]
) -> None:
    first = tape.question("t", {"a": 1, "path": FILE, "output": OUTPUT}, boxes[0])
    (tmp_path / "in/y-i0.txt").write_bytes(b"one")
    renamed = {"path": {**FILE, "name": "b.txt", "blob": "y-i0.txt"}, "a": 1}
    elsewhere = {"output": {"name": "p.txt", "blob": "y-o0.txt"}}
    assert tape.question("t", renamed | elsewhere, boxes[0]) == first
    assert tape.question("t", {**renamed, "a": 2, **elsewhere}, boxes[0]) != first
    assert tape.question("u", renamed | elsewhere, boxes[0]) != first
    assert tape.question("t", renamed, boxes[0]) != first
    (tmp_path / "in/y-i0.txt").write_bytes(b"two")
    assert tape.question("t", renamed | elsewhere, boxes[0]) != first


def taken(tmp_path: Path, boxes: tuple[int, int], reply: Reply) -> list[dict[str, Any]]:
    file = tmp_path / "cassettes/c.jsonl"
    tape.Tape(file).take(("t", {"path": FILE, "output": OUTPUT}), reply, boxes)
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_answers_and_errors_of_the_interface_are_written_down(tmp_path: Path, boxes: tuple[int, int]) -> None:
    (tmp_path / "out/x-o0.txt").write_bytes(b"\x00\xff")
    taken(tmp_path, boxes, Result({"n": 1}, {"output": "x-o0.txt"}))
    (answer, error) = taken(tmp_path, boxes, Refusal("too_large", "words of the connector"))
    assert (answer["answer"], answer["files"]) == ({"n": 1}, {"output": "AP8="})
    assert (error["error"], answer["question"]) == ("too_large", error["question"])
    assert "words" not in json.dumps(error)
    known = tape.read(tmp_path / "cassettes/c.jsonl")
    assert known[answer["question"]] == error  # the last one counts


@pytest.mark.parametrize("reply", [Refusal("unavailable", "it died"), Refusal("refused", "", "StartTimeout")])
def test_an_engine_that_is_not_there_is_not_recorded(
    tmp_path: Path, boxes: tuple[int, int], reply: Refusal
) -> None:
    assert taken(tmp_path, boxes, reply) == []


@pytest.mark.parametrize("left", ["nothing", "fifo", "symlink", "hard link", "folder", "elsewhere"])
def test_what_a_connector_leaves_that_is_no_plain_file_is_not_recorded(
    tmp_path: Path, boxes: tuple[int, int], left: str
) -> None:
    place, blob = tmp_path / "out/x-o0.txt", "x-o0.txt"
    (tmp_path / "secret").write_text("secret")
    match left:
        case "fifo":
            os.mkfifo(place)
        case "symlink":
            place.symlink_to(tmp_path / "secret")
        case "hard link":
            place.hardlink_to(tmp_path / "secret")
        case "folder":
            place.mkdir()
        case "elsewhere":
            blob = "nowhere"
    assert taken(tmp_path, boxes, Result({}, {"output": blob})) == []


def test_a_cassette_that_is_a_link_is_not_written_through(tmp_path: Path, boxes: tuple[int, int]) -> None:
    (tmp_path / "cassettes").mkdir()
    (tmp_path / "theirs").write_text("")
    (tmp_path / "cassettes/c.jsonl").symlink_to(tmp_path / "theirs")
    assert taken(tmp_path, boxes, Result({}, {})) == []


@pytest.mark.parametrize(
    "line",
    [
        "x",
        "[]",
        "3",
        "{}",
        '{"question":"q"}',
        '{"question":"q","answer":3}',
        '{"question":"q","answer":{},"files":{"o":3}}',
        '{"question":"q","answer":{},"files":{"o":"%%%"}}',
        '{"question":"q","answer":{},"files":["o"]}',
        "[" * 100_000,
    ],
)
def test_a_line_that_is_no_recording_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "c.jsonl"
    file.write_text('{"question":"q","answer":{}}\n' + line + "\n")
    with pytest.raises(ValueError, match="line 2 is no recording"):
        tape.read(file)
