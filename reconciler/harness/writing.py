"""A connector and a binding for each MCP server, and one agent: texts with a comment on all that was decided.

No literal secret enters a text: where the source holds one, a reference stands, and a comment says where a
person puts the value. An argument or an address that holds one is cut, and the binding is suspended until a
person has mended it. What a server's tools fulfil cannot be known without asking it, so ``implements`` is
empty and nothing is selected.
"""

import json
import re
import urllib.parse
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from reconciler.config.text import decoded
from reconciler.harness import naming, secrecy
from reconciler.harness.formats import Left, Server
from reconciler.harness.secrecy import Reference
from reconciler.model import hosts
from reconciler.model.names import variable_is_reserved

_CUT = "<removed by import>"
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
_ENV_REFERENCE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PROGRAM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}")
_IMAGE = re.compile(r"[^@\s]+@sha256:[0-9a-f]{64}")
_OWN_HEADERS = frozenset({"accept", "content-type", "user-agent", "connection", "mcp-protocol-version"})
_STORES = {"var": "gridctl's variable store", "vault": "gridctl's variable store"}


class Origin(NamedTuple):
    """Where servers come from: the harness's word, and the file as a person would type it."""

    harness: str
    file: str


@dataclass(frozen=True, slots=True)
class Written:
    """What one server became: files by path, connector first, and what a person has yet to do."""

    name: str
    files: dict[str, str]
    todo: tuple[str, ...] = ()


class _Place(NamedTuple):
    """Where a slot's value is found: a comment, the reference in TOML, and what a person does for it."""

    comment: str
    reference: str
    todo: str


@dataclass(slots=True)
class _Draft:
    """One server on its way: what was decided so far."""

    name: str
    slots: dict[str, tuple[str, str]] = field(
        default_factory=dict
    )  # slot: the line that delivers it, for whom
    references: dict[str, "_Place"] = field(default_factory=dict)
    settings: dict[str, tuple[str, str]] = field(default_factory=dict)  # key: its variable, its value
    notes: list[str] = field(default_factory=list)  # what was not taken over
    missing: list[str] = field(default_factory=list)  # what has to be mended before it could serve


def written(server: Server, name: str, origin: Origin) -> Written | Left:
    """The files of one server under a name of ours, or why no connector could be it."""
    draft = _Draft(name)
    how = _how(server, draft)
    if isinstance(how, Left):
        return how
    for variable, text in server.env.items():
        _variable(draft, variable, text, bare=origin.harness == "gridctl")
    for header, text in server.headers.items():
        if server.url:
            _header(draft, header, text, bare=origin.harness == "gridctl")
        else:
            draft.notes.append(f"The header {_word(header)}: a program on its pipes is sent none")
    if server.untaken:
        draft.notes.append(f"These keys have no place in a connector: {_words(server.untaken)}")
    files = {
        f"connectors/{name}/connector.toml": _connector(server, draft, origin, how),
        f"bindings/{name}.toml": _binding(server, draft, origin),
    }
    todo = [f"bindings/{name}.toml: for {slot}, {one.todo}" for slot, one in draft.references.items()]
    return Written(
        name, files, (*todo, *(f"connectors/{name}/connector.toml: {one}" for one in draft.missing))
    )


def agent(name: str, bindings: Collection[str], origin: Origin) -> dict[str, str]:
    """The agent that stands for the harness: it may call nothing before its services are selected."""
    listed = "".join(f"#   {one}\n" for one in sorted(bindings)) or "#   (none)\n"
    text = f"""\
# The agent of {origin.harness}, written by 'handler import {origin.harness}'.
apiVersion = "handler.agent/v1"
description = "the servers of {origin.harness}"
# No folder of the source says which files it may use: name them, like ["~/documents"].
scope = []
# Nothing is selected: which interface a server fulfils is not known before its connector says so in
# 'implements'. Then select its binding here, as INTERFACE = "BINDING". Imported were:
{listed}services = {{}}
"""
    return {f"agents/{name}.toml": text}


# what starts, pulls or reaches a server


def _how(server: Server, draft: _Draft) -> list[str] | Left:
    """The lines that say how the server is had, or why it cannot be."""
    if server.image:
        return _of_image(server)
    if server.url:
        return _of_address(server, draft)
    return [
        "# A program that speaks MCP on its standard input and output: no shell, and no variable is put in.",
        'runtime = "mcp"',
        f"command = {_list(_arguments(server.command, draft))}",
        '# The source does not say what it may reach: without a host it has no network. As "HOST:PORT" each.',
        "egress = []",
    ]


def _of_image(server: Server) -> list[str] | Left:
    if not _IMAGE.fullmatch(server.image) or secrecy.looks_secret(server.image):
        return Left(server.name, "its image has no digest: write it as NAME@sha256:DIGEST in the source")
    return [
        "# An image by its digest, so that it stays what it was.",
        'runtime = "image"',
        f"image = {_quoted(server.image)}",
        '# The source does not say what it may reach: without a host it has no network. As "HOST:PORT" each.',
        "egress = []",
    ]


def _of_address(server: Server, draft: _Draft) -> list[str] | Left:
    text = secrecy.without_defaults(server.url)
    try:
        parts = urllib.parse.urlsplit(text)
        host, _ = parts.hostname or "", parts.port  # a port that is none is found when it is asked for
    except ValueError:
        return Left(server.name, "its address cannot be read")
    if parts.scheme != "https" or not host:
        return Left(server.name, "its address is not an https one, and a connector reaches no other")
    if secrecy.looks_secret(host) or re.search(r"[\s\"]", text) or ":-" in text or ":+" in text:
        return Left(server.name, "its address holds what does not belong into one")
    address = _clean_address(parts, host, draft)
    try:
        target = hosts.of_address(address)
    except ValueError as fault:
        return Left(server.name, f"its address cannot be reached as it stands: {fault}")
    if secrecy.reference(address):
        draft.missing.append("the address holds a reference, and nothing is put in: write the address itself")
    if server.sse:
        draft.missing.append(
            "the source says SSE, and a remote connector speaks streamable HTTP: write that address"
        )
    return [
        "# A server that is reached at its address, by streamable HTTP through the gate.",
        'runtime = "remote"',
        f"url = {_quoted(address)}",
        "# The host of its address, and nothing else.",
        f"egress = [{_quoted(str(target))}]",
    ]


def _clean_address(parts: urllib.parse.SplitResult, host: str, draft: _Draft) -> str:
    """The address without what may be a secret: a user, a query, a part of its path."""
    path = "/".join(
        _CUT_PART if secrecy.looks_secret(part) or len(part) > 60 else part for part in parts.path.split("/")
    )
    if path != parts.path or parts.query or parts.username or parts.password or parts.fragment:
        draft.missing.append(
            "the address held a user, a query or a key, which was cut: a secret goes into a slot"
        )
    shown = f"[{host}]" if ":" in host else host
    return f"https://{shown}{f':{parts.port}' if parts.port else ''}{path}"


_CUT_PART = "removed-by-import"


def _arguments(command: Sequence[str], draft: _Draft) -> list[str]:
    kept = []
    for number, text in enumerate(command):
        shown = _argument(command[number - 1] if number else "", text)
        if shown != text:
            draft.missing.append(f"argument {number} held what may be a secret, which was cut: use a slot")
        elif secrecy.reference(text):
            draft.missing.append(
                f"argument {number} holds a reference, and nothing is put in: write the value"
            )
        kept.append(shown)
    return kept


def _argument(before: str, text: str) -> str:
    """An argument without what may be a secret; ``before`` is the one in front of it."""
    bare = secrecy.without_defaults(text)
    option = re.fullmatch(r"--?([A-Za-z][A-Za-z0-9_-]*)", before)
    if option and not text.startswith("-") and (cut := _behind(option[1], text)) is not None:
        return cut
    name, equals, value = text.partition("=")
    if equals and value and re.fullmatch(r"-{0,2}[A-Za-z][A-Za-z0-9_.-]*", name):
        if name in ("--header", "-H"):
            return f"{name}={_header_argument(value)}"
        if secrecy.names_a_secret(name) or (_VARIABLE.fullmatch(name) and not secrecy.public(value)):
            return text if _only_a_reference(value) and bare == text else f"{name}={_CUT}"
    unread = "${" in bare and (":-" in bare or ":+" in bare)
    return _CUT if secrecy.looks_secret(bare) or unread else bare


def _behind(option: str, text: str) -> str | None:
    """What stays of an argument behind an option that may take a secret; None where that tells nothing."""
    if option in ("H", "header"):
        return _header_argument(text)
    named = secrecy.names_a_secret(option)
    named |= option in ("u", "user") and ":" in text and "://" not in text
    named |= option in ("p", "k") and "/" not in text and not text.isdigit()
    if not named:
        return None
    return text if _only_a_reference(text) and secrecy.without_defaults(text) == text else _CUT


def _header_argument(text: str) -> str:
    name, _, value = text.partition(":")
    if name.lower() in _OWN_HEADERS or not value:
        return text if not secrecy.looks_secret(text) else _CUT
    return f"{name[:64]}: {_CUT}"


def _only_a_reference(text: str) -> bool:
    found = secrecy.reference(text)
    return found is not None and found.whole


# variables and headers


def _variable(draft: _Draft, variable: str, text: str, *, bare: bool) -> None:
    if not _VARIABLE.fullmatch(variable):
        draft.missing.append(
            f"the variable {_word(variable)} was not taken over: a connector's are in capitals"
        )
        return
    if variable_is_reserved(variable):
        draft.notes.append(f"The variable {variable}: it steers the sandbox or the interpreter")
        return
    found = secrecy.reference(text, bare=bare)
    if found is None and not secrecy.names_a_secret(variable) and secrecy.public(text):
        draft.settings[naming.setting(variable, draft.settings)] = (variable, text)
        return
    slot = naming.slot(variable, draft.slots)
    draft.slots[slot] = (f'env = "{variable}"', f"the variable {variable}")
    draft.references[slot] = _referred(draft.name, slot, found)


def _header(draft: _Draft, header: str, text: str, *, bare: bool) -> None:
    if not _HEADER.fullmatch(header):
        draft.missing.append(f"the header {_word(header)} was not taken over: that is no name of one")
        return
    if header.lower() in _OWN_HEADERS or hosts.header_is_framing(header):
        draft.notes.append(f"The header {header}: whoever speaks MCP sets it")
        return
    if any(given.lower() == f'header = "{header.lower()}"' for given, _ in draft.slots.values()):
        draft.notes.append(f"The header {header}: it stands there twice, and one header holds one secret")
        return
    slot = naming.slot(header, draft.slots)
    draft.slots[slot] = (f'header = "{header}"', f"the header {header}")
    draft.references[slot] = _referred(draft.name, slot, secrecy.reference(text, bare=bare))


def _referred(name: str, slot: str, found: Reference | None) -> _Place:
    """Where a slot's value is found: as a reference of the source says, else in a file yet to be made."""
    path = f"~/.secrets/{name}-{slot.replace('_', '-')}"

    def filed(told: str) -> _Place:
        return _Place(told, f'{{ file = "{path}" }}', f"put the value into {path}, readable by you alone")

    if found is None:
        return filed(
            "The source holds a value here, which was not taken over. Put it into this file, readable by you "
            "alone (chmod 600), or name another place: a command, a variable."
        )
    if found.sort == "input":
        asked = f"The source asks for the input {_word(found.name)}."
        return filed(f"{asked} Put the answer into this file, readable by you alone (chmod 600).")
    if found.sort == "file" and found.whole and _is_path(found.name):
        reference = f"{{ file = {_quoted(found.name)} }}"
        return _Place("The file that the source names.", reference, "make its file readable by you alone")
    if found.sort not in ("env", *_STORES) or not _ENV_REFERENCE.fullmatch(found.name):
        return filed("The source refers to a place that is not known here. Put the value into this file.")
    place = (
        f"{_STORES[found.sort]}, under {found.name}"
        if found.sort in _STORES
        else f"the variable {found.name}"
    )
    if found.scheme or not found.whole:
        around = (
            f"'{found.scheme} ' stands before it" if found.scheme and found.whole else "text stands around it"
        )
        whole = "A reference is the whole value: put that into this file (chmod 600)."
        return filed(f"The source takes it from {place}, and {around}. {whole}")
    default = " The default that the source gives was not taken over." if found.default else ""
    told = f"The source takes it from {place}; handlerd reads it from its own environment.{default}"
    return _Place(told, f'{{ env = "{found.name}" }}', f"set {found.name} in the environment of handlerd")


def _is_path(text: str) -> bool:
    return text.startswith(("/", "~/")) and not secrecy.looks_secret(text)


# the texts


def _head(server: Server, origin: Origin) -> Iterator[str]:
    where = f"of {origin.harness}, from {_word(origin.file)}"
    yield from _comment(f"The MCP server {_word(server.name)} {where}, written by 'handler import'.")


def _connector(server: Server, draft: _Draft, origin: Origin, how: Iterable[str]) -> str:
    lines = [
        *_head(server, origin),
        "# None of it runs before it implements an interface; docs/importing.md says what else that takes.",
        'apiVersion = "handler.connector/v1"',
        f'name = "{draft.name}"',
        f'description = "the MCP server {draft.name}"',
        "# Which interfaces it fulfils is not known before its tools are looked at: write their versions,",
        "# and how its tools become theirs under [tool.NAME]. Until then nothing can select it.",
        "implements = []",
        *how,
    ]
    if draft.notes:
        lines += ["", "# Not taken over from the source:", *(f"#   {one}" for one in draft.notes)]
    if draft.missing:
        lines += ["", "# To be mended before it can serve:", *(f"#   {one}" for one in draft.missing)]
    for slot, (how_given, what) in draft.slots.items():
        lines += [
            "",
            f"# A secret: the binding says where it is found ({what} of the source).",
            f"[secretSlots.{slot}]",
        ]
        lines += [how_given, f'description = "{what}"', "required = true"]
    for key, (variable, _) in draft.settings.items():
        lines += ["", "# Taken for no secret; if it is one, move it to a slot.", f"[settings.{key}]"]
        lines += [f'env = "{variable}"', f'description = "the variable {variable}"']
    lines += list(_sandbox(server))
    return "\n".join(lines) + "\n"


def _sandbox(server: Server) -> Iterator[str]:
    if server.url or server.image:
        return
    program = server.command[0].rpartition("/")[2]
    fits = "/" not in server.command[0] and _PROGRAM.fullmatch(program) is not None
    yield from (
        "",
        "# Programs of this machine that it may run: its own command. It may need more.",
        "[sandbox]",
    )
    yield f"programs = [{_quoted(program) if fits and not secrecy.looks_secret(program) else ''}]"


def _binding(server: Server, draft: _Draft, origin: Origin) -> str:
    lines = [
        *_head(server, origin),
        'apiVersion = "handler.binding/v1"',
        "# Written beside this one.",
        f'connector = "{draft.name}"',
        f'description = "the MCP server {draft.name}"',
    ]
    reasons = ["it was switched off where it was imported from"] if server.disabled else []
    reasons += ["it was imported in part: its connector says what to mend"] if draft.missing else []
    if reasons:
        lines += [
            f"# {reasons[0][:1].upper()}{reasons[0][1:]}. 'handler resume binding/{draft.name}' ends it.",
            "suspend = true",
            f'suspendReason = "{"; ".join(reasons)}"',
        ]
    for slot, place in draft.references.items():
        lines += ["", *_comment(place.comment), f"secrets.{slot} = {place.reference}"]
    for key, (variable, value) in draft.settings.items():
        lines += [
            "",
            f"# The value of {variable}, as the source has it.",
            f"settings.{key} = {_quoted(value)}",
        ]
    return "\n".join(lines) + "\n"


def _comment(text: str) -> Iterator[str]:
    """A sentence as lines of a comment."""
    line = "#"
    for word in text.split():
        if len(line) + len(word) > 105:
            yield line
            line = "#"
        line += f" {word}"
    yield line


def _list(texts: Iterable[str]) -> str:
    quoted = [_quoted(text) for text in texts]
    flat = f"[{', '.join(quoted)}]"
    if len(flat) + len("command = ") <= 100:
        return flat
    return "[\n" + "".join(f"  {one},\n" for one in quoted) + "]"


def _quoted(text: str) -> str:
    """A text as TOML has it, with all that cannot be seen written as an escape."""
    plain = isinstance(decoded(text.encode()), str) and "\n" not in text and "\t" not in text
    return '"' + "".join(_escaped(ch, raw=plain) for ch in text) + '"'


def _escaped(ch: str, *, raw: bool) -> str:
    if ch in '"\\':
        return f"\\{ch}"
    if " " <= ch <= "~" or (raw and ch > "~"):
        return ch
    return f"\\u{ord(ch):04X}" if ord(ch) < 0x10000 else f"\\U{ord(ch):08X}"


def _word(text: str) -> str:
    """Somebody's own word in a comment or a sentence: one line, plain characters, no longer than 80."""
    return json.dumps(text if len(text) <= 80 else f"{text[:79]}…", ensure_ascii=True)


def _words(texts: Iterable[str]) -> str:
    listed = list(texts)
    return ", ".join(map(_word, listed[:20])) + (f" and {len(listed) - 20} more" if len(listed) > 20 else "")
