"""The files of one call, from the agent's scope to the connector's inbox, and from its outbox back.

One object a call that names files. ``look``, ``fill``, ``place`` and ``settle`` block and run in a thread,
one after the other; the connector meets bytes and file names, never a path. ``settle`` comes last, whatever
happened: it hashes, for the record, the copies that the connector was given, and removes all of it. So
neither the connector nor the agent waits for the hash of an input.
"""

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import PurePosixPath
from typing import Any

from reconciler.model.calls import Refusal
from reconciler.model.routes import ScopeFolder
from reconciler.router import files
from reconciler.router.files import Denial, Denied
from reconciler.router.steps import Look

MAX_FILES = 64  # inputs of one call: each holds a descriptor


class HandOff:
    """The files of one call. ``handed`` tells, for the record, what went over: property, bytes, sha256; it is
    whole when it is ``settled``.
    """

    __slots__ = (
        "_blobs",
        "_call",
        "_inbox",
        "_inputs",
        "_is_hashed",
        "_look",
        "_outbox",
        "_scope",
        "_spots",
        "_taken",
        "handed",
        "settled",
        "wanted",
    )

    def __init__(self, call: str, scope: Sequence[ScopeFolder], look: Look) -> None:
        """``call`` is unique; it names the blobs."""
        # A connector that serves several agents must not be led to another call's file by a guessed name.
        self._call = f"{call}-{secrets.token_hex(8)}"
        self._scope = scope
        self._look = look
        self._inputs: dict[str, list[files.Opened]] = {}
        self._spots: dict[str, tuple[files.Spot, str]] = {}
        self._blobs: list[str] = []
        self._taken: list[tuple[str, files.Blob]] = []  # what the connector was given, by property
        self._is_hashed = False
        self._inbox = -1  # duplicates of the lane's descriptors, or -1 before there is a lane
        self._outbox = -1
        self.handed: list[tuple[str, int, str]] = []
        self.settled: Future[None] = Future()
        self.wanted = True  # set to False from the loop: the copy under way breaks off

    def attach(self, inbox: int, outbox: int) -> None:
        """Take descriptors of the connector's folders: duplicates, since the connector may die meanwhile and
        its numbers be given to another's folder.
        """
        self._inbox = os.dup(inbox)
        self._outbox = os.dup(outbox)

    def look(self) -> None:
        """Open every input and find the place of every output; raises Denied."""
        if sum(map(len, self._look.inputs.values())) > MAX_FILES:
            raise Denied(Denial.REFUSED, f"more than {MAX_FILES} files in one call")
        for name, paths in self._look.inputs.items():
            opened = self._inputs.setdefault(name, [])
            for path in paths:
                opened.append(files.read(self._scope, path, self._look.max_bytes))
        for name, path in self._look.outputs.items():
            spot = files.spot(self._scope, path, again=self._look.again)
            self._spots[name] = (spot, f"{self._call}-o{len(self._spots)}{_suffix(spot.name)}")

    def hashes(self) -> tuple[tuple[str, int, str], ...]:
        """What the inputs are now: property, bytes, sha256."""
        return tuple(
            (name, os.fstat(one.descriptor).st_size, files.digest(files.Blob(one.descriptor, 0)))
            for name, opened in self._inputs.items()
            for one in opened
        )

    def fill(self) -> dict[str, Any]:
        """Copy the inputs into the inbox. Returns what stands in their place, by property; raises Denied."""
        values: dict[str, Any] = {}
        for name, opened in self._inputs.items():
            many = [self._copied(name, one) for one in opened]
            values[name] = many if name in self._look.lists else many[0]
        for name, (spot, blob) in self._spots.items():
            values[name] = {"name": spot.name, "blob": blob}
        return values

    def fill_hashed(self, decided: tuple[tuple[str, int, str], ...] | None = None) -> dict[str, Any]:
        """As ``fill``, and ``handed`` tells of the inputs already; raises Denied where they are not what was
        decided on.
        """
        values = self.fill()
        self._hash()
        if decided is not None and tuple(self.handed) != decided:
            raise Denied(Denial.REFUSED, "a file changed after it was decided on")
        return values

    def place(self, blobs: Mapping[str, str]) -> None:
        """Put what the connector wrote where the agent asked for it; raises Denied."""
        for name, blob in blobs.items():
            spot, given = self._spots[name]
            if blob != given:
                raise Denied(Denial.FAILED, f"the connector named another file for {name}")
        for name, (spot, blob) in self._spots.items():
            copied = files.hand_out(
                self._outbox, blob, spot, max_bytes=self._look.max_bytes, wanted=self._goes_on
            )
            self.handed.append((name, copied.size, copied.sha256))

    def settle(self) -> None:
        """Hash what went in, then close and remove all of it. The last step of every call."""
        try:
            self._hash()
        finally:
            self._close()
            self.settled.set_result(None)

    def _hash(self) -> None:
        if not self._is_hashed:
            self._is_hashed = True
            # As it went over: inputs before outputs.
            self.handed[:0] = [(name, blob.size, files.digest(blob)) for name, blob in self._taken]

    def _close(self) -> None:
        for opened in self._inputs.values():
            for one in opened:
                os.close(one.descriptor)
        for _, copy in self._taken:
            os.close(copy.descriptor)
        for blob in self._blobs:
            files.discard(self._inbox, blob)
        for spot, blob in self._spots.values():
            os.close(spot.folder)
            if self._outbox >= 0:
                files.discard(self._outbox, blob)
        self._inputs, self._taken, self._blobs, self._spots = {}, [], [], {}
        if self._inbox >= 0:
            os.close(self._inbox)
            os.close(self._outbox)
            self._inbox = self._outbox = -1

    def _copied(self, name: str, opened: files.Opened) -> dict[str, Any]:
        blob = f"{self._call}-i{len(self._blobs)}{_suffix(opened.name)}"
        self._blobs.append(blob)
        copy = files.hand_in(opened, self._inbox, blob, max_bytes=self._look.max_bytes, wanted=self._goes_on)
        self._taken.append((name, copy))
        return {"name": opened.name, "mediaType": opened.media_type, "size": copy.size, "blob": blob}

    def _goes_on(self) -> bool:
        return self.wanted


def _suffix(name: str) -> str:
    """The file name's ending, for a blob that programs tell by it; at most eight plain characters."""
    ending = PurePosixPath(name).suffix
    return ending if ending[1:].isalnum() and ending.isascii() and len(ending) <= 9 else ""


def is_held(files: object) -> bool:
    """Whether a call's files are still being hashed."""
    return isinstance(files, HandOff) and not files.settled.done()


def outcome_of(work: Callable[..., object], args: tuple[object, ...]) -> object:
    """Run in a thread; a denial is a reply like any other."""
    try:
        return work(*args)
    except Denied as denied:
        return Refusal(denied.denial.value, denied.diagnostic)
    except OSError as error:
        return Refusal("unavailable", f"the files cannot be handed over: {error.strerror}")
