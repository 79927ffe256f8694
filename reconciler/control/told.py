"""What the three truths are worth in a binding's status: its observations and their conditions. Pure.

A condition of something observed says until when it is worth anything: a reader past that takes it for
unknown, whatever it says. Conformance is told where it is asked for.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from reconciler.control.facts import Facts
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.observations import Observation, Seen, Subject
from reconciler.model.stands import instant
from reconciler.model.status import Condition


def observations(facts: Facts, ref: ObjectRef) -> tuple[Mapping[str, Any], ...]:
    """The records of one object: none of what is no binding."""
    if ref.kind is not Kind.BINDING or not facts.running:
        return ()
    seen = facts.truths.get(ref, Seen())
    return tuple(one.as_json() for one in (*seen.observations, *_conformance(facts, ref)))


def _conformance(facts: Facts, ref: ObjectRef) -> tuple[Observation, ...]:
    asked = facts.proofs.get(ref)
    if asked is None:
        return ()
    proof, until = asked.proof, _seconds(asked.proof.until)
    subject = Subject(ref.name, str(asked.instance))
    return (
        Observation(
            "conformance", subject, proof.verdict, asked.reason, "conformance", _seconds(proof.since), until,
            proof.message, evidence=proof.fingerprint,
        ),
    )  # fmt: skip


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def models(facts: Facts, ref: ObjectRef) -> Mapping[str, Any] | None:
    """Of a binding whose server was asked for its models: those it lacks, and how many others it has."""
    seen = facts.truths.get(ref)
    if seen is None or seen.undeclared is None:
        return None
    return {"missing": list(seen.missing), "undeclaredSeen": seen.undeclared}


def conditions(seen: Seen | None, process: list[Condition]) -> list[Condition]:
    """The conditions of what was observed, beside those of its process. A process that failed is no link,
    whatever answered elsewhere.
    """
    found = list(process)
    for one in seen.observations if seen else ():
        if one.kind == "link" and not any(c.type == "Linked" and c.status == "False" for c in process):
            truth = Condition(
                "Linked", "True" if one.value == "up" else "False", one.reason, one.message,
                until=instant(one.expires_at),
            )  # fmt: skip
            found = [*(c for c in found if c.type != "Linked"), truth]
    if (readiness := _readiness(seen)) is not None:
        found.append(readiness)
    return found


def _readiness(seen: Seen | None) -> Condition | None:
    said = [one for one in seen.observations if one.kind == "readiness"] if seen else []
    poor = [one for one in said if one.value != "ready"]
    if not said:
        return None
    until = instant(max(one.expires_at for one in poor or said))
    if poor:
        more = f"; so are {len(poor) - 1} more" if len(poor) > 1 else ""
        words = f"{poor[0].subject.operation}: {poor[0].message}{more}"
        return Condition("ProfileReady", "False", poor[0].reason, words, until=until)
    names = ", ".join(sorted({one.subject.operation for one in said}))
    return Condition("ProfileReady", "True", "Answering", f"answered: {names}"[:200], until=until)


def ready(seen: Seen | None, found: Condition) -> Condition:
    """Whether it can be used, given what was observed: not when the link is down, nor when of all that was
    called nothing is ready.
    """
    if seen is None or found.status != "True":
        return found
    link = next((one for one in seen.observations if one.kind == "link"), None)
    if link is not None and link.value == "down":
        return Condition("Ready", "False", link.reason, link.message)
    said = _readiness(seen)
    if said is not None and said.status == "False":
        poor = all(one.value != "ready" for one in seen.observations if one.kind == "readiness")
        return Condition("Ready", "False" if poor else "True", said.reason, said.message)
    return found
