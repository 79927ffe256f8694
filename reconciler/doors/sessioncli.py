"""The words for click of ``session open|close|list|show`` and ``sessions``; ``sessioning`` does them."""
# ruff: noqa: PLC0415 - a command pays for its own rooms and for no other's

import click

from reconciler.doors import usage

_COUNT = click.IntRange(min=0)
_ALL = click.option(
    "-a", "--all", "over", is_flag=True, help="Also those that are over and called something."
)


@click.group("session")
def _session() -> None:
    """An agent's hold on its services: open, close, list, show.

    A command of your own gets one with 'handler run', which also ends it.
    """


@_session.command("open")
@click.argument("agent")
@click.pass_obj
def _open(settings: usage.Settings, agent: str) -> int:
    """Open a session of AGENT, pinned to the routes of now, and print its variables as a shell sets them.

    It ends with 'handler session close', or after a day without a call.

    \b
      eval "$(handler session open reviewer)"
      my-harness; handler session close "$HANDLER_SESSION"

    Exit: 0 opened, 1 the agent cannot start one now.
    """
    from reconciler.doors import sessioning

    return sessioning.open_one(settings, agent)


@_session.command("close")
@click.argument("session_id", metavar="ID")
@click.pass_obj
def _close(settings: usage.Settings, session_id: str) -> int:
    """End session ID: its sockets go, its calls end. Also one at an agent's standing door.

    Exit: 0 closed, 1 there is no such session.
    """
    from reconciler.doors import sessioning

    return sessioning.close(settings, session_id)


@_session.command("list")
@_ALL
@click.pass_obj
def _list(settings: usage.Settings, over: bool) -> int:  # noqa: FBT001 - click's way
    """List the open sessions: whose, since when, whether new ones get the same, their calls.

    STATE is current, or draining: a new session of the agent gets other routes, or none; with --all also
    over, and then AGE is that of the last call. Those are known from what is kept of their calls.

    \b
      handler session list --all
      handler session show ID
    """
    from reconciler.doors import sessioning

    return sessioning.listed(settings, over=over)


@_session.command("show")
@click.argument("session_id", metavar="ID")
@click.option("-n", "count", type=_COUNT, default=20, show_default=True, help="The last calls.")
@click.pass_obj
def _show(settings: usage.Settings, session_id: str, count: int) -> int:
    """Show session ID: its services, and its calls without what was said in them. Also one that is over.

    Exit: 0 shown, 1 nothing is known of it.
    """
    from reconciler.doors import sessioning

    return sessioning.show(settings, session_id, count)


@click.command("sessions")
@_ALL
@click.pass_obj
def _sessions(settings: usage.Settings, over: bool) -> int:  # noqa: FBT001 - click's way
    """List the open sessions (as 'handler session list'); with --all those that are over, too."""
    from reconciler.doors import sessioning

    return sessioning.listed(settings, over=over)


COMMANDS = (_session, _sessions)
