"""The skills beside interface versions, read where these lie: in the configuration or the catalogue."""

from collections.abc import Iterable
from pathlib import Path

from reconciler.control import folders
from reconciler.harness.rendering import Skill
from reconciler.model.names import InterfaceRef

_MAX_BYTES = 256 * 1024  # what admission allows one


def of(config: Path, interfaces: Iterable[InterfaceRef]) -> tuple[Skill, ...]:
    """Each skill of these versions, by name; of two of one name that of the later version in order.

    What cannot be read is left out: a harness goes without it, and calls are as they were.
    """
    found: dict[str, Skill] = {}
    for ref in interfaces:
        for layer in (folders.catalog(), config):
            home = layer / "interfaces" / ref.name / f"v{ref.version}" / "skills"
            for path in sorted(home.glob("*/SKILL.md")):
                try:
                    with path.open("rb") as file:
                        text = file.read(_MAX_BYTES + 1)
                except OSError:
                    continue
                if len(text) <= _MAX_BYTES:
                    found[path.parent.name] = Skill(path.parent.name, text)
    return tuple(found[name] for name in sorted(found))
