"""The law of steps: doing them leaves none, and where nothing differs there is none."""

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.model.names import InstanceName
from reconciler.model.routes import RouteTable
from reconciler.plan.desired import Desired, desire
from reconciler.plan.diff import Declare, Retire, Step, SwapRoutes, steps
from tests.plan.build import HOME, KIT, SMALL, admitted, agent, binding

_WORLDS = tuple(
    desire(admitted(files, clean=False), generation=number, kit=KIT, home=HOME)
    for number, files in enumerate(
        (
            {},
            SMALL,
            SMALL | binding("fast", "ocr-fast", "settings.speed = 4\n"),
            SMALL | binding("fast", "ocr-fast", "suspend = true\n"),
            SMALL | agent("clerk", {"ocr": "good"}),
            SMALL | binding("spare", "ocr-good"),
            {path: text for path, text in SMALL.items() if "maid" not in path and "good" not in path},
        )
    )
)
_NAMES = sorted({name for world in _WORLDS for name in world.recipes})


def done(
    todo: tuple[Step, ...], running: set[InstanceName], table: RouteTable | None
) -> tuple[set[InstanceName], RouteTable | None]:
    """The world after the steps."""
    for step in todo:
        match step:
            case Declare(name, recipe):
                assert name == recipe.name
                running = running | {name}
            case SwapRoutes(new):
                table = new
            case Retire(name):
                running = running - {name}
    return running, table


@given(
    st.sampled_from(_WORLDS),
    st.sets(st.sampled_from(_NAMES)),
    st.none() | st.sampled_from(_WORLDS).map(lambda world: world.table),
    st.sets(st.sampled_from(_NAMES)),
)
@settings(deadline=None)
def test_doing_the_steps_leaves_no_steps(
    wanted: Desired, running: set[InstanceName], table: RouteTable | None, pinned: set[InstanceName]
) -> None:
    todo = steps(wanted, running, table, pinned)
    after, served = done(todo, running, table)
    assert steps(wanted, after, served, pinned) == ()
    assert after == set(wanted.recipes) | (running & pinned)
    assert not {step.name for step in todo if isinstance(step, Retire)} & pinned


@given(st.sampled_from(_WORLDS))
def test_where_nothing_differs_there_is_nothing_to_do(world: Desired) -> None:
    assert steps(world, set(world.recipes), world.table) == ()


def test_the_new_stands_before_the_old_goes() -> None:
    old, new = _WORLDS[1], _WORLDS[2]
    kinds = [type(step) for step in steps(new, set(old.recipes), old.table)]
    assert kinds == [Declare, SwapRoutes, Retire]


def test_a_route_that_changes_without_an_instance_is_still_a_swap() -> None:
    old, new = _WORLDS[1], _WORLDS[3]
    assert steps(new, set(old.recipes), old.table) == (SwapRoutes(new.table),)
