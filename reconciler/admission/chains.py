"""Every rule of a chain: its structure first, then what it gets wrong, then what it may not mean.

Used twice: for a chain of a configuration, and by ``handler chain vet`` for any file.
"""

from collections.abc import Iterator
from datetime import UTC, datetime

from reconciler.admission import chainhints, chainlint, chainvet
from reconciler.admission.findings import Finding
from reconciler.admission.view import View
from reconciler.model.chain import Chain
from reconciler.model.inventory import Resource
from reconciler.model.names import ObjectRef
from reconciler.model.problems import Problem
from reconciler.templates import macros, rendering


def chain_is_sound(view: View, chain: Resource[Chain]) -> Iterator[Problem]:
    """All that is wrong with a chain of a configuration, or odd in it."""
    return of(chain.spec, chain.file, chain.ref)


def of(chain: Chain, file: str, about: ObjectRef | None) -> Iterator[Problem]:
    """The same of a chain in any file. What a broken structure does is not asked."""
    return (finding.problem(file, about) for finding in _findings(chain))


def _findings(chain: Chain) -> Iterator[Finding]:
    broken = tuple(chainvet.findings(chain))
    if broken:
        yield from broken
        return
    yield from chainlint.findings(chain)
    yield from chainhints.findings(chain, template_fault)


def template_fault(text: str) -> str | None:
    """What is wrong with a template, macros and all; None where it can be read."""
    try:
        source, bound = macros.expanded(text, _KNOWN, macros.Field.TEMPLATE).template({})
        rendering.parsed(source, frozenset(bound))
    except ValueError as fault:
        return str(fault)
    return None


class _Anything(dict[str, str]):
    """Variables of every name: which there are is known when a run starts."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> str:
        return "x"


_KNOWN = macros.Known(_Anything(), "chain", datetime(2026, 1, 1, tzinfo=UTC), "linux", "amd64", {})
RULES = (chain_is_sound,)
