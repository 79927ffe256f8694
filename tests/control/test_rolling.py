"""A rollback serves an earlier revision until the source moves past the one it was rolled back from."""

import itertools
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.control import rolling
from reconciler.control.admitted import Admitted
from reconciler.control.looking import Look, Looker
from reconciler.control.place import Place
from reconciler.model.inventory import Layer
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.status import Summary
from tests.kit.effort import times
from tests.plan import build

FAST = ObjectRef(Kind.BINDING, "fast")
CODE = 'apiVersion = "handler.binding/v1"\nconnector = "ocr-tesseract"\ndescription = "'
MANUAL = 'apiVersion = "handler.config/v1"\n[reconcile]\nmode = "manual"\n'


class Folder:
    """A configuration that is looked at, and may be looked at by another controller."""

    def __init__(self, root: Path) -> None:
        self.place = Place(root / "config", root / "state", root / "run")
        self.save(1)
        self.looker = self.restarted()
        self.looker.look(())

    def save(self, number: int, path: str = "bindings/fast.toml") -> None:
        file = self.place.config / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'{CODE}{number}"\n')

    def restarted(self) -> Looker:
        ticks = itertools.count(0, 100)  # slow enough that nothing flaps
        admitted = Admitted(self.place.state / "admitted")
        self.looker = Looker(self.place, admitted, clock=lambda: float(next(ticks)))
        self.looker.first()
        return self.looker

    def seen(self, *, explicit: bool = False) -> Look:
        look = self.looker.look(None if explicit else ())
        assert isinstance(look, Look)
        return look

    def edit(self, *numbers: int) -> None:
        for number in numbers:
            self.save(number)
            self.seen()

    def back(self, wanted: str = "") -> None:
        assert isinstance(self.looker.roll_back(wanted), Look)

    @property
    def number(self) -> str:
        """Which version of the binding is in force."""
        assert self.looker.last is not None
        form = self.looker.last.admission.in_force[FAST]
        return str(getattr(form.spec, "description", ""))

    def said(self) -> Mapping[str, object] | None:
        return self.looker.told(Summary(configuration="")).rollback


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    yield Folder(tmp_path)


def test_the_previous_revision_is_served_until_the_source_changes(folder: Folder) -> None:
    folder.edit(2)
    folder.back()
    assert folder.number == "1"
    assert not folder.seen().changed
    assert folder.number == "1"
    assert folder.said() is not None
    folder.edit(3)
    assert folder.number == "3"
    assert folder.said() is None
    assert not (folder.place.state / "rollback.json").exists()


@pytest.mark.slow
def test_a_restart_serves_the_same_and_still_follows_the_source(folder: Folder) -> None:
    folder.edit(2)
    folder.back()
    folder.restarted()
    assert folder.number == "1"
    folder.seen()
    assert folder.number == "1"
    assert folder.said() is not None
    folder.restarted()
    folder.edit(3)
    assert folder.number == "3"
    folder.restarted()
    assert (folder.seen(), folder.said())[1] is None


@pytest.mark.slow
def test_an_apply_ends_it(folder: Folder) -> None:
    folder.edit(2)
    folder.back()
    folder.seen(explicit=True)
    assert folder.number == "2"
    folder.restarted()
    folder.seen()
    assert folder.number == "2"


@pytest.mark.slow
def test_back_once_more_goes_further_and_never_to_what_was_rolled_back_from(folder: Folder) -> None:
    folder.edit(2, 3)
    folder.back()
    assert folder.number == "2"
    folder.back()
    assert folder.number == "1"
    with pytest.raises(rolling.NotKept, match="no earlier revision"):
        folder.back()
    assert folder.number == "1"
    assert folder.seen().admission.in_force[FAST]


@pytest.mark.slow
def test_a_revision_is_named_whole_or_by_its_content(folder: Folder) -> None:
    revision = folder.seen().admission.inventory.revision
    folder.edit(2, 3)
    assert folder.looker.last
    folder.back(revision)
    assert folder.number == "1"
    content = folder.looker.told(Summary(configuration="")).history[2]
    folder.seen(explicit=True)
    folder.back(str(content["digest"]).removeprefix("sha256:")[:8])
    assert folder.number == "2"


@pytest.mark.slow
def test_an_unknown_revision_lists_what_is_kept(folder: Folder) -> None:
    folder.edit(2)
    with pytest.raises(
        rolling.NotKept, match=r"'main@beef' is not kept; kept are: none@[0-9a-f]{7} \(content"
    ):
        folder.back("main@beef")
    with pytest.raises(rolling.NotKept, match=r"'\\u001b\[31m' is not kept"):
        folder.back("\x1b[31m")


@pytest.mark.slow
def test_what_the_source_holds_is_no_rollback(folder: Folder) -> None:
    folder.edit(2)
    assert folder.looker.last
    with pytest.raises(rolling.NotKept, match="what the source holds"):
        folder.back(folder.looker.last.admission.inventory.revision)
    assert folder.said() is None


@pytest.mark.slow
def test_connector_files_come_back_with_the_revision(folder: Folder) -> None:
    for path, text in (
        build.connector("mine", "ocr/v1", code="one\n") | build.binding("mine", "mine")
    ).items():
        file = folder.place.config / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    home = folder.place.config / "connectors/mine"
    before = folder.seen()
    assert not before.admission.refused
    (home / "main.py").write_text("two, and longer\n")
    after = folder.seen()
    folder.back()
    assert folder.looker.last
    recipes = [
        {str(name) for name in look.desired.table.recipes} for look in (before, after, folder.looker.last)
    ]
    assert recipes[0] == recipes[2] != recipes[1]
    code = [
        pinned.files["main.py"]
        for pinned in folder.looker.last.desired.code.values()
        if "main.py" in pinned.files
    ]
    assert b"one\n" in code


@pytest.mark.slow
def test_the_same_files_under_another_name_end_nothing(folder: Folder) -> None:
    folder.edit(2)
    folder.back()
    git = folder.place.config / ".git"
    (git / "refs/heads").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    look = folder.seen()
    assert folder.number == "1"
    assert look.admission.in_force[FAST]
    assert folder.said() is not None


@pytest.mark.slow
def test_in_manual_mode_only_an_apply_ends_it(folder: Folder) -> None:
    (folder.place.config / "handler.toml").write_text(MANUAL)
    folder.seen(explicit=True)
    folder.save(2)
    assert folder.seen().waits
    folder.seen(explicit=True)
    folder.back()
    folder.save(3)
    assert folder.seen().waits
    assert folder.number == "1"
    told = folder.looker.rolling.condition(folder.looker.attempted)
    assert told is not None
    assert "the source is at" in told.message
    folder.seen(explicit=True)
    assert folder.number == "3"


@pytest.mark.slow
@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"revision": 1}'])
def test_a_spoilt_record_serves_the_source(folder: Folder, text: str) -> None:
    folder.edit(2)
    folder.back()
    (folder.place.state / "rollback.json").write_text(text)
    folder.restarted()
    folder.seen()
    assert folder.number == "2"


@pytest.mark.slow
def test_a_source_that_cannot_be_read_is_no_obstacle(folder: Folder) -> None:
    folder.edit(2, 3)
    away = folder.place.config.rename(folder.place.config.with_name("away"))
    folder.back()
    assert folder.number == "2"
    folder.restarted()
    folder.back()
    assert folder.number == "1"
    folder.back("none@sha256:" + str(folder.looker.admitted.history[2].revision).partition(":")[2])
    assert folder.number == "3"
    away.rename(folder.place.config)
    folder.seen()
    assert folder.number == "3"
    folder.edit(4)
    assert folder.number == "4"
    assert folder.said() is None


@pytest.mark.slow
def test_a_source_that_was_never_seen_is_no_obstacle_either(folder: Folder) -> None:
    folder.edit(2)
    away = folder.place.config.rename(folder.place.config.with_name("away"))
    folder.restarted()
    folder.back()
    assert folder.number == "1"
    away.rename(folder.place.config)
    folder.seen()
    assert folder.number == "1"


@pytest.mark.slow
def test_a_record_that_is_no_file_serves_the_source(folder: Folder) -> None:
    folder.edit(2)
    folder.back()
    record = folder.place.state / "rollback.json"
    record.unlink()
    record.mkdir()
    folder.restarted()
    folder.seen()
    assert folder.number == "2"


def test_a_rollback_that_cannot_be_written_down_changes_nothing(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.edit(2)

    def full(*_: object, **__: object) -> bool:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(rolling.atomic, "write", full)
    with pytest.raises(OSError, match="No space"):
        folder.back()
    assert folder.number == "2"
    folder.seen()
    assert folder.number == "2"


def test_the_history_says_what_was_served_when(folder: Folder) -> None:
    folder.edit(2)
    folder.back()
    told = folder.looker.told(Summary(configuration=""))
    first, second = told.history
    assert (first["count"], second["count"]) == (2, 1)
    assert told.rollback is not None
    assert first["revision"] == told.rollback["revision"]
    assert told.last_attempted == second["revision"] == told.rollback["insteadOf"]


def test_the_beginning_and_the_end_are_events() -> None:
    one = rolling.Rollback("a", "1", "b", "2", (), 0.0)
    assert rolling.event(None, one, "a") == ("Warning", "RolledBack", "a is served instead of b")
    assert rolling.event(one, one, "a") is None
    assert rolling.event(None, None, "a") is None
    ended = ("Normal", "ReconcileSuccess", "the rollback to a ended: c is served")
    assert rolling.event(one, None, "c") == ended


def test_revisions_that_read_the_same_are_told_apart_by_their_contents() -> None:
    one = rolling.Rollback("main@sha1:ab+dirty:1", "1" * 64, "main@sha1:ab+dirty:2", "2" * 64, (), 0.0)
    said = rolling.event(None, one, "")
    assert said is not None
    assert said[2] == (
        "main@sha1:ab+dirty:1 (content 111111111111) is served instead of "
        "main@sha1:ab+dirty:2 (content 222222222222)"
    )
    ended = rolling.event(one, None, "main@sha1:ab+dirty:2")
    assert ended is not None
    assert "the rollback to main@sha1:ab+dirty:1 (content 111111111111) ended" in ended[2]


@pytest.mark.slow
def test_the_tree_that_serves_is_the_same_object_at_each_look(folder: Folder) -> None:
    folder.edit(2)
    folder.back()
    first = folder.seen().admission.inventory.trees[Layer.CONFIG]
    assert folder.seen().admission.inventory.trees[Layer.CONFIG] is first


class Model:
    """What is served, by the rules in three sentences: the source, but for a rollback; a rollback holds as
    long as the source's files stay; back means the newest content that was not rolled back from.
    """

    def __init__(self) -> None:
        self.source = self.served = 1
        self.kept, self.passed, self.stands = [1], list[int](), 0  # stands: what was rolled back from, or 0

    def look(self, *, explicit: bool = False) -> None:
        if self.stands and (explicit or self.source != self.stands):
            self.stands, self.passed = 0, []
        self._admit(self.served if self.stands else self.source)

    def back(self) -> bool:
        """False when there is nothing to go back to."""
        found = [one for one in self.kept[1:] if one not in self.passed]
        if not found or found[0] == self.source:
            return False
        self.passed += [self.served, self.source]
        self.passed = [one for one in self.passed if one != found[0]]
        self.stands = self.source
        self._admit(found[0])
        return True

    def _admit(self, content: int) -> None:
        self.served = content
        self.kept = [content, *(one for one in self.kept if one != content)][:5]


_ACTS = st.one_of(st.integers(1, 7), st.sampled_from(["look", "back", "apply", "restart"]))


@pytest.mark.slow
@given(st.lists(_ACTS, max_size=25))
@settings(max_examples=times(25))
def test_edits_rollbacks_applies_and_restarts_in_any_order_serve_what_the_rules_say(
    acts: list[int | str],
) -> None:
    with tempfile.TemporaryDirectory() as root:
        folder, model = Folder(Path(root)), Model()
        for act in acts:
            if isinstance(act, int):
                folder.save(act)
                model.source = act
            elif act == "restart":
                folder.restarted()
            elif act == "back":
                if not model.back():
                    with pytest.raises(rolling.NotKept):
                        folder.back()
                else:
                    folder.back()
            else:
                model.look(explicit=act == "apply")
                folder.seen(explicit=act == "apply")
            assert folder.number == str(model.served)
            assert [str(one["revision"]) for one in folder.looker.told(Summary(configuration="")).history]
