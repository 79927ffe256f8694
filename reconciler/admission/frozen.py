"""The law of frozen versions: a published interface version never changes, not by one byte.

Publishing is one entry in the layer's ``handler.lock``: the digest of the version's whole folder, and a
second over what a model reads, which tells a reformatted file from a changed contract (both are refused). A
version without an entry is a draft. Locks are machine-written; this module says what an entry holds and what
may not differ from it, ``config.lock`` reads and writes the file.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping

import orjson
import rfc8785

from reconciler.admission.view import View, inside, whole_path
from reconciler.config.lock import folder
from reconciler.model.inventory import Inventory, Lock, LockEntry, Resource
from reconciler.model.names import InterfaceRef
from reconciler.model.problems import Problem, Severity, Span, listed, quoted
from reconciler.model.resources import Interface, Profile, Record


def entry(resource: Resource[Interface], reviewer: str, date: str) -> LockEntry:
    """What ``handler lock add`` writes for a version; raises ValueError when ``tools.json`` cannot be read.

    ``date`` is an ISO date, ``reviewer`` the person who read what a model will read.
    """
    return LockEntry(
        ref=resource.ref.name,
        digest=f"sha256:{resource.digest}",
        model_digest=model_digest(resource),
        reviewed_by=reviewer,
        published=date,
        files=tuple(sorted((path, _sha256(data)) for path, data in inside(resource).items())),
    )


def profile_entry(resource: Resource[Profile], reviewer: str, date: str) -> LockEntry:
    """What ``handler lock add`` writes for a profile: the digest of its facts."""
    return LockEntry(resource.ref.name, f"sha256:{resource.digest}", "", reviewer, date)


def model_digest(resource: Resource[Interface]) -> str:
    """``sha256:…`` over the RFC 8785 form of what a model reads: the tools and the text of the skills."""
    files = inside(resource)
    skills = {path: data for path, data in files.items() if _is_skill(path)}
    try:
        tools = orjson.loads(files.get("tools.json", b""))
        texts = {path: data.decode() for path, data in skills.items()}
        canonical = rfc8785.dumps({"tools": tools, "skills": texts})
    except (orjson.JSONDecodeError, UnicodeDecodeError, rfc8785.CanonicalizationError) as error:
        raise ValueError(f"what a model reads of {resource.ref.name} has no canonical form") from error
    return _sha256(canonical)


def _sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def published_version_is_unchanged(view: View, interface: Resource[Interface]) -> Iterator[Problem]:
    """A version in ``handler.lock`` is byte for byte the one that was published."""
    locked = view.locked(interface.layer, interface.ref.name)
    if locked is None or locked.digest == f"sha256:{interface.digest}":
        return
    changed = _changed(locked, view.last_admitted(interface.ref), interface)
    try:
        same = model_digest(interface) == locked.model_digest
    except ValueError:
        same = False
    spec = interface.spec
    following = f"interfaces/{spec.name}/v{spec.version + 1}"
    yield Problem(
        code="I301",
        what=f"{interface.ref.name} is published and has changed: "
        + (f"{_files(changed)}; " if changed else "")
        + ("bytes differ, what a model reads is the same" if same else "what a model reads differs"),
        why="a published version is frozen: agents rely on every byte of it",
        mend=f"restore {listed(changed) if changed else 'the folder'} from version control, "
        f"or publish the change as {following}",
        at=Span(whole_path(interface, changed[0]) if len(changed) == 1 else interface.file),
        about=interface.ref,
        reason="FrozenModified",
    )


RULES = (published_version_is_unchanged,)


def locks_name_what_is_there(inventory: Inventory) -> Iterator[Problem]:
    """A warning for each entry of a lock whose version is gone: a published version should stay."""
    for layer, lock in inventory.locks.items():
        for version in sorted(lock.entries):
            home, manifest = folder(version), "profile.toml" if "@" in version else "interface.toml"
            if (layer, f"{home}{manifest}") in inventory.sources:
                continue
            yield Problem(
                code="I302",
                what=f"handler.lock lists {version}, which is not in {home.partition('/')[0]}/",
                why="a published version stays, so that whoever relies on it can still be served",
                mend=f"restore {home} from version control, or delete its entry",
                at=Span("handler.lock", lock.entries[version].line, 1),
                severity=Severity.WARNING,
                reason="UnresolvedReference",
            )


def entries_that_changed(then: Lock, now: Lock, since: str) -> Iterator[Problem]:
    """Each entry of the earlier lock that is gone or says something else now."""
    for ref, was in then.entries.items():
        there = now.entries.get(ref)
        same = there is not None and _promise(there) == _promise(was)
        same = same and there is not None and (not was.files or was.files == there.files)
        if not same:
            yield Problem(
                code="I303",
                what=f"{ref} was published at {quoted(since)}, and its entry is "
                + ("gone" if there is None else "another now"),
                why="a published version stays as it was: agents rely on every byte of it",
                mend="take the entry and the folder from version control, "
                f"and publish the change as {following(ref)}",
                at=Span("handler.lock", there.line, 1) if there else Span("handler.lock"),
                reason="FrozenModified",
            )


def following(ref: str) -> str:
    """Where the next version of something published lies."""
    if "@" in ref:
        name, _, revision = ref.partition("@")
        return f"profiles/{name}/{int(revision) + 1}"
    version = InterfaceRef.parse(ref)
    return f"interfaces/{version.name}/v{version.version + 1}"


def _promise(entry: LockEntry) -> tuple[str, ...]:
    return entry.digest, entry.model_digest, entry.reviewed_by, entry.published


def _files(paths: Iterable[str]) -> str:
    names = list(paths)
    shown, more = names[:3], len(names) - 3
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _changed(locked: LockEntry, last: Resource[Record] | None, now: Resource[Interface]) -> list[str]:
    """The files that are not what they were, as the lock has them or else the last form; none: not known."""
    before: Mapping[str, object] = dict(locked.files)
    after: Mapping[str, object] = {path: _sha256(data) for path, data in inside(now).items()}
    if not before:
        if last is None or f"sha256:{last.digest}" != locked.digest:
            return []
        before, after = inside(last), inside(now)
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def _is_skill(path: str) -> bool:
    return path.startswith("skills/") and path.endswith("/SKILL.md")
