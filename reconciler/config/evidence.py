"""Evidence that a connector keeps the promise of its interfaces, as shapes: what a check writes down.

Written by ``handler connector check`` into the state folder and, where asked, beside the connector in
``evidence/``, which is no part of the connector's digest. No payload, no secret and no word of an answer is
in it: a fault names what was expected.
"""

from typing import Literal

from reconciler.config.objectfile import Document

Verdict = Literal["passed", "failed", "skipped"]
TierVerdict = Literal["passed", "failed", "never"]


class CaseResult(Document):
    """How one case ended."""

    interface: str
    """The interface version, as NAME/vN."""
    name: str
    """The case's name; of certification also the name of a trouble that was made."""
    tier: Literal["conformance", "certification"]
    """Which tier it belongs to."""
    verdict: Verdict
    """`skipped`: it was not run, so it did not pass."""
    seconds: float
    """How long its call took."""
    faults: list[str]
    """What was expected and not so, one sentence each; why it was skipped."""


class EvidenceSubject(Document):
    """What was examined: with another digest the evidence is void."""

    connector: str
    """The connector's name."""
    connector_digest: str
    """`sha256:…` of its folder as it ran: `evidence/` is no part of it."""
    making: str
    """`sha256:…` of all else that decides how it answers: settings, models, egress, sandbox, environment."""
    suites: dict[str, str]
    """`sha256:…` of each interface version's rules and cases, by NAME/vN; its skill is no part of it."""


class EvidenceTiers(Document):
    """The verdict of each tier."""

    conformance: TierVerdict
    """Every case of every implemented version was asked and passed."""
    certification: TierVerdict
    """It was also killed, silenced, cut off and fed nonsense, and came back each time."""


class Evidence(Document):
    """One run of `handler connector check`: `evidence/*.json`."""

    api_version: Literal["handler.evidence/v1"]
    """The format of this file."""
    subject: EvidenceSubject
    """What was examined."""
    binding: str | None
    """The binding that configured it; null: the connector's own defaults."""
    mode: Literal["offline", "live"]
    """`offline`: nothing could leave the machine; `live`: its egress was open."""
    kit: str
    """`sha256:…` of the connector kit that it ran with; another one does not void the evidence."""
    product: str
    """The version of Handler."""
    python: str
    """The version of Python that ran Handler, and python connectors."""
    platform: str
    """The machine: system and architecture."""
    walls: dict[str, str]
    """Which walls of the sandbox stood, each with how."""
    started: str
    """When it began, as an ISO instant in UTC."""
    finished: str
    """When it ended."""
    tiers: EvidenceTiers
    """The verdicts."""
    results: list[CaseResult]
    """Every case, in order."""
    fingerprint: str
    """`sha256:…` over RFC 8785 of everything else in this file."""
