"""YAML to plain values by its nodes alone: no tag is obeyed, every scalar is text, aliases have a budget.

One harness (gridctl) writes YAML. PyYAML composes the nodes and none of its constructors run; what a node
becomes is decided here, so a text cannot name a type, and nesting, size and copies are bounded.
"""

from collections.abc import Iterator
from typing import Any

import yaml

_MAX_BYTES = 2**18  # a stack of a hundred servers has a tenth of it; bounds the slow reading in plain Python
_MAX_NODES = 50_000  # with what aliases repeat: a bomb is refused before it goes off
_MAX_DEPTH = 32
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def parsed(data: bytes) -> Any:
    """The one document of a YAML text; raises ValueError with a clause that repeats nothing of it."""
    if len(data) > _MAX_BYTES:
        raise ValueError(f"it has {len(data):,} bytes, more than {_MAX_BYTES:,}")
    try:
        root = yaml.compose(data.decode("utf-8-sig"), Loader=_LOADER)
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except yaml.MarkedYAMLError as error:
        raise ValueError(f"{_place(error.problem_mark)}this is not YAML") from None
    except yaml.YAMLError:
        raise ValueError("a character in it cannot stand in YAML") from None
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    return _Reader().value(root, 0)


def _place(mark: yaml.Mark | None) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""


class _Reader:
    """One conversion; counts the nodes that it makes, aliases as often as they are used."""

    def __init__(self) -> None:
        self._made = 0

    def value(self, node: yaml.Node | None, depth: int) -> Any:
        self._made += 1
        if self._made > _MAX_NODES:
            raise ValueError("its aliases grow it beyond any real file")
        if depth > _MAX_DEPTH:
            raise ValueError(f"it is nested deeper than {_MAX_DEPTH} levels, or refers to itself")
        match node:
            case yaml.ScalarNode():
                return None if _is_null(node) else node.value
            case yaml.SequenceNode():
                return [self.value(item, depth + 1) for item in node.value]
            case yaml.MappingNode():
                return self._table(node, depth)
            case _:
                return {}  # an empty document

    def _table(self, node: yaml.MappingNode, depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key, item in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise ValueError(f"{_place(key.start_mark)}a key is no text")
            if key.value == "<<" and not key.style:
                for one in self._merges(item, depth):
                    merged = one | merged
                continue
            if key.value in made:
                raise ValueError(f"{_place(key.start_mark)}a key stands twice in one table")
            made[key.value] = self.value(item, depth + 1)
        return merged | made

    def _merges(self, node: yaml.Node, depth: int) -> Iterator[dict[str, Any]]:
        found = self.value(node, depth + 1)
        for one in found if isinstance(found, list) else [found]:
            if not isinstance(one, dict):
                raise ValueError(f"{_place(node.start_mark)}only tables can be merged")
            yield one


def _is_null(node: yaml.ScalarNode) -> bool:
    return not node.style and node.value in ("", "~", "null")
