"""``handler fmt``: the TOML files of a configuration in their canonical layout, comments kept.

What a digest holds is left as it is: the folders of published interface versions, connectors that a binding
pins, ``handler.lock`` itself. So are files that cannot be read as TOML, which are told, and links. A file is
replaced whole, and only by a text that was read again and says the same.
"""

import fnmatch
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from reconciler.config import lock, toml, tomlform
from reconciler.config.text import TextFault
from reconciler.control import folders
from reconciler.doors import columns, editing, offline, usage
from reconciler.model.inventory import Tree

_FILES = (
    "handler.toml",
    "bindings/*.toml",
    "projects/*.toml",
    "agents/*.toml",
    "connectors/*/connector.toml",
    "interfaces/*/*/interface.toml",
    "policies/egress.toml",
    "policies/approval.toml",
    "profiles/*/*/profile.toml",
    "interfaces/*/*/conformance/cases.toml",
)
_LOCK = "handler.lock"


def run(settings: usage.Settings, paths: tuple[str, ...], *, check: bool) -> int:
    """Lay out every file (below ``paths``); 0 all are, 1 one is not (``check``) or cannot be read as TOML."""
    given = [Path(path).absolute() for path in paths]
    root = offline.root_of(given[0]) if given else folders.configuration(settings.config)
    look = offline.look(root)
    wanted = list(_wanted(look, given))
    kept = _frozen(look.tree)
    code, changed = 0, 0
    for file in wanted:
        if why := next((why for start, why in kept.items() if file.startswith(start)), ""):
            if look.root / file in given:
                sys.stderr.write(f"{file} is left as it is: {why}\n")
            continue
        try:
            after = tomlform.canonical(look.tree.files[file])
        except ValueError as error:
            sys.stderr.write(f"handler: {columns.shown(file)} is left as it is: {error}\n")
            code = 1
            continue
        if after != look.tree.files[file]:
            changed += 1
            _done(settings, look, file, after, check=check)
    sys.stdout.flush()
    if not settings.quiet:
        sys.stderr.write(_told(len(wanted), changed, check=check))
    return 1 if check and changed else code


def _done(settings: usage.Settings, look: offline.Look, file: str, /, after: bytes, *, check: bool) -> None:
    """Show the difference (``check``), or write the file and print its name."""
    before = look.tree.files[file]
    if check:
        paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
        sys.stdout.write(editing.difference(file, before, after, paint))
    else:
        editing.write(look.root / file, before, after)
        sys.stdout.write(f"{columns.shown(file)}\n")


def _told(count: int, changed: int, *, check: bool) -> str:
    files = columns.counted(count, "file")
    if not changed:
        return f"{files} looked at: nothing to change.\n"
    return (
        f"{changed} of {files} {'would be' if check else 'were' if changed > 1 else 'was'} laid out anew.\n"
    )


def _wanted(look: offline.Look, given: list[Path]) -> Iterator[str]:
    """The files that are meant, sorted; raises ``usage.Usage`` for a path that holds none."""
    ours = [path for path in sorted(look.tree.files) if _is_ours(path)]
    if not given:
        yield from ours
        return
    found: set[str] = set()
    for path in given:
        inside = [file for file in ours if path in (look.root / file, *(look.root / file).parents)]
        if not inside and (path.is_symlink() or path == look.root / _LOCK):
            what = "it is a link" if path.is_symlink() else "a digest holds its bytes"
            sys.stderr.write(f"{usage.path_shown(str(path))} is left as it is: {what}\n")
            continue
        if not inside:
            raise usage.Usage(f"{usage.path_shown(str(path))} holds no TOML file of the configuration")
        found.update(inside)
    yield from sorted(found)


def _is_ours(path: str) -> bool:
    return any(fnmatch.fnmatchcase(path, form) and path.count("/") == form.count("/") for form in _FILES)


def _frozen(tree: Tree) -> dict[str, str]:
    """The folders whose bytes a digest holds, each with why."""
    found = {lock.folder(ref): f"{ref} is published" for ref in _published(tree)}
    for path, data in tree.files.items():
        if not fnmatch.fnmatchcase(path, "bindings/*.toml") or b"connectorDigest" not in data:
            continue
        told = toml.read(data)
        pinned = f"{told.get('connector')}/" if isinstance(told, dict) else ""  # it may be any of them
        found[f"connectors/{pinned}"] = f"{path} pins its digest"
    return found


def _published(tree: Tree) -> Iterable[str]:
    """The versions that ``handler.lock`` lists; every version where that cannot be read."""
    every = {"/".join(path.split("/")[1:3]) for path in tree.files if path.startswith("interfaces/")}
    data = tree.files.get(_LOCK)
    if data is None:
        return every if tree.unread(_LOCK) else ()
    found = lock.read(data)
    return every if isinstance(found, TextFault) else found.entries.keys()
