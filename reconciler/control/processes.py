"""Who a process is: its number and when it started, since numbers come back.

Read from ``/proc/PID/stat`` (field 22, clock ticks since boot). Two processes are the same only when both
agree
and the machine has not started anew in between.
"""

from dataclasses import dataclass
from pathlib import Path

_PARENT, _START = 1, 19  # places after the command's closing bracket, which may itself hold anything


_WRAPPERS = 16  # more of them around one bridge are a loop of somebody's making


@dataclass(frozen=True, slots=True)
class Process:
    """One process for as long as it lives; ``start`` is in clock ticks since boot."""

    pid: int
    start: int


def start_time(pid: int) -> int | None:
    """When a process started, or None when there is none (a zombie has ended)."""
    fields = _stat(pid)
    return int(fields[_START]) if fields and fields[0] not in ("Z", "X") else None


def parent(pid: int) -> Process | None:
    """The living parent of a process."""
    fields = _stat(pid)
    if not fields:
        return None
    above = int(fields[_PARENT])
    start = start_time(above)
    return Process(above, start) if start is not None else None


def harness(pid: int) -> Process | None:
    """The program that a bridge serves: its parent, or the one above the wrappers in between.

    A wrapper (``sh -c``, ``npx``, ``uvx``, ``timeout``) hands its own standard input on to what it starts;
    the harness holds the other end of that pipe or socket, and has another standard input itself. So whoever
    has the same one is climbed over, whatever its name. A terminal tells nothing of that kind: there the
    parent counts. None: it was gone before it could be asked.
    """
    found, given = parent(pid), _input(pid)
    if not given.startswith(("pipe:", "socket:")):
        return found
    for _ in range(_WRAPPERS):
        if found is None or _input(found.pid) != given or (above := parent(found.pid)) is None:
            break
        found = above
    return found


def lives(process: Process) -> bool:
    """True while this very process runs."""
    return start_time(process.pid) == process.start


def boot_id() -> str:
    """What names this boot of the machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _input(pid: int) -> str:
    """What a process's standard input is, as the kernel names it; "" when that cannot be seen."""
    try:
        return str(Path(f"/proc/{pid}/fd/0").readlink())
    except OSError:
        return ""


def _stat(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return text[text.rindex(")") + 2 :].split()
