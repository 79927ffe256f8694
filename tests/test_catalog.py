"""What ships in ``catalog/`` and ``examples/config``: complete, admitted without a word, true to its lock."""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import cast

import pytest
import tomli

from reconciler.admission import frozen
from reconciler.admission.admit import Admission, admit
from reconciler.config import load, lock
from reconciler.config.evidence import Evidence
from reconciler.conformance import cases, evidence
from reconciler.model.contract import ROUTER_CODES
from reconciler.model.inventory import Layer, Lock, Resource, Tree
from reconciler.model.jobs import CANCELLED, NOT_READY
from reconciler.model.names import InterfaceRef, Kind, ObjectRef
from reconciler.model.resources import Interface, Profile
from reconciler.plan import making

ROOT = Path(__file__).resolve().parents[1]
CATALOG = ROOT / "catalog"
EXAMPLE = ROOT / "examples" / "config"
VERSIONS = sorted(path.parent for path in CATALOG.glob("interfaces/*/*/interface.toml"))
CONNECTORS = sorted(path.parent for path in CATALOG.glob("connectors/*/connector.toml"))
MAX_FIXTURE_BYTES = 400_000


def tree(root: Path) -> Tree:
    files = {
        path.relative_to(root).as_posix(): path
        for path in root.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    executable = frozenset(name for name, path in files.items() if path.stat().st_mode & 0o111)
    return Tree("none@test", {name: path.read_bytes() for name, path in files.items()}, executable=executable)


def admission(configuration: Mapping[str, bytes] | None = None) -> Admission:
    above = Tree("none@test", configuration or {})
    return admit(load.inventory({Layer.CATALOG: tree(CATALOG), Layer.CONFIG: above}), {})


@cache
def shipped() -> Admission:
    """The catalogue alone."""
    return admission()


def version(folder: Path) -> Resource[Interface]:
    name = folder.relative_to(CATALOG / "interfaces").as_posix()
    found = shipped().inventory.interface(name)
    assert found is not None
    return found


def ident(folder: Path) -> str:
    return folder.relative_to(CATALOG).as_posix()


def test_the_catalogue_is_admitted_without_a_problem() -> None:
    judged = shipped()
    assert [(str(one.at), one.code, one.what) for one in judged.problems] == []
    assert {ref.name for ref in judged.in_force if ref.kind is Kind.CONNECTOR} == {
        folder.name for folder in CONNECTORS
    }


def test_the_lock_is_exactly_what_publishing_every_version_would_write() -> None:
    text = (CATALOG / "handler.lock").read_text()
    written = lock.read(text.encode())
    assert isinstance(written, Lock)
    again = {}
    for folder in VERSIONS:
        name = folder.relative_to(CATALOG / "interfaces").as_posix()
        entry = written.entries[name]
        made = frozen.entry(version(folder), entry.reviewed_by, entry.published)
        again[name] = made if entry.files else replace(made, files=())
    for name in written.entries.keys() - again.keys():
        profile = cast("Resource[Profile]", shipped().inventory.resources[ObjectRef(Kind.PROFILE, name)])
        entry = written.entries[name]
        again[name] = frozen.profile_entry(profile, entry.reviewed_by, entry.published)
    assert lock.render(Lock(again)) == text


@pytest.mark.parametrize("folder", VERSIONS, ids=ident)
def test_a_version_has_its_skill_that_names_every_error(folder: Path) -> None:
    interface = version(folder).spec
    skill = (folder / "skills" / interface.name / "SKILL.md").read_text()
    rows = set(re.findall(r"^\| `([a-z_]+)` \|", skill, re.MULTILINE))
    assert rows == {*interface.errors, *ROUTER_CODES}


@pytest.mark.parametrize("folder", VERSIONS, ids=ident)
def test_a_suite_can_be_read_provokes_errors_and_tries_every_tool(folder: Path) -> None:
    interface = version(folder).spec
    text = (folder / "conformance" / "cases.toml").read_text()
    found, problems = cases.read(tomli.loads(text), "cases.toml")
    assert problems == ()
    tools = dict(shipped().contracts[InterfaceRef(interface.name, interface.version)].tools)
    # A local effect is left unknown by a controller that dies meanwhile, which no case can ask for.
    effects = {one.effect for one in interface.operations.values()}
    unasked = {"unavailable"} | ({"outcome_unknown"} if effects == {"local"} else set())
    jobs = [name for name, one in interface.operations.items() if one.kind == "job"]
    if jobs:  # a case of a job comes back when it is over; that nobody knows is said after a day
        unasked |= {NOT_READY, CANCELLED, "outcome_unknown"}
        tools = {name: tools[name] for name in tools if tools[name].kind in ("call", "job")}
    assert {case.tool for case in found} == set(tools)
    assert {case.expect.error for case in found} >= set(interface.errors) - unasked
    given = [value for case in found for value in case.input.values()]
    used = {str(one) for value in given for one in (value if isinstance(value, list) else [value])}
    # ``corpus`` is what an engine that searches documents is given
    fixtures = {path.name for path in (folder / "conformance").iterdir()} - {"cases.toml", "corpus"}
    assert fixtures <= used


@pytest.mark.parametrize("folder", VERSIONS, ids=ident)
def test_fixtures_are_small(folder: Path) -> None:
    large = {path.name: path.stat().st_size for path in (folder / "conformance").iterdir()}
    assert max(large.values()) <= MAX_FIXTURE_BYTES


@pytest.mark.parametrize("folder", CONNECTORS, ids=ident)
def test_a_connector_says_how_to_provision_it_and_pins_what_it_installs(folder: Path) -> None:
    assert (folder / "PROVISIONING.md").read_text().startswith(f"# {folder.name}: ")
    entries = [name for name in ("main.py", "main.ts") if (folder / name).is_file()]
    connector = shipped().inventory.connector(folder.name)
    assert connector is not None
    assert len(entries) == (0 if connector.spec.runtime in ("builtin", "dialect") else 1)
    locked = folder / "requirements.lock"
    if locked.is_file():
        lines = locked.read_text().splitlines()
        pinned = [line for line in lines if not line.startswith(" ")]
        assert all("==" in line and line.endswith("\\") for line in pinned)
        assert all(
            re.fullmatch(r" +--hash=sha256:[0-9a-f]{64}( \\)?", line) for line in set(lines) - set(pinned)
        )


def test_every_connectors_settings_say_what_they_do() -> None:
    judged = shipped()
    for folder in CONNECTORS:
        connector = judged.inventory.connector(folder.name)
        assert connector is not None
        in_a_process = connector.spec.runtime != "dialect"  # without one nobody reads a variable
        settings = connector.spec.settings.values()
        assert all(one.description and (one.env or not in_a_process) for one in settings)


def test_no_key_enters_a_sandbox_where_a_header_is_all_that_it_is_for() -> None:
    slots: dict[str, str | None] = {}
    for folder in CONNECTORS:
        connector = shipped().inventory.connector(folder.name)
        assert connector is not None
        for name, slot in connector.spec.secret_slots.items():
            slots[f"{folder.name}.{name}"] = slot.header
    assert {name for name, header in slots.items() if header is None} == {"email-smtp.password"}  # no HTTP
    assert "ocr-mistral.api_key" in slots


def test_the_example_configuration_is_admitted_without_a_problem_anywhere() -> None:
    judged = admission(tree(EXAMPLE).files)
    assert [(str(one.at), one.code, one.what) for one in judged.problems] == []
    assert not judged.absent
    assert not judged.unusable
    assert not judged.retained


def test_an_agent_is_granted_what_has_an_effect() -> None:
    bindings = """
apiVersion = "handler.binding/v1"
connector = "email-smtp"
settings = { server = "mail.example.com:465", sender = "ada@example.com", recipients = "*" }
"""
    agent = 'apiVersion = "handler.agent/v1"\nservices = { send-email = "mail", fs = "files" }\n'
    judged = admission(
        {
            "bindings/mail.toml": bindings.encode(),
            "bindings/files.toml": b'apiVersion = "handler.binding/v1"\nconnector = "fs-scope"\n',
            "agents/a.toml": agent.encode(),
        }
    )
    assert judged.problems == ()
    assert [(str(one.interface), one.tools) for one in judged.selections["a"]] == [
        ("fs/v1", None), ("send-email/v1", None),
    ]  # fmt: skip


def test_the_example_shows_two_versions_and_both_ways_to_choose_an_engine() -> None:
    judged = admission(tree(EXAMPLE).files)
    chosen = {name: of[0] for name, of in judged.selections.items()}
    assert str(chosen["clerk"].interface) == "ocr/v1"
    assert str(chosen["archivist"].interface) == "ocr/v2"
    assert {one.binding for one in chosen.values()} == set(judged.inventory.names(Kind.BINDING))
    assert {one.file for one in chosen.values()} == {"agents/clerk.toml", "projects/office.toml"}


def test_a_misspelt_key_in_the_example_is_told_with_line_column_and_the_right_key() -> None:
    files = dict(tree(EXAMPLE).files)
    text = files["bindings/ocr-rapid.toml"].decode()
    files["bindings/ocr-rapid.toml"] = text.replace("\nconnector = ", "\nconector = ").encode()
    line = text[: text.index("\nconnector = ")].count("\n") + 2
    told = [one for one in admission(files).problems if "conector" in one.what]
    assert [(one.at.file, one.at.line, one.at.column) for one in told] == [
        ("bindings/ocr-rapid.toml", line, 1)
    ]
    assert "'connector'" in told[0].mend


def test_every_file_of_the_example_names_a_schema_that_is_there() -> None:
    for path in [
        *EXAMPLE.rglob("*.toml"),
        *CATALOG.rglob("interface.toml"),
        *CATALOG.rglob("connector.toml"),
    ]:
        first = path.read_text().split("\n", 1)[0]
        assert first.startswith("#:schema "), path
        assert (path.parent / first.removeprefix("#:schema ")).resolve().parent == ROOT / "schemas"
        assert (path.parent / first.removeprefix("#:schema ")).is_file(), path


def test_changing_one_byte_of_a_published_version_is_refused() -> None:
    whole = tree(CATALOG)
    name = "interfaces/ocr/v1/tools.json"
    files = {**whole.files, name: whole.files[name].replace(b"page by page.", b"page by page!")}
    judged = admit(
        load.inventory({Layer.CATALOG: Tree("none@test", files), Layer.CONFIG: Tree("none@test", {})}), {}
    )
    refused = judged.refused[ObjectRef(Kind.INTERFACE, "ocr/v1")]
    assert [one.reason for one in refused] == ["FrozenModified"]


def test_the_evidence_beside_a_connector_is_whole_passed_and_about_what_ships() -> None:
    """One that was changed is checked anew: handler connector check NAME --certify --record."""
    for file in sorted(CATALOG.glob("connectors/*/evidence/*.json")):
        found = Evidence.model_validate_json(file.read_bytes())
        connector = shipped().inventory.connector(file.parents[1].name)
        assert connector is not None
        # What is a part of the product has no process and no connection that could be broken; and trouble is
        # made with cases without an effect, which one that does nothing else has not.
        with_an_effect = connector.ref.name in ("email-maildir", "email-smtp", "media-ffmpeg")
        unbroken = connector.spec.runtime in ("builtin", "dialect") or with_an_effect
        wanted = ("passed", "never" if unbroken else "passed")
        assert (found.tiers.conformance, found.tiers.certification) == wanted, file
        assert evidence.is_whole(found), file
        code = making.base(connector, making.profiles_of(shipped(), connector)).code.digest
        assert found.subject.connector_digest == f"sha256:{code}", file
        interfaces = {name: shipped().inventory.interface(name) for name in connector.spec.implements}
        suites = {name: evidence.suite_digest(one.files) for name, one in interfaces.items() if one}
        assert found.subject.suites == suites, file
    assert (CATALOG / "connectors/ocr-tesseract/evidence").is_dir()
