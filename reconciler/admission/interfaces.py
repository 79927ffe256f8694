"""Interface versions: what may be published, and the contract that is compiled from it (S1 to S6).

A version is a folder: ``interface.toml``, ``tools.json``, ``skills/``, ``conformance/`` and nothing else.
Its texts are judged in the order in which one fault hides another: tools that cannot be read have no schemas,
and schemas that are refused have no suite worth judging. The contract is compiled last and only of what
passed. Depends on nothing but the layer's lock.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.admission import companions, frozen, guidance, suites, tools
from reconciler.admission.view import View, enough, inside, whole_path
from reconciler.model.contract import Contract, compiled
from reconciler.model.inventory import Resource
from reconciler.model.problems import Problem, Severity, Span, quoted
from reconciler.model.resources import Interface

_TEXTS = ("interface.toml", "tools.json")
_FOLDERS = ("skills/", "conformance/")


@dataclass(frozen=True, slots=True)
class Judged:
    """The problems of a version, and its contract when none of them is an error."""

    problems: tuple[Problem, ...]
    contract: Contract | None


def judged(view: View, interface: Resource[Interface]) -> Judged:
    """Judge one interface version by every rule."""
    found = list(enough(problem for rule in RULES for problem in rule(view, interface)))
    listed_tools, unreadable = tools.read(interface)
    found += unreadable
    contract = None
    if listed_tools:
        of_tools = list(enough(tools.problems(interface, listed_tools)))
        if view.locked(interface.layer, interface.ref.name) is None and not refuses(of_tools):
            of_tools += tools.official_findings(interface, listed_tools)
        if not refuses(of_tools):
            contract = _compiled(interface, listed_tools, of_tools)
        found += of_tools
    if contract is not None:
        found += enough(suites.problems(interface, listed_tools))
    locked = view.locked(interface.layer, interface.ref.name)
    if locked is not None and locked.digest == f"sha256:{interface.digest}":
        always = companions.CODES.values()
        # No byte of it can be mended any more; only of a leaked key something can still be done.
        found = [one for one in found if one.severity is Severity.ERROR or one.code in always]
    return Judged(tuple(found), None if refuses(found) else contract)


def _compiled(
    interface: Resource[Interface], listed_tools: tools.Tools, found: list[Problem]
) -> Contract | None:
    try:
        return compiled(interface.spec, inside(interface)["tools.json"])
    except ValueError as fault:
        found.append(tools.cannot_compile(interface, listed_tools, fault))
        return None


def refuses(problems: list[Problem]) -> bool:
    """Whether one of them is an error."""
    return any(problem.severity is Severity.ERROR for problem in problems)


def effects_list_outcome_unknown(view: View, interface: Resource[Interface]) -> Iterator[Problem]:
    """What has an effect can end without anyone knowing whether it happened (ruling 1)."""
    spec = interface.spec
    effects = [name for name, operation in spec.operations.items() if operation.effect != "none"]
    if not effects or "outcome_unknown" in spec.errors:
        return
    yield Problem(
        code="I252",
        what=f"{quoted(effects[0])} has an effect, and outcome_unknown is not listed in [errors]",
        why="an effect is never repeated when its outcome is unknown: the agent is told so instead",
        mend='write outcome_unknown = "it is not known whether it happened; do not repeat it" under [errors]',
        at=Span(interface.file),
        path=("operations", effects[0], "effect"),
        about=interface.ref,
    )


def folder_holds_an_interface_alone(view: View, interface: Resource[Interface]) -> Iterator[Problem]:
    """The folder's digest is the version, so nothing lies in it that is not part of a version."""
    for path in sorted(inside(interface)):
        if path not in _TEXTS and not path.startswith(_FOLDERS):
            yield Problem(
                code="I254",
                what=f"{path} is not part of an interface version",
                why="a version is interface.toml, tools.json, skills/ and conformance/, frozen as a whole",
                mend=f"move {path} out of the folder",
                at=Span(whole_path(interface, path)),
                about=interface.ref,
            )


RULES = (
    effects_list_outcome_unknown,
    folder_holds_an_interface_alone,
    *frozen.RULES,
    *guidance.RULES,
    *companions.RULES,
)
