"""``handler call``: the command line of every interface, speaking MCP to the router as an agent does.

Values given as ``key=value`` get the type that the tool's schema asks for; files are named by path, from the
folder one is in. Inside a session it is that session that calls; outside, an agent's standing door, or with
``--binding`` a session of its own over one binding, for operators. Exit codes: 0 answered, 1 one of the
interface's closed errors (printed as JSON) or nobody answered, 2 a wrong command line, 3 what was asked for
may have been done: the error ``outcome_unknown``, or no answer of a tool that changes something.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator

from reconciler.doors import arguments as typing_of
from reconciler.doors import bridge, client, lines, usage

Job = Callable[[lines.Line], int]
Shows = Callable[[lines.Json], int]
_VERSION = "2025-11-25"
_ERROR_KEY = "ai.handler/error"
_HANDSHAKE_S = 30.0
_ANSWER_S = 86_400.0  # the router ends every call by the interface's own limit, long before
_UNKNOWN = "outcome_unknown"
_HELP = """\
Usage: handler call TOOL [KEY=VALUE…] [--json TEXT|-] [--agent NAME | --binding NAME] [-o json]
       handler call --list | handler call TOOL --help

Calls one tool as an agent would, and prints its answer as JSON.

  KEY=VALUE       an input, typed by the tool's schema; repeat a key for a list; files by path
                  KEY.KEY=VALUE and KEY[0]=VALUE reach into objects and lists
                  KEY=@FILE is the text of a file, KEY=@- of stdin, KEY=@@TEXT begins with an @
  --json TEXT     all inputs as one JSON object, sent as it is; '-' reads it from stdin
  --list          the tools that can be called
  --help          with a TOOL: its inputs
  --agent NAME    with the services and limits of this agent (default: the session around, else the only one)
  --binding NAME  through this binding alone, with the current folder as scope: for operators, who are also
                  told what no agent is: the diagnostic of a call that failed, and where the log is; by its
                  newest admitted form, also while agents are still served by an earlier one
  --timeout SECONDS  give up, and cancel the call (default: the interface's own limit); so does Ctrl-C
  -o json         one line, also on a terminal

  handler call ocr_extract path=invoice.pdf languages=en languages=fr
  handler call ocr_extract --json '{"path": "invoice.pdf"}' --binding ocr-tesseract

  Exit: 0 answered, 1 one of the interface's errors or no answer, 2 wrong command line,
        3 it may have been done, so look before you repeat it: the error outcome_unknown, or no answer
          of a tool that changes something
"""


class _Ask:
    """The command line of one call."""

    def __init__(self, words: list[str]) -> None:
        """Read it; raises ``usage.Usage``."""
        options = {"--json": "", "--agent": "", "--binding": ""}
        flags = {"--list": False, "--help": False, "-h": False}
        self.values: list[tuple[str, str]] = []
        self.at_stake = False  # what was asked changes something: without an answer it may be done
        self.bare: list[str] = []  # words that are no KEY=VALUE: the schema says what they can mean
        self.tool = ""
        self.shows: Shows | None = None
        rest = list(words)
        while rest:
            word = rest.pop(0)
            name, given, value = word.partition("=")
            if word in flags:
                flags[word] = True
            elif name in options:
                options[name] = value if given else rest.pop(0) if rest else ""
                if not options[name]:  # also a variable of a script that is not set
                    raise usage.Usage(f"{name} needs a value")
            elif word.startswith("-") and word != "--":
                raise usage.Usage(f"'{word}' is not an option of 'handler call'")
            elif not self.tool and not given:
                self.tool = word
            elif word != "--":
                self._value(word)
        self.json, self.agent, self.binding = options["--json"], options["--agent"], options["--binding"]
        self.lists, self.helps = flags["--list"], flags["--help"] or flags["-h"]
        if not self.helps:
            self._check()

    def _value(self, word: str) -> None:
        key, given, value = word.partition("=")
        try:
            word.encode()
        except UnicodeEncodeError:
            raise usage.Usage("an input is text in UTF-8, and one of these is not") from None
        if given:
            self.values.append((key, value))
        else:
            self.bare.append(word)

    def _check(self) -> None:
        if self.lists and (self.tool or self.values or self.bare or self.json):
            raise usage.Usage("--list lists all tools: give no tool and no inputs with it")
        if not self.tool and not self.lists:
            raise usage.Usage("'handler call' wants a tool, like 'handler call ocr_extract path=a.pdf'")
        if self.json and (self.values or self.bare):
            raise usage.Usage("give the inputs either as KEY=VALUE or with --json")
        if self.agent and self.binding:
            raise usage.Usage("give either --agent or --binding")
        if (self.agent or self.binding) and _inside():
            raise usage.Usage("a session is open around this command, and it is the one that calls")


class _Progress(lines.Listener):
    """Shows progress on a terminal, in one line that is wiped in the end."""

    def __init__(self) -> None:
        self._shown = False

    def progress(self, params: lines.Json) -> None:
        done, total = params.get("progress"), params.get("total")
        sys.stderr.write(f"\r\x1b[K… {done}" + (f" of {total}" if total is not None else ""))
        sys.stderr.flush()
        self._shown = True

    def wipe(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")


def run(settings: usage.Settings, words: list[str], shows: Shows | None = None) -> int:
    """Run ``handler call``; the exit code. ``shows`` prints the result of the call instead, and gives the
    code. Raises ``usage.Usage`` and ``client.NoController``.
    """
    ask = _Ask(words)
    ask.shows = shows
    if ask.helps:
        return _helped(ask, settings)
    if ask.lists:
        return _reached(ask, settings, lambda line: _listed(line, settings))
    given = _given(ask)
    try:
        return _reached(ask, settings, lambda line: _asked(line, ask, given, settings))
    except usage.Stopped:
        if ask.bare:
            raise usage.Usage(f"'{ask.bare[0]}' is no input: write KEY=VALUE") from None
        raise


def _reached(ask: _Ask, settings: usage.Settings, job: Job) -> int:
    """Do a job over the connection that the command line means; its exit code."""
    if not ask.binding:
        return _over(_door(ask, settings), ask, settings, job)
    control = client.Client(settings.config)
    asked: lines.Json = {"binding": ask.binding, "scope": [typing_of.here()], "withCaller": True}
    opened = control.ask("session.open", asked)
    code = 1
    try:
        code = _over(str(opened.get("services")), ask, settings, job)
    finally:
        control.ask("session.close", {"session": opened.get("session")})
    if code and not settings.quiet:
        from reconciler.doors import logs  # noqa: PLC0415 - a call that is answered does without

        sys.stderr.write(logs.why(settings, ask.binding, str(opened.get("session"))))
    return code


def _helped(ask: _Ask, settings: usage.Settings) -> int:
    """Print the help: of a tool where one is named and can be asked for, else of the command."""
    if not ask.tool:
        sys.stdout.write(_HELP)
        return 0
    try:
        return _reached(ask, settings, lambda line: _explained(line, ask.tool, settings))
    except usage.Stopped as fault:
        sys.stdout.write(_HELP)
        sys.stderr.write(f"handler: the inputs of {ask.tool} cannot be asked for: {fault}\n")
        return 0


def _explained(line: lines.Line, tool: str, settings: usage.Settings) -> int:
    from reconciler.doors import offering  # noqa: PLC0415 - a call does without

    definition = _definition(line, tool)
    if settings.output == "json":
        sys.stdout.write(json.dumps(definition, indent=2, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(offering.explained(definition))
    return 0


def _listed(line: lines.Line, settings: usage.Settings) -> int:
    from reconciler.doors import offering  # noqa: PLC0415 - a call does without

    found = list(_tools(line))
    if settings.output == "json":
        sys.stdout.write(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    elif settings.output == "name":
        sys.stdout.write("".join(f"{one.get('name')}\n" for one in found))
    else:
        sys.stdout.write(offering.listed(found, settings.color))
    return 0


def _inside() -> str:
    return os.environ.get("HANDLER_SERVICES") or os.environ.get("HANDLER_SESSION") or ""


def _given(ask: _Ask) -> lines.Json | None:
    """The inputs that ``--json`` gives, or None."""
    if not ask.json:
        return None
    if ask.json.startswith("@"):
        raise usage.Usage(f"--json takes the JSON itself: for what a file holds, --json - < {ask.json[1:]}")
    try:
        text = typing_of.text_of(sys.stdin.read) if ask.json == "-" else ask.json
        value = typing_of.parsed(text)
        json.dumps(value, ensure_ascii=False).encode()  # an escape can write half a character
    except OSError as error:
        raise usage.Usage(f"--json cannot be read from stdin: {error.strerror}") from None
    except UnicodeError:
        raise usage.Usage("--json is no text in UTF-8") from None
    except ValueError as error:
        raise usage.Usage(f"--json is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise usage.Usage('--json wants one object, like \'{"path": "a.pdf"}\'')
    return value


def _door(ask: _Ask, settings: usage.Settings) -> str:
    if services := os.environ.get("HANDLER_SERVICES"):
        return services
    try:
        return bridge.standing_door("services", ask.agent, settings.config)
    except bridge.Usage as fault:
        raise usage.Usage(str(fault)) from None
    except bridge.NoDoor:
        raise client.NoController(bridge.why_not("", settings.config)) from None


def _over(path: str, ask: _Ask, settings: usage.Settings, job: Job) -> int:
    what = ask.tool or "the list of tools"
    try:
        line = lines.Line(path)
    except OSError as error:
        why = bridge.of_session(path) if _inside() else bridge.why_not(path, settings.config)
        raise client.NoController(f"cannot call {what}: {why}") from error
    try:
        return job(line)
    except lines.Fault as fault:
        return _failed(str(fault))
    except lines.Late:
        return _unanswered(f"{what} did not answer in time", ask)
    except lines.Lost as fault:
        return _unanswered(f"{what} was not answered: {fault}", ask)
    finally:
        line.close()


def _unanswered(why: str, ask: _Ask) -> int:
    if not ask.at_stake:
        return _failed(why)
    _failed(f"{why}; it may have been done: look before you repeat it ('handler jobs list')")
    return 3


def _failed(why: str) -> int:
    sys.stderr.write(f"handler: {why}\n")
    return 1


def _tools(line: lines.Line) -> Iterator[lines.Json]:
    """The tools that the router offers here, after the handshake."""
    from reconciler import __version__  # noqa: PLC0415

    client_info = {"name": "handler", "version": __version__}
    hello: lines.Json = {"protocolVersion": _VERSION, "capabilities": {}, "clientInfo": client_info}
    first = line.post("initialize", hello)
    line.tell("notifications/initialized", {})
    number = line.post("tools/list", {})
    line.answer(first, _HANDSHAKE_S)
    while True:
        page = line.answer(number, _HANDSHAKE_S)
        page = page if isinstance(page, dict) else {}
        yield from page.get("tools", [])
        if not page.get("nextCursor"):
            return
        number = line.post("tools/list", {"cursor": page["nextCursor"]})


def _definition(line: lines.Line, tool: str) -> lines.Json:
    """A tool as the router offers it; raises ``usage.Usage`` for one that it does not have."""
    known: list[str] = []
    for one in _tools(line):
        if one.get("name") == tool:
            return one
        known.append(str(one.get("name")))
    near = usage.nearest(tool, known)
    hint = f"did you mean '{near}'?" if near else f"there are {', '.join(known) or 'none'}"
    raise usage.Usage(f"there is no tool '{tool}' here: {hint}")


def _asked(line: lines.Line, ask: _Ask, given: lines.Json | None, settings: usage.Settings) -> int:
    definition = _definition(line, ask.tool)
    schema = definition.get("inputSchema")
    schema = schema if isinstance(schema, dict) else {}
    if ask.bare:
        from reconciler.doors import remarks  # noqa: PLC0415 - a call that is answered does without

        raise usage.Usage(remarks.bare(ask.bare[0], schema))
    values = typing_of.typed(ask.values, schema, ask.tool) if given is None else given
    hints = definition.get("annotations")
    ask.at_stake = isinstance(hints, dict) and hints.get("readOnlyHint") is False
    result = _called(line, ask, values, settings)
    if ask.shows is not None:
        return ask.shows(result)
    if result.get("isError"):
        return _ended(error_of(result), ask, (values, schema), settings)
    indent = 2 if sys.stdout.isatty() and settings.output != "json" else None
    sys.stdout.write(json.dumps(result.get("structuredContent"), indent=indent, ensure_ascii=False) + "\n")
    return 0


def _ended(error: object, ask: _Ask, given: tuple[lines.Json, lines.Json], settings: usage.Settings) -> int:
    """Print a closed error, and beside it what a person can do; the exit code. ``given``: inputs, schema."""
    sys.stdout.write(json.dumps(error, ensure_ascii=False) + "\n")
    if not isinstance(error, dict):
        return 1
    if not settings.quiet:
        from reconciler.doors import remarks  # noqa: PLC0415 - a call that is answered does without

        sys.stderr.write(remarks.told(error, *given, scoped=not ask.binding))
    return 3 if error.get("error") == _UNKNOWN else 1


def _called(line: lines.Line, ask: _Ask, values: lines.Json, settings: usage.Settings) -> lines.Json:
    params: lines.Json = {"name": ask.tool, "arguments": values}
    shown = _Progress()
    trace = os.environ.get("TRACEPARENT")
    meta: lines.Json = {"traceparent": trace} if trace else {}
    if sys.stderr.isatty() and not settings.quiet:
        meta["progressToken"] = 1
    if meta:
        params["_meta"] = meta
    number = line.post("tools/call", params)
    try:
        result = line.answer(number, settings.timeout_s or _ANSWER_S, shown)
    except (lines.Late, KeyboardInterrupt):
        line.tell("notifications/cancelled", {"requestId": number, "reason": "the caller gave up"})
        raise
    finally:
        shown.wipe()
    return result if isinstance(result, dict) else {}


def as_json(value: object) -> str:
    """A value on one line, or laid out on a terminal."""
    return json.dumps(value, indent=2 if sys.stdout.isatty() else None, ensure_ascii=False)


def error_of(result: lines.Json) -> object:
    """The closed error of an answer, None where it is none: the machine's copy, else the JSON of its text."""
    if not result.get("isError"):
        return None
    meta = result.get("_meta")
    if isinstance(meta, dict) and isinstance(meta.get(_ERROR_KEY), dict):
        return meta[_ERROR_KEY]
    text = _text(result)
    try:
        return json.loads(text.rstrip().rpartition("\n")[2])
    except ValueError:
        return {"error": "unavailable", "message": text}


def _text(result: lines.Json) -> str:
    content = result.get("content")
    blocks = content if isinstance(content, list) else []
    return "\n".join(str(block.get("text", "")) for block in blocks if isinstance(block, dict))
