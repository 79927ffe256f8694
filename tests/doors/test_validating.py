"""validate: golden texts with line and caret, the other formats, parts of a configuration, exit codes."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.control import folders
from reconciler.doors import columns, offline, problems, scaffolding
from tests.doors.conftest import World
from tests.kit.repos import Repo

Golden = Callable[[str, str], None]


@pytest.fixture
def config(world: World) -> Path:
    """The scaffold, which is admitted."""
    for path, text in scaffolding.scaffold().items():
        target = world.config / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return world.config


def misspell(config: Path) -> None:
    file = config / "bindings" / "ocr-tesseract.toml"
    file.write_text(file.read_text().replace("connector =", "conector ="))


@pytest.mark.slow
def test_what_init_makes_is_admitted(world: World, config: Path) -> None:
    ran = world.handler("validate", "config")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("0 errors in ")


@pytest.mark.slow
def test_every_problem_has_its_place_line_caret_why_and_mend(
    world: World, config: Path, golden: Golden
) -> None:
    misspell(config)
    (config / "agents/clerk.toml").write_text(
        'apiVersion = "handler.agent/v1"\nrequires = ["ocr/v1", "tts/v9"]\nscope = ["relative", "/ok"]\n'
        'services = { ocr = { binding = "ocr-teseract" } } # "é" 漢\n'
    )
    (config / "bindings/half.toml").write_text("a = [\n<<<<<<< HEAD\n")
    ran = world.handler("validate", "config")
    assert ran.code == 1
    golden("validate", ran.out + ran.err)
    golden("validate-colour", world.handler("validate", "config", "--color", "always").out)
    golden("validate-github", world.handler("validate", "config", "--format", "github").out)
    golden("validate-sarif", world.handler("validate", "config", "--format", "sarif").out)
    told = json.loads(world.handler("validate", "config", "--format", "json").out)
    assert told["errors"] == len(told["problems"])
    assert told["configuration"] == str(config)
    assert {one["path"] for one in told["problems"]} >= {"config/agents/clerk.toml"}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "json", "github", "sarif"])
def test_a_secret_in_the_text_is_told_by_its_place_and_shown_in_no_format(
    world: World, config: Path, form: str
) -> None:
    value = "s3same" + "Zq7Lw2Xc9Vb4"
    binding = config / "bindings" / "ocr-tesseract.toml"
    text = binding.read_text()
    for line in (f'[secrets]\napi_key = "{value}"\n', f"[settings]\ntoken = {value}\n"):
        binding.write_text(text + line)
        ran = world.handler("validate", "config", "--format", form)
        assert ran.code == 1
        assert "S223" in ran.out
        assert value not in ran.out + ran.err
    binding.write_text(text)
    beside = config / "connectors" / "vendor"
    beside.mkdir(parents=True)
    (beside / "connector.toml").write_text(
        'apiVersion = "handler.connector/v1"\nname = "vendor"\ndescription = "x"\nimplements = ["ocr/v1"]\n'
    )
    key = "ghp_" + "Zq7Lw2Xc9V" * 4
    (beside / "main.py").write_text(f"KEY = '{key}'\n")
    ran = world.handler("validate", "config", "--format", form)
    assert (ran.code, "C225" in ran.out + ran.err, key in ran.out + ran.err) == (0, True, False)


@pytest.mark.slow
def test_a_part_shows_its_own_problems_though_the_whole_is_judged(world: World, config: Path) -> None:
    misspell(config)
    (config / "agents/reader.toml").write_text('apiVersion = "handler.agent/v1"\nproject = "nope"\n')
    ran = world.handler("validate", "config/agents", "-o", "json")
    assert {one["file"] for one in json.loads(ran.out)["problems"]} == {"agents/reader.toml"}
    assert world.handler("validate", "config/handler.toml").code == 0
    assert world.handler("validate", "config/bindings/ocr-tesseract.toml").code == 1


@pytest.mark.slow
def test_a_commit_hook_may_validate_while_git_holds_its_lock(world: World, config: Path) -> None:
    subprocess.run(["git", "init", "-q", str(config)], check=True)
    (config / ".git/index.lock").touch()
    assert world.handler("validate", "config").code == 0
    (config / ".git/MERGE_HEAD").write_text("0" * 40)
    assert world.handler("validate", "config").code == 0


@pytest.mark.parametrize("path", ["nowhere", "nowhere/at/all.toml"])
def test_what_is_not_there_exits_2(world: World, path: str) -> None:
    ran = world.handler("validate", path)
    assert (ran.code, ran.out) == (2, "")
    assert "there is nothing at" in ran.err
    ran = world.handler("validate", "/etc/passwd")
    assert (ran.code, ran.out) == (2, "")
    assert "belongs to no configuration" in ran.err
    assert world.handler("validate", "-c", path).code == 2


@pytest.mark.slow
def test_the_catalogue_validates_as_a_configuration_of_its_own(world: World) -> None:
    assert world.handler("validate", "-c", str(folders.catalog())).code == 0


def test_validating_writes_nothing(world: World, config: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in world.root.rglob("*")}
    world.handler("validate", "config")
    assert before == {path: path.stat().st_mtime_ns for path in world.root.rglob("*")}


@pytest.mark.parametrize(
    ("line", "on_key", "length"),
    [
        ("connector = 1", True, 9),
        ("a.b = 1", True, 1),
        ('"a b" = 1', True, 5),
        ('"x\\"y", 2', False, 6),
        ("'lit\\', 3", False, 6),
        ("12_000 # c", False, 6),
        ('["a", ["b"]] # c', False, 12),
        ("{ a = 1 }", False, 9),
        ("[ open", False, 6),
        ('"""multi', False, 8),
        ("= odd", False, 1),
    ],
)
def test_the_caret_is_as_long_as_what_it_is_about(line: str, on_key: bool, length: int) -> None:
    assert problems._length(line, on_key=on_key) == length


def test_a_long_line_is_shown_around_the_mark() -> None:
    line, start, end = problems._window("x" * 500 + "MARK" + "y" * 500, 500, 504)
    assert line[start:end] == "MARK"
    assert len(line) <= 120


def test_widths_are_those_of_a_terminal() -> None:
    assert [columns.width(text) for text in ("abc", "é", "e\u0301", "漢字")] == [3, 1, 1, 4]
    plain = columns.Paint("never", tty=True)
    assert columns.table([["漢", "x"], ["ab", "y"]], plain) == "漢   x\nab   y\n"
    assert columns.shown("a\tb\x1b[1m\u202e") == "a\\tb\\x1b[1m\\u202e"


@pytest.mark.parametrize(
    ("seconds", "text"), [(-3, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (7300, "2h"), (200_000, "2d")]
)
def test_ages_are_short(seconds: float, text: str) -> None:
    assert columns.age(seconds) == text


@pytest.mark.slow
def test_a_bare_repository_is_judged_at_its_head(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "work")
    repo.commit({"handler.toml": 'apiVersion = "handler.config/v1"\nnonsense = 1\n'})
    bare = tmp_path / "bare.git"
    repo.git("clone", "-q", "--bare", str(repo.root), str(bare))
    look = offline.look(bare)
    assert look.tree.revision == f"main@sha1:{repo.head()}"
    assert [problem.code for problem in look.admission.problems] == ["S101"]


@pytest.mark.slow
def test_a_folder_that_holds_nothing_of_a_configuration_is_said_to_be_none(world: World) -> None:
    (world.root / "papers").mkdir()
    (world.root / "papers" / "letter.txt").write_text("Dear")
    ran = world.handler("validate", "-c", "papers")
    assert (ran.code, ran.out) == (0, "")
    assert "0 errors in 0 files.\nhandler: there is no handler.toml in ./papers, nor anything" in ran.err
    (world.root / "papers" / "handler.toml").touch()
    assert "handler.toml in" not in world.handler("validate", "-c", "papers").err
