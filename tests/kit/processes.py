"""The processes below one, by the kernel's table."""

import os
from pathlib import Path

from tests.kit import hatched


def descendants(pid: int = 0) -> set[int]:
    """Every process below this one, but the one that begins the tests' commands (``hatched``)."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # the usual case: there is none, and the table need not be read
        if not pid:
            return set()
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_bytes()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(b")")[2].split()[1])
    found: set[int] = set()
    edge = {pid or os.getpid()}
    while edge:
        edge = {child for child, parent in parents.items() if parent in edge} - found
        found |= edge
    return found - hatched.BROODERS


def told(pid: int) -> str:
    """A process as a person knows it: its number, state and command."""
    at = Path(f"/proc/{pid}")
    try:
        state = (at / "stat").read_bytes().rpartition(b")")[2].split()[0]
        line = (at / "cmdline").read_bytes().replace(b"\0", b" ") or (at / "comm").read_bytes()
    except OSError:
        return f"{pid} (gone)"
    return f"{pid} {os.fsdecode(state)} {os.fsdecode(line).strip()[:300]}"
