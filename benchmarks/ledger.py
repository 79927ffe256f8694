"""What a durable step of an attempt costs: against a bare commit of the same size, in the same seconds.

One caller steps alone, as a single call does; 32 callers share commits, as busy agents do. The floor is
SQLite itself (WAL, ``synchronous=FULL``, one row of 800 bytes a commit), interleaved with ours since disks
change their minds from second to second.
"""

import asyncio
import itertools
import os
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path

from reconciler.attempts import identities
from reconciler.attempts.happenings import Accepted, Submit, Succeeded
from reconciler.attempts.ledger import Ledger
from reconciler.attempts.records import Attempt, Execution, Owner, Request
from reconciler.attempts.writing import Writing

_ROUNDS = 300
_CALLERS = 32
_EACH = 20


def _wish(number: int) -> Attempt:
    return Attempt(
        id=identities.attempt_id(time.time(), os.urandom(10)),
        handle=identities.handle(os.urandom(16)),
        owner=Owner("bench", "s"),
        scope="bench",
        call_key=identities.call_key(None, os.urandom(16)),
        interface="send-email/v1",
        tool="email_send",
        execution=Execution("mail"),
        request=Request(f"sha256:{number:064}"),
    )


def _bare(folder: Path) -> sqlite3.Connection:
    base = sqlite3.connect(folder / "bare.db", isolation_level=None)
    for pragma in ("journal_mode = WAL", "synchronous = FULL"):
        base.execute(f"PRAGMA {pragma}")
    base.execute("CREATE TABLE record (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT")
    return base


def _commit(base: sqlite3.Connection) -> float:
    started = time.perf_counter()
    base.execute("BEGIN IMMEDIATE")
    base.execute("INSERT INTO record (text) VALUES (?)", ("x" * 800,))
    base.execute("COMMIT")
    return time.perf_counter() - started


def _alone(base: sqlite3.Connection, ledger: Ledger) -> tuple[float, float]:
    """The medians of a bare commit and of a step."""
    bare, steps = [], []
    for number in range(_ROUNDS):
        bare.append(_commit(base))
        wish, marks = _wish(number), [time.perf_counter()]
        one = ledger.prepare(wish, time.time()).attempt
        marks.append(time.perf_counter())
        one = ledger.apply(one, time.time(), Submit())
        marks.append(time.perf_counter())
        ledger.apply(one, time.time(), Accepted(), Succeeded())
        marks.append(time.perf_counter())
        steps += [after - before for before, after in itertools.pairwise(marks)]
    return statistics.median(bare), statistics.median(steps)


async def _together(ledger: Ledger) -> float:
    """The seconds of one step where 32 callers take theirs at once."""
    writing = Writing(ledger, time.time)

    async def caller(number: int) -> None:
        for turn in range(_EACH):
            wish = _wish(1_000_000 + number * _EACH + turn)
            one = (await writing.run(lambda led, wish=wish: led.prepare(wish, time.time()))).attempt
            one = await writing.run(lambda led, one=one: led.apply(one, time.time(), Submit()))
            await writing.run(lambda led, one=one: led.apply(one, time.time(), Accepted(), Succeeded()))

    started = time.perf_counter()
    await asyncio.gather(*(caller(number) for number in range(_CALLERS)))
    took = time.perf_counter() - started
    await writing.close()
    return took / (_CALLERS * _EACH * 3)


def main() -> int:
    """Print the figures, each as a ratio against the floor of this run; ``sys.argv[1]`` is a folder."""
    folder = Path(tempfile.mkdtemp(dir=sys.argv[1] if len(sys.argv) > 1 else "."))
    try:
        base, ledger = _bare(folder), Ledger.at(folder)
        bare, step = _alone(base, ledger)
        shared = asyncio.run(_together(ledger))
        base.close()
    finally:
        shutil.rmtree(folder)
    print(f"a bare commit          {bare * 1e6:8.0f} µs")
    print(f"a step, alone          {step * 1e6:8.0f} µs   {step / bare:5.2f} x a bare commit")
    print(f"a step, 32 at once     {shared * 1e6:8.0f} µs   {bare / shared:5.1f} x the single rate")
    return 0


if __name__ == "__main__":
    sys.exit(main())
