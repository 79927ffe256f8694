"""``openai.videos-job@1``: films as jobs behind POST /videos, as third parties serve it.

OpenAI itself ended it on 2026-09-24; who still speaks it differs in statuses, in what a cancel does, in how a
job is found again. So everything but the shape of a job comes from the profile, and a status that its list
does not have is Unknown: never still running, never done. A lookup that fails says nothing of the job.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from reconciler.drivers import bytesof, reading, sealing, stating
from reconciler.drivers.asking import By, Call, Job
from reconciler.drivers.picking import at, number, parsed, records, text
from reconciler.model.dialect import Cancel, Lookup, Operation, Profile
from reconciler.model.outcome import (
    Absent,
    Accepted,
    CancelAck,
    Cancelled,
    Done,
    Expired,
    FetchOutcome,
    LookupOutcome,
    Media,
    Pending,
    Rejected,
    Seen,
    SubmitOutcome,
    Unknown,
)
from reconciler.model.sealed import Reply, Sealed

_NOT_FOUND, _GONE = 404, 410  # RFC 9110, 15.5.5 and 15.5.11
_LONGEST_ID = 512


@dataclass(frozen=True, slots=True)
class _Told:
    """An answer about a job, and what it is read by."""

    body: Mapping[str, object]
    job: Job
    operation: Operation
    reply: Reply
    profile: Profile
    seen: Seen

    def at(self, path: str | None) -> object:
        return at(self.body, path) if path else None


def seal_submit(call: Call, profile: Profile) -> Sealed:
    """The bytes of a submit: with the key and the tag where the profile says how."""
    return sealing.call(call, profile)


def read_submit(reply: Reply, call: Call, profile: Profile) -> SubmitOutcome:
    """A job that was taken has an id, or it is not known whether it was."""
    operation = sealing.stated(profile, call.operation)
    body = reading.opened(reply, profile, "")
    if isinstance(body, Rejected | Unknown):
        return body
    job = Job(call.id, call.operation)
    return _accepted(_Told(body, job, operation, reply, profile, reading.seen(reply, profile)))


def _accepted(told: _Told) -> Accepted | Unknown:
    lookup = told.operation.lookup
    job_id = text(told.at(lookup.id_at))
    if not job_id or len(job_id) > _LONGEST_ID or not job_id.isprintable():
        return Unknown("the answer names no job", told.seen)
    status = reading.code(told.at(lookup.status_at))
    return Accepted(job_id, status, _progress(told), _expiry(told), told.seen)


def seal_lookup(job: Job, profile: Profile, by: By) -> Sealed | None:
    """The question for a job by its id, our key, or our tag; None where the profile has no such route, or the
    job no such name.
    """
    lookup = sealing.stated(profile, job.operation).lookup
    path, name = {
        "job-id": (lookup.path, job.job_id),
        "key": (lookup.key_path, job.key),
        "tag": (lookup.list_path, job.tag),
    }[by]
    if by not in lookup.by or path is None or not name:
        return None
    return sealing.sealed(sealing.Draft("GET", sealing.route(path, job)), profile, job.base)


def read_lookup(reply: Reply, job: Job, profile: Profile, by: By) -> LookupOutcome:
    """Where the job stands. Found by key or tag, it is Accepted: its id is known from then on."""
    operation = sealing.stated(profile, job.operation)
    seen = reading.seen(reply, profile)
    if reply.status == _GONE:
        return Expired(seen)
    if reply.status == _NOT_FOUND:
        return Absent(operation.lookup.absence_is_proof, seen)
    body = parsed(reply.body) if reading.succeeded(reply) else None
    if body is None:
        return Unknown(f"the question for the job was answered by status {reply.status}", seen)
    told = _Told(body, job, operation, reply, profile, seen)
    match by:
        case "job-id":
            return _stands(told)
        case "key":
            return _accepted(told)
        case "tag":
            return _tagged(told)


def _tagged(told: _Told) -> LookupOutcome:
    """The one job that carries the tag. A server that ignores the filter lists others too; two that carry it
    are no answer; a list that goes on elsewhere proves no absence.
    """
    lookup = told.operation.lookup
    if not isinstance(told.body.get("data"), list) or lookup.tag_field is None:
        return Unknown("the answer is no list of jobs", told.seen)
    found = [one for one in records(told.body["data"]) if at(one, lookup.tag_field) == told.job.tag]
    if len(found) > 1:
        return Unknown("more than one job carries the tag", told.seen)
    if found:
        return _accepted(replace(told, body=found[0]))
    return Absent(lookup.absence_is_proof and not told.body.get("has_more"), told.seen)


def _stands(told: _Told) -> LookupOutcome:
    lookup = told.operation.lookup
    if told.at(lookup.id_at) not in (None, told.job.job_id):
        return Unknown("the answer is about another job", told.seen)
    raw = text(told.at(lookup.status_at))
    word = reading.code(raw)
    match lookup.status.get(raw):
        case "queued" | "running" as state:
            poll = _seconds(told.reply, lookup)
            found: LookupOutcome = Pending(
                word, state == "running", _progress(told), poll, _expiry(told), told.seen
            )
        case "succeeded":
            found = _succeeded(told)
        case "failed":
            found = _failed(told)
        case "cancelled":
            found = Cancelled(word, raw in told.operation.cancel.proof, told.seen)
        case "expired":
            found = Expired(told.seen)
        case None:
            found = Unknown(f"the status {word or 'of the answer'} is not in the profile's list", told.seen)
    return found


def _succeeded(told: _Told) -> LookupOutcome:
    if reading.substituted(told.profile, told.job.model, told.body):
        return reading.replaced(told.reply, told.profile)
    if told.operation.fetch is None:
        return Unknown("it is done, and the profile states no way to its result", told.seen)
    parts = sorted(told.operation.fetch.parts) or [""]
    model = text(told.at(told.profile.echo.at))
    return Done({"job": told.job.job_id, "parts": parts}, model=model, seen=told.seen)


def _failed(told: _Told) -> Rejected:
    """A job that failed is over. What an error rule says of its cause counts; else it had its effect."""
    found = reading.listed(told.reply, told.profile, told.body)
    if found is not None:
        return found
    cause = reading.code(told.at("error.code")) or reading.code(told.at(told.operation.lookup.error_at))
    detail = "the job failed" + (f", {cause}" if cause else "")
    return Rejected("unavailable", detail, "happened", seen=told.seen)


def seal_cancel(job: Job, profile: Profile) -> Sealed | None:
    """The request to stop exactly this job; None where there is no route that is bound to its id."""
    cancel = sealing.stated(profile, job.operation).cancel
    if cancel.mode not in ("request", "proved") or cancel.path is None or "{job}" not in cancel.path:
        return None
    if not job.job_id:
        return None
    return sealing.sealed(sealing.Draft(cancel.method, sealing.route(cancel.path, job)), profile, job.base)


def read_cancel(reply: Reply, job: Job, profile: Profile) -> CancelAck:
    """What asking brought. ``proved`` needs a status that the profile lists as proof, or, where it lists
    none, a server whose yes is one.
    """
    operation = sealing.stated(profile, job.operation)
    seen = reading.seen(reply, profile)
    if reply.status in operation.cancel.refused:
        return CancelAck("refused", seen)
    if not reading.succeeded(reply):
        return CancelAck("unknown", seen)
    return CancelAck("proved" if _is_proof(reply, operation.cancel, operation.lookup) else "requested", seen)


def _is_proof(reply: Reply, cancel: Cancel, lookup: Lookup) -> bool:
    if not cancel.proof:
        return cancel.mode == "proved"
    return text(at(parsed(reply.body), lookup.status_at)) in cancel.proof


def seal_fetch(job: Job, part: str, profile: Profile) -> Sealed | None:
    """The request for a part of the result; None for one that the profile does not list."""
    fetch = sealing.stated(profile, job.operation).fetch
    if fetch is None or not job.job_id or part not in (fetch.parts or {"": ""}):
        return None
    query = fetch.parts.get(part, "")
    path = sealing.route(fetch.path, job) + (f"?{query}" if query else "")
    return sealing.sealed(sealing.Draft("GET", path), profile, job.base)


def read_fetch(reply: Reply, job: Job, part: str, profile: Profile) -> FetchOutcome:
    """The part's bytes as the one media of a Done. Bytes of another digest than is said are Unknown."""
    operation = sealing.stated(profile, job.operation)
    seen = reading.seen(reply, profile)
    if operation.fetch is not None and reply.status in operation.fetch.not_ready:
        return Pending("not-ready", poll_after_s=_seconds(reply, operation.lookup), seen=seen)
    if reply.status in (_NOT_FOUND, _GONE):
        return Expired(seen) if reply.status == _GONE else Absent(seen=seen)
    if not reading.succeeded(reply):
        return Unknown(f"the fetch was answered by status {reply.status}", seen)
    header = operation.fetch.digest_header if operation.fetch else None
    said = reply.headers.get(header, "") if header else ""
    if said and said.removeprefix("sha256:").lower() != hashlib.sha256(reply.body).hexdigest():
        return Unknown("the bytes are not those that the answer speaks of", seen)
    allowed = stating.media_out(profile, operation)
    kind = bytesof.media_type(reply.body, reply.headers.get("content-type", ""), allowed)
    if kind is None or not reply.body:
        return Unknown("the bytes are of no media type that the profile states", seen)
    return Done({"part": part, "file": {"media": 0}}, (Media(kind, reply.body),), seen=seen)


def _progress(told: _Told) -> float | None:
    found = number(told.at(told.operation.lookup.progress_at))
    return None if found is None else min(1.0, max(0.0, found / told.operation.lookup.progress_scale))


def _expiry(told: _Told) -> int | None:
    found = number(told.at(told.operation.lookup.expires_at))
    return None if found is None or found <= 0 else int(found)


def _seconds(reply: Reply, lookup: Lookup) -> float | None:
    header = lookup.poll_after_header
    return reading.seconds(reply.headers.get(header, "")) if header else None
