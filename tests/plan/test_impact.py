"""The blast radius: whole, exact, and without a value that is secret."""

from collections.abc import Mapping

from reconciler.admission.admit import Admission
from reconciler.model.names import InstanceName, Kind, ObjectRef
from reconciler.model.status import Held
from reconciler.plan.desired import desire
from reconciler.plan.impact import Change, Side, Waits, impact
from reconciler.plan.keys import Field
from reconciler.plan.losses import NOTHING, Live, Open
from tests.plan.build import HOME, KIT, SMALL, admitted, agent, binding, connector, interface, whole


def side(admission: Admission, before: Side | None = None) -> Side:
    past = before.desired if before else None
    return Side(admission, desire(admission, generation=1, kit=KIT, home=HOME, previous=past))


def sides(files: Mapping[str, str], before: Mapping[str, str] = SMALL) -> tuple[Side, Side]:
    first = side(admitted(before))
    return first, side(admitted(files, first.admission, clean=False), first)


def changes(files: Mapping[str, str], live: Live = NOTHING, waits: Waits | None = None) -> dict[str, Change]:
    """What an edit from the small configuration to ``files`` changes, by object."""
    found = impact(*sides(files), live, waits)
    assert [change.object for change in found] == sorted(change.object for change in found)
    return {str(change.object): change for change in found}


def running(name: str) -> InstanceName:
    (one,) = [found for found in side(admitted(SMALL)).desired.recipes if found.binding == name]
    return one


def opened(name: str, who: str, of: str, *, standing: bool = False) -> Open:
    return Open(name, who, "main@sha1:" + "a" * 40, 3, {running(of)}, {"ocr/v1"}, standing)


def test_nothing_changes_where_nothing_differs() -> None:
    assert changes(SMALL) == {}
    assert changes(SMALL | {"bindings/fast.toml": SMALL["bindings/fast.toml"] + "# a comment\n"}) == {}


def test_the_first_time_everything_written_is_added() -> None:
    found = impact(None, side(admitted(SMALL)))
    assert {change.verb for change in found} == {"add"}
    assert [str(change.object) for change in found] == [
        *("agent/clerk", "agent/maid", "binding/fast", "binding/good"),
        *("connector/ocr-fast", "connector/ocr-good", "interface/ocr/v1"),
    ]
    assert [change.effect for change in found[:3]] == [
        "opens sessions",
        "opens sessions",
        "first call starts it",
    ]


def test_a_changed_setting_shows_before_and_after_the_new_instance_and_whom_it_reaches() -> None:
    old = running("fast")
    live = Live((opened("s1", "clerk", "fast"), opened("s2", "clerk", "fast"), opened("s3", "maid", "good")))
    found = changes(SMALL | binding("fast", "ocr-fast", "settings.speed = 4\n"), live)
    assert set(found) == {"binding/fast", "agent/clerk"}
    change = found["binding/fast"]
    assert (change.verb, change.effect, change.file) == ("change", "new instance", "bindings/fast.toml")
    assert change.fields == (Field("settings.speed", None, "4"),)
    assert change.instance is not None
    assert change.instance.before == old
    assert change.instance.after not in (None, old)
    assert (change.sessions, change.agents, change.lost) == (("s1", "s2"), ("clerk",), ())
    clerk = found["agent/clerk"]
    assert (clerk.effect, clerk.sessions) == ("next session", ("s1", "s2"))
    ((interface, was, now),) = [(one.interface, one.before, one.after) for one in clerk.routes]
    assert interface == "ocr"
    assert was is not None
    assert now is not None
    assert (was.instance, now.instance) == (old, change.instance.after)


def test_a_rebind_names_both_bindings_and_only_the_agent_that_moves() -> None:
    live = Live((opened("s1", "clerk", "fast"), opened("s2", "maid", "good")))
    found = changes(SMALL | agent("clerk", {"ocr": "good"}), live)
    assert set(found) == {"agent/clerk"}
    change = found["agent/clerk"]
    assert Field("services.ocr", '"fast"', '"good"') in change.fields
    assert [
        (one.before and one.before.binding, one.after and one.after.binding) for one in change.routes
    ] == [("fast", "good")]
    assert change.sessions == ("s1",)


def test_an_agent_whose_routes_stay_keeps_its_sessions_out_of_it() -> None:
    more = agent("maid", {"ocr": "good"}, 'description = "dusts"')
    found = changes(SMALL | more, Live((opened("s1", "maid", "good"),)))
    change = found["agent/maid"]
    assert (change.effect, change.sessions, change.agents) == ("same routes", (), ())


def test_a_changed_connector_reaches_its_bindings_their_agents_and_their_sessions() -> None:
    live = Live((opened("s1", "clerk", "fast"), opened("s2", "maid", "good")))
    found = changes(SMALL | {"connectors/ocr-fast/main.py": "print(2)\n"}, live)
    assert set(found) == {"connector/ocr-fast", "binding/fast", "agent/clerk"}
    change = found["connector/ocr-fast"]
    assert (change.files, change.agents, change.sessions) == (("main.py",), ("clerk",), ("s1",))
    instance = found["binding/fast"].instance
    assert instance is not None
    assert [one.key for one in instance.making] == ["code"]


def test_what_is_refused_says_so_and_what_stays_in_force() -> None:
    found = changes(
        SMALL | {"bindings/fast.toml": 'apiVersion = "handler.binding/v1"\nconector = "ocr-fast"\n'}
    )
    change = found["binding/fast"]
    assert (change.verb, change.last_good) == ("refuse", True)
    assert [problem.code for problem in change.problems][:1] == ["B101"]
    found = changes(SMALL | agent("lost", {"ocr": "nowhere"}))
    change = found["agent/lost"]
    assert (change.verb, change.last_good, change.file) == ("refuse", False, "agents/lost.toml")


def test_removals_and_additions_are_named_and_nobody_loses_what_nobody_uses() -> None:
    without = {path: text for path, text in SMALL.items() if "maid" not in path}
    more = interface("web") | connector("web-x", "web/v1") | binding("web", "web-x")
    found = changes(without | more, Live((opened("s1", "maid", "good"),)))
    assert {name: change.verb for name, change in found.items()} == {
        "agent/maid": "remove", "binding/web": "add", "connector/web-x": "add", "interface/web/v1": "add",
    }  # fmt: skip
    assert found["agent/maid"].effect == "opens no session any more"
    assert [change.lost for change in found.values()] == [()] * 4


def test_an_agent_that_goes_ends_no_session_at_its_door_either() -> None:
    without = {path: text for path, text in SMALL.items() if "maid" not in path}
    found = changes(without, Live((opened("s1", "maid", "good", standing=True),)))
    assert found["agent/maid"].lost == ()


def test_a_removed_binding_is_lost_to_its_sessions_its_agents_and_its_instance() -> None:
    without = {path: text for path, text in SMALL.items() if "bindings/fast" not in path}
    live = Live((opened("s1", "clerk", "fast"),), {str(running("fast")), str(running("good"))})
    change = changes(without, live)["binding/fast"]
    assert (change.verb, change.effect) == ("remove", "stop")
    assert [(one.sort, one.name) for one in change.lost] == [
        ("session", "s1"), ("agent", "clerk"), ("instance", str(running("fast"))),
    ]  # fmt: skip


def test_suspending_is_told_to_whom_it_reaches() -> None:
    live = Live((opened("s1", "clerk", "fast"),))
    found = changes(SMALL | binding("fast", "ocr-fast", 'suspend = true\nsuspendReason = "moving"\n'), live)
    change = found["binding/fast"]
    assert Field("suspend", None, "true") in change.fields
    assert change.effect == "same instance"
    assert [(one.sort, one.name) for one in change.lost] == [("session", "s1"), ("agent", "clerk")]
    (route,) = found["agent/clerk"].routes
    assert route.after is not None
    assert route.after.suspended == "moving"


def test_an_agent_that_gives_an_interface_up_loses_nothing_by_it() -> None:
    without = {path: text for path, text in SMALL.items() if "bindings/fast" not in path}
    assert changes(without | agent("clerk", {}))["binding/fast"].lost == ()
    assert changes(without | agent("clerk", {"ocr": "good"}))["binding/fast"].lost == ()


def test_what_waits_is_told_with_its_reason() -> None:
    without = {path: text for path, text in SMALL.items() if "bindings/fast" not in path}
    fast, why = ObjectRef(Kind.BINDING, "fast"), Held("AwaitingApply", "an agent uses it")
    change = changes(without, waits=Waits(explicit={fast: why}))["binding/fast"]
    assert (change.verb, change.held) == ("remove", why)
    blocked = Held("PruneBlocked", "too much at once")
    change = changes(SMALL, waits=Waits(held={fast: blocked}))["binding/fast"]
    assert (change.verb, change.held, change.lost) == ("hold", blocked, ())


def test_users_of_a_version_are_named_where_it_changes_or_goes() -> None:
    skill = "interfaces/ocr/v1/skills/ocr/SKILL.md"
    frozen = {**SMALL, "handler.lock": whole(SMALL).files["handler.lock"].decode()}
    found = changes(frozen | {skill: SMALL[skill] + "Go on.\n"})
    change = found["interface/ocr/v1"]
    assert (change.verb, change.last_good) == ("refuse", True)
    users = ("agent/clerk", "agent/maid", "connector/ocr-fast", "connector/ocr-good")
    assert change.used_by == users
    unlocked = changes({**SMALL, "handler.lock": 'apiVersion = "handler.lock/v1"\n'})
    change = unlocked["interface/ocr/v1"]
    assert [(one.key, one.after) for one in change.fields] == [("handler.lock", None)]
    assert change.used_by == users
    gone = changes({path: text for path, text in SMALL.items() if not path.startswith("interfaces/")})
    assert gone["interface/ocr/v1"].used_by == users


def test_a_shadow_is_named_as_a_place_that_content_goes_to_with_its_hosts() -> None:
    trial = connector("ocr-trial", "ocr/v1", more='egress = ["api.example:443"]\n') | binding(
        "trial", "ocr-trial"
    )
    shadowed = binding("fast", "ocr-fast", 'shadow = "trial"\n')
    found = changes(SMALL | trial | shadowed | agent("maid", {"ocr": "fast"}))
    for name in ("binding/fast", "agent/maid"):
        copies = [one.added for one in found[name].deltas if one.sort == "copies"]
        assert copies == [("binding/trial (api.example:443)",)]
