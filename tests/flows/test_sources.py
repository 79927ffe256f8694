"""Sources, the whole way: commits instead of files, the gate on signatures, a repository that bites."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.control.test_commits import HOSTILE
from tests.control.test_signed import key, listed
from tests.kit.house import House, house, wait_for
from tests.kit.repos import Repo, canary

pytestmark = [pytest.mark.flow, pytest.mark.timeout(240)]

HEAD = 'apiVersion = "handler.config/v1"\n'
BINDING = 'apiVersion = "handler.binding/v1"\nconnector = "ocr-tesseract"\ndescription = "{}"\n'


class Place:
    def __init__(self, made: House, folder: Path) -> None:
        self.house = made
        self.mine = key(folder, "mine")
        self.allowed = folder / "allowed"
        self.allowed.write_text(listed(self.mine))
        self.settings = (
            f'{HEAD}[source]\nmode = "commit"\nverify = "signed"\nallowedSigners = "{self.allowed}"\n'
        )
        self.repo = Repo(made.config)
        self.repo.git("config", "gpg.format", "ssh")

    def commit(self, word: str, *, settings: str | None = None, signed: bool = True) -> str:
        how = f"--gpg-sign={self.mine}" if signed else "--no-gpg-sign"
        files: dict[str, str | bytes] = {"bindings/ocr-a.toml": BINDING.format(word)}
        return self.repo.commit(files | {"handler.toml": settings or self.settings}, how)

    def summary(self) -> dict[str, Any]:
        path = self.house.state / "status/summary.json"
        found: dict[str, Any] = orjson.loads(path.read_bytes()) if path.exists() else {}
        return found

    def synced(self) -> dict[str, Any]:
        found = (one for one in self.summary().get("conditions", []) if one["type"] == "Synced")
        return next(found, {})

    def word(self) -> str:
        return str(self.house.status("binding", "ocr-a").get("declared", {}).get("description"))

    def in_force(self, commit: str) -> None:
        wait_for(
            lambda: self.summary().get("lastAppliedRevision") == f"main@sha1:{commit}",
            f"{commit} is in force",
        )


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with house(tmp_path) as made:
        yield Place(made, tmp_path)


def test_only_signed_commits_go_live_and_a_refused_one_is_said_everywhere(place: Place) -> None:
    first = place.commit("one")
    place.house.start()
    place.in_force(first)

    place.house.write("bindings/ocr-a.toml", BINDING.format("edited"))
    wait_for(lambda: place.summary()["dirty"], "the edit is seen")
    assert place.summary()["lastAppliedRevision"] == f"main@sha1:{first}"

    refused = place.commit("two", signed=False)
    wait_for(lambda: place.synced().get("reason") == "SourceRefused", "the unsigned commit is refused")
    assert "it is not signed; sign it: `git commit --amend --no-edit -S`" in place.synced()["message"]
    assert place.summary()["lastAttemptedRevision"] == f"main@sha1:{refused}"
    assert place.summary()["lastAppliedRevision"] == f"main@sha1:{first}"
    done = place.house.handler("apply", "-y", check=False)
    assert done.returncode == 2
    assert "is not signed" in done.stderr
    status = place.house.handler("status", check=False)
    assert "is not signed" in status.stdout
    waited = place.house.handler("wait", "configuration", "--for=Synced", "--revision", refused, check=False)
    assert waited.returncode == 1
    assert "SourceRefused" in waited.stderr
    assert "is not signed" in waited.stderr

    place.house.kill()
    place.house.start()
    wait_for(lambda: place.synced().get("reason") == "SourceRefused", "after a restart it is still refused")
    assert place.summary()["lastAppliedRevision"] == f"main@sha1:{first}"

    place.repo.git("commit", "-q", "--amend", "--no-edit", f"--gpg-sign={place.mine}")
    place.in_force(place.repo.head())
    assert place.synced()["status"] == "True"
    assert f"{refused} is not" not in place.synced().get("message", "")


def test_a_reset_to_an_older_commit_is_applied_and_said(place: Place) -> None:
    first = place.commit("one", settings=HEAD)
    second = place.commit("two", settings=HEAD)
    place.house.start()
    place.in_force(second)
    place.repo.git("reset", "-q", "--hard", first)
    place.in_force(first)
    assert f"{first} is not a descendant of {second}" in place.synced()["message"]
    assert "not a descendant" in place.house.handler("events").stdout


def test_a_repository_of_somebody_else_that_bites_is_served_and_runs_nothing(
    place: Place, tmp_path: Path
) -> None:
    program, trace = canary(tmp_path)
    place.commit("one")
    place.repo.write({".gitattributes": "* filter=x diff=x\n"})
    place.commit("two")
    for setting in HOSTILE:
        place.repo.git("config", setting, str(program))
    for hook in ("post-index-change", "reference-transaction", "post-checkout", "post-commit"):
        shutil.copy(program, place.repo.root / ".git/hooks" / hook)
    name = place.repo.head()
    if os.geteuid() == 0:
        for path in (place.repo.root, *place.repo.root.rglob("*")):
            os.chown(path, 12345, 12345, follow_symlinks=False)
    place.house.start()
    place.in_force(name)
    for words in (("diff",), ("apply", "-y"), ("validate",), ("status",), ("diff", "--rev", "HEAD~1..HEAD")):
        place.house.handler(*words, check=False)
    assert not trace.exists()
    assert place.synced()["status"] == "True"
