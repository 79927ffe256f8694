"""Settings: is the gate on signed commits one that can stand?

What is judged is the text of ``[source]``; whether a commit is signed is seen when it is read.
"""

from collections.abc import Iterator

from reconciler.admission.scopes import holds, plain
from reconciler.admission.view import View
from reconciler.model.inventory import Resource
from reconciler.model.problems import Problem, Span, quoted
from reconciler.model.resources import Config


def signed_commits_are_read_as_commits(view: View, config: Resource[Config]) -> Iterator[Problem]:
    """A signature covers a commit: files as they lie have none."""
    if config.spec.source.verify != "signed" or config.spec.source.mode == "commit":
        return
    yield Problem(
        code="S301",
        what="source.verify = 'signed' needs source.mode = 'commit'",
        why="a signature covers a commit, and files as they lie are none",
        mend="write mode = 'commit' beside it",
        at=Span(config.file),
        path=("source", "verify"),
        about=config.ref,
    )


def signers_are_named(view: View, config: Resource[Config]) -> Iterator[Problem]:
    """Who signs is written down somewhere."""
    if config.spec.source.verify != "signed" or config.spec.source.allowed_signers:
        return
    yield Problem(
        code="S302",
        what="source.verify = 'signed' needs source.allowedSigners",
        why="a signature counts when its key is listed",
        mend="name a file of allowed signers (ssh-keygen(1)), like '~/.config/handler-ai/allowed_signers'",
        at=Span(config.file),
        path=("source", "verify"),
        about=config.ref,
    )


def signers_lie_outside(view: View, config: Resource[Config]) -> Iterator[Problem]:
    """Whoever may change the configuration cannot add themselves to those who sign it."""
    written = config.spec.source.allowed_signers
    if not written:
        return
    home = view.where.home
    path = written if not written.startswith("~/") else f"{home}{written[1:]}" if home else "/"
    if not path.startswith("/") or not plain(path):
        what = f"{quoted(written)} is no absolute path"
    elif any(holds(ours, (path,)) for ours in view.where.forbidden):
        what = f"{quoted(written)} lies inside the configuration, or in its state"
    else:
        return
    yield Problem(
        code="S303",
        what=what,
        why="whoever may change the configuration could add themselves to those who sign it",
        mend="write the absolute path, or '~/…', of a file outside of it",
        at=Span(config.file),
        path=("source", "allowedSigners"),
        about=config.ref,
    )


RULES = (signed_commits_are_read_as_commits, signers_are_named, signers_lie_outside)
