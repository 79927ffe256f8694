"""The book of receipts: ``<state>/receipts/YYYY-MM-DD.jsonl``, appended, bound line to line (``egress``).

One writer, the controller. A line is written whole, then the head; a crash between them leaves a line more
than the head knows, which is no harm. Half a line at the end is cut off at the next start, and only there.
"""

import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reconciler.control.atomic import write
from reconciler.egress import receipts
from reconciler.egress.receipts import Chain, Head

KEY = "install.key"
FOLDER = "receipts"
_HEAD = "head"
_KEY_BYTES = 32


def install_key(state: Path) -> bytes:
    """The key of this installation, made when it is first asked for; OSError where it cannot be."""
    path = state / KEY
    with suppress(FileNotFoundError):
        return _own(path)
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = state / f".{KEY}.{secrets.token_hex(4)}"
    descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, secrets.token_bytes(_KEY_BYTES))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    with suppress(FileExistsError):  # whoever was first made it
        os.link(made, path)
    made.unlink()
    return _own(path)


def _own(path: Path) -> bytes:
    key = path.read_bytes()
    if len(key) != _KEY_BYTES:
        raise OSError(f"{path} is no key of {_KEY_BYTES} bytes")
    return key


class Receipts:
    """Appends receipts below one state folder. Nothing is touched before there is something to write."""

    def __init__(self, state: Path, now: Callable[[], float]) -> None:
        """``now`` is the wall clock in seconds since 1970."""
        self._state, self._now = state, now
        self._folder = state / FOLDER
        self._key: bytes | None = None
        self._head: Head | None = None
        self._file = ""  # the one that is written to

    @property
    def key(self) -> bytes:
        """What digests are shown under; OSError where it cannot be read or made."""
        if self._key is None:
            self._key = install_key(self._state)
        return self._key

    def add(self, told: Mapping[str, Any]) -> None:
        """Write a receipt; OSError: it is not there, and nothing may be done that it was to tell of."""
        head = self._head or self._resumed()
        text = receipts.line(head.number + 1, head.last, told)
        descriptor = os.open(self._today(), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            if os.write(descriptor, text) != len(text):
                os.ftruncate(descriptor, size)  # half a line is none
                raise OSError("the receipt was not written whole")
        finally:
            os.close(descriptor)
        self._head = Head(head.number + 1, receipts.digest(text))
        write(self._folder / _HEAD, self._head.sealed(self.key), durable=False)

    def _today(self) -> Path:
        day = f"{datetime.fromtimestamp(self._now(), UTC).date().isoformat()}.jsonl"
        # A clock that was set back does not put a line before those that it follows.
        self._file = max(day, self._file)
        return self._folder / self._file

    def _resumed(self) -> Head:
        """Where the chain goes on: after the last whole line of the last file; where the chain had come
        further than that, after what is missing, so that it shows.
        """
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = Head()
        for path in sorted(_files(self._folder), reverse=True):
            self._file = max(self._file, path.name)
            text = path.read_bytes()
            whole = text[: text.rfind(b"\n") + 1]
            if len(whole) < len(text):
                os.truncate(path, len(whole))
            if whole:
                last = whole.splitlines(keepends=True)[-1]
                found = receipts.verify([(path.name, last)], None).head
                found = Head(found.number, receipts.digest(last))
                break
        try:
            known = Head.unsealed((self._folder / _HEAD).read_bytes(), self.key)
        except (FileNotFoundError, ValueError):
            # Nobody can say how far it had come: a number is left out. A first line may have come without.
            return Head(found.number + 1, found.last) if found.number > 1 else found
        return known if known.number >= found.number else found


def verified(state: Path) -> Chain:
    """Follow the chain below a state folder. OSError where it cannot be read."""
    folder = state / FOLDER
    head: Head | None = None
    fault = ""
    with suppress(FileNotFoundError):
        text = (folder / _HEAD).read_bytes()
        try:
            head = Head.unsealed(text, _own(state / KEY))
        except FileNotFoundError:
            fault = "the key of this installation is missing: whether the end is whole cannot be told"
        except ValueError as wrong:
            fault = str(wrong)
    chain = receipts.verify(((path.name, path.read_bytes()) for path in sorted(_files(folder))), head)
    if chain.broken is None and (fault or (head is None and chain.lines)):
        words = fault or "the head is missing: whether the end is whole cannot be told"
        return Chain(chain.lines, receipts.Broken(_HEAD, 1, words), chain.begins, chain.head)
    return chain


def _files(folder: Path) -> Iterator[Path]:
    return (one for one in folder.glob("????-??-??.jsonl") if one.is_file() and not one.is_symlink())
