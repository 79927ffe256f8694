"""Figures beside what they are compared with, and whether each reached its goal.

A floor is what nobody can do without: no reader of a folder is quicker than a look at every file. A peer is
another way to do the same, which we mean to beat: a goal may lie below 1 times a peer, never below 1 times a
floor.
"""

from dataclasses import dataclass, field


@dataclass
class Goals:
    """Prints each figure as it comes, keeps what missed its goal, and says at the end how many did."""

    met: int = 0
    missed: list[str] = field(default_factory=list)
    about: str = ""
    unmeasured: list[str] = field(default_factory=list)

    def title(self, about: str) -> None:
        """What the next figures are about."""
        self.about = about
        print(f"\n{about}", flush=True)

    def figure(self, name: str, value: float, unit: str, goals: str = "") -> None:
        """One figure, with what ``goal`` said of it."""
        print(f"  {name:30} {value:9.3f} {unit:4} {goals}".rstrip(), flush=True)

    def goal(self, name: str, reached: float, at_most: float, unit: str) -> str:
        """``unit`` says what is counted, like ``times the floor``; the words for beside the figure."""
        if reached <= at_most:
            self.met += 1
            mark = "✓"
        else:
            self.missed.append(
                f"{name}, {self.about}: {_told(reached)} {unit}, goal at most {_told(at_most)}"
            )
            mark = "✗"
        return f"{mark} {_told(reached)} {unit} (goal: at most {_told(at_most)})"

    def skip(self, name: str, why: str) -> None:
        """A goal that cannot be measured here."""
        self.unmeasured.append(f"{name}: {why}")

    def end(self) -> int:
        """Say which goals were missed and not measured; 1 when one was missed."""
        print()
        for one in self.missed:
            print(f"✗ {one}")
        for one in self.unmeasured:
            print(f"- not measured: {one}")
        print(f"{self.met} of {self.met + len(self.missed)} goals reached", flush=True)
        return 1 if self.missed else 0


def _told(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.4f}"
