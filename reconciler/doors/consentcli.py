"""The command lines of consents and receipts: their words for click; ``doors.cli`` takes them in."""
# ruff: noqa: PLC0415 - a command pays for its own rooms and for no other's

import click

from reconciler.doors import usage


@click.command("approve")
@click.argument("what", metavar="list|show ID|ID")
@click.argument("number", metavar="", default="", required=False)
@click.option("--deny", is_flag=True, help="Say no instead.")
@click.pass_obj
def _approve(settings: usage.Settings, what: str, number: str, *, deny: bool) -> int:
    """Answer what a policy asks a person: before it leaves this machine, once, for exactly these bytes; or
    before a chain calls a tool that has an effect.

    'list' shows what waits and what was answered, 'show ID' one question whole: to whom, how much, of which
    class, never the text itself; of a chain's call the tool and its arguments, long ones cut. ID is the first
    column, or its beginning. No answer in time is a no.

    \b
      handler approve list
      handler approve 4f2c1a
      handler approve 4f2c1a --deny

    Exit: 0 done, 1 there is no such question, or it was answered before.
    """
    from reconciler.doors import approving

    if what == "list" and not number and not deny:
        return approving.listing(settings)
    if what == "show" and number and not deny:
        return approving.show(settings, number)
    if number or what in ("list", "show"):
        raise usage.Usage("write 'approve list', 'approve show ID' or 'approve ID'")
    return approving.answer(settings, what, agreed=not deny)


@click.group("receipts")
def _receipts() -> None:
    """The chain of receipts: one line for each decision on what may leave."""


@_receipts.command("list")
@click.option("-n", "count", type=click.IntRange(min=1), default=20, help="So many, the newest last (20).")
@click.option("--denied", is_flag=True, help="Only what was not let go.")
@click.pass_obj
def _list(settings: usage.Settings, *, count: int, denied: bool) -> int:
    """List the last decisions on what may leave: what was said, by which rule, of which call, and why not.

    With -o json each receipt is a line, whole. Reads files alone, and does not check the chain.

    \b
      handler receipts list --denied
    """
    from reconciler.doors import approving

    return approving.receipt_list(settings, count, denied=denied)


@_receipts.command("verify")
@click.pass_obj
def _verify(settings: usage.Settings) -> int:
    """Follow the chain of receipts, and name the file and line where it does not hold.

    A line that was changed, left out, put in or cut off shows. Reads files alone.

    Exit: 0 it holds, 1 it does not.
    """
    from reconciler.doors import approving

    return approving.verify(settings)


COMMANDS = (_approve, _receipts)
