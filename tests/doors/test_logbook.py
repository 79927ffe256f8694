"""The log is JSON lines for programs and sentences for people, as handler.toml and the command line say."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from reconciler.doors import usage
from reconciler.doors.logbook import Logbook
from reconciler.model.settings import Log

_LOG = logging.getLogger("handler.test")


@pytest.fixture
def stderr() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before, level, quiet = list(root.handlers), root.level, logging.getLogger("asyncio").level
    stream = io.StringIO()
    yield stream
    for handler in set(root.handlers) - set(before):
        root.removeHandler(handler)
    root.setLevel(level)
    logging.getLogger("asyncio").setLevel(quiet)


def logbook(stream: io.StringIO, *words: str) -> Logbook:
    return Logbook(usage.settings(list(words))[0], stream)


def test_a_line_is_one_object_with_fixed_words_and_what_stands_in_them(stderr: io.StringIO) -> None:
    logbook(stderr)
    _LOG.info("generation %d serves %s", 4, "a\nb")
    line = json.loads(stderr.getvalue())
    assert line.pop("at").endswith("Z")
    assert line == {
        "level": "info",
        "logger": "handler.test",
        "message": "generation 4 serves a\nb",
        "template": "generation %d serves %s",
        "args": [4, "a\nb"],
    }
    assert stderr.getvalue().count("\n") == 1


def test_people_read_revisions_in_their_short_form(stderr: io.StringIO) -> None:
    stderr.isatty = lambda: True  # type: ignore[method-assign]
    logbook(stderr)
    _LOG.info("%s is in force, refused objects: %d", "none@sha256:" + "4f2c1aa0" * 8, 1)
    assert stderr.getvalue() == "handlerd: none@4f2c1aa is in force, refused objects: 1\n"


def test_a_fault_keeps_its_traceback_in_the_same_line(stderr: io.StringIO) -> None:
    logbook(stderr)
    try:
        raise ValueError("ours")
    except ValueError:
        _LOG.exception("a look broke off")
    assert "ValueError: ours" in json.loads(stderr.getvalue())["traceback"]


@pytest.mark.parametrize(
    ("words", "wanted", "heard"),
    [
        ([], Log(), ["info", "warning", "error"]),
        ([], Log(level="error"), ["error"]),
        ([], Log(level="debug"), ["debug", "info", "warning", "error"]),
        (["-q"], Log(level="debug"), ["warning", "error"]),
        (["-v"], Log(level="error"), ["debug", "info", "warning", "error"]),
    ],
)
def test_the_level_is_the_files_unless_the_command_line_says_one(
    stderr: io.StringIO, words: list[str], wanted: Log, heard: list[str]
) -> None:
    logbook(stderr, *words).follow(wanted)
    for level in ("debug", "info", "warning", "error"):
        getattr(_LOG, level)("said")
    assert [json.loads(line)["level"] for line in stderr.getvalue().splitlines()] == heard


def test_the_format_follows_the_file_while_it_runs(stderr: io.StringIO) -> None:
    book = logbook(stderr)
    for form in ("text", "json", "auto"):
        book.follow(Log.model_validate({"format": form}))
        _LOG.warning("said")
    assert [line[:10] for line in stderr.getvalue().splitlines()] == [
        "handlerd: ",
        '{"at": "20',
        '{"at": "20',
    ]
