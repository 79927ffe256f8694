"""Evidence: what it is about, how it is sealed, and what it proves by now. Pure.

Evidence is about a subject: a connector's folder, how an instance of it is made, and the suites that it was
held to. With another digest of any of them it is void, whatever it says. It may take a binding's service
away, where the binding asks for it, and never gives one.

The shapes of the file are models, which take as long to import as all the rest: what makes one imports them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import rfc8785

from reconciler.model.hosts import Target
from reconciler.model.recipes import Recipe

if TYPE_CHECKING:
    from reconciler.config.evidence import Evidence, EvidenceSubject

API = "handler.evidence/v1"
_CONTRACT = ("interface.toml", "tools.json")
_CASES = "conformance/"
_FIRST_YEAR, _LAST_YEAR = 2000, 2999  # days can be added to these
_NOT_OF_MAKING = (
    "binding", "code", "kit", "idle_stop_s", "max_concurrent_calls", "ready_timeout_s", "secrets",
)  # fmt: skip


def subject(recipe: Recipe, suites: Mapping[str, Mapping[str, bytes]]) -> EvidenceSubject:
    """What is examined when an instance of this recipe is; ``suites`` holds the files of each version.

    Secrets count by slot and not by reference: a check that finds a key elsewhere proves the same. So do
    folders, which lie elsewhere for everybody; servers count by where they are. What says nothing is left
    out, so that a recipe which can say more in a later release keeps its evidence.
    """
    from reconciler.config.evidence import EvidenceSubject  # noqa: PLC0415 - where it is needed

    making = {key: value for key, value in recipe.as_json().items() if key not in _NOT_OF_MAKING}
    making["secrets"] = sorted(use.slot for use in recipe.secrets)
    making |= {name: [key for key, _ in making.get(name, ())] for name in ("adds", "folders")}
    making = {key: value for key, value in making.items() if value}
    making["sandbox"] = {key: value for key, value in making["sandbox"].items() if value}
    return EvidenceSubject(
        connector=recipe.connector,
        connectorDigest=f"sha256:{recipe.code}",
        making=_digest(making),
        suites={version: suite_digest(files) for version, files in sorted(suites.items())},
    )


def reaches_out(recipe: Recipe) -> bool:
    """Whether anything of a check leaves this machine; what only speaks to its own loopback does not."""
    return not all(_is_here(target) for target in recipe.egress)


def _is_here(target: str) -> bool:
    address = Target.parse(target).address
    return address is not None and address.is_loopback


def suite_digest(files: Mapping[str, bytes]) -> str:
    """``sha256:…`` of an interface version's rules, tools, cases and fixtures."""
    whole = hashlib.sha256()
    for path, data in sorted(files.items()):
        if path in _CONTRACT or path.startswith(_CASES):
            whole.update(f"{hashlib.sha256(data).hexdigest()} {path}\n".encode())
    return f"sha256:{whole.hexdigest()}"


def sealed(values: Mapping[str, Any]) -> Evidence:
    """Evidence of these values, its verdicts and its fingerprint worked out. ``values`` has the file's keys,
    without these three. Raises pydantic's ValidationError.
    """
    from reconciler.config.evidence import Evidence  # noqa: PLC0415 - where it is needed

    results = values["results"]
    tiers = {tier: _tier(results, tier) for tier in ("conformance", "certification")}
    whole = {"apiVersion": API, **values, "tiers": tiers}
    return Evidence.model_validate({**whole, "fingerprint": _digest(whole)})


def is_whole(evidence: Evidence) -> bool:
    """Whether nothing of it was changed since it was sealed."""
    values = evidence.model_dump(mode="json", by_alias=True)
    try:
        return bool(values.pop("fingerprint") == _digest(values))
    except ValueError:  # a number or a text that RFC 8785 has no form for
        return False


def _tier(results: Iterable[Mapping[str, Any]], tier: str) -> str:
    """Never without a case; failed with one that failed or was not run."""
    verdicts = {result["verdict"] for result in results if result["tier"] == tier}
    if not verdicts:
        return "never"
    return "passed" if verdicts == {"passed"} else "failed"


def _digest(value: Mapping[str, Any]) -> str:
    return f"sha256:{hashlib.sha256(rfc8785.dumps(_plain(value))).hexdigest()}"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


# what it proves


@dataclass(frozen=True, slots=True)
class Proof:
    """What the evidence at hand says of one subject. ``fingerprint`` is that of the evidence, or ""."""

    verdict: Literal["passed", "failed", "stale", "never"]
    message: str
    fingerprint: str = ""
    until: str = ""  # an ISO instant in UTC; "" where nothing is proven
    since: str = ""  # when the check that says so ended; likewise


def proof(
    about: EvidenceSubject, found: Collection[Evidence], *, live: bool, most_days: int, now: datetime
) -> Proof:
    """What is proven of a subject: by the newest whole evidence about exactly it. ``live``: only evidence
    with open egress counts (to be asked of what lists any); ``now`` is an instant with a zone.
    """
    whole = [
        one
        for one in found
        if one.subject.connector == about.connector and is_whole(one) and _ended(one) is not None
    ]
    its_own = [one for one in whole if one.subject == about and (one.mode == "live" or not live)]
    if not its_own:
        return _nothing_fits(about, whole, live=live)
    newest = max(its_own, key=_age)
    day = newest.finished[:10]
    until = _age(newest) + timedelta(days=most_days)
    told = until.isoformat(timespec="seconds").replace("+00:00", "Z")
    if newest.tiers.conformance != "passed":
        failed = sum(result.verdict != "passed" for result in newest.results)
        words = f"{failed} of its cases did not pass on {day}"
        return Proof("failed", words, newest.fingerprint, since=newest.finished)
    if until < now:
        words = f"it passed on {day}, more than {most_days} days ago"
        return Proof("stale", words, newest.fingerprint, since=newest.finished)
    count = sum(result.tier == "conformance" for result in newest.results)
    return Proof(
        "passed",
        f"all {count} cases passed on {day} ({newest.mode})",
        newest.fingerprint,
        told,
        newest.finished,
    )


def _ended(evidence: Evidence) -> datetime | None:
    """When it was finished; None for what is no instant with a zone, or of another age of the world: files
    come from anywhere.
    """
    try:
        at = datetime.fromisoformat(evidence.finished)
    except ValueError:
        return None
    return at if at.tzinfo is not None and _FIRST_YEAR <= at.year <= _LAST_YEAR else None


def _age(evidence: Evidence) -> datetime:
    return _ended(evidence) or datetime.min.replace(tzinfo=UTC)


def _nothing_fits(about: EvidenceSubject, found: Collection[Evidence], *, live: bool) -> Proof:
    if not found:
        return Proof("never", "no check of it is known")
    if live and any(one.subject == about for one in found):
        return Proof("never", "only a check with closed egress is known, and a live one is asked for")
    newest = max(found, key=_age)
    what = [
        words
        for words, differs in (
            ("its code", newest.subject.connector_digest != about.connector_digest),
            ("its configuration", newest.subject.making != about.making),
            ("its suites", newest.subject.suites != about.suites),
        )
        if differs
    ]
    changed = " and ".join(what)
    return Proof("stale", f"it was checked on {newest.finished[:10]}; {changed} changed since")
