"""One server of the MCP registry (``server.json``) as the importer takes servers in. Pure.

The format (schemas 2025-07 to 2025-12, and the snake case of earlier ones): ``packages``, each
of a ``registryType`` (``pypi``, ``npm``, ``oci``) with an ``identifier``, a ``version``, arguments and
``environmentVariables``; ``remotes``, each a ``url`` with ``headers``. Of several the one that can be
contained best is taken: a package before a remote one. Nothing is fetched: a registry holds words, not code.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.harness.formats import Left, Server

WAYS = ("pypi", "oci", "npm", "remote")
_BRACES = re.compile(r"\{([A-Za-z_][A-Za-z0-9_-]{0,63})\}")
_NAME = re.compile(r"[A-Za-z0-9.-]+/[A-Za-z0-9._-]+")
_TEXT = 4096
_MOST = 100


def server(values: Mapping[str, Any], way: str = "") -> Server | Left:
    """The server that a ``server.json`` describes, by the ``way`` asked for or the first of ``WAYS`` that it
    has; or why it cannot be one. Raises ValueError where the file is none.
    """
    inner = values.get("server")
    if isinstance(inner, Mapping) and "name" not in values:  # as the registry's own answers wrap it
        values = inner
    name = values.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError("it is no server.json: its name is not NAMESPACE/NAME")
    short = name.rpartition("/")[2]
    ways = dict(_ways(values))
    wanted = [way] if way else [one for one in WAYS if one in ways]
    if not wanted or wanted[0] not in ways:
        said = f"it has no way '{way}'; it has {', '.join(ways) or 'none that is known here'}"
        return Left(short, said if way else "it names no package of pypi, npm or oci, and no remote address")
    found = ways[wanted[0]]
    return _remote(short, found) if wanted[0] == "remote" else _package(short, wanted[0], found)


def _ways(values: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each way that a server can be had, the first of its sort."""
    seen = set()
    for one in _list(values.get("packages")):
        sort = _text(one.get("registryType") or one.get("registry_type") or one.get("registry_name"))
        sort = {"docker": "oci"}.get(sort, sort)
        transport = one.get("transport")
        speaks = _text(transport.get("type")) if isinstance(transport, Mapping) else "stdio"
        if sort in WAYS and sort not in seen and speaks in ("stdio", ""):
            seen.add(sort)
            yield sort, one
    for one in sorted(_list(values.get("remotes")), key=lambda one: "sse" in _sort_of(one)):
        if "remote" not in seen:
            seen.add("remote")
            yield "remote", one


def _package(name: str, sort: str, found: Mapping[str, Any]) -> Server | Left:
    identifier, version = _text(found.get("identifier") or found.get("name")), _text(found.get("version"))
    if not identifier:
        return Left(name, "its package has no identifier")
    env, left = _values(found.get("environmentVariables") or found.get("environment_variables"))
    arguments = list(_arguments(found.get("packageArguments") or found.get("package_arguments")))
    if sort == "oci":
        if arguments:
            left = (*left, "packageArguments")
        return Server(name, image=identifier, env=env, untaken=left)
    command = (identifier.rpartition("/")[2], *arguments)
    if sort == "npm":
        command = ("npx", "--offline", f"{identifier}@{version}" if version else identifier, *arguments)
    return Server(name, command=command, env=env, untaken=left)


def requirement(values: Mapping[str, Any]) -> str:
    """The package of PyPI that a server is, as ``requirements.in`` names it; "" where it is none."""
    inner = values.get("server")
    found = dict(_ways(inner if isinstance(inner, Mapping) and "name" not in values else values)).get("pypi")
    if found is None:
        return ""
    identifier, version = _text(found.get("identifier") or found.get("name")), _text(found.get("version"))
    fits = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", identifier)
    pinned = re.fullmatch(r"[0-9][A-Za-z0-9.!+-]*", version)
    return f"{identifier}=={version}" if fits and pinned else identifier if fits else ""


def _remote(name: str, found: Mapping[str, Any]) -> Server | Left:
    url = found.get("url")
    if not isinstance(url, str) or not url:
        return Left(name, "its remote has no address")
    if _BRACES.search(url):
        return Left(name, "its address holds a variable, and nothing is put in: write the server by hand")
    headers, left = _values(found.get("headers"))
    return Server(name, url=url, headers=headers, sse="sse" in _sort_of(found), untaken=left)


def _values(listed: Any) -> tuple[dict[str, str], tuple[str, ...]]:
    """Variables or headers by name, each with its value or a reference to what a person has to give; and the
    optional ones that are left out.
    """
    found: dict[str, str] = {}
    left: list[str] = []
    for one in _list(listed):
        name = _text(one.get("name"))
        wanted = bool(one.get("isRequired", one.get("is_required")))
        secret = bool(one.get("isSecret", one.get("is_secret")))
        value = _text(one.get("value")) or ("" if secret else _text(one.get("default")))
        if not name:
            continue
        if value:
            found[name] = _BRACES.sub(r"${input:\1}", value)
        elif wanted or secret:
            found[name] = f"${{input:{name}}}"
        else:
            left.append(name)
    return found, tuple(left)


def _arguments(listed: Any) -> Iterator[str]:
    """Those that have a value, in order; those that a person has to give stand as references."""
    for one in _list(listed):
        value = _text(one.get("value")) or _text(one.get("default"))
        if not value and (one.get("isRequired") or one.get("is_required")):
            hint = _text(one.get("valueHint") or one.get("value_hint") or one.get("name"))
            value = f"${{input:{hint.strip('-')}}}"
        if one.get("type") == "named" and (value or one.get("isRequired")) and _text(one.get("name")):
            yield _text(one.get("name"))
        if value:
            yield _BRACES.sub(r"${input:\1}", value)


def _sort_of(one: Mapping[str, Any]) -> str:
    return _text(one.get("type") or one.get("transport_type"))


def _list(found: Any) -> list[Mapping[str, Any]]:
    return [one for one in found[:_MOST] if isinstance(one, Mapping)] if isinstance(found, list) else []


def _text(found: Any) -> str:
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        return ""
    return str(found)[:_TEXT]
