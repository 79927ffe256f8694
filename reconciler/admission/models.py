"""Models: which of them an agent may ask for, where a tool takes a ``model``.

A binding's list is exact, and its first is the default; an agent's list narrows it. A list that no tool
reads, or a model that no binding of the agent has, would be a grant that does nothing: it is refused, since
it is most likely misspelt.
"""

from collections.abc import Iterable, Iterator

from reconciler.admission.selection import Selected
from reconciler.admission.view import View, nearest
from reconciler.model.contract import Contract
from reconciler.model.inventory import Resource
from reconciler.model.names import InterfaceRef
from reconciler.model.problems import Problem, Span, listed, quoted
from reconciler.model.resources import Agent, Binding


def models_are_listed_once(view: View, binding: Resource[Binding]) -> Iterator[Problem]:
    """The list of models is exact, and its first is the default."""
    seen: set[str] = set()
    for index, model in enumerate(binding.spec.models):
        if model in seen:
            yield Problem(
                code="B209",
                what=f"the model {quoted(model)} stands twice",
                why="models is an exact list, and its first is the default",
                mend="delete one",
                at=Span(binding.file),
                path=("models", index),
                about=binding.ref,
            )
        seen.add(model)


def some_tool_takes_a_model(view: View, binding: Resource[Binding]) -> Iterator[Problem]:
    """Where models are listed, a tool that the connector offers has an input ``model``."""
    connector = view.connector(binding.spec.connector) if binding.spec.connector else None
    if not binding.spec.models or connector is None or connector.spec.runtime == "dialect":
        return  # of profiles, the first that is listed is asked whatever a tool says
    offered = [view.contract(InterfaceRef.parse(version)) for version in connector.spec.implements]
    contracts = [one for one in offered if one is not None]
    if len(contracts) == len(offered) and not _takes_model(contracts):
        yield Problem(
            code="B213",
            what="'models' limits nothing",
            why=f"no tool of {listed(connector.spec.implements)} takes a model",
            mend="delete models",
            at=Span(binding.file),
            path=("models",),
            about=binding.ref,
        )


def models_of_agent(view: View, agent: Resource[Agent], selected: Iterable[Selected]) -> Iterator[Problem]:
    """What an agent narrows its models to is there: a tool that takes one, and a binding that has it."""
    if not agent.spec.models:
        return
    behind = [
        binding
        for one in selected
        if (contract := view.contract(one.interface)) is not None and _takes_model([contract])
        for name in one.each
        if (binding := view.binding(name.binding)) is not None
    ]
    if not behind:
        yield Problem(
            code="A226",
            what="'models' limits nothing",
            why="no service of this agent takes a model",
            mend="delete models",
            at=Span(agent.file),
            path=("models",),
            about=agent.ref,
        )
    elif all(binding.spec.models for binding in behind):
        known = list(dict.fromkeys(model for binding in behind for model in binding.spec.models))
        for index, model in enumerate(agent.spec.models):
            if model not in known:
                yield _unknown(agent, index, known)


def _unknown(agent: Resource[Agent], index: int, known: list[str]) -> Problem:
    model = agent.spec.models[index]
    near = nearest(model, known)
    return Problem(
        code="A225",
        what=f"no binding of this agent has the model {quoted(model)}",
        why=f"models narrows what its bindings allow: {listed(known)}",
        mend=f"write {quoted(near)}" if near else f"delete {quoted(model)}",
        at=Span(agent.file),
        path=("models", index),
        about=agent.ref,
        reason="UnresolvedReference",
        candidates=(near,) if near else (),
    )


def _takes_model(contracts: Iterable[Contract]) -> bool:
    return any(tool.takes_model for contract in contracts for tool in contract.tools.values())
