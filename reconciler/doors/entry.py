"""``handler`` and ``handlerd``: which command is meant, run with no more imports than it needs.

``status``, ``get``, ``describe``, ``call``, ``run``, ``--help``, ``--version`` and a wrong command line never
see click or a model; everything else goes to ``doors.cli``. Whatever goes wrong ends in a sentence here,
never in a traceback: what was not foreseen is written to a file that the sentence names.
"""

import os
import sys
from collections.abc import Callable

from reconciler.control import folders
from reconciler.doors import streams, usage

_TABLES = ("status", "get", "describe")
_COULD_NOT = {
    "validate",
    "fmt",
    "import",
    "convert",
    "diff",
    "plan",
    "swap",
    "apply",
    "status",
    "get",
    "describe",
    "wait",
    "reconcile",
    "daemon run",
    "connector",
}  # 2 means "could not run"
# What is of use where neither the controller nor its folders are seen: the services, and files by themselves.
_IN_SANDBOX = {"call", "validate", "fmt", "convert", "init", "new", "explain"}
_SANDBOXED = "HANDLER_SANDBOX"
_LOOKS = {"validate", "diff", "plan"}
_INTERRUPTED = 130
_PIPE_CLOSED = 141


def main() -> int:
    """``handler``: run one command; the exit code is that of reconcile.md's table."""
    streams.ensure()
    arguments = sys.argv[1:]
    try:
        settings, words = usage.settings(arguments)
    except usage.Usage as fault:
        return _wrong(str(fault))
    return guarded(settings, words)


def handlerd() -> int:
    """``handlerd``: the controller in the foreground, as ``handler daemon run``."""
    sys.argv[1:1] = [] if {"-h", "--help", "--version"} & set(sys.argv[1:]) else ["daemon", "run"]
    if "-h" in sys.argv or "--help" in sys.argv:
        sys.argv[1:] = ["daemon", "run", "--help"]
    return main()


def guarded(settings: usage.Settings, words: list[str], job: Callable[[], int] | None = None) -> int:
    """Run a command and turn whatever it raises into a sentence and an exit code. ``job``: what a program of
    its own runs.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    command = "daemon run" if words[:2] == ["daemon", "run"] else next(filter(_is_plain, words), "")
    try:
        code = job() if job is not None else _run(settings, words)
        sys.stdout.flush()
    except (usage.Usage, folders.Foreign) as fault:
        return _wrong(str(fault))
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # so that the last flush has somewhere to go
        return _PIPE_CLOSED
    except Exception as fault:  # noqa: BLE001 - the last line of defence of every command
        return _told(fault, command, settings)
    return code


def _is_plain(word: str) -> bool:
    return not word.startswith("-")


def _run(settings: usage.Settings, words: list[str]) -> int:
    command, rest = (words[0], words[1:]) if words else ("", [])
    if command in ("", "-h", "--help", "help") and not (command == "help" and rest):
        sys.stdout.write(usage.overview())
        return 0
    if command in ("--version", "version") and rest and not {"-h", "--help"} & set(rest):
        raise usage.Usage(f"'handler {command}' only prints the version: it takes no '{rest[0]}'")
    if command in ("--version", "version"):
        from reconciler import __version__  # noqa: PLC0415 - the others do without

        sys.stdout.write(f"handler {__version__}\n")
        return 0
    if command == "help":
        return _run(settings, [*rest, "--help"])
    if os.environ.get(_SANDBOXED) and command not in _IN_SANDBOX and not {"-h", "--help"} & set(rest):
        raise usage.Stopped(_outside(command))
    if command in _TABLES and not {"-w", "--watch"} & set(rest):
        return _told_of(settings, command, rest)
    if command in ("call", "run"):
        return _with_services(settings, command, rest)
    if command.startswith("-"):
        raise usage.Usage(f"'{command}' is not an option of handler")
    if command not in _known():
        raise usage.Usage(usage.unknown(command))
    return _in_one_go(settings, command, rest) if command in _LOOKS else _by_click(settings, words)


def _outside(command: str) -> str:
    if command not in _known():
        raise usage.Usage(usage.unknown(command))
    return (
        f"this is inside an agent's sandbox, where '{command}' finds neither the controller nor its files: "
        "of Handler's programs 'handler call' and 'handler-service' work here; run the others outside"
    )


def _by_click(settings: usage.Settings, words: list[str]) -> int:
    from reconciler.doors import cli  # noqa: PLC0415 - click and the rooms behind it

    return cli.run(settings, words)


def _in_one_go(settings: usage.Settings, command: str, words: list[str]) -> int:
    """One look at every file: what it makes stays until its end, so a collector of garbage finds nothing."""
    import gc  # noqa: PLC0415

    gc.disable()
    try:
        if command == "validate" and not any(word.startswith("-") for word in words):
            from reconciler.doors import validating  # noqa: PLC0415 - paths alone need no click

            return validating.run(settings, words, "text")
        return _by_click(settings, [command, *words])
    finally:
        gc.freeze()  # nor does one at the end of the process
        gc.enable()


def _with_services(settings: usage.Settings, command: str, words: list[str]) -> int:
    if command == "run":
        from reconciler.doors import running  # noqa: PLC0415

        return running.run(settings, words)
    from reconciler.doors import call  # noqa: PLC0415

    return call.run(settings, words)


def _told_of(settings: usage.Settings, command: str, words: list[str]) -> int:
    if command == "describe" and "configuration" in words:
        from reconciler.doors import whole  # noqa: PLC0415

        return whole.run(settings, words)
    from reconciler.doors import tables  # noqa: PLC0415

    return tables.run(command, settings, words)


def _known() -> set[str]:
    return {name.split()[0] for name, _, _ in usage.COMMANDS} | set(usage.ALIASES)


def _wrong(text: str) -> int:
    sys.stderr.write(f"handler: {text}\n")
    return 2


def _nowhere() -> str:
    """What is wrong where no file is named: the folder that we are in may have been removed under us."""
    try:
        os.getcwd()  # noqa: PTH109 - pathlib costs more than all the rest
    except OSError:
        return ' (the folder that you are in was removed; cd "$PWD" where it was made anew, else elsewhere)'
    return ""


def _told(fault: Exception, command: str, settings: usage.Settings) -> int:
    """Say in one sentence what ended a command. Facts say it themselves; a fault of ours goes to a file."""
    code = 2 if command in _COULD_NOT else 1
    if isinstance(fault, usage.Stopped):
        sys.stderr.write(f"handler: {fault}\n")
        if os.environ.get(_SANDBOXED) and command in _IN_SANDBOX - {"call"}:
            sys.stderr.write(f"handler: {_outside(command)}\n")
        return code
    if isinstance(fault, OSError):
        where = f": {fault.filename}" if fault.filename else _nowhere()
        sys.stderr.write(f"handler: cannot go on: {fault.strerror or fault}{where}\n")
        return code
    sys.stderr.write(f"handler: '{command}' met a fault of its own; the details are in {_kept()}\n")
    if settings.verbose:
        import traceback  # noqa: PLC0415

        traceback.print_exc()
    return code


def _kept() -> str:
    """Write the traceback at hand to a new private file, and say where."""
    import tempfile  # noqa: PLC0415
    import traceback  # noqa: PLC0415

    try:
        fd, path = tempfile.mkstemp(prefix="handler-fault-", suffix=".txt")
        with os.fdopen(fd, "w", encoding="utf-8", errors="replace") as file:
            file.write(traceback.format_exc())
    except OSError:
        return "no file: the temporary folder cannot be written"
    return path
