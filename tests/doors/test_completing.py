"""completion: what a shell is offered at each place of a line, and that bash takes the script."""

import shutil
import subprocess
from pathlib import Path

import pytest

from reconciler.doors import cli, completing
from tests.doors.conftest import World


@pytest.fixture
def config(world: World) -> Path:
    assert world.handler("init", "config").code == 0
    (world.config / "chains").mkdir()
    (world.config / "chains/triage.json").write_text("{}")
    return world.config


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("handler reb", "rebind"),
        ("handler runs re", "resume"),
        ("handler -o js", "json"),
        ("handler get ag", "agent"),
        ("handler -c CONFIG get chains ", "triage"),
        ("handler -c CONFIG describe binding/", "binding/ocr-tesseract"),
        ("handler chain -c CONFIG graph ", "triage"),
        ("handler chain graph triage --sv", "--svg"),
        ("handler fmt --check --qui", "--quiet"),
        ("handler call x --bind", "--binding"),
        ("handler -c CONFIG call x --binding ", "ocr-tesseract"),
        ("handler completion z", "zsh"),
        ("handler -c CONFIG rebind none none none ", ""),
        ("handler nonsense ", ""),
        ("handler -c ", ""),
        ("handler --color purple ", ""),
    ],
)
def test_what_fits_is_offered(
    config: Path, line: str, found: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = line.replace("CONFIG", str(config)).split(" ")
    assert completing.words([str(len(words) - 1), *words], cli.handler) == 0
    assert capsys.readouterr().out.split() == found.split()


def test_a_file_name_that_says_more_to_a_shell_is_not_offered(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("$(touch gone)", "a;b", "*", "triage two", "x\ny", "`z`"):
        (config / f"chains/{name}.json").write_text("{}")
    assert completing.words(["5", "handler", "-c", str(config), "chain", "graph"], cli.handler) == 0
    assert capsys.readouterr().out == "triage\n"


def test_nonsense_completes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    for odd in ([], ["x"], ["-5", "handler"], ["99", "handler"]):
        assert completing.words(odd, cli.handler) == 0
    assert capsys.readouterr().err == ""


def test_bash_takes_the_script_and_asks_by_it(world: World, config: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    stand_in = tmp_path / "bin/handler"
    stand_in.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > "$0.asked"\necho triage\n')
    stand_in.chmod(0o755)
    script = world.handler("completion", "bash").out
    asked = f"""PATH={tmp_path}/bin:$PATH
{script}
COMP_WORDS=(handler chain run tri) COMP_CWORD=3
_handler_complete
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    bash = shutil.which("bash")
    assert bash is not None
    told = subprocess.run([bash, "-c", asked], capture_output=True, text=True, check=True)
    assert (told.stdout, told.stderr) == ("triage\n", "")
    line = (tmp_path / "bin/handler.asked").read_text().split()
    assert line == ["completion", "words", "--", "3", "handler", "chain", "run", "tri"]
    for shell in ("zsh", "fish"):
        assert "handler completion words" in world.handler("completion", shell).out
        if found := shutil.which(shell):
            subprocess.run([found, "-n"], input=world.handler("completion", shell).out, text=True, check=True)
