"""Is the controller alive, and can it serve? Named checks over facts that are handed in; pure.

*Alive* asks what a restart would mend: the loop turns. *Ready* asks whether agents are served what the
configuration says, and whether what happens can be written down. A check that does not hold says so in fixed
words and a reason of the closed list: no path and no object of the configuration, since whoever reaches the
address reads it.
"""

from dataclasses import dataclass

from reconciler.model.status import Condition

_PATIENCE_S = 60.0  # a look over ten thousand files on a busy machine takes a few seconds

_UNREAD = ("SourceUnavailable", "SourceRefused", "InternalError", "ReconcileError")  # of what is in force


@dataclass(frozen=True, slots=True)
class Vital:
    """What the checks go by. ``faults`` names what cannot be written, each with why; times in seconds."""

    looked: bool  # a look was done since the start
    source: Condition
    quiet_s: float  # since the loop last ended a look
    scan_s: float  # how often it is to look
    faults: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Check:
    """One named check; ``fault`` is "" when it holds."""

    name: str
    fault: str = ""


def alive(vital: Vital) -> tuple[Check, ...]:
    """The checks of ``/livez``."""
    late = vital.quiet_s > _PATIENCE_S + 2 * vital.scan_s
    return Check("ping"), Check("loop", f"no look ended for {vital.quiet_s:.0f} s" if late else "")


def ready(vital: Vital) -> tuple[Check, ...]:
    """The checks of ``/readyz``."""
    source = vital.source
    unread = source.status == "False" and source.reason in _UNREAD
    return (
        *alive(vital),
        Check("looked", "" if vital.looked else "the configuration was not looked at yet"),
        Check("source", source.reason if unread else ""),
        *(Check(name, fault) for name, fault in vital.faults),
    )


def told(checks: tuple[Check, ...], name: str, *, verbose: bool) -> tuple[int, str]:
    """The HTTP status and the body, in the form that Kubernetes gave such pages."""
    well = all(not check.fault for check in checks)
    status = 200 if well else 503
    if well and not verbose:
        return status, "ok\n"
    lines = [
        f"[-]{check.name} failed: {check.fault}" if check.fault else f"[+]{check.name} ok" for check in checks
    ]
    return status, "\n".join([*lines, f"{name} check {'passed' if well else 'failed'}", ""])
