"""Where a key or a value stands in a JSON text, by its syntax tree; any bytes will do."""

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache

import tree_sitter_json
from tree_sitter import Language, Node, Parser

from reconciler.config.tomlplace import in_characters
from reconciler.model.problems import Path

MAX_BYTES = 2**22  # a `tools.json` has at most 256 KiB; a place is looked up only where something is wrong

_LANGUAGE = Language(tree_sitter_json.language())

_Point = tuple[int, int]  # row and column from 0, the column in bytes


def place(data: bytes, path: Path, *, on_key: bool = False) -> tuple[int, int]:
    """The line and column, from 1 in characters, of the value at ``path`` (or, ``on_key``, of its key).

    Where the path is not there, the place is the nearest value above it, else line 1.
    """
    if len(data) > MAX_BYTES:
        return 1, 1
    index = _index(data)
    for end in range(len(path), -1, -1):
        entry = index.get(path[:end])
        if entry is not None:
            key, value = entry
            return in_characters(data, key if on_key and end == len(path) else value)
    return 1, 1


@lru_cache(maxsize=2)  # problems come file by file
def _index(data: bytes) -> Mapping[Path, tuple[_Point, _Point]]:
    index: dict[Path, tuple[_Point, _Point]] = {}
    root = Parser(_LANGUAGE).parse(data).root_node
    stack: list[tuple[Path, _Point | None, Node]] = []
    stack.extend(((), None, child) for child in root.named_children[:1])
    while stack:
        path, key, node = stack.pop()
        start = node.start_point.row, node.start_point.column
        index.setdefault(path, (key or start, start))
        stack.extend(_inside(path, node))
    return index


def _inside(path: Path, node: Node) -> Iterator[tuple[Path, _Point | None, Node]]:
    if node.type == "array":
        items = [child for child in node.named_children if child.type != "comment"]
        for number, item in enumerate(items):
            yield (*path, number), None, item
    elif node.type == "object":
        for pair in node.named_children:
            key, value = pair.child_by_field_name("key"), pair.child_by_field_name("value")
            if key is not None and value is not None:
                yield (*path, _name(key)), (key.start_point.row, key.start_point.column), value


def _name(key: Node) -> str:
    written = (key.text or b"").decode(errors="replace")
    try:
        name = json.loads(written)
    except (ValueError, RecursionError):
        return written
    return name if isinstance(name, str) else written
