"""A compiled contract: its faults name fields and rules, never a value, and nothing outside is fetched."""

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.contract import Tool, matches, pattern_fault
from tests.admission import build


def made(schema: dict[str, object]) -> Tool:
    return Tool({"name": "t", "inputSchema": schema, "outputSchema": schema}, kind="call", effect="none")


@pytest.mark.parametrize("ref", ["file:///etc/hostname", "http://127.0.0.1:9/x.json", "other.json"])
def test_a_reference_that_leaves_the_schema_is_refused(ref: str) -> None:
    with pytest.raises(ValueError, match="a schema of t cannot be compiled"):
        made({"$ref": ref})


def test_a_pattern_ends_where_its_text_does() -> None:
    tool = made({"type": "object", "properties": {"a": {"type": "string", "pattern": "^[a-z]{2}$"}}})
    assert tool.input_fault({"a": "fr"}) is None
    assert tool.input_fault({"a": "fr\n"}) == "a does not match the pattern"


def test_a_fault_of_an_answer_names_the_schema_s_fields_and_none_of_the_answer_s() -> None:
    shape = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "pages": {"type": "array", "items": {"type": "object", "additionalProperties": False}}
        },
    }
    tool = Tool(
        {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": shape}, kind="call", effect="none"
    )
    for name in ("CANARY", "a canary sings", "c" * 17, "ab12"):
        fault = tool.output_fault({"pages": [{name: 1}]})
        assert fault == "pages[] has a field that is not in the schema", "what could be payload is not said"
    fault = tool.output_fault({"mediaType": 1})
    assert fault == "the answer has a field that is not in the schema ('mediaType')"
    assert tool.output_fault({"CANARY": 1}) == "the answer has a field that is not in the schema"
    assert tool.output_fault({"pages": "CANARY"}) == "pages has the wrong type"
    assert tool.output_fault({"pages": None}) == "pages is null"
    assert tool.output_fault({"pages": []}) is None


class Canary:
    """A server on loopback that would say what a schema may be, and counts who asks."""

    def __init__(self) -> None:
        asked = self.asked = []  # type: ignore[var-annotated]

        class Answers(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b'{"type": "object"}')

            def log_message(self, *_: object) -> None: ...

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def canary() -> Iterator[Canary]:
    made = Canary()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.02,))
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


@pytest.mark.parametrize(
    "refers",
    [
        lambda url: {"$ref": url},
        lambda url: {"properties": {"a": {"$ref": url}}},
        lambda url: {"$id": url, "$ref": "other.json"},
        lambda url: {"$schema": url},
        lambda url: {"$dynamicRef": url},
        lambda url: {"$defs": {"a": {"$id": url, "$ref": "b"}}, "$ref": "#/$defs/a"},
        lambda url: {"items": {"anyOf": [{"$ref": f"{url}#/$defs/x"}]}},
    ],
)
def test_no_reference_is_ever_fetched_by_the_engine_or_by_admission(
    canary: Canary, tmp_path: Path, refers: object
) -> None:
    (tmp_path / "x.json").write_text('{"type": "object"}')
    for url in (f"{canary.url}/x.json", (tmp_path / "x.json").as_uri()):
        schema = {"type": "object", **refers(url)}  # type: ignore[operator]
        if "$schema" in schema:
            made(schema)  # the dialect is fixed: what it names is not looked at
        else:
            with pytest.raises(ValueError, match="a schema of t cannot be compiled"):
                made(schema)
        one = {**build.tool(), "outputSchema": schema}
        assert build.errors(build.judge(build.interface(tools=[one])))
        build.judge(build.interface(tools=[one]), lock=("ocr/v1",))
    assert canary.asked == []


def test_patterns_run_on_the_linear_engine_alone() -> None:
    """What only an engine that goes back can do is refused, so no such engine stands behind this one."""
    for pattern in ("(?=a)", "(?!a)", "(?<=a)", "(?<!a)", r"(a)\1", r"(?<n>a)\k<n>"):
        assert pattern_fault(pattern) is not None
        with pytest.raises(ValueError, match="look-around"):
            matches(pattern, "a")
        with pytest.raises(ValueError, match="cannot be compiled"):
            made({"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}})


@pytest.mark.timeout(60)
def test_the_first_fault_of_very_many_is_told_without_looking_at_the_others() -> None:
    tool = made({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}})
    assert tool.input_fault({"a": ["x"] * 5_000_000}) == "a[0] has the wrong type"
    assert tool.output_fault({"a": ["x"] * 5_000_000}) == "a[] has the wrong type"


SHAPE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "maxLength": 3, "pattern": "^[a-z]*$"},
        "kind": {"enum": ["one", 2, None]},
        "n": {"type": "integer", "minimum": 0, "multipleOf": 2},
        "map": {"type": "object", "additionalProperties": {"type": "number"}},
        "list": {"type": "array", "maxItems": 2, "uniqueItems": True, "items": {"type": "string"}},
        "either": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"const": 1}}]},
    },
}


UNKNOWN = "the input has a field that is not in the schema"


@pytest.mark.parametrize(
    ("instance", "told", "recorded"),
    [
        ({"name": "CANARY"}, "name is too long", "name is too long"),
        ({"name": "X"}, "name does not match the pattern", "name does not match the pattern"),
        ({"name": "", "kind": "CANARY"}, "kind is not one of the allowed values", None),
        ({"name": "", "n": -7}, "n is too small", None),
        ({"name": "", "n": 77777}, "n breaks the rule multipleOf", None),
        ({"name": "", "map": {"CANARY": "x"}}, "map.CANARY has the wrong type", "map.* has the wrong type"),
        ({"name": "", "map": {"a\nb": "x"}}, "map.a?b has the wrong type", "map.* has the wrong type"),
        ({"name": "", "list": ["CANARY", "CANARY"]}, "list breaks the rule uniqueItems", None),
        ({"name": "", "list": ["a", 77777]}, "list[1] has the wrong type", "list[] has the wrong type"),
        ({"name": "", "either": ["CANARY"]}, "either breaks the rule anyOf", None),
        ({}, "name is missing", "the input: name is missing"),
        ({"name": "", "CANARY": 1}, "CANARY is not a field of this tool", UNKNOWN),
    ],
)  # fmt: skip
def test_a_fault_names_the_field_and_the_rule_and_a_record_holds_the_schema_s_words_alone(
    instance: dict[str, object], told: str, recorded: str | None
) -> None:
    tool = made(SHAPE)
    assert tool.input_fault(instance) == told
    assert tool.input_rule(instance) == (recorded or told)


_KEYS = st.text(min_size=1, max_size=400).map(lambda text: f"CANARY{text}")
_VALUES = st.recursive(
    st.just("CANARY") | st.integers(70_000, 79_999) | st.none() | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*SHAPE["properties"]]) | _KEYS, inner, max_size=3)
    ),  # type: ignore[misc]
    max_leaves=6,
)


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from([*SHAPE["properties"]]), _VALUES, max_size=4))  # type: ignore[misc]
def test_no_value_is_ever_told_and_what_is_told_is_short_and_on_one_line(instance: dict[str, object]) -> None:
    tool = made(SHAPE)
    fault = tool.input_fault(instance)
    if fault is not None:
        assert len(fault) < 400
        assert not any(ord(letter) < 32 or letter in "\u2028\u2029" for letter in fault)
        for text in (tool.input_rule(instance), tool.output_fault(instance) or ""):
            assert "CANARY" not in text
            assert not any(f"7{digit}" in text for digit in range(10))
        json.dumps(fault)
