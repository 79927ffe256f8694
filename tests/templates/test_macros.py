"""Macros are expanded once, and what they put in is data."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.templates import macros, rendering
from reconciler.templates.macros import Field, Known, MacroError

EVIL = '{{ upper "x" }}{{env "HOME"}}{{.x}}{{edge_count:a->b}}"`\\'


def _known(**variables: str) -> Known:
    return Known(
        variables,
        "triage",
        datetime(2026, 7, 4, 15, 4, 5, tzinfo=UTC),
        "linux",
        "amd64",
        {"fs": ("list_dir", "read_file"), "ocr": ("extract",)},
    )


def _plain(text: str, field: Field = Field.SYSTEM, **variables: str) -> str:
    return macros.expanded(text, _known(**variables), field).text({"a->b": 3})


def _template(text: str, data: object, **variables: str) -> str:
    source, bound = macros.expanded(text, _known(**variables), Field.TEMPLATE).template({"a->b": 3})
    return rendering.rendered(rendering.parsed(source, frozenset(bound)), data, bound=bound)


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("{{var:model}}", "m"),
        ("{{var: model }}", "m"),
        ("{{var:a-b}}", "twin"),  # C39
        ("{{var:none|}}x", "x"),  # C38
        ("{{var:none|some text}}", "some text"),
        ("{{var:empty|else}}", "else"),
        ("{{var:none|var:model}}", "m"),
        ("{{date}}|{{date:Jan 2, 2006}}", "2026-07-04|Jul 4, 2026"),
        ("{{now}}", "2026-07-04"),  # of a system instruction: the day alone
        ("{{now:15:04 MST}}", "15:04 UTC"),
        (
            "{{chain:id}} {{host:os}} {{host:arch}} {{host}}",
            'triage linux amd64 {"arch":"amd64","os":"linux"}',
        ),
        ("{{toolservice:list}}", '{"fs":["list_dir","read_file"],"ocr":["extract"]}'),
        ("{{tools}}", '{"fs":["list_dir","read_file"],"ocr":["extract"]}'),
        ("{{toolservice:tools}}", '["fs","ocr"]'),
        ("{{toolservice:tools fs}} {{toolservice:tools web}}", '["list_dir","read_file"] []'),
        ("used {{edge_count:a->b}} of {{edge_count:a->c}}", "used 3 of 0"),  # C41
        ("{{foo}} {{foo:bar}} {{host:cpu}} {{chain:x}} {{ now }} {{.x}}", None),  # C40: nothing of ours
    ],
)
def test_a_macro_becomes_what_it_names(text: str, becomes: str | None) -> None:
    variables = {"model": "m", "a_b": "twin", "empty": ""}
    assert _plain(text, Field.SYSTEM, **variables) == (text if becomes is None else becomes)


@pytest.mark.parametrize("text", ["{{var:x}}", "{{var:empty}}", "{{var:x|var:y}}", "{{var:}}", "{{var:|a}}"])
def test_a_variable_that_is_missing_or_empty_is_an_error(text: str) -> None:
    with pytest.raises(MacroError, match=r"not set|names no variable"):
        _plain(text, empty="")


def test_names_of_models_have_no_counters() -> None:
    assert _plain("{{var:m}}{{edge_count:a->b}}", Field.NAME, m="x") == "x{{edge_count:a->b}}"


def test_now_is_the_whole_moment_outside_a_system_instruction() -> None:
    assert _template("{{now}}", {}) == "2026-07-04T15:04:05Z"


@pytest.mark.parametrize(
    "text",
    [
        "Say {{var:v}}",  # A16, C43
        '{{ print "Say " {{var:v}} }}',
        '{{ print "Say {{var:v}}" }}',
        "{{ if true }}Say {{var:v}}{{ end }}",
        '{{ "Say " }}{{- /* {{var:nobody}} */ -}}{{var:v}}',
        "{{ 'S' | printf \"%c\" }}ay {{var:v}}",
    ],
)
def test_a_value_in_a_template_is_data_wherever_it_stands(text: str) -> None:
    assert _template(text, {"x": "no"}, v=EVIL) == f"Say {EVIL}"


@given(st.text(), st.sampled_from(["{{var:v}}", "{{print {{var:v}}}}", '{{print "{{var:v}}"}}']))
def test_any_value_comes_out_as_it_went_in(value: str, text: str) -> None:
    if value:
        assert _template(text, {}, v=value) == value


def test_a_backquote_cannot_stand_between_backquotes() -> None:
    assert _template("{{ print `a {{var:v}}` }}", {}, v='b"c') == 'a b"c'
    with pytest.raises(MacroError, match="backquote"):
        _template("{{ print `a {{var:v}}` }}", {}, v="b`c")


def test_nothing_that_came_from_data_is_expanded_again() -> None:
    said = "{{var:model}} {{.x}} {{edge_count:a->b}}"
    assert _template("{{.input}}", {"input": said}) == said  # E16
    assert _plain("{{var:v}}", v=said) == said


def test_what_looks_like_a_macro_is_found_before_a_run() -> None:
    text = "a {{var:x}} {{edge_count:a->b}} {{list}}"
    assert [(one.name, one.payload, one.at) for one in macros.found(text)] == [
        ("var", "x", 2),
        ("edge_count", "a->b", 12),
        ("list", None, 32),
    ]
