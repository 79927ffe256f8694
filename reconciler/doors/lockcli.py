"""The words for click of ``lock`` and ``catalog``; ``locking`` and ``cataloguing`` do it."""
# ruff: noqa: PLC0415 - a command pays for its own rooms and for no other's

from collections.abc import Callable
from typing import Any

import click

from reconciler.doors import usage

_TIERS = ("certification", "conformance", "failed", "stale", "none")
_WAYS = ("pypi", "oci", "npm", "remote")


@click.group("lock")
def _lock() -> None:
    """Publish interface versions and profiles: freeze them in handler.lock."""


@_lock.command("add")
@click.argument("ref")
@click.option("--reviewer", default="", help="Who reviewed what a model reads (default: git's user.email).")
@click.option("--despite-warnings", is_flag=True, help="Publish what validate has warnings about.")
@click.pass_obj
def _lock_add(settings: usage.Settings, ref: str, reviewer: str, despite_warnings: bool) -> int:  # noqa: FBT001 - click's way
    """Publish REF, like ocr/v1, or a profile as ID@REVISION: from then on it never changes.

    On a terminal it first shows what a model will read, and asks; --no-input publishes without.

    Exit: 0 published, 1 it is refused, warned about, or published with other files.
    """
    from reconciler.doors import locking

    return locking.run(settings, ref, reviewer, despite_warnings=despite_warnings)


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


@click.group("catalog")
def _catalog() -> None:
    """What there is to choose from, and how it has proven itself."""


_FILTERS = (
    click.option("--interface", default="", metavar="NAME[/vN]", help="Those that implement it."),
    click.option("--tier", default="", type=click.Choice(["", *_TIERS]), help="How they are proven."),
    click.option(
        "--runtime", default="", help="python, command, mcp, deno, image, remote, attached, builtin, dialect."
    ),
    click.option("--egress", default="", metavar="HOST[:PORT]|none", help="Those that reach it, or nothing."),
    click.option("--local", is_flag=True, help="Those that reach nothing."),
    click.option("--remote", is_flag=True, help="Those that reach some host."),
    click.option("--candidates", is_flag=True, help="Those that are not proven, instead."),
)


def _filtered(command: Callable[..., int]) -> Callable[..., int]:
    for one in reversed(_FILTERS):
        command = one(command)
    return command


@_catalog.command("list")
@_filtered
@click.pass_obj
def _catalog_list(settings: usage.Settings, /, **wish: Any) -> int:
    """List the connectors whose newest evidence, about their code and suites of now, says that they pass.

    \b
      handler catalog list --interface ocr --local
      handler catalog list --candidates
    """
    from reconciler.doors import cataloguing

    return cataloguing.listed(settings, cataloguing.Wish(**wish))


@_catalog.command("search")
@click.argument("word")
@_filtered
@click.pass_obj
def _catalog_search(settings: usage.Settings, /, **wish: Any) -> int:
    """List connectors, proven or not, with all of these words in name, description, interfaces or hosts."""
    from reconciler.doors import cataloguing

    return cataloguing.listed(settings, cataloguing.Wish(**wish))


@_catalog.command("show")
@click.argument("name", metavar="CONNECTOR|NAME/vN")
@click.pass_obj
def _catalog_show(settings: usage.Settings, name: str) -> int:
    """Tell all of a connector (slots, settings, evidence, provisioning) or of an interface version."""
    from reconciler.doors import cataloguing

    return cataloguing.show(settings, name)


@_catalog.command("import")
@click.argument("path", metavar="server.json|FOLDER")
@click.option("--from", "way", type=click.Choice(_WAYS), help="Which of its packages.")
@click.option("--dry-run", "dry", is_flag=True, help="Print what would be written, and write nothing.")
@click.pass_obj
def _catalog_import(settings: usage.Settings, path: str, way: str | None, dry: bool) -> int:  # noqa: FBT001 - click's way
    """Take over what somebody else published: a server of the MCP registry, or an interface version.

    Of a server.json a connector and a binding are made, its slots filled in with where you put each value;
    it is a candidate that nothing selects. A FOLDER with an interface.toml becomes a draft, and what a model
    would read of it is shown. Nothing is fetched, started or asked.

    Exit: 0 all is there now, 1 it was left out, refused or could not be read.
    """
    from pathlib import Path

    from reconciler.doors import cataloguing, importing

    if Path(path).is_dir():
        return cataloguing.take_interface(settings, Path(path), dry=dry)
    return importing.registered(settings, path, way or "", dry=dry)


COMMANDS = (_lock, _catalog)
