"""The law of frozen versions: a published version never changes, a draft is never selected."""

import json
from dataclasses import replace

import pytest

from reconciler.admission import frozen
from reconciler.admission.admit import Admission, admit
from reconciler.model.inventory import Inventory, Layer, Lock
from reconciler.model.names import InterfaceRef, Kind, ObjectRef
from reconciler.model.problems import Problem, Severity, Span
from tests.admission import build

REF = ObjectRef(Kind.INTERFACE, "ocr/v1")
FOLDER = "interfaces/ocr/v1"
AGENT = (
    build.connector("c", "ocr/v1") | build.binding("b", "c") | build.agent("a", 'services = { ocr = "b" }\n')
)


def published() -> Admission:
    return admit(build.inventory(build.interface() | AGENT, lock=("ocr/v1",)), {}, None, build.WHERE)


def changed(files: build.Files, before: Admission) -> Admission:
    """The same lock, other files."""
    entries = before.inventory.locks[Layer.CONFIG].entries
    now = build.inventory(files, lock=entries, previous=before.inventory)
    return admit(now, before.in_force, before, build.WHERE)


def test_an_entry_says_who_published_what_and_when() -> None:
    resource = published().in_force[REF]
    entry = frozen.entry(resource, "ada", "2026-11-30")  # type: ignore[arg-type]
    assert entry.ref == "ocr/v1"
    assert entry.digest == f"sha256:{resource.digest}"
    assert entry.model_digest.startswith("sha256:")
    assert (entry.reviewed_by, entry.published) == ("ada", "2026-11-30")


def test_a_published_version_as_it_was_is_admitted_and_may_be_selected() -> None:
    admission = published()
    assert not admission.problems
    assert [one.interface for one in admission.selections["a"]] == [InterfaceRef("ocr", 1)]


def test_one_changed_character_of_a_description_refuses_the_version_and_the_last_form_serves() -> None:
    # A rug pull: a definition changes after it was reviewed.
    before = published()
    files = build.interface() | AGENT
    text = files[f"{FOLDER}/tools.json"]
    assert isinstance(text, str)
    after = changed({**files, f"{FOLDER}/tools.json": text.replace("Extract", "Fxtract")}, before)
    problem = build.only(after, "I301")
    assert problem.reason == "FrozenModified"
    assert problem.what == "ocr/v1 is published and has changed: tools.json; what a model reads differs"
    assert problem.mend == (
        "restore tools.json from version control, or publish the change as interfaces/ocr/v2"
    )
    assert problem.at.file == f"{FOLDER}/tools.json"
    assert after.retained == {REF}
    assert after.in_force[REF] is before.in_force[REF]
    assert after.contracts[InterfaceRef("ocr", 1)] is before.contracts[InterfaceRef("ocr", 1)]
    assert after.selections == before.selections
    assert [one.code for one in build.errors(after)] == ["I301"]


def test_a_reformatted_file_is_refused_too_and_said_to_mean_the_same() -> None:
    before = published()
    files = build.interface() | AGENT
    text = files[f"{FOLDER}/tools.json"]
    after = changed({**files, f"{FOLDER}/tools.json": json.dumps(json.loads(text), indent=4)}, before)
    assert build.only(after, "I301").what == (
        "ocr/v1 is published and has changed: tools.json; bytes differ, what a model reads is the same"
    )


def test_a_renamed_fixture_changes_the_version() -> None:
    before = published()
    files = {
        path.replace("archive.zip", "box.zip"): text.replace("archive", "box")
        if isinstance(text, str)
        else text
        for path, text in (build.interface() | AGENT).items()
    }
    after = changed(files, before)
    assert (
        "conformance/archive.zip, conformance/box.zip, conformance/cases.toml"
        in build.only(after, "I301").what
    )


@pytest.mark.parametrize("path", ["tools.json", "conformance/cases.toml", "skills/ocr/SKILL.md"])
def test_one_changed_byte_is_refused_and_its_file_named_by_whoever_sees_it_first(path: str) -> None:
    entries = published().inventory.locks[Layer.CONFIG].entries
    text = build.interface()[f"{FOLDER}/{path}"]
    assert isinstance(text, str)
    files = {**build.interface(), f"{FOLDER}/{path}": text + " "}
    after = admit(build.inventory(files, lock=entries), {}, None, build.WHERE)
    problem = build.only(after, "I301")
    assert problem.at.file == f"{FOLDER}/{path}"
    assert f"is published and has changed: {path}; " in problem.what
    assert REF not in after.in_force


def test_without_the_last_form_the_file_is_not_guessed() -> None:
    before = published()
    files = {
        **build.interface(),
        f"{FOLDER}/interface.toml": build.INTERFACE.format(name="ocr", version=1) + "\n",
    }
    entries = before.inventory.locks[Layer.CONFIG].entries
    nameless = {ref: replace(entry, files=()) for ref, entry in entries.items()}  # as locks were once
    after = admit(build.inventory(files, lock=nameless), {}, None, build.WHERE)
    problem = build.only(after, "I301")
    assert problem.at.file == f"{FOLDER}/interface.toml"
    assert problem.mend == (
        "restore the folder from version control, or publish the change as interfaces/ocr/v2"
    )
    assert REF not in after.in_force


def test_doing_the_mend_of_a_changed_version_mends_it() -> None:
    before = published()
    files = build.interface() | AGENT
    broken = changed({**files, f"{FOLDER}/tools.json": "[]"}, before)
    assert build.errors(broken)
    assert not build.errors(changed(files, broken))
    kept = changed(build.interface() | build.interface(version=2) | AGENT, broken)
    assert not build.errors(kept)


def test_an_entry_whose_version_is_gone_is_a_warning_at_its_line() -> None:
    entry = replace(build.entry_of(published().in_force[REF]), line=7)
    admission = admit(build.inventory({}, lock={"ocr/v1": entry}), {}, None, build.WHERE)
    problem = build.only(admission, "I302")
    assert (str(problem.at), problem.severity) == ("handler.lock:7:1", Severity.WARNING)
    assert problem.what == "handler.lock lists ocr/v1, which is not in interfaces/"
    assert problem.mend == "restore interfaces/ocr/v1/ from version control, or delete its entry"


def _unreadable_lock(inventory: Inventory) -> Inventory:
    problem = Problem("S220", "merge markers", "why", "mend", Span("handler.lock", 1, 1))
    return replace(
        inventory,
        problems=(problem,),
        locks={**inventory.locks, Layer.CONFIG: Lock()},
        sources={**inventory.sources, (Layer.CONFIG, "handler.lock"): b"<<<<<<<"},
    )


def test_an_unreadable_lock_is_one_cause_and_takes_nothing_from_who_is_served() -> None:
    before = published()
    now = build.inventory(build.interface() | AGENT, previous=before.inventory)
    after = admit(_unreadable_lock(now), before.in_force, before, build.WHERE)
    problem = build.only(after, "A224")
    assert (problem.what, problem.mend, problem.reason) == (
        "waits for handler.lock",
        "mend handler.lock first",
        "WaitsFor",
    )
    assert after.selections == before.selections


def test_a_version_that_was_never_locked_can_be_validated_and_not_selected() -> None:
    admission = build.judge(build.interface() | AGENT)
    assert REF in admission.in_force
    assert InterfaceRef("ocr", 1) in admission.contracts
    assert build.only(admission, "A208")
    assert "a" not in admission.selections


@pytest.mark.parametrize("text", ["", "{", b"\xff"])
def test_what_cannot_be_read_cannot_be_published(text: str | bytes) -> None:
    files = build.interface() | {f"{FOLDER}/tools.json": text}
    resource = build.inventory(files).resources[REF]
    with pytest.raises(ValueError, match="ocr/v1"):
        frozen.entry(resource, "ada", "2026-11-30")  # type: ignore[arg-type]


def test_the_model_digest_covers_the_skill_and_not_the_cases() -> None:
    def digest(files: build.Files) -> str:
        return frozen.model_digest(build.inventory(files).resources[REF])  # type: ignore[arg-type]

    skill, cases = f"{FOLDER}/skills/ocr/SKILL.md", f"{FOLDER}/conformance/cases.toml"
    good = build.interface()
    assert digest(good) == digest({**good, cases: str(good[cases]) + "\n"})
    assert digest(good) != digest({**good, skill: str(good[skill]) + "\n"})
