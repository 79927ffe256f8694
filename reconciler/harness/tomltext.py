"""Servers put into and taken out of a TOML text, every other byte left as it is.

They go to the end as tables of their own, which is right wherever the other ones stand; only where the file
has them in one value (``mcp_servers = []``) do they go in there. So taking them out again gives the text as
it was: see ``taken``. Places are those of the syntax tree; the text was read before (``reading.values``).
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import tomli
import tree_sitter_toml
from tree_sitter import Language, Node, Parser

_LANGUAGE = Language(tree_sitter_toml.language())
_TABLES = ("table", "table_array_element")
_KEYS = ("bare_key", "quoted_key", "dotted_key")


def given(data: bytes, table: str, named: str, entries: Mapping[str, Any]) -> tuple[bytes, dict[str, str]]:
    """The text with new servers, and what was put in front of each, which ``taken`` has to know.

    ``table`` is the key of all servers; ``named`` the key of the name in each where they are a list, else "".
    """
    value = _in_one_value(_root(data), table)
    if value is not None:
        return _inside(data, value, named, entries), dict.fromkeys(entries, "")
    newline = "\r\n" if b"\r\n" in data and b"\n" not in data.replace(b"\r\n", b"") else "\n"
    before = {}
    for name, entry in entries.items():
        ended = not data or data.endswith(b"\n")
        before[name] = "" if not data else newline if ended else newline * 2
        lines = _lines(table, named, name, entry)
        data += (before[name] + newline.join(lines) + (newline if ended else "")).encode()
    return data, before


def taken(data: bytes, table: str, named: str, before: dict[str, str]) -> bytes:
    """The text without the servers that ``before`` names; what is not there is not missed.

    The reverse of ``given``, where nobody changed the text meanwhile; else only they go.
    """
    for name in reversed(before):
        value = _in_one_value(_root(data), table)
        if value is not None:
            data = _out_of(data, value, named, name)
        else:
            data = _without(data, (table, named, name), before[name])
    return data


# tables of their own


def _lines(table: str, named: str, name: str, entry: Mapping[str, Any]) -> list[str]:
    head = [f"[[{table}]]", f"{named} = {_value(name)}"] if named else [f"[{table}.{_key(name)}]"]
    return head + [f"{_key(key)} = {_value(value)}" for key, value in entry.items()]


def _without(data: bytes, which: tuple[str, str, str], before: str) -> bytes:
    """Without one server's table, those below it, and what was put in front of it."""
    nodes = list(_own(data, *which))
    for number, node in reversed(list(enumerate(nodes))):
        start, end = node.start_byte, _end(data, node)
        gap = before.encode()
        if number == 0 and gap and data[:start].endswith(gap):
            start -= len(gap)
            if gap.count(b"\n") > 1:  # ours had no line end of its own: what follows keeps it
                end -= len(gap) // 2 if data[:end].endswith(b"\n") else 0
        data = data[:start] + data[end:]
    return data


def _own(data: bytes, table: str, named: str, name: str) -> Iterator[Node]:
    """The nodes of one server: its own table first, then what stands below it."""
    entries = tomli.loads(data.decode()).get(table)
    number, mine = -1, False
    for node in _root(data).children:
        if node.type not in _TABLES:
            continue
        parts = _parts(node)
        if not named:
            mine = parts[:2] == (table, name)
        elif parts == (table,) and node.type == "table_array_element":
            number += 1
            mine = isinstance(entries, list) and entries[number].get(named) == name
        elif parts[:1] != (table,):
            mine = False
        if mine:
            yield node


def _end(data: bytes, node: Node) -> int:
    """Behind the last line of a table, of its header or its last pair: comments after that are not its."""
    last = [child.end_byte for child in node.children if child.type in ("pair", "]", "]]")]
    found = data.find(b"\n", max(last))
    return len(data) if found < 0 else found + 1


# one value


def _in_one_value(root: Node, table: str) -> Node | None:
    """The array or inline table that holds all servers, where there is one."""
    for node in root.children:
        if node.type == "pair" and _parts(node) == (table,):
            return next((one for one in node.named_children if one.type in ("array", "inline_table")), None)
    return None


def _inside(data: bytes, value: Node, named: str, entries: Mapping[str, Any]) -> bytes:
    items = []
    for name, entry in entries.items():
        whole = _value({named: name, **entry} if named else entry)
        items.append(f" {whole}" if named else f" {_key(name)} = {whole}")
    at = value.start_byte + 1
    block = ",".join(items) + ("," if _items(value) else "")
    return data[:at] + block.encode() + data[at:]


def _out_of(data: bytes, value: Node, named: str, name: str) -> bytes:
    items = _items(value)
    for item in items:
        inside = tomli.loads(f"x = {_text(data, item)}") if named else {}
        found = inside.get("x", {}).get(named) == name if named else _parts(item) == (name,)
        if not found:
            continue
        start, end = len(data[: item.start_byte].rstrip(b" \t\r\n")), item.end_byte
        after, before = _comma(item.next_sibling), _comma(item.prev_sibling)
        if after is not None:
            return data[:start] + data[end : after.start_byte] + data[after.end_byte :]
        if before is not None:
            return data[: before.start_byte] + data[before.end_byte : start] + data[end:]
        return data[:start] + data[end:]
    return data


def _items(value: Node) -> list[Node]:
    return [child for child in value.named_children if child.type != "comment"]


def _comma(node: Node | None) -> Node | None:
    return node if node is not None and node.type == "," else None


# reading and writing


def _root(data: bytes) -> Node:
    return Parser(_LANGUAGE).parse(data).root_node


def _parts(node: Node) -> tuple[str, ...]:
    """The key of a table or a pair, part by part."""
    key = next((child for child in node.named_children if child.type in _KEYS), None)
    found: Any = tomli.loads(f"{(key.text or b'').decode()} = 0") if key is not None else {}
    parts = []
    while isinstance(found, dict) and found:
        ((part, found),) = found.items()
        parts.append(part)
    return tuple(parts)


def _text(data: bytes, node: Node) -> str:
    return data[node.start_byte : node.end_byte].decode()


def _key(name: str) -> str:
    return name if name.isascii() and name.replace("-", "").replace("_", "").isalnum() else _value(name)


def _value(value: Any) -> str:
    """A value in TOML: JSON's texts, numbers and lists are TOML's, but for one character."""
    match value:
        case Mapping():
            return "{" + ", ".join(f"{_key(key)} = {_value(one)}" for key, one in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(_value, value)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
