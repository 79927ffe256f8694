"""Patterns of paths in policies: ``*``, ``?``, ``[a-z]``, ``**`` over folders, and braces within braces.

``*`` stays within one name, ``**`` stands for any number of folders, none included. Both sides are cleaned
first (``a/./b/../c`` is ``a/c``). Matching takes time in proportion to pattern times path, whatever they are.
"""

import posixpath

_MOST = 4096  # patterns that the braces of one may stand for
_LONGEST = 1024  # characters of a pattern


def expanded(pattern: str) -> tuple[str, ...]:
    """The patterns without braces that ``pattern`` stands for; raises ValueError for one that
    cannot be read.
    """
    if len(pattern) > _LONGEST:
        raise ValueError(f"the pattern is longer than {_LONGEST} characters")
    depth = 0
    for char in pattern:
        depth += (char == "{") - (char == "}")
        if depth < 0:
            break
    if depth:
        raise ValueError(f"the braces of {pattern[:80]!r} do not match: close each '{{' with a '}}'")
    found: list[str] = []
    left = [pattern]
    while left:
        head, choices, tail = _innermost(left.pop())
        if choices is None:
            found.append(head)
        else:
            left.extend(head + choice + tail for choice in reversed(choices))
        if len(found) + len(left) > _MOST:
            raise ValueError(f"the braces of {pattern[:80]!r} stand for more than {_MOST} patterns")
    for one in found:
        _checked(one)
    return tuple(dict.fromkeys(found))


def _innermost(pattern: str) -> tuple[str, list[str] | None, str]:
    """What stands before the first braces that hold no others, their choices (None: there are none), the
    rest.
    """
    close = pattern.find("}")
    if close < 0:
        return pattern, None, ""
    opened = pattern.rindex("{", 0, close)
    return pattern[:opened], pattern[opened + 1 : close].split(","), pattern[close + 1 :]


def _checked(pattern: str) -> None:
    at = 0
    while (at := pattern.find("[", at)) >= 0:
        close = pattern.find("]", at + 2)
        if close < 0:
            raise ValueError(f"a '[' of {pattern[:80]!r} is not closed with a ']'")
        at = close + 1


def matches(patterns: tuple[str, ...], path: str, *, climbing: bool) -> bool:
    """Whether one of the expanded ``patterns`` is ``path``; ``climbing``: whether a wildcard may stand for
    ``..``.
    """
    names = posixpath.normpath(path).split("/")
    return any(
        _path_is(posixpath.normpath(pattern).split("/"), names, climbing=climbing) for pattern in patterns
    )


def _path_is(pattern: list[str], names: list[str], *, climbing: bool) -> bool:
    """Folder by folder: which of the first ``n`` names the pattern so far may stand for."""
    reached = {0}
    for part in pattern:
        if part == "**":
            first = min(reached, default=len(names) + 1)
            last = next(
                (at for at in range(first, len(names)) if names[at] == ".." and not climbing), len(names)
            )
            reached = set(range(first, last + 1))
        else:
            reached = {
                at + 1 for at in reached if at < len(names) and _name_is(part, names[at], climbing=climbing)
            }
    return len(names) in reached


def _name_is(pattern: str, name: str, *, climbing: bool) -> bool:
    if name == "..":
        return pattern == ".." or (climbing and pattern == "*")
    pieces = _pieces(pattern)
    at, here, star, mark = 0, 0, -1, 0
    while here < len(name):
        if at < len(pieces) and pieces[at] == "*":
            star, mark = at, here
            at += 1
        elif at < len(pieces) and _one_is(pieces[at], name[here]):
            at, here = at + 1, here + 1
        elif star >= 0:
            mark += 1
            at, here = star + 1, mark
        else:
            return False
    return all(piece == "*" for piece in pieces[at:])


def _pieces(pattern: str) -> list[str]:
    pieces, at = [], 0
    while at < len(pattern):
        end = pattern.find("]", at + 2) + 1 if pattern[at] == "[" else at + 1
        pieces.append(pattern[at : end or at + 1])
        at = end or at + 1
    return pieces


def _one_is(piece: str, char: str) -> bool:
    if piece == "?" or len(piece) == 1:
        return piece in {"?", char}
    inner = piece[1:-1]
    negated = inner[0] in "!^"
    found, at = False, int(negated)
    while at < len(inner):
        if inner[at + 1 : at + 2] == "-" and at + 2 < len(inner):
            found = found or inner[at] <= char <= inner[at + 2]
            at += 3
        else:
            found = found or inner[at] == char
            at += 1
    return found is not negated
