"""``handler-llm``: a language model for scripts: a prompt from a file, material from stdin, the answer out.

``llm_complete`` with a command line of its own; ``handler call`` makes the call. Exit codes: 0 answered, 1
the call failed or the answer does not fit the schema (why stands on stderr), 2 a wrong command line.
"""

import os
import sys

from reconciler.doors import call, columns, entry, lines, streams, usage

_TOOL = "llm_complete"
_USAGE = """\
Usage: handler-llm [--model M] [--system FILE] --prompt FILE [--schema FILE] < input > out

Has a language model complete one prompt. What comes in by stdin is the material that the prompt is about.

  --prompt FILE       what is asked ('-' reads it from stdin: there is no material then)
  --system FILE       what the model is, and how it answers
  --schema FILE       a JSON Schema: the answer is then a JSON value that fits it, or exit code 1
  --input FILE        the material, instead of stdin (/dev/null for none)
  --image FILE        a picture that the model is shown; may stand again
  --model M           one of the models that are granted, by its exact name (default: the agent's first)
  --max-tokens N      the most tokens of the answer
  --agent NAME        whose models (default: those of the session around it, else the only agent's)
  -c, --config DIR    the configuration (default: as 'handler' finds it)
  -o json             the whole answer: text, value, valid, usage and ms
  --timeout SECONDS   give up, and cancel the call (default: the interface's own limit)

  handler-llm --prompt summary.txt < report.md
  handler-llm --prompt fields.txt --schema invoice.schema.json --input invoice.txt > invoice.json

  Exit: 0 answered, 1 the call failed or the answer is not valid (why stands on stderr), 2 wrong command line
"""
_FILES = {"--system": "system", "--prompt": "prompt", "--schema": "schema", "--input": "input"}
_WORDS = {"--model": "model", "--max-tokens": "maxTokens", "--image": "images"}


def main() -> int:
    """Run it; the exit code."""
    streams.ensure()
    try:
        settings, words = usage.settings(sys.argv[1:])
        if {"-h", "--help"} & set(words):
            sys.stdout.write(_USAGE)
            return 0
        asked = _asked(words)
    except usage.Usage as fault:
        sys.stderr.write(f"handler-llm: {fault}\n")
        return 2
    return entry.guarded(
        settings, ["handler-llm"], lambda: call.run(settings, asked, lambda said: _shown(said, settings))
    )


def _asked(words: list[str]) -> list[str]:
    """The command line of ``handler call`` that is meant. Raises ``usage.Usage``."""
    found: list[str] = []
    files: dict[str, str] = {}
    rest = list(words)
    while rest:
        name, given, value = rest.pop(0).partition("=")
        if name not in (*_FILES, *_WORDS, "--agent"):
            raise usage.Usage(f"'{name}' is not an option of handler-llm ('handler-llm --help' lists them)")
        value = value if given else rest.pop(0) if rest else ""
        if not value:
            raise usage.Usage(f"{name} needs a value")
        if name == "--agent":
            found += [name, value]
        elif name in _WORDS:
            found.append(f"{_WORDS[name]}={_plain(name, value)}")
        elif name in files:
            raise usage.Usage(f"{name} stands twice")
        else:
            files[name] = value
    if "--prompt" not in files:
        raise usage.Usage("--prompt FILE says what is asked ('-' reads it from stdin)")
    if "--input" not in files and "-" not in files.values() and not os.isatty(0):
        files["--input"] = "-"
    if list(files.values()).count("-") > 1:
        raise usage.Usage("stdin can be read once: name files for the others")
    return [_TOOL, *found, *(f"{_FILES[name]}=@{_path(file)}" for name, file in files.items())]


def _plain(name: str, value: str) -> str:
    """A word that ``handler call`` takes as it is, whatever it begins with."""
    if name == "--image":
        return _path(value)
    return f"@{value}" if value.startswith("@") else value


def _path(file: str) -> str:
    return f"./{file}" if file.startswith("@") else file


def _harmless(text: str) -> str:
    """A text as it is for a file or a program; for a terminal, without what would steer it."""
    if not sys.stdout.isatty():
        return text
    return "\n".join("\t".join(map(columns.shown, line.split("\t"))) for line in text.split("\n"))


def _shown(said: lines.Json, settings: usage.Settings) -> int:
    """Print an answer; 1 where it is an error, or does not fit what was asked for."""
    error = call.error_of(said)
    if isinstance(error, dict):
        sys.stderr.write(f"handler-llm: {error.get('error')}: {error.get('message')}\n")
        return 1
    answer = said.get("structuredContent")
    answer = answer if isinstance(answer, dict) else {}
    if settings.output == "json":
        sys.stdout.write(call.as_json(answer) + "\n")
    elif answer.get("valid") and "value" in answer:
        sys.stdout.write(call.as_json(answer["value"]) + "\n")
    elif answer.get("valid"):
        sys.stdout.write(f"{_harmless(str(answer.get('text', '')).rstrip())}\n")
    if answer.get("valid"):
        return 0
    sys.stderr.write("handler-llm: the answer does not fit the schema, after two tries (-o json shows it)\n")
    return 1
