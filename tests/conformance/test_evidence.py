"""Evidence: what it is about, that it is sealed, and what it proves by now."""

from datetime import UTC, datetime
from typing import Any

import pytest

from reconciler.config.evidence import Evidence
from reconciler.conformance import evidence as law
from reconciler.model.recipes import Recipe, SandboxPolicy, SecretUse

NOW = datetime(2026, 12, 1, tzinfo=UTC)
SUITES = {"count/v1": {"tools.json": b"[]", "conformance/cases.toml": b"x", "skills/count/SKILL.md": b"s"}}


def recipe(**other: Any) -> Recipe:
    usual: dict[str, Any] = {
        "binding": "mine",
        "connector": "counter",
        "runtime": "python",
        "code": "c" * 64,
        "entry": "main.py",
        "environment": "",
        "settings": (("WRONG", "false"),),
        "secrets": (),
        "models": (),
        "egress": (),
        "sandbox": SandboxPolicy(),
        "state": "none",
        "kit": "k" * 64,
    }
    return Recipe(**{**usual, **other})


def result(verdict: str = "passed", tier: str = "conformance") -> dict[str, Any]:
    return {
        "interface": "count/v1", "name": "n", "tier": tier, "verdict": verdict, "seconds": 0.5, "faults": []
    }  # fmt: skip


def found(
    *results: dict[str, Any], at: str = "2026-11-30T10:00:00.000Z", mode: str = "offline", **of: Any
) -> Evidence:
    about = law.subject(recipe(**of), SUITES)
    return law.sealed(
        {
            "subject": about.model_dump(by_alias=True),
            "binding": None,
            "mode": mode,
            "kit": "sha256:k",
            "product": "0",
            "python": "3",
            "platform": "p",
            "walls": {},
            "started": at,
            "finished": at,
            "results": list(results) or [result()],
        }
    )


def proof(*evidence: Evidence, live: bool = False, days: int = 90, **of: Any) -> law.Proof:
    return law.proof(law.subject(recipe(**of), SUITES), evidence, live=live, most_days=days, now=NOW)


@pytest.mark.parametrize(
    ("verdicts", "tier"),
    [
        ((), "never"),
        (("passed", "passed"), "passed"),
        (("passed", "failed"), "failed"),
        (("passed", "skipped"), "failed"),
    ],
)
def test_a_tier_is_passed_by_cases_that_were_all_asked_and_all_passed(
    verdicts: tuple[str, ...], tier: str
) -> None:
    sealed = found(result(tier="certification"), *map(result, verdicts))
    assert (sealed.tiers.conformance, sealed.tiers.certification) == (tier, "passed")


def test_what_was_edited_since_it_was_sealed_proves_nothing() -> None:
    good = found(result("failed"))
    forged = good.model_copy(update={"tiers": good.tiers.model_copy(update={"conformance": "passed"})})
    assert law.is_whole(good)
    assert not law.is_whole(forged)
    assert proof(forged).verdict == "never"
    assert law.is_whole(Evidence.model_validate_json(good.model_dump_json(by_alias=True)))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"code": "d" * 64}, "its code changed"),
        ({"settings": (("WRONG", "true"),)}, "its configuration changed"),
        ({"egress": ("example.com:443",)}, "its configuration changed"),
        ({"models": ("m",)}, "its configuration changed"),
    ],
)
def test_evidence_is_void_for_whatever_would_answer_otherwise(change: dict[str, Any], said: str) -> None:
    told = proof(found(), **change)
    assert told.verdict == "stale"
    assert said in told.message


def test_evidence_is_void_for_another_suite() -> None:
    other = {"count/v1": {**SUITES["count/v1"], "conformance/cases.toml": b"y"}}
    about = law.subject(recipe(), other)
    told = law.proof(about, [found()], live=False, most_days=90, now=NOW)
    assert (told.verdict, "its suites changed" in told.message) == ("stale", True)
    reworded = {"count/v1": {**SUITES["count/v1"], "skills/count/SKILL.md": b"other words"}}
    assert law.subject(recipe(), reworded) == law.subject(recipe(), SUITES)


@pytest.mark.parametrize(
    "same",
    [
        {"binding": "yours"},
        {"kit": "l" * 64},
        {"idle_stop_s": 5},
        {"max_concurrent_calls": 1},
    ],
)
def test_what_changes_no_answer_keeps_the_evidence(same: dict[str, Any]) -> None:
    assert proof(found(), **same).verdict == "passed"


def test_a_secret_counts_by_its_slot_and_not_by_where_it_is_found() -> None:
    def use(form: str) -> tuple[SecretUse, ...]:
        return (SecretUse("key", form, ("WORD",), "KEY", "env"),)

    checked = found(secrets=use("env"))
    assert proof(checked, secrets=use("file")).verdict == "passed"
    assert proof(checked).verdict == "stale"


def test_a_folder_counts_by_its_setting_and_not_by_where_it_lies() -> None:
    for sort in ("folders", "adds"):
        one, other = (recipe(**{sort: (("docs", path),)}) for path in ("/srv/a", "/srv/b"))
        assert law.subject(one, SUITES) == law.subject(other, SUITES) != law.subject(recipe(), SUITES)
    shown, added = recipe(folders=(("docs", "/a"),)), recipe(adds=(("docs", "/a"),))
    assert law.subject(shown, SUITES) != law.subject(added, SUITES)


@pytest.mark.parametrize(
    ("egress", "out"),
    [
        ((), False),
        (("127.0.0.1:25", "[::1]:25"), False),
        (("127.0.0.1:25", "mail.example.com:465"), True),
        (("10.0.0.1:25",), True),
    ],
)
def test_what_speaks_to_loopback_alone_reaches_nobody(egress: tuple[str, ...], *, out: bool) -> None:
    assert law.reaches_out(recipe(egress=egress)) == out


def test_the_newest_evidence_decides() -> None:
    early, late = "2026-11-01T00:00:00.000Z", "2026-11-02T00:00:00.000Z"
    good, bad = found(at=early), found(result("failed"), at=late)
    assert proof(good, bad).verdict == "failed"
    assert proof(found(at=late), found(result("failed"), at=early)).verdict == "passed"


def test_evidence_lasts_as_long_as_is_asked_for() -> None:
    old = found(at="2026-11-20T00:00:00.000Z")
    assert proof(old, days=12).verdict == "passed"
    assert proof(old, days=12).until == "2026-12-02T00:00:00Z"
    assert proof(old, days=10).verdict == "stale"


def test_where_live_evidence_is_asked_for_closed_egress_proves_nothing_of_what_reaches_out() -> None:
    out = ("example.com:443",)
    offline, live = found(egress=out), found(egress=out, mode="live")
    assert proof(offline, live=True, egress=out).verdict == "never"
    assert proof(offline, live, live=True, egress=out).verdict == "passed"


def test_nothing_is_proven_where_nothing_is_known() -> None:
    assert proof().verdict == "never"
    assert proof(found(connector="another")).verdict == "never"


@pytest.mark.parametrize("at", ["", "yesterday", "2026-11-30T10:00:00", "9999-12-31T00:00:00Z"])
def test_what_says_no_instant_proves_nothing_and_hides_nothing(at: str) -> None:
    assert proof(found(at=at)).verdict == "never"
    assert proof(found(at=at), found()).verdict == "passed"


def test_the_newest_is_the_newest_in_whatever_zone_it_was_written() -> None:
    failed = found(result("failed"), at="2026-11-30T10:00:00.000Z")
    assert proof(failed, found(at="2026-11-30T11:00:00.000+02:00")).verdict == "failed"


def test_a_number_without_a_canonical_form_proves_nothing() -> None:
    odd = found().model_dump(mode="json", by_alias=True)
    odd["results"][0]["seconds"] = float("inf")
    assert proof(Evidence.model_validate(odd)).verdict == "never"
