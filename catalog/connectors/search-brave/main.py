"""Asks Brave's web search: the tool of the web-search interface over its API, one request a call."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import results
from handler_connector import Failure, Unanswered, ask, serve

if TYPE_CHECKING:
    from handler_connector import Call

ORIGIN = "https://api.search.brave.com"
_MOST_RESULTS = 10  # where the caller says nothing
_MOST_WORDS = 50  # of a query, says Brave
_TIMEOUT_S = 20
_WORDS = {
    401: "the key is not taken (HTTP 401)",
    403: "the key's plan does not hold this (HTTP 403)",
    422: "the key or a value is not taken (HTTP 422)",
    429: "the plan's searches are used up for now (HTTP 429)",
}


def search(arguments: Mapping[str, Any], call: Call) -> dict[str, Any]:
    """``web_search_query``: Brave's web results, in its order."""
    query = " ".join(arguments["query"].split()[:_MOST_WORDS])
    if not results.has_words(query):
        raise Failure("unsupported_query", "no letters and no digits")
    most = arguments.get("maxResults", _MOST_RESULTS)
    words = {
        "q": query,
        "count": most,
        "country": os.environ.get("BRAVE_COUNTRY") or "ALL",
        "safesearch": os.environ.get("BRAVE_SAFE_SEARCH") or "moderate",
        "text_decorations": "false",
        "result_filter": "web",
    }
    url = f"{ORIGIN}/res/v1/web/search?{urlencode(words)}"
    try:
        answer = ask(url, timeout_s=_TIMEOUT_S)
    except Unanswered as fault:
        raise Failure("unavailable", _WORDS.get(fault.status, str(fault))) from fault
    rows = (
        (one.get("title"), one.get("url"), one.get("description"), one.get("page_age"))
        for one in _found(answer)
        if isinstance(one, dict)
    )
    return {"results": results.results(rows, most)}


def _found(answer: Any) -> list[Any]:
    """The web results; an answer without any has no "web" at all."""
    if not isinstance(answer, dict) or answer.get("type") != "search":
        raise Failure("unavailable", "the answer is not Brave's")
    web = answer.get("web")
    found = web.get("results") if isinstance(web, dict) else []
    return found if isinstance(found, list) else []


if __name__ == "__main__":
    serve({"web_search_query": search})
