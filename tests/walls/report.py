"""`make flows-sandbox`: attempt → what stopped it, as root and as an ordinary user; spellings of hosts.

As root both halves run: the second gives root up for good (`--alone`: the first only). An ordinary user runs
that half alone. Exit 1 when one attempt passed, one spelling was decided wrongly, or a half could not be run.
"""

import json
import os
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from reconciler.runtime import walls
from tests.kit import hostile_ends, nobody
from tests.walls import escapes, others, spellings, world
from tests.walls.world import Row

DOCS = Path(__file__).resolve().parents[2] / "docs" / "sandbox.md"
Half = dict[str, list[Row]]


def as_nobody() -> Half | str:
    """What an ordinary user's half gives, or why there is none."""
    with nobody.place() as base:
        if not nobody.user_namespaces(base):
            return "this machine gives ordinary users no user namespaces"
        ran = nobody.as_nobody(base, "-m", "tests.walls.world")
    if ran.returncode:
        return ran.stdout[-2000:] + ran.stderr[-2000:]
    return {runtime: [Row(**row) for row in rows] for runtime, rows in json.loads(ran.stdout).items()}


def halves() -> dict[str, Half | str]:
    if os.geteuid() == 0:
        second = {} if "--alone" in sys.argv else {"as an ordinary user": as_nobody()}
        return {"as root": world.run(), **second}
    return {"as an ordinary user": world.run()}


def merged(half: Half) -> Iterator[tuple[Row, str]]:
    """Each attempt once, with what was seen by each runtime where they differ."""
    runtimes = [name for name in half if name in world.RUNTIMES]
    for at, row in enumerate(half[runtimes[0]]):
        all_rows = {name: half[name][at] for name in runtimes}
        worst = next((one for one in all_rows.values() if not one.stopped), row)
        seen = {one.seen for one in all_rows.values()}
        told = (
            row.seen if len(seen) == 1 else ", ".join(f"{name} {one.seen}" for name, one in all_rows.items())
        )
        yield worst, told
    for name, rows in half.items():
        if name not in runtimes:
            yield from ((row, row.seen) for row in rows)


def table(half: Half) -> Iterator[str]:
    group = ""
    for row, seen in sorted(merged(half), key=lambda pair: GROUPS.index(pair[0].group)):
        if row.group != group:
            group = row.group
            yield f"\n  {group}"
        mark = "!" if row.wall in (world.UNBOUNDED, world.UNTRIED) else "✓" if row.stopped else "✗"
        short = textwrap.shorten(row.words, 60, placeholder="…")
        yield f"  {mark} {short:<61}{row.wall or 'NOTHING STOPPED IT':<26}{seen}"


GROUPS = (
    *(
        escapes.NET,
        escapes.OUT,
        escapes.AT_GATE,
        escapes.REACH,
        escapes.READ,
        escapes.WRITE,
        escapes.KILL,
        escapes.RIGHTS,
    ),
    *(escapes.SPACES, escapes.KERNEL, escapes.BOUNDS, others.GROUP),
)


def hosts() -> tuple[list[str], int]:
    """The table of spellings, and how many were decided wrongly."""
    answers, lines, wrong = spellings.statuses(), [], 0
    for one in spellings.SPELLINGS:
        listed, status = spellings.listable(one.text), answers[one.text]
        right = (listed, status == "200") == (one.listable, one.through)
        wrong += not right
        text = textwrap.shorten(spellings.shown(one.text), 40, placeholder="…")
        taken = "may be listed" if listed else "refused"
        out = "through" if status == "200" else f"refused ({status})"
        lines.append(f"  {'✓' if right else '✗'} {text:<42}{one.what:<44}{taken:<15}{out}")
    return lines, wrong


def documented() -> str:
    """The table of docs/sandbox.md: what is tried, and which wall is to stop it."""
    extra = {
        "1 GiB of memory": (escapes.BOUNDS, "bound on memory"),
        "500 processes": (escapes.BOUNDS, "bound on processes"),
        "64 MiB in its log": (escapes.BOUNDS, "bound on the log"),
        "a processor for itself": (escapes.BOUNDS, "bound on processors"),
        "processes that hear no signal and outlive their connector": (escapes.KILL, "own processes"),
    }
    rows = {one.words: (one.group, one.wall) for one in escapes.ATTEMPTS.values()} | extra
    rows |= {words: (others.GROUP, wall) for words, wall in others.script().items()}
    by: dict[tuple[str, str], list[str]] = {}
    for words, key in rows.items():
        by.setdefault(key, []).append(words)
    ordered = sorted(by.items(), key=lambda pair: GROUPS.index(pair[0][0]))
    lines = [f"| {group} | {wall} | {'; '.join(words)} |\n" for (group, wall), words in ordered]
    return "| where | what stops it | what is tried |\n| --- | --- | --- |\n" + "".join(lines)


def posture() -> str:
    """The other table of the docs: which walls are closed, and which bounds are told."""
    rows = [
        f"| {name} | {words} | nothing starts: `SandboxUnavailable` |\n"
        for name, words in walls.CLOSED.items()
    ]
    rows += [
        f"| {name} | {words} | it runs, and `Uncontained` says so |\n" for name, words in walls.TOLD.items()
    ]
    return "| wall | what stands behind it | where it does not stand |\n| --- | --- | --- |\n" + "".join(rows)


def hostile() -> str:
    """What a connector that means harm does to its agents: the kit's modes, and their ends."""
    rows = [f"| {what} | {end} |\n" for what, end in hostile_ends.ENDS.values()]
    return "| a connector that | ends as |\n| --- | --- |\n" + "".join(rows)


TABLES = {"attempts": documented, "walls": posture, "hostile": hostile}


def marks(name: str) -> tuple[str, str]:
    return f"<!-- {name}: written by tests/walls/report.py --write -->\n", f"<!-- /{name} -->\n"


def write() -> None:
    text = DOCS.read_text()
    for name, table_of in TABLES.items():
        begin, end = marks(name)
        before, _, rest = text.partition(begin)
        text = before + begin + table_of() + end + rest.partition(end)[2]
    DOCS.write_text(text)


def main() -> int:
    failed = 0
    for name, half in halves().items():
        print(f"Attempts of connectors, {name} ({', '.join(world.RUNTIMES)}, deno)")
        if isinstance(half, str):
            failed += 1
            print(f"  not run: {half}\n")
            continue
        rows = [row for rows in half.values() for row in rows]
        through = [row for row in rows if not row.stopped]
        failed += len(through)
        print("\n".join(table(half)))
        print(f"\n  {len(rows)} attempts, {len(through)} got through\n")
    lines, wrong = hosts()
    print("Spellings of hosts: as an entry of `egress`, and asked of a proxy\n" + "\n".join(lines))
    print(f"\n  {len(lines)} spellings, {wrong} decided wrongly")
    return 1 if failed or wrong else 0


if __name__ == "__main__":
    if "--write" in sys.argv:
        write()
        sys.exit(0)
    sys.exit(main())
