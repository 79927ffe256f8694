"""What a file says as a page: its title, its text, the address and the day that it gives for itself.

Pure: bytes in, ``Page`` out; None for what is no text. Nothing of a page is obeyed: scripts, styles and
templates are left out, an address counts only where it is a plain http(s) one. Whatever the markup is, it is
read once from start to end: ``html.parser`` takes minutes for some files, and raises for others.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

SUFFIXES = {
    ".md": "text", ".markdown": "text", ".rst": "text", ".txt": "text", ".text": "text",
    ".html": "html", ".htm": "html", ".xhtml": "html",
}  # fmt: skip
_BREAKS = (
    "p",
    "div",
    "li",
    "tr",
    "br",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "section",
    "article",
    "table",
    "pre",
)
_ADDRESS = re.compile(r"https?://[!-~]{1,1990}")
_DAY = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])")
_FRONT = re.compile(r"\A---[ \t]*\n(.*?)\n---[ \t]*(?:\n|\Z)", re.DOTALL)
_KEY = re.compile(r"^(title|date):[ \t]*(.+?)[ \t]*$", re.MULTILINE)
_MOST_FRONT = 8192  # characters of a file's head that can be front matter
_HEADING_MARKS = "#=*-~ \t"
_LONGEST_TITLE = 300  # characters: it stands beside each passage
_UNSEEN = re.compile(  # control characters, and what turns a line round or hides in it
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)
# What an unclosed comment, script or declaration begins goes to the end of the file, as in a browser.
_MARKUP = re.compile(
    r"""<!--.*?(?:-->|\Z)
    | <(?P<raw>script|style|template|noscript|svg|textarea|title)(?=[\s/>])[^<>]*(?<!/)>
      (?P<inside>.*?)(?:</(?P=raw)(?=[\s/>])[^>]*(?:>|\Z)|\Z)
    | <(?P<end>/?)(?P<tag>[a-z][a-z0-9:-]*+)
      (?P<said>(?:[^<>"']++|"[^"]{0,4000}+"|'[^']{0,4000}+'){0,400}+)>
    | </?[a-z][^<>]*(?:>|\Z)
    | <[!?/][^>]*(?:>|\Z)""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_ATTRIBUTE = re.compile(r"""([a-z:-]{1,40})\s*+=\s*+(?:"([^"]*)"|'([^']*)'|([^\s"'<>]+))""", re.IGNORECASE)
_REFERENCE = re.compile(
    r"&(?:#[0-9]{1,7}(?![0-9]);?|#x[0-9a-f]{1,6}(?![0-9a-f]);?|[a-z][a-z0-9]{1,31};?)", re.IGNORECASE
)
_MOST_SAID = 4000  # characters of a tag that are looked at


@dataclass(frozen=True, slots=True)
class Page:
    """One document; ``address`` and ``published`` are "" where it does not say."""

    title: str
    text: str
    address: str = ""
    published: str = ""


def page(name: str, data: bytes) -> Page | None:
    """A file as a page; None when it is no text. ``name`` is the file's own, without folders."""
    stem, _, suffix = name.rpartition(".")
    text = _decoded(data)
    if text is None:
        return None
    text = _UNSEEN.sub("", text)
    return _of_html(text, stem) if SUFFIXES.get(f".{suffix.lower()}") == "html" else _of_text(text, stem)


def _decoded(data: bytes) -> str | None:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    if b"\0" in data:
        return None
    return data.decode("utf-8-sig", "replace").replace("\r\n", "\n")


def _of_text(text: str, stem: str) -> Page:
    said: dict[str, str] = {}
    front = _FRONT.match(text[:_MOST_FRONT])
    if front is not None:
        said = {key: value.strip("'\"") for key, value in _KEY.findall(front[1])}
        text = text[front.end() :]
    lines = (line.strip(_HEADING_MARKS) for line in text.split("\n", 40)[:40])
    title = said.get("title") or next((line for line in lines if line), "")
    return Page(_one_line(title) or stem, text, published=_day(said.get("date", "")))


def _of_html(text: str, stem: str) -> Page:
    seen = _Seen()
    at = 0
    for found in _MARKUP.finditer(text):
        seen.words(text[at : found.start()])
        seen.markup(found)
        at = found.end()
    seen.words(text[at:])
    title = _one_line(seen.title) or _one_line(seen.heading) or stem
    address = seen.address if _ADDRESS.fullmatch(seen.address) else ""
    return Page(title, "".join(seen.parts), address, _day(seen.published))


class _Seen:
    """The words that a person would see; broken markup gives what there is."""

    def __init__(self) -> None:
        self.title = self.heading = self.address = self.published = ""
        self.parts: list[str] = []
        self._in_head = self._in_heading = False

    def words(self, text: str) -> None:
        """Text between markup."""
        if text and not self._in_head:
            plain = _unescaped(text)
            self.parts.append(plain)
            if self._in_heading and len(self.heading) <= _LONGEST_TITLE:
                self.heading += plain

    def markup(self, found: re.Match[str]) -> None:
        """One comment, element or tag."""
        raw, tag = (found["raw"] or "").lower(), (found["tag"] or "").lower()
        if raw == "title":
            self.title = self.title or _unescaped(found["inside"])
        elif raw == "textarea":
            self.words(found["inside"])
        elif tag:
            self._tag(tag, found["said"][:_MOST_SAID], closed=bool(found["end"]))

    def _tag(self, tag: str, said: str, *, closed: bool) -> None:
        if tag in _BREAKS:
            self.parts.append("\n")
        if tag == "head":
            self._in_head = not closed
        elif tag == "body":
            self._in_head = False
        elif tag == "h1":
            self._in_heading = not closed and not self.heading
        elif tag in ("link", "meta") and not closed:
            self._about(tag, said)

    def _about(self, tag: str, said: str) -> None:
        """What a page says of itself in an empty element."""
        given = {
            found[1].lower(): _unescaped(found[2] or found[3] or found[4] or "")
            for found in _ATTRIBUTE.finditer(said)
        }
        if tag == "link" and "canonical" in given.get("rel", "").lower().split():
            self.address = given.get("href", "")
        elif tag == "meta" and given.get("property") == "article:published_time":
            self.published = given.get("content", "")


def _unescaped(text: str) -> str:
    """With its character references read; one of thousands of digits, at which Python raises, stays."""
    return _REFERENCE.sub(lambda found: html.unescape(found[0]), text)


def _one_line(text: str) -> str:
    return " ".join(text[: 8 * _LONGEST_TITLE].split())[:_LONGEST_TITLE].strip()


def _day(text: str) -> str:
    found = _DAY.match(text)
    return found[0] if found else ""
