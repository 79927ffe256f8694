"""The command line of ``handler-llm``: which call it means, and what it refuses."""

import pytest

from reconciler.doors import lines, llmclient
from reconciler.doors.usage import Settings, Usage


@pytest.mark.parametrize(
    ("words", "call"),
    [
        (["--prompt", "a.txt"], ["prompt=@a.txt"]),
        (["--prompt=@a", "--model=@m"], ["model=@@m", "prompt=@./@a"]),
        (["--prompt=-"], ["prompt=@-"]),
        (
            [
                "--prompt=p",
                "--schema=s",
                "--system=y",
                "--input=/dev/null",
                "--max-tokens=5",
                "--agent=c",
            ],
            ["maxTokens=5", "--agent", "c", "prompt=@p", "schema=@s", "system=@y", "input=@/dev/null"],
        ),
        (["--image=a.png", "--image=@b.png", "--prompt=p"], ["images=a.png", "images=./@b.png", "prompt=@p"]),
    ],
)
def test_a_command_line_is_a_call(monkeypatch: pytest.MonkeyPatch, words: list[str], call: list[str]) -> None:
    monkeypatch.setattr("os.isatty", lambda fd: True)
    assert llmclient._asked(words) == ["llm_complete", *call]


def test_what_comes_in_is_the_material_where_nothing_else_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.isatty", lambda fd: False)
    assert llmclient._asked(["--prompt=p"]) == ["llm_complete", "prompt=@p", "input=@-"]
    assert llmclient._asked(["--prompt=-"]) == ["llm_complete", "prompt=@-"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "--prompt FILE"),
        (["--prompt="], "needs a value"),
        (["--prompt"], "needs a value"),
        (["--promt=a"], "'--promt' is not an option"),
        (["a.txt"], "'a.txt' is not an option"),
        (["--prompt=a", "--prompt=b"], "stands twice"),
        (["--prompt=-", "--system=-"], "read once"),
    ],
)
def test_what_cannot_be_followed_is_told(words: list[str], why: str) -> None:
    with pytest.raises(Usage, match=why):
        llmclient._asked(words)


def test_an_answer_that_does_not_fit_the_schema_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    said = {"structuredContent": {"text": "x", "valid": False}}
    assert llmclient._shown(said, Settings()) == 1
    told = capsys.readouterr()
    assert (told.out, "does not fit the schema" in told.err) == ("", True)


def test_an_answer_steers_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said: lines.Json = {"structuredContent": {"valid": True, "text": "a\tb\n\x1b]0;x\x07ä"}}
    assert llmclient._shown(said, Settings()) == 0
    assert capsys.readouterr().out == "a\tb\n\x1b]0;x\x07ä\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert llmclient._shown(said, Settings()) == 0
    assert capsys.readouterr().out == "a\tb\n\\x1b]0;x\\x07ä\n"
