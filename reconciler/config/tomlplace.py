"""Where a key or a value stands in a TOML text: an index of every path, drawn from its syntax tree.

The tree is tree-sitter's, which reads any bytes and goes on after an error, so that a place is found even in
a text that does not parse as a whole. Its columns are bytes; people count characters. Keys of a table that an
unknown syntax hides are placed at the header.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache

import tomli
import tree_sitter_toml
from tree_sitter import Language, Node, Parser

from reconciler.config.text import MAX_BYTES
from reconciler.model.problems import Path

_LANGUAGE = Language(tree_sitter_toml.language())
_BOM = b"\xef\xbb\xbf"
_KEYS = ("bare_key", "quoted_key", "dotted_key")

_Point = tuple[int, int]  # row and column from 0, the column in bytes
_Entry = tuple[_Point, _Point]  # where the key stands, and where the value does


def place(data: bytes, path: Path, *, on_key: bool = False) -> tuple[int, int]:
    """The line and column of ``path``: see ``toml.place``."""
    if len(data) > MAX_BYTES:
        return 1, 1
    index = _index(data)
    for end in range(len(path), 0, -1):
        entry = index.get(path[:end])
        if entry is not None:
            key, value = entry
            return in_characters(data, key if on_key and end == len(path) else value)
    return 1, 1


def in_characters(data: bytes, point: _Point) -> tuple[int, int]:
    """A tree-sitter point (row, column in bytes, from 0) as line and column in characters, from 1."""
    row, column = point
    line = data.split(b"\n", row + 1)[row][:column]
    if row == 0:
        line = line.removeprefix(_BOM)
    return row + 1, len(line.decode(errors="replace")) + 1


@lru_cache(maxsize=4)  # problems come file by file
def _index(data: bytes) -> Mapping[Path, _Entry]:
    """Every path of the text. What is written out wins over what a dotted key or header implies."""
    implied: dict[Path, _Entry] = {}
    written: dict[Path, _Entry] = {}
    for path, entry, whole in _entries(Parser(_LANGUAGE).parse(data).root_node):
        (written if whole else implied).setdefault(path, entry)
    return implied | written


def _entries(root: Node) -> Iterator[tuple[Path, _Entry, bool]]:
    """Each path with its place, in the order of the text; False: only implied by a longer path."""
    last: dict[Path, int] = {}  # of each list of tables, the number of its last one
    stack: list[tuple[Path, Node]] = [((), root)]
    while stack:
        above, node = stack.pop()
        if node.type in ("table", "table_array_element"):
            header = node.start_point.row, node.start_point.column
            parts = _parts(node)
            above = ()
            for number, (name, point) in enumerate(parts, 1):
                above = (*above, name)
                whole = number == len(parts)
                if whole and node.type == "table_array_element":
                    last[above] = last.get(above, -1) + 1
                yield above, (point, header if whole else point), whole
                if above in last:
                    above = (*above, last[above])
                    yield above, (header, header), whole
        elif node.type == "pair":
            yield from _pair(above, node, stack)
            continue
        stack.extend((above, child) for child in reversed(node.named_children) if child.type not in _KEYS)


def _pair(above: Path, node: Node, stack: list[tuple[Path, Node]]) -> Iterator[tuple[Path, _Entry, bool]]:
    """A key and its value, and what lies inside the value."""
    value = next((child for child in node.named_children if child.type not in (*_KEYS, "comment")), node)
    parts = _parts(node)
    for number, (name, point) in enumerate(parts, 1):
        above = (*above, name)
        whole = number == len(parts)
        yield above, (point, _start(value) if whole else point), whole
    yield from _inside(above, value, stack)


def _inside(above: Path, value: Node, stack: list[tuple[Path, Node]]) -> Iterator[tuple[Path, _Entry, bool]]:
    """The items of a list; what lies in them, and the keys of a table, go on the stack."""
    pending = [(above, value)]
    while pending:
        path, node = pending.pop()
        if node.type == "inline_table":
            stack.append((path, node))
        elif node.type == "array":
            items = [child for child in node.named_children if child.type != "comment"]
            for number, item in enumerate(items):
                yield (*path, number), (_start(item), _start(item)), True
                pending.append(((*path, number), item))


def _start(node: Node) -> _Point:
    return node.start_point.row, node.start_point.column


def _parts(node: Node) -> list[tuple[str, _Point]]:
    """The parts of the key that a pair or a header starts with, each with its place."""
    parts = []
    pending = [child for child in node.named_children if child.type in _KEYS][:1]
    while pending:
        key = pending.pop()
        if key.type == "dotted_key":
            pending.extend(reversed([child for child in key.named_children if child.type in _KEYS]))
        else:
            parts.append((_name(key), _start(key)))
    return parts


def _name(key: Node) -> str:
    written = (key.text or b"").decode(errors="replace")
    if key.type == "bare_key":
        return written
    try:
        return next(iter(tomli.loads(f"{written} = 0")))
    except (ValueError, RecursionError, StopIteration):
        return written
