"""What is said of each attempt to leave: whereto, whether, why not, how much; never what was said.

The text of a host that was refused comes from inside a sandbox and could carry anything out into a log, so
only what has the form of a host is kept of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from reconciler.model.hosts import Target

Verdict = Literal["allowed", "refused", "failed"]
Cause = Literal[
    "listed",  # allowed: it is on the list, and public or listed as an address
    "request",  # the request was none that is taken
    "unlisted",  # not on the list
    "address",  # the name leads to an address that is not public
    "name",  # TLS asked for another server name than CONNECT did, or for none
    "busy",  # too many connections of one sandbox
    "unresolved",  # the name has no address now
    "unreachable",  # none of its addresses takes a connection now
    "slow",  # the sandbox took too long to ask
    "ended",  # it was allowed, and is over
    "idle",  # it was allowed, and nothing went either way for too long
    "bytes",  # it was allowed, and carried more than a tunnel may
    "call",  # the gate: the call that it says to serve does not run
    "denied",  # the controller said no: a policy, or a permit that is for something else
    "tls",  # the gate: who answered there is not who was asked for, or speaks no TLS
    "answer",  # the gate: the answer is no HTTP, or in an encoding that cannot be looked through
    "echo",  # the gate: the answer held a secret that the gate had added
    "left",  # the gate: the connector left before its answer came
    "fault",  # the gate: a fault of its own
]


@dataclass(frozen=True, slots=True)
class Decision:
    """One attempt of one sandbox: said once when it is decided, and once more when a tunnel is over."""

    verdict: Verdict
    cause: Cause
    why: str = ""  # one sentence, without anything that the sandbox wrote but the target
    target: Target | None = None  # None where the request named none
    address: str = ""  # the one connected to, or the one that a name must not lead to
    up_bytes: int = 0
    down_bytes: int = 0
    after_s: float = 0.0  # from the accepted connection until now

    def as_json(self) -> Mapping[str, str | int | float]:
        """The decision as a journal keeps it."""
        return {
            "verdict": self.verdict,
            "cause": self.cause,
            "why": self.why,
            "target": str(self.target) if self.target else "",
            "address": self.address,
            "upBytes": self.up_bytes,
            "downBytes": self.down_bytes,
            "ms": round(self.after_s * 1000),
        }
