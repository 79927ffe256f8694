"""What became of files that were written for harnesses: told with the command that helps, never put right."""

import json
from pathlib import Path

import anyio
import pytest

from reconciler.control import harnessfiles
from reconciler.control.harnessdrift import HarnessDrift
from reconciler.harness import wishes
from reconciler.harness.harnesses import HARNESSES, Service
from reconciler.harness.ledger import Ledger, User
from reconciler.harness.wishes import Wish


class _Project:
    """A project into which two services of agent ``a`` were written, and a skill."""

    def __init__(self, root: Path) -> None:
        self.state, self.folder = root / "state", root / "my site"
        self.state.mkdir()
        self.folder.mkdir()
        self.file, self.skill = self.folder / ".zed/settings.json", self.folder / "skills/ocr/SKILL.md"
        row = HARNESSES["zed"]
        entries = {name: row.entry(Service(name, ("/b", name), 1)) for name in ("llm", "ocr")}
        user = User("a", "zed", str(self.folder))
        self.write(Wish(user, str(self.file), entries, {str(self.skill): b"text"}))

    def write(self, wish: Wish) -> None:
        with harnessfiles.remembered(self.state) as (ledger, remember):
            found = {path: harnessfiles.data(Path(path)) for path in wishes.touched(ledger, wish)}
            plan = wishes.plan(ledger, wish, found)
            assert not plan.refusals
            harnessfiles.done(plan, ledger, self.state, harnessfiles.Way(remember))


@pytest.fixture
def project(tmp_path: Path) -> _Project:
    return _Project(tmp_path)


def _told(drift: HarnessDrift, *agents: str, served: tuple[str, ...] = ("llm", "ocr")) -> list[str]:
    found = drift.found(agents or ("a",), {"a": dict.fromkeys(served, 1.0)})
    assert all(anyio.run(one.mend) for one in found)  # why it is not put right
    return [one.words for one in found]


def test_what_is_as_it_was_left_is_not_told(project: _Project) -> None:
    drift = HarnessDrift(project.state)
    assert not drift.is_idle()
    assert _told(drift) == []
    assert _told(drift) == []


def test_nothing_is_looked_at_where_nothing_was_written(tmp_path: Path) -> None:
    drift = HarnessDrift(tmp_path)
    assert drift.is_idle()
    assert drift.found(("a",), {}) == []


def test_an_edit_a_removal_and_a_broken_file_are_told_once_they_are_made(project: _Project) -> None:
    drift = HarnessDrift(project.state)
    assert _told(drift) == []
    whole = project.file.read_text()
    file = f"{project.file}: "
    words = f"`handler render a --harness zed --write --force --into '{project.folder}'` puts it right"
    words += "; --keep in place of --force leaves it as it is, as yours"
    project.file.write_text(whole.replace('"/b"', '"/c"', 1))
    assert _told(drift) == [f"{file}the server 'llm' in it was changed · {words}"]
    value = json.loads(whole)
    del value["context_servers"]["ocr"]
    project.file.write_text(json.dumps(value))
    assert _told(drift) == [f"{file}the server 'ocr' was removed from it · {words}"]
    project.file.write_text("{")
    assert "it cannot be read: line 1" in _told(drift)[0]
    project.file.unlink()
    assert _told(drift) == [f"{file}it is gone · {words}"]
    project.file.write_text(whole)
    assert _told(drift) == []
    project.skill.write_text("other")
    assert _told(drift) == [f"{project.skill}: it was changed · {words}"]


def test_services_that_came_or_went_are_told(project: _Project) -> None:
    drift = HarnessDrift(project.state)
    words = f"`handler render a --harness zed --write --into '{project.folder}'` puts it right"
    assert _told(drift, served=("ocr", "web")) == [
        f"{project.file}: the server 'web' is not in it yet · {words}",
        f"{project.file}: the server 'llm' in it is not served any more · {words}",
    ]


def test_a_limit_that_changed_is_told(project: _Project) -> None:
    (one,) = HarnessDrift(project.state).found(("a",), {"a": {"llm": 1, "ocr": 600}})
    assert one.message == f"{project.file}: the server 'ocr' would be written otherwise now"


def test_an_agent_that_is_not_served_now_is_no_drift(project: _Project) -> None:
    assert HarnessDrift(project.state).found(("a",), {}) == []


def test_what_was_written_for_an_agent_that_is_no_more_is_told_of_the_configuration(
    project: _Project,
) -> None:
    (one,) = HarnessDrift(project.state).found(("b",), {})
    assert one.own
    assert one.about == ()
    assert one.hint == f"`handler render a --remove --into '{project.folder}'` puts it right"


def test_a_record_that_cannot_be_read_is_no_drift(project: _Project) -> None:
    (project.state / "harness/written.json").write_text("{}")
    assert HarnessDrift(project.state).found(("a",), {}) == []
    with pytest.raises(harnessfiles.Unfit, match=r"written\.json cannot be read"):
        harnessfiles.read(project.state)


def test_what_is_remembered_is_read_as_it_was_written(project: _Project) -> None:
    ledger = harnessfiles.read(project.state)
    assert ledger != Ledger()
    with harnessfiles.remembered(project.state) as (_, remember):
        remember(ledger)
    assert harnessfiles.read(project.state) == ledger
    assert ledger.users("a", str(project.folder)) == [User("a", "zed", str(project.folder))]
    assert set(ledger.folders) == {
        str(project.folder / ".zed"),
        str(project.folder / "skills"),
        str(project.folder / "skills/ocr"),
    }


def test_a_file_that_changes_between_the_look_and_the_write_stays(project: _Project) -> None:
    user = User("a", "zed", str(project.folder))
    with harnessfiles.remembered(project.state) as (ledger, remember):
        wish = Wish(user)
        found = {path: harnessfiles.data(Path(path)) for path in wishes.touched(ledger, wish)}
        plan = wishes.plan(ledger, wish, found)
        project.file.write_text("{} // mine now")
        with pytest.raises(harnessfiles.Unfit, match="changed meanwhile"):
            harnessfiles.done(plan, ledger, project.state, harnessfiles.Way(remember))
    assert project.file.read_text() == "{} // mine now"
    assert harnessfiles.read(project.state).shared.keys() == {str(project.file)}
