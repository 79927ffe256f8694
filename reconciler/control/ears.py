"""Who listens to the loop: what it tells as it goes, to listeners that cost nothing while there are none."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from reconciler.control.queue import Done, Failed, Outcome, Stuck, Wait
from reconciler.model.status import Condition

# As controller-runtime words them; a Wait is no fault: the next look is due then.
_RESULTS = {Done: "success", Wait: "requeue_after", Failed: "error", Stuck: "stuck"}


@dataclass(slots=True)
class Ears:
    """Called on the loop's own thread; what is not set hears nothing.

    ``turned``: a turn ended, of the ``world`` or of an ``instance``; its result, and the seconds it took.
    ``looked``: a look is in force. ``beside``: what else is to be said of the configuration as a whole.
    ``address``: where metrics and health are served, or "".
    """

    turned: Callable[[str, str, float], None] = lambda controller, result, seconds: None
    looked: Callable[[], None] = lambda: None
    beside: Callable[[], Iterable[Condition]] = tuple
    address: str = ""

    def turn(self, outcome: Outcome, seconds: float, *, world: bool) -> None:
        """Tell of a turn."""
        self.turned("world" if world else "instance", _RESULTS[type(outcome)], seconds)
