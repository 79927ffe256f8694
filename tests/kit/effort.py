"""How hard the tests try what is left to chance: orders, kills, examples.

``HANDLER_EFFORT`` is a factor, 1 unless set: `make test` finds in minutes what a change breaks, and `make
thorough` tries seven times as much of the same, which is for a night.
"""

import os

EFFORT = float(os.environ.get("HANDLER_EFFORT", "1"))


def times(usual: int) -> int:
    """How often to try what one tries ``usual`` times as a rule."""
    return max(1, round(usual * EFFORT))
