"""Cases judged by a policy: what rules say, what no rule can open, and that their order never matters."""

import random
from dataclasses import replace
from typing import Any

import pytest
import tomli
from hypothesis import assume, example, given
from hypothesis import strategies as st

from reconciler.egress.decide import Case, decide
from reconciler.egress.policy import Basis, Place, Policy, Sum
from reconciler.model.policies import EgressPolicy
from tests.kit import effort

TEXT = """
apiVersion = "handler.egress-policy/v1"
remote = "deny"
local = "allow"
[[class]]
name = "public"
[[class]]
name = "internal"
[[class]]
name = "private"
localOnly = true
[[class]]
name = "secret"
localOnly = true
never = ["llm/v1"]
[[label]]
paths = ["clients/**", "~/hr/*.pdf"]
class = "private"
[[label]]
paths = ["**/*.key"]
class = "secret"
[[rule]]
id = "ocr-mistral"
effect = "allow"
bindings = ["ocr-mistral-perso"]
interfaces = ["ocr/v1"]
origins = ["https://api.mistral.ai:443"]
purposes = ["document-reading"]
maxClass = "internal"
maxBytes = 20_000_000
cost = { perCall = "EUR 0.50", perDay = "EUR 5.00" }
require = ["retention:<=30d", "training:no"]
[[rule]]
id = "mail-asks"
effect = "ask"
interfaces = ["send-email/v1"]
ask = { timeoutSeconds = 60 }
[[rule]]
id = "mail-goes"
effect = "allow"
interfaces = ["send-email/v1"]
[[rule]]
id = "never-to-evil"
effect = "deny"
origins = ["https://evil.example.com:443"]
"""
FACTS = {"retention": "7d", "training": "no"}
OCR = Case(
    "ocr-mistral-perso", "ocr/v1", "document-reading", "https://api.mistral.ai:443", class_name="internal",
    size=1000, facts=FACTS,
)  # fmt: skip
MAIL = Case("mail", "send-email/v1", "send-email", "https://smtp.example.com:465", effect="external")
LLM = Case("llm-here", "llm/v1", "llm", "http://127.0.0.1:8080", is_local=True)


def policy(text: str = TEXT, **more: Any) -> Policy:
    return Policy.of(EgressPolicy.model_validate({**tomli.loads(text), **more}), "/home/ada")


CASES = [
    (OCR, "allow", "ocr-mistral"),
    (replace(OCR, class_name="public"), "allow", "ocr-mistral"),
    (replace(OCR, class_name="private"), "deny", ""),
    (replace(OCR, class_name="nobody-knows"), "deny", ""),
    (replace(OCR, origin="https://api.mistral.ai.evil.example.com:443"), "deny", ""),
    (replace(OCR, origin="https://api.mistral.ai:8443"), "deny", ""),
    (replace(OCR, purpose="training"), "deny", ""),
    (replace(OCR, size=20_000_001), "deny", ""),
    (replace(OCR, facts={"retention": "unstated", "training": "no"}), "deny", ""),
    (replace(OCR, facts={"retention": "31d", "training": "no"}), "deny", ""),
    (replace(OCR, facts={}), "deny", ""),
    (replace(OCR, estimate=Sum.parse("EUR 0.51")), "deny", ""),
    (replace(OCR, estimate=Sum.parse("USD 0.01")), "deny", ""),
    (replace(OCR, binding="other"), "deny", ""),
    (MAIL, "ask", "mail-asks"),
    (replace(MAIL, origin="https://evil.example.com:443"), "deny", "never-to-evil"),
    (replace(MAIL, origin="https://evil.example.com:443", is_control=True), "deny", "never-to-evil"),
    (replace(MAIL, is_control=True), "allow", "control"),
    (replace(MAIL, is_control=True, class_name="private"), "deny", ""),
    (LLM, "allow", ""),
    (replace(LLM, class_name="private"), "allow", ""),
    (replace(LLM, class_name="secret"), "deny", ""),
    (replace(MAIL, grade="boundary", class_name="internal"), "ask", "mail-asks"),
]


@pytest.mark.parametrize(("case", "verdict", "rule"), CASES, ids=range(len(CASES)))
def test_a_case_is_judged(case: Case, verdict: str, rule: str) -> None:
    said = decide(policy(), case)
    assert (said.verdict, said.rule) == (verdict, rule)
    assert said.reason


def test_the_order_of_rules_never_matters() -> None:
    spec = tomli.loads(TEXT)
    wanted = [decide(policy(), case) for case, _, _ in CASES]
    for seed in range(effort.times(20)):
        rules = [*spec["rule"]]
        random.Random(seed).shuffle(rules)
        shuffled = policy(rule=rules)
        assert [decide(shuffled, case) for case, _, _ in CASES] == wanted


def test_a_day_has_a_sum_and_what_has_no_price_counts_as_its_bound() -> None:
    assert decide(policy(), OCR).charge == Sum("EUR", 5_000)
    assert decide(policy(), OCR, {"ocr-mistral": {"EUR": 45_000}}).verdict == "allow"
    said = decide(policy(), OCR, {"ocr-mistral": {"EUR": 45_001}})
    assert (said.verdict, "EUR 5.00 of today are used up" in said.reason) == ("deny", True)
    cheap = replace(OCR, estimate=Sum.parse("EUR 0.0001"))
    assert decide(policy(), cheap, {"ocr-mistral": {"EUR": 49_999}}).verdict == "allow"


def test_what_a_person_is_asked_about_has_bounds_too_and_no_wider_rule_opens_it() -> None:
    text = TEXT.replace("ask = { timeoutSeconds = 60 }", "maxBytes = 10\nask = { timeoutSeconds = 60 }")
    assert decide(policy(text), MAIL).timeout_s == 60
    assert decide(policy(text), replace(MAIL, size=11)).verdict == "deny"


def test_an_effect_with_data_above_the_usual_needs_a_word_at_a_boundary() -> None:
    classes = [{"name": "public"}, {"name": "internal"}, {"name": "team"}]
    rule = {"id": "mail", "effect": "allow", "interfaces": ["send-email/v1"]}
    at_wire = replace(MAIL, class_name="team")
    at_boundary = replace(at_wire, grade="boundary")
    plain = policy(**{"class": classes, "rule": [rule], "label": []})
    assert decide(plain, at_wire).verdict == "allow"
    assert decide(plain, at_boundary).verdict == "deny"
    assert decide(plain, replace(at_boundary, class_name="internal")).verdict == "allow"
    worded = policy(**{"class": classes, "rule": [{**rule, "enforcement": "boundary"}], "label": []})
    assert decide(worded, at_boundary).verdict == "allow"


def test_a_policy_that_is_refused_lets_nothing_go_elsewhere() -> None:
    shut = Policy.shut("the policy is refused")
    assert decide(shut, replace(OCR, class_name="")).verdict == "deny"
    assert decide(shut, LLM).verdict == "allow"


def test_files_are_labelled_by_where_they_lie_whatever_their_case() -> None:
    ready = policy()
    at = Place("/home/ada/work/clients/acme/offer.pdf", "clients/acme/offer.pdf")
    assert ready.labelled([at]) == (Basis("clients/**", "private"),)
    assert ready.labelled([Place("/w/Clients/x", "Clients/x")]) == (Basis("clients/**", "private"),)
    assert ready.labelled([Place("/home/ada/hr/pay.pdf")]) == (Basis("~/hr/*.pdf", "private"),)
    assert ready.labelled([Place("/home/ada/hr/2026/pay.pdf")]) == ()
    assert ready.labelled([Place("/w/my-clients/x", "my-clients/x")]) == ()
    both = ready.labelled([at, Place("/w/a/b.key", "a/b.key"), at])
    assert ready.highest(both) == "secret"
    assert ready.highest(()) == ready.lowest == "public"


@pytest.mark.parametrize(
    ("text", "units"), [("EUR 0.50", 5_000), ("EUR 12", 120_000), ("USD 0.0001", 1), ("CHF 3.1", 31_000)]
)
def test_sums_are_counted_in_units(text: str, units: int) -> None:
    assert Sum.parse(text).units == units
    assert Sum.parse(str(Sum.parse(text))) == Sum.parse(text)


def _fits(pattern: str, path: str) -> bool:
    """What a pattern means, one letter after the other."""
    if not pattern:
        return not path
    if pattern.startswith("**/"):
        rests = [path, *(path[at + 1 :] for at, char in enumerate(path) if char == "/" and _whole(path[:at]))]
        return any(_fits(pattern[3:], rest) for rest in rests)
    if pattern.startswith("**"):
        return any(_fits(pattern[2:], path[at:]) for at in range(len(path) + 1))
    if pattern[0] == "*":
        return any(_fits(pattern[1:], path[at:]) for at in range(len(path) + 1) if "/" not in path[:at])
    same = bool(path) and (path[0] != "/" if pattern[0] == "?" else path[0] == pattern[0])
    return same and _fits(pattern[1:], path[1:])


def _whole(folders: str) -> bool:
    return all(folders.split("/"))


def _labelled(pattern: str, path: str) -> bool:
    label = {"paths": [pattern], "class": "private"}
    return bool(policy(label=[label]).labelled([Place(f"/w/{path}", path)]))


@given(st.text("*?/ab.+", min_size=1, max_size=7), st.text("/ab.", min_size=1, max_size=7))
@example("a*b*", "aab.")
@example("**/a/**/b", "b/a/a/b")
@example("a.b*+", "axb")
def test_a_pattern_means_the_same_by_either_engine(pattern: str, path: str) -> None:
    assume(not pattern.startswith("/"))
    assert _labelled(pattern, path) is _fits(pattern, path)


def test_no_path_that_an_agent_chooses_holds_up_a_label() -> None:
    assert not _labelled("*a" * 12 + "*b", "a" * 250)  # tried one after the other, this takes years
    assert not _labelled("**/a/" * 12 + "b", "a/" * 2000)
