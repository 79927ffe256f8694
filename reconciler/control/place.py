"""Where one configuration lies, and where its controller keeps things."""

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
        for folder in (self.state, self.run):
            if folder.is_dir():
                folders.claim(self.config, folder)

    def surroundings(self) -> Surroundings:
        """What no agent's writable scope may overlap, and whose ``~`` it is."""
        forbidden = (self.config, self.state, self.run)
        return Surroundings(home=str(Path.home()), forbidden=tuple(str(path.resolve()) for path in forbidden))
