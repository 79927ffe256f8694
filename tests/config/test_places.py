"""A problem gets its line and column where it is wrong, in the layer that it is about."""

from dataclasses import replace

from reconciler.config import load, places
from reconciler.model.inventory import Inventory, Layer, Tree
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.problems import Problem, Span

CONNECTOR = b'apiVersion = "handler.connector/v1"\nname = "x"\ndescription = "d"\nimplements = ["ocr/v1"]\n'


def inventory() -> Inventory:
    catalog = {
        "connectors/x/connector.toml": CONNECTOR,
        "connectors/x/tools.json": b'[\n {"name": 1}]',
        "connectors/x/SKILL.md": b"#",
        "connectors/x/scan.pdf": b"%PDF",
    }
    config = {"connectors/x/connector.toml": b"\n\n" + CONNECTOR, "bindings/a.toml": b"\n[secrets]\n"}
    return load.inventory({Layer.CATALOG: Tree("c", catalog), Layer.CONFIG: Tree("r", config)})


def placed(file: str, path: tuple[str | int, ...] = (), **more: object) -> str:
    problem = Problem("C201", "what", "why", "mend", Span(file), path, **more)  # type: ignore[arg-type]
    return str(places.placed(problem, inventory()).at)


def test_a_path_is_looked_up_in_toml_and_json() -> None:
    about = ObjectRef(Kind.CONNECTOR, "x")
    assert (
        placed("connectors/x/connector.toml", ("implements", 0), about=about)
        == "connectors/x/connector.toml:4:15"
    )
    assert placed("connectors/x/tools.json", (0, "name")) == "connectors/x/tools.json:2:11"
    assert placed("connectors/x/tools.json", (0, "name"), on_key=True) == "connectors/x/tools.json:2:3"


def test_the_layer_is_that_of_the_object_and_else_the_configuration() -> None:
    assert placed("connectors/x/connector.toml", ("implements",)) == "connectors/x/connector.toml:6:14"


def test_a_missing_key_is_placed_at_its_table_or_the_first_line() -> None:
    assert placed("bindings/a.toml", ("secrets", "api_key")) == "bindings/a.toml:2:1"
    assert placed("bindings/a.toml", ("connector",)) == "bindings/a.toml:1:1"
    assert placed("connectors/x/SKILL.md") == "connectors/x/SKILL.md:1:1"


def test_a_file_without_lines_and_a_file_that_is_not_there_have_no_line() -> None:
    assert placed("connectors/x/scan.pdf") == "connectors/x/scan.pdf"
    assert placed("bindings/gone.toml", ("a",)) == "bindings/gone.toml"


def test_a_problem_that_has_its_line_keeps_it() -> None:
    problem = Problem("C201", "what", "why", "mend", Span("bindings/a.toml", 9, 9), ("a",))
    assert places.placed(problem, inventory()) is problem
    assert places.placed(replace(problem, at=Span("bindings/a.toml")), inventory()).at.line == 1
