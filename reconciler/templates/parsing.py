"""From tokens to a template: Go's grammar, with its checks of variables, pipes and function names.

``{{block}}`` is a definition and its inclusion; ``{{else if}}`` and ``{{else with}}`` nest. Which functions
there are is told by the caller: a name that is none of them is refused here, before anything is rendered.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from reconciler.templates import lexing
from reconciler.templates.lexing import Kind, TemplateError, Token
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

_DEEPEST = 100  # parentheses and bodies within each other: more is no template that somebody wrote
_LONGEST = 1 << 20  # characters of a source
_END = Token(Kind.WORD, "end", -1)


@dataclass(frozen=True, slots=True)
class Template:
    """A template that can be rendered: its body, what it defines, and its source for telling lines."""

    body: tuple[Item, ...]
    defined: dict[str, tuple[Item, ...]]
    source: str


@dataclass(slots=True)
class _Reader:
    """A place in the tokens, and what is known there."""

    tokens: list[Token]
    source: str
    functions: Collection[str]
    variables: list[str]
    defined: dict[str, tuple[Item, ...]] = field(default_factory=dict)
    at: int = 0
    depth: int = 0
    loops: int = 0

    def peek(self) -> Token:
        return self.tokens[self.at]

    def next(self) -> Token:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def word(self) -> Token:
        """The next token that is no blank, left where it is."""
        while self.peek().kind is Kind.BLANK:
            self.at += 1
        return self.peek()

    def fault(self, what: str, token: Token) -> TemplateError:
        return TemplateError(what, lexing.line_of(self.source, token.at))

    def expect(self, kind: Kind, where: str) -> Token:
        token = self.word()
        if token.kind is not kind:
            raise self.fault(f"unexpected {_said(token)} in {where}", token)
        return self.next()


def parsed(source: str, functions: Collection[str], bound: Collection[str] = ()) -> Template:
    """The template that ``source`` writes; raises TemplateError with the line and what is wrong.

    ``bound`` are the variables, each with its ``$``, that have a value before the first line.
    """
    if len(source) > _LONGEST:
        raise TemplateError(f"the template is longer than {_LONGEST} characters", 1)
    reader = _Reader(list(lexing.tokens(source)), source, functions, ["$", *bound])
    body, stop = _body(reader)
    if stop.kind is not Kind.END:
        raise reader.fault(f"unexpected {{{{{stop.text}}}}}", stop)
    return Template(body, reader.defined, source)


def _said(token: Token) -> str:
    match token.kind:
        case Kind.CLOSE | Kind.OPEN:
            return f"'{token.kind.value}'"
        case Kind.END | Kind.BLANK:
            return str(token.kind.value)
        case _:
            return repr(token.text[:40])


def _body(reader: _Reader) -> tuple[tuple[Item, ...], Token]:
    """Items up to an ``end``, an ``else`` or the end of the template, and which of them it was."""
    items: list[Item] = []
    reader.depth += 1
    if reader.depth > _DEEPEST:
        raise reader.fault(f"bodies stand more than {_DEEPEST} deep in each other", reader.peek())
    while True:
        token = reader.next()
        if token.kind is Kind.END:
            break
        if token.kind is Kind.TEXT:
            if token.text:
                items.append(Text(token.text))
            continue
        token = reader.word()
        if token.kind is Kind.WORD and token.text in {"end", "else"}:
            reader.next()
            break
        items.extend(_item(reader, token))
    reader.depth -= 1
    return tuple(items), token


def _item(reader: _Reader, token: Token) -> tuple[Item, ...]:
    """The action that begins here; a definition is none in its place."""
    keyword = token.text if token.kind is Kind.WORD else ""
    if keyword in {"if", "with", "range"}:
        reader.next()
        return (_branch(reader, Sort(keyword)),)
    if keyword in {"break", "continue"}:
        reader.next()
        if not reader.loops:
            raise reader.fault(f"{{{{{keyword}}}}} outside {{{{range}}}}", token)
        reader.expect(Kind.CLOSE, f"{{{{{keyword}}}}}")
        return (Jump(ends=keyword == "break"),)
    if keyword == "template":
        reader.next()
        return (_include(reader, token),)
    if keyword in {"define", "block"}:
        reader.next()
        return _definition(reader, token)
    return (_pipe(reader, Kind.CLOSE, "an action"),)


def _branch(reader: _Reader, sort: Sort) -> Branch:
    """After its keyword, up to and with its ``end``."""
    known = len(reader.variables)
    pipe = _pipe(reader, Kind.CLOSE, f"{{{{{sort.value}}}}}", many=sort is Sort.RANGE)
    reader.loops += sort is Sort.RANGE
    body, stop = _body(reader)
    reader.loops -= sort is Sort.RANGE
    otherwise: tuple[Item, ...] = ()
    if stop.text == "else" and stop.kind is Kind.WORD:
        follows = reader.word()
        if follows.kind is Kind.WORD and follows.text in {"if", "with"} and follows.text == sort.value:
            reader.next()
            reader.depth += 1
            if reader.depth > _DEEPEST:
                raise reader.fault(f"more than {_DEEPEST} branches follow each other", follows)
            otherwise = (_branch(reader, sort),)
            reader.depth -= 1
            stop = _END
        else:
            reader.expect(Kind.CLOSE, "{{else}}")
            otherwise, stop = _body(reader)
    if stop.kind is Kind.END:
        raise reader.fault(f"{{{{{sort.value}}}}} has no {{{{end}}}}", stop)
    if stop.text != "end":
        raise reader.fault("unexpected {{else}}", stop)
    if stop is not _END:
        reader.expect(Kind.CLOSE, "{{end}}")
    del reader.variables[known:]
    return Branch(sort, pipe, body, otherwise)


def _name(reader: _Reader, where: str) -> str:
    return reader.expect(Kind.STRING, where).text


def _include(reader: _Reader, token: Token) -> Include:
    name = _name(reader, "{{template}}")
    if reader.word().kind is Kind.CLOSE:
        reader.next()
        return Include(name, None, token.at)
    return Include(name, _pipe(reader, Kind.CLOSE, "{{template}}"), token.at)


def _definition(reader: _Reader, token: Token) -> tuple[Item, ...]:
    where = f"{{{{{token.text}}}}}"
    if token.text == "define" and reader.depth > 1:
        raise reader.fault("{{define}} stands inside another action", token)
    name = _name(reader, where)
    included: tuple[Item, ...] = ()
    if token.text == "block":
        included = (Include(name, _pipe(reader, Kind.CLOSE, where), token.at),)
    else:
        reader.expect(Kind.CLOSE, where)
    outside, reader.variables = reader.variables, ["$"]
    loops, reader.loops = reader.loops, 0
    body, stop = _body(reader)
    if stop.text != "end":
        raise reader.fault(f"unexpected {_said(stop)} in {where}: write {{{{end}}}}", stop)
    reader.expect(Kind.CLOSE, "{{end}}")
    reader.variables, reader.loops = outside, loops
    if body or name not in reader.defined:
        reader.defined[name] = body
    return included


def _pipe(reader: _Reader, end: Kind, where: str, *, many: bool = False) -> Pipe:
    """Up to and with ``end``; ``many`` allows two variables, as ``range`` does."""
    begin = reader.word()
    names, sets = _named(reader, many=many)
    commands: list[Command] = []
    while (token := reader.word()).kind is not end:
        commands.append(_command(reader))
        if reader.peek().kind is Kind.PIPE:
            reader.next()
            if (follows := reader.word()).kind is end:
                raise reader.fault(f"missing value for {where}", follows)
        elif reader.peek().kind is not end:
            raise reader.fault(f"unexpected {_said(reader.peek())} in {where}", reader.peek())
    if not commands:
        raise reader.fault(f"missing value for {where}", token)
    reader.next()
    for command in commands[1:]:
        if isinstance(first := command.words[0], Constant) or first == Path(".", (), command.at):
            raise TemplateError(
                "what stands after '|' must be a function", lexing.line_of(reader.source, command.at)
            )
    if not sets:
        reader.variables.extend(names)
    return Pipe(tuple(commands), names, sets, begin.at)


def _named(reader: _Reader, *, many: bool) -> tuple[tuple[str, ...], bool]:
    """The variables that a pipe sets, and whether they are there already; the reader stays where none are."""
    start, names = reader.at, []
    while (token := reader.word()).kind is Kind.VARIABLE:
        names.append(token.text)
        reader.next()
        sign = reader.word()
        if sign.kind is Kind.COMMA and many and len(names) == 1:
            reader.next()
            continue
        if sign.kind not in {Kind.DECLARE, Kind.ASSIGN}:
            break
        reader.next()
        if sign.kind is Kind.ASSIGN:
            for name in names:
                _known(reader, name, token)
        return tuple(names), sign.kind is Kind.ASSIGN
    reader.at = start
    return (), False


def _known(reader: _Reader, name: str, token: Token) -> None:
    if name not in reader.variables:
        raise reader.fault(f"the variable {name!r} is not declared", token)


def _command(reader: _Reader) -> Command:
    """Words up to a pipe sign or the end of the pipe."""
    begin = reader.word()
    words: list[Operand] = []
    while True:
        token = reader.word()
        if token.kind in {Kind.PIPE, Kind.CLOSE, Kind.RIGHT}:
            break
        words.append(_operand(reader))
        if (follows := reader.peek()).kind not in {Kind.BLANK, Kind.PIPE, Kind.CLOSE, Kind.RIGHT}:
            raise reader.fault(f"unexpected {_said(follows)} after a value", follows)
    if not words:
        raise reader.fault(f"unexpected {_said(reader.peek())}: a value is missing", reader.peek())
    return Command(tuple(words), begin.at)


def _operand(reader: _Reader) -> Operand:
    token = reader.peek()
    value = _term(reader)
    names: list[str] = []
    while reader.peek().kind is Kind.FIELD:
        names.append(reader.next().text[1:])
    if not names:
        return value
    match value:
        case Constant():
            raise reader.fault(f"unexpected '.{names[0]}' after a constant", token)
        case Path(root, first, at):
            if root == "." and not first:
                raise reader.fault(f"unexpected '.{names[0]}' after '.'", token)
            return Path(root, (*first, *names), at)
        case Function(_, at) as function:
            pipe = Pipe((Command((function,), at),), (), sets=False, at=at)
            return Chain(pipe, tuple(names), at)
        case Chain(of, first, at):
            return Chain(of, (*first, *names), at)


def _term(reader: _Reader) -> Operand:
    token = reader.next()
    at = token.at
    value: Operand
    match token.kind:
        case Kind.STRING:
            value = Constant(token.text, at)
        case Kind.CHARACTER if len(token.text) == 1:
            value = Constant(ord(token.text), at)
        case Kind.NUMBER:
            value = Constant(_number(reader, token), at)
        case Kind.DOT:
            value = Path(".", (), at)
        case Kind.FIELD:
            value = Path(".", (token.text[1:],), at)
        case Kind.VARIABLE:
            _known(reader, token.text, token)
            value = Path(token.text, (), at)
        case Kind.LEFT:
            value = _group(reader, token)
        case Kind.WORD:
            value = _named_word(reader, token)
        case _:
            raise reader.fault(f"unexpected {_said(token)}: a value is missing", token)
    return value


def _group(reader: _Reader, token: Token) -> Chain:
    reader.depth += 1
    if reader.depth > _DEEPEST:
        raise reader.fault(f"parentheses stand more than {_DEEPEST} deep in each other", token)
    pipe = _pipe(reader, Kind.RIGHT, "parentheses")
    reader.depth -= 1
    return Chain(pipe, (), token.at)


def _named_word(reader: _Reader, token: Token) -> Operand:
    if token.text in {"true", "false"}:
        return Constant(token.text == "true", token.at)
    if token.text == "nil":
        return Constant(None, token.at)
    if token.text not in reader.functions:
        raise reader.fault(f"there is no function {token.text[:40]!r}", token)
    return Function(token.text, token.at)


_WHOLE = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]*|[1-9][0-9]*)")
_BROKEN = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def _number(reader: _Reader, token: Token) -> int | float:
    """Go's numbers, but for imaginary ones and hexadecimal fractions."""
    text = token.text
    if re.search(r"__|_$|^_|[.eE]_|_[.eE]", text):
        raise reader.fault(f"cannot read {text[:40]!r} as a number", token)
    bare = text.replace("_", "")
    if _WHOLE.fullmatch(bare):
        octal = re.fullmatch(r"([+-]?)0([0-7]+)", bare)
        number = int(f"{octal[1]}{octal[2]}", 8) if octal else int(bare, 0)
        if -(2**63) <= number < 2**64:
            return number
    elif _BROKEN.fullmatch(bare) and abs(value := float(bare)) != float("inf"):
        return value
    raise reader.fault(f"cannot read {text[:40]!r} as a number", token)
