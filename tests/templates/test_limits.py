"""Every rendering ends, holds no more than it may, sees nothing but its data and changes none of it."""

import copy
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.templates import golang, rendering, sprig
from reconciler.templates.lexing import TemplateError
from reconciler.templates.rendering import Budget


def _rendered(source: str, data: object = None, **options: object) -> str:
    return rendering.rendered(rendering.parsed(source), data, **options)  # type: ignore[arg-type]


FANNED = """{{ define "a" }}{{ template "b" . }}{{ template "b" . }}{{ end }}
{{ define "b" }}{{ range until 1000 }}{{ range until 1000 }}{{ end }}{{ end }}{{ end }}{{ template "a" . }}"""
DOUBLED = '{{ $x := "ab" }}{{ range until 60 }}{{ $x = %s }}{{ end }}{{ %s }}'


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [
        "{{ range until 1000000000 }}x{{ end }}",
        '{{ regexFindAll "a{1,900}" (repeat 100000 "a") -1 }}',
        '{{ regexReplaceAll "a{1,900}" (repeat 100000 "a") "b" }}',
        "{{ range 1000000000 }}{{ end }}",
        "{{ range 100000 }}{{ range 100000 }}{{ end }}{{ end }}",
        '{{ repeat 1000000000 "x" }}',
        '{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}',
        FANNED,
        DOUBLED % ("print $x $x", "$x"),
        DOUBLED % ("list $x $x", "$x"),
        DOUBLED % ("list $x $x", "$x | toJson"),
        DOUBLED % ("list $x $x", 'printf "%q" $x'),
        DOUBLED % ("list $x $x", "deepCopy $x"),
        DOUBLED % ("list $x $x", "deepEqual $x (deepCopy $x)"),
        DOUBLED % ("list $x $x", "deepEqual $x $x"),
        DOUBLED % ('replace "a" "aaaaaaaaaaaaaaaa" $x', "$x"),
        DOUBLED % ("concat (list $x) (list $x) $x", "$x"),
        "{{ $x := list }}{{ range until 5000 }}{{ $x = list $x }}{{ end }}{{ $x }}",
        '{{ $x := list }}{{ range until 5000 }}{{ $x = list $x }}{{ end }}{{ printf "%d" $x }}',
        '{{ $d := dict }}{{ $_ := set $d "x" $d }}{{ $d }}',
        '{{ $d := dict }}{{ $_ := set $d "x" (list (dict "y" $d)) }}{{ $d }}',
        '{{ $d := dict }}{{ $e := dict "d" $d }}{{ $_ := merge $d $e }}{{ $d }}',
        "{{ untilStep 0 1000000000 1 }}",
        "{{ seq 1000000000 }}",
        '{{ printf "%1000000000d" 1 }}',
        '{{ printf "%.1000000000f" 1.0 }}',
        '{{ printf "%*d" 1000000000 1 }}',
        '{{ indent 1000000 "a\\nb\\nc" }}',
        '{{ wrapWith 1 (repeat 100000 "x") (repeat 100000 "y ") }}',
        '{{ join (repeat 100000 "x") (until 1000) }}',
        "{{ uniq (until 5000) }}",
        "{{ range until 100000 }}{{ $x := uniq (until 900) }}{{ end }}",
        "{{ range until 100000 }}{{ $x := has 1000 (until 900) }}{{ end }}",
        "{{ $x := chunk 10 (until 50000) }}{{ range until 100000 }}{{ $y := deepEqual $x $x }}{{ end }}",
        "{{ $x := chunk 10 (until 50000) }}{{ range until 100000 }}{{ $y := deepCopy $x }}{{ end }}",
        "{{ $x := until 100000 }}{{ range until 100000 }}{{ range $x }}{{ break }}{{ end }}{{ end }}",
        "{{ fromJson (repeat 100000 `[`) | toJson | fail }}",
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "{{ if true }}" * 5000 + "{{ end }}" * 5000,
        "{{ if true }}" + "{{ else if true }}" * 5000 + "{{ end }}",
        "x" * (2 << 20),
    ],
)
def test_a_template_that_wants_too_much_is_stopped(source: str) -> None:
    with pytest.raises(TemplateError):
        _rendered(
            source, budget=Budget(steps=50_000)
        )  # a quarter of the usual: it ends as surely, and sooner


def test_a_hostile_pattern_takes_no_time() -> None:
    assert _rendered('{{ regexMatch "(a+)+$" (print (repeat 100000 "a") "b") }}') == "false"
    assert _rendered('{{ regexReplaceAll "(a|aa)+$" (print (repeat 10000 "a") "b") "" | len }}') == "10001"


def test_a_pattern_that_is_too_large_is_refused() -> None:
    with pytest.raises(TemplateError, match="regular expression"):
        _rendered('{{ regexMatch "((a{100}){100}){100}" "a" }}')


def test_budgets_are_the_callers() -> None:
    assert _rendered("{{ range until 10 }}x{{ end }}", budget=Budget(characters=10)) == "x" * 10
    with pytest.raises(TemplateError, match="longer than 9 characters"):
        _rendered("{{ range until 10 }}x{{ end }}", budget=Budget(characters=9))
    with pytest.raises(TemplateError, match="more than 9 steps"):
        _rendered("{{ range until 10 }}x{{ end }}", budget=Budget(steps=9))


@pytest.mark.parametrize(
    "name",
    [
        *(
            "env",
            "expandenv",
            "getHostByName",
            "randAlpha",
            "randAlphaNum",
            "randNumeric",
            "randAscii",
            "randInt",
        ),
        *("randBytes", "shuffle", "uuidv4", "genPrivateKey", "genCA", "genSelfSignedCert", "genSignedCert"),
        *(
            "buildCustomCert",
            "derivePassword",
            "htpasswd",
            "bcrypt",
            "encryptAES",
            "decryptAES",
            "lookup",
            "include",
        ),
        *("tpl", "getHostByName", "readFile", "exec", "__class__", "call.__class__"),
    ],
)
def test_what_reaches_outside_is_no_function(name: str) -> None:
    with pytest.raises(TemplateError):
        _rendered("{{ " + name + ' "HOME" }}')


def test_a_clock_is_there_only_when_it_is_handed_in() -> None:
    now = datetime(2026, 7, 4, tzinfo=UTC)
    assert _rendered('{{ now | date "2006" }}', now=now) == "2026"
    assert _rendered('{{ ago (toDate "2006-01-02" "2026-07-03") }}', now=now) == "24h0m0s"
    with pytest.raises(TemplateError, match="there is no clock here"):
        _rendered("{{ now }}")


@pytest.mark.parametrize("field", ["__class__", "keys", "__dict__", "items", "fields"])
def test_a_field_is_a_key_and_never_an_attribute(field: str) -> None:
    assert _rendered("{{ ." + field + " }}", {}) == "<no value>"
    with pytest.raises(TemplateError, match="there is no field"):
        _rendered("{{ .x." + field + " }}", {"x": "text"})


@pytest.mark.parametrize(
    "source",
    [
        '{{ $_ := set .m "x" 1 }}',
        '{{ $_ := unset .m "a" }}',
        '{{ $_ := merge .m (dict "x" 1) }}',
        '{{ $_ := mergeOverwrite .m (dict "a" 9) }}',
    ],
)
def test_what_belongs_to_the_run_is_not_changed(source: str) -> None:
    data = {"m": {"a": 1}}
    with pytest.raises(TemplateError, match="belongs to the run"):
        _rendered(source, data)
    assert data == {"m": {"a": 1}}


def test_a_copy_may_be_changed_and_leaves_the_first_as_it_was() -> None:
    data = {"m": {"a": {"b": 1}}}
    source = '{{ $c := deepCopy .m }}{{ $_ := mergeOverwrite $c (dict "a" (dict "b" 2)) }}{{ $c }} {{ .m }}'
    assert _rendered(source, data) == "map[a:map[b:2]] map[a:map[b:1]]"


_FUNCTIONS = sorted({**golang.FUNCTIONS, **sprig.FUNCTIONS})
_ARGUMENTS = st.sampled_from(
    [
        "1",
        "-1",
        "2.5",
        '"ab c"',
        '""',
        "nil",
        "true",
        ".list",
        ".map",
        ".text",
        ".none",
        ".missing",
        "(list 1 2)",
    ]
)
_DATA = {
    "list": ["a", 1, None, {"k": [1]}],
    "map": {"a": 1, "b": {"c": 2}},
    "text": "é漢 x_y\ud800",
    "none": None,
}


@given(st.sampled_from(_FUNCTIONS), st.lists(_ARGUMENTS, max_size=4))
def test_no_function_breaks_or_changes_what_it_is_given(name: str, arguments: list[str]) -> None:
    data = copy.deepcopy(_DATA)
    try:
        _rendered("{{ " + " ".join([name, *arguments]) + " }}", data)
    except TemplateError as refused:
        assert refused.line == 1
    assert data == _DATA


@given(st.text("{}-$.|()\"'`=:,/*\\ \n\trangeifdwthlsx1e0_", max_size=80))
def test_no_source_breaks_the_reader(source: str) -> None:
    try:
        _rendered("{{" + source + "}}", _DATA)
    except TemplateError as refused:
        assert 1 <= refused.line <= source.count("\n") + 1


def test_a_fault_says_its_line() -> None:
    with pytest.raises(TemplateError, match=r"^line 3: trunc takes a text, not int") as refused:
        _rendered('a\n{{ "x" }}\n{{ trunc 1 2 }}')
    assert refused.value.line == 3
