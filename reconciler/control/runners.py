"""Who does jobs: one runner for each way of doing them, found by a recipe's runtime or an attempt's words.

A new job goes to the runner that does its recipe's runtime. An attempt that was made once goes to the one
whose name stands in its ``execution.executor``, whatever the configuration says by now.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from reconciler.attempts.records import Attempt
from reconciler.control import executing
from reconciler.control.effects import LedgerEffects
from reconciler.control.executing import Executor
from reconciler.control.jobs import LedgerJobs, Runner
from reconciler.model.names import InstanceName
from reconciler.model.recipes import Recipe


@dataclass(frozen=True, slots=True)
class _Registered:
    runner: Runner
    runtimes: frozenset[str]
    progress: Callable[[Attempt], float | None]
    over: Callable[[Attempt], None]


class Registry:
    """The runners of one controller. Implements ``jobs.Runners``.

    A runner writes the name that it is registered by into ``Draft.execution.executor``.
    """

    def __init__(self, recipe: Callable[[InstanceName], Recipe | None]) -> None:
        """``recipe`` gives that of a declared instance."""
        self._recipe = recipe
        self._runners: dict[str, _Registered] = {}
        self.collecting: dict[str, Callable[[Attempt, str], Awaitable[None]]] = {}  # by runner's name

    def register(
        self,
        name: str,
        runner: Runner,
        runtimes: frozenset[str],
        *,
        progress: Callable[[Attempt], float | None] = lambda _: None,
        over: Callable[[Attempt], None] = lambda _: None,
    ) -> None:
        """Let ``runner`` do the jobs of these runtimes, and look after the attempts that bear its name.
        ``progress`` says at once how far one is, where the runner knows more than the ledger; ``over`` hears
        of each that ended.
        """
        self._runners[name] = _Registered(runner, runtimes, progress, over)

    def of(self, instance: InstanceName) -> Runner | None:
        """For a new job of an instance."""
        recipe = self._recipe(instance)
        runtime = recipe.runtime if recipe is not None else None
        return next((one.runner for one in self._runners.values() if runtime in one.runtimes), None)

    def progress(self, one: Attempt) -> float | None:
        """How far it is, where its runner knows at once."""
        found = self._runners.get(one.execution.executor)
        return found.progress(one) if found is not None else None

    def over(self, one: Attempt) -> None:
        """Its end is in the ledger."""
        found = self._runners.get(one.execution.executor)
        if found is not None:
            found.over(one)

    async def collected(self, one: Attempt, session: str) -> None:
        """A session is about to get its result."""
        if (heard := self.collecting.get(one.execution.executor)) is not None:
            await heard(one, session)

    def behind(self, one: Attempt) -> Runner | None:
        """For an attempt that was made once."""
        found = self._runners.get(one.execution.executor)
        return found.runner if found is not None else None


def assembled(
    rooms: executing.Rooms, recipe: Callable[[InstanceName], Recipe | None], effects: LedgerEffects
) -> tuple[LedgerJobs, Executor, Registry]:
    """Who keeps jobs in a ledger, who does those of processes, and where others register."""
    runners = Registry(recipe)
    jobs = LedgerJobs(effects, effects.now, runners)
    runs = Executor(rooms, recipe, jobs)
    runners.register(executing.NAME, runs, executing.RUNTIMES, progress=runs.progress, over=runs.over)
    return jobs, runs, runners
