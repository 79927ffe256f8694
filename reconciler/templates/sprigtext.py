"""Sprig's functions of texts. They count and cut characters, where Sprig counts bytes and may split one."""

import re
from collections.abc import Iterable, Mapping, Sequence

from reconciler.templates import formats, golang, printing
from reconciler.templates.values import LONGEST, Owned, Unusable


def _room(size: int) -> None:
    """Refuse to make what is too long before it is made."""
    if size > LONGEST:
        raise Unusable(f"the text would be longer than {LONGEST} characters")


def _abbrev(width: int, text: str) -> str:
    return text if width < 4 or len(text) <= width else text[: width - 3] + "..."


def _abbrevboth(left: int, width: int, text: str) -> str:
    if width < 4 or (left > 0 and width < 7) or len(text) <= width:
        return text
    offset = min(left, len(text))
    if len(text) - offset <= width - 3:
        offset = len(text) - (width - 3)
    if offset <= 4:
        return text[: width - 3] + "..."
    if offset + width - 3 < len(text):
        return "..." + _abbrev(width - 3, text[offset:])
    return "..." + text[len(text) - (width - 3) :]


def _trunc(count: int, text: str) -> str:
    if count < 0:
        return text[count:] if len(text) + count > 0 else text
    return text[:count]


def _substr(start: int, end: int, text: str) -> str:
    if start < 0:
        start = 0
    elif end < 0 or end > len(text):
        end = len(text)
    if not start <= end <= len(text):
        raise Unusable("the end of the part comes before its start, or after the text's")
    return text[start:end]


def _repeat(count: int, text: str) -> str:
    if count < 0:
        raise Unusable("a text cannot be repeated fewer than 0 times")
    _room(count * len(text))
    return text * count


def _title(text: str) -> str:
    """The first letter of each word raised; a word is what letters, digits and underscores make up."""
    return re.sub(r"(?<!\w)\w", lambda match: match[0].title(), text)


def _untitle(text: str) -> str:
    return re.sub(r"(?<!\S)\S", lambda match: match[0].lower(), text)


def _initials(text: str) -> str:
    return "".join(word[0] for word in text.split())


_WORD = re.compile(
    r"[0-9]+[a-z][a-z0-9]*|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+(?:[0-9]+(?![a-z0-9]))?"
    r"|[A-Z]+(?:[0-9]+(?![a-z0-9]))?|[0-9]+"
)


def _joined(text: str, sign: str) -> str:
    """``FirstName`` as ``first_name``, with ``sign`` between the words."""
    spaced = re.sub(r"[\s_-]", " ", text)
    split = _WORD.sub(
        lambda match: (" " if spaced[match.start() - 1 : match.start()].isalnum() else "") + match[0], spaced
    )
    return re.sub(r" +", sign, split).lower()


def _camelcase(text: str) -> str:
    """``http_server`` as ``HttpServer``; underscores in front stay."""
    head = text[: len(text) - len(text.lstrip("_"))]
    return head + "".join(
        word[:1].upper() + word[1:].lower() for word in re.split(r"[\s_-]+", text[len(head) :])
    )


def _wrap(width: int, text: str) -> str:
    return _wrapped(max(width, 1), "\n", text, splits=False)


def _wrap_with(width: int, sign: str, text: str) -> str:
    return _wrapped(max(width, 1), sign, text, splits=True)


def _wrapped(width: int, sign: str, text: str, *, splits: bool) -> str:
    """Lines of at most ``width``, broken at blanks; longer words are split, or stand out."""
    _room(len(text) + len(text) * len(sign))
    out: list[str] = []
    at = 0
    while len(text) - at > width:
        if text[at] == " ":
            at += 1
            continue
        blank = text.rfind(" ", at, at + width + 1)
        if blank < at:
            blank = at + width if splits else text.find(" ", at + width)
            if blank < 0:
                break
            out.append(text[at:blank] + sign)
            at = blank if splits else blank + 1
            continue
        out.append(text[at:blank] + sign)
        at = blank + 1
    return "".join(out) + text[at:]


def strings(value: object) -> list[str]:
    """What Sprig takes for a list of texts: the items that are something, or the one value."""
    items: Sequence[object] = value if isinstance(value, list | tuple) else [value]
    return [printing.text(item) for item in items if item is not None]


def _row(words: Iterable[str]) -> str:
    return printing.written((" " if at else "") + word for at, word in enumerate(words))


def _quote(*args: object) -> str:
    return _row(formats.quoted(printing.text(arg)) for arg in args if arg is not None)


def _squote(*args: object) -> str:
    return printing.written(
        f"{' ' if at else ''}'{printing.text(arg)}'"
        for at, arg in enumerate(arg for arg in args if arg is not None)
    )


def _cat(*args: object) -> str:
    return printing.written(
        (" " if at else "") + printing.text(arg)
        for at, arg in enumerate(arg for arg in args if arg is not None)
    )


def _indent(width: int, text: str) -> str:
    pad = _repeat(width, " ")
    _room(len(text) + len(pad) * (text.count("\n") + 1))
    return pad + text.replace("\n", "\n" + pad)


def _replace(old: str, new: str, text: str) -> str:
    _room(len(text) + len(new) * (text.count(old) if old else len(text) + 1))
    return text.replace(old, new)


def _join(sign: str, value: object) -> str:
    return printing.written((sign if at else "") + item for at, item in enumerate(strings(value)))


def _split(sign: str, text: str) -> list[str]:
    return text.split(sign) if sign else list(text)


def _numbered(parts: list[str]) -> Owned:
    return Owned({f"_{at}": part for at, part in enumerate(parts)})


def _splitn(sign: str, count: int, text: str) -> Owned:
    if count == 0:
        return Owned()
    parts = _split(sign, text)
    kept = (
        parts
        if count < 0
        else [*parts[: count - 1], *([sign.join(parts[count - 1 :])] if parts[count - 1 :] else [])]
    )
    return _numbered(kept)


FUNCTIONS: Mapping[str, golang.Entry] = {
    "abbrev": (_abbrev, "is"),
    "abbrevboth": (_abbrevboth, "iis"),
    "trunc": (_trunc, "is"),
    "trim": (lambda text: text.strip(), "s"),
    "upper": (lambda text: text.upper(), "s"),
    "lower": (lambda text: text.lower(), "s"),
    "title": (_title, "s"),
    "untitle": (_untitle, "s"),
    "substr": (_substr, "iis"),
    "repeat": (_repeat, "is"),
    "trimAll": (lambda signs, text: text.strip(signs) if signs else text, "ss"),
    "trimall": (lambda signs, text: text.strip(signs) if signs else text, "ss"),
    "trimSuffix": (lambda end, text: text.removesuffix(end), "ss"),
    "trimPrefix": (lambda start, text: text.removeprefix(start), "ss"),
    "nospace": (lambda text: "".join(text.split()), "s"),
    "initials": (_initials, "s"),
    "swapcase": (lambda text: text.swapcase(), "s"),
    "snakecase": (lambda text: _joined(text, "_"), "s"),
    "kebabcase": (lambda text: _joined(text, "-"), "s"),
    "camelcase": (_camelcase, "s"),
    "wrap": (_wrap, "is"),
    "wrapWith": (_wrap_with, "iss"),
    "contains": (lambda part, text: part in text, "ss"),
    "hasPrefix": (lambda start, text: text.startswith(start), "ss"),
    "hasSuffix": (lambda end, text: text.endswith(end), "ss"),
    "quote": (_quote, "a*"),
    "squote": (_squote, "a*"),
    "cat": (_cat, "a*"),
    "indent": (_indent, "is"),
    "nindent": (lambda width, text: "\n" + _indent(width, text), "is"),
    "replace": (_replace, "sss"),
    "plural": (lambda one, many, count: one if count == 1 else many, "ssi"),
    "toString": (printing.text, "a"),
    "toStrings": (strings, "a"),
    "join": (_join, "sa"),
    "split": (lambda sign, text: _numbered(_split(sign, text)), "ss"),
    "splitList": (_split, "ss"),
    "splitn": (_splitn, "sis"),
    "sortAlpha": (lambda value: sorted(strings(value)), "a"),
    "hello": (lambda: "Hello!", ""),
}
