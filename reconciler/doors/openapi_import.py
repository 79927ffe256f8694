"""``handler import openapi``: an OpenAPI 3 document becomes an interface, its connector and a binding.

The document is read where it lies; nothing is fetched, asked or started, and no file that is there is
written over. The interface is a draft until ``handler lock add``, which shows what of it a model will read.
"""

import json
import os
import sys
from pathlib import Path

from reconciler.doors import columns, foreign, newing, offline, usage
from reconciler.harness import openapi, openapi_files
from reconciler.harness.openapi import Read
from reconciler.model.inventory import Layer
from reconciler.model.names import Kind, ObjectRef, name_fault

_LONGEST_NAME = 20  # of an interface: tools bear it
_PROGRAM = "openapi_connector.py"


def run(settings: usage.Settings, path: str, name: str, options: tuple[str, bool]) -> int:
    """Import a document as the interface ``name``; ``options``: another server, and whether to write nothing.

    0 all is there now, 1 something of it was left out or is refused. Raises ``Usage`` and ``Stopped``.
    """
    server, dry = options
    _need_words(path, name)
    root, file = foreign.root(settings), foreign.named(path)
    with foreign.values(file) as values:
        found = openapi.read(values, name, server)
        program = Path(__file__).with_name(_PROGRAM).read_text("utf-8")
        texts = openapi_files.files(found, name, file.name, program)
    look = offline.look(root)
    files = _fresh(look, name, texts)
    if not dry:
        foreign.write(look.root, files)
    _print(settings, files, found, (name, dry))
    refused = foreign.refused(settings, look, files)
    return 1 if found.left or refused else 0


def _need_words(path: str, name: str) -> None:
    if not name or not path:
        raise usage.Usage("a document and a name are needed: handler import openapi openapi.json --name crm")
    if "://" in path:
        got = f"curl -o openapi.json '{columns.shown(path[:200])}'"
        raise usage.Usage(f"an import fetches nothing: get the document first, {got}")
    if (fault := name_fault(name)) or len(name) > _LONGEST_NAME:
        words = fault or f"it has more than {_LONGEST_NAME} characters, and tools bear it"
        raise usage.Usage(f"'{columns.shown(name[:80])}' is no name for an interface: {words}")


def _fresh(look: offline.Look, name: str, files: dict[str, str]) -> dict[str, str]:
    """The files to write; none where all of them stand there as they would be. Raises ``Stopped``."""
    known = look.admission.inventory.resources.get(ObjectRef(Kind.INTERFACE, f"{name}/v1"))
    if known is not None and known.layer is Layer.CATALOG:
        raise usage.Stopped(f"the catalogue has {name}/v1: choose another --name")
    texts = {path: newing.with_schema(look.root, path, one) for path, one in files.items()}
    there = [path for path in texts if os.path.lexists(look.root / path)]
    same = [path for path in there if look.tree.files.get(path) == texts[path].encode()]
    if len(same) == len(texts):
        return {}
    if there:
        mend = "delete what the last import made, or choose another --name"
        raise usage.Stopped(f"{there[0]} is there already: nothing was written; {mend}")
    return texts


def _print(settings: usage.Settings, files: dict[str, str], found: Read, what: tuple[str, bool]) -> None:
    name, dry = what
    todo = [
        f"put what is sent as '{one.header}' into {openapi_files.place(name, one)}" for one in found.slots
    ]
    todo.append(f"see what a model will read, and publish it: handler lock add {name}/v1")
    if settings.output == "json":
        left = [{"what": one, "why": why} for one, why in found.left]
        tools = [one.tool for one in found.operations]
        told = {"dryRun": dry, "written": sorted(files), "tools": tools, "left": left, "toDo": todo}
        sys.stdout.write(json.dumps(told, indent=2) + "\n")
    elif dry:
        sys.stdout.write("\n".join(f"# {path}\n{text}" for path, text in files.items()))
    else:
        sys.stdout.write("".join(f"{path}\n" for path in files))
    sys.stdout.flush()
    for one, why in found.left:
        sys.stderr.write(f"left out: {columns.shown(one)}: {columns.shown(why)}\n")
    if settings.quiet:
        return
    for line in todo:
        sys.stderr.write(f"to do: {line}\n")
    sys.stderr.write(
        f"{columns.counted(len(found.operations), 'tool')} of {columns.shown(found.title)}, {found.server}. "
        "Nothing was fetched, started or asked.\n"
    )
