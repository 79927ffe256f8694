"""What a person hears beside a closed error: of their own files, of a pattern, of a word that is no input."""

from pathlib import Path
from typing import Any

from reconciler.doors import remarks

_LANGUAGE = {"type": "string", "pattern": "^[a-z]{3}$"}
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["path"],
    "properties": {
        "path": {"type": "string", "format": "handler-file"},
        "more": {"type": "array", "items": {"$ref": "#/$defs/file"}},
        "out": {"type": "string", "format": "handler-output-file"},
        "languages": {"type": "array", "items": _LANGUAGE},
        "page": {"type": "object", "properties": {"name": _LANGUAGE}},
    },
    "$defs": {"file": {"type": "string", "format": "handler-file"}},
}
_REFUSED = {"error": "refused", "message": "the file cannot be used"}


def test_of_a_refused_file_it_is_told_what_is_wrong_with_it(tmp_path: Path) -> None:
    good = tmp_path / "good"
    good.touch()
    values = {
        "path": f"{tmp_path}/gone",
        "more": [str(good), str(tmp_path), "relative", "/dev/null"],
        "out": str(good),
        "languages": ["/no/such/file"],
    }
    assert remarks.files(values, _SCHEMA) == [
        f"path: there is no file {tmp_path}/gone",
        f"more[1]: {tmp_path} is a folder",
        "more[3]: /dev/null is no plain file",
        f"out: {good} is there already",
    ]
    assert remarks.files({"out": f"{tmp_path}/no/new"}, _SCHEMA) == [f"out: there is no folder {tmp_path}/no"]
    assert remarks.files({"path": str(good), "out": f"{tmp_path}/new"}, _SCHEMA) == []


def test_what_a_scope_has_to_do_with_it_is_told_where_there_is_one() -> None:
    values = {"path": "/no/such/file"}
    wrong = "handler: path: there is no file /no/such/file\n"
    assert remarks.told(_REFUSED, values, _SCHEMA, scoped=False) == wrong
    assert remarks.told(_REFUSED, values, _SCHEMA, scoped=True).startswith(f"{wrong}Files are taken from")
    for files in ({"path": "a"}, {"more": ["a"]}, {"out": "a"}):
        assert remarks.told(_REFUSED, files, _SCHEMA, scoped=True).startswith("Files are taken from")
    text = {"path": {"type": "string"}}
    assert remarks.told(_REFUSED, {"path": "a"}, {"properties": text}, scoped=True).startswith(
        "Files are taken"
    )
    assert remarks.told(_REFUSED, {"languages": ["deu"]}, _SCHEMA, scoped=True) == ""  # no file was meant


def test_the_pattern_that_is_not_matched_is_told() -> None:
    for field in ("languages[2]", "page.name"):
        error = {
            "error": "invalid_input",
            "message": f"the input is not valid: {field} does not match the pattern",
        }
        told = remarks.told(error, {}, _SCHEMA, scoped=True)
        assert told == f"handler: {field} must match ^[a-z]{{3}}$\n"
    for message in ("the input is not valid: x..y does not match the pattern", "path is missing", ""):
        assert remarks.told({"error": "invalid_input", "message": message}, {}, _SCHEMA, scoped=True) == ""


def test_a_bare_word_is_taken_for_the_one_input_that_is_needed() -> None:
    assert remarks.bare("a.pdf", _SCHEMA) == "'a.pdf' is no input: write path=a.pdf"
    assert remarks.bare("a", {"properties": {"text": {}}}) == "'a' is no input: write text=a"
    both = {**_SCHEMA, "required": ["path", "out"]}
    assert remarks.bare("a.pdf", both) == "'a.pdf' is no input: write KEY=VALUE"
