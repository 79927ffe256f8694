"""Who does which job, and the folders that its files go through."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reconciler.attempts.records import Attempt, Execution, Owner, Request
from reconciler.control.jobs import Runner
from reconciler.control.runners import Registry
from reconciler.control.staging import Staging
from reconciler.model.names import InstanceName

HERE, ELSEWHERE = InstanceName("here", "a" * 64), InstanceName("elsewhere", "b" * 64)


def attempt(executor: str) -> Attempt:
    made_for = Execution("gone", executor=executor)
    return Attempt("a1", "h", Owner("clerk"), "s", "k", "film/v1", "film_make_submit", made_for, Request(""))


def test_a_new_job_goes_by_its_runtime_and_an_old_one_by_its_own_words() -> None:
    recipes: dict[InstanceName, Any] = {
        HERE: SimpleNamespace(runtime="python"), ELSEWHERE: SimpleNamespace(runtime="remote")
    }  # fmt: skip
    registry = Registry(recipes.get)
    runner, ended = cast(Runner, object()), list[str]()
    told = {"progress": lambda _: 0.5, "over": lambda one: ended.append(one.id)}
    registry.register("process", runner, frozenset({"python"}), **told)
    assert registry.of(HERE) is runner
    assert registry.of(ELSEWHERE) is None
    assert registry.of(InstanceName("gone", "c" * 64)) is None
    assert registry.behind(attempt("process")) is runner  # its binding is gone
    assert registry.behind(attempt("")) is None
    assert (registry.progress(attempt("process")), registry.progress(attempt("other"))) == (0.5, None)
    registry.over(attempt("process"))
    registry.over(attempt("other"))
    assert ended == ["a1"]


def test_staging_begins_empty_and_takes_plain_names_alone(tmp_path: Path) -> None:
    folder = tmp_path / "staging"
    (folder / "in").mkdir(parents=True)
    (folder / "in" / "left").write_text("of a killed controller")
    staging = Staging(folder)
    assert staging.descriptors() == staging.descriptors()
    assert not staging.path("left").exists()
    staging.lay("blob", [b"a", b"b"])
    assert (folder / "out" / "blob").read_bytes() == b"ab"
    with pytest.raises(FileExistsError):
        staging.lay("blob", [b"c"])
    for name in ("", "../x", "a/b", ".hidden"):
        with pytest.raises(ValueError, match="is no name of a file"):
            staging.path(name)
