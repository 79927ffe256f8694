"""Every problem of an egress policy: the exact words, and that each mend mends."""

import pytest

from reconciler.model.names import Kind, ObjectRef
from tests.admission import build
from tests.admission.table import Bad, check

FILE = "policies/egress.toml"
CLASSES = "[[class]]\nname = 'internal'\n[[class]]\nname = 'private'\nlocalOnly = true\n"
BINDING = "apiVersion = 'handler.binding/v1'\nconnector = 'ocr-rapid'\n"
AGENT = "apiVersion = 'handler.agent/v1'\nfloorClass = '{}'\n"


def policy(text: str, **more: str) -> build.Files:
    return {FILE: f"apiVersion = 'handler.egress-policy/v1'\n{CLASSES}{text}", **more}


def rule(text: str, effect: str = "allow", **more: str) -> build.Files:
    return policy(f"[[rule]]\nid = 'r'\neffect = '{effect}'\n{text}", **more)


BOUND = "means nothing in a rule that denies"
BAD = [
    Bad(
        "S510",
        policy("[[rule]]\nid = 'r'\neffect = 'deny'\n[[rule]]\nid = 'r'\neffect = 'allow'\n"),
        FILE,
        "rule[1].id",
        "'r' stands twice",
        "give one of them another name",
    ),
    Bad(
        "S511",
        rule("maxClass = 'intrenal'\n"),
        FILE,
        "rule[0].maxClass",
        "there is no class 'intrenal'",
        "write 'internal'",
        (FILE, "intrenal", "internal"),
    ),
    Bad(
        "S511",
        policy("[[label]]\npaths = ['a/**']\nclass = 'top'\n"),
        FILE,
        "label[0].class",
        "there is no class 'top'",
        "add a [[class]], or delete the word",
    ),
    Bad(
        "S512",
        rule("bindings = ['ocr-fak']\n", "deny", **{"bindings/ocr-fake.toml": BINDING}),
        FILE,
        "rule[0].bindings[0]",
        "there is no binding 'ocr-fak'",
        "write 'ocr-fake'",
        (FILE, "'ocr-fak'", "'ocr-fake'"),
    ),
    Bad(
        "S512",
        rule("interfaces = ['ocr/v9']\n"),
        FILE,
        "rule[0].interfaces[0]",
        "there is no interface 'ocr/v9'",
        "write 'ocr/v1'",
        (FILE, "'ocr/v9'", "'ocr/v1'"),
        warning=True,
    ),
    Bad(
        "S513",
        rule("origins = ['https://API.example.com:443']\n"),
        FILE,
        "rule[0].origins[0]",
        "'https://API.example.com:443' is never met",
        "write 'https://api.example.com:443'",
        (FILE, "'https://API.example.com:443'", "'https://api.example.com:443'"),
    ),
    Bad(
        "S513",
        rule("origins = ['https://127.1:443']\n"),
        FILE,
        "rule[0].origins[0]",
        "'https://127.1:443' is no origin: the host is a number that is no plain IPv4 address",
        "write SCHEME://HOST:PORT",
    ),
    *(
        Bad(
            "S514",
            rule(f"{key} = {value}\n", "deny"),
            FILE,
            f"rule[0].{key}",
            f"'{key}' {BOUND}",
            f"delete '{key}'",
        )
        for key, value in {
            "maxClass": "'internal'",
            "maxBytes": "7",
            "require": "['training:no']",
            "cost": "{ perCall = 'EUR 1' }",
        }.items()
    ),
    Bad(
        "S515",
        rule("cost = { perDay = 'EUR 1' }\n"),
        FILE,
        "rule[0].cost.perDay",
        "cost.perDay stands without cost.perCall",
        "add perCall, the most for one call",
    ),
    Bad(
        "S515",
        rule("cost = { perCall = 'USD 1', perDay = 'EUR 1' }\n"),
        FILE,
        "rule[0].cost.perDay",
        "cost.perCall and cost.perDay are of two currencies",
        "write both in one",
    ),
    Bad(
        "S516",
        rule("maxClass = 'private'\n"),
        FILE,
        "rule[0].id",
        "rule 'r' lets nothing of class 'private' go",
        "name a class below it",
        warning=True,
    ),
    Bad(
        "S517",
        policy("", **{"agents/clerk.toml": AGENT.format("secret")}),
        FILE,
        "",
        "floorClass of agent 'clerk' is 'secret', which is no class here",
        "add a [[class]] with name = 'secret', or change agents/clerk.toml",
        warning=True,
    ),
]


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_a_policy_that_says_nothing_is_told_and_its_mend_mends(bad: Bad) -> None:
    check(bad)


def test_a_policy_that_speaks_of_what_is_there_is_admitted_without_a_word() -> None:
    text = "bindings = ['ocr-fake']\nagents = ['clerk']\nclasses = ['internal']\norigins = ['https://[::1]:8443']\n"
    more = {"bindings/ocr-fake.toml": BINDING, "agents/clerk.toml": AGENT.format("internal")}
    judged = build.judge(rule(text, "ask", **more), build.catalog())
    assert judged.problems == ()
    assert ObjectRef(Kind.POLICY, "egress") in judged.in_force
