"""One page through Tesseract: which language files to read by, and its table of words as lines with boxes.

Tesseract is asked for TSV, one row a word with its place, so text and boxes come from one reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any

import documents
import programs

# ISO 639-1 to the names of Tesseract's language files; of several, those that are there are read.
_TABLE = """
af=afr am=amh ar=ara as=asm az=aze be=bel bg=bul bn=ben bo=bod br=bre bs=bos ca=cat co=cos cs=ces cy=cym
da=dan de=deu dv=div dz=dzo el=ell en=eng eo=epo es=spa et=est eu=eus fa=fas fi=fin fo=fao fr=fra fy=fry
ga=gle gd=gla gl=glg gu=guj he=heb hi=hin hr=hrv ht=hat hu=hun hy=hye id=ind is=isl it=ita iu=iku ja=jpn
jv=jav ka=kat kk=kaz km=khm kn=kan ko=kor ku=kmr ky=kir la=lat lb=ltz lo=lao lt=lit lv=lav mi=mri mk=mkd
ml=mal mn=mon mr=mar ms=msa mt=mlt my=mya nb=nor ne=nep nl=nld nn=nor no=nor oc=oci or=ori pa=pan pl=pol
ps=pus pt=por qu=que ro=ron ru=rus sa=san sd=snd si=sin sk=slk sl=slv sq=sqi sr=srp,srp_latn su=sun sv=swe
sw=swa ta=tam te=tel tg=tgk th=tha ti=tir tl=fil to=ton tr=tur tt=tat ug=uig uk=ukr ur=urd uz=uzb vi=vie
yi=yid yo=yor zh=chi_sim,chi_tra
"""
_FILES = dict(pair.split("=") for pair in _TABLE.split())
_LEVEL, _BLOCK, _PARAGRAPH, _LINE = 0, 2, 3, 4
_LEFT, _TOP, _WIDTH, _HEIGHT, _CONFIDENCE, _TEXT = 6, 7, 8, 9, 10, 11
_PAGE_LEVEL, _WORD_LEVEL = "1", "5"


class LanguageError(Exception):
    """None of the languages asked for has its file here."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page as it was read: lines in reading order, and each line with its box."""

    text: str
    blocks: tuple[dict[str, Any], ...]


def languages(codes: Sequence[str]) -> str:
    """Tesseract's language argument for two-letter codes: those that are here, in the order given.

    What is missing is left out as long as one is there, since the scripts of one document are mostly one;
    raises LanguageError when none is, naming the package that has it.
    """
    here = _installed()
    wanted = [file for code in codes for file in _FILES.get(code, "").split(",") if file]
    found = [file for file in dict.fromkeys(wanted) if file in here]
    if not found:
        missing = ", ".join(f"tesseract-ocr-{file.replace('_', '-')}" for file in wanted) or "no package"
        raise LanguageError(f"no language file for {', '.join(codes)}: {missing} would bring it")
    return "+".join(found)


def read_picture(path: str, languages: str, stopped: Callable[[], bool]) -> list[Page]:
    """Every page of a picture file; raises documents.UnreadableError when it cannot be unpacked."""
    try:
        return _pages(programs.run(_argv(path, languages), stopped))
    except programs.RefusedError as error:
        raise documents.UnreadableError(str(error)) from error


def read_drawing(drawing: bytes, dpi: int, languages: str, stopped: Callable[[], bool]) -> list[Page]:
    """The one page of a drawing of ours; a refusal here is the engine's fault, not the document's."""
    try:
        return _pages(programs.run(_argv("stdin", languages, dpi), stopped, drawing))
    except programs.RefusedError as error:
        raise programs.BrokenError(str(error)) from error


@cache
def _installed() -> frozenset[str]:
    told = programs.run(("tesseract", "--list-langs"), lambda: False).decode()
    return frozenset(told.split("\n")[1:]) - {""}


def _argv(source: str, languages: str, dpi: int | None = None) -> list[str]:
    # With orientation data a page that was scanned sideways or upside down is turned first.
    layout = "1" if "osd" in _installed() else "3"
    resolution = ["--dpi", str(dpi)] if dpi else []
    return ["tesseract", source, "stdout", "-l", languages, "--psm", layout, *resolution, "tsv"]


def _pages(tsv: bytes) -> list[Page]:
    rows = [row.split("\t") for row in tsv.decode(errors="replace").split("\n")[1:] if row]
    pages: list[list[list[str]]] = []
    for row in rows:
        if row[_LEVEL] == _PAGE_LEVEL:
            pages.append([])
        pages[-1].append(row)
    return [_page(page) for page in pages]


def _page(rows: list[list[str]]) -> Page:
    width, height = max(int(rows[0][_WIDTH]), 1), max(int(rows[0][_HEIGHT]), 1)
    words = [row for row in rows if row[_LEVEL] == _WORD_LEVEL and _word(row)]
    text: list[str] = []
    blocks: list[dict[str, Any]] = []
    paragraph: object = None
    for key, line in groupby(words, key=lambda row: (row[_BLOCK], row[_PARAGRAPH], row[_LINE])):
        of_line = list(line)
        if paragraph is not None and key[:2] != paragraph:
            text.append("")
        paragraph = key[:2]
        text.append(" ".join(map(_word, of_line)))
        blocks.append({"text": text[-1], "bbox": [round(side, 4) for side in _box(of_line, width, height)]})
    return Page("\n".join(text), tuple(blocks))


def _word(row: list[str]) -> str:
    return row[_TEXT].strip() if float(row[_CONFIDENCE]) >= 0 else ""


def _box(words: list[list[str]], width: int, height: int) -> Iterator[float]:
    """Left, top, right and bottom around all words, as fractions of the page."""
    yield min(int(word[_LEFT]) for word in words) / width
    yield min(int(word[_TOP]) for word in words) / height
    yield min(1.0, max(int(word[_LEFT]) + int(word[_WIDTH]) for word in words) / width)
    yield min(1.0, max(int(word[_TOP]) + int(word[_HEIGHT]) for word in words) / height)
