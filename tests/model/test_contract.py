"""A compiled contract: its faults name fields and rules, never a value, and nothing outside is fetched."""

import pytest

from reconciler.model.contract import Tool


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
    assert tool.output_fault({"pages": [{"CANARY": 1}]}) == "pages[] has a field that is not in the schema"
    assert tool.output_fault({"CANARY": 1}) == "the answer has a field that is not in the schema"
    assert tool.output_fault({"pages": "CANARY"}) == "pages has the wrong type"
    assert tool.output_fault({"pages": []}) is None
