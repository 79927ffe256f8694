"""What a file says as a page: its title, its text, the address and the day that it gives for itself.

Pure: bytes in, ``Page`` out; None for what is no text. Nothing of a page is obeyed: scripts, styles and
templates are left out, an address counts only where it is a plain http(s) one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html.parser import HTMLParser

SUFFIXES = {
    ".md": "text", ".markdown": "text", ".rst": "text", ".txt": "text", ".text": "text",
    ".html": "html", ".htm": "html", ".xhtml": "html",
}  # fmt: skip
_SILENT = ("script", "style", "template", "noscript", "head", "svg")
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
    reader = _Reader()
    reader.feed(text)
    reader.close()
    title = _one_line(reader.title) or _one_line(reader.heading) or stem
    address = reader.address if _ADDRESS.fullmatch(reader.address) else ""
    return Page(title, "".join(reader.parts), address, _day(reader.published))


class _Reader(HTMLParser):
    """The words that a person would see; broken markup gives what there is."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title = self.heading = self.address = self.published = ""
        self.parts: list[str] = []
        self._silent: list[str] = []
        self._into = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        if tag == "title" or (tag == "h1" and not self.heading):
            self._into = "title" if tag == "title" else "heading"
        elif tag == "body":
            self._silent.clear()
        elif tag == "link" and "canonical" in given.get("rel", "").split():
            self.address = given.get("href", "")
        elif tag == "meta" and given.get("property") == "article:published_time":
            self.published = given.get("content", "")
        elif tag in _SILENT:
            self._silent.append(tag)
        if tag in _BREAKS:
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("title", "h1"):
            self._into = ""
        elif tag in self._silent:
            del self._silent[self._silent.index(tag) :]
        if tag in _BREAKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if self._into == "title":
            self.title += data
            return
        if self._into == "heading":
            self.heading += data
        if not self._silent:
            self.parts.append(data)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _day(text: str) -> str:
    found = _DAY.match(text)
    return found[0] if found else ""
