"""How resolved secrets get into a sandbox: never by an argument, a file on a disk or a socket.

``fd``: a sealed memory file; the connector gets its number and reads it once. ``file``: the same memory file,
which what starts the connector writes to ``/run/secrets/<slot>``, a private folder in memory, readable by
the connector's user alone. ``env``: a variable; every process of the connector's user can read it, and the
options that carry it to bubblewrap travel by memory. Beside it stands how the connector's kit finds each:
``HANDLER_SECRET_FD_<SLOT>``, ``…_FILE_<SLOT>``, ``…_ENV_<SLOT>``.
"""

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from reconciler.model.secrets import Filled
from reconciler.runtime.sandbox import SECRETS

_FIRST_NUMBER = 10  # below it are the numbers that a connector's start gives away
_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


@dataclass(frozen=True, slots=True, repr=False)
class Handed:
    """What one spawn hands over: descriptors to pass on, variables to set, words for the start inside."""

    numbers: tuple[int, ...] = ()
    options: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


@contextmanager
def over(filled: Iterable[Filled]) -> Iterator[Handed]:
    """Lay the secrets ready for one spawn; ours are closed at the end."""
    numbers: list[int] = []
    variables: dict[str, str] = {}
    words: list[str] = []
    with ExitStack() as held:
        for one in filled:
            slot, via = one.use.slot, one.use.via
            name = f"HANDLER_SECRET_{via.upper()}_{slot.upper().replace('-', '_')}"
            if via == "env":
                variables[one.use.env or ""] = one.value.reveal().decode()
                variables[name] = one.use.env or ""
                continue
            number = _memory(one)
            held.callback(os.close, number)
            numbers.append(number)
            variables[name] = f"{SECRETS}/{slot}" if via == "file" else str(number)
            if via == "file":
                words.append(f"{number}:{slot}")
        options = tuple(part for pair in sorted(variables.items()) for part in ("--setenv", *pair))
        yield Handed(tuple(numbers), options, tuple(words))


def _memory(one: Filled) -> int:
    """A sealed memory file with the value, at its beginning."""
    low = os.memfd_create("secret", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.write(low, one.value.reveal())
        os.lseek(low, 0, os.SEEK_SET)
        fcntl.fcntl(low, fcntl.F_ADD_SEALS, _SEALS)
        return fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, _FIRST_NUMBER)
    finally:
        os.close(low)
