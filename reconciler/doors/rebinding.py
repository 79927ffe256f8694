"""``handler rebind``: edits the one value that selects a binding, and nothing else of the file.

The result is judged before it is saved: where it would not be admitted, the file stays as it is, byte for
byte. Comments are kept; a file that changed in the meantime is not overwritten.
"""

import sys

from reconciler.control import folders
from reconciler.doors import editing, offline, usage
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.problems import Path


def run(settings: usage.Settings, agent: str, interface: str, binding: str) -> int:
    """Point an agent's interface at a binding; 0 saved, 1 the result would not be admitted."""
    look = offline.look(folders.configuration(settings.config))
    about = ObjectRef(Kind.AGENT, agent)
    file = editing.file_of(look, about)
    after = editing.edited(look, file, {_place(editing.values(look, file), interface): binding})
    if after == look.tree.files[file]:
        sys.stderr.write(f"{file} selects {binding} for {interface} already.\n")
        return 0
    if not editing.save(settings, look, file, after, about=about):
        return 1
    if not settings.quiet:
        said = (
            f"Saved {file}. The next session of {agent} uses {binding}; open ones stay. {editing.when(look)}"
        )
        sys.stderr.write(f"{said.strip()}\n")
    return 0


def _place(values: dict[str, object], interface: str) -> Path:
    """The key that holds the selection: the short form, or the ``binding`` of the long one."""
    services = values.get("services")
    chosen = services.get(interface) if isinstance(services, dict) else None
    return ("services", interface, "binding") if isinstance(chosen, dict) else ("services", interface)
