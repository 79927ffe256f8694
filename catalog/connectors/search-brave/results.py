"""What search engines answer, as web-search/v1 wants it: plain text, plain addresses, each page once."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

_LONGEST_URL, _LONGEST_TITLE, _LONGEST_EXCERPT = 2000, 300, 1000  # what web-search/v1 lets an answer hold
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")
_ADDRESS = re.compile(r"https?://[!-~]+")
_DAY = re.compile(r"([0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01]))(?![0-9])")
_REFERENCE = re.compile(
    r"&(?:#[0-9]{1,7}(?![0-9]);?|#x[0-9a-f]{1,6}(?![0-9a-f]);?|[a-z][a-z0-9]{1,31};?)", re.IGNORECASE
)
_UNSEEN = re.compile(  # control characters, and what turns a line round or hides in it
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)
_MOST_READ = 20_000  # characters of a text that are looked at
_KEPT = (
    "!#$%&'()*+,/:;=?@[]~-._"  # what quoting leaves as it is: an address is quoted already where it must be
)


def has_words(query: str) -> bool:
    """Whether there is a letter or a digit to search for."""
    return any(character.isalnum() for character in query)


def results(found: Iterable[tuple[Any, Any, Any, Any]], most: int) -> list[dict[str, str]]:
    """From (title, address, excerpt, day or time) as an engine has them; what is no page is left out."""
    kept: dict[str, dict[str, str]] = {}
    for title, address, excerpt, published in found:
        url = quote(address.strip(), safe=_KEPT, errors="replace") if isinstance(address, str) else ""
        if len(kept) == most or len(url) > _LONGEST_URL or not _ADDRESS.fullmatch(url) or url in kept:
            continue
        one = kept[url] = {
            "title": _plain(title)[:_LONGEST_TITLE] or url[:_LONGEST_TITLE],
            "url": url,
            "excerpt": _plain(excerpt)[:_LONGEST_EXCERPT],
        }
        if isinstance(published, str) and (day := _DAY.match(published)):
            one["published"] = day[1]
    return list(kept.values())


def _plain(text: Any) -> str:
    """Text without markup and on one line; "" for what is none."""
    if not isinstance(text, str):
        return ""
    # A reference of thousands of digits, at which Python raises, stays as it is.
    whole = _REFERENCE.sub(lambda found: html.unescape(found[0]), _TAG.sub("", text[:_MOST_READ]))
    return " ".join(_UNSEEN.sub("", whole).split()).encode("utf-8", "replace").decode()
