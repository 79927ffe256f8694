"""Where one configuration lies, and where its controller keeps things."""

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from reconciler.admission.view import Surroundings
from reconciler.control import folders


@dataclass(frozen=True, slots=True)
class Place:
    """The folders of one configuration."""

    config: Path
    state: Path
    run: Path

    @classmethod
    def of(cls, config: Path) -> "Place":
        """Those that the surroundings name; raises ``folders.Foreign``."""
        return cls(config, folders.state(config), folders.run(config))

    def claim(self) -> None:
        """Say in them whose they are, once the lock is held. Raises ``folders.Foreign`` and OSError."""
        folders.state(self.config)  # another may have taken it before the lock was ours
        _need_files(self.state)
        for folder in (self.state, self.run):
            if folder.is_dir():
                folders.claim(self.config, folder)

    def surroundings(self) -> Surroundings:
        """What no agent's writable scope may overlap, and whose ``~`` it is."""
        forbidden = (self.config, self.state, self.run)
        return Surroundings(home=str(Path.home()), forbidden=tuple(str(path.resolve()) for path in forbidden))


_LARGE = frozenset({"objects", "envs", "attempts"})  # copies of code, and papers: not read at a start


def _need_files(folder: Path) -> None:
    """Raise OSError where a pipe or a device lies in a state folder: whoever opens one waits for ever."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for one in entries:
            if one.is_dir(follow_symlinks=False):
                if one.name not in _LARGE:
                    _need_files(Path(one.path))
            elif not one.is_file(follow_symlinks=False):
                mode = one.stat(follow_symlinks=False).st_mode
                if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
                    raise OSError(f"{one.path} is no file: remove it, and start again")
