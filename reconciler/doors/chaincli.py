"""The words for click of ``chain``; ``chaining`` and ``chainpicture`` do it."""
# ruff: noqa: PLC0415 - a command pays for its own rooms and for no other's

import click

from reconciler.doors import runscli, usage

_FORMATS = click.Choice(["text", "json", "github", "sarif"])


@click.group("chain")
def _chain() -> None:
    """Task chains: is one sound, what does it do, how does it look; and run it."""


@_chain.command("vet")
@click.argument("chains", metavar="[ID|FILE…]", nargs=-1)
@click.option("--format", "form", type=_FORMATS, default="text", help="How problems are printed.")
@click.pass_obj
def _vet(settings: usage.Settings, chains: tuple[str, ...], form: str) -> int:
    """Judge chains, of the configuration by ID or in any file: all of the configuration without one.

    Every rule of the format and every defect that can be found without a run, with line and column.

    \b
      handler chain vet
      handler chain vet ~/old/chains/*.json

    Exit: 0 all are sound, 1 one is refused.
    """
    from reconciler.doors import chaining

    return chaining.vet(settings, chains, form)


@_chain.command("show")
@click.argument("chain", metavar="ID|FILE")
@click.pass_obj
def _show(settings: usage.Settings, chain: str) -> int:
    """Show a chain's tasks in their order: what each does, with which model and tools, and where it leads.

    With -o json, the whole chain as JSON, whatever it is written in.
    """
    from reconciler.doors import chaining

    return chaining.show(settings, chain)


@_chain.command("graph")
@click.argument("chain", metavar="ID|FILE")
@click.option("--svg", is_flag=True, help="A drawn picture instead of Mermaid's text.")
@click.pass_obj
def _graph(settings: usage.Settings, chain: str, svg: bool) -> int:  # noqa: FBT001 - click's way
    """Print a chain as a graph: Mermaid's text, or with --svg a picture.

    \b
      handler chain graph triage --svg > triage.svg
    """
    from reconciler.doors import chaining

    return chaining.graph(settings, chain, svg=svg)


_chain.add_command(runscli.run_chain)
COMMANDS = (_chain, *runscli.COMMANDS)
