"""A sealed request's digest is of everything that goes on the wire, and of nothing else."""

import dataclasses
import hashlib

import pytest

from reconciler.model.sealed import AuthSlot, Sealed, wire_digest

PLACE = ("POST", "https://api.example.com:443", "/v1/things?x=1")
HEADERS = (("content-type", "application/json"), ("x-version", "1"))
BODY = b'{"a":1}'


def _sealed() -> Sealed:
    return Sealed(*PLACE, HEADERS, BODY, AuthSlot("bearer", "api_key"), wire_digest(PLACE, HEADERS, BODY))


def test_the_digest_is_that_of_the_law() -> None:
    text = (
        '{"body_len":7,"body_sha256":"' + hashlib.sha256(b'{"a":1}').hexdigest() + '",'
        '"headers":[["content-type","application/json"],["x-version","1"]],"method":"POST",'
        '"origin":"https://api.example.com:443","target":"/v1/things?x=1","v":"handler.wire/v1"}'
    )
    assert wire_digest(PLACE, HEADERS, BODY) == "sha256:" + hashlib.sha256(text.encode()).hexdigest()
    assert wire_digest(PLACE, HEADERS[::-1], BODY) == wire_digest(PLACE, HEADERS, BODY)


@pytest.mark.parametrize(
    "change",
    [
        {"method": "PUT"},
        {"origin": "https://api.example.com:444"},
        {"target": "/v1/things?x=2"},
        {"headers": HEADERS[:1]},
        {"body": b'{"a":2}'},
    ],
    ids=lambda change: next(iter(change)),
)
def test_whatever_changes_after_sealing_is_noticed(change: dict[str, object]) -> None:
    assert _sealed().is_whole()
    assert not dataclasses.replace(_sealed(), **change).is_whole()


def test_where_the_secret_goes_is_not_in_the_digest_and_a_body_is_not_in_a_repr() -> None:
    assert dataclasses.replace(_sealed(), auth=None).is_whole()
    assert "{" not in repr(_sealed())
    assert _sealed().path == "/v1/things"
