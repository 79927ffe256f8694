"""The words for click of ``lock`` and ``catalog``; ``locking`` and ``cataloguing`` do it."""
# ruff: noqa: PLC0415 - a command pays for its own rooms and for no other's

import click

from reconciler.doors import usage


@click.group("lock")
def _lock() -> None:
    """Publish interface versions: freeze them in handler.lock."""


@_lock.command("add")
@click.argument("ref")
@click.option("--reviewer", default="", help="Who reviewed what a model reads (default: git's user.email).")
@click.pass_obj
def _lock_add(settings: usage.Settings, ref: str, reviewer: str) -> int:
    """Publish REF, like ocr/v1: from then on its files never change.

    On a terminal it first shows what a model will read, and asks; --no-input publishes without.

    Exit: 0 published, 1 it is refused, or published with other files.
    """
    from reconciler.doors import locking

    return locking.run(settings, ref, reviewer)


@_lock.command("review")
@click.argument("ref")
@click.pass_obj
def _lock_review(settings: usage.Settings, ref: str) -> int:
    """Show exactly what a model will read of REF, what nobody would see in it, what is new since the last.

    Exit: 0 all of it can be seen, 1 something is hidden in it.
    """
    from reconciler.doors import locking

    return locking.review(settings, ref)


@_lock.command("check")
@click.option("--since", default="", metavar="REV", help="Also as it was published at this commit.")
@click.pass_obj
def _lock_check(settings: usage.Settings, since: str) -> int:
    """Check that what is published is as it was published: for CI, against the branch that a change is for.

    \b
      handler lock check --since origin/main

    Exit: 0 it is, 1 a file or an entry changed or is gone, or the commit cannot be read.
    """
    from reconciler.doors import locking

    return locking.check(settings, since)


COMMANDS = (_lock,)
