"""A chain as a picture: text that Mermaid draws, and an SVG that is drawn here, layer below layer.

The drawing is the usual one for directed graphs, kept small: ways back are turned round, every task gets the
layer below its farthest source, ways over several layers get a place in each, neighbours are brought
together, and the ways back are turned again. Nothing in a chain can get out of its text: names are escaped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

from reconciler.model.chain import END, Chain, edges

_WIDE, _HIGH = 190, 46  # of a task's box
_ACROSS, _DOWN = 230, 118  # from box to box, from layer to layer
_MARGIN = 40
_SWEEPS = 8  # times that neighbours are brought together; more change nothing in a chain of this size
_LINE = 17  # height of a line of words
_LETTER = 6.6  # width of a letter of a label, for the ground behind it
_TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto-start-reverse"><path d="M0 0 L8 4 L0 8 z" fill="#475569"/></marker></defs>'
)
_COLOURS = {
    "chat_completion": "#dbeafe", "execute_tool_calls": "#dcfce7", "tools": "#dcfce7", "route": "#fef3c7",
    "noop": "#f1f5f9", "raise_error": "#fee2e2",
}  # fmt: skip


def mermaid(chain: Chain) -> str:
    """The chain as a flowchart of Mermaid: one node a task, the end, one arrow a way with its word."""
    names = {task.id: f"t{number}" for number, task in enumerate(chain.tasks)}
    lines = ["flowchart TD"]
    lines += [
        f'  {names[task.id]}["{_plain(task.id)}<br/><i>{_plain(task.handler)}</i>"]' for task in chain.tasks
    ]
    lines.append("  stop(((end)))")
    for source, target, label in edges(chain):
        arrow = "-.->" if label == "on_failure" else "-->"
        lines.append(f'  {names[source]} {arrow}|"{_plain(label)}"| {names.get(target, "stop")}')
    lines += [f"  {names[task.id]} --> stop" for task in chain.tasks if not task.transition.branches]
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """Text that Mermaid takes as it is, between double quotes."""
    return escape(text, quote=True).replace("\n", " ").replace("#", "&#35;")


@dataclass(slots=True)
class _Way:
    """A way through the layers: its places from top to bottom, its words, and whether it leads up."""

    places: list[str]
    labels: list[str]
    is_back: bool = False
    fails: bool = False


@dataclass(slots=True)
class _Drawing:
    layers: list[list[str]]
    ways: list[_Way]
    loops: list[tuple[str, str]] = field(default_factory=list)  # of a task to itself
    at: dict[str, tuple[float, float]] = field(default_factory=dict)


def svg(chain: Chain) -> str:
    """The chain as a drawn picture, to be opened in any browser."""
    drawing = _layered(chain)
    _order(drawing)
    _place(drawing)
    across = max((x for x, _ in drawing.at.values()), default=0) + _WIDE + 2 * _MARGIN
    down = max((y for _, y in drawing.at.values()), default=0) + _HIGH + 2 * _MARGIN
    head = f'viewBox="0 0 {across:.0f} {down:.0f}" width="{across:.0f}" height="{down:.0f}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {head} font-family="sans-serif" font-size="12">',
        f"<title>{escape(chain.id)}</title>",
        _TIP,
        f'<rect width="{across:.0f}" height="{down:.0f}" fill="white"/>',
    ]
    drawn = [_drawn(way, drawing.at, number) for number, way in enumerate(drawing.ways)]
    parts += [line for line, _ in drawn]
    parts += [_loop(name, drawing.at) for name, _ in drawing.loops]
    parts += [_box(one.id, one.handler, drawing.at[one.id]) for one in chain.tasks if one.id in drawing.at]
    said = [words for _, words in drawn]
    said += [_beside(drawing.at[name], label) for name, label in drawing.loops]
    parts += [_stop(drawing.at[END]), *map(_words, _apart(said)), "</svg>"]
    return "\n".join(parts) + "\n"


def _apart(said: Sequence["_Words"]) -> list["_Words"]:
    """The words of all ways, each moved down until it lies on no other."""
    placed: list[_Words] = []
    for one in said:
        if not one.text:
            continue
        y = one.y
        while any(abs(y - other.y) < _LINE and one.meets(other) for other in placed):
            y += _LINE / 2
        placed.append(_Words(one.text, one.x, y))
    return placed


@dataclass(frozen=True, slots=True)
class _Words:
    """Words on the middle of a way."""

    text: str
    x: float
    y: float

    @property
    def wide(self) -> float:
        return len(self.text) * _LETTER + 6

    def meets(self, other: "_Words") -> bool:
        """Whether the two would lie on each other, were they on one line."""
        return abs(self.x - other.x) < (self.wide + other.wide) / 2


# layers


def _layered(chain: Chain) -> _Drawing:
    joined: dict[tuple[str, str], list[str]] = {}
    for source, target, label in edges(chain):
        joined.setdefault((source, target), []).append(_short(label))
    for task in chain.tasks:
        if not task.transition.branches:
            joined.setdefault((task.id, END), [])
    back = _ways_back(chain, joined)
    forward = {(b, a) if (a, b) in back else (a, b) for a, b in joined if a != b}
    rank = _ranks([task.id for task in chain.tasks], forward)
    layers: list[list[str]] = [[] for _ in range(max(rank.values()) + 1)]
    for name, layer in rank.items():
        layers[layer].append(name)
    drawing = _Drawing(layers, [])
    for number, ((source, target), labels) in enumerate(joined.items()):
        if source == target:
            drawing.loops.append((source, ", ".join(labels)))
            continue
        is_back = (source, target) in back
        top, bottom = (target, source) if is_back else (source, target)
        between = [f"\0{number}:{layer}" for layer in range(rank[top] + 1, rank[bottom])]
        for layer, name in enumerate(between, rank[top] + 1):
            layers[layer].append(name)
        fails = labels == ["on failure"]
        drawing.ways.append(_Way([top, *between, bottom], labels, is_back, fails))
    return drawing


def _short(label: str) -> str:
    word, _, rest = label.partition(" ")
    shown = {"equals": rest, "edge_traversed_at_least": f"after {rest}", "default": "else"}
    return shown.get(word, label.replace("_", " "))[:28]


def _ways_back(chain: Chain, joined: Mapping[tuple[str, str], object]) -> set[tuple[str, str]]:
    """The ways that lead to a task that is still being followed: without them there is no circle."""
    after: dict[str, list[str]] = {}
    for source, target in joined:
        after.setdefault(source, []).append(target)
    back: set[tuple[str, str]] = set()
    done: set[str] = set()
    for first in chain.tasks:
        path: list[tuple[str, int]] = [] if first.id in done else [(first.id, 0)]
        while path:
            name, at = path.pop()
            if at == len(after.get(name, ())):
                done.add(name)
                continue
            path.append((name, at + 1))
            target = after[name][at]
            if any(target == one for one, _ in path):
                back.add((name, target))
            elif target not in done:
                path.append((target, 0))
    return back


def _ranks(names: Sequence[str], forward: set[tuple[str, str]]) -> dict[str, int]:
    rank = {**dict.fromkeys(names, 0), END: 0}
    for _ in range(len(rank)):
        for source, target in sorted(forward):
            rank[target] = max(rank[target], rank[source] + 1)
    rank[END] = max(*rank.values(), 1)
    return rank


def _order(drawing: _Drawing) -> None:
    """Bring neighbours together: each place at the middle of those above it, then of those below it."""
    above: dict[str, list[str]] = {}
    below: dict[str, list[str]] = {}
    for way in drawing.ways:
        for one, other in pairwise(way.places):
            above.setdefault(other, []).append(one)
            below.setdefault(one, []).append(other)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        near = above if down else below
        for layer in drawing.layers if down else drawing.layers[::-1]:
            at = {name: number for row in drawing.layers for number, name in enumerate(row)}
            middle = {
                name: sum(at[one] for one in near[name]) / len(near[name]) if near.get(name) else at[name]
                for name in layer
            }
            layer.sort(key=lambda name, middle=middle: middle[name])  # type: ignore[misc]


def _place(drawing: _Drawing) -> None:
    widest = max(len(layer) for layer in drawing.layers)
    for number, layer in enumerate(drawing.layers):
        start = (widest - len(layer)) * _ACROSS / 2
        for at, name in enumerate(layer):
            drawing.at[name] = (_MARGIN + start + at * _ACROSS, _MARGIN + number * _DOWN)


# lines


def _drawn(way: _Way, at: Mapping[str, tuple[float, float]], number: int) -> tuple[str, _Words]:
    """A way as a smooth line, and its words."""
    shift = ((number * 37) % 5 - 2) * 14.0  # so that two ways of one box do not lie on each other
    if way.is_back:
        shift += 34
    points: list[tuple[float, float]] = []
    for place, name in enumerate(way.places):
        x, y = at[name]
        middle = x + _WIDE / 2 + (0 if name == END else shift)
        if place == 0:
            points.append((middle, y + _HIGH))
        elif place == len(way.places) - 1:
            points.append((middle, y))
        else:
            points += [(middle, y), (middle, y + _HIGH)]
    path = f"M{points[0][0]:.0f} {points[0][1]:.0f}"
    for (x, y), (u, v) in pairwise(points):
        half = (v - y) / 2
        path += f" C{x:.0f} {y + half:.0f} {u:.0f} {v - half:.0f} {u:.0f} {v:.0f}"
    end = "marker-start" if way.is_back else "marker-end"
    dash = ' stroke-dasharray="5 4"' if way.fails else ""
    line = f'<path d="{path}" fill="none" stroke="#475569"{dash} {end}="url(#tip)"/>'
    (x, y), (u, v) = (points[-2], points[-1]) if way.is_back else (points[0], points[1])
    share = 0.62 if way.is_back else 0.38
    return line, _Words(", ".join(way.labels), x + (u - x) * share, y + (v - y) * share)


def _words(one: _Words) -> str:
    """Words on a ground of their own, so that no line goes through them."""
    ground = f'x="{one.x - one.wide / 2:.0f}" y="{one.y - 9:.0f}" width="{one.wide:.0f}" height="{_LINE}"'
    at = f'x="{one.x:.0f}" y="{one.y + 4:.0f}" text-anchor="middle"'
    return (
        f'<rect {ground} fill="white" opacity="0.9"/>'
        f'<text {at} fill="#334155" font-size="11">{escape(one.text)}</text>'
    )


def _loop(name: str, at: Mapping[str, tuple[float, float]]) -> str:
    x, y = at[name]
    right, far = x + _WIDE, x + _WIDE + 46
    path = f"M{right:.0f} {y + 12:.0f} C{far:.0f} {y:.0f} {far:.0f} {y + _HIGH:.0f} {right:.0f} {y + 34:.0f}"
    return f'<path d="{path}" fill="none" stroke="#475569" marker-end="url(#tip)"/>'


def _beside(at: tuple[float, float], label: str) -> _Words:
    return _Words(label, at[0] + _WIDE + 40, at[1] + _HIGH / 2)


def _box(name: str, handler: str, at: tuple[float, float]) -> str:
    x, y = at
    middle = f'x="{x + _WIDE / 2:.0f}" text-anchor="middle"'
    shown = name if len(name) <= 26 else f"{name[:25]}…"
    return (
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{_WIDE}" height="{_HIGH}" rx="8" '
        f'fill="{_COLOURS.get(handler, "white")}" stroke="#475569"/>'
        f'<text {middle} y="{y + 20:.0f}" font-weight="bold">{escape(shown)}</text>'
        f'<text {middle} y="{y + 36:.0f}" fill="#475569" font-size="11">{escape(handler[:30])}</text>'
    )


def _stop(at: tuple[float, float]) -> str:
    x, y = at[0] + _WIDE / 2, at[1] + 14
    return (
        f'<circle cx="{x:.0f}" cy="{y:.0f}" r="14" fill="white" stroke="#475569"/>'
        f'<circle cx="{x:.0f}" cy="{y:.0f}" r="9" fill="#475569"/>'
    )
