"""From where the configuration is read: the files as they lie, or a commit, and whether to believe it.

``[source]`` of the settings *in force* decides, so a file that is edited, or a commit that nobody signed,
cannot switch the gate off; the very first time the ``handler.toml`` that is there does. Another mode or
``ref`` is followed once what lies *there* says the same: a switch that is written down on one side only would
be undone by the next look, and done again by the one after.

In mode ``commit`` the work tree is read only to say whether it differs: locks and unfinished merges hold
nothing up. A commit that is refused is ``Gone`` with its own reason, and what was admitted stays in force.
"""

import logging
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from reconciler.admission import admit
from reconciler.admission.admit import Surroundings
from reconciler.config import load
from reconciler.control import atomic, checkouts, commits, gitstore, repository, signed
from reconciler.control.commits import Commit, Taken
from reconciler.control.source import Busy, Gone, Source
from reconciler.model import revisions, settings
from reconciler.model.inventory import Layer, Tree
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.resources import Config

_LOG = logging.getLogger("handler.source")
_SETTINGS = "handler.toml"
_FILE = "source.json"


@dataclass(frozen=True, slots=True)
class Choice:
    """What was read by which settings; ``attempted`` is the revision that was looked at, refused or not."""

    found: Tree | Busy | Gone
    by: settings.Source
    attempted: str = ""
    dirty: bool = False  # the work tree differs from HEAD, whatever is read
    passed: tuple[str, ...] = ()  # what a person should know although it was read
    moved: str = ""  # how it follows on what was in force, where that is worth a word

    @property
    def notes(self) -> tuple[str, ...]:
        """All that is to be said of it."""
        return (*self.passed, *filter(None, [self.moved]))


class Chooser:
    """Reads one configuration, again and again, from where its settings say. One look at a time."""

    def __init__(self, source: Source, config: Path, state: Path, where: Surroundings) -> None:
        """Nothing is read before ``choose``, nothing written before ``keep``; ``where`` is what settings are
        judged by.
        """
        self._source = source
        self._where = where
        self._config = config
        self._path = state / _FILE
        self._kept: settings.Source | None = None
        self._loaded = False
        self._moved = ("", "")  # the commit that was applied last, and what is to be said of it
        self._dirty = False
        self._resolved: dict[str, tuple[object, Commit]] = {}
        self._taken: dict[str, Taken] = {}
        self._judged: tuple[object, Gone | None] = (None, None)

    @property
    def kept(self) -> settings.Source:
        """The settings by which the last accepted tree was read; None: the defaults."""
        if not self._loaded:
            self._loaded = True
            self._kept = _loaded(self._path)
        return self._kept or settings.Source()

    def choose(self, wanted: settings.Source | None, applied: str, hints: Collection[str] = ()) -> Choice:
        """Look once. ``wanted`` are the settings in force (None: nothing ever was), ``applied`` the revision
        that is; ``hints`` are paths that changed.
        """
        bare = checkouts.is_bare(self._config)
        scanned = Gone(f"{self._config} is a bare repository") if bare else self._scanned(hints)
        if wanted is None:
            first = self._first(scanned, bare=bare)
            if not isinstance(first, settings.Source):
                return Choice(first, settings.Source())
            return self._confirmed(self._read(_as_read(first, bare=bare), scanned, applied, ()))
        wanted = _as_read(wanted, bare=bare)
        place = self.kept if applied else wanted
        by, notes = wanted, tuple[str, ...]()
        if (place.mode, place.ref) != (wanted.mode, wanted.ref) and not bare:
            stays = wanted.model_copy(update={"mode": place.mode, "ref": place.ref})
            if why := self._why_not(wanted, scanned):
                by, notes = stays, (why,)
        return self._read(by, scanned, applied, notes)

    def keep(self, choice: Choice) -> None:
        """What was chosen is in force: a restart reads from there. Raises OSError."""
        if not isinstance(choice.found, Tree):
            return
        new = revisions.parts(choice.found.revision).commit
        if new != self._moved[0]:
            self._moved = (new, choice.moved)
        if choice.by != self.kept:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            atomic.write(self._path, choice.by.model_dump_json(by_alias=True).encode() + b"\n")
            self._kept = choice.by

    def _scanned(self, hints: Collection[str]) -> Tree | Busy | Gone:
        found = self._source.hint(hints) if hints else self._source.scan()
        if isinstance(found, Tree):
            self._dirty = revisions.parts(found.revision).dirty
        return found

    def _first(self, scanned: Tree | Busy | Gone, *, bare: bool) -> settings.Source | Busy | Gone:
        """The settings when nothing was ever in force: the file that is there."""
        if bare:
            there = self._commit_tree(settings.Source(mode="commit"))
            scanned = there.tree if isinstance(there, Taken) else there
        if not isinstance(scanned, Tree):
            return scanned
        found = self._own(scanned)
        if found is None and (_SETTINGS in scanned.faults or b"source" in scanned.files[_SETTINGS]):
            return Gone(
                f"{_SETTINGS} is refused, so nobody can say which source it means: `handler validate` tells"
            )
        return (found or Config()).source

    def _confirmed(self, first: Choice) -> Choice:
        """A first commit counts when its own settings keep the gate that it was judged by: those are in force
        from then on.
        """
        if first.by.verify != "signed" or not isinstance(first.found, Tree):
            return first
        own = (self._own(first.found) or Config()).source
        if (own.verify, own.allowed_signers) == (first.by.verify, first.by.allowed_signers):
            return first
        why = (
            f"its own {_SETTINGS} does not ask for these signatures, the one in the work tree does: commit it"
        )
        return replace(first, found=Gone(f"{first.attempted} is refused: {why}", reason="SourceRefused"))

    def _own(self, tree: Tree) -> Config | None:
        """What a tree's own ``handler.toml`` says; None when it is there and refused, or cannot be read."""
        alone = {path: tree.files[path] for path in tree.files.keys() & {_SETTINGS}}
        read = load.inventory({Layer.CONFIG: Tree(tree.revision, alone)})
        found = admit.admit(read, {}, None, self._where).in_force.get(ObjectRef(Kind.CONFIG, "handler"))
        if found is not None and isinstance(found.spec, Config):
            return found.spec
        return None if alone or _SETTINGS in tree.faults else Config()

    def _why_not(self, wanted: settings.Source, scanned: Tree | Busy | Gone) -> str:
        """Why a switch waits, or "" when what lies there agrees."""
        if wanted.mode == "worktree":
            where, there = "the work tree", scanned
        else:
            taken = self._commit_tree(wanted)
            where, there = f"{wanted.ref!r}", taken.tree if isinstance(taken, Taken) else taken
        if not isinstance(there, Tree):
            return f"source.{_word(wanted)} is not followed: {there.detail}"
        own = (self._own(there) or Config()).source
        if own.mode == wanted.mode and (own.mode == "worktree" or own.ref == wanted.ref):
            return ""
        return (
            f"source.{_word(wanted)} is followed once {_SETTINGS} of {where} says so too: "
            f"there it is source.{_word(own)}"
        )

    def _read(
        self, by: settings.Source, scanned: Tree | Busy | Gone, applied: str, notes: tuple[str, ...]
    ) -> Choice:
        found: Tree | Busy | Gone = scanned
        attempted = ""
        if by.mode == "commit":
            taken = self._commit_tree(by)
            found = taken.tree if isinstance(taken, Taken) else taken
            self._resolved = {ref: one for ref, one in self._resolved.items() if ref == by.ref}
            self._taken = {ref: one for ref, one in self._taken.items() if ref == by.ref}
            attempted = self._resolved[by.ref][1].revision if by.ref in self._resolved else ""
        elif by.verify == "signed":
            why = notes or ('source.verify = "signed" needs source.mode = "commit"',)
            found = Gone(f'source.verify = "signed" is in force, and {why[0]}', reason="SourceRefused")
        else:
            notes = (*notes, *self._source.warnings)
        if not isinstance(found, Tree):
            return Choice(found, by, attempted, self._dirty, notes)
        return Choice(found, by, found.revision, self._dirty, notes, self._note(applied, found.revision))

    def _commit_tree(self, by: settings.Source) -> Taken | Gone:
        """The commit that ``ref`` means, judged and read; the last one itself while it means the same."""
        mark = commits.mark(self._config, by.ref)
        known = self._resolved.get(by.ref)
        if known is None or known[0] != mark:
            commit = commits.resolve(self._config, by.ref)
            if isinstance(commit, Gone):
                return replace(commit, detail=f"source.ref = {by.ref!r}: {commit.detail}{self._way_back(by)}")
            known = self._resolved[by.ref] = (mark, commit)
        commit = known[1]
        if (refused := self._refusal(commit, by)) is not None:
            return refused
        before = self._taken.get(by.ref)
        if before is not None and before.tree.revision == commit.revision:
            return before
        taken = commits.taken(commit, before or next(iter(self._taken.values()), None))
        if isinstance(taken, Taken):
            self._taken[by.ref] = taken
        return taken

    def _way_back(self, by: settings.Source) -> str:
        """What to do when the ref in force is no more: what another ref's settings say is not read."""
        named = not by.ref.startswith(("HEAD", "@")) and checkouts.checkout(self._config.resolve())
        if not named or self._kept is None or self._kept.ref != by.ref:
            return ""
        return (
            f"; it is the ref in force, so make it again (`git branch {by.ref} COMMIT`): "
            f"once {_SETTINGS} there names another, that one is followed"
        )

    def _refusal(self, commit: Commit, by: settings.Source) -> Gone | None:
        """Why a commit may not be believed, by the file of signers as it is now; None when it may."""
        if by.verify != "signed":
            return None
        signers = Path(by.allowed_signers or "").expanduser()
        if not signers.is_absolute():
            why = 'source.verify = "signed" needs source.allowedSigners, an absolute path'
            return Gone(f"{commit.revision} is refused: {why}", reason="SourceRefused")
        if (inside := self._is_inside(signers, commit)) is not None:
            why = f"source.allowedSigners lies in {inside}, so a commit may change it: move it out of there"
            return Gone(f"{commit.revision} is refused: {why}", reason="SourceRefused")
        case = (commit.name, signers, _signature(signers))
        if self._judged[0] != case:
            self._judged = (case, _judged(commit, signers))
        return self._judged[1]

    def _is_inside(self, signers: Path, commit: Commit) -> Path | None:
        """The folder of the configuration or of its repository that the file really lies in, or None."""
        at = commit.where.repository
        folders = [self._config, *([Path(at.top), Path(at.common_dir)] if at else [])]
        real = signers.resolve()
        return next((folder for folder in folders if real.is_relative_to(folder.resolve())), None)

    def _note(self, applied: str, revision: str) -> str:
        """What is to be said of a commit that does not follow the one that was applied."""
        old, new = revisions.parts(applied).commit, revisions.parts(revision).commit
        if new == self._moved[0] and new:
            return self._moved[1]
        if not old or not new or old == new:
            return ""
        where = repository.where(self._config.resolve())
        if where.repository is None:
            return ""
        store = checkouts.store(where.repository, new)
        if len(old) != len(new) or gitstore.is_ancestor(store, old, new) is False:
            return (
                f"{new} is not a descendant of {old}, which was applied before it: it is applied, as a reset "
                "or a branch wants it; where neither was meant, 'handler rollback' serves the one before"
            )
        return ""


def _judged(commit: Commit, signers: Path) -> Gone | None:
    assert commit.where.repository is not None  # noqa: S101 - a commit is in one
    store = checkouts.store(commit.where.repository, commit.name)
    try:
        with gitstore.opened(store) as reader:
            raw = reader.read([commit.name]).get(commit.name)
    except gitstore.Unanswered as why:
        return Gone(f"{commit.revision}: {why}")
    verdict = signed.judged(raw.data if raw else b"", store.algorithm, signers)
    if isinstance(verdict, signed.Signed):
        _LOG.info("%s is signed by %s", commit.revision, verdict.signer)
        return None
    return Gone(f"{commit.revision} is refused: {verdict}", reason="SourceRefused")


def _as_read(source: settings.Source, *, bare: bool) -> settings.Source:
    """A bare repository has nothing but commits to read."""
    return source.model_copy(update={"mode": "commit"}) if bare and source.mode != "commit" else source


def _word(source: settings.Source) -> str:
    return f"ref = {source.ref!r}" if source.mode == "commit" else 'mode = "worktree"'


def _signature(path: Path) -> tuple[int, ...] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode)


def _loaded(path: Path) -> settings.Source | None:
    try:
        return settings.Source.model_validate_json(path.read_bytes())
    except (OSError, ValueError):
        return None
