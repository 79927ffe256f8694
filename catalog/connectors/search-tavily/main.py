"""Asks Tavily: the tool of the web-search interface over its API, one request a call."""

from __future__ import annotations

import os
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import results
from handler_connector import Failure, Unanswered, ask, serve

if TYPE_CHECKING:
    from handler_connector import Call

ORIGIN = "https://api.tavily.com"
_MOST_RESULTS = 10  # where the caller says nothing
_TIMEOUT_S = 20
_WORDS = {
    400: "a value is not taken (HTTP 400)",
    401: "the key is not taken (HTTP 401)",
    429: "too many searches at once (HTTP 429)",
    432: "the plan's credits are used up (HTTP 432)",
    433: "the limit of pay-as-you-go is reached (HTTP 433)",
}


def search(arguments: Mapping[str, Any], call: Call) -> dict[str, Any]:
    """``web_search_query``: Tavily's results, in its order."""
    query = arguments["query"].strip()
    if not results.has_words(query):
        raise Failure("unsupported_query", "no letters and no digits")
    most = arguments.get("maxResults", _MOST_RESULTS)
    body = {
        "query": query,
        "max_results": most,
        "search_depth": os.environ.get("TAVILY_DEPTH") or "basic",
        "topic": os.environ.get("TAVILY_TOPIC") or "general",
        "include_answer": False,
        "include_images": False,
    }
    try:
        answer = ask(f"{ORIGIN}/search", body, timeout_s=_TIMEOUT_S)
    except Unanswered as fault:
        raise Failure("unavailable", _WORDS.get(fault.status, str(fault))) from fault
    found = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(found, list):
        raise Failure("unavailable", "the answer is not Tavily's")
    rows = (
        (one.get("title"), one.get("url"), one.get("content"), _day(one.get("published_date")))
        for one in found
        if isinstance(one, dict)
    )
    return {"results": results.results(rows, most)}


def _day(text: Any) -> str:
    """A day as it is written in mail, or as ISO 8601 has it; "" for neither."""
    if not isinstance(text, str):
        return ""
    try:
        return parsedate_to_datetime(text).date().isoformat()
    except (
        ValueError,
        OverflowError,
        TypeError,
        IndexError,
    ):  # what the parser meets in words that are no day
        return text


if __name__ == "__main__":
    serve({"web_search_query": search})
