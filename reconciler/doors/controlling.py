"""``daemon``: asking a running controller, and being one."""

import importlib
import json
import os
import socket
import sys
import time
from typing import Any

from reconciler.control import folders, lock
from reconciler.doors import client, columns, tables, usage

_STOP_S = 20.0  # a controller drains its connectors for two seconds each, together
_POLL_S = 0.05


def run_daemon(settings: usage.Settings) -> int:
    """Be the controller until told to stop."""
    from reconciler.control import daemon  # noqa: PLC0415 - all rooms; the other commands do without

    config = folders.configuration(settings.config)
    served_before = (folders.state(config) / "admitted").is_dir()  # then it is away, and that ends nothing
    from reconciler.control import systemd, watch  # noqa: PLC0415
    from reconciler.doors import logbook, offline  # noqa: PLC0415

    absent = folders.absent(str(config), usage.path_shown(str(config))) or offline.nothing(config)
    if absent and not served_before:
        raise usage.Stopped(absent)

    log = logbook.Logbook(settings, sys.stderr)
    outside = watch.Outside(_http, log.follow, systemd.Notifier(os.environ))
    return daemon.run(config, outside)


async def _http(listener: socket.socket, observed: Any) -> None:
    """Serve metrics and health; what that needs is imported once it is asked for, and not on the loop."""
    import anyio.to_thread  # noqa: PLC0415

    http = await anyio.to_thread.run_sync(importlib.import_module, "reconciler.doors.http")
    await http.serve(listener, observed)


def adopt(settings: usage.Settings) -> int:
    """Take over the state of a configuration that was moved here; 0. Raises ``usage.Stopped``."""
    from reconciler.control import daemon  # noqa: PLC0415 - all rooms; the other commands do without

    config = folders.configuration(settings.config)
    if absent := folders.absent(str(config), usage.path_shown(str(config))):
        raise usage.Stopped(absent)
    try:
        daemon.adopt(config)
    except (lock.Held, daemon.CannotStart) as fault:
        raise usage.Stopped(f"nothing was taken over: {fault}; stop it and try again") from None
    if not settings.quiet:
        sys.stderr.write(f"The state in {folders.state(config)} is of {config} from now on.\n")
    return 0


def daemon_status(settings: usage.Settings) -> int:
    """Say whether a controller answers, and for what; 0 when one does, 1 when none."""
    control = client.Client(settings.config)
    told = control.ask("hello", {})
    if settings.output == "json":
        sys.stdout.write(json.dumps(told, indent=2) + "\n")
        return 0
    rows = [
        ["controller", f"pid {told.get('pid')}, handler {told.get('version')}"],
        ["config", usage.path_shown(control.config)],
        ["serves", f"{_revision(told)}, generation {told.get('generation')}"],
        ["state", usage.path_shown(str(folders.state(folders.configuration(settings.config))))],
        ["control", usage.path_shown(control.path)],
    ]
    rows += [["http", str(told["http"])]] if told.get("http") else []
    faults = told.get("faults")
    rows += [["fault", str(fault)] for fault in (faults if isinstance(faults, list) else ())]
    paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
    sys.stdout.write(columns.table(rows, paint, [["bold", ""] for _ in rows]))
    return 0


def _revision(told: dict[str, object]) -> str:
    return tables.revision(str(told.get("revision") or "none@"))


def stop_daemon(settings: usage.Settings) -> int:
    """Tell the controller to stop, and wait until it has; 1 when it does not in time."""
    control = client.Client(settings.config)
    told = control.ask("stop", {})
    pid = told.get("pid")
    until = time.monotonic() + (settings.timeout_s or _STOP_S)
    state = folders.state(folders.configuration(settings.config))
    while time.monotonic() < until:
        if lock.owner(state) is None:
            if not settings.quiet:
                sys.stderr.write(f"The controller (pid {pid}) has stopped.\n")
            return 0
        time.sleep(_POLL_S)
    raise usage.Stopped(f"the controller (pid {pid}) was told to stop and is still there")
