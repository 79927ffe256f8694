"""What the files say and a look does not do: over restarts, without a controller, slowly, by two writers."""

import itertools
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from reconciler.control import comparing, holding, once
from reconciler.control.admitted import Admitted
from reconciler.control.looking import Look, Looker
from reconciler.control.place import Place
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.status import Held, Summary
from tests.plan.build import agent, binding, connector, interface, published

SETTINGS = 'apiVersion = "handler.config/v1"\n'
FILES = {
    "handler.toml": SETTINGS,
    **interface("say"),
    **connector("speaker", "say/v1"),
    **{path: text for n in range(4) for path, text in binding(f"b{n}", "speaker").items()},
    **agent("clerk", {"say": "b0"}, 'requires = ["say/v1"]'),
    **agent("maid", {"say": "b1"}),
}
BINDINGS = {f"binding/b{n}" for n in range(4)}
B0, B3, CLERK = ObjectRef(Kind.BINDING, "b0"), ObjectRef(Kind.BINDING, "b3"), ObjectRef(Kind.AGENT, "clerk")


class Desk:
    """A configuration, and lookers at it whose clock a test moves."""

    def __init__(self, folder: Path) -> None:
        self.place = Place(folder / "config", folder / "state", folder / "run")
        self.now_s = 1000.0
        self.write(FILES)
        self.publish()
        self.looker = self.restart()

    def write(self, files: Mapping[str, str]) -> None:
        for path, text in files.items():
            file = self.place.config / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    def publish(self) -> None:

        data = {path: text.encode() for path, text in FILES.items()}
        (self.place.config / "handler.lock").write_bytes(published(data))

    def remove(self, *paths: str) -> None:
        for path in paths:
            file = self.place.config / path
            shutil.rmtree(file) if file.is_dir() else file.unlink()

    def restart(self) -> Looker:
        self.looker = Looker(self.place, Admitted(self.place.state / "admitted"), clock=lambda: self.now_s)
        self.looker.first()
        return self.looker

    def saved(self, in_use: tuple[str, ...] = ()) -> Look:
        return decided(self.looker.look(in_use))

    def applied(self, *, prune_all: bool = False) -> Look:
        return decided(self.looker.look(None, prune_all=prune_all))


def decided(found: object) -> Look:
    assert isinstance(found, Look), found
    return found


def held(look: Look) -> dict[str, str]:
    return {str(ref): one.reason for ref, one in look.held.items()}


def in_force(look: Look) -> set[str]:
    return {str(ref) for ref in look.admission.in_force if ref.kind is Kind.BINDING}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    made = Desk(tmp_path)
    look = made.saved()
    assert not look.admission.refused, look.admission.problems
    assert look.desired.table.agents.keys() == {"clerk", "maid"}
    return made


@pytest.mark.slow
def test_a_removed_folder_of_bindings_serves_on_until_a_person_says_all(desk: Desk) -> None:
    before = desk.saved()
    desk.remove("bindings")
    for look in (desk.saved(), desk.saved(), desk.applied(), desk.saved()):
        assert held(look) == dict.fromkeys(BINDINGS, "PruneBlocked")
        assert look.desired.table.recipes == before.desired.table.recipes
        assert look.desired.table.agents == before.desired.table.agents
        assert not look.admission.refused
    look = desk.applied(prune_all=True)
    assert not look.held
    assert not in_force(look)
    assert not desk.saved().changed


@pytest.mark.slow
@pytest.mark.parametrize("restarts", [False, True])
def test_what_was_pruned_and_came_back_by_a_rollback_goes_again_with_it(desk: Desk, restarts: bool) -> None:
    desk.remove("bindings")
    assert held(desk.applied()).keys() == BINDINGS
    assert not in_force(desk.applied(prune_all=True))
    desk.looker.roll_back("")
    assert in_force(desk.saved()) == BINDINGS
    rolled = desk.looker.told(Summary(configuration=""))
    assert rolled.rollback
    assert rolled.rollback["digest"] == rolled.history[0]["digest"]
    assert rolled.rollback["insteadOfDigest"] == rolled.history[1]["digest"]
    if restarts:
        desk.restart()
    assert in_force(desk.saved()) == BINDINGS
    previewed = desk.looker.preview()
    assert isinstance(previewed, Look)
    assert not previewed.held
    look = desk.applied()
    assert not look.held
    assert not in_force(look)
    assert not desk.saved().changed


@pytest.mark.slow
def test_a_rollback_is_no_agreement_to_what_is_removed_after_it(desk: Desk) -> None:
    desk.remove("bindings/b3.toml")
    assert "binding/b3" not in in_force(desk.applied())
    desk.looker.roll_back("")
    assert "binding/b3" in in_force(desk.saved())
    desk.remove("bindings")
    look = desk.saved()
    assert {ref for ref in held(look) if ref.startswith("binding")} == BINDINGS - {"binding/b3"}
    assert in_force(look) == BINDINGS - {"binding/b3"}, "that one had gone, and nobody needs it"
    assert "all 3 bindings" in look.held[B0].message


@pytest.mark.slow
def test_what_waits_for_a_session_when_an_edit_ends_a_rollback_is_still_agreed_to(desk: Desk) -> None:
    desk.remove("bindings")
    desk.applied(prune_all=True)
    desk.looker.roll_back("")
    desk.write(binding("new", "speaker"))
    for look in (desk.saved(("b2", "b3")), desk.saved(("b2", "b3"))):
        assert in_force(look) > {"binding/b2", "binding/b3", "binding/new"}
        assert look.held[B3].reason == "AwaitingApply"
    previewed = desk.looker.preview()
    assert isinstance(previewed, Look)
    assert not previewed.held
    look = desk.applied()
    assert not look.held
    assert in_force(look) == {"binding/new"}


@pytest.mark.slow
def test_what_was_blocked_before_a_rollback_is_blocked_after_it(desk: Desk) -> None:
    desk.write(binding("b0", "speaker", 'description = "newer"'))
    desk.saved()
    desk.remove("bindings")
    assert held(desk.saved()).keys() == BINDINGS
    desk.looker.roll_back("")
    assert held(desk.applied()) == dict.fromkeys(BINDINGS, "PruneBlocked")


@pytest.mark.slow
def test_a_restart_on_the_emptied_folder_serves_the_same_and_blocks_the_same(desk: Desk) -> None:
    before = desk.saved()
    desk.remove("bindings", "agents", "handler.lock", "interfaces", "connectors")
    blocked = desk.saved()
    for _ in range(2):
        first = decided(desk.restart().last)
        assert first.desired.table.recipes.keys() == before.desired.table.recipes.keys()
        look = desk.saved()
        assert look.held == blocked.held
        assert look.desired.table.agents.keys() == before.desired.table.agents.keys()
        assert not look.admission.refused, "its interfaces are published as they were"
    look = desk.applied(prune_all=True)
    assert {str(ref) for ref in look.admission.in_force if ref.kind is Kind.AGENT} == set()


@pytest.mark.slow
def test_files_that_come_back_are_in_force_as_if_nothing_was(desk: Desk) -> None:
    desk.remove("bindings")
    assert desk.saved().held
    desk.write(FILES)
    look = desk.saved()
    assert not look.held
    assert in_force(look) == BINDINGS


@pytest.mark.slow
def test_the_rest_of_an_edit_is_done_though_its_removals_are_blocked(desk: Desk) -> None:
    desk.remove("bindings")
    desk.write(binding("new", "speaker") | agent("third", {"say": "new"}))
    look = desk.applied()
    assert held(look) == dict.fromkeys(BINDINGS, "PruneBlocked")
    assert "third" in look.desired.table.agents


@pytest.mark.slow
@pytest.mark.parametrize("line", ["[prune]\nmaxFraction = 1\n", "[prune]\nmaxFraction = 0.9\n"])
def test_settings_of_the_same_edit_decide_how_much_may_go(desk: Desk, line: str) -> None:
    desk.write({"handler.toml": SETTINGS + line, **agent("clerk", {}), **agent("maid", {})})
    desk.saved()
    desk.remove("bindings/b1.toml", "bindings/b2.toml", "bindings/b3.toml")
    assert not desk.saved().held


def test_settings_that_go_with_everything_still_hold(desk: Desk) -> None:
    desk.write({"handler.toml": SETTINGS + "[prune]\nmaxFraction = 0.2\n"})
    desk.saved()
    desk.remove("handler.toml", "bindings/b2.toml", "bindings/b3.toml")
    for _ in range(2):
        assert held(desk.saved()).keys() == {"config/handler", "binding/b2", "binding/b3"}


def test_a_folder_that_is_deleted_file_by_file_is_no_series_of_small_edits(desk: Desk) -> None:
    desk.write(agent("clerk", {}) | agent("maid", {}))
    desk.saved()
    for number in range(4):
        desk.remove(f"bindings/b{number}.toml")
        desk.now_s += 2
        look = desk.saved()
    assert in_force(look) == {"binding/b2", "binding/b3"}
    desk.now_s += 3600
    assert in_force(desk.saved()) == {"binding/b2", "binding/b3"}


@pytest.mark.slow
def test_while_removals_are_blocked_a_look_at_the_same_files_decides_nothing_anew(desk: Desk) -> None:
    desk.remove("bindings")
    first = desk.saved()
    desk.now_s += 600
    again = desk.saved()
    assert not again.changed
    assert again.admission is first.admission
    assert desk.saved(("b0",)).changed, "another session is open: it is decided anew"
    assert not desk.saved(("b0",)).changed


@pytest.mark.slow
def test_an_apply_without_a_controller_refuses_and_says_so_in_the_summary(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANDLER_STATE", str(desk.place.state))
    monkeypatch.setenv("HANDLER_RUN", str(desk.place.run))
    desk.remove("bindings")
    told = once.apply(desk.place.config)
    assert {one["object"]: one["reason"] for one in told["held"]} == dict.fromkeys(BINDINGS, "PruneBlocked")
    summary = (desk.place.state / "status/summary.json").read_text()
    assert "PruneBlocked" in summary
    assert "handler apply --prune=all" in summary
    assert len(list((desk.place.state / "status/binding").iterdir())) == 4
    assert once.preview(desk.place.config)["held"]
    assert not once.preview(desk.place.config, comparing.Wish(prune_all=True))["held"]
    assert not once.apply(desk.place.config, prune_all=True)["held"]
    assert not list((desk.place.state / "status/binding").iterdir())


def test_in_manual_mode_a_saved_removal_waits_and_an_apply_refuses_it(desk: Desk) -> None:
    desk.write({"handler.toml": SETTINGS + '[reconcile]\nmode = "manual"\n'})
    desk.saved()
    desk.remove("bindings")
    assert desk.saved().waits
    assert held(desk.applied()) == dict.fromkeys(BINDINGS, "PruneBlocked")
    assert in_force(desk.saved()) == BINDINGS


@pytest.mark.slow
def test_a_preview_remembers_nothing_of_what_it_would_hold(desk: Desk) -> None:
    desk.remove("bindings")
    assert decided(desk.looker.preview()).held
    desk.write(FILES)
    assert not desk.saved().held


# two writers

FAST = binding("b3", "speaker", 'description = "one"\n')
SLOW = binding("b3", "speaker", 'description = "two"\n')


def fight(desk: Desk, turns: int) -> list[Look]:
    looks = []
    for number in range(turns):
        desk.write(FAST if number % 2 else SLOW)
        desk.now_s += 1
        looks.append(desk.saved())
    return looks


def described(look: Look) -> str:
    return str(getattr(look.admission.in_force[B3].spec, "description", ""))


@pytest.mark.slow
def test_an_object_that_two_programs_write_is_kept_as_it_was_applied_and_said_to_flap(desk: Desk) -> None:
    looks = fight(desk, 40)
    flapping = [look for look in looks if look.flapping]
    assert flapping
    assert all(look.flapping.keys() == {B3} for look in flapping)
    changes = sum(described(one) != described(two) for one, two in itertools.pairwise(flapping))
    assert changes <= 2, "one change in ten, then one in twenty seconds"
    assert any(held(look) == {"binding/b3": "Flapping"} for look in flapping)


@pytest.mark.slow
def test_while_it_waits_nothing_is_said_anew_and_its_hints_wait_for_the_timed_look(desk: Desk) -> None:
    assert not desk.looker.can_wait(["bindings/b3.toml"])
    fight(desk, 10)
    said = {(str(look.held), str(look.flapping)) for look in fight(desk, 4)}
    assert len(said) == 1, "a program that reacts to status files is not fed"
    assert desk.looker.can_wait(["bindings/b3.toml", "bindings/.b3.toml.swp"])
    assert not desk.looker.can_wait([]), "this says: look at everything"
    assert not desk.looker.can_wait(["bindings/b3.toml", "bindings/b2.toml"])
    assert not desk.looker.can_wait(["bindings/b30.toml"])
    desk.applied()
    assert not desk.looker.can_wait(["bindings/b3.toml"])


@pytest.mark.slow
def test_a_restart_slows_down_what_flapped(desk: Desk) -> None:
    looks = fight(desk, 12)
    assert any(held(look) == {"binding/b3": "Flapping"} for look in looks)
    book = desk.place.state / "flapping.json"
    assert book.exists()
    desk.restart()
    looks = fight(desk, 2)
    assert all(look.flapping.keys() == {B3} for look in looks)
    assert any(held(look) == {"binding/b3": "Flapping"} for look in looks)
    desk.now_s += 600
    assert not desk.saved().flapping
    assert not book.exists()
    book.write_bytes(b'{"ahead": 0, "objects": [{"object": "nonsense"}]}')
    desk.restart()  # what cannot be read is no harm
    assert not desk.saved().flapping


def test_the_files_of_a_connector_that_flaps_are_its_folder(desk: Desk) -> None:
    for number in range(12):
        desk.write(connector("speaker", "say/v1", code=f"print({number % 2})\n"))
        desk.now_s += 1
        look = desk.saved()
    assert {str(ref) for ref in look.held} == {"connector/speaker"}
    assert desk.looker.can_wait(["connectors/speaker/main.py"])
    assert not desk.looker.can_wait(["connectors/speakers/main.py"])


def test_the_others_are_changed_at_once_while_one_flaps(desk: Desk) -> None:
    fight(desk, 12)
    desk.write(binding("b2", "speaker", 'description = "news"\n'))
    look = desk.saved()
    assert "b2" not in {ref.name for ref in look.held}
    assert getattr(look.admission.in_force[ObjectRef(Kind.BINDING, "b2")].spec, "description", "") == "news"


@pytest.mark.slow
def test_a_fight_that_ended_is_settled_by_what_lies_there_and_is_forgotten(desk: Desk) -> None:
    fight(desk, 11)
    desk.write(binding("b3", "speaker", 'description = "the end"\n'))
    assert held(desk.saved()) == {"binding/b3": "Flapping"}
    waits_s = desk.looker.due_after_s()
    assert waits_s is not None
    desk.now_s += waits_s
    assert described(desk.saved()) == "the end"
    assert desk.saved().flapping, "it is not quiet yet"
    desk.now_s += 60
    look = desk.saved()
    assert not look.flapping
    assert desk.looker.due_after_s() is None
    assert not desk.saved().changed


@pytest.mark.slow
def test_an_apply_does_not_wait_for_what_flaps(desk: Desk) -> None:
    fight(desk, 11)
    desk.write(binding("b3", "speaker", 'description = "mine"\n'))
    assert described(desk.applied()) == "mine"


@pytest.mark.slow
def test_an_object_that_comes_and_goes_is_kept(desk: Desk) -> None:
    for number in range(14):
        if number % 2:
            desk.write(FAST)
        else:
            desk.remove("bindings/b3.toml")
        desk.now_s += 1
        look = desk.saved()
    assert B3 in look.flapping
    desk.place.config.joinpath("bindings/b3.toml").unlink(missing_ok=True)
    desk.now_s += 0.5
    assert "binding/b3" in in_force(desk.saved())


@pytest.mark.slow
def test_refused_texts_in_turn_with_good_ones_keep_the_last_good_form(desk: Desk) -> None:
    for number in range(20):
        desk.write(FAST if number % 2 else {"bindings/b3.toml": "description = "})
        desk.now_s += 1
        look = desk.saved()
        assert "binding/b3" in in_force(look)
    assert B3 in look.flapping


# what is said


def blocked(*names: str) -> dict[ObjectRef, Held]:
    return {ObjectRef.parse(name): Held("PruneBlocked", "all of it would go") for name in names}


def test_each_thing_that_is_held_is_news_once() -> None:
    waits = {B0: Held("AwaitingApply", "its file is gone")}
    quiet: tuple[dict[ObjectRef, Held], dict[ObjectRef, str]] = ({}, {})

    def news(before: object, after: object) -> list[tuple[str, str]]:
        return [(one[0], one[2]) for one in holding.news((*before, {}), (*after, {}))]  # type: ignore[arg-type]

    two = blocked("binding/a", "binding/b")
    assert news(quiet, (two, {})) == [("configuration", "PruneBlocked")]
    assert news((two, {}), (two, {})) == []
    assert news(quiet, (waits, {})) == [("binding/b0", "AwaitingApply")]
    assert news((waits, {}), quiet) == []
    assert news(quiet, ({}, {B3: "words"})) == [("binding/b3", "Flapping")]
    assert news(({}, {B3: "words"}), ({}, {B3: "other words"})) == []
    assert news(({}, {B3: "words"}), quiet) == [("binding/b3", "ReconcileSuccess")]


def test_the_configuration_says_how_much_is_blocked() -> None:
    assert holding.condition({}) is None
    assert holding.condition({B0: Held("AwaitingApply", "x")}) is None
    found = holding.condition(blocked("binding/a", "binding/b", "agent/c"))
    assert found is not None
    assert (found.status, found.reason) == ("False", "PruneBlocked")
    assert found.message.startswith("1 agent and 2 bindings stay in force")
