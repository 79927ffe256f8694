"""Admissions from texts by path, read by the real loader and judged by the real rules."""

import json
from collections.abc import Mapping

from reconciler.admission import frozen
from reconciler.admission.admit import Admission, admit
from reconciler.config import load, lock
from reconciler.model.inventory import Layer, Lock, Resource, Tree
from reconciler.model.names import Kind
from reconciler.model.resources import Interface

HOME = "/home/ada"
KIT = "c" * 64

_OBJECT = {"type": "object", "additionalProperties": False}
_TEXT = {"type": "string", "maxLength": 100}


def interface(name: str, version: int = 1) -> dict[str, str]:
    """A whole interface version: one tool that takes a word and gives one back."""
    folder, tool = f"interfaces/{name}/v{version}", f"{name.replace('-', '_')}_say"
    tools = [
        {
            "name": tool,
            "title": "Say",
            "description": f"Say a word again, in the manner of version {version}.",
            "inputSchema": {**_OBJECT, "properties": {"word": _TEXT}, "required": ["word"]},
            "outputSchema": {**_OBJECT, "properties": {"word": _TEXT}, "required": ["word"]},
        }
    ]
    return {
        f"{folder}/interface.toml": f'apiVersion = "handler.interface/v1"\nname = "{name}"\n'
        f'version = {version}\ndescription = "Words."\n[errors]\nbroken = "the word cannot be said"\n',
        f"{folder}/tools.json": json.dumps(tools),
        f"{folder}/skills/{name}/SKILL.md": f"---\nname: {name}\ndescription: Words.\n---\n`broken`: stop.\n",
        f"{folder}/conformance/cases.toml": f'[[case]]\nname = "a word"\ntool = "{tool}"\n'
        'input = { word = "x" }\nexpect.contains = "x"\n',
    }


def connector(name: str, *implements: str, more: str = "", code: str = "print()\n") -> dict[str, str]:
    """A python connector of these interface versions."""
    folder = f"connectors/{name}"
    return {
        f"{folder}/connector.toml": f'apiVersion = "handler.connector/v1"\nname = "{name}"\n'
        f'description = "Speaks."\nimplements = {json.dumps(implements)}\n{more}',
        f"{folder}/main.py": code,
    }


def binding(name: str, of: str, more: str = "") -> dict[str, str]:
    """One configured connector."""
    return {f"bindings/{name}.toml": f'apiVersion = "handler.binding/v1"\nconnector = "{of}"\n{more}'}


def agent(name: str, services: Mapping[str, str], more: str = "") -> dict[str, str]:
    """An agent that uses these bindings."""
    chosen = "".join(f'{key} = "{value}"\n' for key, value in services.items())
    return {f"agents/{name}.toml": f'apiVersion = "handler.agent/v1"\n{more}\n[services]\n{chosen}'}


SMALL = {
    **interface("ocr"),
    **connector(
        "ocr-fast", "ocr/v1", more='[settings.speed]\nenv = "SPEED"\ndescription = "How."\ndefault = 3\n'
    ),
    **connector("ocr-good", "ocr/v1"),
    **binding("fast", "ocr-fast"),
    **binding("good", "ocr-good"),
    **agent("clerk", {"ocr": "fast"}, 'scope = ["~/scans", { path = "/data/", access = "read" }]'),
    **agent("maid", {"ocr": "good"}),
}


def admitted(files: Mapping[str, str], previous: Admission | None = None, *, clean: bool = True) -> Admission:
    """The admission of a configuration whose interface versions are all published as they are."""
    data = {path: text.encode() for path, text in files.items()}
    if "handler.lock" not in data:
        data["handler.lock"] = published(data)
    if previous is not None:  # what did not change is the same bytes, as a source gives them
        before = previous.inventory.trees[Layer.CONFIG].files
        data = {path: before[path] if before.get(path) == text else text for path, text in data.items()}
    found = load.inventory(
        {Layer.CATALOG: Tree("none", {}), Layer.CONFIG: Tree("r", data)},
        previous.inventory if previous else None,
    )
    admission = admit(found, previous.in_force if previous else {}, previous)
    assert not clean or not admission.refused, admission.problems
    return admission


def whole(files: Mapping[str, str], revision: str = "r") -> Tree:
    """A configuration as a source reads it, all its interface versions published as they are."""
    data = {path: text.encode() for path, text in files.items()}
    return Tree(revision, {"handler.lock": published(data), **data})


def published(data: Mapping[str, bytes]) -> bytes:
    draft = load.inventory({Layer.CATALOG: Tree("none", {}), Layer.CONFIG: Tree("r", data)})
    entries = {}
    for ref, resource in draft.resources.items():
        if ref.kind is Kind.INTERFACE and isinstance(resource.spec, Interface):
            whole: Resource[Interface] = resource  # type: ignore[assignment]
            entries[ref.name] = frozen.entry(whole, "ada", "2026-11-01")
    return lock.render(Lock(entries)).encode()
