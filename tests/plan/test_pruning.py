"""What may go at once and what is needed, from real admissions; and that no order of edits gets round it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.admission.admit import Admission
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.settings import Prune
from reconciler.plan import pruning
from tests.kit.effort import times
from tests.plan.build import SMALL, admitted, agent, binding, connector, interface


def refs(**counts: int) -> list[ObjectRef]:
    return [ObjectRef(Kind(kind), f"o-{n}") for kind, count in counts.items() for n in range(count)]


HALF = Prune()
TENTH = Prune.model_validate({"maxFraction": 0.1})
WHOLE = Prune.model_validate({"maxFraction": 1})
EMPTY = Prune.model_validate({"allowEmpty": True})


@pytest.mark.parametrize(
    ("own", "gone", "limits", "words"),
    [
        (refs(binding=5, agent=5), refs(binding=5), HALF, "all 5 bindings"),
        (refs(binding=5, agent=5), refs(binding=3), HALF, "3 of 5 bindings"),
        (refs(binding=5, agent=5), refs(binding=2, agent=2), HALF, ""),
        (refs(binding=5, agent=5), refs(binding=3, agent=5), HALF, "3 of 5 bindings and all 5 agents"),
        (refs(binding=2, agent=2), refs(binding=1, agent=1), HALF, ""),
        (refs(binding=1, agent=1, project=1), refs(binding=1, agent=1), HALF, "2 of 3 objects"),
        (refs(binding=1, agent=1), refs(binding=1), HALF, ""),
        (refs(binding=1, agent=1), refs(binding=1, agent=1), HALF, "all 2 objects"),
        (refs(binding=1), refs(binding=1), HALF, "the only binding"),
        (refs(binding=1), refs(binding=1), EMPTY, ""),
        (refs(binding=2), refs(binding=1), HALF, ""),
        (refs(binding=2), refs(binding=2), HALF, "all 2 bindings"),
        (refs(binding=2), refs(binding=2), WHOLE, "all 2 bindings"),
        (refs(binding=2, agent=1), refs(binding=2), WHOLE, ""),
        (refs(binding=9), refs(binding=9), EMPTY, ""),
        (refs(binding=9), refs(binding=8), EMPTY, "8 of 9 bindings"),
        (refs(binding=10), refs(binding=1), TENTH, ""),
        (refs(binding=5), refs(binding=1), TENTH, ""),
        (refs(binding=10), refs(binding=2), TENTH, "2 of 10 bindings"),
        (refs(binding=30), refs(binding=3), TENTH, ""),
        (refs(config=1, binding=1), refs(config=1), HALF, ""),
        (refs(config=1, binding=1), refs(config=1, binding=1), HALF, "the only binding"),
        (refs(config=1), refs(config=1), HALF, ""),
        ([], [], HALF, ""),
    ],
)
def test_what_may_not_go_at_once(
    own: list[ObjectRef], gone: list[ObjectRef], limits: Prune, words: str
) -> None:
    assert pruning.too_much(own, gone, limits) == words


MANY = {
    **interface("ocr"),
    **connector("ocr-fast", "ocr/v1"),
    **connector("ocr-good", "ocr/v1"),
    **binding("fast", "ocr-fast"),
    **binding("good", "ocr-good"),
    **binding("spare", "ocr-good"),
    **agent("clerk", {"ocr": "fast"}, 'requires = ["ocr/v1"]'),
    **agent("maid", {"ocr": "good"}),
}
FAST, GOOD, SPARE = (ObjectRef(Kind.BINDING, name) for name in ("fast", "good", "spare"))


def edit(files: Mapping[str, str], *without: str, more: Mapping[str, str] | None = None) -> pruning.Edit:
    """An edit of these files that takes some away and, it may be, writes others."""
    before = admitted(files)
    kept = {path: text for path, text in files.items() if not path.startswith(without)}
    now = admitted({**kept, **(more or {})}, before, clean=False)
    return pruning.Edit(now.inventory, before.in_force, gone(before, now), HALF)


def gone(before: Admission, now: Admission) -> pruning.Forms:
    return pruning.removed(now.inventory, before.in_force, before.in_force.keys())


def held(one: pruning.Edit, *in_use: str) -> dict[str, str]:
    verdict = pruning.judged(one, in_use, pruning.Memory(), 0.0)
    return {str(ref): why.reason for ref, why in verdict.held.items()}


def asked(one: pruning.Edit) -> dict[str, str]:
    return {str(ref): why.reason for ref, why in pruning.asked(one).held.items()}


def test_a_binding_that_an_agent_requires_stays_also_when_a_person_applies() -> None:
    one = edit(MANY, "bindings/fast.toml")
    assert held(one) == asked(one) == {"binding/fast": "PruneBlocked"}
    message = pruning.asked(one).held[FAST].message
    assert "agent/clerk requires" in message
    assert pruning.COMMAND in message


def test_its_connector_stays_with_it_when_the_edit_removed_both() -> None:
    one = edit(MANY, "bindings/fast.toml", "connectors/ocr-fast/")
    assert held(one) == {"binding/fast": "PruneBlocked", "connector/ocr-fast": "PruneBlocked"}


def test_a_binding_that_an_agent_only_selects_waits_for_an_apply() -> None:
    one = edit(MANY, "bindings/good.toml")
    assert held(one) == {"binding/good": "AwaitingApply"}
    assert asked(one) == {}


def test_a_policy_that_is_gone_waits_for_an_apply_since_more_may_leave_without_it() -> None:
    text = "apiVersion = 'handler.egress-policy/v1'\n"
    one = edit({**MANY, "policies/egress.toml": text}, "policies/egress.toml")
    assert held(one) == {"policy/egress": "AwaitingApply"}
    assert asked(one) == {}


def test_a_binding_that_nobody_selects_goes_unless_a_session_uses_it() -> None:
    one = edit(MANY, "bindings/spare.toml")
    assert held(one) == {}
    assert held(one, "spare") == {"binding/spare": "AwaitingApply"}
    assert asked(one) == {}


def test_a_binding_goes_with_the_edit_that_rebinds_its_agent() -> None:
    rebound = agent("clerk", {"ocr": "good"}, 'requires = ["ocr/v1"]')
    assert held(edit(MANY, "bindings/fast.toml", more=rebound)) == {}


def test_a_requirement_of_the_project_counts_for_its_agents() -> None:
    project = 'apiVersion = "handler.project/v1"\nrequires = ["ocr/v1"]\nservices = { ocr = "spare" }\n'
    files = {
        **MANY,
        "projects/office.toml": project,
        "agents/third.toml": 'apiVersion = "handler.agent/v1"\nproject = "office"\n',
    }
    one = edit(files, "bindings/spare.toml")
    assert held(one) == {"binding/spare": "PruneBlocked"}
    assert "agent/third" in pruning.asked(one).held[SPARE].message


def test_an_agent_whose_newest_text_is_refused_still_needs_what_its_last_form_does() -> None:
    broken = {"agents/clerk.toml": "services = {"}
    assert held(edit(MANY, "bindings/fast.toml", more=broken)) == {"binding/fast": "PruneBlocked"}


def test_what_is_refused_or_unread_was_not_removed() -> None:
    one = edit(MANY, more={"bindings/fast.toml": "<<<<<<< HEAD\n", "bindings/good.toml": "x = "})
    assert one.gone == {}


def test_all_that_an_edit_removes_stays_when_it_is_too_much() -> None:
    one = edit(MANY, "bindings/", "agents/maid.toml")
    assert set(held(one).values()) == {"PruneBlocked"}
    assert held(one).keys() == {"binding/fast", "binding/good", "binding/spare", "agent/maid"}
    words = pruning.summed_up(pruning.asked(one).held)
    assert words.startswith("1 agent and 3 bindings stay in force though removed: all 3 bindings")
    assert "`handler apply --prune=all`" in words


def test_what_is_blocked_stays_so_until_some_comes_back_or_the_limits_change() -> None:
    ten = {**interface("ocr"), **connector("c", "ocr/v1")}
    for number in range(10):
        ten.update(binding(f"b{number}", "c"))
    four = [f"bindings/b{number}.toml" for number in range(4)]
    six = [f"bindings/b{number}.toml" for number in range(6)]
    first = pruning.judged(edit(ten, *four), (), pruning.Memory(), 0.0)
    assert not first.held
    rest = {path: text for path, text in ten.items() if path not in four}
    second = edit(rest, *six[4:])
    blocked = pruning.judged(second, (), first.memory, 5.0)
    assert [one.reason for one in blocked.held.values()] == ["AwaitingApply"] * 2, (
        "six of ten within a minute"
    )
    message = blocked.held[ObjectRef(Kind.BINDING, "b4")].message
    assert message.startswith(
        "its file is gone, and 6 of 10 bindings of this configuration went within a minute"
    )
    assert not pruning.asked(second).held, "and an apply does what the message says"
    later = pruning.judged(second, (), blocked.memory, 500.0)
    assert later.held == blocked.held, "time alone lets nothing go"
    one = edit(rest, six[5])
    assert not pruning.judged(one, (), later.memory, 501.0).held, "one came back"
    wider = pruning.Edit(second.inventory, second.forms, second.gone, WHOLE)
    assert not pruning.judged(wider, (), later.memory, 501.0).held
    assert not pruning.judged(second, (), first.memory, 65.0).held, "after a minute it is an edit of its own"


def test_what_was_too_much_and_is_so_no_more_waits_for_an_apply_as_an_apply_would_remove_it() -> None:
    three = {**interface("ocr"), **connector("c", "ocr/v1"), **binding("b0", "c"), **binding("b1", "c")}
    blocked = pruning.judged(edit(three, "bindings/"), (), pruning.Memory(), 0.0)
    assert {one.reason for one in blocked.held.values()} == {"PruneBlocked"}
    more = three | {path: text for n in range(2, 7) for path, text in binding(f"b{n}", "c").items()}
    grown = edit(more, "bindings/b0", "bindings/b1")
    later = pruning.judged(grown, (), blocked.memory, 500.0)
    assert {one.reason for one in later.held.values()} == {"AwaitingApply"}
    assert not pruning.asked(grown).held


def test_status_and_apply_agree_on_what_is_required_of_a_slow_removal() -> None:
    first = pruning.judged(edit(MANY, "bindings/spare.toml"), (), pruning.Memory(), 0.0)
    rest = {path: text for path, text in MANY.items() if path != "bindings/spare.toml"}
    second = edit(rest, "bindings/fast.toml")
    assert {
        str(ref): one.reason for ref, one in pruning.judged(second, (), first.memory, 5.0).held.items()
    } == (asked(second))


def test_what_only_a_rollback_brought_back_goes_uncounted_and_the_rest_is_counted_without_it() -> None:
    one = edit(MANY, "bindings")
    back = replace(one, agreed={FAST, GOOD, SPARE})
    assert asked(one) == dict.fromkeys(("binding/fast", "binding/good", "binding/spare"), "PruneBlocked")
    assert asked(back) == {}, "also the one that is required"
    waits = held(back, "spare")
    assert waits.keys() == {"binding/fast", "binding/good", "binding/spare"}, "in use, unless a person asks"
    assert waits["binding/spare"] == "AwaitingApply"
    part = replace(one, agreed={SPARE})
    assert asked(part) == dict.fromkeys(("binding/fast", "binding/good"), "PruneBlocked")
    assert "all 2 bindings" in pruning.asked(part).held[FAST].message
    assert held(part).keys() == {"binding/fast", "binding/good"}


NAMES = [f"binding/b{n}" for n in range(6)] + [f"agent/a{n}" for n in range(4)] + ["project/p0"]
STEPS = st.lists(
    st.tuples(st.sets(st.sampled_from(NAMES)), st.sampled_from([0.0, 1.0, 20.0, 59.0])),
    min_size=1,
    max_size=8,
)


def _present(names: set[str]) -> dict[str, str]:
    words = {"binding": 'connector = "c"\n', "agent": "", "project": ""}
    found = {**interface("ocr"), **connector("c", "ocr/v1")}
    for name in sorted(names):
        kind, _, plain = name.partition("/")
        found[f"{kind}s/{plain}.toml"] = f'apiVersion = "handler.{kind}/v1"\n{words[kind]}'
    return found


@pytest.mark.slow
@settings(max_examples=times(25))
@given(STEPS, st.sampled_from([HALF, TENTH, WHOLE]))
def test_no_order_of_edits_removes_more_within_a_minute_than_may_go_at_once(
    steps: list[tuple[set[str], float]], limits: Prune
) -> None:
    before, memory, now_s = admitted(_present(set(NAMES))), pruning.Memory(), 0.0
    removed: dict[str, tuple[float, frozenset[str]]] = {}  # when, and of what
    for present, passed_s in steps:
        now_s += passed_s
        read = admitted(_present(present), before, clean=False).inventory
        in_force = before.in_force
        one = pruning.Edit(read, in_force, pruning.removed(read, in_force, in_force.keys()), limits)
        verdict = pruning.judged(one, (), memory, now_s)
        memory = verdict.memory
        was = frozenset(str(ref) for ref in in_force)
        went = {str(ref) for ref in one.gone.keys() - verdict.held.keys()}
        stays = present | {str(ref) for ref in verdict.held}
        before = admitted(_present(stays & set(NAMES)), before)
        assert {str(ref) for ref in before.in_force} >= was - went
        removed = {name: told for name, told in removed.items() if name not in present}
        removed |= dict.fromkeys(went, (now_s, was))
        lately = {name for name, (at_s, _) in removed.items() if now_s - at_s < pruning.LATELY_S}
        if not went:
            continue
        own = {str(ref) for ref in before.in_force} | lately
        assert len(lately) < len(own)
        for kind in ("binding", "agent", "project"):
            counts = Counter(name.partition("/")[0] for name in own)
            share = sum(name.startswith(kind) for name in lately)
            assert share <= max(1, limits.max_fraction * counts[kind] + 1e-9)


def test_the_small_configuration_lets_one_agent_go() -> None:
    assert held(edit(SMALL, "agents/maid.toml")) == {}
