"""Folders of the host compared as they are written: nothing here looks at a disk.

Paths are absolute. Links are the sandbox's and the router's to see through, at the moment of use; what is
refused here is what a person can read off the file.
"""


def plain(path: str) -> bool:
    """Whether an absolute path has no step that means another: no ``.``, ``..`` or empty part."""
    return not {".", "..", ""} & set(path.rstrip("/").split("/")[1:])


def holds(path: str, others: tuple[str, ...]) -> bool:
    """Whether a folder is or holds one of others; absolute paths, compared as text."""
    return any(f"{one.rstrip('/')}/".startswith(path.rstrip("/") + "/") for one in others)


def overlaps(path: str, others: tuple[str, ...]) -> bool:
    """Whether a folder is, holds or lies in one of others; absolute paths, compared as text."""
    return holds(path, others) or any(holds(one, (path,)) for one in others)
