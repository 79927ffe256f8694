"""The MCP servers that each harness's configuration names, in one shape.

The formats (read from the harnesses' own documentation and sources, 2026): Claude Code ``mcpServers`` in
``.mcp.json`` and, by scope, in ``~/.claude.json``; Codex ``[mcp_servers.NAME]``; VS Code ``servers`` with
``inputs``; Cursor ``mcpServers``; opencode ``mcp`` with one argv list; gridctl ``mcp-servers``, a list. An
entry that is no server, or one that no connector could be, is left out with why; a key that has no place in a
connector is named, its value never.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

MAX_SERVERS = 200  # a person has ten; each becomes two files
_MAX_ARGUMENTS = 256
_MAX_TEXT = 4096

_TAKEN = frozenset({
    "type", "transport", "command", "args", "env", "environment", "url", "serverUrl", "httpUrl", "headers",
    "http_headers", "env_http_headers", "bearer_token_env_var", "bearer_token", "env_vars", "enabled",
    "disabled", "name", "image", "auth",
})  # fmt: skip
_TABLES: Mapping[str, tuple[str, ...]] = {  # where the servers stand, first found
    "claude": ("mcpServers",),
    "codex": ("mcp_servers",),
    "vscode": ("servers", "mcp.servers"),
    "cursor": ("mcpServers",),
    "opencode": ("mcp",),
    "gridctl": ("mcp-servers",),
}
HARNESSES = tuple(_TABLES)


@dataclass(frozen=True, slots=True)
class Server:
    """One MCP server as its harness starts it (``command``), reaches it (``url``) or pulls it (``image``).

    Texts are as they stand there, secrets and references included: they go to ``writing`` and nowhere else.
    ``untaken`` are the keys that nothing was made of. Of servers of one name, the least ``rank`` counts.
    """

    name: str
    command: tuple[str, ...] = ()
    url: str = ""
    image: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    sse: bool = False
    disabled: bool = False
    untaken: tuple[str, ...] = ()
    rank: int = 1


@dataclass(frozen=True, slots=True)
class Left:
    """A server that was left out, and why, as a clause that repeats nothing of its values."""

    name: str
    why: str


def servers(harness: str, values: Mapping[str, Any], folder: str, home: str) -> list[Server | Left]:
    """What one file of a harness holds; ``folder`` is the project that it is read for.

    Raises ValueError when the file has no place for servers, or more than ``MAX_SERVERS``.
    """
    found = list(_tables(harness, values, folder))
    if not found:
        raise ValueError(f"it names no MCP server: there is no '{_TABLES[harness][0]}' in it")
    if sum(len(entries) for _, entries, _ in found) > MAX_SERVERS:
        raise ValueError(f"it names more than {MAX_SERVERS} MCP servers")
    places = _places(folder, home) if harness in ("vscode", "cursor") else {}
    made: list[Server | Left] = []
    for rank, entries, disabled in found:
        for name, entry in entries:
            one = _server(name, entry, places)
            if isinstance(one, Server):
                one = replace(one, rank=rank, disabled=one.disabled or name in disabled)
            made.append(one)
    return made


_Entries = list[tuple[str, Any]]


def _tables(
    harness: str, values: Mapping[str, Any], folder: str
) -> Iterator[tuple[int, _Entries, frozenset[str]]]:
    """Each table of servers with its rank and the names that are switched off elsewhere."""
    own = _project(values, folder) if harness == "claude" else None
    off = frozenset[str]()
    if own is not None:
        off = _names(own.get("disabledMcpServers"))
        if isinstance(own.get("mcpServers"), dict):
            yield 0, _entries(own["mcpServers"]), off
    rank = 2 if "projects" in values else 1  # Claude Code's own file: its servers count least
    for path in _TABLES[harness]:
        found: Any = values
        for key in path.split("."):
            found = found.get(key) if isinstance(found, dict) else None
        if found is not None:
            yield rank, _entries(found), off
            return


def _project(values: Mapping[str, Any], folder: str) -> Mapping[str, Any] | None:
    """What Claude Code keeps of the project that a folder lies in, the nearest one."""
    projects = values.get("projects")
    while isinstance(projects, dict) and folder:
        if isinstance(projects.get(folder), dict):
            return projects[folder]  # type: ignore[no-any-return]
        folder = folder.rpartition("/")[0]
    return None


def _names(found: Any) -> frozenset[str]:
    return (
        frozenset(name for name in found if isinstance(name, str)) if isinstance(found, list) else frozenset()
    )


def _entries(found: Any) -> _Entries:
    if isinstance(found, dict):
        return list(found.items())
    if not isinstance(found, list):
        raise ValueError("what should be its table of MCP servers is none")
    return [
        (str(entry["name"]) if isinstance(entry, dict) and entry.get("name") else f"server-{number}", entry)
        for number, entry in enumerate(found, 1)
    ]


def _places(folder: str, home: str) -> dict[str, str]:
    """What an editor puts in for its own placeholders: folders, never a secret."""
    last = folder.rpartition("/")[2]
    return {
        "${workspaceFolder}": folder,
        "${workspaceRoot}": folder,
        "${workspaceFolderBasename}": last,
        "${userHome}": home,
        "${pathSeparator}": "/",
        "${/}": "/",
    }


# one server


class _Odd(Exception):  # noqa: N818 - a fact about an entry
    """Why an entry cannot be taken over."""


def _server(name: str, entry: Any, places: Mapping[str, str]) -> Server | Left:
    try:
        return _read(name, entry, places)
    except _Odd as why:
        return Left(name, str(why))


def _read(name: str, entry: Any, places: Mapping[str, str]) -> Server:
    if not isinstance(entry, dict):
        raise _Odd(f"its entry is {_sort(entry)}, not a table")
    if not name or not _usable(name):
        raise _Odd("its name holds what no text can")
    _refuse_what_none_can_be(entry)
    command = (*_command(entry.get("command")), *_texts(entry.get("args"), "args"))
    url = next((_text(entry[key], key) for key in ("url", "serverUrl", "httpUrl") if entry.get(key)), "")
    image = _text(entry.get("image"), "image") if entry.get("image") else ""
    made = Server(
        name=name,
        command=tuple(_placed(text, places) for text in command) if not (url or image) else (),
        url=_placed(url, places),
        image=image,
        env={key: _placed(text, places) for key, text in _env(entry).items()},
        headers=_headers(entry),
        sse=_way(entry) == "sse",
        disabled=_off(entry),
        untaken=(*sorted(map(str, entry.keys() - _TAKEN)), *_more_untaken(entry, url, image)),
    )
    if not (made.command or made.url or made.image):
        raise _Odd("it has neither a command nor an address")
    if made.command and (not entry.get("command") or len(made.command) > _MAX_ARGUMENTS):
        raise _Odd("it has no command" if not entry.get("command") else "it has too many arguments")
    return made


def _refuse_what_none_can_be(entry: Mapping[Any, Any]) -> None:
    if entry.get("ssh"):
        raise _Odd("it is started over ssh: write a connector with that command by hand")
    if entry.get("openapi"):
        raise _Odd("it is made from an OpenAPI document, which is no MCP server")
    if entry.get("source"):
        raise _Odd("it is built from source: publish an image with a digest, or give its command")
    if _way(entry) in ("ws", "websocket", "sdk"):
        raise _Odd("it is reached in a way that no connector has: only a command, https or an image")


def _way(entry: Mapping[Any, Any]) -> str:
    found = entry.get("type") or entry.get("transport")
    return found.lower() if isinstance(found, str) else ""


def _off(entry: Mapping[Any, Any]) -> bool:
    return entry.get("disabled") in (True, "true") or entry.get("enabled") in (False, "false")


def _more_untaken(entry: Mapping[Any, Any], url: str, image: str) -> Iterator[str]:
    """Keys that are known, and say nothing to the way that this server goes."""
    auth = entry.get("auth")
    if auth is not None and not (isinstance(auth, dict) and auth.get("type") in ("bearer", "header")):
        yield "auth"
    if (url or image) and entry.get("command"):
        yield "command"


def _command(found: Any) -> list[str]:
    return _texts(found, "command") if isinstance(found, list) else [_text(found, "command")] if found else []


def _env(entry: Mapping[Any, Any]) -> dict[str, str]:
    """The variables: given ones, and those that Codex passes on from its own surroundings."""
    made = _map(entry.get("environment", entry.get("env")), "env")
    listed = entry.get("env_vars") or []
    for one in listed if isinstance(listed, list) else []:
        name = one.get("name") if isinstance(one, dict) else one
        if isinstance(name, str):
            made.setdefault(name, f"${{{name}}}")
    return made


def _headers(entry: Mapping[Any, Any]) -> dict[str, str]:
    made = _map(entry.get("headers"), "headers") | _map(entry.get("http_headers"), "http_headers")
    for name, variable in _map(entry.get("env_http_headers"), "env_http_headers").items():
        made[name] = f"${{{variable}}}"
    if bearer := entry.get("bearer_token_env_var"):
        made["Authorization"] = f"Bearer ${{{_text(bearer, 'bearer_token_env_var')}}}"
    elif token := entry.get("bearer_token"):
        made["Authorization"] = f"Bearer {_text(token, 'bearer_token')}"
    auth = entry.get("auth")
    if isinstance(auth, dict) and auth.get("type") == "bearer":
        made["Authorization"] = f"Bearer {_text(auth.get('token'), 'auth')}"
    elif isinstance(auth, dict) and auth.get("type") == "header":
        made[_text(auth.get("header"), "auth")] = _text(auth.get("value"), "auth")
    return made


def _map(found: Any, key: str) -> dict[str, str]:
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise _Odd(f"its '{key}' is {_sort(found)}, not a table")
    return {_text(name, key): _text(value, key) for name, value in found.items() if value is not None}


def _texts(found: Any, key: str) -> list[str]:
    if found is None:
        return []
    if not isinstance(found, list):
        raise _Odd(f"its '{key}' is {_sort(found)}, not a list")
    return [_text(one, key) for one in found]


def _text(found: Any, key: str) -> str:
    if isinstance(found, bool):
        return str(found).lower()
    if isinstance(found, int | float):
        return str(found)
    if not isinstance(found, str):
        raise _Odd(f"its '{key}' holds {_sort(found)} where a text should stand")
    if len(found) > _MAX_TEXT or not _usable(found):
        raise _Odd(f"its '{key}' holds a text that is too long, or what no text can hold")
    return found


def _usable(text: str) -> bool:
    """Whether a text can stand in a file and in an argument list: no NUL, no half of a surrogate pair."""
    return "\0" not in text and not any("\ud800" <= ch <= "\udfff" for ch in text)


def _placed(text: str, places: Mapping[str, str]) -> str:
    for placeholder, value in places.items():
        text = text.replace(placeholder, value)
    return text


def _sort(found: Any) -> str:
    match found:
        case None:
            return "nothing"
        case dict():
            return "a table"
        case list():
            return "a list"
        case str():
            return "text"
        case bool():
            return "true or false"
        case _:
            return "a number"
