"""The cases that decide what "a connector implements ocr/v1" means, as far as files show (S6, seed 000 §4.4).

A suite has a case for every tool; a case names a tool, gives an input whose files lie beside it, and expects
properties, never exact outputs. Running a suite is another room's work: nothing here judges an answer.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.admission.findings import Finding
from reconciler.admission.tools import Tools
from reconciler.admission.view import inside, nearest, whole_path
from reconciler.config import toml
from reconciler.config.text import TextFault
from reconciler.model.contract import FILE_IN, ROUTER_CODES, file_fields
from reconciler.model.inventory import Resource
from reconciler.model.jobs import companions
from reconciler.model.problems import Problem, Span, quoted
from reconciler.model.resources import Interface

SUITE = "conformance/cases.toml"
_KEYS = ("name", "tool", "input", "tier", "expect")
_TIERS = ("conformance", "certification")
_WHOLE = ("contains", "notContains", "error", "maxSeconds", "fileType")
_ABOUT_A_PATH = ("minItems", "maxItems", "min", "max", "pattern", "equals", "type")
_WITHOUT_FILES = ("refused", "invalid_input")  # what a case may expect of a file that is not there

Case = Mapping[str, Any]


def problems(interface: Resource[Interface], tools: Tools) -> Iterator[Problem]:
    """Everything that is wrong with the suite of a version."""
    at = whole_path(interface, SUITE)
    suite = toml.read(inside(interface).get(SUITE, b""))
    if isinstance(suite, TextFault):
        where = Span(at, suite.line, suite.column)
        yield Problem("I242", suite.what, suite.why, suite.mend, where, about=interface.ref)
        return
    for found in _findings(interface, tools, suite):
        yield found.problem(at, interface.ref)


def _findings(interface: Resource[Interface], tools: Tools, suite: Mapping[str, Any]) -> Iterator[Finding]:
    if SUITE not in inside(interface):
        why = "what it means to implement a version is decided by its cases"
        yield Finding(
            "I241", (), f"{SUITE} is missing", why, f"write {SUITE} with one [[case]] for each tool"
        )
        return
    shape = list(_shape(suite))
    yield from shape
    if not shape:
        for rule in RULES:
            yield from rule(interface, tools, suite["case"])


def _shape(suite: Mapping[str, Any]) -> Iterator[Finding]:
    why = "a suite is a list of [[case]], each with name, tool, input and what to expect"
    for key in suite.keys() - {"case"}:
        yield Finding(
            "I243", (key,), f"{quoted(key)} is not a key of a suite", why, "write [[case]]", on_key=True
        )
    cases = suite.get("case")
    if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
        yield Finding("I243", (), "the suite has no list of cases", why, "write [[case]]")
        return
    for index, case in enumerate(cases):
        for key in case.keys() - set(_KEYS):
            near = nearest(key, _KEYS)
            mend = f"write {quoted(near)}" if near else f"delete {quoted(key)}"
            what = f"{quoted(key)} is not a key of a case"
            yield Finding("I243", ("case", index, key), what, why, mend, on_key=True)
        yield from _values(case, index, why)


def _values(case: Case, index: int, why: str) -> Iterator[Finding]:
    misspelt = {nearest(key, _KEYS) for key in case.keys() - set(_KEYS)}
    for key, kind, words in (("name", str, "text"), ("tool", str, "text"), ("input", dict, "a table")):
        if not isinstance(case.get(key), kind) and key not in misspelt:
            what = f"{quoted(key)} of the case is missing or not {words}"
            yield Finding("I243", ("case", index), what, why, f"write {key} as {words}")
    if case.get("tier", "conformance") not in _TIERS:
        what = f"the tier {quoted(case['tier'])} is not known"
        yield Finding("I243", ("case", index, "tier"), what, why, "write 'conformance' or 'certification'")
    expect = case.get("expect", {})
    if not isinstance(expect, dict):
        yield Finding(
            "I243", ("case", index, "expect"), "'expect' is not a table", why, "write expect.contains"
        )
        return
    yield from _assertions(expect, ("case", index, "expect"), why)


def _assertions(expect: Mapping[str, Any], path: tuple[str | int, ...], why: str) -> Iterator[Finding]:
    """Leaves are assertions; tables between are the path of the value that they are about."""
    known = (*_WHOLE, *_ABOUT_A_PATH)
    for key, value in expect.items():
        if isinstance(value, dict):
            yield from _assertions(value, (*path, key), why)
        elif key not in known:
            near = nearest(key, known)
            mend = f"write {quoted(near)}" if near else f"write one of {', '.join(known)}"
            yield Finding("I243", (*path, key), f"{quoted(key)} asserts nothing", why, mend, on_key=True)


def cases_name_tools(interface: Resource[Interface], tools: Tools, cases: list[Case]) -> Iterator[Finding]:
    """A case calls a tool of this version."""
    names = [tool["name"] for tool in tools]
    for index, case in enumerate(cases):
        if case["tool"] not in names:
            near = nearest(case["tool"], names)
            what = f"{quoted(case['tool'])} is not a tool of this version"
            why = "a case calls one tool of the version it belongs to"
            mend = f"write {quoted(near)}" if near else f"write one of {', '.join(map(quoted, names))}"
            yield Finding("I244", ("case", index, "tool"), what, why, mend)


def every_tool_has_a_case(
    interface: Resource[Interface], tools: Tools, cases: list[Case]
) -> Iterator[Finding]:
    """S6: what is never tried is never known. A case of a job asks for its companions, too."""
    tried = {case["tool"] for case in cases}
    for name, operation in interface.spec.operations.items():
        if operation.kind == "job" and name in tried:
            tried |= set(companions(name).values())
    for tool in tools:
        if tool["name"] not in tried:
            what = f"no case calls {quoted(tool['name'])}"
            mend = f'add a [[case]] with tool = "{tool["name"]}"'
            yield Finding("I245", (), what, "a suite has at least one case for each tool (S6)", mend)


def cases_expect_listed_errors(
    interface: Resource[Interface], tools: Tools, cases: list[Case]
) -> Iterator[Finding]:
    """An expected error is one that an agent can get: listed, or the router's own."""
    known = (*interface.spec.errors, *ROUTER_CODES, "outcome_unknown")
    for index, case in enumerate(cases):
        code = case.get("expect", {}).get("error")
        if code is not None and code not in known:
            near = nearest(str(code), known)
            what = f"the error {quoted(code)} is not listed in interface.toml"
            why = "errors are a closed list: no connector can return another (S3)"
            mend = f"write {quoted(near)}" if near else f"list {quoted(code)} in [errors]"
            yield Finding("I246", ("case", index, "expect", "error"), what, why, mend)


def case_files_are_there(
    interface: Resource[Interface], tools: Tools, cases: list[Case]
) -> Iterator[Finding]:
    """A file that a case hands over lies in the suite's folder, which is the case's scope."""
    fields = {tool["name"]: file_fields(tool["inputSchema"]) for tool in tools}
    for index, case in enumerate(cases):
        if case.get("expect", {}).get("error") in _WITHOUT_FILES:
            continue
        for field in fields.get(case["tool"], ()):
            value = case["input"].get(field.name)
            for path in () if field.output else value if isinstance(value, list) else (value,):
                if isinstance(path, str) and f"conformance/{path}" not in inside(interface):
                    what = f"the file {quoted(path)} of the case is not in conformance/"
                    why = f"the suite's folder is the scope of its cases, and {FILE_IN} is read from there"
                    mend = f"add conformance/{path}"
                    yield Finding("I247", ("case", index, "input", field.name), what, why, mend)


RULES = (cases_name_tools, every_tool_has_a_case, cases_expect_listed_errors, case_files_are_there)
