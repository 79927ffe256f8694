"""Shadows: which other binding may get copies of a binding's calls. Pure.

A shadow is a binding that exists, of another name, and has every version that the binding's connector
implements; it has no shadow of its own, and both are connectors that calls are handed to (a builtin opens the
scope by itself, so there is nothing to copy).
"""

from collections.abc import Iterator
from typing import cast

from reconciler.admission import connectors
from reconciler.admission.view import View, nearest
from reconciler.model.inventory import Resource
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.problems import Problem, Span, listed, quoted
from reconciler.model.resources import Binding, Connector


def shadow_is_another_binding(view: View, binding: Resource[Binding]) -> Iterator[Problem]:
    """A shadow is a known binding, and not the binding itself."""
    shadow = binding.spec.shadow
    if shadow is None:
        return
    others = [name for name in view.names(Kind.BINDING) if name != binding.ref.name]
    if shadow not in others:
        near = nearest(shadow, others)
        yield _problem(
            binding,
            code="B210",
            what=f"shadow {quoted(shadow)} is not another binding",
            why="a shadow gets a copy of calls, so it is a binding that exists and not this one",
            mend=f"write {quoted(near)}" if near else "delete shadow",
        )


def shadow_answers_the_same(view: View, binding: Resource[Binding]) -> Iterator[Problem]:
    """A shadow implements what the binding does, shadows nothing else, and is no part of the product."""
    shadow = _written(view, binding.spec.shadow) if binding.spec.shadow else None
    own, other = _connector(view, binding), _connector(view, shadow)
    if shadow is None or shadow.ref == binding.ref or own is None or other is None:
        return
    missing = [one for one in own.spec.implements if one not in other.spec.implements]
    if missing:
        yield _problem(
            binding,
            code="B217",
            what=f"shadow {quoted(shadow.ref.name)} does not implement {listed(missing)}",
            why=f"it is asked what {own.ref} is asked, and {other.ref} would not know the tools",
            mend="name another binding, or delete shadow",
        )
    elif shadow.spec.shadow is not None:
        yield _problem(
            binding,
            code="B218",
            what=f"shadow {quoted(shadow.ref.name)} has a shadow itself",
            why="a copy is never copied again: that comparison would not happen",
            mend="name another binding, or delete shadow",
        )
    elif "builtin" in map(connectors.runtime, (own, other)):
        yield _problem(
            binding,
            code="B219",
            what=f"shadow {quoted(shadow.ref.name)} would compare the product with itself",
            why="a builtin opens what lies in the agent's scope by itself: there is no call to copy",
            mend="name another binding, or delete shadow",
        )


def _problem(binding: Resource[Binding], *, code: str, what: str, why: str, mend: str) -> Problem:
    return Problem(
        code=code,
        what=what,
        why=why,
        mend=mend,
        at=Span(binding.file),
        path=("shadow",),
        about=binding.ref,
        reason="UnresolvedReference",
    )


def _written(view: View, name: str) -> Resource[Binding] | None:
    """The binding in force, or as it is written where it is judged later than who names it."""
    found = view.binding(name)
    if found is None:
        written = view.inventory.resources.get(ObjectRef(Kind.BINDING, name))
        found = cast("Resource[Binding] | None", written)
    return found


def _connector(view: View, binding: Resource[Binding] | None) -> Resource[Connector] | None:
    return view.connector(binding.spec.connector) if binding and binding.spec.connector else None
