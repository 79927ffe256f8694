"""Three truths apart: who may say what, what each is worth with age, and what they come to."""

from itertools import product
from typing import get_args

from reconciler.model.observations import (
    VALUES,
    Actor,
    Observation,
    Subject,
    compared,
    may,
)


def test_nobody_says_what_is_anothers_to_say() -> None:
    said = {
        (actor, kind)
        for actor, kind in product(get_args(Actor), VALUES)
        if any(may(actor, kind, value) for value in VALUES[kind])  # type: ignore[index]
    }
    assert said == {
        ("link-probe", "link"), ("readiness-probe", "readiness"), ("inventory", "readiness"),
        ("call", "readiness"), ("conformance", "conformance"), ("fingerprint", "conformance"),
    }  # fmt: skip
    assert not may("inventory", "readiness", "ready")
    assert not may("fingerprint", "conformance", "passed")
    assert not may("link-probe", "readiness", "ready")


def test_what_is_past_its_end_is_worth_nothing() -> None:
    seen = Observation("readiness", Subject("a"), "ready", "Answering", "call", 100.0, 160.0)
    assert seen.at(159.0) is seen
    assert (seen.at(160.0).value, seen.at(160.0).reason) == ("unknown", "Stale")
    assert seen.at(0.0).value == "unknown"  # the clock was set back: it is of the future
    proof = Observation("conformance", Subject("a"), "passed", "Proven", "conformance", 100.0, 160.0)
    assert proof.at(200.0).value == "stale"


def test_a_list_of_models_adds_none() -> None:
    """Report 17: a list named `.git`, `Dockerfile` and the like as models."""
    junk = frozenset(f"junk-{n}" for n in range(26)) | {".git", "Dockerfile"}
    found = compared(("small", "large"), junk | {"small"})
    assert (found.missing, found.undeclared, found.declared) == (("large",), 28, ("small", "large"))
