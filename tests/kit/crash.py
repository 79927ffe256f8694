"""The crash matrix: a real SIGKILL at every point of an attempt's life, by three kinds of far ends, then one
restart. Prints the matrix (`make flows-crash`), and fails when an effect happened twice or a row lies.
"""

import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from reconciler.attempts import identities, ledger
from reconciler.attempts.happenings import Happening
from reconciler.attempts.holding import held
from reconciler.attempts.holdings import Reserve
from reconciler.attempts.ledger import Ledger
from reconciler.attempts.records import Attempt, Execution, Idempotency, Owner, Request, State
from reconciler.attempts.relay import Relay
from reconciler.attempts.writing import Writing
from tests.kit import farend, ledgers, postgres, provider

POINTS = tuple(f"K{number}" for number in range(11))
KINDS = ("keyed", "tagged", "blind")
CANCELS = ("C1", "C2", "C3")
_START = 1_800_000_000.0
_GPU = Reserve("gpu", 1, 1)
# When a row's writing is a point of its own: after this happening is kept, or before it.
_AFTER = {"K6": "Accepted", "K10": "Succeeded", "C1": "CancelAsked"}
_BEFORE = {"K9": "Succeeded", "C3-kept": "CancelAnswered"}


@dataclass(frozen=True)
class Run:
    """One kill and what was found after the restart."""

    point: str
    kind: str
    found: str  # the state that the dead process left, "" for none
    state: str
    effects: int
    transmissions: int
    held: int
    killed: bool


class Clock:
    """Time that passes when there is nothing to do but wait."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class _Dying(Ledger):
    """A ledger whose process dies around the keeping of one happening."""

    die: str = ""

    def apply(self, held: Attempt, now: float, *happenings: Happening, actor: str = "") -> Attempt:
        names = [type(one).__name__ for one in happenings]
        if _BEFORE.get(self.die) in names:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().apply(held, now, *happenings, actor=actor)


def wish(kind: str, film: str) -> Attempt:
    """What the caller wants: the same again when they ask again."""
    name = identities.attempt_id(time.time(), os.urandom(10))
    return Attempt(
        id=name,
        handle=identities.handle(os.urandom(16)),
        owner=Owner("max", "s1"),
        scope=identities.scope("", "", "max"),
        call_key="key:film-1",
        interface="video-gen/v1",
        tool="video_submit",
        execution=Execution("video", driver="fake@1"),
        request=Request("sha256:film", "sha256:film", sealed_ref=name),
        kind="job",
        grade="wire",
        idempotency=Idempotency(f"hdl1-{kind}-{film}", "client-key" if kind == "keyed" else "none"),
        deadline=_START + 3600,
    )


async def live(state: Path, who: str, wire: farend.Wire, clock: Clock, *, cancel: bool = False) -> None:
    """A controller's life: the caller asks, the relay tends, until the attempt is over or nobody can know."""
    opened = ledgers.opened(state)
    dying = _Dying(opened.store, opened.papers)
    dying.die = wire._die_at
    writing = Writing(dying, clock)
    relay = Relay(writing, wire, who, clock=clock, chance=lambda: 0.5)

    def moved(one: Attempt) -> None:
        happened = dying_history(one)
        if _AFTER.get(wire._die_at) == happened:
            os.kill(os.getpid(), signal.SIGKILL)

    def dying_history(one: Attempt) -> str:
        return {State.ACCEPTED: "Accepted", State.SUCCEEDED: "Succeeded"}.get(one.state, "")

    relay.moved = moved
    try:
        wire.reached("K0")
        new = wish(wire._kind, state.name)
        await writing.seal(new.id, farend.text({"prompt": "a film"}))
        made = await writing.run(lambda one: one.prepare(new, clock(), (_GPU,)))
        wire.reached("K1")
        asked = False
        await relay.look(orphans=True)
        while True:
            now = await writing.run(lambda one: one.get(made.attempt.id))
            assert now is not None
            if now.is_over or now.parked:
                break
            if cancel and not asked and now.state is State.ACCEPTED:
                asked = True
                await writing.run(lambda one: one.ask_cancel(made.attempt.id, "max", clock()))
                wire.reached("C1")
            clock.now = max(clock.now, now.next_check_at, now.lease_until) + 0.001
            await relay.look()
    finally:
        await writing.close()


def one_run(point: str, kind: str, port: int, folder: Path) -> Run:
    """Kill a controller at a point, start another, and see."""
    state = folder / os.urandom(8).hex()
    state.mkdir(mode=0o700)
    clock = Clock(_START)
    die_at = "C3-kept" if point == "C3" else point
    child = os.fork()
    if not child:  # its own loop and threads: nothing of ours runs yet
        asyncio.run(live(state, "first", _wire(kind, port, state, die_at), clock, cancel=point in CANCELS))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    sealed = state.name
    if point in {"K4", "K5"}:  # what a dead process sent may still be on its way: see it arrive
        until = time.monotonic() + 30
        while not provider.ask(port, f"/count/hdl1-{kind}-{sealed}") and time.monotonic() < until:
            time.sleep(0.01)
    clock.now += 1
    dead = ledgers.opened(state)
    left = dead.listing()
    dead.close()
    asyncio.run(live(state, "second", _wire(kind, port, state, ""), clock))
    after = ledgers.opened(state)
    try:
        (one,) = after.listing()
        return Run(
            point,
            kind,
            left[0].state.value if left else "",
            one.state.value,
            provider.ask(port, f"/count/hdl1-{kind}-{sealed}"),
            one.transmissions,
            held(after.store, "gpu"),
            killed,
        )
    finally:
        after.close()


def _wire(kind: str, port: int, state: Path, die_at: str) -> farend.Wire:
    return farend.Wire(kind, port, ledger.Papers(state / "attempts"), die_at)


def matrix(
    points: tuple[str, ...],
    kinds: tuple[str, ...],
    cancels: tuple[str, ...],
    server: postgres.Server | None = None,
) -> list[Run]:
    """Every run of the matrix, each with a ledger of its own: a file, or a schema of the server."""
    wanted = [(point, kind) for point in points for kind in kinds] + [(point, "keyed") for point in cancels]
    runs = []
    with provider.running() as port, tempfile.TemporaryDirectory() as folder:
        for point, kind in wanted:
            if server is not None:
                os.environ[ledgers.VARIABLE] = server.url()
            runs.append(one_run(point, kind, port, Path(folder)))
    return runs


def expected(run: Run) -> tuple[str, int, int]:
    """The state, the effects and the transmissions that the law gives."""
    if run.point in CANCELS:
        return "cancelled", 1, 1
    if run.point in {"K2", "K3"}:
        return {"keyed": ("succeeded", 1, 2), "tagged": ("failed", 0, 1), "blind": ("indeterminate", 0, 1)}[
            run.kind
        ]
    if run.point in {"K4", "K5"} and run.kind == "blind":
        return "indeterminate", 1, 1
    return "succeeded", 1, 1


def main() -> int:
    started = time.monotonic()
    wanted = [name for name in sys.argv[1:] if not name.startswith("-")] or [*POINTS, *CANCELS]
    server = postgres.Server() if "--postgres" in sys.argv else None
    try:
        points, cancels = (tuple(name for name in some if name in wanted) for some in (POINTS, CANCELS))
        runs = matrix(points, KINDS, cancels, server)
    finally:
        if server is not None:
            server.close()
    if "--json" in sys.argv:
        print(json.dumps([asdict(run) for run in runs]))
        return 0
    print(f"{'killed at':<10}{'far end':<9}{'found':<14}{'after the restart':<19}effects  transmissions")
    wrong = 0
    for run in runs:
        held_ = 1 if run.state == "indeterminate" else 0
        good = (
            (run.state, run.effects, run.transmissions) == expected(run) and run.held == held_ and run.killed
        )
        wrong += not good
        print(
            f"{run.point:<10}{run.kind:<9}{run.found or '-':<14}{run.state:<19}{run.effects:<9}"
            f"{run.transmissions}{'' if good else f'   WRONG, expected {expected(run)}: {run}'}"
        )
    twice = sum(run.effects > 1 for run in runs)
    unknown = sum(run.state == "indeterminate" for run in runs)
    print(f"{len(runs)} kills, {twice} effects twice, {unknown} not known, {wrong} wrong", end="")
    print(f", {time.monotonic() - started:.1f} s")
    return int(bool(wrong or twice))


if __name__ == "__main__":
    sys.exit(main())
