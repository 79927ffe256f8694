"""Reach: what is gained and lost, sort by sort, and what a call costs by its interface."""

from dataclasses import fields, replace

from reconciler.model.contract import Contract
from reconciler.model.recipes import Recipe, SandboxPolicy, SecretUse
from reconciler.model.routes import Route
from reconciler.plan import reach
from reconciler.plan.keys import Field
from reconciler.plan.reach import Delta
from tests.kit.values import recipe
from tests.plan.build import admitted, interface

PLAIN: Recipe = recipe("b")
_PAID = '\n[operations.shop_say]\neffect = "paid"\n'


def contract(more: str = "") -> Contract:
    files = interface("shop")
    key = "interfaces/shop/v1/interface.toml"
    files[key] = files[key].replace("[errors]\n", '[errors]\noutcome_unknown = "nobody knows"\n') + more
    (found,) = admitted(files).contracts.values()
    return found


def test_each_sort_names_what_is_gained_and_lost() -> None:
    use = SecretUse("key", "env", ("A",), "KEY", "env")
    old = replace(PLAIN, egress=("a.test:443", "b.test:443"), secrets=(use,))
    new = replace(
        PLAIN, egress=("b.test:443", "c.test:443"), sandbox=SandboxPolicy(programs=("git",), read=("/srv",))
    )
    found = reach.deltas(reach.of_recipe(old, ()), reach.of_recipe(new, [contract(_PAID)]))
    assert [(one.sort, len(one.removed), len(one.added)) for one in found] == [
        ("egress", 1, 1), ("secrets", 1, 0), ("programs", 0, 1), ("read", 0, 1), ("cost", 0, 1),
    ]  # fmt: skip
    assert found[0] == Delta("egress", ("a.test:443",), ("c.test:443",))
    assert found[-1].added == ("paid (shop/v1 shop_say)",)
    assert reach.deltas(reach.NOTHING, reach.NOTHING) == ()


def test_a_folder_that_a_setting_names_is_read_and_a_changed_one_tells() -> None:
    old, new = replace(PLAIN, folders=(("d", "/srv/a"),)), replace(PLAIN, folders=(("d", "/srv/b"),))
    found = reach.deltas(reach.of_recipe(old, ()), reach.of_recipe(new, ()))
    assert found == (Delta("read", ("/srv/a",), ("/srv/b",)),)


def test_a_folder_that_files_are_added_to_is_not_read_and_is_told_by_itself() -> None:
    new = reach.of_recipe(replace(PLAIN, adds=(("d", "/srv/a"),)), ())
    assert reach.deltas(reach.of_recipe(PLAIN, ()), new) == (Delta("adds", (), ("/srv/a",)),)


def test_only_granted_tools_cost_and_a_closed_route_reaches_nothing() -> None:
    paid = contract(_PAID)
    route = Route(paid.interface, "b", PLAIN.name, paid)
    assert reach.of_route(route, PLAIN).cost == {"paid (shop/v1 shop_say)"}
    assert reach.of_route(replace(route, tools=()), PLAIN).cost == frozenset()
    assert (
        reach.of_route(replace(route, suspended="moving"), replace(PLAIN, egress=("a:1",))) == reach.NOTHING
    )
    assert reach.together([reach.of_route(route, PLAIN), reach.NOTHING]).cost == {"paid (shop/v1 shop_say)"}
    assert set(reach.costs(contract(), None)) == set()


def test_every_bound_of_an_instance_is_compared() -> None:
    """What a recipe holds is shown as reach, bound, making, or by the keys of the two files."""
    shown_by_keys = {
        "folders",
        "adds",
        "cassette",
        "command",
        "image",
        "socket",
        "binding",
        "settings",
        "models",
        "egress",
        "secrets",
        "sandbox",
        "session",  # of what a session has for itself, which no edit touches
    }
    changed = replace(
        PLAIN, connector="x", runtime="x", code="x", entry="x", environment="x", state="x", kit="x",
        profiles=(("acme@1", "x"),), idle_stop_s=1, max_concurrent_calls=1, ready_timeout_s=1,
        sandbox=SandboxPolicy(("p",), ("/r",), 1, 1, 1, 1.5, gpu=True),
    )  # fmt: skip
    made = {one.key for one in reach.making(PLAIN, changed)}
    bounds = {one.key for one in reach.bounds(PLAIN, changed)}
    assert len(made) + 3 == len({one.name for one in fields(Recipe)} - shown_by_keys)
    assert len(bounds) - 3 + 2 == len(fields(SandboxPolicy))
    assert reach.bounds(PLAIN, PLAIN) == reach.making(PLAIN, PLAIN) == ()
    assert Field("gpu", None, False) in reach.bounds(None, PLAIN)
