"""Markers that stand for secrets and payload, and a search for them in everything that was written.

The search knows nothing of the product's own redaction: forms of a value are made anew here, more of them.
"""

import base64
import codecs
import gzip
import html
import json
import os
import secrets
import urllib.parse
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

_LEAST = 8


def marker(name: str) -> str:
    """A value of its own, with what each way to write it has to escape."""
    return f"sk-CANARY-{name}-{secrets.token_hex(6)}/+&\"'<ä>\\{secrets.token_hex(4)}"


def forms(value: str) -> set[bytes]:
    """Every way to write a value that is searched for."""
    texts = {
        value,
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        json.dumps(json.dumps(value)[1:-1])[1:-1],
        json.dumps(value)[1:-1].replace("/", "\\/"),
        repr(value)[1:-1],
        repr(value.encode())[2:-1],
        html.escape(value),
        html.escape(value, quote=False),
        urllib.parse.quote(value),
        urllib.parse.quote(value, safe=""),
        urllib.parse.quote_plus(value),
        *(value.replace("\\", "\\\\").replace(mark, f"\\{mark}") for mark in "\"'`"),
        value[::-1],
        codecs.encode(value, "rot13"),
    }
    found = {text.encode() for text in texts}
    raw = value.encode()
    found |= {raw.hex().encode(), raw.hex().upper().encode(), raw.hex(":").encode(), raw.hex(" ").encode()}
    found |= {value.encode("utf-16-le"), value.encode("utf-16-be"), value.encode("utf-32-le")}
    found |= {value.encode("latin-1", "replace")}
    found |= {base64.b32encode(raw).rstrip(b"="), base64.b85encode(raw), base64.a85encode(raw)}
    for shift in range(3):
        digits = base64.b64encode(b"\0" * shift + raw).rstrip(b"=")
        cut = digits[(0, 2, 3)[shift] : len(digits) - bool((shift + len(raw)) % 3)]
        found |= {cut, cut.translate(bytes.maketrans(b"+/", b"-_"))}
    middle = value.rpartition("/")[0]  # the marker without what is escaped: half of it told is a hit, too
    found |= {middle.encode(), middle.encode("utf-16-le"), middle.encode().hex().encode()}
    return {form for form in found if len(form) >= _LEAST}


class Search:
    """Looks for markers, by name, in bytes, files and processes."""

    def __init__(self, markers: Mapping[str, str]) -> None:
        self._words = {name: sorted(forms(value), key=len) for name, value in markers.items()}

    def hits(self, where: str, data: bytes) -> list[str]:
        """Which markers stand in the data, as ``NAME in WHERE``; packed data is looked into."""
        texts = [data, *_unpacked(data)]
        return [
            f"{name} in {where}"
            for name, words in self._words.items()
            if any(word in text for text in texts for word in words)
        ]

    def below(self, *folders: Path, but: Iterable[Path] = ()) -> list[str]:
        """In the names and bytes of all files, in links, and in extended attributes."""
        skipped, found = set(but), []
        for folder in folders:
            for root, names, files in os.walk(folder):
                for name in (*names, *files):
                    path = Path(root, name)
                    if path in skipped or any(one in path.parents for one in skipped):
                        continue
                    found += self.hits(f"the name {path}", os.fsencode(str(path)))
                    found += self._in_file(path)
        return found

    def _in_file(self, path: Path) -> Iterator[str]:
        with suppress(OSError):
            if path.is_symlink():
                yield from self.hits(f"the link {path}", os.fsencode(path.readlink()))
            elif path.is_file():
                yield from self.hits(str(path), path.read_bytes())

    def processes(self, pids: Iterable[int], parts: Iterable[str] = ("cmdline", "comm")) -> list[str]:
        found = []
        for pid in pids:
            for part in parts:
                with suppress(OSError):
                    path = Path(f"/proc/{pid}/{part}")
                    found += self.hits(f"{path} {_words_of(pid)}", path.read_bytes())
        return found


def _words_of(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _unpacked(data: bytes) -> Iterator[bytes]:
    """What zlib (git's objects) or gzip packed."""
    if data[:2] == b"\x1f\x8b":
        with suppress(OSError, EOFError, zlib.error):
            yield gzip.decompress(data)
    elif data[:1] == b"\x78":
        with suppress(zlib.error):
            yield zlib.decompress(data)
