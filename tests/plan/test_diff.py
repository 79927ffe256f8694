"""The law of steps: doing them leaves none but proofs, proofs once given none, and no difference is none."""

from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.names import InstanceName
from reconciler.model.recipes import Recipe
from reconciler.model.routes import RouteTable
from reconciler.plan.desired import desire
from reconciler.plan.diff import Declare, Prove, Retire, Standing, Step, SwapRoutes, declared, steps
from reconciler.plan.serving import NOTHING
from tests.kit.values import recipe, routes, table
from tests.plan.build import HOME, KIT, SMALL, admitted, agent, binding

_WORLDS = tuple(
    desire(admitted(files, clean=False), generation=number, kit=KIT, home=HOME).table
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
_RECIPES = {name: one for world in _WORLDS for name, one in world.recipes.items()}
_NAMES = st.sets(st.sampled_from(sorted(_RECIPES)))


@dataclass
class World:
    """What there is, changed by doing steps. Whoever is in ``bad`` never proves itself."""

    declared: set[InstanceName] = field(default_factory=set)
    table: RouteTable = NOTHING
    pinned: dict[InstanceName, Recipe] = field(default_factory=dict)
    bad: set[InstanceName] = field(default_factory=set)
    proven: set[InstanceName] = field(default_factory=set)

    def steps(self, desired: RouteTable) -> tuple[Step, ...]:
        return steps(desired, Standing(self.declared, self.table, self.pinned, self.proven))

    def do(self, desired: RouteTable) -> tuple[Step, ...]:
        todo = self.steps(desired)
        for step in todo:
            match step:
                case Declare(name, made):
                    assert made.name == name
                    assert name not in self.declared
                    self.declared.add(name)
                case Prove(name):
                    assert name in self.declared
                    if name not in self.bad:
                        self.proven.add(name)
                case SwapRoutes(new):
                    assert new.recipes.keys() <= self.declared
                    self.table = new
                case Retire(name):
                    assert name not in self.pinned
                    assert name not in self.table.recipes
                    self.declared.remove(name)
        return todo


@given(st.lists(st.sampled_from(_WORLDS), min_size=1, max_size=5), _NAMES, _NAMES)
def test_doing_the_steps_leaves_proofs_alone_and_given_proofs_leave_nothing(
    wishes: list[RouteTable], pinned: set[InstanceName], bad: set[InstanceName]
) -> None:
    world = World(pinned={name: _RECIPES[name] for name in pinned}, bad=bad)
    for desired in wishes:
        before = world.table
        world.do(desired)
        used = {route.instance for one in world.table.agents.values() for route in one.routes.values()}
        assert used <= world.table.recipes.keys()
        rest = world.steps(desired)
        assert all(isinstance(step, Prove | SwapRoutes | Retire) for step in rest)
        world.do(desired)
        assert {type(step) for step in world.steps(desired)} <= {Prove}
        assert {step.name for step in world.steps(desired) if isinstance(step, Prove)} <= bad
        assert world.declared == {*desired.recipes, *world.table.recipes, *pinned}
        for name, kept in before.agents.items():  # whoever was served and still is wanted is served
            if name in desired.agents:
                assert world.table.agents[name] in (kept, desired.agents[name])
        if not bad:
            assert world.steps(desired) == ()
            assert world.table.agents == desired.agents


@given(st.sampled_from(_WORLDS), st.lists(_NAMES, max_size=6))
def test_whatever_is_pinned_meanwhile_the_end_is_the_same(
    desired: RouteTable, holds: list[set[InstanceName]]
) -> None:
    world = World()
    for held in [*holds, set()]:
        world.pinned = {name: _RECIPES[name] for name in held}
        world.do(desired)
    world.do(desired)
    assert world.declared == set(desired.recipes)
    assert world.steps(desired) == ()


@given(st.sampled_from(_WORLDS))
def test_where_nothing_differs_there_is_nothing_to_do(world: RouteTable) -> None:
    assert steps(world, Standing(world.recipes, world)) == ()


OLD, NEW, OTHER = recipe("ocr-a"), recipe("ocr-b"), recipe("ocr-c")
BEFORE = table(1, routes("clerk", OLD), recipes=(OLD,))
AFTER = table(2, routes("clerk", NEW), recipes=(NEW,))


def test_the_new_stands_and_is_proven_before_the_old_goes() -> None:
    first = steps(AFTER, Standing([OLD.name], BEFORE))
    assert first == (Declare(NEW.name, NEW), Prove(NEW.name), first[-1])
    assert isinstance(first[-1], SwapRoutes)  # the recipe of the new one is known; its routes wait
    assert first[-1].table.agents == BEFORE.agents
    waiting = Standing([OLD.name, NEW.name], first[-1].table)
    assert steps(AFTER, waiting) == (Prove(NEW.name),)
    swap, retire = steps(AFTER, replace(waiting, proven={NEW.name}))
    assert isinstance(swap, SwapRoutes)
    assert (swap.table.agents, retire) == (AFTER.agents, Retire(OLD.name))


def test_what_a_session_holds_is_declared_after_a_restart_and_not_retired() -> None:
    held = {OTHER.name: OTHER}
    assert steps(BEFORE, Standing([], BEFORE, held)) == (Declare(OLD.name, OLD), Declare(OTHER.name, OTHER))
    assert steps(BEFORE, Standing([OLD.name, OTHER.name], BEFORE, held)) == ()
    assert steps(BEFORE, Standing([OLD.name, OTHER.name], BEFORE)) == (Retire(OTHER.name),)


def test_a_flip_back_to_what_serves_ends_what_was_being_proven() -> None:
    swap = steps(AFTER, Standing([OLD.name], BEFORE))[-1]
    assert isinstance(swap, SwapRoutes)
    back = steps(BEFORE, Standing([OLD.name, NEW.name], swap.table))
    assert [type(step) for step in back] == [SwapRoutes, Retire]
    assert back[-1] == Retire(NEW.name)


def test_of_two_rebinds_in_a_row_only_the_last_is_proven() -> None:
    last = table(3, routes("clerk", OTHER), recipes=(OTHER,))
    swap = steps(AFTER, Standing([OLD.name], BEFORE))[-1]
    assert isinstance(swap, SwapRoutes)
    todo = steps(last, Standing([OLD.name, NEW.name], swap.table))
    assert [step.name for step in todo if isinstance(step, Prove)] == [OTHER.name]
    assert todo[-1] == Retire(NEW.name)


def test_a_route_that_changes_without_an_instance_is_still_a_swap() -> None:
    old, new = _WORLDS[1], _WORLDS[3]
    (swap,) = steps(new, Standing(old.recipes, old))
    assert isinstance(swap, SwapRoutes)
    assert swap.table.agents == new.agents


@given(st.sampled_from(_WORLDS), _NAMES)
def test_what_is_declared_is_the_same_when_it_shares_what_is_desired(
    desired: RouteTable, more: set[InstanceName]
) -> None:
    have = {name: _RECIPES[name] for name in {*desired.recipes, *more}}
    shared = declared(have, desired)
    assert shared == have
    assert steps(desired, Standing(shared)) == steps(desired, Standing(set(have)))
