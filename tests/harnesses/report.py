"""What the runs of the harnesses come to, written for people: tables and exact texts."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.harnesses.ways import Way

_ERRORS = ("unsupported_format", "too_large", "unavailable", "refused", "invalid_input")
_BEGIN, _END = "<!-- harnesses: written by make flows-harness -->\n", "<!-- end of harnesses -->\n"
_VOLATILE = (
    (re.compile(r"Wall time: [0-9.]+ seconds"), "Wall time: N seconds"),
    (re.compile(r"Duration: [0-9.]+ ?m?s"), "Duration: N s"),
)
_HEAD = """# What a model receives, word for word

Written by `HANDLER_GOLDEN=write make flows-harness`, and compared by `make flows-harness`: each harness ran offline
with a model that reads from a script ([clients](clients.md)). One answer of `ocr_extract`, each closed error of
`ocr/v1`, and the errors that the router itself gives for a path outside the scope and for input that does not fit.
Times are replaced by N.
"""  # noqa: E501 - a page is wider than code
Run = tuple[Way, Any]  # a harness, and the report of its run


def text_of(report: Mapping[str, Any], case: str) -> str:
    """The text that a model received for a case: parts one below the other, nothing added."""
    (value,) = [value for key, value in report["results"][case].items() if key != "is_error"]
    if isinstance(value, dict):  # Gemini's answer of a function
        (value,) = value.values()
    if isinstance(value, list):
        value = "\n".join(part["text"] for part in value)
    assert isinstance(value, str), value
    for pattern, word in _VOLATILE:
        value = pattern.sub(word, value)
    return value


def pages(docs: Path, runs: Sequence[Run]) -> dict[Path, str]:
    """The pages that hold what was seen, by path, each as it should be."""
    clients = docs / "clients.md"
    before, _, rest = clients.read_text().partition(_BEGIN)
    _, _, after = rest.partition(_END)
    assert after, f"{clients} has lost its marks"
    tables = f"{_names(runs)}\n{_ways(runs)}"
    return {clients: f"{before}{_BEGIN}{tables}{_END}{after}", docs / "harness-texts.md": _texts(runs)}


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _names(runs: Sequence[Run]) -> str:
    def row(way: Way, report: Any) -> list[str]:
        tool = report["tool"]
        name = f"`{tool['name']}`" + (f" in the namespace `{tool['space']}`" if tool["space"] else "")
        how = "declared with every request"
        if report["searched"]:
            how = "after a search for it" + (", then in code" if tool["schema"] is None else "")
        told = "yes" if "Services you can call." in report["requests"] else "no"
        return [f"{way.title} {way.version()}", name, how, _kept(tool), told]

    head = (
        "harness",
        "the name that its model knows",
        "its model has the schema",
        "of the schema is left out",
        "its model reads the instructions",
    )
    return _table(head, [row(way, report) for way, report in runs])


def _kept(tool: Mapping[str, Any]) -> str:
    """Which words of the published schema are not in what the model is shown, in any form."""
    text = json.dumps(tool)
    left_out = [word for word in ("handler-file", "^[a-z]{2}$", "additionalProperties") if word not in text]
    names = {"handler-file": "`format`", "^[a-z]{2}$": "`pattern`"}
    return ", ".join(names.get(word, f"`{word}`") for word in left_out) or "nothing"


def _ways(runs: Sequence[Run]) -> str:
    def row(way: Way, report: Any) -> list[str]:
        checks = "the harness, in its own words" if way.own_checks else "Handler"
        return [
            way.title,
            _around(text_of(report, "success"), ""),
            _around(text_of(report, "unavailable"), "unavailable"),
            checks,
            _length(report, "30 kB"),
            _length(report, "200 kB"),
        ]

    head = (
        "harness",
        "an answer arrives",
        "a closed error arrives",
        "input is checked by",
        "of an answer of 34 kB",
        "of one of 227 kB",
    )
    return _table(head, [row(way, report) for way, report in runs])


def _around(text: str, code: str) -> str:
    """What stands around our own text in what a model received."""
    if code:
        start = text.find(f"ocr_extract ended with the error {code}")
        inside = "\\n{" in text or '\\"' in text
        end = text.rfind("}") + 1
    else:
        start, end, inside = text.find('{"pages"'), text.rfind("}") + 1, False
    if inside:
        return "quoted inside a report of the harness"
    before, after = text[:start], text[end:]
    if not before and not after:
        return "as it is"
    shown = (before + "…" + after).replace("\n", " ").replace("|", "\\|")
    return f"as `{shown}`"


def _length(report: Any, case: str) -> str:
    text = text_of(report, case)
    size = 227_000 if case == "200 kB" else 34_000
    if re.search(r"saved to", text, re.IGNORECASE):
        return "an excerpt, and the name of a file with all of it"
    if "The answer is long" in text:
        return "the first 32 KiB, which Handler says"
    return "all" if len(text) > size * 0.9 else f"{len(text) // 1000} kB, cut in the middle"


def _texts(runs: Sequence[Run]) -> str:
    parts = [_HEAD]
    for way, report in runs:
        parts.append(f"\n## {way.title} {way.version()}\n")
        for case in ("success", *_ERRORS):
            parts.append(f"\n{case}\n\n```text\n{text_of(report, case)}\n```\n")
    return "".join(parts)
