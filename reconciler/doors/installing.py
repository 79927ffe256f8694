"""``daemon install``: a unit by which systemd runs the controller of one configuration, and its removal.

Written is one file that says whose it is; another's is never overwritten or removed. Nothing is started: what
does that is told. The unit names every folder that commands of this shell use, so that they find it.
"""

import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from reconciler.control import folders
from reconciler.doors import offline, usage

_MARK = "# Written by 'handler daemon install' for "
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_SYSTEM = "/etc/systemd/system"
_LONGEST = 2**16  # bytes of a unit


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be done: ``system`` a unit of the machine's own manager; ``name`` of the unit, without its
    ending; ``dry`` only print it; ``remove`` it.
    """

    system: bool = False
    name: str = ""
    dry: bool = False
    remove: bool = False


def run(settings: usage.Settings, wish: Wish) -> int:
    """Write, print or remove a unit; 0. Raises ``usage.Stopped``, ``usage.Usage``."""
    config, state, run_folder = folders.places(settings.config)
    name = wish.name or re.sub(r"[^A-Za-z0-9_.-]+", "-", f"handler-{Path(config).name}").strip("-.")
    if not _NAME.fullmatch(name):
        raise usage.Usage(f"'{name[:80]}' is no name of a unit: letters, digits, dots, dashes")
    path = _folder(system=wish.system) / f"{name.removesuffix('.service')}.service"
    if wish.remove:
        return _removed(settings, path, config, system=wish.system)
    if absent := folders.absent(config, usage.path_shown(config)) or offline.nothing(Path(config)):
        raise usage.Stopped(absent)
    text = unit(config, state, run_folder, system=wish.system)
    if wish.dry:
        sys.stdout.write(text)
        return 0
    _written(path, config, text)
    sys.stdout.write(f"{path}\n")
    if not settings.quiet:
        sys.stderr.write(_next(path.name, run_folder, system=wish.system))
    return 0


def unit(config: str, state: str, run_folder: str, *, system: bool) -> str:
    """The unit's text."""
    environment = {"HANDLER_STATE": state, "HANDLER_RUN": run_folder, "PATH": os.environ.get("PATH", "")}
    lines = "".join(
        f"Environment={_quoted(f'{key}={value}')}\n" for key, value in environment.items() if value
    )
    return f"""\
{_MARK}{config}
[Unit]
Description=Handler: services for AI agents ({_plain(Path(config).name)})
Documentation=man:systemd.service(5)

[Service]
Type=notify
NotifyAccess=main
WatchdogSec=60
Restart=always
RestartSec=2
KillMode=mixed
TimeoutStopSec=60
{lines}ExecStart={_quoted(_program()).replace("$", "$$")} -c {_quoted(config).replace("$", "$$")}
ExecReload=/bin/kill -HUP $MAINPID

[Install]
WantedBy={"multi-user" if system else "default"}.target
"""


def _program() -> str:
    beside = Path(sys.executable).parent / "handlerd"
    found = str(beside) if beside.is_file() else shutil.which("handlerd")
    if found is None:
        raise usage.Stopped("there is no handlerd beside this Python and none in $PATH")
    return os.path.abspath(found)  # noqa: PTH100 - a link stays the name by which it is updated


def _plain(text: str) -> str:
    return "".join(one if one.isprintable() else "?" for one in text).replace("%", "%%")


def _quoted(text: str) -> str:
    """One word of a unit's line. Raises ``usage.Stopped`` for what no line can hold."""
    if any(not one.isprintable() for one in text):
        raise usage.Stopped(f"no unit can name {text!r}")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def _folder(*, system: bool) -> Path:
    if system:
        if os.geteuid() != 0:
            raise usage.Stopped("a unit of the machine's own manager is root's to write: leave out --system")
        return Path(_SYSTEM)
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111
    return Path(home, "systemd", "user")


def _there(path: Path) -> str | None:
    """What a unit says; None where there is none. Raises ``usage.Stopped`` for what is no plain file."""
    if not os.path.lexists(path):
        return None
    if path.is_symlink() or not path.is_file():
        raise usage.Stopped(f"{path} is a link or no file: it is left as it is")
    with path.open("rb") as file:
        return file.read(_LONGEST).decode(errors="replace")


def _need_ours(path: Path, config: str, text: str) -> None:
    first = text.partition("\n")[0]
    if first != f"{_MARK}{config}":
        whose = first.removeprefix(_MARK) if first.startswith(_MARK) else "somebody else"
        raise usage.Stopped(f"{path} is of {whose}: it is left as it is; --name NAME makes another")


def _written(path: Path, config: str, text: str) -> None:
    if (before := _there(path)) is not None:
        _need_ours(path, config, before)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _removed(settings: usage.Settings, path: Path, config: str, *, system: bool) -> int:
    before = _there(path)
    if before is None:
        raise usage.Stopped(f"there is no {path}")
    _need_ours(path, config, before)
    path.unlink()
    sys.stdout.write(f"{path}\n")
    if not settings.quiet:
        tool = _tool(system=system)
        sys.stderr.write(
            f"Removed. If it runs: {tool} disable --now {path.name}; then {tool} daemon-reload\n"
        )
    return 0


def _tool(*, system: bool) -> str:
    return "systemctl" if system else "systemctl --user"


def _next(name: str, run_folder: str, *, system: bool) -> str:
    tool = _tool(system=system)
    told = f"Written. Start it, now and at each boot:\n  {tool} daemon-reload && {tool} enable --now {name}\n"
    if not system or run_folder.startswith("/run/user/"):
        told += "So that it goes on when nobody is logged in:\n  loginctl enable-linger\n"
    return told
