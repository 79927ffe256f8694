"""Files that are no object: told once, as a warning, so that a misspelt folder cannot pass unseen.

What cannot be read is an error even here: a folder that is a link, or is closed to us, may hide objects.
"""

from reconciler.config import lock
from reconciler.config.objects import Unit, unread_problem
from reconciler.config.paths import Home, Owner, nearest_folder, shown
from reconciler.config.text import TextFault
from reconciler.model.inventory import Tree
from reconciler.model.problems import Problem, Severity, Span, listed, quoted
from reconciler.model.resources import KINDS

_NOBODYS = "S216"
_NOT_BUILT = "S217"


def unit(home: Home, tree: Tree, paths: list[str]) -> Unit:
    """What is said of the files under a key that is no object's."""
    file = shown(home.key)
    if found := [unread_problem(path, tree.faults[path], None) for path in paths if path in tree.faults]:
        return Unit(file, problems=tuple(found))
    if home.owner is Owner.LOCK:
        read = lock.read(tree.files[home.key])
        if isinstance(read, TextFault):
            return Unit(file, problems=(read.problem(file),))
        return Unit(file, lock=read)
    problem = _not_built(file) if home.owner is Owner.NOT_BUILT else _nobodys(home, file)
    return Unit(file, problems=(problem,))


def _not_built(folder: str) -> Problem:
    return Problem(
        _NOT_BUILT,
        f"nothing reads {quoted(folder)} yet",
        "its capability is part of the format and not built in this release",
        "keep it for a later release, or remove it",
        Span(folder),
        severity=Severity.WARNING,
    )


def _nobodys(home: Home, file: str) -> Problem:
    near = nearest_folder(home.key)
    top = home.key.partition("/")[0]
    if near and near != top:
        mend = f"rename {quoted(shown(top))} to {quoted(near)}"
    elif near:
        mend = f"name it {_shape(top)}, or move it out of {quoted(top)}"
    else:
        mend = "move it out of the configuration, or to docs/"
    return Problem(
        _NOBODYS,
        f"{quoted(file)} belongs to nothing",
        f"files lie in {listed(dict.fromkeys(row.pattern.partition('/')[0] for row in KINDS))}",
        mend,
        Span(file),
        severity=Severity.WARNING,
        candidates=(near,) if near and near != top else (),
    )


def _shape(top: str) -> str:
    patterns = [row.pattern for row in KINDS if row.pattern.startswith(f"{top}/")]
    named = " or ".join(patterns[:2]) if patterns and "<" not in patterns[0] else "".join(patterns[:1])
    return named.replace("<name>", "NAME").replace("<N>", "N") or "by its kind"
