"""A bad change is got out of service without anybody writing git, and stays out until it is mended."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.model import revisions
from tests.flows.test_cutover import SAYS, binding, connector, word
from tests.kit.house import FIXTURES, House, house, wait_for

pytestmark = [pytest.mark.flow, pytest.mark.timeout(240)]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[House]:
    with house(tmp_path) as made:
        made.write("handler.toml", 'apiVersion = "handler.config/v1"\n')
        connector(made, "says", SAYS.format(word="one"))
        binding(made, "good", "says")
        made.write(
            "agents/clerk.toml",
            f'apiVersion = "handler.agent/v1"\nrequires = ["ocr/v1"]\nservices = {{ ocr = "good" }}\n'
            f'scope = ["{made.inbox}"]\n',
        )
        shutil.copy(FIXTURES / "invoice.png", made.inbox)
        yield made


def git(made: House, *words: str) -> str:
    name = ("-c", "user.name=t", "-c", "user.email=t@t.t", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", *name, *words], cwd=made.config, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(made: House, message: str) -> str:
    git(made, "add", "-A")
    git(made, "commit", "-qm", message)
    return git(made, "rev-parse", "HEAD")


def says(made: House, text: str) -> None:
    made.write("connectors/says/main.py", SAYS.format(word=text))


def serves(made: House, text: str) -> None:
    wait_for(lambda: word(made) == text, f"{text} serves")


def test_a_rollback_serves_the_code_of_then_until_the_source_moves_on(place: House) -> None:
    git(place, "init", "-q")
    first = commit(place, "one")
    place.start()
    place.handler("apply", "--wait")
    assert word(place) == "one"
    says(place, "two")
    bad = commit(place, "two")
    place.handler("wait", "configuration", "--for=Synced", "--revision", bad[:10], "--timeout", "60")
    serves(place, "two")

    head, files = git(place, "rev-parse", "HEAD"), git(place, "status", "--porcelain")
    told = json.loads(place.handler("rollback", "-o", "json").stdout)
    assert told["rollback"]["revision"] == f"main@sha1:{first}"
    serves(place, "one")
    assert (git(place, "rev-parse", "HEAD"), git(place, "status", "--porcelain")) == (head, files)
    wait_for(lambda: "RolledBack" in place.handler("status", check=False).stdout, "status says so")
    assert place.handler("check", "agent/clerk").returncode == 0
    refused = place.handler("wait", "configuration", "--for=Synced", check=False)
    assert refused.returncode == 1
    assert "RolledBack" in refused.stderr

    place.kill()
    place.start()
    serves(place, "one")
    git(place, "checkout", "-qb", "mend")
    place.handler("reconcile")
    serves(place, "one")

    says(place, "three")
    serves(place, "three")
    wait_for(lambda: "RolledBack" not in place.handler("status", check=False).stdout, "it is over")
    events = json.loads(place.handler("events", "configuration", "-o", "json").stdout)
    assert [one["reason"] for one in events].count("RolledBack") == 1
    assert any("the rollback to" in one["message"] for one in events)


def test_an_apply_ends_a_rollback_and_unknown_revisions_are_listed(place: House) -> None:
    place.start()
    place.handler("apply", "--wait")
    says(place, "two")
    serves(place, "two")
    wait_for(
        lambda: len(json.loads(place.handler("history", "-o", "json").stdout)) == 2, "it is in the history"
    )
    unknown = place.handler("rollback", "main@beefbeef", check=False)
    assert unknown.returncode == 1
    kept = json.loads(place.handler("history", "-o", "json").stdout)
    assert all(revisions.shortened(one["revision"]) in unknown.stderr for one in kept), unknown.stderr
    place.handler("rollback", "--to", kept[1]["digest"].removeprefix("sha256:")[:8])
    serves(place, "one")
    place.handler("apply", "--wait")
    serves(place, "two")


def test_what_was_pruned_goes_again_when_a_rollback_ends_and_the_contents_of_one_commit_are_told_apart(
    place: House,
) -> None:
    binding(place, "spare", "says")
    git(place, "init", "-q")
    commit(place, "one")
    place.start()
    place.handler("apply", "--wait")
    shutil.rmtree(place.config / "bindings")
    shutil.rmtree(place.config / "agents")
    gone = commit(place, "none")
    blocked = place.handler("apply", "-y", check=False)
    assert (blocked.returncode, "PruneBlocked" in place.handler("status", check=False).stdout) == (1, True)
    place.handler("apply", "-y", "--prune=all")
    held, pruned = (
        next(one["digest"] for one in json.loads(place.handler("history", "-o", "json").stdout) if which(one))
        for which in (lambda one: one["also"], lambda one: not one["also"])
    )
    back = place.handler("rollback", held.removeprefix("sha256:")[:12], check=False)
    assert back.returncode == 0, back.stderr
    name = f"main@{gone[:7]}"
    contents = [digest.removeprefix("sha256:")[:12] for digest in (held, pruned)]
    assert (
        f"{name} (content {contents[0]}) is served instead of {name} (content {contents[1]})" in back.stderr
    )
    assert place.handler("get", "bindings", "-o", "name").stdout.split() == ["binding/good", "binding/spare"]
    ended = place.handler("apply", "-y", check=False)
    assert ended.returncode == 0, ended.stderr
    assert not place.handler("get", "bindings", "-o", "name", check=False).stdout


def test_a_failed_start_is_tried_again_when_a_person_asks(place: House) -> None:
    place.start()
    place.handler("apply", "--wait")
    assert word(place) == "one"
    place.write("connectors/says/main.py", "raise SystemExit(3)\n")
    wait_for(
        lambda: "LastGoodRetained" in str(place.condition("binding", "good", "Synced")), "the old one serves"
    )
    assert place.handler("check", "agent/clerk").returncode == 0
    late = place.handler("wait", "agent/clerk", "--for=Ready", "--timeout", "1", check=False)
    assert late.returncode == 3
    place.handler("reconcile", "binding/good")
    assert place.status("binding", "good")["lastHandledRequestAt"]
    history = json.loads(place.handler("history", "binding/good", "-o", "json").stdout)
    assert history[0]["status"] in ("Waiting", "Applied")
    assert word(place) == "one"
