"""The command lines of what edits, lays out or traces files: their words for click.

Kept apart from ``doors.cli``, which takes them in, so that neither grows out of hand.
"""
# ruff: noqa: PLC0415 - a command pays for its own rooms and for no other's

import click

from reconciler.doors import usage


@click.command("suspend")
@click.argument("subject", metavar="binding/NAME|agent/NAME")
@click.option("--reason", default="", help="Why, for whoever reads the status.")
@click.pass_obj
def _suspend(settings: usage.Settings, subject: str, reason: str) -> int:
    """Suspend a binding (no new call) or an agent (no new session), by its file.

    \b
      handler suspend binding/ocr-mistral --reason "the bill of May"

    Exit: 0 saved, 1 it would not be admitted, 2 wrong command line.
    """
    from reconciler.doors import suspending

    return suspending.suspend(settings, subject, reason)


@click.command("resume")
@click.argument("subject", metavar="binding/NAME|agent/NAME")
@click.pass_obj
def _resume(settings: usage.Settings, subject: str) -> int:
    """End what 'handler suspend' began, by the same file.

    Exit: 0 saved, 1 it would not be admitted, 2 wrong command line.
    """
    from reconciler.doors import suspending

    return suspending.resume(settings, subject)


@click.command("fmt")
@click.argument("paths", nargs=-1, metavar="[PATH…]")
@click.option("--check", is_flag=True, help="Only show what would change; 1 when something would.")
@click.pass_obj
def _fmt(settings: usage.Settings, paths: tuple[str, ...], check: bool) -> int:  # noqa: FBT001 - click's way
    """Lay TOML files out in one way: comments kept, no value changed, no key moved.

    Left alone: published interface versions, connectors that a binding pins, handler.lock, links. A connector
    of your own that is laid out anew has another digest, so a new instance of it replaces the running one.

    \b
      handler fmt --check
      handler fmt agents/reader.toml

    Exit: 0 all are laid out, 1 one is not (--check) or is no TOML, 2 could not run.
    """
    from reconciler.doors import formatting

    return formatting.run(settings, paths, check=check)


COMMANDS: tuple[click.Command, ...] = (_suspend, _resume, _fmt)
