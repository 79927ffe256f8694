"""A small interface with a suite, and a connector that keeps its promise, or breaks it where told to."""

import json
from pathlib import Path

INTERFACE = """apiVersion = "handler.interface/v1"
name = "count"
version = 1
description = "Counts the words of a text"
[limits]
timeoutSeconds = 20
maxOutputBytes = 20000
[errors]
too_large = "The text is too long to be counted."
unavailable = "Nothing can be counted now."
"""
TOOLS = [
    {
        "name": "count_words",
        "title": "Count words",
        "description": "Counts the words of a text file, and writes them one a line where a file is named",
        "inputSchema": {
            "type": "object",
            "properties": {
                "path": {
                    "type": "string",
                    "description": "The text, a file in the work folder",
                    "format": "handler-file",
                },
                "output": {
                    "type": "string",
                    "description": "Where the words go, a file in the work folder",
                    "format": "handler-output-file",
                },
            },
            "required": ["path"],
            "additionalProperties": False,
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "words": {"type": "integer"},
                "first": {"type": "string", "maxLength": 100},
            },
            "required": ["words", "first"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True},
    }
]
SUITE = """[[case]]
name = "a short text"
tool = "count_words"
input = { path = "short.txt" }
expect.words.equals = 3
expect.contains = ["one"]

[[case]]
name = "words into a file"
tool = "count_words"
input = { path = "short.txt", output = "words.txt" }
expect.contains = ["three"]
expect.fileType = "text"

[[case]]
name = "a text that is too long"
tool = "count_words"
input = { path = "long.txt" }
expect.error = "too_large"

[[case]]
name = "no file at all"
tool = "count_words"
input = {}
expect.error = "invalid_input"
"""
SKILL = """---
name: count
description: Counts the words of a text.
---
# count
Ask `count_words`. `too_large`: cut the text. `unavailable`: try again later.
"""
CONNECTOR = """apiVersion = "handler.connector/v1"
name = "counter"
description = "Counts words"
implements = ["count/v1"]
[settings.wrong]
description = "A wrong number of words"
env = "WRONG"
default = false
"""
MAIN = """import os
from handler_connector import Failure, serve


def count_words(arguments, call):
    words = arguments["path"].read().decode().split()
    if len(words) > 100:
        raise Failure("too_large", "a hundred words")
    if "output" in arguments:
        arguments["output"].write("\\n".join(words).encode())
    print("counted", flush=True)
    return {"words": len(words) + (os.environ.get("WRONG") == "true"), "first": words[0]}


serve({"count_words": count_words})
"""


def lay(root: Path, *, settings: str = "", main: str = MAIN, suite: str = SUITE) -> Path:
    """A configuration with the interface, the connector and one binding; its folder."""
    files = {
        "handler.toml": 'apiVersion = "handler.config/v1"\n',
        "interfaces/count/v1/interface.toml": INTERFACE,
        "interfaces/count/v1/tools.json": json.dumps(TOOLS, indent=2),
        "interfaces/count/v1/skills/count/SKILL.md": SKILL,
        "interfaces/count/v1/conformance/cases.toml": suite,
        "interfaces/count/v1/conformance/short.txt": "one two three",
        "interfaces/count/v1/conformance/long.txt": "word " * 200,
        "connectors/counter/connector.toml": CONNECTOR,
        "connectors/counter/main.py": main,
        "bindings/mine.toml": f'apiVersion = "handler.binding/v1"\nconnector = "counter"\n{settings}',
    }
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root
