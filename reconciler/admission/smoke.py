"""Smoke cases: which cases of its interfaces a binding has its new instance pass before the switch.

A name stands for the case of that name in every interface version that the connector implements. What would
cost money or change something may not run by itself, so such a case is refused here.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.admission import suites
from reconciler.admission.view import View, inside, nearest
from reconciler.config import toml
from reconciler.config.text import TextFault
from reconciler.model.inventory import Resource
from reconciler.model.problems import Problem, Span, quoted
from reconciler.model.resources import Binding, Interface


def smoke_cases_are_known_and_do_nothing(view: View, binding: Resource[Binding]) -> Iterator[Problem]:
    """Each smoke case is one of the connector's interfaces, and its tool has no effect."""
    asked = binding.spec.conformance.smoke
    connector = view.connector(binding.spec.connector) if asked and binding.spec.connector else None
    if connector is None:
        return
    found = [one for version in connector.spec.implements if (one := view.interface(version))]
    suites_of = [(interface, _tools(interface)) for interface in found]
    names = sorted({name for _, tools in suites_of for name in tools})
    for index, name in enumerate(asked):
        path = ("conformance", "smoke", index)
        if name not in names:
            near = nearest(name, names)
            yield Problem(
                code="B211",
                what=f"there is no case {quoted(name)}",
                why=f"a smoke case is a case of an interface that {connector.ref} implements",
                mend=f"write {quoted(near)}" if near else "write the name of a case, or delete it",
                at=Span(binding.file),
                path=path,
                about=binding.ref,
                reason="UnresolvedReference",
                candidates=(near,) if near else (),
            )
        for interface, tools in suites_of:
            if fault := _effect(interface, tools.get(name)):
                yield Problem(
                    code="B212",
                    what=f"the case {quoted(name)} of {interface.ref} {fault}",
                    why="smoke cases run by themselves before every switch, so they may change nothing",
                    mend=f"delete {quoted(name)}",
                    at=Span(binding.file),
                    path=path,
                    about=binding.ref,
                )


def suite(interface: Resource[Interface]) -> Mapping[str, Any]:
    """The table of an interface's suite; {} where it cannot be read, which is the interface's own problem."""
    read = toml.read(inside(interface).get(suites.SUITE, b""))
    return {} if isinstance(read, TextFault) else read


def _tools(interface: Resource[Interface]) -> dict[str, str]:
    """The tool that each case calls, by the case's name."""
    cases = suite(interface).get("case")
    tables = [one for one in cases if isinstance(one, dict)] if isinstance(cases, list) else []
    return {str(one["name"]): str(one["tool"]) for one in tables if {"name", "tool"} <= one.keys()}


def _effect(interface: Resource[Interface], tool: str | None) -> str:
    operation = interface.spec.operations.get(tool) if tool is not None else None
    if operation is None or (operation.effect == "none" and operation.kind == "call"):
        return ""
    if operation.effect != "none":
        return f"calls {quoted(tool)}, whose effect is {quoted(operation.effect)}"
    return f"calls {quoted(tool)}, which is not one call but a {quoted(operation.kind)}"
