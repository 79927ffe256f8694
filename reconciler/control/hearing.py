"""What became of a transmission, as far as readiness goes: whether the service took it. Pure.

Nothing that we refused, nobody was asked for, or a person was waited for says anything of the service.
"""

from reconciler.control.sending import MaybeSent, NotSent
from reconciler.model.observations import Heard
from reconciler.model.outcome import Done, Rejected, Unknown
from reconciler.model.turns import Answered

_UNREACHED = ("unreachable", "unresolved", "address")  # the gate's words for a service that is not there


def of(what: object) -> Heard | None:
    """What an outcome of a driver, or what broke a transmission off, says; None: nothing."""
    said: Heard | None = None
    match what:
        case Rejected(reason="ModelSubstituted"):
            said = "substituted"
        case Done() | Answered():
            said = "answered"
        case Rejected():
            said = "unavailable" if what.code == "unavailable" else "answered"
        case NotSent():
            said = "unavailable" if what.cause in _UNREACHED else None
        case MaybeSent(cause="timeout"):
            said = "stalled"
        case MaybeSent():
            said = None if what.cause == "too-large" else "unavailable"
        case Unknown():
            said = "unavailable"
        case _:
            pass
    return said
