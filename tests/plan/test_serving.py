"""Make before break: what serves keeps serving until what replaces it has answered."""

from dataclasses import replace

from reconciler.model.names import InstanceName
from reconciler.plan.serving import NOTHING, serve, to_prove
from tests.kit.values import recipe, routes, table

OLD, NEW = recipe("ocr-a"), recipe("ocr-b")


def test_an_agent_that_nobody_serves_gets_its_routes_at_once() -> None:
    desired = table(1, routes("clerk", NEW), recipes=(NEW,))
    served = serve(desired, NOTHING, proven=())
    assert served.agents == desired.agents
    assert served.generation == 1
    assert to_prove(desired, NOTHING, proven=()) == ()


def test_a_rebind_waits_until_the_new_instance_answered() -> None:
    before = table(4, routes("clerk", OLD), recipes=(OLD,))
    desired = table(5, routes("clerk", NEW), recipes=(OLD, NEW))
    waiting = serve(desired, before, proven=())
    assert waiting.agents == before.agents
    assert to_prove(desired, waiting, proven=()) == (NEW.name,)
    swapped = serve(desired, waiting, proven={NEW.name})
    assert swapped.agents == desired.agents
    assert swapped.generation > before.generation
    assert to_prove(desired, swapped, proven={NEW.name}) == ()


def test_a_kept_route_keeps_its_recipe_though_the_binding_is_gone() -> None:
    before = table(4, routes("clerk", OLD), recipes=(OLD,))
    desired = table(5, routes("clerk", NEW), recipes=(NEW,))
    assert serve(desired, before, proven=()).recipes.keys() == {OLD.name, NEW.name}


def test_one_agent_that_waits_does_not_hold_another() -> None:
    before = table(1, routes("clerk", OLD), recipes=(OLD,))
    desired = table(2, routes("clerk", NEW), routes("reader", NEW), recipes=(NEW,))
    served = serve(desired, before, proven=())
    assert served.agents["clerk"] is before.agents["clerk"]
    assert served.agents["reader"] is desired.agents["reader"]


def test_where_nobody_answers_nothing_is_kept_by_waiting() -> None:
    """A binding that was removed left its place vacant; whatever takes it does so at once."""
    whole = routes("clerk", OLD)
    (name, route), *_ = whole.routes.items()
    vacant = replace(route, instance=InstanceName(route.binding, ""), suspended="the binding was removed")
    before = table(1, replace(whole, routes={name: vacant}), recipes=())
    desired = table(2, routes("clerk", NEW), recipes=(NEW,))
    assert to_prove(desired, before, proven=()) == ()
    assert serve(desired, before, proven=()).agents == desired.agents
    assert serve(before, table(1, whole, recipes=(OLD,)), proven=()).recipes == {}


def test_a_removed_agent_is_not_served() -> None:
    before = table(1, routes("clerk", OLD), recipes=(OLD,))
    assert serve(table(2), before, proven=()).agents == {}


def test_nothing_new_is_the_same_table() -> None:
    before = table(1, routes("clerk", OLD), recipes=(OLD,))
    assert serve(before, before, proven=()) is before


def test_a_suspended_route_is_not_waited_for() -> None:
    before = table(4, routes("clerk", OLD), recipes=(OLD,))
    closed = routes("clerk", NEW)
    shut = {name: replace(one, suspended="not built yet") for name, one in closed.routes.items()}
    desired = table(5, replace(closed, routes=shut), recipes=(OLD, NEW))
    assert to_prove(desired, before, proven=()) == ()
    assert serve(desired, before, proven=()).agents == desired.agents
