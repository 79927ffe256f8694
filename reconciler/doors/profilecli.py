"""The words for click of ``profile``; ``profiling`` does it."""
# ruff: noqa: PLC0415 - a command pays for its own rooms and for no other's

from typing import Any

import click

from reconciler.doors import usage


@click.group("profile")
def _profile() -> None:
    """Profiles: what exact servers state of the dialects that they speak."""


@_profile.command("list")
@click.option("--dialect", default="", metavar="NAME[@VERSION]", help="Those of it alone.")
@click.pass_obj
def _list(settings: usage.Settings, dialect: str) -> int:
    """List the profiles of the catalogue and of the configuration.

    \b
      handler profile list --dialect openai.images

    Exit: 0 listed, 1 there is none.
    """
    from reconciler.doors import profiling

    return profiling.listed(settings, dialect)


@_profile.command("show")
@click.argument("reference", metavar="ID@REVISION")
@click.pass_obj
def _show(settings: usage.Settings, reference: str) -> int:
    """Tell what a profile states; what it does not say is not supported.

    Exit: 0 shown, 1 there is none of this name.
    """
    from reconciler.doors import profiling

    return profiling.show(settings, reference)


@_profile.command("admit")
@click.argument("reference", metavar="ID@REVISION")
@click.argument("operation")
@click.argument("fields", nargs=-1, metavar="FIELD=VALUE…")
@click.option("--need", "needs", multiple=True, metavar="FACT", help="Also this, like lookup.by=job-id.")
@click.pass_obj
def _admit(settings: usage.Settings, /, reference: str, operation: str, **asked: Any) -> int:
    """Judge a call as it is judged before anything is sent: is all that it asks for stated? Nothing is sent.

    A VALUE is JSON where it reads as such, else text.

    \b
      handler profile admit openai-images.gpt-image-2@1 generate model=gpt-image-2 prompt=lake n=2
      handler profile admit openrouter-videos.generic@1 create --need 'cancel.mode>=request'

    Exit: 0 it is, 1 a fact is not stated.
    """
    from reconciler.doors import profiling

    return profiling.admit(settings, (reference, operation), asked["fields"], asked["needs"])


COMMANDS = (_profile,)
