"""The words for click of ``completion``, ``support-bundle`` and ``daemon install``."""
# ruff: noqa: PLC0415 - a command pays for its own rooms and for no other's

import click

from reconciler.doors import usage


@click.group("completion")
def _completion() -> None:
    """Print a script with which a shell completes commands, options and the names that there are.

    \b
      handler completion bash > ~/.local/share/bash-completion/completions/handler
      handler completion zsh > ~/.zfunc/_handler
      handler completion fish > ~/.config/fish/completions/handler.fish
    """


@_completion.command("bash")
def _bash() -> int:
    """For bash."""
    from reconciler.doors import completing

    return completing.script("bash")


@_completion.command("zsh")
def _zsh() -> int:
    """For zsh."""
    from reconciler.doors import completing

    return completing.script("zsh")


@_completion.command("fish")
def _fish() -> int:
    """For fish."""
    from reconciler.doors import completing

    return completing.script("fish")


@_completion.command("words", hidden=True)
@click.argument("line", nargs=-1)
def _words(line: tuple[str, ...]) -> int:
    """What may stand at a place of a line: the place, and the words."""
    from reconciler.doors import completing

    root = click.get_current_context().find_root().command
    assert isinstance(root, click.Group)  # noqa: S101 - handler itself
    return completing.words(line, root)


@click.command("support-bundle")
@click.option(
    "--out",
    default="",
    metavar="FILE",
    help="A file that is not there yet, or a folder (default: handler-support-TIME.tar.gz here).",
)
@click.pass_obj
def _bundle(settings: usage.Settings, out: str) -> int:
    """Put what somebody who helps needs to see into one archive: versions, doctor, problems, status, events.

    Of calls and runs there is how they ended; never arguments, answers, logs of connectors, secrets or the
    text of the configuration. What looks as if it held a secret is left out. Read it before you give it away.

    Exit: 0 written, 1 not.
    """
    from reconciler.doors import bundling

    return bundling.run(settings, out)


@click.command("install")
@click.option("--system", is_flag=True, help="A unit of the machine's own manager instead of yours: as root.")
@click.option("--name", default="", metavar="NAME", help="The unit's name (handler- and the folder's name).")
@click.option("--dry-run", "dry", is_flag=True, help="Only print the unit.")
@click.option("--remove", is_flag=True, help="Remove the unit that was written.")
@click.pass_obj
def install(settings: usage.Settings, /, *, system: bool, name: str, dry: bool, remove: bool) -> int:
    """Write a unit by which systemd runs this configuration's controller, at each boot and after a crash.

    It names the folders that the commands of this shell use. Nothing is started: what does that is told.

    \b
      handler daemon install --dry-run
      handler -c ~/handler daemon install
      handler -c ~/handler daemon install --remove

    Exit: 0 written (or removed), 1 a unit of this name is not ours, 2 wrong command line.
    """
    from reconciler.doors import installing

    return installing.run(settings, installing.Wish(system, name, dry, remove))


COMMANDS = (_completion, _bundle)
