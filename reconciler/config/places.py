"""The line and column of a problem, looked up once, where something is wrong."""

from reconciler.config import toml
from reconciler.model.inventory import Inventory, Layer
from reconciler.model.problems import Path, Problem, Span

_TEXTS = (".md", ".txt", ".py", ".ts")  # a problem of the whole file stands on its first line


def placed(problem: Problem, inventory: Inventory) -> Problem:
    """The problem at its line and column: from its path, or the first line where it has none.

    A problem that has a line already, or is about a file that was not read, stays as it is.
    """
    if problem.at.line:
        return problem
    data = _source(problem, inventory)
    if data is None:
        return problem
    place = at(problem.at.file, data, problem.path, on_key=problem.on_key)
    return problem.placed(Span(problem.at.file, *place)) if place else problem


def at(file: str, data: bytes, path: Path, *, on_key: bool = False) -> tuple[int, int] | None:
    """The place of a path in a file of any kind, or None where lines have no meaning."""
    if file.endswith((".toml", ".lock")):
        return toml.place(data, path, on_key=on_key)
    if file.endswith(".json"):
        from reconciler.config import jsonplace  # noqa: PLC0415 - 20 ms that only a problem pays

        return jsonplace.place(data, path, on_key=on_key)
    return (1, 1) if file.endswith(_TEXTS) else None


def _source(problem: Problem, inventory: Inventory) -> bytes | None:
    """The bytes that the problem was found in: those of the layer of the object that it is about."""
    about = inventory.resources.get(problem.about) if problem.about else None
    layers = [about.layer] if about else []
    for layer in (*layers, Layer.CONFIG, Layer.CATALOG):
        data = inventory.sources.get((layer, problem.at.file))
        if data is not None:
            return data
    return None
