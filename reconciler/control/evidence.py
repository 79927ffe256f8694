"""What is kept of each decision: a record whole in the ledger, a receipt in the chain, an event for people.

The record (``handler.egress-decision/v1``) is local evidence with plain digests; it goes to no agent, log or
status. The receipt and the event show digests under a key of this installation. A decision whose receipt
cannot be written is none: OSError, and nothing leaves.
"""

import hashlib
import secrets
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
import rfc8785

from reconciler.attempts.holdings import Decision
from reconciler.control.approvals import Approval
from reconciler.control.journal import Journal
from reconciler.control.receipts import Receipts
from reconciler.control.status import iso
from reconciler.egress import receipts
from reconciler.egress.decide import Case, Ruled
from reconciler.egress.policy import Policy


@dataclass(frozen=True, slots=True)
class Told:
    """One decision: on what, what was said, whose it is, and what names the bytes."""

    case: Case
    ruled: Ruled
    session: str
    instance: str
    digest: str  # of the request on the wire, or of the call that enters
    basis: tuple[tuple[str, str], ...] = ()
    method: str = ""
    path: str = ""  # a mark of the gate's
    attempt: str = ""
    facts: tuple[str, ...] = ()


class Evidence:
    """Writes them. ``keep`` is the ledger's, where there is one."""

    def __init__(
        self, journal: Journal, book: Receipts, now: Callable[[], float], token: Callable[[], str]
    ) -> None:
        """``now`` is the wall clock; ``token`` gives a new decision's id."""
        self.keep: Callable[[Decision], None] = lambda decision: None
        self._journal, self._book, self._now, self._token = journal, book, now, token

    def decided(self, policy: Policy, told: Told, approval: Approval | None = None) -> str:
        """Keep a decision; its id. With an approval, what a person said of it. Raises OSError."""
        verdict = told.ruled.verdict
        if approval is not None:
            verdict = "allow" if approval.state == "used" else "deny"
        number, now, case = self._token(), self._now(), told.case
        self._book.add(
            {
                "at": iso(now), "decision": number, "verdict": verdict, "rule": told.ruled.rule,
                "policy": policy.digest[:19], "binding": case.binding, "instance": told.instance,
                "interface": case.interface, "agent": case.agent, "session": told.session,
                "origin": case.origin, "class": case.class_name, "bytes": case.size, "grade": case.grade,
                "wire": receipts.shown(self._book.key, "wire", told.digest),
                **({"reason": told.ruled.reason} if verdict == "deny" and approval is None else {}),
                **({"approval": approval.id, "by": approval.by} if approval else {}),
            }
        )  # fmt: skip
        self.keep(
            Decision(
                number, verdict, told.digest, now, now + told.ruled.ttl_s, told.attempt,
                rule=told.ruled.rule, basis=record(policy, told, approval, (number, iso(now), verdict)),
            )
        )  # fmt: skip
        if verdict == "deny":
            words = f"{told.ruled.reason if approval is None else f'approval {approval.id} was not given'}"
            rule = f" ({told.ruled.rule})" if told.ruled.rule else ""
            held = f"nothing left for {case.origin}" if "://" in case.origin else "a call was not let in"
            what = f"{held}: {words}{rule}"
            self._journal.event(f"binding/{case.binding}", "Warning", "EgressDenied", what)
        return number

    def pending(self, told: Told) -> None:
        """Say that a person is asked."""
        what = f"a person is asked before anything leaves for {told.case.origin}: handler approve list"
        self._journal.event(f"binding/{told.case.binding}", "Normal", "ApprovalPending", what)

    def about(self, policy: Policy, told: Told) -> Mapping[str, Any]:
        """What a person reads of what they are asked: no payload."""
        case = told.case
        return {
            "agent": case.agent, "session": told.session, "binding": case.binding,
            "interface": case.interface, "purpose": case.purpose, "origin": case.origin,
            "method": told.method, "class": case.class_name,
            "classBasis": [{"label": label, "class": name} for label, name in told.basis],
            "bytes": case.size, "effect": case.effect, "grade": case.grade, "rule": told.ruled.rule,
            "cost": str(told.ruled.charge) if told.ruled.charge else "",
            "digest": receipts.shown(self._book.key, "wire", told.digest),
        }  # fmt: skip


def decision_id() -> str:
    """A new decision's name: it sorts by time, and cannot be guessed (RFC 9562, version 7)."""
    ms, chance = int(time.time() * 1000), secrets.randbits(74)
    whole = ms << 80 | 7 << 76 | (chance >> 62) << 64 | 2 << 62 | chance & (1 << 62) - 1
    return str(uuid.UUID(int=whole))


def record(
    policy: Policy, told: Told, approval: Approval | None, said: tuple[str, str, str]
) -> Mapping[str, object]:
    """The whole record, as the ledger keeps it."""
    case, (number, at, verdict) = told.case, said
    consent = {"kind": "standing", "ref": told.ruled.rule, "by": "policy", "at": at, "until": None}
    if approval is not None:
        until = iso(approval.until)
        consent = {"kind": "asked", "ref": approval.id, "by": approval.by, "at": at, "until": until}
    return {
        "v": "handler.egress-decision/v1", "decisionId": number, "attempt": told.attempt or None,
        "principal": case.agent, "agent": case.agent, "session": told.session, "policyDigest": policy.digest,
        "rule": told.ruled.rule,
        "target": {
            "binding": case.binding, "instance": told.instance, "interface": case.interface,
            "origin": case.origin, "method": told.method, "path": told.path,
        },
        "payload": {"wireDigest": told.digest, "bytes": case.size},
        "class": case.class_name,
        "classBasis": [{"label": label, "class": name} for label, name in told.basis],
        "purpose": case.purpose, "consent": consent, "transforms": [],
        "cost": {"estimate": str(told.ruled.charge) if told.ruled.charge else None},
        "facts": list(told.facts), "verdict": verdict, "reason": told.ruled.reason, "decidedAt": at,
        "enforcement": case.grade,
    }  # fmt: skip


def mark_of(policy: Policy, told: Told) -> str:
    """What a person's yes is bound to: the bytes, and everything that makes another decision of them."""
    case = told.case
    return digest_of(
        {
            "bytes": told.digest, "instance": told.instance, "policy": policy.digest,
            "class": case.class_name, "purpose": case.purpose, "agent": case.agent,
            "session": told.session, "origin": case.origin,
            "method": told.method, "rule": told.ruled.rule,
        }
    )  # fmt: skip


def digest_of(value: Mapping[str, Any]) -> str:
    """``sha256:`` and hex over RFC 8785; over sorted JSON where a number is beyond what that allows."""
    try:
        text = rfc8785.dumps(dict(value))
    except ValueError:
        text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return "sha256:" + hashlib.sha256(text).hexdigest()
