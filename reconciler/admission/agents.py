"""Agents: may this one start a session, with what behind each interface, and in which folders (G3)?

An agent is admitted as a whole or not at all: one service that cannot be given refuses it, and nothing is
widened. Its selections come out of the same pass. ``what_still_stands`` is for an agent that is refused now
and keeps its last admitted form: of that form, whatever can still be routed.
"""

from collections.abc import Iterator

from reconciler.admission import agentcalls
from reconciler.admission.models import models_of_agent
from reconciler.admission.scopes import holds, overlaps, plain
from reconciler.admission.selection import Selected, Selections
from reconciler.admission.view import View, nearest
from reconciler.admission.wiring import choice_problems, choices, waits
from reconciler.model import hosts
from reconciler.model.inventory import Resource
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.problems import Path, Problem, Severity, Span, quoted
from reconciler.model.resources import Agent, Project


def judged(view: View, agent: Resource[Agent]) -> tuple[tuple[Problem, ...], tuple[Selected, ...]]:
    """The problems of an agent, and what it uses when it has none."""
    problems = [problem for rule in RULES for problem in rule(view, agent)]
    project = _project(view, agent)
    if agent.spec.project is not None and project is None:
        # Its defaults and requirements are not known, so only what stands in the agent's own file is judged.
        for choice in choices(agent).values():
            problems += choice_problems(view, choice, agent.ref)
        return tuple(problems), ()
    selections = Selections(view, agent, project)
    problems += selections.problems
    if not selections.problems:
        problems += models_of_agent(view, agent, selections.selected)
    return tuple(problems), () if problems else selections.selected


def what_still_stands(view: View, agent: Resource[Agent]) -> tuple[Selected, ...]:
    """What of an agent's last admitted form still has its place, be it closed where nothing can answer."""
    return Selections(view, agent, _project(view, agent)).selected


def project_is_known(view: View, agent: Resource[Agent]) -> Iterator[Problem]:
    """The project whose defaults it inherits exists; a refused one makes it wait."""
    name = agent.spec.project
    if name is None or view.project(name) is not None:
        return
    ref = ObjectRef(Kind.PROJECT, name)
    if view.waits(ref):
        yield waits("A218", ref, Span(agent.file), ("project",), agent.ref)
        return
    near = nearest(name, view.names(Kind.PROJECT))
    yield Problem(
        code="A201",
        what=f"project {quoted(name)} does not exist",
        why="an agent inherits the defaults and requirements of a known project",
        mend=f"write {quoted(near)}" if near else f"add projects/{name}.toml",
        at=Span(agent.file),
        path=("project",),
        about=agent.ref,
        reason="UnresolvedReference",
        candidates=(near,) if near else (),
    )


def scope_leaves_the_product_alone(view: View, agent: Resource[Agent]) -> Iterator[Problem]:
    """Folders are written plainly, once, and none that can be written to overlaps our own (ruling 11)."""
    seen: set[str] = set()
    for index, entry in enumerate(agent.spec.scope):
        path: Path = ("scope", index)
        written, access = (entry, "create") if isinstance(entry, str) else (entry.path, entry.access)
        if not isinstance(entry, str):
            path = (*path, "path")
        folder = _at_home(view, written)
        if not plain(written):
            words = (
                "is not written plainly",
                "a folder is compared as it is written",
                "leave '.', '..' and '//' out",
            )
            yield _scope_problem(agent, (path, written), ("A212", *words))
        elif folder in seen:
            words = ("stands twice", "each folder has one access", "delete one")
            yield _scope_problem(agent, (path, written), ("A213", *words))
        elif access != "read" and folder and overlaps(folder, view.where.forbidden):
            ours = next(one for one in view.where.forbidden if overlaps(folder, (one,)))
            what = "holds" if holds(folder, (ours,)) else "lies in"
            words = (
                f"{what} a folder of the product",
                "an agent that could write there could change what it is allowed",
                f"name a folder beside it, or write {{ path = {quoted(written)}, access = 'read' }}",
            )
            yield _scope_problem(agent, (path, written), ("A211", *words))
        seen.add(folder or written)


def _at_home(view: View, written: str) -> str:
    """The absolute folder that is meant; "" when it lies at home and home is not known."""
    if not written.startswith("~/"):
        return written.rstrip("/") or "/"
    return f"{view.where.home}/{written[2:]}".rstrip("/") if view.where.home else ""


def _scope_problem(
    agent: Resource[Agent], place: tuple[Path, str], words: tuple[str, str, str, str]
) -> Problem:
    (path, written), (code, what, why, mend) = place, words
    return Problem(
        code=code,
        what=f"the folder {quoted(written)} {what}",
        why=why,
        mend=mend,
        at=Span(agent.file),
        path=path,
        about=agent.ref,
    )


def called_agents_are_known(view: View, agent: Resource[Agent]) -> Iterator[Problem]:
    """Whom it may call is an agent that exists, and not itself."""
    others = [name for name in view.names(Kind.AGENT) if name != agent.ref.name] if agent.spec.agents else []
    for index, name in enumerate(agent.spec.agents):
        if name not in others:
            near = nearest(name, others)
            yield Problem(
                code="A219",
                what=f"agent {quoted(name)} is not another agent",
                why="an agent may call agents that exist, and not itself",
                mend=f"write {quoted(near)}" if near else f"delete {quoted(name)}",
                at=Span(agent.file),
                path=("agents", index),
                about=agent.ref,
                reason="UnresolvedReference",
            )


def sandbox_reaches_exact_hosts(view: View, agent: Resource[Agent]) -> Iterator[Problem]:
    """What its sandbox may reach are hosts in the one form that a list can be compared by."""
    for index, fault in hosts.faults(agent.spec.sandbox.egress):
        yield Problem(
            code="A227",
            what=f"{quoted(agent.spec.sandbox.egress[index])} is no host that can be reached",
            why=fault,
            mend="write host:port, like 'api.example.com:443'",
            at=Span(agent.file),
            path=("sandbox", "egress", index),
            about=agent.ref,
        )
    for index, what, why, mend in hosts.doubts(agent.spec.sandbox.egress):
        yield Problem(
            code="A228",
            what=what,
            why=why,
            mend=mend,
            at=Span(agent.file),
            path=("sandbox", "egress", index),
            severity=Severity.WARNING,
            about=agent.ref,
        )


RULES = (
    project_is_known,
    scope_leaves_the_product_alone,
    sandbox_reaches_exact_hosts,
    called_agents_are_known,
    *agentcalls.RULES,
)


def _project(view: View, agent: Resource[Agent]) -> Resource[Project] | None:
    return view.project(agent.spec.project) if agent.spec.project else None
