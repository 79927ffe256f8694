"""Looking: what is decided, what waits, and what survives."""

from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.control.admitted import Admitted
from reconciler.control.looking import Look, Looker
from reconciler.control.place import Place
from reconciler.control.source import Gone
from reconciler.model.names import Kind, ObjectRef
from reconciler.plan import routing

OCR = ObjectRef(Kind.BINDING, "ocr-a")
CLERK = ObjectRef(Kind.AGENT, "clerk")
BINDING = 'apiVersion = "handler.binding/v1"\nconnector = "ocr-tesseract"\n'
AGENT = 'apiVersion = "handler.agent/v1"\nrequires = ["ocr/v1"]\nservices = { ocr = "ocr-a" }\n'
MANUAL = 'apiVersion = "handler.config/v1"\n[reconcile]\nmode = "manual"\n'


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path / "config", tmp_path / "state", tmp_path / "run")
    for folder in ("config/bindings", "config/agents", "state/admitted"):
        (tmp_path / folder).mkdir(parents=True)
    (made.config / "bindings" / "ocr-a.toml").write_text(BINDING)
    (made.config / "agents" / "clerk.toml").write_text(AGENT)
    return made


@pytest.fixture
def looker(place: Place) -> Callable[[], Looker]:
    def make() -> Looker:
        made = Looker(place, Admitted(place.state / "admitted"))
        made.first()
        return made

    return make


def decided(found: object) -> Look:
    assert isinstance(found, Look), found
    return found


def test_what_is_admitted_is_desired(looker: Callable[[], Looker]) -> None:
    look = decided(looker().look(()))
    assert OCR in look.admission.in_force
    assert look.desired.table.agents["clerk"].routes["ocr"].binding == "ocr-a"


@pytest.mark.slow
def test_the_same_tree_is_decided_once(looker: Callable[[], Looker]) -> None:
    one = looker()
    first = decided(one.look(()))
    second = decided(one.look(()))
    assert not second.changed
    assert second.desired is first.desired


@pytest.mark.slow
def test_a_restart_on_a_broken_tree_has_the_same_in_force(place: Place, looker: Callable[[], Looker]) -> None:
    before = decided(looker().look(()))
    (place.config / "agents" / "clerk.toml").write_text("services = {")
    (place.config / "bindings" / "ocr-a.toml").write_text("<<<<<<< HEAD\n")
    after = looker()
    assert after.last is not None
    assert after.last.desired.table.agents.keys() == before.desired.table.agents.keys()
    look = decided(after.look(()))
    assert {OCR, CLERK} <= look.admission.retained
    assert look.desired.recipes.keys() == before.desired.recipes.keys()


def test_a_removal_that_an_agent_or_a_session_needs_waits_for_an_apply(
    place: Place, looker: Callable[[], Looker]
) -> None:
    one = looker()
    decided(one.look(()))
    (place.config / "bindings" / "ocr-a.toml").unlink()
    assert "agent/clerk" in decided(one.look(())).held[OCR].message
    (place.config / "bindings" / "ocr-b.toml").write_text(BINDING)
    (place.config / "agents" / "clerk.toml").write_text(AGENT.replace("ocr-a", "ocr-b"))
    assert "an open session" in decided(one.look({"ocr-a"})).held[OCR].message
    look = decided(one.look(()))
    assert not look.held
    assert OCR not in look.admission.in_force


@pytest.mark.slow
def test_an_explicit_apply_with_the_flag_holds_nothing_back(
    place: Place, looker: Callable[[], Looker]
) -> None:
    one = looker()
    decided(one.look(()))
    (place.config / "bindings" / "ocr-a.toml").unlink()
    (place.config / "agents" / "clerk.toml").unlink()
    assert decided(one.look(None)).held  # everything: that needs the flag
    look = decided(one.look(None, prune_all=True))
    assert not look.held
    assert not look.desired.table.agents


@pytest.mark.slow
def test_an_unreadable_file_is_no_removal(place: Place, looker: Callable[[], Looker]) -> None:
    one = looker()
    decided(one.look(()))
    path = place.config / "bindings" / "ocr-a.toml"
    path.write_bytes(b"# " + b"x" * 2_000_000)
    look = decided(one.look(()))
    assert not look.held
    assert OCR in look.admission.retained


@pytest.mark.slow
def test_a_vanished_root_changes_nothing(place: Place, looker: Callable[[], Looker]) -> None:
    one = looker()
    decided(one.look(()))
    place.config.rename(place.config.with_name("away"))
    assert isinstance(one.look(()), Gone)
    assert one.last is not None
    assert OCR in one.last.admission.in_force


@pytest.mark.slow
def test_manual_mode_decides_only_when_asked(place: Place, looker: Callable[[], Looker]) -> None:
    (place.config / "handler.toml").write_text(MANUAL)
    one = looker()
    waiting = decided(one.look(()))
    assert waiting.waits
    assert not waiting.desired.table.agents
    assert decided(one.look(None)).desired.table.agents.keys() == {"clerk"}
    assert not decided(one.look(())).waits
    (place.config / "agents" / "clerk.toml").unlink()
    waiting = decided(one.look(()))
    assert waiting.waits
    assert waiting.desired.table.agents.keys() == {"clerk"}
    assert not decided(one.look(None)).desired.table.agents


@pytest.mark.slow
def test_a_preview_changes_nothing(place: Place, looker: Callable[[], Looker]) -> None:
    one = looker()
    before = decided(one.look(()))
    (place.config / "agents" / "clerk.toml").unlink()
    assert not decided(one.preview()).desired.table.agents
    assert one.last is not None
    assert one.last.desired is before.desired


@pytest.mark.slow
def test_a_restart_takes_nothing_from_an_agent_that_rests_on_what_was_removed(
    place: Place, looker: Callable[[], Looker]
) -> None:
    """It keeps its last form, so that what else it uses is answered; after a restart as before."""
    (place.config / "bindings" / "other.toml").write_text(BINDING)
    one = looker()
    one.look(())
    (place.config / "bindings" / "ocr-a.toml").unlink()
    before = decided(one.look(None, prune_all=True))
    assert before.admission.retained == {CLERK}
    after = looker()
    for look in (after.last, decided(after.look(()))):
        assert look is not None
        assert look.admission.retained == {CLERK}
        assert routing.same_table(look.desired.table, before.desired.table)
        assert look.desired.table.agents["clerk"].routes["ocr"].suspended == "the binding was removed"


@pytest.mark.slow
def test_what_the_place_forbids_by_now_does_not_come_back_with_a_restart(
    place: Place, looker: Callable[[], Looker]
) -> None:
    scope = place.state.parent / "inbox"
    (place.config / "agents" / "clerk.toml").write_text(f'{AGENT}scope = ["{scope}"]\n')
    assert CLERK in decided(looker().look(())).admission.in_force
    place.state.rename(place.state.parent / "moved")
    scope.mkdir()
    moved = Place(place.config, place.state.parent / "moved", scope / "run")
    there = Looker(moved, Admitted(moved.state / "admitted"))
    assert CLERK not in there.first().admission.in_force
