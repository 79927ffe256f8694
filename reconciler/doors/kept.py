"""What a controller keeps for commands that read without it: the state folder of a configuration.

A folder that is not there would be read as one in which nothing is, so a command at the wrong place would say
"no job" of another configuration's. One whose controller never ran, or that is gone while its state is not,
is read like any other.
"""

from pathlib import Path

from reconciler.control import folders
from reconciler.doors import usage


def state(settings: usage.Settings) -> Path:
    """The state folder, there or not. Raises ``usage.Stopped`` where there is no configuration either."""
    config, found, _ = folders.places(settings.config)
    path = Path(found)
    if not path.is_dir() and (absent := folders.absent(config, usage.path_shown(config))):
        raise usage.Stopped(absent)
    return path
