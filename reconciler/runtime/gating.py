"""The gate and the way out of a sandbox: sockets inside, and what whoever serves them is given. Served by
another room.

The socket lies in the instance's folder and is shown inside at one place. Secrets of header slots go to
whoever serves it and never into the sandbox.
"""

import os
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from reconciler.model.recipes import Recipe
from reconciler.model.secrets import Filled
from reconciler.runtime import sockets
from reconciler.runtime.process import NotStartedError

NAME = "gate.sock"


@dataclass(frozen=True, slots=True, repr=False)
class Gated:
    """What fills the header slots of one process. ``refill`` finds it anew, where the gate itself ended (it
    raises what a resolver does); ``echoed`` is told of an answer that held a secret.
    """

    filled: tuple[Filled, ...] = ()
    refill: Callable[[], Awaitable[tuple[Filled, ...]]] | None = None
    echoed: Callable[[], None] = lambda: None


# Serves the listening socket of a recipe's gate, which is its own then; gives what ends that.
# OSError where its process cannot be started.
GateFor = Callable[[Recipe, socket.socket, Gated], Callable[[], None]]


def no_gate(recipe: Recipe, listener: socket.socket, gated: Gated) -> Callable[[], None]:
    """Where nobody serves it, a connector with secrets for it does not start; others do without."""
    listener.close()
    if gated.filled:
        raise NotStartedError("nothing adds the headers of its secrets here")
    return lambda: None


def listen(folder: int, uid: int) -> socket.socket:
    """A listening socket in an open folder, for one user alone."""
    listener = sockets.listen(folder, NAME)
    try:
        os.chmod(NAME, 0o600, dir_fd=folder)
        if os.geteuid() == 0:
            os.chown(NAME, uid, uid, dir_fd=folder)
    except BaseException:
        listener.close()
        raise
    return listener


# Serves the one way out of a recipe's sandbox, by its egress; gives what ends that. ValueError: it cannot.
ProxyFor = Callable[[Recipe, socket.socket], Awaitable[Callable[[], None]]]


async def no_way_out(recipe: Recipe, listener: socket.socket) -> Callable[[], None]:
    """Where nobody serves it, a connector that wants a network does not start."""
    listener.close()
    raise NotStartedError("nothing serves its network here")
