"""How the tools of a wrapped MCP server become an interface's: that nothing is missing, and all can be run.

What the server really offers shows when it starts; what the file alone tells is said here. Expressions are
JMESPath with four functions of ours, bounded in length; they are run inside the sandbox, never here.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from reconciler.admission.slots import Words, problem
from reconciler.admission.view import View, nearest
from reconciler.model.contract import COMPANIONS, Tool
from reconciler.model.inventory import Resource
from reconciler.model.names import InterfaceRef
from reconciler.model.problems import Path, Problem, Severity, listed, quoted
from reconciler.model.resources import Connector, ToolMapping

MAX_EXPRESSION = 4096  # characters
FUNCTIONS = ("file", "data_url", "save", "parse_json")
OF_DIALECTS = (  # without code there are more
    *FUNCTIONS, "part", "width", "height", "seconds", "webvtt", "visible", "lines", "vector_lines",
    "nearest", "unit",
)  # fmt: skip
_SHAPES = ("input", "output")
_DIALECT = ("operation", "needs")
_ANSWER = ("structured", "json", "text", "content", "arguments")  # as the wrapper gives it
_STEPS = frozenset(  # of these the first child alone reads what the whole is given
    {
        "subexpression",
        "index_expression",
        "projection",
        "value_projection",
        "filter_projection",
        "flatten",
        "pipe",
    }
)
_WRAPPED = ("mcp", "remote")


def _is_wrapped(connector: Resource[Connector]) -> bool:
    """An image without a table is a program that knows the interface's tools itself."""
    return connector.spec.runtime in _WRAPPED or (
        connector.spec.runtime == "image" and bool(connector.spec.tool)
    )


def _is_mapped(connector: Resource[Connector]) -> bool:
    """Whether its tools are told by tables: what is wrapped, and what has no code at all."""
    return connector.spec.runtime == "dialect" or _is_wrapped(connector)


def tools_are_covered(view: View, connector: Resource[Connector]) -> Iterator[Problem]:
    """Each tool of each implemented version has its table, and no table is of another tool."""
    if not _is_wrapped(connector):
        return
    known = _tools(view, connector)
    for name in sorted(known.keys() - connector.spec.tool.keys()):
        words = Words(
            f"the tool {quoted(name)} is not mapped",
            "a connector answers every tool of a version",
            f"add [tool.{name}] with from, the wrapped server's name of it",
        )
        yield problem(connector, ("tool",), "C219", words)
    for name in connector.spec.tool.keys() - known.keys() if known else ():
        near = nearest(name, known)
        words = Words(
            f"no implemented version has the tool {quoted(name)}",
            "tools are mapped by the interface's names",
            f"write {quoted(near)}" if near else "delete the table",
        )
        yield problem(connector, ("tool", name), "C220", words, on_key=True)


def expressions_run(view: View, connector: Resource[Connector]) -> Iterator[Problem]:
    """Each ``input`` and ``output`` is JMESPath of known functions; the keys of dialects stay away."""
    if not _is_mapped(connector):
        return
    known = FUNCTIONS if _is_wrapped(connector) else OF_DIALECTS
    for name, mapping in connector.spec.tool.items():
        for key in _SHAPES:
            text = getattr(mapping, key)
            if text is not None and (fault := expression_fault(text, known)):
                words = Words(
                    f"cannot run the {key} of {quoted(name)}: {fault}",
                    "arguments and answers are reshaped by a JMESPath expression",
                    "write one like '{pages: [{text: text}]}'",
                )
                yield problem(connector, ("tool", name, key), "C221", words)
        if _is_wrapped(connector):
            yield from _of_dialects(connector, name, mapping)


def _of_dialects(connector: Resource[Connector], name: str, mapping: ToolMapping) -> Iterator[Problem]:
    for key in _DIALECT:
        if getattr(mapping, key):
            words = Words(
                f"{quoted(key)} says nothing to runtime {connector.spec.runtime}",
                f"{quoted(key)} belongs to runtime dialect",
                f"delete {quoted(key)}",
            )
            yield problem(connector, ("tool", name, key), "C223", words, on_key=True)


def names_are_there(view: View, connector: Resource[Connector]) -> Iterator[Problem]:
    """What an expression reads first is an argument of the tool, or a part of the answer: else it is null."""
    if not _is_wrapped(connector):
        return
    arguments = _arguments(view, connector)
    for name, mapping in connector.spec.tool.items():
        for key, known in (("input", arguments.get(name)), ("output", _ANSWER)):
            text = getattr(mapping, key)
            if known is None or text is None or expression_fault(text):
                continue
            for word in dict.fromkeys(_read_first(text)):
                if word not in known:
                    yield _unknown(connector, ("tool", name, key), word, known)


def _unknown(connector: Resource[Connector], path: Path, word: str, known: Collection[str]) -> Problem:
    key = path[-1]
    near = nearest(word, known)
    words = Words(
        f"{quoted(word)} is nothing that the {key} of {quoted(str(path[1]))} is made from",
        "an argument of the tool is read by its name; what is not there is null"
        if key == "input"
        else "an answer has these parts, and what is not there is null",
        f"write {quoted(near)}" if near else f"write {listed(map(quoted, sorted(known)))}",
    )
    return replace(problem(connector, path, "C242", words), severity=Severity.WARNING)


def errors_are_listed(view: View, connector: Resource[Connector]) -> Iterator[Problem]:
    """A code that an error becomes is one that the interface lists, or ``unavailable``."""
    if not _is_mapped(connector):
        return
    known = _tools(view, connector)
    for name, mapping in connector.spec.tool.items():
        if name not in known:
            continue
        codes = known[name] | {"unavailable"}
        for word, code in mapping.errors.items():
            if code in codes:
                continue
            words = Words(
                f"the error {quoted(code)} is none of the interface's",
                "an agent meets the codes that its interface lists, and no others",
                f"write {listed(map(quoted, sorted(codes)))}",
            )
            yield problem(connector, ("tool", name, "errors", word), "C222", words)


def expression_fault(text: str, ours: Collection[str] = FUNCTIONS) -> str | None:
    """Why an expression cannot be run, as a clause, or None when it can."""
    import jmespath  # noqa: PLC0415 - only who wraps a server pays for it
    from jmespath import exceptions, functions  # noqa: PLC0415

    if len(text) > MAX_EXPRESSION:
        return f"it has {len(text)} characters, more than {MAX_EXPRESSION}"
    try:
        parsed = jmespath.compile(text).parsed
    except exceptions.JMESPathError as fault:
        return " ".join(str(fault).split("\n")[0].split()).rstrip(":.")
    except RecursionError:
        return "it is nested too deep"
    known = {*functions.Functions.FUNCTION_TABLE, *ours}
    unknown = sorted(set(_called(parsed)) - known)
    return f"there is no function {quoted(unknown[0])}" if unknown else None


def _read_first(text: str) -> Iterator[str]:
    """The names that an expression reads of what it is given, and not of what it found in it."""
    import jmespath  # noqa: PLC0415 - as above

    nodes = [jmespath.compile(text).parsed]
    while nodes:
        one = nodes.pop()
        if one["type"] == "field":
            yield one["value"]
        inner = one["children"]
        nodes += inner[:1] if one["type"] in _STEPS else () if one["type"] == "expref" else reversed(inner)


def _called(node: Mapping[str, Any]) -> Iterator[str]:
    """The functions that an expression calls."""
    nodes = [node]
    while nodes:
        one = nodes.pop()
        if one["type"] == "function_expression":
            yield one["value"]
        nodes += one["children"]


def _arguments(view: View, connector: Resource[Connector]) -> dict[str, set[str]]:
    """The arguments of every tool of the implemented versions, in any of them."""
    found: dict[str, set[str]] = {}
    for version in dict.fromkeys(connector.spec.implements):
        contract = view.contract(InterfaceRef.parse(version))
        for name, tool in contract.tools.items() if contract is not None else ():
            found.setdefault(name, set()).update(tool.definition["inputSchema"].get("properties", {}))
    return found


def _tools(view: View, connector: Resource[Connector]) -> dict[str, set[str]]:
    """The error codes of every tool of the implemented versions in force; common to all of them. What
    asks about a job, no connector answers.
    """
    found: dict[str, set[str]] = {}
    for version in dict.fromkeys(connector.spec.implements):
        contract = view.contract(InterfaceRef.parse(version))
        tools: Iterable[Tool] = contract.tools.values() if contract is not None else ()
        for name in (one.name for one in tools if one.kind not in COMPANIONS):
            codes = set(contract.errors) if contract is not None else set()
            found[name] = found.get(name, codes) & codes
    return found


RULES = (tools_are_covered, expressions_run, names_are_there, errors_are_listed)
