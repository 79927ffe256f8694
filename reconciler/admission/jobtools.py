"""A job's four tools: how they are named, that all are there, and the schemas that are the same everywhere.

An agent that can ask about one job can ask about any: what a handle is, and how a state is told, no interface
words anew. What a job wants, and what its result is, are the interface's own.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconciler.admission.findings import Finding
from reconciler.admission.view import whole_path
from reconciler.model.contract import SUBMIT
from reconciler.model.effects import UNKNOWN
from reconciler.model.inventory import Resource
from reconciler.model.jobs import CANCELLED, NOT_READY, SCHEMAS, bare, companions
from reconciler.model.problems import Problem, quoted
from reconciler.model.resources import Interface

Tools = Sequence[Mapping[str, Any]]
_SIDES = ("inputSchema", "outputSchema")
_WHY = "a job is submitted by one tool and asked about by three others, alike in every interface"


def problems(interface: Resource[Interface], tools: Tools) -> Iterator[Problem]:
    """What is wrong with the tools that are jobs, and with those that belong to them."""
    places = {tool["name"]: index for index, tool in enumerate(tools)}
    jobs = [name for name, one in interface.spec.operations.items() if one.kind == "job"]
    for name in jobs:
        if not name.endswith(SUBMIT):
            what = f"{quoted(name)} is a job, and its name does not end with {SUBMIT}"
            mend = f"rename it {quoted(name + SUBMIT)}"
            yield _own(interface, Finding("I256", ("operations", name), what, _WHY, mend))
            continue
        for kind, tool in {"job": name, **companions(name)}.items():
            if tool in places:
                yield from _schemas(interface, kind, tools[places[tool]], places[tool])
            elif kind != "job":  # that one is told of by operations_name_tools
                what = f"the job {quoted(name)} has no {quoted(tool)} beside it"
                yield _there(interface, Finding("I257", (), what, _WHY, f"add the tool {quoted(tool)}"))
    if jobs:
        yield from _errors(interface, jobs[0])


def _schemas(
    interface: Resource[Interface], kind: str, tool: Mapping[str, Any], index: int
) -> Iterator[Problem]:
    for side, wanted in zip(_SIDES, SCHEMAS[kind], strict=True):
        if wanted is not None and bare(tool[side]) != wanted:
            what = f"the {side} of {quoted(tool['name'])} is not that of every job"
            mend = f"write {json.dumps(wanted)}, with descriptions as you like"
            yield _there(interface, Finding("I258", (index, side), what, _WHY, mend))


def _errors(interface: Resource[Interface], job: str) -> Iterator[Problem]:
    missing = [one for one in (NOT_READY, CANCELLED, UNKNOWN) if one not in interface.spec.errors]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        what = f"{quoted(job)} is a job, and {' and '.join(missing)} {are} not listed in [errors]"
        mend = f'write {missing[0]} = "…" under [errors]'
        yield _own(interface, Finding("I259", ("operations", job), what, _WHY, mend))


def _own(interface: Resource[Interface], found: Finding) -> Problem:
    return found.problem(interface.file, interface.ref)


def _there(interface: Resource[Interface], found: Finding) -> Problem:
    return found.problem(whole_path(interface, "tools.json"), interface.ref)
