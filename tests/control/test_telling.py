"""Telling what changed, again and again, adds up to telling everything of the newest facts."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.admission.admit import admit
from reconciler.control import say
from reconciler.control.facts import Facts
from reconciler.control.telling import Teller
from reconciler.model.names import InstanceName, Kind, ObjectRef
from reconciler.model.status import Held, InstanceSeen, ObjectStatus
from reconciler.plan import serving
from reconciler.plan.desired import desire
from tests.admission import build, test_profiles
from tests.kit.effort import times
from tests.plan.build import HOME, KIT, SMALL, admitted, agent, binding, connector, interface

PROJECT = 'apiVersion = "handler.project/v1"\ndescription = "Shared."\n'
SETTINGS = 'apiVersion = "handler.config/v1"\n'
_OF_PROJECT = {"agents/clerk.toml": 'apiVersion = "handler.agent/v1"\nproject = "shared"\n'}
EDITS: list[Mapping[str, str | None]] = [
    binding("fast", "ocr-fast", "settings.speed = 9\n"),
    binding("fast", "ocr-good"),
    binding("fast", "ocr-fast", "suspend = true\n"),
    binding("fast", "nowhere"),
    binding("fast", "ocr-fast", 'secrets = { key = { env = "KEY" } }\n'),
    {"bindings/fast.toml": "<<<<<<< HEAD\n"},
    {"bindings/fast.toml": "<<<<<<< HEAD\n\n"},
    {"bindings/fast.toml": None},
    binding("fast", "ocr-fast"),
    binding("spare", "ocr-good"),
    {"bindings/spare.toml": None},
    agent("clerk", {"ocr": "good"}),
    agent("clerk", {"ocr": "fast"}),
    agent("clerk", {"ocr": "nowhere"}),
    agent("clerk", {"ocr": "fast"}, 'models = ["large"]'),
    _OF_PROJECT,
    {"agents/clerk.toml": "x = 1\n"},
    {"agents/clerk.toml": None},
    {"projects/shared.toml": PROJECT + '[services]\nocr = "fast"\n'},
    {"projects/shared.toml": PROJECT + 'requires = ["ocr/v1"]\n\n[services]\nocr = "good"\n'},
    {"projects/shared.toml": PROJECT + '\n\nservices = { ocr = "good", x = }\n'},
    {"projects/shared.toml": None},
    {"handler.toml": SETTINGS + '[services]\nocr = "good"\n'},
    {"handler.toml": SETTINGS},
    {"handler.toml": "x = 1\n"},
    interface("tts"),
    connector("ocr-good", "ocr/v1", code="print(1)\n"),
    connector("ocr-good", "tts/v1"),
    {"connectors/ocr-fast/connector.toml": "x"},
    dict.fromkeys(connector("ocr-fast", "ocr/v1")),
    connector("ocr-fast", "ocr/v1"),
]
PHASES: st.SearchStrategy[Any] = st.sampled_from(
    ["declared", "building", "starting", "ready", "idle", "draining", "failed"]
)

TRIALS = [serving.Trial("it starts"), serving.Trial("it fails"), serving.Trial("it fails", given_up=True)]


class Controller:
    """What a controller knows, moment after moment."""

    def __init__(self) -> None:
        self.files: dict[str, str] = dict(SMALL)
        self.admission = admitted(self.files)
        self.desired = desire(self.admission, generation=1, kit=KIT, home=HOME)
        self.serving = serving.NOTHING
        self.instances: dict[InstanceName, InstanceSeen] = {}

    def edit(self, edits: list[Mapping[str, str | None]]) -> None:
        for edit in edits:
            for path, text in edit.items():
                if text is None:
                    self.files.pop(path, None)
                else:
                    self.files[path] = text
        self.admission = admitted(self.files, self.admission, clean=False)
        number = self.desired.table.generation + 1
        self.desired = desire(self.admission, generation=number, kit=KIT, home=HOME, previous=self.desired)

    def go_on(self, data: st.DataObject) -> Facts:
        """Whatever a supervisor and people may do meanwhile."""
        wanted = sorted(self.desired.recipes)
        proven = [name for name in wanted if data.draw(st.booleans())]
        self.serving = serving.serve(self.desired.table, self.serving, proven)
        for name in wanted:
            if data.draw(st.booleans()):
                pid = data.draw(st.sampled_from([None, 7]))
                self.instances[name] = InstanceSeen(str(name), data.draw(PHASES), pid, message="words")
        for name in [name for name in self.instances if name not in wanted and data.draw(st.booleans())]:
            del self.instances[name]
        unproven = serving.to_prove(self.desired.table, self.serving, proven)
        held = [
            ref for ref in self.admission.in_force if ref.kind is Kind.BINDING and data.draw(st.booleans())
        ]
        return Facts(
            self.admission,
            self.desired.table,
            self.serving,
            {one.name: one for one in self.instances.values()},
            {name: data.draw(st.sampled_from(TRIALS)) for name in unproven},
            dict.fromkeys(held, Held("AwaitingApply", "its file is gone"))
            if data.draw(st.booleans())
            else {},
            dict.fromkeys(held, data.draw(st.sampled_from(["often", "too often"])))
            if data.draw(st.booleans())
            else {},
        )


def by_ref(statuses: tuple[ObjectStatus, ...]) -> dict[ObjectRef, ObjectStatus]:
    return {ObjectRef(Kind(one.kind), one.name): one for one in statuses}


@pytest.mark.slow
@settings(max_examples=times(32))
@given(st.lists(st.lists(st.sampled_from(EDITS), max_size=3), min_size=1, max_size=6), st.data())
def test_telling_what_changed_adds_up_to_telling_everything(
    history: list[list[Mapping[str, str | None]]], data: st.DataObject
) -> None:
    controller, teller = Controller(), Teller()
    known: dict[ObjectRef, ObjectStatus] = {}
    for edits in history:
        controller.edit(edits)
        if data.draw(st.booleans()):  # otherwise two looks follow each other without a word
            facts = controller.go_on(data)
            told = teller.tell(facts)
            assert told.whole == (not known)
            assert known.keys() >= set(told.gone)
            known = {ref: one for ref, one in known.items() if ref not in told.gone} | by_ref(told.changed)
            assert known == by_ref(tuple(say.statuses(facts)))


SHARED = PROJECT + '[services]\nocr = "fast"\n'
PAIRS: dict[str, list[Mapping[str, str | None]]] = {
    "what a project asks of its agents": [
        _OF_PROJECT | {"projects/shared.toml": SHARED},
        {"projects/shared.toml": PROJECT + 'requires = ["ocr/v1"]\n[services]\nocr = "fast"\n'},
    ],
    "where a project's kept choice stands in its broken text": [
        _OF_PROJECT | {"projects/shared.toml": SHARED},
        {"projects/shared.toml": SHARED + "x = 1\n"},
        {"projects/shared.toml": "# more\n" + SHARED + "x = 1\n"},
    ],
    "the bytes of a text that is refused as before": [
        {"bindings/fast.toml": "<<<<<<< HEAD\n"},
        {"bindings/fast.toml": "<<<<<<< HEAD\n# more\n"},
    ],
    "where the settings choose": [
        {"agents/clerk.toml": 'apiVersion = "handler.agent/v1"\nrequires = ["ocr/v1"]\n'}
        | {"handler.toml": SETTINGS + '[services]\nocr = "fast"\n'},
        {"handler.toml": SETTINGS + '\n[services]\nocr = "fast"\n'},
    ],
    "a catalogue of one's own that nobody uses any more": [
        binding("spare", "ocr-good"),
        {"bindings/spare.toml": None, "bindings/good.toml": None, "agents/maid.toml": None},
    ],
}


@pytest.mark.parametrize("steps", PAIRS.values(), ids=PAIRS.keys())
def test_what_an_object_leans_on_is_followed(steps: list[Mapping[str, str | None]]) -> None:
    controller, teller = Controller(), Teller()
    known: dict[ObjectRef, ObjectStatus] = {}
    for edit in steps:
        controller.edit([edit])
        table = controller.desired.table
        facts = Facts(controller.admission, table, table, {})
        told = teller.tell(facts)
        known = {ref: one for ref, one in known.items() if ref not in told.gone} | by_ref(told.changed)
        assert known == by_ref(tuple(say.statuses(facts)))


def test_routes_that_serve_only_now_are_told_of_their_agents() -> None:
    controller, teller = Controller(), Teller()
    admission, table = controller.admission, controller.desired.table
    teller.tell(Facts(admission, table, serving.NOTHING, {}))
    now = Facts(admission, table, table, {})
    told = by_ref(teller.tell(now).changed)
    assert told.keys() == {ObjectRef(Kind.AGENT, "clerk"), ObjectRef(Kind.AGENT, "maid")}
    assert told.items() <= by_ref(tuple(say.statuses(now))).items()


def test_one_edited_binding_is_told_of_itself_and_of_its_agents_alone() -> None:
    controller, teller = Controller(), Teller()
    facts = Facts(controller.admission, controller.desired.table, controller.desired.table, {})
    assert teller.tell(facts).whole
    assert teller.tell(facts).changed == ()
    controller.edit([binding("fast", "ocr-fast", "settings.speed = 9\n")])
    told = teller.tell(Facts(controller.admission, controller.desired.table, controller.desired.table, {}))
    assert [(one.kind, one.name) for one in told.changed] == [("agent", "clerk"), ("binding", "fast")]
    controller.edit([{"bindings/fast.toml": None, "agents/clerk.toml": None}])
    told = teller.tell(Facts(controller.admission, controller.desired.table, controller.desired.table, {}))
    assert told.gone == (ObjectRef(Kind.AGENT, "clerk"), ObjectRef(Kind.BINDING, "fast"))
    assert [one.name for one in told.changed] == ["ocr-fast", "ocr/v1"]


@pytest.mark.parametrize("served", ["suspended", "failed", "fine"])
def test_an_agent_is_ready_by_earlier_routes_only_while_these_serve(served: str) -> None:
    clerk, good = ObjectRef(Kind.AGENT, "clerk"), ObjectRef(Kind.BINDING, "good")
    controller, teller = Controller(), Teller()
    controller.edit([agent("clerk", {"ocr": "good"})])
    controller.serving = serving.serve(controller.desired.table, controller.serving, ())
    teller.tell(_facts(controller))
    controller.edit([agent("clerk", {"ocr": "fast"})])
    controller.serving = serving.serve(controller.desired.table, controller.serving, ())
    told = by_ref(teller.tell(_facts(controller)).changed)
    assert _ready_of(told[clerk])[:2] == ("True", "LastGoodRetained")
    if served == "suspended":
        controller.edit([binding("good", "ocr-good", "suspend = true\n")])
    elif served == "failed":
        (name,) = [one for one in controller.desired.recipes if one.binding == "good"]
        seen = InstanceSeen(str(name), "failed", None, reason="CrashLoop", message="words")
        controller.instances[name] = seen
    told |= by_ref(teller.tell(_facts(controller)).changed)
    assert {
        "suspended": (
            "False",
            "Suspended",
            f"earlier routes are in force, and {good} is not ready: suspended",
        ),
        "failed": ("False", "CrashLoop", f"earlier routes are in force, and {good} is not ready: words"),
        "fine": ("True", "LastGoodRetained", "earlier routes serve"),
    }[served] == _ready_of(told[clerk])


_ENDED = "its process ended with signal 9 and nobody asked for that: the next call starts it"


@pytest.mark.parametrize(
    ("reason", "ready"),
    [
        (
            None,
            (
                "True",
                "ProcessVanished",
                "its process ended with signal 9 and nobody asked for that: the next call starts it",
            ),
        ),
        ("CrashLoop", ("False", "CrashLoop", "words")),
    ],
)
def test_what_ended_unasked_is_ready_for_the_next_call_unless_it_does_so_again_and_again(
    reason: Any, ready: tuple[str, str, str]
) -> None:
    clerk, good = ObjectRef(Kind.AGENT, "clerk"), ObjectRef(Kind.BINDING, "good")
    controller = Controller()
    controller.edit([agent("clerk", {"ocr": "good"})])
    controller.serving = serving.serve(controller.desired.table, controller.serving, ())
    (name,) = [one for one in controller.desired.recipes if one.binding == "good"]
    controller.instances[name] = InstanceSeen(
        str(name), "failed", None, last_exit="signal 9", reason=reason, message="words", vanished=True
    )
    told = by_ref(Teller().tell(_facts(controller)).changed)
    assert _ready_of(told[good]) == ready
    assert _ready_of(told[clerk])[0] == ready[0]
    linked = next(one for one in told[good].conditions if one.type == "Linked")
    assert (linked.status, linked.reason) == ("False", ready[1])


def test_what_cannot_serve_says_so_though_nothing_is_wrong_with_it() -> None:
    controller = Controller()
    controller.edit([agent("idler", {}), agent("clerk", {"ocr": "good"})])
    controller.serving = serving.serve(controller.desired.table, controller.serving, ())
    facts = _facts(controller)
    good = ObjectRef(Kind.CONNECTOR, "ocr-good")
    absent = {**facts.admission.absent, good: ("runtime.mcp",)}
    told = by_ref(Teller().tell(replace(facts, admission=replace(facts.admission, absent=absent))).changed)
    words = "but this release does not have what it uses: runtime.mcp"
    assert _ready_of(told[good]) == ("True", "Admitted", words)
    idler = _ready_of(told[ObjectRef(Kind.AGENT, "idler")])
    assert idler == ("True", "ReconcileSuccess", "no service is bound: it has nothing to call")
    assert _ready_of(told[ObjectRef(Kind.AGENT, "clerk")])[2] == ""


def _facts(controller: Controller) -> Facts:
    unproven = serving.to_prove(controller.desired.table, controller.serving, ())
    seen = {one.name: one for one in controller.instances.values()}
    trials = {name: serving.Trial("it starts") for name in unproven}
    return Facts(controller.admission, controller.desired.table, controller.serving, seen, trials)


def _ready_of(status: ObjectStatus) -> tuple[str, str, str]:
    (one,) = [one for one in status.conditions if one.type == "Ready"]
    return one.status, one.reason, one.message


def test_what_ships_is_told_of_for_as_long_as_the_configuration_uses_it_by_way_of_whatever() -> None:
    shipped = test_profiles.CATALOG | test_profiles.speaking()
    bound = build.inventory(test_profiles.BOUND, shipped)
    bare = build.inventory({}, shipped)
    known: dict[ObjectRef, ObjectStatus] = {}
    seen, teller, before = [], Teller(), None
    for inventory in (bare, bound, bare):
        before = admit(inventory, before.in_force if before else {}, before, build.WHERE)
        facts = Facts(before, serving.NOTHING, serving.NOTHING, {})
        told = teller.tell(facts)
        known = {ref: one for ref, one in known.items() if ref not in told.gone} | by_ref(told.changed)
        assert known == by_ref(tuple(say.statuses(facts)))
        seen.append({str(ref): one.used_by for ref, one in known.items()})
    assert seen == [
        {},
        {
            "binding/b": (),
            "connector/c": ("binding/b",),
            "profile/acme.pictures@1": ("connector/c",),
            "dialect/openai.images@1": ("profile/acme.pictures@1",),
        },
        {},
    ]
