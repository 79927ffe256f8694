"""What stays in force when something is refused, and that judging what changed is judging everything."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.admission import admit as room
from reconciler.admission.admit import Admission, Surroundings, admit
from reconciler.model.inventory import Inventory, Resource
from reconciler.model.names import InterfaceRef, Kind, ObjectRef
from reconciler.model.problems import Problem, Severity, Span
from reconciler.model.resources import Record
from tests.admission import build
from tests.admission.build import Files, agent, binding, connector, interface, project
from tests.kit.effort import times

AGENT, BINDING = ObjectRef(Kind.AGENT, "clerk"), ObjectRef(Kind.BINDING, "ocr-tesseract")


def first() -> Admission:
    return build.judge(build.config(), build.catalog())


def then(before: Admission, config: Files, catalog: Files | None = None) -> Admission:
    """The next look at the same configuration."""
    now = build.inventory(
        config, catalog if catalog is not None else build.catalog(), previous=before.inventory
    )
    return admit(now, before.in_force, before, build.WHERE)


def test_a_good_configuration_is_admitted_without_a_word() -> None:
    admission = first()
    assert admission.problems == ()
    assert set(admission.in_force) == set(admission.inventory.resources)
    assert not admission.refused
    assert not admission.retained
    (selected,) = admission.selections["clerk"]
    assert (selected.interface, selected.binding) == (InterfaceRef("ocr", 1), "ocr-tesseract")
    assert selected.interface in admission.contracts


def test_a_bad_binding_never_stops_a_good_one() -> None:
    # B-01
    files = build.config() | {
        "bindings/bad.toml": 'apiVersion = "handler.binding/v1"\nconector = "ocr-rapid"\n'
    }
    admission = build.judge(files, build.catalog())
    assert set(admission.refused) == {ObjectRef(Kind.BINDING, "bad")}
    assert admission.selections["clerk"]


@pytest.mark.parametrize(
    "text",
    [
        'apiVersion = "handler.binding/v1"\nconnector = "ocr-nothing"\n',  # refused by a rule
        'apiVersion = "handler.binding/v1"\nconector = "ocr-rapid"\n',  # refused as a text
    ],
)
def test_a_refused_binding_keeps_its_last_form_and_its_agents_never_notice(text: str) -> None:
    before = first()
    after = then(before, build.config() | {"bindings/ocr-tesseract.toml": text})
    assert after.retained == {BINDING}
    assert after.in_force[BINDING] is before.in_force[BINDING]
    assert set(after.refused) == {BINDING}
    assert after.selections == before.selections


def test_a_refused_binding_without_a_last_form_makes_its_agent_wait() -> None:
    files = build.config() | binding("ocr-tesseract", "ocr-nothing")
    admission = build.judge(files, build.catalog())
    assert {ref: problems[0].reason for ref, problems in admission.refused.items()} == {
        BINDING: "UnresolvedReference",
        AGENT: "WaitsFor",
    }
    assert admission.refused[AGENT][0].what == "waits for binding/ocr-tesseract"


def test_a_refused_agent_keeps_its_last_form_as_a_whole() -> None:
    before = first()
    more = 'project = "site"\nservices = { ocr = "ocr-rapid", tts = "nothing" }\nscope = ["/"]\n'
    after = then(before, build.config() | agent("clerk", more))
    assert AGENT in after.retained
    assert after.in_force[AGENT] is before.in_force[AGENT]
    assert after.selections["clerk"] == before.selections["clerk"]


def test_a_removed_connector_stays_in_force_under_a_binding_that_keeps_its_last_form() -> None:
    # B-29: if only the connector's folder is removed, the binding says so and keeps its last form.
    files = (
        connector("mine", "ocr/v1")
        | binding("mine", "mine")
        | agent("clerk", 'services = { ocr = "mine" }\n')
    )
    before = build.judge(files, build.catalog())
    gone = {path: text for path, text in files.items() if not path.startswith("connectors/")}
    after = then(before, gone)
    held = ObjectRef(Kind.CONNECTOR, "mine")
    assert after.refused[ObjectRef(Kind.BINDING, "mine")][0].what == "connector 'mine' does not exist"
    assert held in after.retained
    assert after.in_force[held] is before.in_force[held]
    assert after.selections["clerk"] == before.selections["clerk"]
    # Nothing is held any more once the binding is gone too, and no error objects are left over.
    end = then(after, agent("clerk"))
    assert not end.problems
    assert held not in end.in_force


def test_removing_a_binding_is_an_act_and_ends_its_service() -> None:
    before = first()
    left = {path: text for path, text in build.config().items() if "ocr-tesseract" not in path}
    after = then(before, left)
    assert BINDING not in after.in_force
    assert after.refused[AGENT][0].code == "A202"
    assert AGENT in after.retained
    # Its place is kept, closed, so that an agent reads `unavailable` and not that there is no such tool.
    assert [one.binding for one in after.selections["clerk"]] == ["ocr-tesseract"]


def test_a_removed_project_stays_in_force_under_an_agent_that_keeps_its_last_form() -> None:
    files = build.config() | agent("clerk", 'project = "site"\n')
    files["projects/site.toml"] = 'apiVersion = "handler.project/v1"\nservices = { ocr = "ocr-rapid" }\n'
    before = build.judge(files, build.catalog())
    after = then(before, {path: text for path, text in files.items() if "projects" not in path})
    assert after.refused[AGENT][0].code == "A201"
    assert ObjectRef(Kind.PROJECT, "site") in after.retained
    assert after.selections["clerk"] == before.selections["clerk"]


def test_an_agent_that_is_removed_is_gone() -> None:
    after = then(first(), {path: text for path, text in build.config().items() if "clerk" not in path})
    assert AGENT not in after.in_force
    assert "clerk" not in after.selections
    assert not after.problems


def test_a_look_at_the_same_files_judges_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = first()

    def never(*_: object) -> None:
        pytest.fail("nothing changed, and something was judged")

    monkeypatch.setattr(room._Run, "_judge", never)
    after = then(before, build.config())
    assert after.problems is before.problems
    assert dict(after.in_force) == dict(before.in_force)


def test_one_changed_binding_judges_it_and_who_asked_for_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    others = agent("reader", 'services = { ocr = "ocr-rapid" }\n') | agent("idle")
    before = build.judge(build.config() | others, build.catalog())
    judged = []
    real = room._Run._judge

    def noted(run: room._Run, ref: ObjectRef) -> None:
        judged.append(str(ref))
        real(run, ref)

    monkeypatch.setattr(room._Run, "_judge", noted)
    then(before, build.config() | others | binding("ocr-tesseract", "ocr-tesseract", "suspend = true\n"))
    assert judged == ["binding/ocr-tesseract", "agent/clerk"]


def _both(now: Inventory, last: Mapping[ObjectRef, Resource[Record]], before: Admission) -> Admission:
    """The next admission, which is the same as one that starts from nothing."""
    step = admit(now, last, before, build.WHERE)
    assert _whole(step) == _whole(admit(now, last, None, build.WHERE))
    return step


def test_publishing_a_version_admits_who_waited_for_it() -> None:
    files = (
        interface() | connector("c", "ocr/v1") | binding("b", "c") | agent("a", 'services = { ocr = "b" }\n')
    )
    draft = admit(build.inventory(files), {}, None, build.WHERE)
    assert "a" not in draft.selections
    published = build.inventory(files, lock=("ocr/v1",), previous=draft.inventory)
    assert "a" in _both(published, draft.in_force, draft).selections


@pytest.mark.parametrize(
    ("line", "anew"),
    [
        ('description = "Other words."', False),
        ("instance = { idleStopSeconds = 7 }", False),
        ("suspend = true", True),
        ("probe = { link = 'on' }", True),
    ],
)
def test_an_agent_is_judged_anew_for_what_it_sees_of_its_binding_alone(line: str, *, anew: bool) -> None:
    before = first()
    file = "bindings/ocr-tesseract.toml"
    files = {**build.config(), file: f"{build.config()[file]}\n{line}\n"}
    after = _both(build.inventory(files, build.catalog(), previous=before.inventory), before.in_force, before)
    assert not after.refused
    binding, clerk = ObjectRef(Kind.BINDING, "ocr-tesseract"), ObjectRef(Kind.AGENT, "clerk")
    assert before.memory is not None
    assert after.memory is not None
    assert after.memory.verdicts[binding] is not before.memory.verdicts[binding]
    assert (after.memory.verdicts[clerk] is not before.memory.verdicts[clerk]) == anew


def test_who_misses_something_hears_of_new_candidates_and_new_names() -> None:
    files = agent("a", 'requires = ["ocr/v1"]\n') | agent("z", 'services = { ocr = "ocr-rapit" }\n')
    before = build.judge(files, build.catalog())
    assert build.only(before, "A203").candidates == ()
    assert build.only(before, "A202").candidates == ()
    more = build.inventory(
        files | binding("ocr-rapid", "ocr-rapid"), build.catalog(), previous=before.inventory
    )
    after = _both(more, before.in_force, before)
    assert build.only(after, "A203").candidates == ("ocr-rapid",)
    assert build.only(after, "A202").candidates == ("ocr-rapid",)
    gone = _both(build.inventory(files, build.catalog(), previous=more), after.in_force, after)
    assert build.only(gone, "A203").candidates == build.only(gone, "A202").candidates == ()


def test_what_a_refused_object_falls_back_to_may_change_under_it() -> None:
    good = first()
    bad = build.inventory(
        build.config() | binding("ocr-tesseract", "nothing"), build.catalog(), previous=good.inventory
    )
    kept = _both(bad, good.in_force, good)
    assert BINDING in kept.retained
    bare = _both(bad, {}, kept)
    assert BINDING not in bare.in_force
    assert bare.refused[AGENT][0].reason == "WaitsFor"
    assert _both(bad, good.in_force, bare).retained == {BINDING}


def test_a_place_in_anothers_file_moves_with_that_file() -> None:
    header, services = (
        'apiVersion = "handler.project/v1"\n',
        'services.ocr = { binding = "ocr-tesseract", tools = ["nope"] }\n',
    )
    files = build.config() | agent("clerk", 'project = "site"\n')
    before = build.judge(files | {"projects/site.toml": header + services}, build.catalog())
    assert before.refused[AGENT][0].at == Span("projects/site.toml", 2, 54)
    broken = files | {"projects/site.toml": f"# not yet right\nx = 1\n{header}{services}"}
    after = _both(
        build.inventory(broken, build.catalog(), previous=before.inventory), before.in_force, before
    )
    assert ObjectRef(Kind.PROJECT, "site") in after.retained
    assert after.refused[AGENT][0].at == Span("projects/site.toml", 4, 54)


def test_other_surroundings_judge_everything_again() -> None:
    files = build.config() | agent("clerk", 'scope = ["/srv/box"]\n')
    before = build.judge(files, build.catalog())
    now = build.inventory(files, build.catalog(), previous=before.inventory)
    after = admit(now, before.in_force, before, Surroundings("/home/ada", ("/srv/box/state",)))
    assert build.only(after, "A211")


def test_every_problem_has_a_place_and_they_are_sorted() -> None:
    files = (
        build.config()
        | agent("b", 'services = { ocr = "nothing" }\nagents = ["x"]\n')
        | agent("a", 'requires = ["ocr/v9"]\nscope = ["/home/ada"]\n')
    )
    admission = build.judge(files, build.catalog())
    places = [(problem.at.file, problem.at.line, problem.at.column) for problem in admission.problems]
    assert places == sorted(places)
    assert [problem.code for problem in admission.problems] == ["A216", "A211", "A202", "A234", "A219"]
    assert all(line for _, line, _ in places)


def test_a_problem_of_a_file_that_is_no_object_is_kept_and_refuses_nothing() -> None:
    stray = Problem("X200", "belongs to nothing", "why", "mend", Span("notes.txt"), severity=Severity.WARNING)
    seen = replace(build.inventory(build.config(), build.catalog()), problems=(stray,))
    admission = admit(seen, {}, None, build.WHERE)
    assert admission.problems == (stray,)
    assert not admission.refused


# Judging what changed equals judging everything, over any history of edits.

_TOOLS = [build.tool(), {**build.tool("ocr_boxes"), "description": "Boxes in the work folder."}]
_TWO_CASES = {
    "interfaces/ocr/v2/conformance/cases.toml": build.CASES.format(tool="ocr_extract")
    + build.CASES.format(tool="ocr_boxes")
}
_SECRET = '[secretSlots.key]\nenv = "KEY"\n'
_SETTING = '[settings.m]\ndescription = "d"\nenum = ["a", "b"]\n'
SLOTS: Mapping[str, list[Files]] = {
    "handler": [
        {},
        {"handler.toml": ""},
        {"handler.toml": '[source]\nverify = "signed"\n'},
        {"handler.toml": "x = 1"},
    ],
    "v1": [
        interface(),
        {},
        interface(tools=[]),
        interface(tools=[{**build.tool(), "description": "Other."}]),
    ],
    "v2": [{}, interface(version=2), interface(version=2, tools=_TOOLS) | _TWO_CASES],
    "c1": [
        connector("c1", "ocr/v1"),
        connector("c1", "ocr/v1", "ocr/v2"),
        connector("c1", "ocr/v1", more=_SETTING),
        connector("c1", "ocr/v1", more=_SECRET),
        connector("c1", "ocr/v1") | {"connectors/c1/main.py": "other"},
        {},
    ],
    "c2": [
        {},
        connector("c2", "ocr/v2"),
        connector("c2", "ocr/v1"),
        {"connectors/c2/connector.toml": "x = 1"},
    ],
    "b1": [
        binding("b1", "c1"),
        binding("b1", "c1", 'settings = { m = "a" }\n'),
        binding("b1", "c1", 'secrets = { key = { env = "K" } }\n'),
        binding("b1", "c2"),
        {},
    ],
    "b2": [{}, binding("b2", "c2"), binding("b2", "c1", "suspend = true\n"), {"bindings/b2.toml": "nothing"}],
    "p": [{}, project("p", 'requires = ["ocr/v1"]\n'), project("p", 'services = { ocr = "b2" }\n')],
    "a1": [
        agent("a1", 'services = { ocr = "b1" }\n'),
        agent("a1", 'project = "p"\n'),
        agent("a1", 'requires = ["ocr/v2"]\n'),
        agent("a1", 'services = { ocr = { binding = "b2", version = 2 } }\n'),
        {},
    ],
    "a2": [
        {},
        agent("a2", 'project = "p"\nservices = { ocr = "b1" }\nagents = ["a1"]\n'),
        agent("a2", "models = [1]\n"),
    ],
}
LOCKS = [("ocr/v1", "ocr/v2"), ("ocr/v1",), ()]
WORLD = st.tuples(
    *(st.integers(0, len(choices) - 1) for choices in SLOTS.values()), st.integers(0, len(LOCKS) - 1)
)
EDIT = st.tuples(st.sampled_from([*range(len(SLOTS)), *[len(SLOTS)] * 3]), st.integers(0, 5))


def _read(world: tuple[int, ...], previous: Inventory | None) -> Inventory:
    *picks, lock = world
    files: dict[str, str | bytes] = {}
    for choices, pick in zip(SLOTS.values(), picks, strict=True):
        files |= choices[pick]
    return build.inventory(files, lock=LOCKS[lock], previous=previous)


def _edited(world: tuple[int, ...], edits: list[tuple[int, int]]) -> tuple[int, ...]:
    sizes = [*(len(choices) for choices in SLOTS.values()), len(LOCKS)]
    changed = list(world)
    for slot, pick in edits:
        changed[slot] = pick % sizes[slot]
    return tuple(changed)


def _whole(admission: Admission) -> dict[str, object]:
    return {
        "in_force": {ref: id(resource) for ref, resource in admission.in_force.items()},
        "retained": admission.retained,
        "refused": dict(admission.refused),
        "problems": admission.problems,
        "contracts": {ref: one.tools_json for ref, one in admission.contracts.items()},
        "selections": dict(admission.selections),
        "absent": dict(admission.absent),
        "unusable": admission.unusable,
    }


@pytest.mark.slow
@settings(max_examples=times(25))
@given(WORLD, st.lists(st.tuples(st.lists(EDIT, max_size=3), st.booleans()), min_size=1, max_size=4))
def test_judging_what_changed_equals_judging_everything(
    world: tuple[int, ...], history: list[tuple[list[tuple[int, int]], bool]]
) -> None:
    before = admit(_read(world, None), {}, None, build.WHERE)
    for edits, remembered in history:
        world = _edited(world, edits)
        now = _read(world, before.inventory)
        before = _both(now, before.in_force if remembered else {}, before)


@pytest.mark.slow
@settings(max_examples=times(25))
@given(WORLD, WORLD)
def test_looking_again_at_the_same_files_changes_nothing(
    one: tuple[int, ...], other: tuple[int, ...]
) -> None:
    before = admit(_read(one, None), {}, None, build.WHERE)
    step = admit(_read(other, before.inventory), before.in_force, before, build.WHERE)
    again = admit(_read(other, step.inventory), step.in_force, step, build.WHERE)
    assert _whole(again) == _whole(step)


def test_one_changed_binding_has_itself_and_its_agents_judged_anew_and_nothing_else() -> None:
    # What that costs in milliseconds, among 10,000 objects, is told by benchmarks/reconcile.py.
    files: dict[str, str | bytes] = {}
    for n in range(8):
        files |= connector(f"c{n}", "ocr/v1")
    for n in range(40):
        files |= binding(f"b{n}", f"c{n % 8}")
    for n in range(52):
        files |= agent(f"a{n}", f'services = {{ ocr = "b{n % 40}" }}\n')
    seen = build.inventory(files, interface())
    before = admit(seen, {}, None, build.WHERE)
    assert not before.problems
    now = build.inventory(files | binding("b7", "c6"), interface(), previous=seen)
    after = admit(now, before.in_force, before, build.WHERE)
    assert before.memory is not None
    assert after.memory is not None
    old = before.memory.verdicts
    anew = {str(ref) for ref, verdict in after.memory.verdicts.items() if verdict is not old.get(ref)}
    assert anew == {"binding/b7", "agent/a7", "agent/a47"}
