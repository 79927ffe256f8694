"""Asks a SearXNG instance: the tool of the web-search interface over its JSON format."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import results
from handler_connector import Failure, Unanswered, ask, serve

if TYPE_CHECKING:
    from handler_connector import Call

_MOST_RESULTS = 10  # where the caller says nothing
_TIMEOUT_S = 20  # an instance waits for its engines; the call has 30
_WORDS = {
    401: "the server in front of the instance asks for another token (HTTP 401)",
    403: "the instance refuses: search.formats of its settings lacks json, or its limiter is on (HTTP 403)",
    429: "the instance takes no more searches now (HTTP 429)",
}


def search(arguments: Mapping[str, Any], call: Call) -> dict[str, Any]:
    """``web_search_query``: the instance's results, in its order."""
    query = arguments["query"]
    if not results.has_words(query):
        raise Failure("unsupported_query", "no letters and no digits")
    words = {
        "q": query,
        "format": "json",
        "language": os.environ.get("SEARXNG_LANGUAGE") or "all",
        "categories": os.environ.get("SEARXNG_CATEGORIES") or "general",
        "safesearch": os.environ.get("SEARXNG_SAFE_SEARCH") or "1",
    }
    url = f"{os.environ['SEARXNG_SERVER'].rstrip('/')}/search?{urlencode(words)}"
    try:
        answer = ask(url, timeout_s=_TIMEOUT_S)
    except Unanswered as fault:
        raise Failure("unavailable", _WORDS.get(fault.status, str(fault))) from fault
    found = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(found, list):
        raise Failure("unavailable", "the answer is not SearXNG's")
    rows = (
        (one.get("title"), one.get("url"), one.get("content"), one.get("publishedDate"))
        for one in found
        if isinstance(one, dict)
    )
    return {"results": results.results(rows, arguments.get("maxResults", _MOST_RESULTS))}


if __name__ == "__main__":
    serve({"web_search_query": search})
