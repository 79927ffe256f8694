"""diff between commits: read from the object store, offline, whole or not at all; and apply as agreed."""

import json
from pathlib import Path

import pytest

from reconciler.control import once
from tests.doors.conftest import World
from tests.kit.repos import Repo

_BINDING = "bindings/ocr-tesseract.toml"


@pytest.fixture
def repo(world: World) -> Repo:
    """A configuration of two commits: as scaffolded, and with another idle stop; and an edit since."""
    assert world.handler("init", "config").code == 0
    made = Repo(world.config)
    made.commit({})
    text = (world.config / _BINDING).read_text()
    assert "idleStopSeconds = 300" in text
    made.commit({_BINDING: text.replace("idleStopSeconds = 300", "idleStopSeconds = 60")})
    made.write({_BINDING: "not = even\n"})
    return made


@pytest.mark.slow
def test_two_commits_are_compared_whatever_lies_in_the_work_tree_and_nothing_is_written(
    world: World, repo: Repo
) -> None:
    ran = world.handler("diff", "--rev", "HEAD~1..main", "-c", "config", "-o", "json")
    assert (ran.code, ran.err) == (1, "")
    found = json.loads(ran.out)
    assert found["from"].endswith(repo.git("rev-parse", "HEAD~1"))
    assert found["revision"] == f"main@sha1:{repo.head()}"
    changed = {one["object"]: one for one in found["changes"]}
    assert set(changed) == {"agent/reader", "binding/ocr-tesseract"}
    assert changed["binding/ocr-tesseract"]["bounds"] == [{"key": "idleStopSeconds", "from": 300, "to": 60}]
    assert changed["agent/reader"]["effect"] == "next session"
    assert not world.state.exists()
    text = world.handler("diff", "--rev", "HEAD~1..main", "-c", "config").out
    assert "idleStopSeconds: 300 → 60" in text
    assert world.handler("diff", "--rev", "HEAD..main", "-c", "config").out == "Nothing would change.\n"
    assert world.handler("diff", "--rev", "HEAD~1..main", "--detailed-exitcode", "-c", "config").code == 2


@pytest.mark.slow
def test_one_commit_is_compared_with_what_is_in_force(world: World, repo: Repo) -> None:
    assert world.handler("diff", "--rev", "main", "-c", "config").code == 1
    repo.git("checkout", "-q", "-f", "main")
    assert world.handler("apply", "-c", "config").code == 0
    assert world.handler("diff", "--rev", "main", "-c", "config").out == "Nothing would change.\n"
    back = json.loads(world.handler("diff", "--rev", "main~1", "-c", "config", "-o", "json").out)
    assert back["from"] == f"main@sha1:{repo.head()}"
    (binding,) = [one for one in back["changes"] if one["object"] == "binding/ocr-tesseract"]
    assert binding["bounds"] == [{"key": "idleStopSeconds", "from": 60, "to": 300}]


@pytest.mark.slow
@pytest.mark.parametrize("rev", ["nope", "main..nope", "nope..main", "..", "main..", "..main", "main...main"])
def test_what_cannot_be_compared_exits_2_and_prints_no_part_of_it(world: World, repo: Repo, rev: str) -> None:
    ran = world.handler("diff", "--rev", rev, "-c", "config", "-o", "json")
    assert (ran.code, ran.out) == (2, "")
    assert "nope" in ran.err or "A..B" in ran.err
    assert "fault of its own" not in ran.err


@pytest.mark.slow
def test_without_a_repository_there_is_no_commit_to_compare(world: World) -> None:
    assert world.handler("init", "config").code == 0
    ran = world.handler("diff", "--rev", "HEAD", "-c", "config")
    assert (ran.code, ran.out) == (2, "")
    assert "lies in no git repository" in ran.err


@pytest.mark.slow
def test_what_the_older_commit_refuses_counts_as_not_there_and_is_said(world: World, repo: Repo) -> None:
    good = repo.git("show", f"main:{_BINDING}")
    repo.commit({}, message="broken")
    repo.commit({_BINDING: good}, message="mended")
    found = json.loads(world.handler("diff", "--rev", "main~1..main", "-c", "config", "-o", "json").out)
    names = ["agent/reader", "binding/ocr-tesseract", "project/paperwork"]
    assert found["refusedBefore"] == names
    assert {one["object"]: one["verb"] for one in found["changes"]} == dict.fromkeys(names, "add")
    ran = world.handler("diff", "--rev", "main~1..main", "-c", "config")
    assert ran.out.count("it was refused before") == 3
    assert world.handler("diff", "--rev", "main~2..main~1", "-c", "config").code == 2


@pytest.mark.slow
def test_what_was_agreed_to_is_applied_only_where_it_is_still_that(world: World, repo: Repo) -> None:
    repo.git("checkout", "-q", "-f", "main")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in world.env().items():
            patch.setenv(name, value)
        shown = once.preview(Path(world.config))["revision"]
        repo.write({"handler.toml": 'apiVersion = "handler.config/v1"\n# later\n'})
        with pytest.raises(OSError, match="changed since it was shown, and nothing was applied"):
            once.apply(Path(world.config), shown)
        assert once.preview(Path(world.config))["from"] is None
        now = once.preview(Path(world.config))["revision"]
        assert once.apply(Path(world.config), now)["applied"] is True
