"""What runs inside a sandbox, by runtime: the file that our boot executes, its arguments, what it needs.

A python connector is its own file. A script of deno's or a program that listens on a path (``command``) runs
behind the kit's launcher, a server of standard input and output (``mcp``, or an image with mapped tools)
behind its wrapper; of a server that is elsewhere (``remote``) only the wrapper runs. The first word
of a command is ``python`` (the sandbox's interpreter), a script of the connector's own environment, a file of
its folder, an absolute path below ``sandbox.read``, or a program of the system: never looked up in a person's
PATH.
"""

import difflib
from dataclasses import dataclass
from pathlib import Path

from reconciler.model import places
from reconciler.model.recipes import Recipe
from reconciler.runtime import host
from reconciler.runtime.sandbox import GATE, Need

RUNTIMES = ("python", "command", "mcp", "deno", "image", "remote")
# Whose engine may reserve addresses that it never uses, and what it sets aside at its start, in bytes: deno
# makes 512 MiB writable for code that is compiled.
SET_ASIDE = {"deno": 2**30, "command": 0, "mcp": 0, "image": 0}
_BEHIND = {"command": "/kit/handler_launcher.py", "mcp": "/kit/handler_wrapper.py"}
_PYTHON = ("python", "python3")
_LAUNCHER = _BEHIND["command"]
_MAPPING = "/.handler/connector.toml"
_DENO = "/usr/bin/deno"  # inside, wherever it lies on the host
_DENO_KIT = "/kit/handler_imports.json"  # what "handler_connector" is to a script
_SOCKET = "/tmp/.handler/connector.sock"  # noqa: S108 - the launcher's, in the sandbox
_AT_ONCE = ("PYTHONUNBUFFERED", "1")  # what a python program prints is in the log when it is printed


@dataclass(frozen=True, slots=True)
class Launch:
    """``entry`` is relative to ``/app``, or absolute inside; ``words`` are its arguments."""

    entry: str
    words: tuple[str, ...] = ()
    needs: tuple[Need, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()


def launch(recipe: Recipe, code: Path, environment: Path | None) -> Launch:
    """How a recipe's process begins. ``code`` and ``environment`` lie on the host; raises host.Missing."""
    if recipe.runtime == "deno":
        return _deno(recipe)
    if recipe.runtime == "image":
        return _image(recipe, code)
    if recipe.runtime == "remote":
        return Launch("/kit/handler_remote.py")
    if recipe.runtime not in _BEHIND:
        return Launch(recipe.entry)
    first, needs = _program(recipe, code, environment)
    return Launch(
        entry=_BEHIND[recipe.runtime],
        words=(*first, *recipe.command[1:]),
        needs=needs,
        variables=(_AT_ONCE, *((("PYTHONPATH", "/env"),) if environment else ())),
    )


def _image(recipe: Recipe, code: Path) -> Launch:
    """``strangers`` says what the image runs: behind the launcher, or behind the wrapper where its tools are
    mapped. ``/app`` is the image's own, so the mapping lies beside what else is ours.
    """
    if not recipe.entry:
        return Launch(_LAUNCHER)
    mapping = Need(((str(code / recipe.entry), _MAPPING),))
    return Launch(_BEHIND["mcp"], needs=(mapping,), variables=(("HANDLER_CONNECTOR_MAPPING", _MAPPING),))


def _deno(recipe: Recipe) -> Launch:
    """A script of deno's, behind the launcher: it reads its folder and calls' files, and fetches nothing."""
    variables = {"DENO_DIR": "/tmp/.deno", "DENO_NO_UPDATE_CHECK": "1", "NO_COLOR": "1"}  # noqa: S108
    if recipe.egress and host.certificates() is not None:
        variables["DENO_TLS_CA_STORE"] = "system"  # what SSL_CERT_FILE names, as for every other program
    ways = (f"unix:{GATE}", *recipe.egress) if recipe.egress else ()
    flags = (
        *("--no-prompt", "--no-remote", "--no-npm", "--no-lock", "--cached-only", "--quiet", "--allow-env"),
        f"--allow-read=/app,/tmp,/run/connector,/run/secrets,{places.FOLDERS}",
        f"--allow-write=/tmp,/run/connector/out{f',{GATE}' if recipe.egress else ''}",
        f"--import-map={_DENO_KIT}",
        f"--allow-net={','.join((f'unix:{_SOCKET}', *ways))}",
    )
    words = (_DENO, "run", *flags, f"/app/{recipe.entry}")
    return Launch(_LAUNCHER, words, (host.deno(_DENO),), tuple(variables.items()))


def _program(
    recipe: Recipe, code: Path, environment: Path | None
) -> tuple[tuple[str, ...], tuple[Need, ...]]:
    """The first words of the command as the sandbox has them, and what they need there."""
    name = recipe.command[0]
    if name in _PYTHON:
        return (host.survey().interpreter,), ()
    if "/" not in name:
        if environment is not None and (environment / "bin" / name).is_file():
            return (host.survey().interpreter, f"/env/bin/{name}"), ()
        try:
            return (f"/usr/bin/{name}",), (host.program(name),)
        except host.Missing as fault:
            if environment is None:
                raise
            scripts = sorted(path.name for path in (environment / "bin").glob("*"))
            near = difflib.get_close_matches(name, scripts, n=1)
            there = "no package of requirements.lock has a script of that name"
            raise host.Missing(
                f"{fault}, and {there}" + (f": did you mean '{near[0]}'?" if near else "")
            ) from None
    if name.startswith("/"):
        return (name,), (host.executable(Path(name)),)
    inside = name.removeprefix("./")
    return (f"/app/{inside}",), (host.executable(code / inside),)
