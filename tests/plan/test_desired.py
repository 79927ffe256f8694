"""What should run: a recipe for a usable binding, routes for an agent, the same objects for one fact."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.model.names import InstanceName, InterfaceRef, Kind, ObjectRef
from reconciler.model.recipes import Recipe, folder_digest
from reconciler.model.resources import SecretReference, SecretSlot
from reconciler.model.routes import ScopeFolder
from reconciler.plan import making
from reconciler.plan.desired import Desired, desire
from reconciler.plan.routing import same_table
from tests.kit.effort import times
from tests.plan.build import HOME, KIT, SMALL, admitted, agent, binding, connector, interface


def desired(files: dict[str, str], previous: Desired | None = None, **more: object) -> Desired:
    return desire(admitted(files), generation=1, kit=KIT, home=HOME, previous=previous, **more)  # type: ignore[arg-type]


def recipe(found: Desired, name: str) -> Recipe:
    (one,) = [one for instance, one in found.recipes.items() if instance.binding == name]
    return one


def test_every_usable_binding_has_a_recipe_whether_an_agent_selects_it_or_not() -> None:
    found = desired(SMALL | binding("spare", "ocr-fast", "settings.speed = 9\n"))
    assert {name.binding for name in found.recipes} == {"fast", "good", "spare"}
    for name, one in found.recipes.items():
        assert one.name == name
        assert one.kit == KIT
    assert recipe(found, "fast").settings == (("SPEED", "3"),)
    assert recipe(found, "spare").settings == (("SPEED", "9"),)
    assert recipe(found, "fast").runtime == "python"
    assert recipe(found, "fast").entry == "main.py"


def test_a_setting_with_a_format_opens_what_it_names_and_nothing_else() -> None:
    more = """
egress = ["fixed.example:443"]
[settings.docs]
env = "DOCS"
description = "d"
format = "folder"
[settings.server]
env = "SERVER"
description = "s"
format = "url"
default = "http://127.0.0.1:8080"
"""
    files = interface("ocr") | connector("engine", "ocr/v1", more=more)
    named = 'settings = { docs = "~/papers", server = "https://Search.example/api" }\n'
    found = desired(files | binding("a", "engine", named) | binding("b", "engine"))
    assert recipe(found, "a").folders == (("docs", "~/papers"),)
    assert recipe(found, "a").settings == (
        ("DOCS", "/folders/docs"),
        ("SERVER", "https://Search.example/api"),
    )
    assert recipe(found, "a").egress == ("fixed.example:443", "search.example:443")
    assert recipe(found, "b").folders == ()
    assert recipe(found, "b").egress == ("127.0.0.1:8080", "fixed.example:443")
    assert "folders" in recipe(found, "a").as_json()
    assert "folders" not in recipe(found, "b").as_json()  # it keeps the name that it always had


def test_the_code_to_pin_is_the_connectors_folder_by_paths_inside_it() -> None:
    found = desired(SMALL)
    one = recipe(found, "fast")
    pinned = found.code[one.code]
    assert set(pinned.files) == {"connector.toml", "main.py"}
    assert pinned.digest == one.code == folder_digest(pinned.files)
    assert set(found.code) == {one.code, recipe(found, "good").code}


def test_an_agents_routes_name_the_instance_the_contract_and_its_scope() -> None:
    found = desired(SMALL)
    clerk = found.table.agents["clerk"]
    route = clerk.routes["ocr"]
    assert route.interface == InterfaceRef("ocr", 1)
    assert (route.binding, route.instance) == ("fast", recipe(found, "fast").name)
    assert list(route.contract.tools) == ["ocr_say"]
    assert clerk.scope == (ScopeFolder("/home/ada/scans"), ScopeFolder("/data", "read"))
    assert found.table.recipes == found.recipes


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("a setting", binding("fast", "ocr-fast", "settings.speed = 4\n")),
        ("a bound", binding("fast", "ocr-fast", "instance.maxConcurrentCalls = 2\n")),
        ("the code", {"connectors/ocr-fast/main.py": "print(1)\n"}),
        (
            "a file beside it",
            {"connectors/ocr-fast/requirements.lock": "x==1 --hash=sha256:" + "0" * 64 + "\n"},
        ),
    ],
)
def test_what_changes_the_running_thing_makes_a_new_instance_of_that_binding_alone(
    name: str, changed: dict[str, str]
) -> None:
    before, after = desired(SMALL), desired(SMALL | changed)
    assert recipe(before, "fast").name != recipe(after, "fast").name
    assert recipe(before, "good").name == recipe(after, "good").name


@pytest.mark.parametrize(
    "changed",
    [
        binding("fast", "ocr-fast", 'description = "The quick one."\n'),
        binding("fast", "ocr-fast", "suspend = true\n"),
        binding("fast", "ocr-fast", "settings.speed = 3\n"),
        {"agents/clerk.toml": agent("clerk", {"ocr": "good"})["agents/clerk.toml"]},
    ],
)
def test_what_does_not_change_it_keeps_the_instance(changed: dict[str, str]) -> None:
    assert set(desired(SMALL).recipes) == set(desired(SMALL | changed).recipes)


def test_another_kit_makes_every_instance_new() -> None:
    admission = admitted(SMALL)
    one = desire(admission, generation=1, kit=KIT, home=HOME)
    other = desire(admission, generation=2, kit="d" * 64, home=HOME, previous=one)
    assert not one.recipes.keys() & other.recipes.keys()


def test_a_suspended_binding_keeps_its_route_which_says_why_it_is_closed() -> None:
    found = desired(SMALL | binding("fast", "ocr-fast", 'suspend = true\nsuspendReason = "moving house"\n'))
    assert found.table.agents["clerk"].routes["ocr"].suspended == "moving house"
    assert found.table.agents["maid"].routes["ocr"].suspended is None


def test_a_suspended_agent_has_no_routes_and_is_told_why() -> None:
    found = desired(SMALL | agent("clerk", {"ocr": "fast"}, "suspend = true"))
    assert set(found.table.agents) == {"maid"}
    (problem,) = found.refusals["clerk"]
    assert (problem.code, problem.reason, problem.path) == ("A401", "Suspended", ("suspend",))


def test_a_refused_agent_without_an_earlier_form_has_no_routes_and_its_problems_say_why() -> None:
    admission = admitted(SMALL | agent("lost", {"ocr": "nowhere"}), clean=False)
    found = desire(admission, generation=1, kit=KIT, home=HOME)
    assert "lost" not in found.table.agents
    assert found.refusals["lost"] == admission.refused[ObjectRef(Kind.AGENT, "lost")]


def test_what_cannot_be_served_in_this_release_has_no_recipe() -> None:
    more = connector("ocr-remote", "ocr/v1", more="[sandbox]\ngpu = true\n")
    found = desired(SMALL | more | binding("far", "ocr-remote"))
    assert {name.binding for name in found.recipes} == {"fast", "good"}


def test_an_edit_gives_a_new_table_in_which_whoever_is_not_touched_is_the_same_object() -> None:
    first = admitted(SMALL)
    one = desire(first, generation=1, kit=KIT, home=HOME)
    second = admitted(SMALL | agent("clerk", {"ocr": "good"}), first)
    two = desire(second, generation=2, kit=KIT, home=HOME, previous=one)
    assert two.table.generation == 2
    assert two.table.agents["maid"] is one.table.agents["maid"]
    assert two.table.agents["clerk"].routes["ocr"].binding == "good"
    assert all(two.recipes[name] is one.recipes[name] for name in one.recipes)


def test_where_nothing_differs_the_table_is_the_same_object_and_keeps_its_number() -> None:
    first = admitted(SMALL)
    one = desire(first, generation=1, kit=KIT, home=HOME)
    for files in (SMALL, SMALL | {"connectors/ocr-fast/main.py": SMALL["connectors/ocr-fast/main.py"]}):
        again = desire(admitted(files, first), generation=2, kit=KIT, home=HOME, previous=one)
        assert again.table is one.table
    afresh = desire(
        admitted(SMALL), generation=2, kit=KIT, home=HOME, previous=one
    )  # other objects, same bytes
    assert afresh.table is one.table


def test_a_removed_binding_of_an_agent_that_keeps_its_last_form_is_closed_and_not_forgotten() -> None:
    first = admitted(SMALL)
    one = desire(first, generation=1, kit=KIT, home=HOME)
    without = {path: text for path, text in SMALL.items() if path != "bindings/fast.toml"}
    second = admitted(without, first, clean=False)
    two = desire(second, generation=2, kit=KIT, home=HOME, previous=one)
    assert "fast" not in {name.binding for name in two.recipes}
    routes = two.table.agents["clerk"].routes if "clerk" in two.table.agents else {}
    assert all(route.suspended for route in routes.values())


def test_secrets_are_references_in_words_and_the_narrowest_way_is_taken() -> None:
    slot = SecretSlot.model_validate
    reference = SecretReference.model_validate
    use = making.secret("key", reference({"command": ["pass", "show", "ocr"]}), slot({"env": "KEY"}))
    assert (use.form, use.reference, use.env, use.via) == ("command", ("pass", "show", "ocr"), "KEY", "env")
    use = making.secret(
        "key", reference({"keyring": {"user": "u", "service": "s"}}), slot({"header": "X-Key"})
    )
    assert (use.form, use.reference, use.via) == ("keyring", ("service=s", "user=u"), "gate")
    assert making.secret("key", reference({"env": "K"}), slot({"env": "KEY", "via": "file"})).via == "file"


def test_settings_are_text_and_one_without_a_variable_gets_ours() -> None:
    assert [making.text(value) for value in (True, False, 12, 0.5, "a b")] == [
        "true",
        "false",
        "12",
        "0.5",
        "a b",
    ]
    assert making.variable("pageLimit") == "HANDLER_SETTING_PAGE_LIMIT"


# the incremental way gives what the whole way gives

_EDITS: tuple[dict[str, str | None], ...] = (
    binding("fast", "ocr-fast", "settings.speed = 4\n"),
    binding("fast", "ocr-fast", "suspend = true\n"),
    binding("fast", "ocr-good"),
    binding("new", "ocr-good"),
    {"bindings/new.toml": None},
    {"bindings/fast.toml": None},
    {"bindings/good.toml": "not TOML ["},
    agent("clerk", {"ocr": "good"}),
    agent("clerk", {"ocr": "nowhere"}),
    agent("clerk", {"ocr": "fast"}, "suspend = true"),
    agent("third", {"ocr": "fast"}, 'project = "site"'),
    {"agents/third.toml": None},
    {"projects/site.toml": 'apiVersion = "handler.project/v1"\nservices = { ocr = "good" }\n'},
    {"projects/site.toml": None},
    {"connectors/ocr-fast/main.py": "print(2)\n"},
    {"connectors/ocr-good/connector.toml": "broken"},
    dict(SMALL),
    interface("web"),
    connector("web-x", "web/v1"),
)


@pytest.mark.slow
@given(st.lists(st.sampled_from(range(len(_EDITS))), min_size=1, max_size=8))
@settings(max_examples=times(25))
def test_edit_by_edit_gives_what_a_fresh_start_gives(edits: list[int]) -> None:
    files = dict(SMALL)
    admission = admitted(files)
    known = desire(admission, generation=0, kit=KIT, home=HOME)
    for number, edit in enumerate(edits, 1):
        for path, content in _EDITS[edit].items():
            if content is None:
                files.pop(path, None)
            else:
                files[path] = content
        admission = admitted(files, admission, clean=False)
        known = desire(admission, generation=number, kit=KIT, home=HOME, previous=known)
        afresh = desire(admission, generation=number, kit=KIT, home=HOME)
        assert known.recipes == afresh.recipes
        assert known.code.keys() == afresh.code.keys()
        assert known.refusals == afresh.refusals
        closed = {
            name for name, one in known.table.agents.items() if any(r.suspended for r in one.routes.values())
        }
        for name in known.table.agents.keys() - closed:
            assert same_table(_only(known, name), _only(afresh, name))
        assert known.table.agents.keys() == afresh.table.agents.keys()
        clients = [
            {key: one for key, one in found.memory.clients.items() if one} for found in (known, afresh)
        ]
        assert clients[0] == clients[1]
        assert known.memory.made.keys() == afresh.memory.made.keys()


def _only(found: Desired, agent_name: str) -> object:
    return replace(found.table, agents={agent_name: found.table.agents[agent_name]}, recipes={})


def test_instance_names_are_those_of_their_recipes() -> None:
    found = desired(SMALL)
    assert all(isinstance(name, InstanceName) and name == one.name for name, one in found.recipes.items())


def _with_model(files: dict[str, str]) -> dict[str, str]:
    """An interface whose tool takes a model, too."""
    path = next(one for one in files if one.endswith("tools.json"))
    (tool,) = json.loads(files[path])
    tool["inputSchema"]["properties"]["model"] = {"type": "string", "maxLength": 100}
    return files | {path: json.dumps([tool])}


@pytest.mark.parametrize(
    ("listed", "narrowed", "granted"),
    [
        ("", "", None),
        ('models = ["b", "a", "c"]\n', "", ("b", "a", "c")),
        ('models = ["b", "a", "c"]\n', 'models = ["c", "b"]', ("b", "c")),
        ("", 'models = ["x", "y"]', ("x", "y")),
    ],
)
def test_a_route_grants_the_models_of_its_binding_that_its_agent_does_not_leave_out(
    listed: str, narrowed: str, granted: tuple[str, ...] | None
) -> None:
    llm = _with_model(interface("llm")) | connector("lm", "llm/v1") | binding("one", "lm", listed)
    files = SMALL | llm | agent("clerk", {"ocr": "fast", "llm": "one"}, narrowed)
    found = desire(admitted(files), generation=1, kit=KIT, home=HOME).table.agents["clerk"].routes
    assert found["llm"].models == granted
    assert found["ocr"].models is None


def test_a_change_of_models_is_a_change_of_the_routes_and_of_nothing_else() -> None:
    llm = (
        _with_model(interface("llm"))
        | connector("lm", "llm/v1")
        | binding("one", "lm", 'models = ["a", "b"]\n')
    )
    wide, narrow = (
        admitted(SMALL | llm | agent("clerk", {"llm": "one"}, more)) for more in ("", 'models = ["b"]')
    )
    first = desire(wide, generation=1, kit=KIT, home=HOME)
    second = desire(narrow, generation=2, kit=KIT, home=HOME, previous=first)
    assert second.table.generation == 2
    assert second.table.agents["clerk"].routes["llm"].models == ("b",)
    assert second.recipes.keys() == first.recipes.keys()
    assert second.table.agents["maid"] is first.table.agents["maid"]


def _several(listed: str, one: str, two: str, narrowed: str = "") -> dict[str, str]:
    llm = _with_model(interface("llm")) | connector("lm", "llm/v1")
    llm |= binding("one", "lm", one) | binding("two", "lm", two)
    text = f'apiVersion = "handler.agent/v1"\nservices = {{ llm = {listed} }}\n{narrowed}'
    return SMALL | llm | {"agents/clerk.toml": text}


ONE, TWO_MODELS = 'models = ["a", "b"]\n', 'models = ["c", "d"]\n'


@pytest.mark.parametrize(
    ("narrowed", "granted", "default"),
    [("", ("a", "b", "c", "d"), "one"), ('models = ["d", "b"]\n', ("b", "d"), "one"),
     ('models = ["d"]\n', ("d",), "two")],
)  # fmt: skip
def test_several_bindings_of_language_models_are_one_interface_each_with_its_own(
    narrowed: str, granted: tuple[str, ...], default: str
) -> None:
    files = _several('["one", "two"]', ONE, TWO_MODELS, narrowed)
    route = desire(admitted(files), generation=1, kit=KIT, home=HOME).table.agents["clerk"].routes["llm"]
    assert [one.binding for one in route.each] == ["one", "two"]
    assert route.allowed == granted
    assert route.of_model("").binding == default
    owners = {model: route.of_model(model).binding for model in granted}
    assert owners == {model: "one" if model in "ab" else "two" for model in granted}
    assert route.of_model("nobody's") is route


def test_an_edit_of_a_further_binding_moves_the_routes_and_its_clients_are_known() -> None:
    first = desire(admitted(_several('["one", "two"]', ONE, TWO_MODELS)), generation=1, kit=KIT, home=HOME)
    edited = _several('["one", "two"]', ONE, 'models = ["c"]\n')
    second = desire(admitted(edited), generation=2, kit=KIT, home=HOME, previous=first)
    before, after = (one.table.agents["clerk"].routes["llm"] for one in (first, second))
    assert before.others[0].instance != after.others[0].instance
    assert after.allowed == ("a", "b", "c")
    assert set(after_names(second)) == {route.instance for route in second.table.agents["clerk"].every()}


def after_names(found: Desired) -> list[InstanceName]:
    return [name for name in found.recipes if name.binding in ("one", "two")]
