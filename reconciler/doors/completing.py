"""``completion bash|zsh|fish``: a script for a shell, and what it asks for while somebody types.

Commands and options are those that there are; names are read from the files of the configuration and of its
state, so that no controller is needed and nothing is waited for. Whatever goes wrong completes nothing.
"""

import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import click

from reconciler.doors import standing, usage

SHELLS = ("bash", "zsh", "fish")
_SCRIPTS = {
    "bash": """\
# handler completion bash > ~/.local/share/bash-completion/completions/handler
_handler_complete() {
    local IFS=$'\\n'
    COMPREPLY=($(handler completion words -- "$COMP_CWORD" "${COMP_WORDS[@]}" 2>/dev/null))
}
complete -o default -F _handler_complete handler
""",
    "zsh": """\
#compdef handler
# handler completion zsh > a folder of $fpath, as _handler
_handler() {
    local -a found
    found=("${(@f)$(handler completion words -- $((CURRENT - 1)) "${words[@]}" 2>/dev/null)}")
    if [[ -n "${found[1]}" ]]; then compadd -- "${found[@]}"; else _files; fi
}
if [[ "${funcstack[1]}" == "_handler" ]]; then _handler "$@"; else compdef _handler handler; fi
""",
    "fish": """\
# handler completion fish > ~/.config/fish/completions/handler.fish
function __handler_complete
    set -l before (commandline -opc)
    handler completion words -- (count $before) $before (commandline -ct) 2>/dev/null
end
complete -c handler -a '(__handler_complete)'
""",
}
_REF = ("binding", "agent", "project", "chain", "connector", "interface")
# What the words after a command name: a kind, several as KIND/NAME (the tuple), or one of these words.
_KIND = "KIND"
_ARGUMENTS: dict[str, tuple[str | tuple[str, ...], ...]] = {
    "rebind": ("agent", "interface", "binding"), "swap": ("agent", "interface", "binding"),
    "trace": ("agent", "interface"), "suspend": (("binding", "agent"),), "resume": (("binding", "agent"),),
    "wait": (_REF,), "check": (("agent",),), "reconcile": (_REF,), "history": (_REF,), "events": (_REF,),
    "describe": (_REF,), "get": (_KIND,), "new": (_KIND,), "probe": ("binding",), "logs": ("binding",),
    "run": ("agent",), "render": ("agent",), "chain run": ("chain",), "chain show": ("chain",),
    "chain graph": ("chain",), "chain vet": ("chain",), "runs show": ("run",), "runs resume": ("run",),
    "runs cancel": ("run",), "connector check": ("connector",), "secret check": ("binding",),
    "lock add": ("interface",), "lock review": ("interface",), "approve": ("approval",),
    "session open": ("agent",), "completion": ("SHELL",),
}  # fmt: skip
_VALUES = {
    "-o": usage.OUTPUTS, "--output": usage.OUTPUTS, "--color": usage.COLOURS, "--agent": "agent",
    "--binding": "binding", "--connector": "connector", "--implements": "interface",
}  # fmt: skip
_BARE = {  # commands that read their words without click
    "status": ("-w",), "get": (), "describe": (), "call": ("--list", "--agent", "--binding", "--socket"),
    "run": ("--sandbox", "--"),
}  # fmt: skip
_FILES_OF = {"run": "runs", "approval": "approvals"}  # below the state folder

# What a shell may put into a line as it is: a file's name that says more to it is not completed.
_PLAIN = re.compile(r"[A-Za-z0-9._/@:+=,-]+")


def script(shell: str) -> int:
    """Print a shell's script; 0."""
    sys.stdout.write(_SCRIPTS[shell])
    return 0


def words(given: Sequence[str], commands: click.Group) -> int:
    """Print what may stand at a place, one a line; 0. ``given``: the place, then the whole line's words."""
    with suppress(Exception):
        place = int(given[0])
        line = [*given[1:], ""]
        found = _fitting(line[1:place], line[place], commands)
        fit = (one for one in sorted(set(found)) if one.startswith(line[place]) and _PLAIN.fullmatch(one))
        sys.stdout.write("".join(f"{one}\n" for one in fit))
    return 0


def _fitting(before: list[str], now: str, commands: click.Group) -> Iterable[str]:
    asked = _VALUES.get(before[-1]) if before else None
    if before and before[-1] in ("-c", "--config", "--timeout"):
        return ()
    try:
        settings, said = usage.settings(before[:-1] if asked else before)
    except usage.Usage:
        return ()
    if asked is not None:
        return _names(settings, asked) if isinstance(asked, str) else asked
    if not said:
        return (*(name.split()[0] for name, _, _ in usage.COMMANDS), *_shared(now))
    return _of_command(settings, said, now, commands)


def _of_command(settings: usage.Settings, said: list[str], now: str, commands: click.Group) -> Iterable[str]:
    command = commands.get_command(click.Context(commands), said[0])
    path, rest = said[0], said[1:]
    if isinstance(command, click.Group):
        named = command.list_commands(click.Context(command))
        if not rest or rest[0] not in named:
            return (*named, *(_plain(settings, path, rest) if path in _ARGUMENTS else ()), *_shared(now))
        command = command.get_command(click.Context(command), rest[0])
        path, rest = f"{path} {rest[0]}", rest[1:]
    if now.startswith("-"):
        own = [name for one in command.params for name in one.opts if name[0] == "-"] if command else []
        return (*own, *_BARE.get(path, ()), *_shared(now))
    return _plain(settings, path, [one for one in rest if not one.startswith("-")])


def _shared(now: str) -> Iterable[str]:
    return (*usage.SHARED, "--help") if now.startswith("-") else ()


def _plain(settings: usage.Settings, path: str, rest: list[str]) -> Iterable[str]:
    """What an argument may be, by how many stand before it."""
    wanted = _ARGUMENTS.get(path, ())
    if path == "get" and rest:
        with suppress(usage.Usage):
            return _names(settings, standing.kind_of(rest[0]))
    if len(rest) >= len(wanted):
        return ()
    one = wanted[len(rest)]
    if one == "SHELL":
        return SHELLS
    if one == _KIND:
        return dict.fromkeys(standing.KINDS.values())
    if isinstance(one, tuple):
        return (f"{kind}/{name}" for kind in one for name in _names(settings, kind))
    return _names(settings, one)


def _names(settings: usage.Settings, kind: str) -> list[str]:
    """The objects of a kind, as the files of the configuration and of its state have them."""
    from reconciler.control import folders  # noqa: PLC0415 - only where a name is asked for

    config, state, _ = folders.places(settings.config)
    if kind in _FILES_OF:
        return [path.stem for path in Path(state, _FILES_OF[kind]).glob("*")]
    told = Path(state, "status", kind)
    found = {str(path.relative_to(told))[: -len(".json")] for path in told.rglob("*.json")}
    if kind == "interface":
        return sorted({*found, *(name.partition("/")[0] for name in found)})
    for path in Path(config, f"{kind}s").glob("*"):
        found.add(path.stem if path.is_file() else path.name)
    return sorted(found)
