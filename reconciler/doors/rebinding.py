"""``handler rebind``: edits the one value that selects a binding, and nothing else of the file.

The result is judged before it is saved: where it would not be admitted, the file stays as it is, byte for
byte. Comments are kept; a file that changed in the meantime is not overwritten.
"""

import sys
from dataclasses import dataclass

from reconciler.control import folders
from reconciler.doors import editing, offline, usage
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.problems import Path, listed


@dataclass(frozen=True, slots=True)
class Edit:
    """The edit of one selection: the file as it was read, and with the value; None where it says that."""

    about: ObjectRef
    file: str
    before: bytes
    after: bytes | None


def run(settings: usage.Settings, agent: str, interface: str, binding: str) -> int:
    """Point an agent's interface at a binding; 0 saved, 1 the result would not be admitted."""
    look = offline.look(folders.configuration(settings.config))
    made = edit(look, agent, interface, binding)
    if made.after is None:
        sys.stderr.write(f"{made.file} selects {binding} for {interface} already.\n")
        return 0
    if not editing.save(settings, look, made.file, made.after, about=made.about):
        return 1
    say(settings, look, made, binding)
    return 0


def edit(look: offline.Look, agent: str, interface: str, binding: str) -> Edit:
    """The edit that points an agent's interface at a binding. Raises ``Usage``, ``Stopped``."""
    about = ObjectRef(Kind.AGENT, agent)
    file = editing.file_of(look, about)
    before = look.tree.files[file]
    values = editing.values(look, file)
    after = editing.edited(look, file, {_place(values, interface): binding})
    return Edit(about, file, before, None if after == before else after)


def say(settings: usage.Settings, look: offline.Look, made: Edit, binding: str) -> None:
    """Tell that it is saved, and when it holds."""
    if not settings.quiet:
        agent = made.about.name
        said = f"Saved {made.file}. The next session of {agent} uses {binding}; open ones stay."
        sys.stderr.write(f"{said} {editing.when(look)}".strip() + "\n")


def _place(values: dict[str, object], interface: str) -> Path:
    """The key that holds the selection: the short form, or the ``binding`` of the long one."""
    services = values.get("services")
    chosen = services.get(interface) if isinstance(services, dict) else None
    if isinstance(chosen, list) and len(chosen) > 1:
        raise usage.Stopped(
            f"{interface} is answered by {listed(map(str, chosen))}, each for its own models: "
            "edit the list in the agent's file"
        )
    return ("services", interface, "binding") if isinstance(chosen, dict) else ("services", interface)
