"""The table of commands, the options that all of them share, and what is said to a wrong command line.

Read before anything is imported that costs time, so it is plain Python: no click, no dataclasses, no regular
expressions. The shared options may stand before or after the command; what follows ``--`` is left alone.
"""

import os

OUTPUTS = ("table", "wide", "json", "name")
COLOURS = ("auto", "always", "never")

# name, arguments, one line; a name may be two words. The order is the order of the help text.
COMMANDS: tuple[tuple[str, str, str], ...] = (
    ("init", "[DIR]", "scaffold a configuration that works"),
    ("new", "KIND NAME", "write one commented object of any kind"),
    ("import", "HARNESS [PATH]", "an existing MCP configuration becomes connectors, bindings, an agent"),
    ("validate", "[PATH…]", "check files offline: syntax, references, admission"),
    ("diff", "[--rev A..B]", "what an apply would change, and whom it touches (also: plan)"),
    ("apply", "[--wait] [--prune=all]", "reconcile now and say what became of it"),
    ("rebind", "AGENT INTERFACE BINDING", "edit the one value that selects a binding"),
    ("swap", "AGENT INTERFACE BINDING --check", "rebind, once the suite is passed by the new binding, too"),
    ("suspend", "KIND/NAME", "no new calls of a binding, no new sessions of an agent"),
    ("resume", "KIND/NAME", "end a suspension"),
    ("fmt", "[--check] [PATH…]", "one layout for every TOML file, comments kept"),
    ("convert", "[PATH] [--to VERSION]", "to another version of a file's format"),
    (
        "connector check",
        "CONNECTOR [--live]",
        "does it keep what its interfaces promise? every case, and evidence",
    ),
    ("lock", "add|review|check", "publish an interface version; what a model reads of it; is it unchanged?"),
    ("profile", "list|show|admit", "what servers state of the dialects they speak; is a call within it?"),
    ("catalog", "list|search|show|import", "what there is to choose from, and how it has proven itself"),
    ("chain", "vet|show|graph|run ID", "a task chain: is it sound? what it does; a picture of it; run it"),
    ("runs", "list|show|resume|cancel", "runs of chains: what goes on, what happened, what came of it"),
    ("history", "[KIND/NAME]", "the last admitted revisions, or what became of an object's forms"),
    ("rollback", "[REV]", "serve an earlier revision until the source changes"),
    ("reconcile", "[KIND/NAME]", "look now, and try again what failed"),
    ("wait", "KIND/NAME --for=Ready", "return when an object is as it should be"),
    ("check", "agent/NAME", "an exit code for cron: can this agent be served now?"),
    ("status", "[-w]", "one screen: what is ready, what is not, and why"),
    ("get", "KIND [NAME]", "a table of one kind of object"),
    ("describe", "KIND/NAME|configuration", "everything about one object, or the whole"),
    ("probe", "BINDING", "ask the service behind a binding now: does it answer, can it take work?"),
    ("trace", "AGENT INTERFACE", "which line selected which binding, and why not the others"),
    ("explain", "CODE|WORD|KEY", "what a problem's code, a reason, a state or a key means"),
    ("run", "AGENT -- CMD…", "a command with an agent's services, for as long as it runs"),
    ("render", "[AGENT] [--write]", "all that is derived for an agent; its harness's own file"),
    ("call", "TOOL [KEY=VALUE…]|--list", "call a tool as an agent would"),
    ("openai", "serve|token", "a door for programs that speak OpenAI's chat protocol: models, chains"),
    ("logs", "BINDING [-f]", "what a binding's connector printed"),
    ("events", "[-w] [KIND/NAME]", "what the controller did and met"),
    ("session", "open|close|list|show", "sessions for a launcher of your own, and what was called in each"),
    ("jobs", "list|get|cancel|settle|prune", "attempts at effects; what nobody knows the outcome of"),
    ("daemon", "run|status|stop|adopt|install", "the controller (handlerd is daemon run)"),
    ("approve", "list|show ID|ID", "what a policy asks a person: before it leaves, or a chain calls"),
    (
        "receipts",
        "list|verify",
        "what was decided on what leaves, by which rule; does the chain hold?",
    ),
    ("secret check", "[BINDING]", "can each secret be found now? never a value"),
    ("completion", "bash|zsh|fish", "a script with which a shell completes commands, options and names"),
    ("support-bundle", "", "what somebody who helps needs to see, in one archive, without what was said"),
    ("doctor", "", "what this machine offers, what is missing, how to mend it"),
    ("version", "", "the version"),
)
ALIASES = {"plan": "diff", "sessions": "session list", "help": "help"}

_SHARED = """\
Options of every command:
  -c, --config DIR     the configuration (default: $HANDLER_CONFIG, the nearest folder upward with a
                       handler.toml, ~/.config/handler-ai)
  -o, --output FORMAT  table, wide, json or name
  -q, --quiet          say nothing but the result       -v, --verbose   say more, details of faults too
  --color WHEN         auto, always or never (NO_COLOR is heeded)
  --no-input           never ask                        --timeout SECONDS

Folders of a configuration, each its own by default; name them only where each has others:
  HANDLER_STATE        what the controller keeps: status, logs, history (default: below $XDG_STATE_HOME or
                       ~/.local/state, handler-ai/DIGEST)
  HANDLER_RUN          sockets (default: below $XDG_RUNTIME_DIR, handler-ai/DIGEST)
"""

_EXAMPLES = """\
  handler init my-services && handler validate -c my-services
  handler status
  handler rebind reviewer ocr ocr-rapid && handler apply --wait
  handler call ocr_extract path=invoice.pdf --agent reviewer

Every command has --help. Data goes to stdout, talk to stderr.
"""


class Usage(Exception):  # noqa: N818 - a command line that cannot be followed
    """What is wrong with the command line, as one clause."""


class Stopped(Exception):  # noqa: N818 - a fact or a verdict that ends a command
    """Why a command ends here, in words for a person: what, and what to do."""


class Settings:
    """The shared options of one run. ``timeout_s`` is None where the command's own default holds."""

    __slots__ = ("ask", "color", "config", "output", "quiet", "timeout_s", "verbose")

    def __init__(self) -> None:
        self.config: str | None = None
        self.output = ""  # "" where the command's own default holds
        self.color = "auto"
        self.quiet = False
        self.verbose = False
        self.ask = True
        self.timeout_s: float | None = None


_FLAGS = {"-q": "quiet", "--quiet": "quiet", "-v": "verbose", "--verbose": "verbose", "--no-input": "ask"}
_VALUES = {
    "-c": "config",
    "--config": "config",
    "-o": "output",
    "--output": "output",
    "--color": "color",
    "--timeout": "timeout_s",
}


SHARED = (*_FLAGS, *_VALUES)  # as they are written


def settings(arguments: list[str]) -> tuple[Settings, list[str]]:
    """Take the shared options out of a command line: them, and what is left. Raises ``Usage``."""
    found = Settings()
    left: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return found, [*left, word, *rest]
        name, given, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if name in _FLAGS and not given:
            setattr(found, _FLAGS[name], _FLAGS[name] != "ask")
        elif name in _VALUES:
            if not given and not rest:
                raise Usage(f"{name} needs a value")
            value = value if given else rest.pop(0)
            refuse_nothing((name, value))
            _set(found, name, value)
        else:
            left.append(word)
    return found, left


def refuse_nothing(words: list[str] | tuple[str, ...]) -> None:
    """Raise ``Usage`` where a word is empty, as a script's is whose variable was not set: a check that was
    asked for, and left out, would pass.
    """
    before = ""
    for word in words:
        if word == "--":
            return
        name = before if not word else word[:-1] if word.startswith("--") and word.endswith("=") else None
        if name is not None:
            asked = f"{name} needs a value" if name.startswith("-") else "one word of the command is empty"
            raise Usage(f"{asked}: was a variable not set?")
        before = word


def _set(found: Settings, name: str, text: str) -> None:
    key = _VALUES[name]
    value: object = text
    if key == "output":
        _one_of(name, text, OUTPUTS)
    elif key == "color":
        _one_of(name, text, COLOURS)
    elif key == "timeout_s":
        value = _seconds(text)
    setattr(found, key, value)


def _one_of(name: str, text: str, known: tuple[str, ...]) -> None:
    if text not in known:
        raise Usage(f"{name} knows {', '.join(known)}, not '{text}'")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise Usage(f"--timeout wants seconds, not '{text}'") from None
    if not 0 < value <= 86_400:
        raise Usage("--timeout wants more than 0 and at most 86400 seconds")
    return value


def overview() -> str:
    """The text of ``handler --help``."""
    rows = [(f"{name} {arguments}".rstrip(), line) for name, arguments, line in COMMANDS]
    width = max(len(left) for left, _ in rows)
    table = "\n".join(f"  {left:{width}}  {line}" for left, line in rows)
    return (
        "Usage: handler [OPTIONS] COMMAND …\n\n"
        "Services for AI agents, kept true to a folder of TOML files.\n\n"
        f"Commands:\n{table}\n\n{_SHARED}\nExamples:\n{_EXAMPLES}"
    )


def unknown(word: str) -> str:
    """What is said to a command that there is not, with the nearest one."""
    near = nearest(word, [name.split()[0] for name, _, _ in COMMANDS] + list(ALIASES))
    hint = f"did you mean '{near}'?" if near else "'handler --help' lists the commands"
    return f"'{word}' is not a command of handler: {hint}"


def nearest(word: str, known: list[str]) -> str:
    """The known word that is most like ``word``, or "" when none is."""
    import difflib  # noqa: PLC0415 - costs as much as a status, and is needed once something is wrong

    found = difflib.get_close_matches(word.casefold(), known, n=1, cutoff=0.55)
    return found[0] if found else ""


def path_shown(path: str, *, anywhere: bool = False) -> str:
    """A path as a person would type it here: relative when it is below, else from ``~``, else whole.

    ``anywhere``: as it holds in every folder, for what is typed later.
    """
    here = os.getcwd()  # noqa: PTH109 - pathlib is a third of a status
    if not anywhere and path.startswith(here + os.sep):
        return f".{path[len(here) :]}"
    home = os.environ.get("HOME", "")
    return f"~{path[len(home) :]}" if home and path.startswith(home + os.sep) else path
