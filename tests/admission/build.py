"""Inventories built by hand, from texts by path, for the tests of the rules alone."""

import json
import tomllib
from collections.abc import Iterable, Mapping

from reconciler.admission import frozen
from reconciler.admission.admit import Admission, Surroundings, admit
from reconciler.config import paths, profiles
from reconciler.model.inventory import Inventory, Layer, Lock, LockEntry, Resource, Tree
from reconciler.model.names import PUBLISHED, Kind, ObjectRef
from reconciler.model.problems import Problem, Severity, Span
from reconciler.model.recipes import folder_digest
from reconciler.model.resources import KINDS, Record

Files = Mapping[str, str | bytes]

MODELS = {row.kind: row.model for row in KINDS}
WHERE = Surroundings(
    home="/home/ada", forbidden=("/home/ada/config", "/home/ada/.local/state/handler", "/run/h")
)


def inventory(
    config: Files,
    catalog: Files | None = None,
    *,
    lock: Iterable[str] | Mapping[str, LockEntry] = (),
    previous: Inventory | None = None,
) -> Inventory:
    """Both layers parsed; what cannot be parsed becomes a problem about its object, as the loader does it.

    ``lock`` lists the versions of the configuration that are published as they are (or gives entries); every
    version of the catalogue is published. Unchanged objects of ``previous`` are the same objects.
    """
    trees = {
        Layer.CATALOG: Tree("none", _bytes(catalog or {})),
        Layer.CONFIG: Tree("none", _bytes(config)),
    }
    resources: dict[ObjectRef, Resource[Record]] = {}
    problems: list[Problem] = []
    for layer, tree in trees.items():
        for ref, file, files in _objects(tree):
            old = previous.resources.get(ref) if previous else None
            if old and old.layer is layer and old.files == files:
                resources[ref] = old
                continue
            try:
                resource = _resource(ref, layer, file, files)
            except ValueError as error:
                what = f"{type(error).__name__} in {file}"
                problems.append(Problem("X100", what, "why", "mend", Span(file), about=ref))
                continue
            resources[ref] = resource
    sources = {(layer, path): data for layer, tree in trees.items() for path, data in tree.files.items()}
    locks = {layer: _lock(layer, resources.values(), lock) for layer in Layer}
    return Inventory("none", resources, tuple(problems), sources, locks, trees)


def judge(config: Files, catalog: Files | None = None, *, lock: Iterable[str] = ()) -> Admission:
    """Admit a configuration from nothing."""
    return admit(inventory(config, catalog, lock=lock), {}, None, WHERE)


def errors(admission: Admission) -> list[Problem]:
    return [problem for problem in admission.problems if problem.severity is Severity.ERROR]


def only(admission: Admission, code: str) -> Problem:
    """The one problem of a code."""
    found = [problem for problem in admission.problems if problem.code == code]
    assert len(found) == 1, [(problem.code, problem.what) for problem in admission.problems]
    return found[0]


def _bytes(files: Files) -> dict[str, bytes]:
    return {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}


def _objects(tree: Tree) -> Iterable[tuple[ObjectRef, str, dict[str, bytes]]]:
    gathered: dict[str, dict[str, bytes]] = {}
    homes: dict[str, paths.Home] = {}
    for path in sorted(tree.files):
        home = paths.home(path)
        if home.owner is paths.Owner.OBJECT:
            homes[home.key] = home
            inner = path.removeprefix(home.folder + "/") if home.folder else path.rpartition("/")[2]
            gathered.setdefault(home.key, {})[inner] = tree.files[path]
    for key, files in gathered.items():
        if key in tree.files:
            yield ObjectRef(homes[key].kind, homes[key].name), key, files


def _resource(ref: ObjectRef, layer: Layer, file: str, files: dict[str, bytes]) -> Resource[Record]:
    data = files[file.rpartition("/")[2]]
    values = tomllib.loads(data.decode())
    digest = profiles.digest(values) if ref.kind is Kind.PROFILE else folder_digest(files)
    return Resource(ref, layer, file, digest, MODELS[ref.kind].model_validate(values), files)


def _lock(
    layer: Layer, resources: Iterable[Resource[Record]], given: Iterable[str] | Mapping[str, LockEntry]
) -> Lock:
    if isinstance(given, Mapping):
        return Lock(dict(given) if layer is Layer.CONFIG else {})
    wanted = set(given)
    entries = {}
    for resource in resources:
        published = layer is Layer.CATALOG or resource.ref.name in wanted
        if resource.ref.kind in PUBLISHED and resource.layer is layer and published:
            entries[resource.ref.name] = entry_of(resource)
    return Lock(entries)


def entry_of(resource: Resource[Record]) -> LockEntry:
    if resource.ref.kind is Kind.PROFILE:
        return frozen.profile_entry(resource, "ada", "2026-11-30")  # type: ignore[arg-type]
    return frozen.entry(resource, "ada", "2026-11-30")  # type: ignore[arg-type]


# a small good configuration, whose parts the tests take and bend

INTERFACE = """apiVersion = "handler.interface/v1"
name = "{name}"
version = {version}
description = "Extract text from scanned documents"

[errors]
unsupported_format = "the file is not a PDF or an image"
"""

SKILL = """---
name: {name}
description: Read a scan when its text is wanted.
---
On unsupported_format say so and stop.
"""

CASES = """[[case]]
name = "rejects a zip"
tool = "{tool}"
input = {{ path = "archive.zip" }}
expect.error = "unsupported_format"
"""

CONNECTOR = """apiVersion = "handler.connector/v1"
name = "{name}"
description = "An engine"
implements = [{implements}]
"""


def tool(name: str = "ocr_extract") -> dict[str, object]:
    """A tool that follows every rule."""
    return {
        "name": name,
        "description": "Extract the text of a PDF or image in the work folder.",
        "inputSchema": {
            "type": "object",
            "additionalProperties": False,
            "required": ["path"],
            "properties": {
                "path": {
                    "type": "string",
                    "format": "handler-file",
                    "maxLength": 4096,
                    "description": "a file in the work folder",
                }
            },
        },
        "outputSchema": {
            "type": "object",
            "additionalProperties": False,
            "required": ["text"],
            "properties": {"text": {"type": "string", "maxLength": 100000}},
        },
    }


def interface(name: str = "ocr", version: int = 1, tools: object = None) -> dict[str, str | bytes]:
    """The folder of a good interface version."""
    folder = f"interfaces/{name}/v{version}"
    first = f"{name.replace('-', '_')}_extract"
    return {
        f"{folder}/interface.toml": INTERFACE.format(name=name, version=version),
        f"{folder}/tools.json": json.dumps(tools if tools is not None else [tool(first)], indent=2),
        f"{folder}/skills/{name}/SKILL.md": SKILL.format(name=name),
        f"{folder}/conformance/cases.toml": CASES.format(tool=first),
        f"{folder}/conformance/archive.zip": b"PK",
    }


def connector(name: str, *implements: str, more: str = "") -> dict[str, str | bytes]:
    """The folder of a good python connector."""
    listed = ", ".join(f'"{version}"' for version in implements)
    return {
        f"connectors/{name}/connector.toml": CONNECTOR.format(name=name, implements=listed) + more,
        f"connectors/{name}/main.py": "serve({})\n",
    }


def binding(name: str, of: str, more: str = "") -> dict[str, str | bytes]:
    return {f"bindings/{name}.toml": f'apiVersion = "handler.binding/v1"\nconnector = "{of}"\n{more}'}


def project(name: str, more: str = "") -> dict[str, str | bytes]:
    return {f"projects/{name}.toml": f'apiVersion = "handler.project/v1"\n{more}'}


def agent(name: str, more: str = "") -> dict[str, str | bytes]:
    return {f"agents/{name}.toml": f'apiVersion = "handler.agent/v1"\n{more}'}


def catalog() -> dict[str, str | bytes]:
    return interface() | connector("ocr-tesseract", "ocr/v1") | connector("ocr-rapid", "ocr/v1")


def config() -> dict[str, str | bytes]:
    return (
        binding("ocr-tesseract", "ocr-tesseract")
        | binding("ocr-rapid", "ocr-rapid")
        | project("site", 'requires = ["ocr/v1"]\n')
        | agent("clerk", 'project = "site"\nservices = { ocr = "ocr-tesseract" }\nscope = ["~/documents"]\n')
    )
