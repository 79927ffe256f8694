"""The digest of a request on the wire: what it names, and what it does not."""

import hashlib
import json

import pytest

from reconciler.model.transmission import is_signed, wire_digest

BODY = (hashlib.sha256(b"{}").hexdigest(), 2)
PLAIN = ("POST", "https://api.example.com:443", "/v1/x?a=1", [("content-type", "application/json")], BODY)


def digest(
    method: str, origin: str, target: str, headers: list[tuple[str, str]], body: tuple[str, int]
) -> str:
    return wire_digest(method, origin, target, headers, body=body)


def test_it_is_sha256_over_the_canonical_json_of_the_request() -> None:
    text = (
        f'{{"body_len":2,"body_sha256":"{BODY[0]}","headers":[["a","1"],["b","2"]],"method":"POST",'
        '"origin":"https://h:443","target":"/","v":"handler.wire/v1"}'
    )
    assert json.loads(text)
    found = wire_digest("POST", "https://h:443", "/", [("B", "2"), ("a", " 1 ")], body=BODY)
    assert found == "sha256:" + hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("place", "other"),
    [
        (0, "PUT"),
        (1, "https://api.example.com:8443"),
        (2, "/v1/x?a=2"),
        (3, [("content-type", "application/xml")]),
        (3, [*PLAIN[3], ("x-more", "1")]),
        (4, (hashlib.sha256(b"[]").hexdigest(), 2)),
        (4, (BODY[0], 3)),
    ],
)
def test_whatever_is_decided_on_changes_it(place: int, other: object) -> None:
    changed = [*PLAIN]
    changed[place] = other
    assert digest(*changed) != digest(*PLAIN)  # type: ignore[arg-type]


def test_framing_and_what_is_between_us_and_the_gate_do_not() -> None:
    framing = [("Host", "api.example.com"), ("content-length", "2"), ("X-Handler-Call", "7")]
    assert digest(*PLAIN[:3], [*PLAIN[3], *framing], BODY) == digest(*PLAIN)
    assert not is_signed("Accept-Encoding")
    assert is_signed("Idempotency-Key")
