"""Agents that call one another: how one works for others, and by which service it is called."""

from collections.abc import Iterator

from reconciler.admission.view import View, nearest
from reconciler.model.inventory import Resource
from reconciler.model.names import Kind
from reconciler.model.problems import Problem, Severity, Span, quoted
from reconciler.model.resources import Agent

_INPUT = "{input}"
_SERVICE = "agent"  # the interface that agents are called by


def works_in_one_way(view: View, agent: Resource[Agent]) -> Iterator[Problem]:
    """Who works for others does so by a command or by a chain."""
    run = agent.spec.run
    if run is None or bool(run.command) is not (run.chain is not None):
        return
    yield Problem(
        code="A232",
        what="'run' names a command and a chain" if run.chain is not None else "'run' names nothing to run",
        why="an agent works for others in one way: by a command in its sandbox, or by a chain",
        mend="keep one of command and chain"
        if run.chain is not None
        else 'write command = ["PROGRAM", "{input}"], or chain = "ID"',
        at=Span(agent.file),
        path=("run", "chain") if run.chain is not None else ("run",),
        about=agent.ref,
    )


def its_text_is_a_whole_argument(view: View, agent: Resource[Agent]) -> Iterator[Problem]:
    """What others say is never a part of a word: a shell, or an option, would make something else of it."""
    for at, word in enumerate((agent.spec.run.command if agent.spec.run else None) or ()):
        if _INPUT not in word or (at and word == _INPUT):
            continue
        first = not at
        yield Problem(
            code="A235",
            what="the program is what others say" if word == _INPUT else f"{quoted(word)} stays as it is",
            why="what others say is one whole argument, and never a part of one: a shell would run it",
            mend='write "PROGRAM", "{input}"'
            if first
            else "write '{input}' as an argument of its own; after sh -c 'LINE', as \"$1\": 'sh', '{input}'",
            at=Span(agent.file),
            path=("run", "command", at),
            about=agent.ref,
        )


def its_chain_is_known(view: View, agent: Resource[Agent]) -> Iterator[Problem]:
    """The chain that answers is there; whether it can run is told of the chain."""
    chain = agent.spec.run.chain if agent.spec.run is not None else None
    if chain is None or chain in (known := view.names(Kind.CHAIN)):
        return
    near = nearest(chain, known)
    yield Problem(
        code="A233",
        what=f"chain {quoted(chain)} does not exist",
        why="what an agent works by for others is a chain of this configuration",
        mend=f"write {quoted(near)}" if near else f"add chains/{chain}.toml",
        at=Span(agent.file),
        path=("run", "chain"),
        about=agent.ref,
        reason="UnresolvedReference",
        candidates=(near,) if near else (),
    )


def it_can_reach_whom_it_may_call(view: View, agent: Resource[Agent]) -> Iterator[Problem]:
    """Agents are called by the tools of a service like any other."""
    spec = agent.spec
    project = view.project(spec.project) if spec.project else None
    services = {**(project.spec.services if project is not None else {}), **spec.services}
    if not spec.agents or _SERVICE in services:
        return
    yield Problem(
        code="A234",
        what="'agents' lists whom it may call, and it has no service to call by",
        why="agents are called by the tools of agent/v1",
        mend='add agent = "…" to services: a binding of connector agent-local',
        at=Span(agent.file),
        path=("agents",),
        severity=Severity.WARNING,
        about=agent.ref,
    )


RULES = (
    works_in_one_way,
    its_text_is_a_whole_argument,
    its_chain_is_known,
    it_can_reach_whom_it_may_call,
)
