"""Why nobody answers at a session's socket, and what to do: the session is over, or its controller is away.

Its folder says which configuration it belongs to, and that one's state folder whether the session is still
written down; so nothing has to be named. Looked up only where it has to be told. Inside a sandbox neither the
controller's socket nor its state can be seen, and that is said instead.
"""
# ruff: noqa: PTH112, PTH113, PTH118, PTH119, PTH120 - for the bridge and for call, which do without pathlib

import os

from reconciler.control import folders
from reconciler.doors import usage

SANDBOXED = "HANDLER_SANDBOX"  # set inside a sandbox of 'handler run --sandbox'
_VARIABLES = "HANDLER_SESSION HANDLER_SERVICES HANDLER_CAPABILITIES"


def why(path: str, *, lives: bool) -> str:
    """One sentence on why nothing answers at ``path``, a session's socket; ``lives`` where somebody listens
    at the control socket of its run folder.
    """
    folder = os.path.dirname(path)
    run = os.path.dirname(os.path.dirname(folder))
    if os.environ.get(SANDBOXED):
        return (
            f"nobody answers at {path}: either no controller runs, and the session goes on once one does, or "
            "the session is over (outside this sandbox, 'handler session list' says which)"
        )
    try:
        config = str(folders.configuration(using=run))
    except LookupError:
        config = ""
    known = _is_written_down(config, os.path.basename(folder))
    if not known and (lives or not os.path.isdir(folder)):
        return _over(os.path.basename(folder))
    if lives:
        return f"the controller has not opened {path} (again) yet: try again in a moment"
    shown = usage.path_shown(config, anywhere=True)
    start = (
        f"for {shown}: start one with 'handlerd -c {shown}'" if config else "where it was opened: start one"
    )
    return f"no controller runs {start}; the session goes on then"


def _over(session: str) -> str:
    ours = os.environ.get("HANDLER_SESSION") or os.environ.get("HANDLER_SERVICES")
    leave = f"unset {_VARIABLES}" if ours else ""
    anew = "open a new one with 'handler session open AGENT'"
    return f"session '{session}' is over: {f'{leave}, or {anew}' if leave else anew}"


def _is_written_down(config: str, session: str) -> bool:
    """Whether the session's own file is still there: it goes when the session ends."""
    if not config:
        return False
    state = str(folders.state(folders.configuration(config), whosever=True))
    return os.path.isfile(os.path.join(state, "sessions", f"{session}.json"))
