"""A sealed request as a file beside the ledger, and what a job needs to be looked after years later.

One line of JSON, then the body. The line says all that goes on the wire but the secret; of a job also the
profile, the recipe and the mapping that it was made with, so that its binding may be gone by then.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from reconciler.control.spoken import Mapped, Spoken
from reconciler.model.dialect import Profile
from reconciler.model.recipes import Recipe
from reconciler.model.sealed import AuthSlot, Sealed, StreamSpec

_VERSION = "handler.sealed/v1"


@dataclass(frozen=True, slots=True)
class JobFacts:
    """With what a job was made: ``tool`` is the one that submitted it, ``outputs`` the properties whose files
    its result is.
    """

    spoken: Spoken
    profile: Profile
    tool: str
    mapped: Mapped
    outputs: tuple[str, ...] = ()
    model: str = ""
    tag: str = ""


def packed(sealed: Sealed, job: JobFacts | None = None) -> bytes:
    """The file's bytes."""
    head = {
        "v": _VERSION,
        "method": sealed.method,
        "origin": sealed.origin,
        "target": sealed.target,
        "headers": sealed.headers,
        "auth": asdict(sealed.auth) if sealed.auth is not None else None,
        "wireDigest": sealed.wire_digest,
        "stream": asdict(sealed.stream) if sealed.stream is not None else None,
        "maxResponse": sealed.max_response,
        "job": _told(job) if job is not None else None,
    }
    return orjson.dumps(head) + b"\n" + sealed.body


def sealed_of(kept: bytes) -> Sealed:
    """The request; ValueError, KeyError or TypeError for anything else than ``packed`` wrote, or for other
    bytes than its digest names.
    """
    line, _, body = kept.partition(b"\n")
    head = orjson.loads(line)
    sealed = Sealed(
        head["method"], head["origin"], head["target"],
        tuple((name, text) for name, text in head["headers"]), body,
        AuthSlot(**head["auth"]) if head["auth"] else None, head["wireDigest"],
        StreamSpec(**head["stream"]) if head["stream"] else None, head["maxResponse"],
    )  # fmt: skip
    if not sealed.is_whole():
        raise ValueError("the sealed request is not the one that its digest names")
    return sealed


def job_of(kept: bytes) -> JobFacts:
    """What the job was made with; raises as ``sealed_of``."""
    told = orjson.loads(kept.partition(b"\n")[0])["job"]
    profile = Profile.model_validate_json(orjson.dumps(told["profile"]))
    mapped = Mapped(**{**told["mapped"], "needs": tuple(told["mapped"]["needs"])})
    recipe = Recipe.from_json(told["recipe"])
    spoken = Spoken(recipe, (profile,), {told["tool"]: mapped}, told["base"])
    return JobFacts(spoken, profile, told["tool"], mapped, tuple(told["outputs"]), told["model"], told["tag"])


def _told(job: JobFacts) -> Mapping[str, Any]:
    return {
        "recipe": job.spoken.recipe.as_json(),
        "base": job.spoken.base,
        "profile": job.profile.model_dump(mode="json", by_alias=True, exclude_defaults=True),
        "tool": job.tool,
        "mapped": asdict(job.mapped),
        "outputs": list(job.outputs),
        "model": job.model,
        "tag": job.tag,
    }
