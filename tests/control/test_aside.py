"""Routes of suspended agents: put aside, brought back, forgotten with their agent."""

from dataclasses import replace

from reconciler.admission.admit import Admission
from reconciler.control.aside import Aside
from reconciler.model.routes import RouteTable
from reconciler.plan import serving
from tests.kit.values import recipe, routes, table
from tests.plan.build import SMALL, admitted

OLD, NEW = recipe("ocr-a"), recipe("ocr-b")
SERVED = table(3, routes("clerk", OLD), routes("reader", NEW), recipes=(OLD, NEW))
WITHOUT = table(4, SERVED.agents["reader"], recipes=(NEW,))
DESIRED = table(5, routes("clerk", NEW), SERVED.agents["reader"], recipes=(NEW,))


def admission(more: str) -> Admission:
    return admitted({**SMALL, "agents/clerk.toml": 'apiVersion = "handler.agent/v1"\n' + more})


SUSPENDED, RESUMED = admission("suspend = true\n"), admission("")
DELETED = admitted({path: text for path, text in SMALL.items() if path != "agents/clerk.toml"})


def left(aside: Aside) -> RouteTable:
    """The table after clerk was suspended."""
    assert aside.follow(SERVED, WITHOUT, SUSPENDED) is SERVED
    return serving.serve(WITHOUT, SERVED, ())


def test_who_comes_back_has_the_earlier_routes_until_the_newest_are_proven() -> None:
    aside = Aside()
    now = left(aside)
    assert "clerk" not in now.agents
    assert aside.recipes == {OLD.name: OLD}
    back = aside.follow(now, DESIRED, RESUMED)
    assert back.agents["clerk"] == SERVED.agents["clerk"]
    assert back.recipes[OLD.name] == OLD
    assert back.generation > now.generation
    assert serving.to_prove(DESIRED, back, ()) == (NEW.name,)
    assert serving.serve(DESIRED, back, (NEW.name,)).agents["clerk"] == DESIRED.agents["clerk"]
    assert aside.recipes == {}
    assert aside.joined(back) is back


def test_it_is_written_down_with_what_else_is_kept() -> None:
    aside = Aside()
    now = left(aside)
    whole = aside.joined(now)
    assert whole.agents["clerk"] == SERVED.agents["clerk"]
    assert whole.recipes.keys() == {OLD.name, NEW.name}
    again = Aside()  # the next controller starts from the file
    assert again.follow(replace(whole, generation=0), WITHOUT, SUSPENDED).agents == whole.agents
    assert again.recipes == {OLD.name: OLD}


def test_an_agent_that_is_gone_leaves_nothing() -> None:
    aside = Aside()
    now = left(aside)
    assert aside.follow(now, WITHOUT, DELETED) is now
    assert aside.recipes == {}
    assert aside.follow(now, DESIRED, RESUMED) is now


def test_without_a_suspension_nothing_is_put_aside_and_nothing_changes() -> None:
    aside = Aside()
    assert aside.follow(SERVED, WITHOUT, DELETED) is SERVED
    assert aside.follow(SERVED, SERVED, RESUMED) is SERVED
    assert aside.recipes == {}
    assert aside.joined(SERVED) is SERVED
