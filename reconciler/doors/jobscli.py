"""The words for click of ``handler jobs …``; ``jobs`` does them."""
# ruff: noqa: PLC0415 - a command pays for its own rooms and for no other's

import click

from reconciler.doors import usage

_ENDS = click.Choice(["succeeded", "failed", "cancelled"])


@click.group("jobs")
def _jobs() -> None:
    """Attempts at effects: what is under way, and what nobody knows the outcome of.

    A call with an effect is written down before it is sent. Where its outcome cannot be known it is
    'indeterminate': it may have happened, it is never sent again by itself, and a person settles it.
    """


@_jobs.command("list")
@click.option("-a", "--all", "every", is_flag=True, help="Also those that are over.")
@click.option("--agent", default="", metavar="NAME", help="One agent's alone.")
@click.option("--binding", default="", metavar="NAME", help="One binding's alone.")
@click.pass_obj
def _list(settings: usage.Settings, /, agent: str, binding: str, *, every: bool) -> int:
    """List the attempts that are not over, the newest first. Reads files alone.

    \b
      handler jobs list
      handler jobs list --all --agent clerk -o json
    """
    from reconciler.doors import jobs

    return jobs.listing(settings, jobs.Wanted(every, agent, binding))


@_jobs.command("get")
@click.argument("job")
@click.pass_obj
def _get(settings: usage.Settings, job: str) -> int:
    """Show JOB (an id, or how it begins) and everything that happened to it. Reads files alone.

    Exit: 0 shown, 1 there is no such job.
    """
    from reconciler.doors import jobs

    return jobs.get(settings, job)


@_jobs.command("cancel")
@click.argument("job")
@click.pass_obj
def _cancel(settings: usage.Settings, job: str) -> int:
    """Ask that JOB be stopped.

    What was not sent yet is cancelled at once. Otherwise the wish is kept, and the job ends as cancelled only
    where that is proven: a service that cannot stop it goes on.

    Exit: 0 the wish is kept, 1 it is over, or there is no such job.
    """
    from reconciler.doors import jobs

    return jobs.cancel(settings, job)


@_jobs.command("settle")
@click.argument("job")
@click.option("--as", "to", type=_ENDS, required=True, help="What became of it.")
@click.option("--evidence", required=True, metavar="TEXT", help="How you know; it is kept.")
@click.pass_obj
def _settle(settings: usage.Settings, job: str, to: str, evidence: str) -> int:
    """Say what became of JOB, which is indeterminate: look where it would have happened first.

    \b
      handler jobs settle 01a22e11-a33b --as succeeded --evidence 'it is in the Sent folder'

    Exit: 0 settled, 1 it is not indeterminate, or there is no such job.
    """
    from reconciler.doors import jobs

    return jobs.settle(settings, job, to, evidence)


@_jobs.command("prune")
@click.option("--dry-run", "dry", is_flag=True, help="Only say what would go.")
@click.pass_obj
def _prune(settings: usage.Settings, *, dry: bool) -> int:
    """Let go what is past its time: results after a week (a day once collected), the rest after 30 days.

    A controller does so by itself. What is indeterminate never goes.
    """
    from reconciler.doors import jobs

    return jobs.prune(settings, dry_run=dry)


COMMANDS = (_jobs,)
