"""An instance without code is made of the facts of its profiles: pinned, and in its name."""

from typing import Any

from reconciler.model.dialect import Profile
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.recipes import Recipe
from reconciler.plan import making
from tests.admission import build
from tests.admission.test_profiles import ADDRESS, BOUND, CATALOG, GOOD, OPEN, P, speaking


def made(files: build.Files, bound: build.Files = BOUND) -> tuple[making.Base, Recipe]:
    resources: Any = build.inventory({**files, **bound}, CATALOG).resources
    profile = resources[ObjectRef(Kind.PROFILE, "acme.pictures@1")]
    base = making.base(resources[ObjectRef(Kind.CONNECTOR, "c")], [profile])
    return base, making.recipe(resources[ObjectRef(Kind.BINDING, "b")], base, state="none", kit="k")


def test_the_facts_are_pinned_with_the_code_and_read_back() -> None:
    base, recipe = made(speaking())
    facts = base.code.files["profiles/acme.pictures@1.json"]
    profile = Profile.model_validate_json(facts)
    assert profile.ref == "acme.pictures@1"
    assert profile.operation("generate") is not None
    assert recipe.egress == ("api.acme.example:443",)
    assert [name for name, _ in recipe.profiles] == ["acme.pictures@1"]
    assert Recipe.from_json(recipe.as_json()) == recipe


def test_another_fact_is_another_instance_and_a_comment_is_none() -> None:
    _, first = made(speaking())
    _, commented = made({**speaking(), P: f"# nothing new\n{GOOD}"})
    _, other = made({**speaking(), P: GOOD.replace('effect = "none"', 'effect = "paid"')})
    assert first.name == commented.name
    assert first.name != other.name


def test_a_server_that_the_binding_names_is_reached_and_enters_the_name() -> None:
    files = {**speaking(ADDRESS), P: OPEN}
    base, plain = made(files)
    text = str(BOUND["bindings/b.toml"]).replace(
        "[secrets]", 'settings = { baseUrl = "https://pictures.example/v1" }\n[secrets]'
    )
    _, named = made(files, {"bindings/b.toml": text})
    assert base.egress == plain.egress == ()
    assert named.egress == ("pictures.example:443",)
    assert named.name != plain.name
