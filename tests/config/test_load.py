"""Both layers become one inventory; what did not change stays the same value, and nothing ever raises."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.config import load, toml
from reconciler.model.inventory import Fault, Inventory, Layer, Tree
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.problems import Problem, Severity
from reconciler.model.recipes import folder_digest
from tests.kit.effort import times

BINDING = b'apiVersion = "handler.binding/v1"\nconnector = "ocr-x"\n'
AGENT = b'apiVersion = "handler.agent/v1"\n'
CONNECTOR = (
    b'apiVersion = "handler.connector/v1"\nname = "ocr-x"\ndescription = "d"\nimplements = ["ocr/v1"]\n'
)
INTERFACE = b'apiVersion = "handler.interface/v1"\nname = "ocr"\nversion = 1\ndescription = "d"\n'
CATALOG = {
    "connectors/ocr-x/connector.toml": CONNECTOR,
    "connectors/ocr-x/main.py": b"print()\n",
    "interfaces/ocr/v1/interface.toml": INTERFACE,
    "interfaces/ocr/v1/tools.json": b"[]",
    "interfaces/ocr/v1/skills/ocr/SKILL.md": b"# ocr\n",
}


def tree(files: dict[str, bytes], **more: object) -> Tree:
    return Tree("test", files, **more)  # type: ignore[arg-type]


def read(
    config: dict[str, bytes],
    previous: Inventory | None = None,
    catalog: dict[str, bytes] = CATALOG,
    **more: object,
) -> Inventory:
    return load.inventory({Layer.CATALOG: tree(catalog), Layer.CONFIG: tree(config, **more)}, previous)


def said(inventory: Inventory) -> list[tuple[str, str, str]]:
    return [(str(problem.at), problem.code, problem.severity.value) for problem in inventory.problems]


def test_every_kind_of_file_is_found_by_its_path() -> None:
    inventory = read(
        {
            "handler.toml": b"",
            "bindings/a.toml": BINDING,
            "agents/clerk.toml": AGENT,
            "projects/site.toml": b'apiVersion = "handler.project/v1"\n',
            "interfaces/ocr/v2/interface.toml": INTERFACE.replace(b"version = 1", b"version = 2"),
        }
    )
    assert not inventory.problems
    assert {str(ref) for ref in inventory.resources} == {
        "config/handler",
        "binding/a",
        "agent/clerk",
        "project/site",
        "interface/ocr/v1",
        "interface/ocr/v2",
        "connector/ocr-x",
    }
    assert inventory.names(Kind.INTERFACE) == ("ocr/v1", "ocr/v2")
    found = inventory.interface("ocr/v1")
    assert found is not None
    assert found.layer is Layer.CATALOG


def test_an_object_s_folder_is_its_own_with_paths_inside_it() -> None:
    files = CATALOG | {
        "interfaces/ocr/v1/.interface.toml.swp": b"x",
        "interfaces/ocr/v1/interface.toml~": b"x",
    }
    inventory = load.inventory(
        {Layer.CATALOG: tree(files, executable=frozenset({"connectors/ocr-x/main.py"}))}  # one layer will do
    )
    interface, connector = inventory.interface("ocr/v1"), inventory.connector("ocr-x")
    assert interface is not None
    assert connector is not None
    assert set(interface.files) == {"interface.toml", "tools.json", "skills/ocr/SKILL.md"}
    assert connector.executable == {"main.py"}
    assert connector.digest == folder_digest(connector.files, frozenset({"main.py"}))
    assert connector.digest != folder_digest(connector.files)


def test_one_file_is_its_object_s_only_file() -> None:
    binding = read({"bindings/a.toml": BINDING}).binding("a")
    assert binding is not None
    assert (binding.file, dict(binding.files)) == ("bindings/a.toml", {"a.toml": BINDING})
    assert binding.digest == folder_digest({"a.toml": BINDING})


STRAYS = [
    ("binding/a.toml", "binding/", "S216", "rename 'binding' to 'bindings'"),
    ("notes.txt", "notes.txt", "S216", "move it out of the configuration"),
    ("bindings/a.yaml", "bindings/a.yaml", "S216", "name it bindings/NAME.toml"),
    ("bindings/team/a.toml", "bindings/team/a.toml", "S216", "name it bindings/NAME.toml"),
    ("interfaces/ocr/interface.toml", "interfaces/ocr/interface.toml", "S216", "name it interfaces/NAME/vN/"),
    ("chains/team/a.json", "chains/team/a.json", "S216", "name it chains/NAME.json"),
    ("policies/egres.toml", "policies/egres.toml", "S216", "policies/egress.toml or policies/approval.toml"),
    ("addons/other.toml", "addons/", "S217", "later release"),
    ("addons/x/addon.toml", "addons/", "S217", "later release"),
    ("profiles/x/profile.toml", "profiles/x/profile.toml", "S216", "name it profiles/NAME/N/profile.toml"),
    ("connectors/y/main.py", "connectors/y", "S218", "add 'connectors/y/connector.toml'"),
]


@pytest.mark.parametrize(("path", "at", "code", "mend"), STRAYS, ids=[row[0] for row in STRAYS])
def test_a_file_that_belongs_to_nothing_is_told_once(path: str, at: str, code: str, mend: str) -> None:
    inventory = read({path: b"", path.replace("a.", "b."): b""})
    assert set(said(inventory)) <= {(at, code, "warning"), (at.replace("a.", "b."), code, "warning")}
    assert mend in inventory.problems[0].mend
    assert inventory.problems[0].about is None


@pytest.mark.parametrize(
    "path",
    [
        ".git/HEAD",
        ".gitignore",
        "README.md",
        "docs/x/y.md",
        "LICENSE",
        "schemas/binding.schema.json",
        "tombi.toml",
        "bindings/README.md",
        "bindings/.a.toml.swp",
        "bindings/a.toml~",
        "bindings/#a.toml#",
        "bindings/4913",
        "bindings/a.toml.tmp",
        "bindings/a.toml.orig",
        "connectors/ocr-x/__pycache__/main.pyc",
    ],
)
def test_what_editors_and_people_keep_beside_it_is_passed_over(path: str) -> None:
    assert not read({path: b"\xff"}).problems


def test_a_folder_that_could_not_be_read_is_an_error_of_its_objects() -> None:
    inventory = read(
        {"bindings/a.toml": BINDING},
        faults={
            "bindings/b.toml": Fault("symlink"),
            "bindings/c.toml": Fault("special", "a FIFO"),
            "bindings/d.toml": Fault("too_large"),
            "bindings/e.toml": Fault("unreadable", "Permission denied"),
            "connectors/v": Fault("submodule"),
            "connectors/w/model.bin": Fault("lfs"),
            "connectors/y": Fault("symlink"),
            "connectors/z/data.bin": Fault("special"),
            "agents": Fault("unreadable"),
            "handler.lock": Fault("symlink"),
            ".git": Fault("unreadable"),
        },
    )
    assert said(inventory) == [
        ("agents", "S215", "error"),
        ("bindings/b.toml", "S213", "error"),
        ("bindings/c.toml", "S214", "error"),
        ("bindings/d.toml", "S206", "error"),
        ("bindings/e.toml", "S215", "error"),
        ("connectors/v", "S222", "error"),
        ("connectors/w/model.bin", "S221", "error"),
        ("connectors/y", "S213", "error"),
        ("connectors/z/data.bin", "S214", "error"),
        ("handler.lock", "S213", "error"),
    ]
    assert [str(problem.about) for problem in inventory.problems] == [
        "None", "binding/b", "binding/c", "binding/d", "binding/e",
        "connector/v", "connector/w", "connector/y", "connector/z", "None",
    ]  # fmt: skip
    assert inventory.problems[2].what == "it is no regular file: a FIFO"
    unread = inventory.trees[Layer.CONFIG].unread("agents/clerk.toml")
    assert unread == Fault("unreadable")


def test_names_that_differ_in_case_refuse_each_other() -> None:
    inventory = read(
        {"bindings/OCR-main.toml": BINDING, "bindings/ocr-main.toml": BINDING, "bindings/c.toml": BINDING}
    )
    duplicates = [problem for problem in inventory.problems if problem.code == "B105"]
    assert {(str(problem.about), problem.candidates) for problem in duplicates} == {
        ("binding/OCR-main", ("bindings/ocr-main.toml",)),
        ("binding/ocr-main", ("bindings/OCR-main.toml",)),
    }
    assert {problem.reason for problem in duplicates} == {"DuplicateName"}
    assert inventory.names(Kind.BINDING) == ("c",)


def test_names_that_differ_in_width_refuse_each_other() -> None:
    wide = "agents/\uff43lerk.toml"  # a full-width c
    inventory = read({wide: AGENT, "agents/clerk.toml": AGENT})
    assert [problem.code for problem in inventory.problems if problem.about] == ["A105", "A104", "A105"]
    assert not inventory.names(Kind.AGENT)
    shown = next(problem for problem in inventory.problems if problem.code == "A104")
    assert "U+FF43" in shown.what


def test_projects_connectors_and_interfaces_are_compared_too() -> None:
    project = b'apiVersion = "handler.project/v1"\n'
    inventory = read(
        {
            "projects/A.toml": project,
            "projects/a.toml": project,
            "connectors/Y/connector.toml": b"",
            "connectors/y/connector.toml": CONNECTOR.replace(b"ocr-x", b"y"),
            "interfaces/TTS/v1/interface.toml": b"",
            "interfaces/tts/v1/interface.toml": INTERFACE.replace(b'"ocr"', b'"tts"'),
        }
    )
    codes = sorted(problem.code for problem in inventory.problems)
    assert codes == ["C104", "C105", "C105", "I104", "I105", "I105", "P104", "P105", "P105"]


@pytest.mark.parametrize(
    ("path", "code", "words"),
    [
        ("bindings/.toml", "B104", "a name cannot be empty"),
        ("bindings/ocr_fake.toml", "B104", "single dashes"),
        ("bindings/\u043ecr.toml", "B104", "U+043E"),
        ("agents/" + "a" * 41 + ".toml", "A104", "41 characters, more than 40"),
        ("projects/a--b.toml", "P104", "single dashes"),
        ("connectors/X/connector.toml", "C104", "lower-case"),
        ("interfaces/" + "a" * 21 + "/v1/interface.toml", "I104", "more than 20"),
        ("interfaces/services/v1/interface.toml", "I104", "'services' is reserved"),
        ("interfaces/tts/v01/interface.toml", "I104", "'v01' is not a version"),
        ("interfaces/tts/v1000000/interface.toml", "I104", "is not a version"),
        ("bindings/\udcff.toml", "B104", "U+DCFF"),
    ],
)
def test_a_path_that_gives_no_legal_name_is_refused(path: str, code: str, words: str) -> None:
    inventory = read({path: BINDING})
    (problem,) = inventory.problems
    assert problem.code == code
    assert words in problem.what
    assert {one.layer for one in inventory.resources.values()} == {Layer.CATALOG}
    problem.at.file.encode()


def test_a_folder_with_a_file_of_no_readable_name_is_refused() -> None:
    files = {"connectors/y/connector.toml": CONNECTOR.replace(b"ocr-x", b"y"), "connectors/y/\udcff": b""}
    assert said(read(files)) == [("connectors/y/\\udcff", "S219", "error")]


def test_a_configuration_adds_to_the_catalogue_and_never_changes_it() -> None:
    inventory = read(
        {"connectors/ocr-x/connector.toml": CONNECTOR, "interfaces/ocr/v1/interface.toml": b"broken"}
    )
    assert said(inventory) == [
        ("connectors/ocr-x/connector.toml:1:1", "C105", "error"),
        ("interfaces/ocr/v1/interface.toml:1:1", "I105", "error"),
    ]
    assert {problem.about for problem in inventory.problems} == {None}, (
        "the catalogue's objects are not refused"
    )
    connector = inventory.connector("ocr-x")
    assert connector is not None
    assert connector.layer is Layer.CATALOG


def test_settings_belong_to_the_configuration() -> None:
    assert said(read({}, catalog={"handler.toml": b""})) == [("handler.toml", "S216", "warning")]


LOCK = b"""apiVersion = "handler.lock/v1"

[interfaces."ocr/v1"]
digest = "sha256:%s"
modelDigest = "sha256:%s"
reviewedBy = "a person"
published = "2026-11-30"
""" % (b"a" * 64, b"b" * 64)


def test_each_layer_has_its_lock() -> None:
    inventory = read({"handler.lock": LOCK}, catalog=CATALOG)
    assert set(inventory.locks[Layer.CONFIG].entries) == {"ocr/v1"}
    assert inventory.locks[Layer.CONFIG].entries["ocr/v1"].line == 3
    assert not inventory.locks[Layer.CATALOG].entries


def test_a_lock_that_cannot_be_read_publishes_nothing_and_says_so() -> None:
    inventory = read({"handler.lock": LOCK.replace(b"sha256:a", b"sha256:x")})
    assert said(inventory) == [("handler.lock:4:10", "S220", "error")]
    assert not inventory.locks[Layer.CONFIG].entries


def test_a_text_fault_refuses_the_object_and_no_other() -> None:
    inventory = read({"bindings/a.toml": b"<<<<<<< HEAD\n", "bindings/b.toml": BINDING})
    assert said(inventory) == [("bindings/a.toml:1:1", "S201", "error")]
    assert (str(inventory.problems[0].about), inventory.problems[0].reason) == ("binding/a", "MergeConflict")
    assert inventory.names(Kind.BINDING) == ("b",)


# what changed


def test_what_did_not_change_is_the_same_value() -> None:
    config = {"bindings/a.toml": BINDING, "bindings/b.toml": BINDING, "agents/c.toml": AGENT}
    first = read(config)
    again = read({path: bytes(bytearray(data)) for path, data in config.items()}, first)
    assert all(again.resources[ref] is first.resources[ref] for ref in first.resources)
    changed = read({**config, "bindings/b.toml": BINDING + b"suspend = true\n"}, first)
    assert {str(ref) for ref in first.resources if changed.resources[ref] is not first.resources[ref]} == {
        "binding/b"
    }
    assert changed.sources[Layer.CONFIG, "bindings/b.toml"].endswith(b"true\n")
    assert len(changed.sources) == len(list(changed.sources)) == 8


def test_a_change_anywhere_in_a_folder_is_a_change_of_its_object() -> None:
    first = read({})
    for changed in (
        CATALOG | {"connectors/ocr-x/main.py": b"print(1)\n"},
        CATALOG | {"connectors/ocr-x/lib/more.py": b""},
        {path: data for path, data in CATALOG.items() if path != "connectors/ocr-x/main.py"},
    ):
        again = read({}, first, changed)
        before, after = first.connector("ocr-x"), again.connector("ocr-x")
        assert before is not None
        assert after is not None
        assert before.digest != after.digest
        assert again.interface("ocr/v1") is first.interface("ocr/v1")


def test_a_file_that_gets_an_execute_bit_changes_its_object() -> None:
    first = read({"bindings/a.toml": BINDING})
    again = read({"bindings/a.toml": BINDING}, first, executable=frozenset({"bindings/a.toml"}))
    assert again.binding("a") is not first.binding("a")


def test_problems_of_files_that_did_not_change_stay() -> None:
    first = read({"bindings/a.toml": b"", "binding/x": b"", "connectors/ocr-x/connector.toml": b""})
    again = read(
        {"bindings/a.toml": b"", "binding/x": b"", "connectors/ocr-x/connector.toml": b"", "x": b""}, first
    )
    assert set(first.problems) < set(again.problems)
    gone = read({"bindings/a.toml": BINDING}, again)
    assert not gone.problems


def test_an_inventory_that_was_changed_by_others_is_no_base_for_the_next() -> None:
    first = read({"bindings/a.toml": BINDING})
    judged = replace(first, resources={})
    again = read({"bindings/a.toml": BINDING}, judged)
    assert again.binding("a") is first.binding("a")


def test_a_file_that_becomes_an_unread_folder_changes_its_owner() -> None:
    first = read({"connectors/y": b""})
    assert said(first) == [("connectors/y", "S216", "warning")]
    again = read({}, first, faults={"connectors/y": Fault("symlink")})
    assert said(again) == [("connectors/y", "S213", "error")]
    assert said(read({"connectors/y": b""}, again)) == said(first)


def picture(inventory: Inventory) -> str:
    """All that an inventory says, for comparing."""
    resources = {
        str(ref): (one.layer.value, one.file, one.digest, one.spec.model_dump(), sorted(one.files))
        for ref, one in inventory.resources.items()
    }
    problems = [repr(problem) for problem in inventory.problems]
    locks = {layer.value: repr(sorted(lock.entries.items())) for layer, lock in inventory.locks.items()}
    return json.dumps([resources, problems, locks], sort_keys=True, default=str)


PATHS = st.sampled_from(
    [
        "handler.toml",
        "handler.lock",
        "bindings/a.toml",
        "bindings/A.toml",
        "bindings/.toml",
        "bindings/x/y",
        "chains/c.json",
        "chains/c.toml",
        "connectors/y",
        "connectors/ocr-x/connector.toml",
        "connectors/ocr-x/main.py",
        "connectors/y/connector.toml",
        "connectors/y/z",
        "interfaces/ocr/v1/interface.toml",
        "interfaces/ocr/v1/tools.json",
        "interfaces/ocr/v1",
        "interfaces/ocr",
        "bindings",
        "interfaces/ocr/v02/interface.toml",
        "interfaces/OCR/v1/interface.toml",
        "odd/a",
        "odd/b",
        "README",
        ".git/x",
        "/",
        "�",
        "connectors/y/�",
        "",
    ]
)
BYTES = st.sampled_from([b"", BINDING, CONNECTOR, INTERFACE, LOCK, b"\xff", b"a = 1", b"<<<<<<< x\n", b"[]"])
TREES = st.builds(
    Tree,
    st.just("r"),
    st.dictionaries(PATHS, BYTES, max_size=8),
    st.dictionaries(
        PATHS, st.sampled_from([Fault("symlink"), Fault("unreadable", "x"), Fault("odd")]), max_size=2
    ),
    st.frozensets(PATHS, max_size=2),
)
LAYERS = st.fixed_dictionaries({Layer.CATALOG: TREES, Layer.CONFIG: TREES})


def goes_on(steps: list[dict[Layer, Tree]]) -> None:
    inventory = None
    for step in steps:
        inventory = load.inventory(step, inventory)
        assert picture(inventory) == picture(load.inventory(step))


@pytest.mark.slow
@given(st.lists(LAYERS, min_size=2, max_size=3))
@settings(max_examples=times(25))
def test_reading_on_from_before_gives_what_a_first_reading_gives(steps: list[dict[Layer, Tree]]) -> None:
    goes_on(steps)


@pytest.mark.slow
@given(st.lists(LAYERS, min_size=2, max_size=5))
@settings(max_examples=times(240))
def test_reading_on_for_long_gives_what_a_first_reading_gives(steps: list[dict[Layer, Tree]]) -> None:
    goes_on(steps)


@settings(max_examples=times(25))
@given(
    st.dictionaries(
        st.one_of(PATHS, st.text(max_size=12)), st.one_of(BYTES, st.binary(max_size=60)), max_size=6
    )
)
def test_no_tree_makes_it_raise(files: dict[str, bytes]) -> None:
    inventory = load.inventory({Layer.CONFIG: Tree("r", files)})
    assert all(isinstance(problem, Problem) for problem in inventory.problems)
    assert list(inventory.problems) == sorted(inventory.problems, key=Problem.sort_key)
    assert all(problem.at.file == problem.at.file.encode().decode() for problem in inventory.problems)


@given(st.binary(max_size=200))
@settings(max_examples=times(25))
def test_any_bytes_in_an_object_s_file_refuse_it_or_are_it(data: bytes) -> None:
    inventory = load.inventory({Layer.CONFIG: Tree("r", {"bindings/a.toml": data})})
    ref = ObjectRef(Kind.BINDING, "a")
    refused = [one for one in inventory.problems if one.about == ref and one.severity is Severity.ERROR]
    assert (ref in inventory.resources) != bool(refused)


def many(count: int) -> dict[str, bytes]:
    return {
        f"bindings/b-{number}.toml": BINDING + f'description = "number {number}"\n'.encode()
        for number in range(count)
    }


def test_a_pass_over_many_objects_reads_only_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    files = many(2_000)
    first = read(files)
    reads: list[bytes] = []
    real = toml.read

    def counted(data: bytes) -> object:
        reads.append(data)
        return real(data)

    monkeypatch.setattr(toml, "read", counted)
    again = read({**files, "bindings/b-7.toml": BINDING}, first)
    assert reads == [BINDING]
    assert len(again.resources) == len(first.resources)
    read(dict(files), first)
    assert len(reads) == 1
