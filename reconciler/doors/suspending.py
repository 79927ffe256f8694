"""``handler suspend`` and ``resume``: edit ``suspend`` and ``suspendReason`` of a binding or an agent.

A suspended binding answers no new call, of any session; a suspended agent opens no new session, and its open
ones go on. Both keep everything else, so that resuming brings back what was. ``resume`` removes the keys,
unless a comment stands on their lines: then the comment stays, and the key says false.
"""

import sys

from reconciler.config.text import comments
from reconciler.control import folders
from reconciler.doors import columns, editing, offline, standing, usage
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.problems import Path

_KINDS = {"binding": Kind.BINDING, "agent": Kind.AGENT}
_SUSPEND, _REASON = ("suspend",), ("suspendReason",)


def suspend(settings: usage.Settings, word: str, reason: str) -> int:
    """Suspend an object; 0 saved or suspended already, 1 the result would not be admitted."""
    look, ref, file = _found(settings, word)
    told = editing.values(look, file)
    changes: dict[Path, object] = {} if told.get("suspend") is True else {_SUSPEND: True}
    if reason and told.get("suspendReason") != reason:
        changes[_REASON] = reason
    if not changes:
        sys.stderr.write(f"{ref} is suspended already.\n")
        return 0
    if not editing.save(settings, look, file, editing.edited(look, file, changes), about=ref):
        return 1
    _say(settings, f"Saved {file}. {_meaning(settings, ref)} {editing.when(look)}")
    return 0


def resume(settings: usage.Settings, word: str) -> int:
    """End a suspension; 0 saved or not suspended, 1 the result would not be admitted."""
    look, ref, file = _found(settings, word)
    told = editing.values(look, file)
    if not told.get("suspend") and not told.get("suspendReason"):
        sys.stderr.write(f"{ref} is not suspended.\n")
        return 0
    after = _without(look, file, told)
    if not editing.save(settings, look, file, after, about=ref):
        return 1
    again = "Calls are answered again." if ref.kind is Kind.BINDING else "New sessions open again."
    _say(settings, f"Saved {file}. {again} {editing.when(look)}")
    return 0


def _without(look: offline.Look, file: str, told: dict[str, object]) -> bytes:
    """The file without the suspension: a key goes, or is emptied where a comment would go with it."""
    before = comments(look.tree.files[file].decode())
    kept: dict[Path, object] = {}
    for path, empty in ((_SUSPEND, False), (_REASON, "")):
        if path[0] not in told:
            continue
        removed = editing.edited(look, file, {path: None})
        kept[path] = None if comments(removed.decode()) == before else empty
    return editing.edited(look, file, kept)


def _found(settings: usage.Settings, word: str) -> tuple[offline.Look, ObjectRef, str]:
    kind, slash, name = word.partition("/")
    if not slash:
        raise usage.Usage(f"'{word}' is no object: write KIND/NAME, like binding/ocr-perso")
    known = standing.kind_of(kind)
    if known not in _KINDS:
        raise usage.Usage(f"a {known} cannot be suspended: bindings and agents can")
    look = offline.look(folders.configuration(settings.config))
    ref = ObjectRef(_KINDS[known], name)
    return look, ref, editing.file_of(look, ref)


def _meaning(settings: usage.Settings, ref: ObjectRef) -> str:
    """What a suspension does to the sessions that are open now."""
    if ref.kind is Kind.AGENT:
        count = len(standing.sessions(settings.config, agent=ref.name))
        open_ones = columns.counted(count, "open session")
        stay = f"its {open_ones} {'goes' if count == 1 else 'go'} on" if count else "none is open"
        return f"New sessions of {ref.name} are refused; {stay}."
    count = len(standing.sessions(settings.config, binding=ref.name))
    touched = f", in {columns.counted(count, 'open session')} too" if count else ""
    return f"New calls to {ref.name} end unavailable{touched}; calls under way are finished."


def _say(settings: usage.Settings, text: str) -> None:
    if not settings.quiet:
        sys.stderr.write(f"{text.strip()}\n")
