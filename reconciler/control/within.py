"""Lanes to what needs no process: parts of the product, cassettes, and what speaks a dialect."""

from pathlib import Path

from reconciler.builtin import agents, shell, tape
from reconciler.builtin.lane import RUNTIME as BUILTIN
from reconciler.builtin.lane import BuiltinLane, Holder
from reconciler.control import spoken
from reconciler.control.dialects import DialectLane, Dialects
from reconciler.model.names import InstanceName
from reconciler.model.recipes import Recipe

RUNTIMES = (BUILTIN, tape.RUNTIME, spoken.RUNTIME)
InnerLane = BuiltinLane | DialectLane


class Within:
    """Makes them. ``root``, the configuration, is where cassettes lie; ``dialects`` is set where there is one
    who speaks, ``grounds`` where programs may run.
    """

    def __init__(self, root: Path | None) -> None:
        self.root = root
        self.dialects: Dialects | None = None
        self.grounds: shell.Grounds | None = None
        self.listed: agents.Listed = lambda _session: []  # whom a session may call

    def join(self, dialects: Dialects | None, grounds: shell.Grounds) -> None:
        """Learn who speaks, and where programs may run."""
        self.dialects, self.grounds = dialects, grounds

    def lane(self, name: InstanceName, holder: Holder, recipe: Recipe) -> InnerLane:
        """The lane of an instance; it answers ``unavailable`` where nobody speaks for it."""
        if recipe.runtime == spoken.RUNTIME and self.dialects is not None:
            return self.dialects.lane(name, holder, recipe)
        if recipe.runtime == BUILTIN and recipe.entry == shell.IMPLEMENTS and self.grounds is not None:
            return shell.ShellLane(name, holder, recipe, self.grounds)
        if recipe.runtime == BUILTIN and recipe.entry == agents.VERSION:
            return agents.AgentsLane(name, holder, recipe.max_concurrent_calls, self.listed)
        return tape.lane(name, holder, recipe, self.root)
