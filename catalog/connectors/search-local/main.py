"""Searches one folder of documents: the tool of the web-search interface over ``index``.

The index is made with the first search and looked after by every later one; ``pages`` says what a file's
title and text are.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import index
from handler_connector import Failure, serve

if TYPE_CHECKING:
    from handler_connector import Call

_MOST_RESULTS = 10  # where the caller says nothing
_LONGEST_URL, _LONGEST_TITLE, _LONGEST_EXCERPT = 2000, 300, 1000  # what web-search/v1 lets an answer hold


def search(arguments: Mapping[str, Any], call: Call) -> dict[str, Any]:
    """``web_search_query``: the documents that fit best, each once."""
    words = index.words(arguments["query"])
    if not words:
        raise Failure("unsupported_query", "no letters and no digits")
    try:
        found = _index().search(words, arguments.get("maxResults", _MOST_RESULTS), call.cancelled.is_set)
    except index.StoppedError:
        raise Failure("unavailable", "cancelled") from None
    except index.UnreadableError as fault:
        raise Failure("unavailable", str(fault)) from fault
    results = [_result(one) for one in found]
    return {"results": [one for one in results if len(one["url"]) <= _LONGEST_URL]}


def _index() -> index.Index:
    if not _made:
        _made.append(
            index.Index(
                os.environ["SEARCH_DOCUMENTS"],
                rescan_s=float(os.environ.get("SEARCH_RESCAN_SECONDS") or 10),
                most=int(os.environ.get("SEARCH_MAX_DOCUMENTS") or 20_000),
            )
        )
    return _made[0]


_made: list[index.Index] = []


def _result(found: index.Found) -> dict[str, Any]:
    prefix = os.environ.get("SEARCH_ADDRESS_PREFIX") or "document:"
    url = found.page.address or prefix + quote(found.path)
    result = {
        "title": found.page.title[:_LONGEST_TITLE],
        "url": url,
        "excerpt": found.excerpt[:_LONGEST_EXCERPT],
    }
    if found.page.published:
        result["published"] = found.page.published
    return result


if __name__ == "__main__":
    serve({"web_search_query": search})
