"""The command lines around revisions and waiting: their words for click; ``doors.cli`` takes them in."""
# ruff: noqa: PLC0415 - a command pays for its own rooms and for no other's

import click

from reconciler.doors import usage


@click.command("history")
@click.argument("subject", metavar="[KIND/NAME]", default="", required=False)
@click.pass_obj
def _history(settings: usage.Settings, subject: str) -> int:
    """List the last revisions that were admitted (at most 5), or what became of one object's last forms.

    Reads files alone; what came back is one line, counted. '*' marks what is in force.

    \b
      handler history
      handler history binding/ocr-rapid
    """
    from reconciler.doors import history

    return history.run(settings, subject)


@click.command("rollback")
@click.argument("revision", metavar="[REV]", default="", required=False)
@click.option("--to", "to", metavar="REV", default="", help="The same as REV.")
@click.pass_obj
def _rollback(settings: usage.Settings, revision: str, to: str) -> int:
    """Serve an earlier admitted revision (default: the previous one) until the source changes.

    REV is one that 'handler history' lists: whole, or the beginning of its commit or content. Neither the
    configuration nor git is written, and nothing is asked: 'handler apply' serves the newest again.

    \b
      handler rollback
      handler rollback 4f2c1aa

    Exit: 0 it serves, 1 it is not kept, or something of it is refused by now.
    """
    from reconciler.doors import reconciling

    if revision and to and revision != to:
        raise usage.Usage(f"one revision, please: '{revision}' or '{to}'")
    return reconciling.rollback(settings, revision or to)


@click.command("reconcile")
@click.argument("subject", metavar="[KIND/NAME]", default="", required=False)
@click.pass_obj
def _reconcile(settings: usage.Settings, subject: str) -> int:
    """Look now, and try again now what failed or waits for its next try (of one object).

    What is held back stays so, and a rollback goes on: 'handler apply' ends these.

    \b
      handler reconcile binding/ocr-rapid

    Exit: 0 looked, 1 no controller runs, or there is no such object.
    """
    from reconciler.doors import reconciling

    return reconciling.reconcile(settings, subject)


@click.command("wait")
@click.argument("subject", metavar="KIND/NAME|configuration")
@click.option(
    "--for",
    "wanted",
    metavar="TYPE[=STATUS]",
    default="",
    help="A condition, or Deleted. Default: Ready; of the configuration Synced.",
)
@click.option("--revision", default="", help="… and of this revision, whole or the beginning of its commit.")
@click.pass_obj
def _wait(settings: usage.Settings, subject: str, wanted: str, revision: str) -> int:
    """Return when an object is as it should be: by its newest form, while a controller keeps it so.

    \b
      handler wait agent/clerk --for=Ready --timeout 60
      handler wait configuration --for=Synced --revision 4f2c1aa
      handler wait binding/old --for=Deleted

    Exit: 0 reached, 1 it will not be by itself (its newest form is refused, a person must act), 2 error, no
    such object or no controller for ten seconds, 3 not in time (--timeout SECONDS; 120).
    """
    from reconciler.doors import waiting

    return waiting.run(settings, waiting.wish(subject, wanted, revision))


@click.command("check")
@click.argument("subject", metavar="agent/NAME")
@click.pass_obj
def _check(settings: usage.Settings, subject: str) -> int:
    """Say whether an agent can be served now, for cron and launchers. Reads files alone.

    Exit: 0 ready, 1 a fault of Handler's own, 2 wrong command line, 10 trying later may help, 11 a person
    must act, 12 there is no such agent.
    """
    from reconciler.doors import checking

    return checking.run(settings, subject)


@click.command("events")
@click.argument("subject", metavar="[KIND/NAME|configuration]", default="", required=False)
@click.option("-w", "--watch", is_flag=True, help="Go on with what comes, until interrupted.")
@click.option("-n", "count", type=click.IntRange(min=0), default=50, show_default=True, help="Last events.")
@click.pass_obj
def _events(settings: usage.Settings, subject: str, count: int, *, watch: bool) -> int:
    """Print what the controller did and met (to one object); repeats are counted.

    \b
      handler events -w
      handler events binding/ocr-rapid -o json
    """
    from reconciler.doors import events

    return events.run(settings, subject, count, watch=watch)


COMMANDS = (_history, _rollback, _reconcile, _wait, _check, _events)
