import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.conformance import cases
from reconciler.conformance.cases import At, Case, Expectation, Outcome

GOOD: dict[str, Any] = {"name": "invoice", "tool": "ocr_extract", "input": {"path": "invoice.pdf"}}
ANSWER = {
    "pages": [
        {"text": "INV-2024-0042\nTotal 1,680.00", "blocks": [{"bbox": [0.1, 0.2]}]},
        {"text": "Terms"},
    ],
    "characters": 31,
    "valid": True,
    "kind": "letter",
    "next": None,
}


def suite(*tables: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {"case": list(tables), **keys}


def one(**expect: Any) -> Case:
    found, problems = cases.read(suite({**GOOD, "expect": expect}), "cases.toml")
    assert not problems
    return found[0]


def answered(structured: dict[str, Any] | None = None, **more: Any) -> Outcome:
    return Outcome(ANSWER if structured is None else structured, None, more.pop("seconds", 1.0), **more)


def failed(code: str, seconds: float = 1.0) -> Outcome:
    return Outcome(None, code, seconds)


def test_a_whole_case_becomes_a_frozen_value() -> None:
    table = {
        **GOOD,
        "tier": "certification",
        "expect": {
            "contains": ["Total"],
            "notContains": ["secret"],
            "maxSeconds": 2.5,
            "fileType": "text",
            "pages": {"minItems": 1, "maxItems": 3, "0": {"text": {"pattern": "INV", "type": "string"}}},
            "characters": {"min": 1, "max": 99},
            "kind": {"equals": "letter"},
        },
    }
    found, problems = cases.read(suite(table), "cases.toml")
    assert problems == ()
    assert found == (
        Case(
            name="invoice",
            tool="ocr_extract",
            input={"path": "invoice.pdf"},
            tier="certification",
            expect=Expectation(
                contains=("Total",),
                not_contains=("secret",),
                max_seconds=2.5,
                file_type="text",
                at=(
                    At(("pages",), min_items=1, max_items=3),
                    At(("pages", 0, "text"), pattern="INV", type="string"),
                    At(("characters",), min=1, max=99),
                    At(("kind",), equals="letter"),
                ),
            ),
        ),
    )


def test_a_case_without_an_expectation_still_demands_an_answer() -> None:
    (case,), _ = cases.read(suite(GOOD), "cases.toml")
    assert cases.judge(case, answered()) == ()
    assert cases.judge(case, failed("unavailable")) == (
        "expected an answer, and the call ended with 'unavailable'",
    )


@pytest.mark.parametrize(
    ("table", "code", "path", "mends_with"),
    [
        (suite(GOOD, cases=1), "I401", ("cases",), "write case"),
        (suite({**GOOD, "expects": {}}), "I401", ("case", 0, "expects"), "expect"),
        (suite({**GOOD, "expect": {"contain": ["x"]}}), "I401", ("case", 0, "expect", "contain"), "contains"),
        (
            suite({**GOOD, "expect": {"pages": {"minItem": 1}}}),
            "I401",
            ("case", 0, "expect", "pages", "minItem"),
            "minItems",
        ),
        (
            suite({**GOOD, "expect": {"minItems": 1}}),
            "I401",
            ("case", 0, "expect", "minItems"),
            "contains",
        ),
        ({}, "I402", (), "[[case]]"),
        (suite(), "I402", (), "[[case]]"),
        (suite({"name": "a", "tool": "b"}), "I402", ("case", 0), "write input"),
        ({"case": ["invoice"]}, "I403", ("case", 0), "[[case]]"),
        (suite({**GOOD, "input": "invoice.pdf"}), "I403", ("case", 0, "input"), "a table"),
        (suite({**GOOD, "name": 7}), "I403", ("case", 0, "name"), "text"),
        (suite({**GOOD, "tier": "gold"}), "I403", ("case", 0, "tier"), "'conformance' or 'certification'"),
        (suite({**GOOD, "expect": 1}), "I403", ("case", 0, "expect"), "a table"),
        (suite({**GOOD, "expect": {"contains": "x"}}), "I403", ("case", 0, "expect", "contains"), "a list"),
        (suite({**GOOD, "expect": {"contains": []}}), "I403", ("case", 0, "expect", "contains"), "a list"),
        (suite({**GOOD, "expect": {"contains": [""]}}), "I403", ("case", 0, "expect", "contains"), "a list"),
        (suite({**GOOD, "expect": {"error": True}}), "I403", ("case", 0, "expect", "error"), "text"),
        (
            suite({**GOOD, "expect": {"maxSeconds": 0}}),
            "I403",
            ("case", 0, "expect", "maxSeconds"),
            "above 0",
        ),
        (suite({**GOOD, "expect": {"maxSeconds": True}}), "I403", ("case", 0, "expect", "maxSeconds"), "0"),
        (suite({**GOOD, "expect": {"fileType": "doc"}}), "I403", ("case", 0, "expect", "fileType"), "'text'"),
        (
            suite({**GOOD, "expect": {"a": {"minItems": -1}}}),
            "I403",
            ("case", 0, "expect", "a", "minItems"),
            "w",
        ),
        (
            suite({**GOOD, "expect": {"a": {"min": "1"}}}),
            "I403",
            ("case", 0, "expect", "a", "min"),
            "a number",
        ),
        (
            suite({**GOOD, "expect": {"a": {"pattern": "("}}}),
            "I403",
            ("case", 0, "expect", "a", "pattern"),
            "ECMA",
        ),
        (
            suite({**GOOD, "expect": {"a": {"pattern": 1}}}),
            "I403",
            ("case", 0, "expect", "a", "pattern"),
            "ECMA",
        ),
        (
            suite({**GOOD, "expect": {"a": {"type": "float"}}}),
            "I403",
            ("case", 0, "expect", "a", "type"),
            "null",
        ),
        (
            suite({**GOOD, "expect": {"a": {"equals": [1]}}}),
            "I403",
            ("case", 0, "expect", "a", "equals"),
            "one",
        ),
        (suite(GOOD, GOOD), "I404", ("case", 1, "name"), "a name of its own"),
    ],
)
def test_what_a_suite_may_not_hold_is_told_with_its_place_and_its_mend(
    table: dict[str, Any], code: str, path: tuple[str | int, ...], mends_with: str
) -> None:
    found, problems = cases.read(table, "interfaces/ocr/v1/conformance/cases.toml")
    assert [(one.code, one.path) for one in problems] == [(code, path)]
    assert mends_with in problems[0].mend
    assert problems[0].at.file == "interfaces/ocr/v1/conformance/cases.toml"
    assert len(found) == sum(isinstance(case, dict) and case == GOOD for case in table.get("case", [])[:1])


def test_all_problems_are_told_at_once_and_good_cases_survive_bad_ones() -> None:
    bad = {"nam": "x", "tool": 1, "expect": {"contains": "x", "pages": {"minItems": "1"}}}
    found, problems = cases.read(suite(bad, GOOD), "cases.toml")
    assert [case.name for case in found] == ["invoice"]
    assert sorted(problem.code for problem in problems) == ["I401", "I402", "I402", "I403", "I403", "I403"]


@pytest.mark.parametrize(
    ("expect", "fault"),
    [
        ({"contains": ["INV-2024-0042", "Terms"]}, None),
        ({"contains": ["INV-2024-0043"]}, "'INV-2024-0043' is nowhere in the answer"),
        ({"contains": ["total"]}, "'total' is nowhere in the answer"),
        (
            {"contains": ["Total 1,680.00\nTerms"]},
            "nowhere in the answer",
        ),  # words of two pages are not one text
        ({"notContains": ["secret"]}, None),
        ({"notContains": ["Terms"]}, "'Terms' is in the answer"),
        ({"pages": {"minItems": 2}}, None),
        ({"pages": {"minItems": 3}}, "pages has 2 items, fewer than 3"),
        ({"pages": {"maxItems": 1}}, "pages has 2 items, more than 1"),
        ({"kind": {"minItems": 1}}, "kind is no array"),
        ({"kind": {"maxItems": 9}}, "kind is no array"),
        ({"pages": {"0": {"text": {"pattern": "^INV-\\d{4}"}}}}, None),
        ({"pages": {"1": {"text": {"pattern": "INV"}}}}, "pages[1].text does not match 'INV'"),
        ({"pages": {"2": {"text": {"pattern": "."}}}}, "pages[2].text is not in the answer"),
        ({"pages": {"first": {"type": "string"}}}, "pages.first is not in the answer"),
        ({"characters": {"pattern": "3"}}, "characters is no text"),
        ({"characters": {"min": 31, "max": 31}}, None),
        ({"characters": {"min": 32}}, "characters is less than 32"),
        ({"characters": {"max": 30}}, "characters is more than 30"),
        ({"valid": {"min": 0}}, "valid is no number"),
        ({"valid": {"max": 2}}, "valid is no number"),
        ({"valid": {"equals": True}}, None),
        ({"valid": {"equals": 1}}, "valid is not 1"),
        ({"kind": {"equals": "letter"}}, None),
        ({"kind": {"equals": "invoice"}}, "kind is not 'invoice'"),
        ({"next": {"type": "null"}}, None),
        ({"valid": {"type": "boolean"}}, None),
        ({"valid": {"type": "integer"}}, "valid is not of type integer"),
        ({"characters": {"type": "number"}}, None),
        ({"pages": {"type": "array"}}, None),
        ({"pages": {"0": {"type": "object"}}}, None),
        ({"missing": {"type": "null"}}, "missing is not in the answer"),
    ],
)
def test_an_answer_is_judged_by_its_properties(expect: dict[str, Any], fault: str | None) -> None:
    faults = cases.judge(one(**expect), answered())
    if fault is None:
        assert faults == ()
    else:
        assert len(faults) == 1
        assert fault in faults[0]


@pytest.mark.parametrize(
    ("outcome", "fault"),
    [
        (failed("unsupported_format"), None),
        (failed("unavailable"), "the call ended with 'unavailable'"),
        (answered(), "the call was answered"),
    ],
)
def test_an_expected_error_is_that_error_and_no_other(outcome: Outcome, fault: str | None) -> None:
    faults = cases.judge(one(error="unsupported_format"), outcome)
    assert faults == () if fault is None else fault in faults[0]


def test_an_unexpected_error_is_one_fault_whatever_else_was_expected() -> None:
    faults = cases.judge(one(contains=["a", "b"], pages={"minItems": 1}), failed("too_large"))
    assert faults == ("expected an answer, and the call ended with 'too_large'",)


def test_an_outcome_without_answer_and_error_is_a_fault() -> None:
    assert cases.judge(one(contains=["a"]), Outcome(None, None, 0.1)) == (
        "expected an answer, and the call ended with 'nothing'",
    )


def test_slowness_is_a_fault_of_answers_and_of_errors() -> None:
    assert cases.judge(one(maxSeconds=2), answered(seconds=2.0)) == ()
    assert cases.judge(one(maxSeconds=2), answered(seconds=2.5)) == ("took 2.5 s, more than 2 s",)
    assert cases.judge(one(maxSeconds=2, error="limit"), failed("limit", 3.0)) == (
        "took 3.0 s, more than 2 s",
    )


@pytest.mark.parametrize(
    ("kind", "data", "good"),
    [
        ("text", "Grüße\n\f\n".encode(), True),
        ("text", b"", True),
        ("text", b"a\0b", False),
        ("text", b"\xff\xfe", False),
        ("png", b"\x89PNG\r\n\x1a\n....", True),
        ("png", b"\xff\xd8\xff", False),
        ("pdf", b"%PDF-1.7", True),
        ("jpeg", b"\xff\xd8\xff\xe0", True),
        ("gif", b"GIF89a", True),
        ("zip", b"PK\x03\x04", True),
        ("wav", b"RIFF\0\0\0\0WAVE", True),
        ("wav", b"RIFF\0\0\0\0WEBP", False),
        ("ogg", b"OggS", True),
        ("mp4", b"\0\0\0\x20ftypisom", True),
        ("mp4", b"ftypisom", False),
        ("png", b"", False),
    ],
)
def test_a_files_type_is_told_by_its_bytes(kind: str, data: bytes, good: bool) -> None:
    faults = cases.judge(one(fileType=kind), answered(files={"output": data}))
    assert faults == (() if good else (f"the file of 'output' is not of type {kind}",))


def test_a_file_that_was_not_written_has_no_type() -> None:
    assert cases.judge(one(fileType="text"), answered()) == ("no file was written",)


def test_words_may_stand_in_the_file_instead_of_the_answer() -> None:
    outcome = answered({"characters": 3}, files={"output": b"TERMS-7731"})
    assert cases.judge(one(contains=["TERMS-7731"]), outcome) == ()
    assert cases.judge(one(notContains=["TERMS-7731"]), outcome) == ("'TERMS-7731' is in the answer",)


_scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
_values = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["case", "name", "tool", "input", "tier", "expect", "contains", "pattern", "min", "0"]
            )
            | st.text(max_size=4),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=5), _values, max_size=3), st.lists(_values, max_size=4))
def test_reading_never_raises_and_what_it_accepts_can_be_judged(
    extra: dict[str, Any], tables: list[Any]
) -> None:
    found, problems = cases.read({**extra, "case": tables}, "cases.toml")
    assert found or problems
    for case in found:
        assert isinstance(cases.judge(case, Outcome({"a": 1}, None, 0.0)), tuple)
        assert all("\n" not in fault for fault in cases.judge(case, failed("limit")))


@given(st.text(max_size=20), st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=4))
def test_words_are_contained_exactly_when_each_is_somewhere(text: str, words: list[str]) -> None:
    faults = cases.judge(one(contains=words), answered({"text": text}))
    assert len(faults) == sum(word not in text for word in words)


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_bounds_include_themselves(value: float, bound: float) -> None:
    faults = cases.judge(one(x={"min": bound, "max": bound}), answered({"x": value}))
    assert (faults == ()) == math.isclose(value, bound, rel_tol=0, abs_tol=0)
