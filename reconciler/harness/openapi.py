"""An OpenAPI 3 document read: which of its operations become tools, how each is asked, what is left out.

An operation becomes a tool by its path, query and JSON body alone. What else it must be given (a header, a
cookie, a form) leaves it out, in words; what it may be given so is passed over, in words too. The document is
somebody else's text: whatever of it a model will read is cut to one line of visible characters.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from reconciler.harness.openapi_schemas import Document, listed, named, portable, record, table, truth, words
from reconciler.model import hosts, places
from reconciler.model.names import MAX_TOOL_NAME, tool_prefix

METHODS = ("get", "post", "put", "patch", "delete")
_PASSED_OVER = ("/health", "/healthz", "/ready", "/readyz", "/metrics")  # of whoever runs the server
_MOST = 64
_WORD = re.compile(r"[^a-z0-9]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")
_VARIABLE = re.compile(r"\{([^{}]+)\}")
_PATH = re.compile(r"/[^\x00-\x20\x7f-\U0010ffff?#\\]*")
_MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class Operation:
    """One tool: what a caller gives, and how it is sent. ``sent`` is what the connector reads."""

    tool: str
    title: str
    description: str
    method: str
    schema: dict[str, Any]
    sent: dict[str, Any]

    @property
    def effect(self) -> str:
        """``none`` of what only reads."""
        return "none" if self.method == "get" else "external"


@dataclass(frozen=True, slots=True)
class Slot:
    """A secret that requests bear in a header."""

    name: str
    header: str
    required: bool
    description: str


@dataclass(slots=True)
class Read:
    """What a document gives."""

    title: str
    server: str
    operations: list[Operation] = field(default_factory=list)
    slots: list[Slot] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)  # what, and why


def read(values: Mapping[str, Any], name: str, server: str = "") -> Read:
    """A document's operations as tools of the interface ``name``; ``server`` instead of its own. ValueError,
    as a clause, for what is no such document, or has nothing that can be asked.
    """
    version = str(values.get("openapi") or "")
    if not version.startswith("3."):
        raise ValueError("it is no OpenAPI 3 document: its 'openapi' does not begin with 3.")
    document = Document(values)
    title = table(values.get("info")).get("title")
    found = Read(words(title, 100) or name, _server(values, server))
    paths = table(values.get("paths"))
    taken: set[str] = set()
    for path, method, item in _items(document, paths, found):
        what = f"{method.upper()} {path[:80]}"
        if len(found.operations) == _MOST:
            found.left.append((what, f"an interface has at most {_MOST} of these: cut the document"))
            continue
        try:
            one = _operation(
                document, (path, method), item, (_tool(name, (path, method), item, taken), found.left)
            )
        except ValueError as why:
            found.left.append((what, str(why)))
        else:
            taken.add(one.tool)
            found.operations.append(one)
    if not found.operations:
        first = f": {found.left[0][0]}: {found.left[0][1]}" if found.left else ""
        raise ValueError(f"it has no operation that can be asked{first}")
    found.slots = list(_slots(document, found.left))
    return found


def _server(values: Mapping[str, Any], given: str) -> str:
    listed = values.get("servers")
    first = listed[0] if isinstance(listed, list) and listed and isinstance(listed[0], Mapping) else {}
    url = given or str(first.get("url") or "")
    variables = first.get("variables")
    for name in _VARIABLE.findall(url):
        one = variables.get(name) if isinstance(variables, Mapping) else None
        url = url.replace(f"{{{name}}}", str(one.get("default") or "") if isinstance(one, Mapping) else "")
    url = url.rstrip("/")
    try:
        places.targets("url", url)
    except ValueError as why:
        raise ValueError(
            f"its server cannot be reached as it is written ({why}): name it by --server"
        ) from None
    return url


def _items(
    document: Document, paths: Mapping[str, Any], found: Read
) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Each operation with the parameters of its path, in the document's order."""
    for path, item in paths.items():
        if not str(path).startswith("/") or str(path) in _PASSED_OVER:
            continue
        try:
            whole = document.followed(item)
        except ValueError as why:
            found.left.append((str(path)[:80], str(why)))
            continue
        for method in METHODS:
            if isinstance(one := whole.get(method), Mapping):
                given = [*listed(whole.get("parameters")), *listed(one.get("parameters"))]
                yield str(path), method, {**one, "parameters": given}


def _tool(name: str, where: tuple[str, str], item: Mapping[str, Any], taken: set[str]) -> str:
    path, method = where
    own = item.get("operationId") or item.get("x-tool-name")
    last = next((part for part in reversed(path.split("/")) if part and "{" not in part), "root")
    snake = _WORD.sub("_", _HUMP.sub("_", str(own or f"{last}_{method}")).lower()).strip("_")
    prefix = tool_prefix(name)
    plain = prefix + (snake.removeprefix(prefix) or method)
    tool, number = plain[:MAX_TOOL_NAME].rstrip("_"), 2
    while tool in taken:
        tail = f"_{number}"
        tool, number = plain[: MAX_TOOL_NAME - len(tail)].rstrip("_") + tail, number + 1
    return tool


def _operation(
    document: Document,
    where: tuple[str, str],
    item: Mapping[str, Any],
    more: tuple[str, list[tuple[str, str]]],
) -> Operation:
    """Raises ValueError, as a clause, for what cannot be asked."""
    (path, method), (tool, left) = where, more
    if not _PATH.fullmatch(path) or any(unquote(part) in (".", "..") for part in path.split("/")):
        raise ValueError("its path is no plain one: letters beyond ASCII, a query, or dots alone")
    properties: dict[str, Any] = {}
    required: list[str] = []
    empty: dict[str, Any] = {"in_path": {}, "in_query": {}, "in_body": {}, "json": []}
    sent = {"method": method.upper(), "path": path, **empty}
    for one in _parameters(document, item, f"{method.upper()} {path[:80]}", left):
        into, original = str(one["in"]), str(one["name"])
        given = named(original, properties)
        content = table(table(one.get("content")).get("application/json"))
        asked = one.get("schema") or content.get("schema") or {"type": "string"}
        made = portable(document, asked, words(one.get("description")))
        properties[given] = made.schema
        sent[f"in_{into}"][given] = original
        if into == "path" and (made.as_json or made.schema["type"] in ("array", "object")):
            raise ValueError(f"its parameter {original[:40]!r} is no plain value")
        sent["json"] += [given] if made.as_json else []
        if how := _written(one):
            sent.setdefault(how, []).append(given)
        if into == "path" or truth(one.get("required")):
            required.append(given)
    if {*_VARIABLE.findall(path)} != {*sent["in_path"].values()}:
        raise ValueError("a part of its path is described nowhere")
    _with_body(document, item, (properties, required, sent))
    schema: dict[str, Any] = {"type": "object", "additionalProperties": False, "properties": properties}
    if required:
        schema["required"] = list(dict.fromkeys(required))
    about = words(item.get("summary"), 200)
    told = words(item.get("description")) or about or words(f"{method.upper()} {path}", 200)
    return Operation(tool, words(about or tool.replace("_", " "), 60), told, method, schema, sent)


def _written(one: Mapping[str, Any]) -> str:
    """How a value of a query that is no plain one is written there: "" for each part on its own."""
    if "content" in one:
        return "as_text"
    if one.get("style") == "deepObject":
        return "deep"
    return "joined" if str(one.get("explode", "")).lower() == "false" else ""


def _parameters(
    document: Document, item: Mapping[str, Any], what: str, left: list[tuple[str, str]]
) -> Iterator[Mapping[str, Any]]:
    """Those of path and query; an operation's own stands for its path's of the same name."""
    known: dict[tuple[str, str], Mapping[str, Any]] = {}
    for written in item["parameters"]:
        one = document.followed(written)
        if not isinstance(one.get("name"), str) or not one["name"]:
            raise ValueError("a parameter of it has no name")
        known[str(one.get("in")), str(one.get("name"))] = one
    if len(known) > 100:
        raise ValueError("it takes more than 100 parameters")
    for (into, name), one in known.items():
        if into in ("path", "query"):
            yield one
        elif truth(one.get("required")) and name.lower() not in ("authorization", "accept", "content-type"):
            raise ValueError(f"it must be given the {into} {name[:40]!r}, which no tool gives")
        else:
            left.append((what, f"the {into} {name[:40]!r} is never sent"))


def _with_body(
    document: Document, item: Mapping[str, Any], into: tuple[dict[str, Any], list[str], dict[str, Any]]
) -> None:
    properties, required, sent = into
    if item.get("requestBody") is None:
        return
    body = document.followed(item["requestBody"])
    content = body.get("content")
    kinds = content if isinstance(content, Mapping) else {}
    kind = next(
        (one for one in kinds if re.fullmatch(r"application/([a-z.+-]+\+)?json( *;[ -~]*)?", str(one))), None
    )
    if kind is None:
        if truth(body.get("required")) or not kinds:
            raise ValueError(f"its body is {', '.join(map(str, kinds))[:80] or 'of no kind'}, not JSON")
        return
    sent["type"] = str(kind)
    schema = (kinds[kind].get("schema") if isinstance(kinds[kind], Mapping) else None) or {}
    must, parts = truth(body.get("required")), record(document, schema)
    if parts is None:
        whole = portable(document, schema, words(body.get("description")) or "the body of the request")
        given = named("body", properties)
        properties[given], sent["whole"] = whole.schema, given
        sent["json"] += [given] if whole.as_json else []
        required += [given] if must else []
        return
    made, needed = parts
    for original, one in made.items():
        given = named(original, properties)
        properties[given] = one.schema
        sent["in_body"][given] = original
        sent["json"] += [given] if one.as_json else []
        required += [given] if must and original in needed else []


def _slots(document: Document, left: list[tuple[str, str]]) -> Iterator[Slot]:
    """The secrets of the document's security schemes, each header once."""
    schemes = table(table(document.values.get("components")).get("securitySchemes"))
    known: dict[str, tuple[str, str, str]] = {}
    taken: dict[str, Any] = {}
    for name, written in list(schemes.items())[:_MOST_NAMED]:
        what = f"the security scheme {str(name)[:40]!r}"
        try:
            one = document.followed(written)
        except ValueError as why:
            left.append((what, str(why)))
            continue
        header = _header(one)
        if header is None:
            left.append((what, "only a header of its own can bear a secret"))
            continue
        plain = header.partition(":")[0].lower()
        if plain in known:
            left.append((what, f"another secret is sent as {plain}"))
            continue
        slot = _WORD.sub("_", _HUMP.sub("_", str(name)).lower()).strip("_") or "token"
        slot = named((slot if slot[0].isalpha() else f"key_{slot}")[:28], taken)
        taken[slot] = None
        known[plain] = (slot, header, words(one.get("description"), 200))
    is_asked = isinstance(document.values.get("security"), list) and bool(document.values["security"])
    for slot, header, told in known.values():
        yield Slot(slot, header, len(known) == 1 and is_asked, told or "what the server's document asks for")


def _header(one: Mapping[str, Any]) -> str | None:
    kind, scheme = str(one.get("type")), str(one.get("scheme") or "").lower()
    if kind in ("oauth2", "openIdConnect") or (kind == "http" and scheme == "bearer"):
        return "Authorization: Bearer {}"
    if kind == "http" and scheme == "basic":
        return "Authorization: Basic {}"
    name = str(one.get("name") or "")
    is_free = _HEADER.fullmatch(name) and not hosts.header_is_framing(name)
    return name if kind == "apiKey" and one.get("in") == "header" and is_free else None
