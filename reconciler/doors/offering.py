"""What can be called, as text: the list of tools, and one tool's inputs as its schema has them.

The words are the interface's own, as an agent reads them; what is added is how a value is written in a shell.
"""

import json
import sys

from reconciler.doors import arguments, columns

Json = dict[str, object]
_ROOM = 100  # cells of a line
_DEEP = 4  # levels of objects that are written out; deeper ones are given as JSON
_MANY = 60  # inputs that are written out
_VALUES = {
    "string": "TEXT",
    "integer": "N",
    "number": "NUMBER",
    "boolean": "true|false",
    "object": "{JSON}",
    "array": "[JSON]",
    "null": "null",
}


def listed(tools: list[Json], color: str) -> str:
    """One line a tool: its name, and the first sentence of what it says of itself."""
    rows = [["TOOL", "WHAT IT DOES"]]
    rows += [[str(one.get("name")), _sentence(one)] for one in tools]
    paint = columns.Paint(color, tty=sys.stdout.isatty())
    return columns.table(rows, paint, fit=(1, _ROOM))


def explained(tool: Json) -> str:
    """A tool: what it does, how it is called, each input with its type and meaning, what it answers."""
    schema = _object(tool.get("inputSchema"))
    rows = _inputs(schema, schema, "", 0)[:_MANY]
    name = str(tool.get("name"))
    usual = " ".join(f"{key}={value}" for key, value, needed, _ in rows if needed)
    text = f"Usage: handler call {name} {usual}".rstrip()
    text += " [KEY=VALUE…]\n" if any(not needed for _, _, needed, _ in rows) else "\n"
    words = str(tool.get("description") or tool.get("title") or "")
    text += f"\n{_wrapped(words, 0)}\n" if words else ""
    text += "\nInputs:\n" + "".join(map(_line, rows)) if rows else "\nIt takes no inputs.\n"
    return text + _answer(_object(tool.get("outputSchema")))


def _inputs(schema: Json, root: Json, before: str, depth: int) -> list[tuple[str, str, bool, str]]:
    """Key, value, whether it is required, and what is said of it; parts of objects below their own keys."""
    needed = arguments.resolved(schema, root).get("required")
    required = needed if isinstance(needed, list) else []
    found: list[tuple[str, str, bool, str]] = []
    for name, one in arguments.members(schema, root).items():
        key, whole = f"{before}{name}", arguments.resolved(one, root)
        parts = arguments.members(one, root)
        if parts and depth < _DEEP and "array" not in arguments.kinds(one, root):
            found += _inputs(one, root, f"{key}.", depth + 1)
            continue
        told = one.get("description") or whole.get("description") or ""
        found.append(
            (key, _value(one, root), name in required and not before, _notes(whole, root, str(told)))
        )
    return sorted(found, key=lambda row: not row[2])


def _value(schema: Json, root: Json) -> str:
    """How a value is written: its type, the choices, or whose path it is."""
    whole = arguments.resolved(schema, root)
    if "array" in arguments.kinds(schema, root):
        return f"{_value(arguments.items(schema, root), root)} …"
    if arguments.is_file(schema, root):
        return "NEW-FILE" if "output" in str(whole.get("format")) else "FILE"
    choices = whole.get("enum")
    if isinstance(choices, list):
        return "|".join(one if isinstance(one, str) else json.dumps(one) for one in choices)
    return "|".join(_VALUES[kind] for kind in arguments.kinds(schema, root))


def _notes(schema: Json, root: Json, told: str) -> str:
    default = schema.get("default")
    usual = f"default {json.dumps(default, ensure_ascii=False)}" if default is not None else ""
    element = arguments.resolved(arguments.items(schema, root), root)
    pattern = schema.get("pattern") or element.get("pattern")
    form = f"matches {pattern}" if isinstance(pattern, str) else ""
    return " · ".join(filter(None, [told, form, usual]))


def _line(row: tuple[str, str, bool, str]) -> str:
    key, value, needed, told = (columns.shown(cell) if isinstance(cell, str) else cell for cell in row)
    head = f"  {key}={value}" + ("  (required)" if needed else "")
    return f"{head}\n" + (f"      {_wrapped(str(told), 6)}\n" if told else "")


def _answer(schema: Json) -> str:
    names = list(arguments.members(schema, schema))
    return f"\nAnswers JSON with {', '.join(map(columns.shown, names))}.\n" if names else ""


def _sentence(tool: Json) -> str:
    words = str(tool.get("description") or tool.get("title") or "")
    return words.partition("\n")[0].partition(". ")[0]


def _wrapped(text: str, indent: int) -> str:
    return columns.folded(columns.shown(text), indent, _ROOM)


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}
