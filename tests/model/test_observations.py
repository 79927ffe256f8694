"""Three truths apart: who may say what, what each is worth with age, and what they come to."""

from itertools import product
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.observations import (
    VALUES,
    Actor,
    Conformance,
    Known,
    Link,
    Observation,
    Readiness,
    Subject,
    compared,
    effective,
    lets_through,
    may,
)

KNOWN = st.builds(
    Known,
    admitted=st.booleans(),
    suspended=st.booleans(),
    demanded=st.booleans(),
    conformance=st.sampled_from(get_args(Conformance)),
    link=st.sampled_from(get_args(Link)),
    readiness=st.sampled_from(get_args(Readiness)),
)


@pytest.mark.parametrize(
    ("known", "state"),
    [
        (Known(admitted=False, readiness="ready"), "refused"),
        (Known(demanded=True, conformance="never", readiness="ready"), "withheld"),
        (Known(demanded=True, conformance="stale", link="up", readiness="ready"), "withheld"),
        (Known(demanded=True, conformance="passed", readiness="ready"), "ready"),
        (Known(conformance="failed", readiness="ready"), "ready"),  # it is not asked for
        (Known(suspended=True, readiness="ready"), "disabled"),
        (Known(link="down", readiness="ready"), "down"),
        (Known(link="up", readiness="not-ready"), "not-ready"),
        (Known(link="up", readiness="warming"), "warming"),
        (Known(link="up"), "unprobed"),  # up raises nothing
        (Known(link="up", readiness="unknown"), "unprobed"),
        (Known(readiness="busy"), "busy"),
    ],
)
def test_the_first_line_that_fits_counts(known: Known, state: str) -> None:
    assert effective(known) == state


@given(KNOWN)
def test_a_link_that_is_up_never_raises_what_is_known(known: Known) -> None:
    from dataclasses import replace

    assert effective(replace(known, link="up")) == effective(replace(known, link="unknown"))


@given(KNOWN, st.sampled_from(("required", "attempt")))
def test_a_call_goes_through_only_where_nothing_bad_is_known(known: Known, policy: str) -> None:
    if lets_through(effective(known), policy):  # type: ignore[arg-type]
        assert known.admitted
        assert not known.suspended
        assert known.link != "down"
        assert known.readiness in ("ready", "unprobed", "unknown")
        assert not known.demanded or known.conformance == "passed"
        assert known.readiness == "ready" or policy == "attempt"


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
