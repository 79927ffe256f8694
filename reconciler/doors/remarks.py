"""What a person is told on stderr beside the closed error of a call that they made themselves.

An agent reads the error alone, which says the same of a file that is missing and of one that it may not see.
Whoever typed the command can look at their own disk anyway, so it is looked at for them. Values of the call
are shown to nobody but the terminal that they were typed at.
"""
# ruff: noqa: PTH110, PTH112, PTH113, PTH120 - an answer that is no error does without pathlib

import os

from reconciler.doors import arguments, columns, keypaths, usage

Json = dict[str, object]
_SCOPE = (
    "Files are taken from the current folder, and must lie in the agent's scope "
    "(the key 'scope' of agents/NAME.toml).\n"
    "What is written is a new file with a plain name; a folder of access 'write' lets it replace one.\n"
)
_UNMATCHED = " does not match the pattern"


def told(error: Json, values: Json, schema: Json, *, scoped: bool) -> str:
    """The lines for one closed error of a call with these inputs; "" where there is nothing to say.
    ``scoped``: an agent's scope decides about files, and not the current folder.
    """
    if error.get("error") == "refused":
        wrong = "".join(f"handler: {columns.shown(one)}\n" for one in files(values, schema))
        about_files = "path" in values or bool(
            _paths(values, schema, schema, "")
        )  # fs/v1 has paths that are text
        return wrong + (_SCOPE if scoped and about_files else "")
    if error.get("error") == "invalid_input":
        field = str(error.get("message")).partition(_UNMATCHED)[0].rpartition(" ")[2]
        wanted = pattern(field, schema) if _UNMATCHED in str(error.get("message")) else ""
        return f"handler: {columns.shown(field)} must match {columns.shown(wanted)}\n" if wanted else ""
    return ""


def files(values: Json, schema: Json) -> list[str]:
    """What is wrong with each file of the inputs, as far as this disk shows it."""
    found = [_wrong(key, path, out=out) for key, path, out in _paths(values, schema, schema, "")]
    return [one for one in found if one]


def pattern(field: str, schema: Json) -> str:
    """The pattern of a field like ``languages[0]`` or ``page.name``; "" where there is none."""
    at = schema
    try:
        parts = keypaths.parts(field)
    except usage.Usage:
        return ""
    for part in parts:
        at = arguments.items(at, schema) if isinstance(part, int) else _member(at, schema, part)
    found = arguments.resolved(at, schema).get("pattern")
    return found if isinstance(found, str) else ""


def bare(word: str, schema: Json) -> str:
    """What is said to a word that is no KEY=VALUE: with the one key that it can be meant for."""
    known = arguments.members(schema, schema)
    needed = arguments.resolved(schema, schema).get("required")
    meant = [one for one in needed if one in known] if isinstance(needed, list) else []
    meant = meant if len(meant) == 1 else list(known) if len(known) == 1 else []
    return f"'{word}' is no input: write {f'{meant[0]}={word}' if meant else 'KEY=VALUE'}"


def _member(schema: Json, root: Json, name: str) -> Json:
    return arguments.members(schema, root).get(name, {})


def _paths(value: object, schema: Json, root: Json, key: str) -> list[tuple[str, str, bool]]:
    """Key and path of each file that the inputs name, and whether it is to be written."""
    if isinstance(value, dict):
        known = {name: _member(schema, root, str(name)) for name in value}
        below = [(f"{key}.{name}".lstrip("."), one, known[name]) for name, one in value.items()]
    elif isinstance(value, list):
        element = arguments.items(schema, root)
        below = [(f"{key}[{number}]", one, element) for number, one in enumerate(value)]
    elif isinstance(value, str) and arguments.is_file(schema, root):
        out = "output" in str(arguments.resolved(schema, root).get("format"))
        return [(key, value, out)]
    else:
        return []
    return [found for name, one, inner in below for found in _paths(one, inner, root, name)]


def _wrong(key: str, path: str, *, out: bool) -> str:
    """What is wrong with one file; "" where nothing is, or its path starts at the agent's scope."""
    if not path.startswith("/") or "\0" in path:
        return ""
    folder = os.path.dirname(path)
    if out:
        if not os.path.isdir(folder):
            return f"{key}: there is no folder {folder}"
        return f"{key}: {path} is there already" if os.path.lexists(path) else ""
    if not os.path.exists(path):
        return f"{key}: there is no file {path}"
    if not os.path.isfile(path):
        return f"{key}: {path} is {'a folder' if os.path.isdir(path) else 'no plain file'}"
    return "" if os.access(path, os.R_OK) else f"{key}: {path} may not be read by you"
