"""The words for click of ``handler runs …`` and ``handler chain run``; ``chainruns`` does them."""
# ruff: noqa: PLC0415 - a command pays for its own rooms and for no other's

import click

from reconciler.doors import usage

_TYPES = click.Choice(["string", "chat", "json", "int", "chat_history"])


@click.command("run")
@click.argument("chain", metavar="ID")
@click.option("--agent", default="", metavar="NAME", help="For whom it runs (without it: the only agent).")
@click.option("--var", "pairs", multiple=True, metavar="NAME=VALUE", help="What {{var:NAME}} stands for.")
@click.option("--input", "source", default="", metavar="FILE", help="The input, from a file; - for stdin.")
@click.option("--text", default="", metavar="TEXT", help="The input, as it stands here.")
@click.option("--input-type", "kind", type=_TYPES, default="string", help="What the input is.")
@click.option("--script", default="", metavar="FILE", help="Answers of a scripted model, as JSON: for tests.")
@click.option("-w", "--wait", is_flag=True, help="Follow it to its end, and print its output.")
@click.pass_obj
def run_chain(settings: usage.Settings, /, **words: object) -> int:
    """Run a chain of the configuration, as a session of an agent: it may call what that agent may.

    Each answer is on the disk before the next step, so a run goes on after a crash where it was, and no
    effect happens twice. With -w what happens is told on stderr and the output printed; leaving does not end
    the run.

    \b
      handler chain run triage --text 'Where is my parcel?' -w
      handler chain run digest --agent clerk --input mails.json --input-type json --var lang=de

    Exit: 0 it began (with -w: it completed), 1 it did not, 3 it was stopped and can be resumed.
    """
    from reconciler.doors import chainruns

    return chainruns.run(settings, words)


@click.group("runs")
def _runs() -> None:
    """Runs of chains: those that go on, those that are over, and what they told.

    A run holds what was said in it: input, conversation, results. The newest 500 that are over are kept.
    """


@_runs.command("list")
@click.option("-a", "--all", "every", is_flag=True, help="Also those that are over.")
@click.pass_obj
def _list(settings: usage.Settings, *, every: bool) -> int:
    """List runs, the newest first. Reads files alone."""
    from reconciler.doors import chainruns

    return chainruns.listing(settings, every=every)


@_runs.command("show")
@click.argument("run", metavar="RUN")
@click.pass_obj
def _show(settings: usage.Settings, run: str) -> int:
    """Show RUN (an id, or how it begins): how it stands, what happened, its output. Reads files alone.

    Exit: 0 shown, 1 there is no such run.
    """
    from reconciler.doors import chainruns

    return chainruns.show(settings, run)


@_runs.command("resume")
@click.argument("run", metavar="RUN")
@click.option("-w", "--wait", is_flag=True, help="Follow it to its end, and print its output.")
@click.pass_obj
def _resume(settings: usage.Settings, run: str, *, wait: bool) -> int:
    """Go on with RUN, which something stopped. A controller resumes by itself what it left when it ended, and
    one that waits for a person goes on with that person's answer: it is said who is asked.

    Exit: 0 it goes on, 1 it is over, or cannot.
    """
    from reconciler.doors import chainruns

    return chainruns.resume(settings, run, wait=wait)


@_runs.command("cancel")
@click.argument("run", metavar="RUN")
@click.pass_obj
def _cancel(settings: usage.Settings, run: str) -> int:
    """End RUN. A call with an effect that it began goes on to its end: 'handler jobs list' has it.

    Exit: 0 it is cancelled, 1 it was over, or there is no such run.
    """
    from reconciler.doors import chainruns

    return chainruns.cancel(settings, run)


COMMANDS = (_runs,)
