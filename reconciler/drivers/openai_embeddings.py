"""``openai.embeddings@1``: a vector for each of some texts, behind POST /embeddings.

Source: OpenAI's OpenAPI file of 2026-08-21. An answer counts when it has exactly one vector of finite numbers
for each text, all of one length, in the texts' order whatever order they came in.
"""

import math
import struct
from collections.abc import Mapping, Sequence

from reconciler.drivers import bytesof, reading, sealing
from reconciler.drivers.asking import Call
from reconciler.drivers.picking import at, count, number, records, text
from reconciler.model.dialect import Profile
from reconciler.model.outcome import CallOutcome, Done, Rejected, Unknown, Usage
from reconciler.model.sealed import Reply, Sealed

_FLOAT_BYTES = 4  # base64 holds little-endian float32


def seal(call: Call, profile: Profile) -> Sealed:
    """The bytes of a call."""
    return sealing.call(call, profile)


def read(reply: Reply, call: Call, profile: Profile) -> CallOutcome:
    """The vectors: ``{"vectors": [[…]], "dimensions": n}``."""
    body = reading.opened(reply, profile, text(call.fields.get("model")))
    if isinstance(body, Rejected | Unknown):
        return body
    seen = reading.seen(reply, profile)
    asked = call.fields.get("input")
    wanted = len(asked) if isinstance(asked, list | tuple) else 1
    vectors = _ordered(records(body.get("data")), wanted)
    if vectors is None:
        return Unknown("the answer has not one vector for each text", seen)
    usage = Usage(input_tokens=count(at(body, "usage.prompt_tokens")))
    result = {"vectors": vectors, "dimensions": len(vectors[0])}
    return Done(result, usage=usage, model=text(body.get("model")), seen=seen)


def _ordered(found: Sequence[Mapping[str, object]], wanted: int) -> list[list[float]] | None:
    vectors: dict[int, list[float]] = {}
    for one in found:
        index, vector = one.get("index"), _vector(one.get("embedding"))
        if vector is None or not isinstance(index, int) or isinstance(index, bool):
            return None
        vectors[index] = vector
    if sorted(vectors) != list(range(wanted)) or len(found) != wanted:
        return None
    ordered = [vectors[index] for index in range(wanted)]
    return ordered if len({len(one) for one in ordered}) == 1 else None


def _vector(found: object) -> list[float] | None:
    if isinstance(found, str):
        data = bytesof.decoded(found)
        if data is None or len(data) % _FLOAT_BYTES:
            return None
        vector = list(struct.unpack(f"<{len(data) // _FLOAT_BYTES}f", data))
        return vector if all(math.isfinite(one) for one in vector) else None
    if not isinstance(found, list) or not found:
        return None
    numbers = [number(one) for one in found]
    return None if None in numbers else [one for one in numbers if one is not None]


def decoder(head: Reply, call: Call, profile: Profile) -> None:
    """Vectors do not come in pieces."""
    return
