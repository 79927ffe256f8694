"""The commands that may take their time: their words for click, each run by the module that knows how.

The shared options are taken out before click sees the line (``doors.usage``), so they stand before or after
the command alike. What a command imports is imported when it runs.
"""
# ruff: noqa: PLC0415 - a command pays for its own rooms and for no other's

from typing import Any

import click

from reconciler.doors import (
    chaincli,
    connectorcli,
    consentcli,
    editcli,
    jobscli,
    lockcli,
    openai_cli,
    probecli,
    profilecli,
    rollcli,
    sessioncli,
    supportcli,
    usage,
)

_FORMATS = click.Choice(["text", "json", "github", "sarif"])
_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def run(settings: usage.Settings, words: list[str]) -> int:
    """Run one command; its exit code. Raises ``usage.Usage`` for a wrong command line, and what it raises."""
    usage.refuse_nothing(words)
    try:
        code = handler.main(args=words, prog_name="handler", standalone_mode=False, obj=settings)
    except click.exceptions.NoArgsIsHelpError as fault:
        raise usage.Usage(_choice(fault.ctx)) from None
    except click.exceptions.UsageError as fault:
        hint = f" ('{fault.ctx.command_path} --help')" if fault.ctx else ""
        raise usage.Usage(f"{_clause(fault.format_message())}{hint}") from None
    except click.exceptions.Abort:
        raise KeyboardInterrupt from None
    return code if isinstance(code, int) else 0


def _choice(context: click.Context | None) -> str:
    """What is said where a word is missing that says what to do."""
    assert context is not None  # noqa: S101 - click raises it with one
    group = context.command
    words = ", ".join(group.list_commands(context)) if isinstance(group, click.Group) else ""
    return f"'{context.command_path}' wants one of {words} ('{context.command_path} --help')"


def _clause(message: str) -> str:
    """Click's sentence in the form of ours."""
    text = message.rstrip(".").replace("\n", " ")
    return text[:1].lower() + text[1:]


@click.group(context_settings=_CONTEXT)
def handler() -> None:
    """Services for AI agents, kept true to a folder of TOML files."""


@handler.command("init")
@click.argument("folder", metavar="[DIR]", default="", required=False)
@click.pass_obj
def _init(settings: usage.Settings, folder: str) -> int:
    """Scaffold a configuration that works: a binding, a project, an agent, schemas for editors.

    Nothing that exists is overwritten.

    \b
      handler init my-services
    """
    from reconciler.doors import scaffolding

    return scaffolding.run(settings, folder or settings.config or ".")


@handler.command("validate")
@click.argument("paths", nargs=-1, metavar="[PATH…]")
@click.option("--format", "form", type=_FORMATS, default="text", show_default=True, help="For whom.")
@click.pass_obj
def _validate(settings: usage.Settings, paths: tuple[str, ...], form: str) -> int:
    """Check a configuration offline: syntax, references, admission. All problems at once.

    PATH is a configuration, or files and folders inside one (then only their problems are shown).

    \b
      handler validate
      handler validate examples/config --format sarif > handler.sarif

    Exit: 0 all admitted, 1 something refused, 2 could not run.
    """
    from reconciler.doors import validating

    return validating.run(settings, paths, form)


@handler.command("diff")
@click.option("--rev", default="", metavar="REV|A..B", help="Compare a commit, or two, as git has them.")
@click.option("--detailed-exitcode", "detailed", is_flag=True, help="0 nothing, 1 error, 2 changes.")
@click.pass_obj
def _diff(settings: usage.Settings, rev: str, detailed: bool) -> int:  # noqa: FBT001 - click hands flags over so
    """Show what an apply would change, and whom it touches: the blast radius.

    The files are compared with what is in force; with --rev REV that commit is; with --rev A..B two
    commits are compared with each other, whatever runs.

    \b
      handler diff
      handler diff --rev main~1..main -o json

    Exit: 0 nothing would change, 1 something would, 2 error, or anything refused or held back (PruneBlocked).
    """
    from reconciler.doors import changing

    return changing.diff(settings, rev, detailed=detailed)


@handler.command("apply")
@click.option("--dry-run", is_flag=True, help="Only show what would change; 1 when something is refused.")
@click.option(
    "--wait",
    is_flag=True,
    help="Until the newest routes serve (handler --timeout SECONDS apply --wait; 120 s).",
)
@click.option("--atomic", is_flag=True, help="Apply nothing when anything is refused.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before anybody loses service.")
@click.option(
    "--prune", type=click.Choice(["all"]), help="Remove what is gone from the files, however much it is."
)
@click.pass_obj
def _apply(settings: usage.Settings, /, prune: str | None, **flags: bool) -> int:
    """Reconcile now and say what became of it.

    Asks before anybody loses service: an open session, an agent, a running instance that nothing replaces.
    Where nobody can be asked (--no-input, no terminal), nothing is applied without -y.

    Exit: 0 applied (and ready, with --wait), 1 something refused, 2 error, 3 applied, and not ready: in time,
    or at all since what was to serve failed.
    """
    from reconciler.doors import changing

    wish = changing.Wish(
        flags["dry_run"], flags["wait"], flags["atomic"], agreed=flags["yes"], prune_all=prune == "all"
    )
    return changing.apply(settings, wish)


@handler.command("status")
@click.option("-w", "--watch", is_flag=True, required=True, help="Keep the screen up to date.")
@click.pass_obj
def _status(settings: usage.Settings, watch: bool) -> int:  # noqa: FBT001 - without it, doors.tables answers
    """Show what is ready, what is not, and why, on a live screen."""
    from reconciler.doors import watching

    return watching.run(settings)


@handler.command("rebind")
@click.argument("agent")
@click.argument("interface")
@click.argument("binding")
@click.pass_obj
def _rebind(settings: usage.Settings, agent: str, interface: str, binding: str) -> int:
    """Edit the one value that selects the BINDING behind an AGENT's INTERFACE.

    The result is judged first: where it would not be admitted, the file stays as it is.

    \b
      handler rebind reviewer ocr ocr-rapid

    Exit: 0 saved, 1 it would not be admitted, 2 wrong command line.
    """
    from reconciler.doors import rebinding

    return rebinding.run(settings, agent, interface, binding)


@handler.command("swap")
@click.argument("agent")
@click.argument("interface")
@click.argument("binding")
@click.option("--check", is_flag=True, help="First ask every case of the interface of both bindings.")
@click.option("--live", is_flag=True, help="Let them reach what their egress lists: fixtures are sent there.")
@click.option("--dry-run", "dry", is_flag=True, help="Only compare, and save nothing.")
@click.pass_obj
def _swap(settings: usage.Settings, /, agent: str, interface: str, binding: str, **flags: bool) -> int:
    """Put BINDING behind an AGENT's INTERFACE, once it has passed what the one before is held to.

    With --check the suite is asked of both: case by case how each ended, how long it took, how much came
    back, and what each reaches. Where the new one fails a case, nothing is saved. Without it, as 'rebind'.

    \b
      handler swap reviewer ocr ocr-rapid --check

    Exit: 0 saved, 1 it failed a case or would not be admitted, 2 could not run, 77 the new one could not be
    asked: no secret, or no --live.
    """
    from reconciler.doors import swapping

    wish = swapping.Wish(agent, interface, binding, **flags)
    return swapping.run(settings, wish)


@handler.group("secret")
def _secret() -> None:
    """What bindings name as secrets: whether it is found."""


@_secret.command("check")
@click.argument("binding", default="", required=False)
@click.pass_obj
def _secret_check(settings: usage.Settings, binding: str) -> int:
    """Have the controller resolve each secret of BINDING, or of all, and say whether it is found.

    Shown are its length and a fingerprint that tells a changed value; never the value.

    Exit: 0 all are found, 1 some are not, or nobody could be asked.
    """
    from reconciler.doors import secretcheck

    return secretcheck.run(settings, binding)


@handler.command("explain")
@click.argument("subject", metavar="CODE|WORD|KEY")
@click.pass_obj
def _explain(settings: usage.Settings, subject: str) -> int:
    """Explain a problem's code, a reason, a condition or a state, or a key of a file.

    \b
      handler explain A203
      handler explain LastGoodRetained
      handler explain Progressing
      handler explain prune.maxFraction
    """
    from reconciler.doors import explaining

    return explaining.run(settings, subject)


@handler.command("logs")
@click.argument("binding")
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until interrupted.")
@click.option("-n", "count", type=click.IntRange(min=0), help="Last lines: 50, or all with --since.")
@click.option("-t", "--timestamps", is_flag=True, help="When each line was read.")
@click.option("--since", default="", metavar="SPAN|TIME", help="No older line: 90s, 1h30m, 2026-11-30T10:42.")
@click.option("--instance", default="", metavar="DIGEST", help="One instance's lines alone.")
@click.pass_obj
def _logs(settings: usage.Settings, /, binding: str, *, follow: bool, **wanted: Any) -> int:
    """Print what the connector of BINDING printed.

    A line beginning with ── says where another process begins, or goes on; -q leaves these out. Times are
    those of UTC. With -o json each line is an object.

    \b
      handler logs ocr-rapid -f
      handler logs ocr-rapid --since 10m -t

    Exit: 0 printed, 1 there is no such binding.
    """
    from reconciler.doors import logs

    return logs.run(settings, binding, logs.Wanted(**wanted), follow=follow)


@handler.group("daemon")
def _daemon() -> None:
    """The controller: run it, ask it, stop it."""


@_daemon.command("run")
@click.pass_obj
def _daemon_run(settings: usage.Settings) -> int:
    """Run the controller in the foreground (this is handlerd).

    \b
      -c, --config DIR     the configuration (default: $HANDLER_CONFIG, the nearest folder upward
                           with a handler.toml, ~/.config/handler-ai)
      -q, --quiet          warnings and errors alone       -v, --verbose   debugging lines, too

    Its state and its sockets are in folders that 'handler --help' names.

    Exit: 0 stopped by SIGTERM or SIGINT, 2 it cannot run here.
    """
    from reconciler.doors import controlling

    return controlling.run_daemon(settings)


@_daemon.command("status")
@click.pass_obj
def _daemon_status(settings: usage.Settings) -> int:
    """Say whether a controller answers; 0 when one does."""
    from reconciler.doors import controlling

    return controlling.daemon_status(settings)


@_daemon.command("stop")
@click.pass_obj
def _daemon_stop(settings: usage.Settings) -> int:
    """Stop the controller and wait until it has.

    See --timeout; default 20 s.
    """
    from reconciler.doors import controlling

    return controlling.stop_daemon(settings)


@_daemon.command("adopt")
@click.pass_obj
def _daemon_adopt(settings: usage.Settings) -> int:
    """Take over the state of a configuration that was moved.

    Where HANDLER_STATE names its folder, and the configuration has another path now. A state folder belongs
    to the configuration that used it first; another one is refused. Stop the controller before.

    \b
      mv ~/old ~/new && HANDLER_STATE=/srv/state handler -c ~/new daemon adopt

    Exit: 0 taken over, 1 a controller runs on it.
    """
    from reconciler.doors import controlling

    return controlling.adopt(settings)


_daemon.add_command(supportcli.install)


@handler.command("doctor")
@click.pass_obj
def _doctor(settings: usage.Settings) -> int:
    """Say what this machine offers, what is missing, and how to mend it; 0 when nothing is missing."""
    from reconciler.doors import doctor

    return doctor.run(settings)


handler.add_command(_diff, "plan")
for _command in (
    *editcli.COMMANDS,
    *rollcli.COMMANDS,
    *consentcli.COMMANDS,
    *sessioncli.COMMANDS,
    *connectorcli.COMMANDS,
    *chaincli.COMMANDS,
    *lockcli.COMMANDS,
    *jobscli.COMMANDS,
    *profilecli.COMMANDS,
    *openai_cli.COMMANDS,
    *probecli.COMMANDS,
    *supportcli.COMMANDS,
):
    handler.add_command(_command)
