"""The blast radius: whole, in the user's words, and without a value that is secret."""

from dataclasses import replace

from reconciler.model.names import InstanceName
from reconciler.model.recipes import SecretUse
from reconciler.plan import impact as module
from reconciler.plan.desired import desire
from reconciler.plan.impact import Change, Held, as_json, impact
from tests.plan.build import HOME, KIT, SMALL, admitted, agent, binding, connector, interface


def changes(
    files: dict[str, str], *, before: dict[str, str] | None = None, sessions: tuple[Held, ...] = ()
) -> dict[str, Change]:
    """What an edit from ``before`` (the small configuration) to ``files`` changes, by object."""
    first = admitted(SMALL if before is None else before)
    found = impact(first, admitted(files, first, clean=False), sessions, kit=KIT, home=HOME)
    assert [change.object for change in found] == sorted(change.object for change in found)
    return {change.object: change for change in found}


def running(name: str) -> InstanceName:
    found = desire(admitted(SMALL), generation=0, kit=KIT, home=HOME)
    (one,) = [instance for instance in found.recipes if instance.binding == name]
    return one


def test_nothing_changes_where_nothing_differs() -> None:
    assert changes(SMALL) == {}
    assert changes(SMALL | {"bindings/fast.toml": SMALL["bindings/fast.toml"] + "# a comment\n"}) == {}


def test_the_first_time_everything_written_is_added() -> None:
    found = impact(None, admitted(SMALL), kit=KIT, home=HOME)
    assert {change.verb for change in found} == {"add"}
    assert [change.object for change in found] == [
        *("agent/clerk", "agent/maid", "binding/fast", "binding/good"),
        *("connector/ocr-fast", "connector/ocr-good", "interface/ocr/v1"),
    ]


def test_a_changed_setting_shows_before_and_after_the_new_instance_and_whom_it_reaches() -> None:
    old = running("fast")
    sessions = (Held("clerk", {old}), Held("clerk", {old}), Held("maid", {running("good")}))
    found = changes(SMALL | binding("fast", "ocr-fast", "settings.speed = 4\n"), sessions=sessions)
    assert set(found) == {"binding/fast", "agent/clerk"}
    change = found["binding/fast"]
    assert change.verb == "change"
    assert change.lines[0] == "settings.speed: nothing → 4"
    assert change.lines[1].startswith(f"new instance: {old} → fast@")
    assert change.lines[2] == f"2 sessions stay on {old} until they end"
    assert (change.sessions, change.agents) == (2, ("clerk",))
    clerk = found["agent/clerk"]
    assert clerk.lines[0].startswith(f"services.ocr: {old} → fast@")
    assert clerk.lines[-1] == "next session; 2 sessions stay as they are"


def test_a_rebind_names_both_bindings_and_the_next_session() -> None:
    found = changes(SMALL | agent("clerk", {"ocr": "good"}), sessions=(Held("clerk", {running("fast")}),))
    assert set(found) == {"agent/clerk"}
    lines = found["agent/clerk"].lines
    assert "services.ocr: 'fast' → 'good'" in lines
    assert "services.ocr: fast (ocr/v1) → good (ocr/v1)" in lines
    assert lines[-1] == "next session; 1 session stays as it is"


def test_a_changed_connector_reaches_its_bindings_and_their_agents() -> None:
    found = changes(SMALL | {"connectors/ocr-fast/main.py": "print(2)\n"})
    assert set(found) == {"connector/ocr-fast", "binding/fast", "agent/clerk"}
    assert found["connector/ocr-fast"].lines == ("files: main.py",)
    assert found["connector/ocr-fast"].agents == ("clerk",)
    assert any(line.startswith("connector ocr-fast: ") for line in found["binding/fast"].lines)


def test_what_is_refused_says_so_with_its_place_and_mend_and_what_stays_in_force() -> None:
    found = changes(
        SMALL | {"bindings/fast.toml": 'apiVersion = "handler.binding/v1"\nconector = "ocr-fast"\n'}
    )
    change = found["binding/fast"]
    assert change.verb == "refuse"
    assert change.lines[0].startswith("bindings/fast.toml:2:1: B101: ")
    assert change.lines[-1] == "the last admitted form stays in force"
    found = changes(SMALL | agent("lost", {"ocr": "nowhere"}))
    assert found["agent/lost"].verb == "refuse"
    assert found["agent/lost"].lines[-1] == "nothing of it is in force"


def test_removals_and_additions_are_named() -> None:
    without = {path: text for path, text in SMALL.items() if "maid" not in path}
    more = interface("web") | connector("web-x", "web/v1") | binding("web", "web-x")
    found = changes(without | more)
    assert {name: change.verb for name, change in found.items()} == {
        "agent/maid": "remove", "binding/web": "add", "connector/web-x": "add", "interface/web/v1": "add",
    }  # fmt: skip
    assert found["agent/maid"].lines == ("opens no session any more",)


def test_suspending_is_told_to_whom_it_reaches() -> None:
    found = changes(SMALL | binding("fast", "ocr-fast", 'suspend = true\nsuspendReason = "moving"\n'))
    assert "suspend: (default) → true" in found["binding/fast"].lines
    assert "services.ocr: unavailable, moving" in found["agent/clerk"].lines


def test_reach_is_compared_and_secrets_are_fingerprints() -> None:
    found = desire(admitted(SMALL), generation=0, kit=KIT, home=HOME)
    (recipe,) = [one for name, one in found.recipes.items() if name.binding == "fast"]
    canary = "CANARY-hunter2"
    use = SecretUse("api_key", "command", ("echo", canary), "KEY", "env")
    old = replace(recipe, egress=("a.test:443",), secrets=(use,))
    new = replace(recipe, egress=("b.test:443",), secrets=(replace(use, reference=("echo", "other")),))
    lines = tuple(module._recipe_lines(old, new))
    assert lines[:2] == ("egress: - a.test:443", "egress: + b.test:443")
    assert lines[2].startswith("secrets: - api_key (command ")
    assert canary not in "".join(lines)
    assert canary not in module._shown_value("secrets.api_key.command", ("echo", canary))


def test_a_change_is_json_values() -> None:
    change = Change("add", "binding/x", ("a", "b"), 2, ("clerk",))
    assert as_json(change) == {
        "verb": "add", "object": "binding/x", "lines": ["a", "b"], "sessions": 2, "agents": ["clerk"],
    }  # fmt: skip
