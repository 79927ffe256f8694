"""The files beside an object's TOML: a warning for each that holds a key of a known shape.

Code and texts hold made-up keys more often than a configuration does (a test's, a manual's), and a frozen
interface cannot be edited, so they are told and refuse nothing. Values by a secret's name are not looked for
here: in a program they are variables.
"""

from collections.abc import Iterator

from reconciler.admission.view import View, whole_path
from reconciler.config.text import position
from reconciler.model import secretlike
from reconciler.model.inventory import Resource
from reconciler.model.problems import Problem, Severity, Span
from reconciler.model.resources import Connector, Interface

_MOST = 2**20  # bytes of a file that is looked through; larger ones are an engine's data
CODES = {Connector: "C225", Interface: "I255"}


def no_file_holds_a_secret(
    view: View, resource: Resource[Connector] | Resource[Interface]
) -> Iterator[Problem]:
    """The first known shape of each text beside the object's own file, by its place alone."""
    own = resource.file.rpartition("/")[2]
    for path, data in sorted(resource.files.items()):
        if path == own or len(data) > _MOST or not secretlike.suspicious(data):
            continue
        text = _text(data)
        for offset, word in secretlike.shapes(text):
            yield Problem(
                code=CODES[type(resource.spec)],
                what=f"here stands what looks like {word}",
                why="the folder is committed and shared, and is mounted where the connector runs",
                mend="have it replaced where it was issued, and give it by a binding's [secrets]; "
                "write made-up ones with the word EXAMPLE in them",
                at=Span(whole_path(resource, path), *position(text, offset)),
                severity=Severity.WARNING,
                about=resource.ref,
            )
            break


def _text(data: bytes) -> str:
    """A text; "" for what is none."""
    try:
        return "" if b"\0" in data else data.decode()
    except UnicodeDecodeError:
        return ""


RULES = (no_file_holds_a_secret,)
