"""A path alone says whose a file is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.config.paths import Owner, home, nearest_folder, shape, shown
from reconciler.model.names import Kind

OCR = "interfaces/ocr/v1"


@pytest.mark.parametrize(
    ("path", "kind", "name", "key", "folder"),
    [
        ("handler.toml", Kind.CONFIG, "handler", "handler.toml", ""),
        ("bindings/ocr-a.toml", Kind.BINDING, "ocr-a", "bindings/ocr-a.toml", ""),
        ("bindings/OCR.toml", Kind.BINDING, "OCR", "bindings/OCR.toml", ""),
        ("bindings/.toml", Kind.BINDING, "", "bindings/.toml", ""),
        ("agents/a.b.toml", Kind.AGENT, "a.b", "agents/a.b.toml", ""),
        ("projects/p.toml", Kind.PROJECT, "p", "projects/p.toml", ""),
        ("connectors/x/connector.toml", Kind.CONNECTOR, "x", "connectors/x/connector.toml", "connectors/x"),
        ("connectors/x/lib/deep/a.py", Kind.CONNECTOR, "x", "connectors/x/connector.toml", "connectors/x"),
        (f"{OCR}/interface.toml", Kind.INTERFACE, "ocr/v1", f"{OCR}/interface.toml", OCR),
        (f"{OCR}/skills/ocr/SKILL.md", Kind.INTERFACE, "ocr/v1", f"{OCR}/interface.toml", OCR),
    ],
)
def test_a_file_of_an_object_is_gathered_under_the_file_that_defines_it(
    path: str, kind: Kind, name: str, key: str, folder: str
) -> None:
    assert home(path) == (Owner.OBJECT, key, kind, name, folder)


@pytest.mark.parametrize(
    ("path", "owner", "key"),
    [
        ("handler.lock", Owner.LOCK, "handler.lock"),
        ("addons/a/b.toml", Owner.NOT_BUILT, "addons/"),
        ("chains/a/b.json", Owner.NOBODY, "chains/a/b.json"),
        ("bindings/a.json", Owner.NOBODY, "bindings/a.json"),
        ("bindings/x/a.toml", Owner.NOBODY, "bindings/x/a.toml"),
        ("interfaces/ocr/tools.json", Owner.NOBODY, "interfaces/ocr/tools.json"),
        ("connectors/x", Owner.NOBODY, "connectors/x"),
        ("agent/a.toml", Owner.NOBODY, "agent/"),
        ("notes", Owner.NOBODY, "notes"),
        (".git/config", Owner.PASSED_OVER, ""),
        ("readme.txt", Owner.PASSED_OVER, ""),
        ("connectors/x/node_modules/y/index.js", Owner.PASSED_OVER, ""),
        ("bindings/a.toml.swp", Owner.PASSED_OVER, ""),
    ],
)
def test_other_files_belong_to_the_lock_to_later_or_to_nobody(path: str, owner: Owner, key: str) -> None:
    assert home(path)[:2] == (owner, key)


@given(st.text(max_size=30))
def test_any_path_has_a_home(path: str) -> None:
    one = home(path)
    assert isinstance(one.owner, Owner)
    assert (one.key == "") == (one.owner is Owner.PASSED_OVER) or path == ""
    shown(path).encode()


def test_a_misspelt_folder_has_a_nearest_one() -> None:
    assert nearest_folder("binding/a.toml") == "bindings"
    assert nearest_folder("conectors/x/y") == "connectors"
    assert nearest_folder("music/a.toml") is None


def test_the_place_of_a_kind_reads_as_people_write_it() -> None:
    assert shape(Kind.INTERFACE) == "interfaces/NAME/vN/interface.toml"
    assert shown("a\udcff") == "a\\udcff"
