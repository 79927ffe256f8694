"""``handler run``: a command with an agent's services around it, for exactly as long as it lives.

The session is opened with this very process as its opener; then this process *becomes* the command. So the
terminal, job control, signals and the exit code are the command's own, nothing of ours stays in between, and
whatever ends the command ends the session, which the controller sees at once. The environment says where the
services are (``HANDLER_SESSION``, ``HANDLER_SERVICES``); files that are made for the session lie in its
folder, and go with it.
"""

import os
import signal
import sys
from collections.abc import Callable, Mapping

from reconciler.doors import client, usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from reconciler.doors.outfit import Outfit

_ABSENT = "there is no such program"
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126  # as shells have it
_HELP = """\
Usage: handler run AGENT [--sandbox [--ro PATH]… [--env NAME]…] [-- CMD [ARGUMENT…]]

Runs CMD with the services of AGENT: opens a session, starts CMD in this terminal, and ends the session with
it. Without CMD: the harness that the agent's file names. A harness is told of the services by files and
arguments of this run alone. Other programs find them by HANDLER_SERVICES (one socket for all),
HANDLER_SESSION and HANDLER_CAPABILITIES (a file that says what is served, and how it stands);
'handler call' and 'handler-service' inside use that session without being told.

  --sandbox   CMD sees the agent's scope (where that is not of access "read", it can also overwrite and
              delete), its own installation and the system's programs; a private, empty home; none of
              your variables, and no network but the hosts of the agent's sandbox.egress
  --ro PATH   shows one more file or folder in it, to be read
  --env NAME  gives it one of your variables, or NAME=VALUE

  handler run reviewer
  handler run reviewer -- claude --resume
  handler run reviewer -- make report

  Exit: that of CMD; before it starts: 1 no session, 2 wrong command line, 126 or 127 CMD cannot be started
"""

Become = Callable[[str, list[str], dict[str, str]], object]


class _Ask:
    """The command line of one run."""

    def __init__(self, words: list[str]) -> None:
        """Read it; raises ``usage.Usage``."""
        cut = words.index("--") if "--" in words else len(words)
        before, self.command = words[:cut], words[cut + 1 :]
        self.sandbox = False
        self.read: list[str] = []
        self.kept: list[str] = []
        names = self._without_options(before)
        if (self.read or self.kept) and not self.sandbox:
            raise usage.Usage("--ro and --env say what a sandbox shows: write --sandbox with them")
        if not names:
            raise usage.Usage("'handler run' wants an agent, like 'handler run reviewer -- make report'")
        self.agent, *more = names
        if more:
            raise usage.Usage(f"write the command after --: handler run {self.agent} -- {' '.join(more)}")

    def _without_options(self, before: list[str]) -> list[str]:
        """Take the options out of the words before the command."""
        valued, names, words = {"--ro": self.read, "--env": self.kept}, [], iter(before)
        for word in words:
            option, equals, value = word.partition("=")
            if word == "--sandbox":
                self.sandbox = True
            elif option in valued:
                given = value if equals else next(words, "")
                if not given:
                    raise usage.Usage(f"'{option}' of 'handler run' wants a value")
                if option == "--env" and given.startswith("="):
                    raise usage.Usage("'--env' of 'handler run' wants NAME or NAME=VALUE")
                valued[option].append(given)
            elif word.startswith("-"):
                raise usage.Usage(f"'{word}' is not an option of 'handler run' (those of CMD stand after --)")
            else:
                names.append(word)
        return names


def run(settings: usage.Settings, words: list[str], become: Become = os.execve) -> int:
    """Become the command, with a session around it; a code only where that does not come to be.

    Raises ``usage.Usage`` for a wrong command line, ``client.NoController`` and ``client.Refused``.
    """
    if {"-h", "--help"} & set(words[: words.index("--")] if "--" in words else words):
        sys.stdout.write(_HELP)
        return 0
    ask = _Ask(words)
    if ask.command and not found(ask.command[0]):
        return _cannot(ask.command[0], _ABSENT, _NOT_FOUND)
    control = client.Client(settings.config)
    opened = control.ask("session.open", {"agent": ask.agent, "withCaller": True})
    return _inside(settings, ask, {**opened, "config": control.config}, become)


def _inside(settings: usage.Settings, ask: _Ask, opened: dict[str, object], become: Become) -> int:
    """Become the command; a code where that does not come to be, and the session ends with this process."""
    from reconciler.doors import outfit  # noqa: PLC0415 - a refusal does without

    outfitted = outfit.fitted(opened, ask.command, str(opened["config"]))
    program = found(outfitted.command[0])
    if not program:
        return _cannot(outfitted.command[0], _ABSENT, _NOT_FOUND)
    if outfitted.note and not settings.quiet:
        sys.stderr.write(f"handler: {outfitted.note}\n")
    if ask.sandbox:
        return _boxed(settings, ask, opened, (program, outfitted))
    if not settings.quiet:
        _say_where(opened)
    try:
        _start(become, program, outfitted)
    except OSError as error:
        return _cannot(outfitted.command[0], os.strerror(error.errno or 0), _NOT_EXECUTABLE)
    return 0


def _boxed(
    settings: usage.Settings, ask: _Ask, opened: dict[str, object], start: "tuple[str, Outfit]"
) -> int:
    """Run the command in a sandbox: then this process stays, as what the sandbox and its session end with."""
    from reconciler.doors import boxing  # noqa: PLC0415 - the way without a sandbox does without

    program, outfitted = start
    wish = boxing.Wish(tuple(ask.read), tuple(ask.kept))
    try:
        outfit = (program, outfitted.command, outfitted.environment)
        return boxing.run(wish, opened, outfit, quiet=settings.quiet)
    except boxing.Unboxed as fault:
        sys.stderr.write(f"handler: cannot run it in a sandbox: {fault}\n")
        return 1


def _start(become: Become, program: str, outfitted: "Outfit") -> None:
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and an exec would pass that on
        signal.signal(number, signal.SIG_DFL)
    sys.stdout.flush()
    sys.stderr.flush()
    become(program, list(outfitted.command), {**os.environ, **outfitted.environment})


def found(word: str) -> str:
    """The file that a command names, looked up as a shell would; "" when there is none."""
    if "/" in word:
        return word if os.path.exists(word) else ""  # noqa: PTH110 - pathlib costs more than all the rest
    for folder in os.get_exec_path():
        path = f"{folder or '.'}/{word}"
        if os.access(path, os.X_OK) and not os.path.isdir(path):  # noqa: PTH112
            return path
    return ""


def _say_where(opened: Mapping[str, object]) -> None:
    """Tell who works elsewhere than where the agent's relative paths start."""
    scope = opened.get("scope")
    first = scope[0] if isinstance(scope, list) and scope else None
    path = str(first.get("path")) if isinstance(first, dict) else ""
    if path and os.path.realpath(path) != os.path.realpath("."):
        shown = usage.path_shown(path, anywhere=True)
        sys.stderr.write(f"handler: files are named relative to {shown}, the agent's scope, not to here\n")


def _cannot(word: str, why: str, code: int) -> int:
    sys.stderr.write(f"handler: cannot run '{word}': {why}\n")
    return code
