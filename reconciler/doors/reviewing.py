"""What a model will read of an interface version, as a reviewer has to see it: exact, nothing hidden.

The texts are those that agents get: the tools, the sentences of errors, the skills. Whatever a reader would
not see is escaped and listed with its place; letters beyond ASCII are listed, too, since some look like
others. Of a later version the difference to the one before is shown as well.
"""

import difflib
import re
import unicodedata
from collections.abc import Iterator, Mapping

from reconciler.admission import guidance
from reconciler.admission.view import inside
from reconciler.doors import columns
from reconciler.model.inventory import Inventory, Resource
from reconciler.model.names import InterfaceRef, Kind, ObjectRef
from reconciler.model.resources import Interface, Record

_BEYOND = re.compile(r"[^\x00-\x7f]")
_MOST = 20  # characters beyond ASCII that are listed
_READ = re.compile(r"tools\.json|interface\.toml|skills/.*\.md|profile\.toml")
_COLOURS = {"+": "green", "-": "red", "@": "blue"}


def before(inventory: Inventory, ref: InterfaceRef) -> Resource[Interface] | None:
    """The version below this one that is nearest to it, in either layer."""
    for number in range(ref.version - 1, 0, -1):
        if (found := inventory.interface(str(InterfaceRef(ref.name, number)))) is not None:
            return found
    return None


def whole(published: Resource[Record], inventory: Inventory, paint: columns.Paint) -> str:
    """The whole review of an interface version, or of a profile: its facts, and which are new."""
    ref = published.ref
    if ref.kind is Kind.INTERFACE:
        return text(published, before(inventory, InterfaceRef.parse(ref.name)), paint)
    name, _, revision = ref.name.partition("@")
    earlier = (ObjectRef(Kind.PROFILE, f"{name}@{number}") for number in range(int(revision) - 1, 0, -1))
    last = next((found for one in earlier if (found := inventory.resources.get(one))), None)
    return text(published, last, paint)


def text(version: Resource[Record], last: Resource[Record] | None, paint: columns.Paint) -> str:
    """The whole review of a version, ended by a line end."""
    now = _texts(version)
    parts = [
        f"{paint(columns.shown(f'{version.ref.name}: {path}'), 'bold')}\n{_body(now[path])}" for path in now
    ]
    parts.append("".join(f"{columns.shown(line)}\n" for line in (*_unseen(now), *_beyond(now))))
    if last is not None:
        parts.append(_difference(_texts(last), now, last.ref.name, paint))
    return "".join(filter(None, parts))


def _texts(version: Resource[Record]) -> dict[str, str]:
    return {
        path: data.decode("utf-8", "backslashreplace")
        for path, data in sorted(inside(version).items())
        if _READ.fullmatch(path)
    }


def _body(whole: str) -> str:
    return "".join(f"  {line}\n" for line in _lines(whole))


def _lines(whole: str) -> list[str]:
    """Lines as they are; a character that a reader would not see is shown as its escape."""
    return ["".join(map(_seen, line)) for line in whole.split("\n")]


def _seen(ch: str) -> str:
    return ch if ch == "\t" or (ch.isprintable() and guidance.hidden(f"x{ch}x") is None) else _escape(ch)


def _escape(ch: str) -> str:
    return ch.encode("unicode_escape").decode()


def is_hiding(version: Resource[Record]) -> bool:
    """Whether a reader would not see all of it."""
    return any(True for _ in _unseen(_texts(version)))


def _unseen(texts: Mapping[str, str]) -> Iterator[str]:
    """Each character that a reader would not see, with its place."""
    for path, whole in texts.items():
        at = 0
        while (found := guidance.hidden(whole[at:])) is not None:
            at += found.offset
            line, column = whole.count("\n", 0, at) + 1, at - whole.rfind("\n", 0, at)
            yield f"{path}:{line}:{column}: a character that nobody sees: {found.name}"
            at += 1


def _beyond(texts: Mapping[str, str]) -> Iterator[str]:
    found: dict[str, str] = {}
    for path, whole in texts.items():
        for match in _BEYOND.finditer(whole):
            found.setdefault(match[0], path)
    for ch, path in list(found.items())[:_MOST]:
        name = unicodedata.name(ch, "unnamed")
        yield f"{path}: a letter beyond ASCII: {_seen(ch)} (U+{ord(ch):04X} {name})"
    if len(found) > _MOST:
        yield f"{len(found) - _MOST} more letters beyond ASCII"


def _difference(old: Mapping[str, str], new: Mapping[str, str], name: str, paint: columns.Paint) -> str:
    """What is new since the last version, file by file."""
    lines: list[str] = []
    for path in sorted(old.keys() | new.keys()):
        was, now = (_lines(texts[path]) if path in texts else [] for texts in (old, new))
        lines += difflib.unified_diff(was, now, f"{name}/{path}", path, lineterm="", n=2)
    what = "what it states" if "@" in name else "what a model reads"
    head = paint(columns.shown(f"{what}, since {name}"), "bold")
    body = (
        "".join(f"  {paint(line, _COLOURS.get(line[:1], ''))}\n" for line in lines) or "  nothing differs\n"
    )
    return f"{head}\n{body}"
