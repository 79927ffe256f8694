"""The words for click of ``handler probe``; ``probing`` does it."""
# ruff: noqa: PLC0415 - a command pays for its own rooms and for no other's

import click

from reconciler.doors import usage


@click.command("probe")
@click.argument("binding")
@click.pass_obj
def _probe(settings: usage.Settings, /, binding: str) -> int:
    """Ask the service behind BINDING now: does something answer, and can it take work?

    The link is tried: of another machine by a handshake alone; of a server on this machine also by its stated
    health path, its list of models and its smallest call. A connector that is a process is started. What was
    held back because calls had not been answered may be tried again at once. Nothing is asked that costs
    money, and nothing of it vouches for conformance ('handler connector check' does).

    \b
      handler probe chat
      handler probe chat -o json

    Exit: 0 nothing bad was seen, 1 the link is down or something is not ready, or there is no such binding.
    """
    from reconciler.doors import probing

    return probing.run(settings, binding)


COMMANDS = (_probe,)
