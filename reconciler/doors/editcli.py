"""The command lines of what edits, lays out or traces files: their words for click.

Kept apart from ``doors.cli``, which takes them in, so that neither grows out of hand.
"""
# ruff: noqa: PLC0415 - a command pays for its own rooms and for no other's

from dataclasses import replace

import click

from reconciler.doors import usage


@click.command("suspend")
@click.argument("subject", metavar="binding/NAME|agent/NAME")
@click.option("--reason", default="", help="Why, for whoever reads the status.")
@click.pass_obj
def _suspend(settings: usage.Settings, subject: str, reason: str) -> int:
    """Suspend a binding (no new call) or an agent (no new session), by its file.

    \b
      handler suspend binding/ocr-mistral --reason "the bill of May"

    Exit: 0 saved, 1 it would not be admitted, 2 wrong command line.
    """
    from reconciler.doors import suspending

    return suspending.suspend(settings, subject, reason)


@click.command("resume")
@click.argument("subject", metavar="binding/NAME|agent/NAME")
@click.pass_obj
def _resume(settings: usage.Settings, subject: str) -> int:
    """End what 'handler suspend' began, by the same file.

    Exit: 0 saved, 1 it would not be admitted, 2 wrong command line.
    """
    from reconciler.doors import suspending

    return suspending.resume(settings, subject)


@click.command("fmt")
@click.argument("paths", nargs=-1, metavar="[PATH…]")
@click.option("--check", is_flag=True, help="Only show what would change; 1 when something would.")
@click.pass_obj
def _fmt(settings: usage.Settings, paths: tuple[str, ...], check: bool) -> int:  # noqa: FBT001 - click's way
    """Lay TOML files out in one way: comments kept, no value changed, no key moved.

    Left alone: published interface versions, connectors that a binding pins, handler.lock, links. A connector
    of your own that is laid out anew has another digest, so a new instance of it replaces the running one.

    \b
      handler fmt --check
      handler fmt agents/reader.toml

    Exit: 0 all are laid out, 1 one is not (--check) or is no TOML, 2 could not run.
    """
    from reconciler.doors import formatting

    return formatting.run(settings, paths, check=check)


@click.command("new")
@click.argument("kind", metavar="KIND")
@click.argument("name")
@click.option("--connector", default="", help="What a new binding configures.")
@click.option("--implements", default="", help="The interface version that a new connector fulfils.")
@click.option("--runtime", default="", help="What runs a new connector: python, deno, mcp, …")
@click.option("--like", default="", help="The profile that a new profile begins as (local-chat.generic@2).")
@click.pass_obj
def _new(settings: usage.Settings, /, kind: str, name: str, **of: str) -> int:
    """Write one commented object: a binding, agent, project, connector, interface, chain, policy or profile.

    Nothing is overwritten. A new policy of egress lets through what is let through now; one of approvals asks
    about each call of a new run that no rule allows.

    \b
      handler new binding ocr-rapid --connector ocr-rapid
      handler new interface web-search
      handler new connector my-search --implements web-search/v1 --runtime deno
      handler new chain triage
      handler new policy approval

    Exit: 0 written, 1 something is there already, 2 wrong command line.
    """
    from reconciler.doors import newing

    return newing.run(settings, kind, name, {f"--{option}": word for option, word in of.items() if word})


@click.command("convert")
@click.argument("path", metavar="[PATH]", default="", required=False)
@click.option("--to", default="", metavar="APIVERSION", help="The version to convert to.")
@click.pass_obj
def _convert(settings: usage.Settings, path: str, to: str) -> int:
    """Convert files to another version of their format. There is one of each kind now, so nothing is written.

    Exit: 0 every file has the version that there is, 2 there is no such version.
    """
    from reconciler.doors import converting

    return converting.run(settings, path, to)


@click.command("trace")
@click.argument("agent")
@click.argument("interface")
@click.pass_obj
def _trace(settings: usage.Settings, agent: str, interface: str) -> int:
    """Tell which line of which file selects the binding behind an AGENT's INTERFACE, and why no other does.

    \b
      handler trace reviewer ocr

    Exit: 0 the files bind it, 1 they bind nothing or are refused (whatever serves), 2 wrong command line.
    """
    from reconciler.doors import tracing

    return tracing.run(settings, agent, interface)


@click.command("import")
@click.argument("harness", metavar="claude|codex|vscode|cursor|opencode|gridctl|openapi|approvals")
@click.argument("path", metavar="[PATH]", default="", required=False)
@click.option("--agent", default="", metavar="NAME", help="The agent's name; else the harness's word.")
@click.option("--name", default="", metavar="NAME", help="openapi: the interface's name.")
@click.option("--server", default="", metavar="URL", help="openapi: the server, where it is another.")
@click.option("--dry-run", is_flag=True, help="Print the files, and write none.")
@click.pass_obj
def _import(settings: usage.Settings, /, harness: str, path: str, **more: object) -> int:
    """Turn the MCP servers that a harness is configured with into connectors, bindings and an agent.

    PATH is its file, or the project that it is configured in; without it, this folder and your own
    configuration of it are looked at. Nothing is started, asked or sent, the source is not changed, and no
    file that is there is written over. Secrets become references: no value is copied or shown.

    \b
      handler import claude --dry-run
      handler import vscode ~/src/site --agent site

    An OpenAPI 3 document becomes an interface (a draft, until 'handler lock add'), its connector and a
    binding, with the operations that cannot be asked named:

    \b
      handler import openapi crm.yaml --name crm

    An approval policy of the chains' other engines becomes policies/approval.toml:

    \b
      handler import approvals hitl-policy.json

    Exit: 0 all is there now, 1 something was left out, 2 could not read it or wrong command line.
    """
    from reconciler.doors import approval_import, importing, openapi_import

    if harness == "openapi":
        named = str(more["name"])
        return openapi_import.run(settings, path, named, (str(more["server"]), bool(more["dry_run"])))
    if harness == "approvals":
        return approval_import.run(settings, path, dry=bool(more["dry_run"]))
    return importing.run(settings, harness, path, (str(more["agent"]), bool(more["dry_run"])))


@click.command("render")
@click.argument("agent", metavar="[AGENT]", default="", required=False)
@click.option("--harness", default="", metavar="H", help="Another harness than the agent's file names.")
@click.option("--into", default="", metavar="DIR", help="The project to write into (default: this folder).")
@click.option("--write", is_flag=True, help="Write into the harness's own file, and its skills.")
@click.option("--diff", is_flag=True, help="Only show what --write (or, with it, --remove) would change.")
@click.option("--remove", is_flag=True, help="Take everything out again, to the byte.")
@click.option("--force", is_flag=True, help="Also over entries that a person wrote or changed.")
@click.option("--keep", is_flag=True, help="Leave those as they are, now and later: they are that person's.")
@click.pass_obj
def _render(settings: usage.Settings, /, agent: str, **more: object) -> int:
    """Print all that is derived for AGENT, offline: instances, routes, tools as served, harness files.

    H is claude-code, codex, vibe, gemini, opencode, copilot, qwen, vscode, cursor, zed, windsurf or plugin.
    Other entries, comments and layout of a file stay as they are; what was written is remembered, so that
    --remove is exact. An entry or a skill that a person wrote or changed is left alone, and so is all else
    until it is said what becomes of it: --keep or --force.

    \b
      handler render reviewer --harness claude-code --diff
      handler render reviewer --harness claude-code --write --into ~/src/site
      handler render reviewer --remove --into ~/src/site

    Exit: 0 done, or nothing to do; 1 refused, or with --diff: there is something to do; 2 wrong command line.
    """
    from reconciler.doors import rendering

    for one, other in (("write", "remove"), ("force", "keep")):
        if more[one] and more[other]:
            raise usage.Usage(f"--{one} and --{other} do not go together")
    dry = bool(more["diff"])
    act = "remove" if more["remove"] else "write" if more["write"] or dry else "print"
    harness, into = (str(more[name] or "") for name in ("harness", "into"))
    asked = rendering.Asked(agent, harness, into, act, dry=dry)
    if more["force"] or more["keep"]:
        asked = replace(asked, way="force" if more["force"] else "keep")
    return rendering.run(settings, asked)


COMMANDS: tuple[click.Command, ...] = (_suspend, _resume, _fmt, _new, _convert, _trace, _import, _render)
