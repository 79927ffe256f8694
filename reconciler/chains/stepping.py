"""Where a run goes from a task: the branch that its word and the counters choose.

The first branch that fits, ``default`` after all others, wherever it stands. Words are compared exactly:
case, blanks and all. An edge is counted when it is taken, so one to the end never is.
"""

from collections.abc import Mapping

from reconciler.model.chain import BUDGET, END, Branch, Task


def edge(source: str, target: str) -> str:
    """An edge as counters and budgets name it."""
    return f"{source}->{target}"


def chosen(task: Task, word: str, counters: Mapping[str, int]) -> Branch | None:
    """The branch to take; None where none fits. A task without branches ends the run, which is not asked
    here.
    """
    others = (one for one in task.transition.branches if one.operator != "default")
    fitting = next((one for one in others if _fits(one, word, counters)), None)
    return fitting or next((one for one in task.transition.branches if one.operator == "default"), None)


def ends(goto: str) -> bool:
    """Whether a goto ends the run."""
    return goto in ("", END)


def _fits(branch: Branch, word: str, counters: Mapping[str, int]) -> bool:
    if branch.operator == BUDGET:
        return counters.get(named(branch.edge), 0) >= int(branch.when)
    return branch.fits(word)


def named(written: str) -> str:
    """An edge as it is counted, from how a chain writes it: blanks around the names do not matter."""
    source, _, target = written.partition("->")
    return edge(source.strip(), target.strip())
