"""A template rendered: Go's ``text/template`` with Sprig's functions, within budgets.

What it may see is handed in: the data, the values of variables that macros bound, a moment for ``now`` if
there is one. No environment, network, clock or chance is within reach, nothing that was handed in is changed,
and every rendering ends: what is written, how deep and how long it runs has a limit (``Budget``).
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from reconciler.templates import golang, lexing, metering, parsing, printing, sprig, values
from reconciler.templates.lexing import TemplateError
from reconciler.templates.nodes import (
    Branch,
    Chain,
    Command,
    Constant,
    Function,
    Include,
    Item,
    Jump,
    Operand,
    Path,
    Pipe,
    Sort,
    Text,
)
from reconciler.templates.parsing import Template
from reconciler.templates.values import MISSING, Missing, Record, Unusable

_FUNCTIONS: Mapping[str, golang.Entry] = {**golang.FUNCTIONS, **sprig.FUNCTIONS}
_SHORT_CIRCUITS = frozenset({"and", "or"})
_CLOCK = frozenset({"now", "ago"})
_NAMES = frozenset(_FUNCTIONS) | _SHORT_CIRCUITS | _CLOCK
_PER_SORT = 16  # keys of a map that are sorted in one step
_LONGEST_KEPT = 16_384  # characters of a source whose template is remembered
_WEIGHT = 64  # characters, or items of a list, that count as one step


@dataclass(frozen=True, slots=True)
class Budget:
    """What one rendering may use: characters written, steps taken, inclusions within each other.

    A step is one node or one turn of a loop; a function adds the size of what it takes and gives.
    """

    characters: int = values.LONGEST
    steps: int = 200_000
    depth: int = 50


USUAL = Budget()


def parsed(source: str, bound: frozenset[str] = frozenset()) -> Template:
    """The template that ``source`` writes; ``bound``: variables, with their ``$``. Raises TemplateError."""
    return _kept(source, bound) if len(source) <= _LONGEST_KEPT else _parsed(source, bound)


def _parsed(source: str, bound: frozenset[str]) -> Template:
    try:
        return parsing.parsed(source, _NAMES, sorted(bound))
    except RecursionError:
        raise TemplateError("the template is nested too deep", 1) from None


_kept = functools.lru_cache(maxsize=256)(_parsed)


def rendered(
    template: Template,
    data: object,
    *,
    bound: Mapping[str, object] | None = None,
    now: datetime | None = None,
    budget: Budget = USUAL,
) -> str:
    """``template`` over ``data``; raises TemplateError with the line and what cannot be done there.

    ``bound`` gives the variables that it was parsed with their values: see ``macros.Expanded.template``.
    """
    run = _Run(template, budget, now, [("$", data), *(bound or {}).items()])
    try:
        with metering.running(run.meter):
            run.walk(template.body, data)
    except _Broken:  # the parser lets none out of a loop; one may cross an inclusion
        raise TemplateError("a jump leaves the template that it stands in", 1) from None
    except RecursionError:
        raise TemplateError("the template is nested too deep", 1) from None
    return "".join(run.out)


class _Broken(Exception):  # noqa: N818 - a jump, not an error
    def __init__(self, *, ends: bool) -> None:
        self.ends = ends


class _Run:
    """One rendering: what is written, what is left of the budget, which variables there are."""

    def __init__(
        self, template: Template, budget: Budget, now: datetime | None, variables: list[tuple[str, object]]
    ) -> None:
        self.template = template
        self.budget = budget
        self.meter = metering.Meter(budget.steps)
        self.now = now
        self.variables = variables
        self.out: list[str] = []
        self.size = 0
        self.depth = 0

    def fault(self, what: str, at: int) -> TemplateError:
        return TemplateError(what, lexing.line_of(self.template.source, at))

    def spend(self, steps: int, at: int) -> None:
        try:
            self.meter.spend(steps)
        except Unusable as fault:
            raise self.fault(str(fault), at) from None

    def write(self, text: str, at: int) -> None:
        self.size += len(text)
        if self.size > self.budget.characters:
            raise self.fault(f"the text is longer than {self.budget.characters} characters", at)
        self.out.append(text)

    def walk(self, items: tuple[Item, ...], dot: object) -> None:
        for item in items:
            match item:
                case Text(text):
                    self.write(text, 0)
                case Pipe():
                    self.act(item, dot)
                case Branch():
                    self.branch(item, dot)
                case Include():
                    self.include(item, dot)
                case Jump(ends):
                    raise _Broken(ends=ends)

    def act(self, pipe: Pipe, dot: object) -> None:
        value = self.pipe(pipe, dot)
        if not pipe.names:
            try:
                self.write(printing.printed(value), pipe.at)
            except Unusable as fault:
                raise self.fault(str(fault), pipe.at) from None

    def branch(self, branch: Branch, dot: object) -> None:
        mark = len(self.variables)
        try:
            if branch.sort is Sort.RANGE:
                self.loop(branch, dot)
                return
            value = self.pipe(branch.pipe, dot)
            if values.truth(value):
                self.walk(branch.body, value if branch.sort is Sort.WITH else dot)
            else:
                self.walk(branch.otherwise, dot)
        finally:
            del self.variables[mark:]

    def loop(self, branch: Branch, dot: object) -> None:
        pipe = branch.pipe
        value = self.pipe(pipe, dot, keeps=True)
        mark = len(self.variables)
        turned = False
        for key, item in self.turns(value, pipe.at):
            turned = True
            self.spend(1, pipe.at)
            self.name_turn(pipe, key, item)
            try:
                self.walk(branch.body, item)
            except _Broken as jump:
                if jump.ends:
                    break
            finally:
                del self.variables[mark:]
        if not turned:
            self.walk(branch.otherwise, dot)

    def name_turn(self, pipe: Pipe, key: object, item: object) -> None:
        pairs = zip(pipe.names, (key, item) if len(pipe.names) > 1 else (item,), strict=False)
        for name, value in pairs:
            if pipe.sets:
                self.assign(name, value)
            else:
                self.variables.append((name, value))

    def turns(self, value: object, at: int) -> Iterator[tuple[object, object]]:
        """What a ``range`` goes through: lists, maps by their sorted keys, a whole number from 0 on."""
        if isinstance(value, list | tuple):
            return iter(enumerate(value))
        if isinstance(value, dict):
            self.spend(len(value) // _PER_SORT, at)
            return iter([(key, value[key]) for key in sorted(value)])
        if isinstance(value, int) and not isinstance(value, bool):
            return ((number, number) for number in range(value))
        if value is None or isinstance(value, Missing):
            return iter(())
        raise self.fault(f"{{{{range}}}} cannot go through {values.type_name(value)}", at)

    def include(self, include: Include, dot: object) -> None:
        body = self.template.defined.get(include.name)
        if body is None:
            raise self.fault(f"there is no template {include.name[:40]!r}", include.at)
        value = None if include.pipe is None else self.pipe(include.pipe, dot)
        self.depth += 1
        if self.depth > self.budget.depth:
            raise self.fault(f"templates include each other more than {self.budget.depth} deep", include.at)
        self.spend(1, include.at)
        outside, self.variables = self.variables, [("$", value)]
        self.walk(body, value)
        self.variables = outside
        self.depth -= 1

    def assign(self, name: str, value: object) -> None:
        at = max(at for at, (known, _) in enumerate(self.variables) if known == name)
        self.variables[at] = (name, value)

    def pipe(self, pipe: Pipe, dot: object, *, keeps: bool = False) -> object:
        """The value of a pipe, which its variables then have; ``keeps``: a ``range`` sets them itself."""
        value = self.command(pipe.commands[0], dot, ())
        for command in pipe.commands[1:]:
            value = self.command(command, dot, (value,))
        for name in () if keeps else pipe.names:
            if pipe.sets:
                self.assign(name, value)
            else:
                self.variables.append((name, value))
        return value

    def command(self, command: Command, dot: object, last: tuple[object, ...]) -> object:
        self.spend(1, command.at)
        first, rest = command.words[0], command.words[1:]
        if isinstance(first, Function):
            return self.function(first, rest, dot, last)
        if rest or last:
            raise self.fault("only a function takes arguments", command.at)
        if isinstance(first, Constant) and first.value is None:
            raise self.fault("nil alone is no command", command.at)
        return self.value(first, dot)

    def value(self, word: Operand, dot: object) -> object:
        match word:
            case Constant():
                return word.value
            case Path(root, names, at):
                return self.fields(dot if root == "." else self.variable(root), names, at)
            case Function():
                return self.function(word, (), dot, ())
            case Chain(of, names, at):
                mark = len(self.variables)
                value = self.pipe(of, dot)
                del self.variables[mark:]
                return self.fields(value, names, at)

    def variable(self, name: str) -> object:
        return next(value for known, value in reversed(self.variables) if known == name)

    def fields(self, value: object, names: tuple[str, ...], at: int) -> object:
        for name in names:
            if isinstance(value, Missing):
                return value
            if isinstance(value, dict):
                value = value.get(name, MISSING)
            elif isinstance(value, Record) and name in value.fields:
                value = value.fields[name]
            else:
                of = "nothing" if value is None else values.type_name(value)
                raise self.fault(f"there is no field {name[:40]!r} in {of}", at)
        return value

    def function(
        self, function: Function, words: Sequence[Operand], dot: object, last: tuple[object, ...]
    ) -> object:
        if function.name in _SHORT_CIRCUITS:
            return self.short(function, words, dot, last)
        args = [*(self.value(word, dot) for word in words), *last]
        if function.name in _CLOCK:
            return self.clock(function, args)
        call, kinds = _FUNCTIONS[function.name]
        self.fit(function, args, kinds)
        self.spend(sum(_size(arg) for arg in args) // _WEIGHT, function.at)
        try:
            value: object = call(*(None if isinstance(arg, Missing) else arg for arg in args))
        except Unusable as fault:
            raise self.fault(f"{function.name}: {fault}", function.at) from None
        size = _size(value)
        self.spend(size // _WEIGHT, function.at)
        if size > (values.LONGEST if isinstance(value, str) else values.MOST_ITEMS):
            raise self.fault(f"{function.name} makes more than a template may hold", function.at)
        return value

    def fit(self, function: Function, args: list[object], kinds: str) -> None:
        """Raise where the arguments are too few, too many, or not of the function's kinds."""
        many = kinds.endswith("*")
        letters = kinds.rstrip("*")
        least = len(letters) - many
        if len(args) < least or (len(args) > least and not many):
            counted = f"{least} or more" if many else str(least)
            raise self.fault(f"{function.name} takes {counted} arguments, not {len(args)}", function.at)
        letters += letters[-1:] * (len(args) - len(letters))
        for letter, arg in zip(letters, args, strict=False):
            if not _FITS[letter](arg):
                told = f"{_SAID[letter]}, not {values.type_name(arg)}"
                raise self.fault(f"{function.name} takes {told}", function.at)

    def short(
        self, function: Function, words: Sequence[Operand], dot: object, last: tuple[object, ...]
    ) -> object:
        """``and``, ``or``: the first argument that decides, or the last; none after it is looked at."""
        if not words and not last:
            raise self.fault(f"{function.name} takes 1 or more arguments, not 0", function.at)
        value: object = None
        for word in words:
            value = self.value(word, dot)
            if values.truth(value) is (function.name == "or"):
                return value
        return last[0] if last else value

    def clock(self, function: Function, args: list[object]) -> object:
        if self.now is None:
            raise self.fault(f"{function.name}: there is no clock here", function.at)
        if function.name == "now" and not args:
            return self.now
        if function.name == "ago" and len(args) == 1 and isinstance(args[0], datetime):
            return sprig.since(self.now, args[0])
        raise self.fault(f"{function.name} does not take these arguments", function.at)


def _size(value: object) -> int:
    return len(value) if isinstance(value, str | list | tuple | dict) else 0


_FITS: Mapping[str, Callable[[object], bool]] = {
    "a": lambda _: True,
    "s": lambda arg: isinstance(arg, str),
    "i": lambda arg: isinstance(arg, int) and not isinstance(arg, bool),
    "b": lambda arg: isinstance(arg, bool),
    "l": lambda arg: isinstance(arg, list | tuple),
    "d": lambda arg: isinstance(arg, dict),
}
_SAID = {
    "s": "a text",
    "i": "a whole number",
    "b": "true or false",
    "l": "a list",
    "d": "a map",
    "a": "anything",
}
