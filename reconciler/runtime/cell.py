"""One spawn of one instance, whole: its folder and socket, its log pipe, its bounds, its process.

The controller binds and listens before the spawn and hands the listening socket over, so the first call waits
in the backlog while an interpreter starts; no readiness is polled. Nothing of a cell outlives it but the log.
"""

import asyncio
import os
import shutil
import socket
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from reconciler.model.recipes import SandboxPolicy
from reconciler.runtime import gating, handing, host, leftovers, netns, sandbox, seccomp, sockets
from reconciler.runtime.limits import Limits
from reconciler.runtime.process import NotStartedError, Order, Process, spawn
from reconciler.runtime.redaction import Redactor, Sieve
from reconciler.runtime.ringlog import Reader, RingLog

_SOCKET = "connector.sock"


@dataclass(slots=True, eq=False)
class Endpoint:
    """A connector that runs. ``inbox`` and ``outbox`` are directory descriptors: open files in them by name.

    The connector sees the inbox read-only; as root a file in it belongs to the connector's group, so it must
    be readable by the group (mode 0640). The descriptors last as long as the process runs, and as long as a
    call holds the instance.
    """

    pid: int
    inbox: int
    outbox: int
    ended: asyncio.Future[str]  # resolves to "exit 1" or "signal 9"
    folder: int
    echoes: Callable[[bytes], bool] | None = None  # whether a line holds a secret that it was given
    name: str = _SOCKET  # of the socket in ``folder``
    user: int | None = None  # who must listen there; None: the folder is ours, so nobody else can

    def connect(self) -> socket.socket:
        """A connected, non-blocking socket; OSError when the process has ended."""
        if self.ended.done():
            raise ConnectionRefusedError("the connector has ended")
        connection = sockets.connect(self.folder, self.name)
        if self.user is not None and sockets.peer(connection)[1] != self.user:
            connection.close()
            raise ConnectionRefusedError("another user listens there now")
        return connection

    def close(self) -> None:
        """Let go of the descriptors; once."""
        for number in (self.inbox, self.outbox, self.folder):
            os.close(number)


# Serves what comes through a listening socket inside the sandbox's network; gives what ends that.
WayOut = Callable[[socket.socket], Awaitable[Callable[[], None]]]


@dataclass(frozen=True, slots=True)
class Site:
    """Where and under whose name a cell is made. ``folder`` is ``<run>/i/<instance>``."""

    folder: Path
    owner: str
    limits: Limits
    log: RingLog
    way_out: WayOut | None = None  # None: no network at all
    echoed: Callable[[], None] = lambda: None  # it printed a secret that it was given
    machine: sandbox.Host | None = None  # the host as an image meets it
    gate: Callable[[socket.socket], Callable[[], None]] | None = None  # serves it; gives what ends that
    sets_aside: int | None = None  # what its engine reserves, as ``limits`` means it


@dataclass(frozen=True, slots=True)
class Cell:
    """A sandbox that stands, and what the controller keeps of it."""

    process: Process
    endpoint: Endpoint
    reader: Reader
    folder: Path
    served: ExitStack  # what serves it from outside, until its end

    def stands(self) -> bool:
        """Whether its folder, inbox and socket lie where they were put."""
        endpoint, inbox = self.endpoint, self.folder / "in"
        try:
            os.stat(_SOCKET, dir_fd=endpoint.folder, follow_symlinks=False)
            return os.path.samestat(self.folder.lstat(), os.fstat(endpoint.folder)) and os.path.samestat(
                inbox.lstat(), os.fstat(endpoint.inbox)
            )
        except OSError:
            return False

    def clear(self) -> None:
        """After its end: its way out closes, the last words go to the log, the folder away. The endpoint
        stays open.
        """
        self.served.close()
        self.reader.close()
        shutil.rmtree(self.folder, ignore_errors=True)


async def opened(site: Site, place: sandbox.Place, policy: SandboxPolicy) -> Cell:
    """Make the folder and the socket, spawn, and see it stand; raises NotStartedError and leaves nothing."""
    machine = site.machine or host.survey()
    with ExitStack() as undo:
        undo.callback(shutil.rmtree, site.folder, ignore_errors=True)
        folder, inbox = _folder(site.folder, place, machine)
        undo.callback(os.close, folder)
        undo.callback(os.close, inbox)
        read, write = os.pipe()
        redactor = Redactor(place.secrets) if place.secrets else None
        speaker = site.log.speaker(site.folder.name.rpartition("@")[2])
        reader = Reader(read, speaker, Sieve(redactor, site.echoed) if redactor else None)
        undo.callback(reader.close)
        served = undo.enter_context(ExitStack())
        if site.gate is not None:
            try:
                served.callback(site.gate(gating.listen(folder, place.uid)))
            except OSError as fault:
                raise NotStartedError(f"its gate cannot be served: {fault.strerror}") from None
        try:
            process = await _spawned(
                site, place, policy, (folder, write), built=partial(_served, site, served)
            )
        finally:
            os.close(write)
        undo.callback(process.cut)
        try:
            outbox = process.outbox()
        except (FileNotFoundError, ProcessLookupError):
            outbox = os.dup(
                inbox
            )  # it ran and is gone: nothing will be read there, and its end is told as any
        except OSError as fault:
            raise NotStartedError(f"its outbox cannot be opened: {fault.strerror}") from None
        endpoint = Endpoint(process.pid, inbox, outbox, process.ended, folder)
        endpoint.echoes = redactor.finds if redactor else None
        undo.pop_all()
    return Cell(process, endpoint, reader, site.folder, served)


async def _served(site: Site, served: ExitStack, inner: int) -> None:
    """Open the one way out of a sandbox that stands and does not run yet, where it has one."""
    if site.way_out is not None:
        served.callback(await site.way_out(await netns.listener(inner)))


async def _spawned(
    site: Site,
    place: sandbox.Place,
    policy: SandboxPolicy,
    numbers: tuple[int, int],
    *,
    built: Callable[[int], Awaitable[None]],
) -> Process:
    """Spawn behind a socket that already listens; ``numbers`` are the folder and the output pipe."""
    machine, (folder, write) = site.machine or host.survey(), numbers
    with sockets.listen(folder, _SOCKET) as listener, handing.over(place.secrets) as handed:
        order = Order(
            label=leftovers.label(site.owner, site.folder.name),
            bwrap=machine.bwrap,
            options=(*sandbox.options(machine, policy, place), *handed.options),
            command=partial(sandbox.command, machine, place, secrets=handed.words),
            seccomp=seccomp.program(os.uname().machine),
            listener=listener.fileno(),
            output=write,
            built=built,
            passed=handed.numbers,
        )
        try:
            return await spawn(order, partial(site.limits.group, site.folder.name, policy, site.sets_aside))
        except OSError as fault:
            raise NotStartedError(f"cannot spawn it: {fault.strerror}") from None


def _folder(folder: Path, place: sandbox.Place, machine: sandbox.Host) -> tuple[int, int]:
    """A fresh folder with an inbox that the connector can read and nobody else can; both descriptors."""
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)
    folder.mkdir(mode=0o700, parents=True)
    inbox = folder / "in"
    inbox.mkdir(mode=0o700)
    if machine.root:
        os.chown(inbox, 0, place.uid)
        inbox.chmod(0o2710)  # files made in it get the connector's group; they are opened by name, not listed
    at = sockets.folder(folder)
    try:
        return at, os.open(inbox, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except BaseException:
        os.close(at)
        raise
