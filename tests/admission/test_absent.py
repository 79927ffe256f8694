"""What is not built yet is accepted, said, and never served as if it were."""

import pytest

from reconciler.model.jobs import SCHEMAS, companions
from reconciler.model.names import Kind, ObjectRef
from tests.admission import build
from tests.admission.build import agent, binding, connector, interface

AGENT = agent("a", 'services = { ocr = "b" }\n')
JOB = {"job": "ocr_keep_submit", **companions("ocr_keep_submit")}


def jobs(beside: str = "") -> build.Files:
    """A locked version of ``ocr`` whose tools are a job and what asks about it, and one more."""
    plain = build.tool("ocr_extract") | {"annotations": {"readOnlyHint": False}}
    tools = [plain | {"name": beside}] if beside else []
    for kind, name in JOB.items():
        sides = zip(("inputSchema", "outputSchema"), SCHEMAS[kind], strict=True)
        tools.append(plain | {"name": name} | {side: it for side, it in sides if it is not None})
    files = interface(tools=tools)
    files["interfaces/ocr/v1/interface.toml"] = (
        str(files["interfaces/ocr/v1/interface.toml"])
        + 'not_ready = "later"\ncancelled = "it was stopped"\noutcome_unknown = "it may have happened"\n'
        + '[operations.ocr_keep_submit]\nkind = "job"\n'
    )
    suite = "interfaces/ocr/v1/conformance/cases.toml"
    cases = build.CASES.replace("rejects a zip", "{tool}")
    files[suite] = "".join(cases.format(tool=str(one["name"])) for one in tools)
    return files


def config(text: str) -> build.Files:
    return {"handler.toml": text} | connector("c", "ocr/v1") | binding("b", "c")


def bound(more: str = "", connector_more: str = "", top: str = "") -> build.Files:
    files = connector("c", "ocr/v1", more=connector_more) | binding("b", "c", more)
    files["connectors/c/connector.toml"] = str(files["connectors/c/connector.toml"]).replace(
        "implements", f"{top}implements"
    )
    return files


SLOT = '[secretSlots.key]\nheader = "x-key"\n'
ENV_SLOT = '[secretSlots.key]\nenv = "KEY"\nrequired = true\n'
FILLED = 'secrets = { key = { env = "K" } }\n'

# what is written, the object, the key that the condition names; serving without it would be wrong
NEEDED = [
    (bound(connector_more="[sandbox]\ngpu = true\n"), "connector/c", "sandbox.gpu"),
]

# the same, and what is served without it is right
WITHOUT_EFFECT = [
    (bound(connector_more="[reserve]\ngpu = 1\n"), "connector/c", "reserve"),
    (config("[capacity]\ngpu = 1\n"), "config/handler", "capacity.gpu"),
]

WARNING = {"interface": "I290", "connector": "C290", "binding": "B290", "agent": "A290", "config": "S290"}


def _judged(files: build.Files) -> build.Admission:
    # Every version of the configuration is published, else a draft would hide what is looked for.
    shipped = {path: text for path, text in files.items() if path.startswith("dialects/")}
    own = {path: text for path, text in files.items() if path not in shipped}
    return build.judge(interface() | own | AGENT, shipped, lock=("ocr/v1",))


@pytest.mark.parametrize(("files", "about", "key"), NEEDED, ids=[row[2] for row in NEEDED])
def test_without_a_needed_capability_the_object_is_admitted_and_nothing_is_routed_to_it(
    files: build.Files, about: str, key: str
) -> None:
    admission = _judged(files)
    ref = ObjectRef.parse(about) if not about.startswith("interface") else ObjectRef(Kind.INTERFACE, "ocr/v1")
    assert ref in admission.in_force
    assert key in admission.absent[ref]
    assert ref in admission.unusable
    assert "a" not in admission.selections
    refusal = admission.refused[ObjectRef(Kind.AGENT, "a")]
    assert {problem.reason for problem in refusal} == {"NotBuilt"}
    assert any(key in problem.what for problem in refusal)
    warning = build.only(admission, WARNING[ref.kind.value])
    assert (warning.what, warning.field_path) == (f"'{key}' is not built in this release", key)
    assert warning.mend == "leave it for a later release, or delete it"


def keeping(files: build.Files) -> build.Files:
    """The same files, in which the interface keeps state for a session."""
    name = "interfaces/ocr/v1/interface.toml"
    return files | {name: str(files[name]).replace("[errors]", 'state = "session"\n[errors]', 1)}


def test_state_of_a_session_is_served_and_not_by_one_process_for_all_nor_to_jobs() -> None:
    admission = build.judge(keeping(interface()) | bound() | AGENT, lock=("ocr/v1",))
    assert admission.selections["a"]
    assert not admission.absent
    attached = bound(top='runtime = "attached"\nsocket = "/run/app.sock"\n')
    fileless = interface(tools=[build.tool("ocr_extract") | {"inputSchema": SCHEMAS["status"][0]}])
    for files, words in (
        (keeping(fileless) | attached | AGENT, "state by the runtime attached"),
        (keeping(jobs()) | bound() | AGENT, "operations.ocr_keep_submit.kind with the state of a session"),
    ):
        refused = build.only(build.judge(files, lock=("ocr/v1",)), "A223")
        assert refused.reason == "NotBuilt"
        assert words in refused.what


@pytest.mark.parametrize(("files", "about", "key"), WITHOUT_EFFECT, ids=[row[2] for row in WITHOUT_EFFECT])
def test_a_key_without_effect_is_said_and_what_is_served_is_right(
    files: build.Files, about: str, key: str
) -> None:
    admission = _judged(files)
    ref = ObjectRef.parse(about)
    assert admission.absent[ref] == (key,)
    assert ref not in admission.unusable
    assert not build.errors(admission)
    assert admission.selections["a"]
    assert build.only(admission, WARNING[ref.kind.value]).reason == "NotBuilt"


def test_a_binding_says_what_its_connector_lacks() -> None:
    admission = _judged(bound(connector_more="[sandbox]\ngpu = true\n"))
    ref = ObjectRef(Kind.BINDING, "b")
    assert admission.absent[ref] == ("sandbox.gpu of c",)
    assert ref in admission.unusable


def test_a_secret_that_the_gate_adds_is_served() -> None:
    admission = _judged(bound(FILLED, SLOT, top='egress = ["api.example.com:443"]\n'))
    assert not admission.problems
    assert not admission.unusable
    assert admission.selections["a"]


def test_a_secret_that_goes_by_a_variable_is_served() -> None:
    admission = _judged(bound(FILLED, ENV_SLOT))
    assert not admission.problems
    assert not admission.unusable
    assert admission.selections["a"]


def test_an_addon_is_admitted_and_cannot_be_served() -> None:
    admission = build.judge({"bindings/b.toml": 'apiVersion = "handler.binding/v1"\naddon = "shop"\n'})
    assert admission.absent == {ObjectRef(Kind.BINDING, "b"): ("addon",)}
    assert admission.unusable == {ObjectRef(Kind.BINDING, "b")}


def test_what_ships_is_not_warned_of() -> None:
    shipped = interface() | connector("c", "ocr/v1", more="[reserve]\ngpu = 1\n")
    admission = build.judge(binding("b", "c") | AGENT, shipped)
    assert not admission.problems
    assert admission.absent == {ObjectRef(Kind.CONNECTOR, "c"): ("reserve",)}


def test_an_edit_that_needs_what_is_not_built_closes_the_service_and_serves_nothing_wrong() -> None:
    files = interface() | bound() | AGENT
    first = build.admit(build.inventory(files, lock=("ocr/v1",)), {}, None, build.WHERE)
    assert first.selections["a"]
    edited = files | bound(connector_more="[sandbox]\ngpu = true\n")
    now = build.inventory(edited, lock=("ocr/v1",), previous=first.inventory)
    then = build.admit(now, first.in_force, first, build.WHERE)
    assert ObjectRef(Kind.AGENT, "a") in then.retained
    assert ObjectRef(Kind.BINDING, "b") in then.unusable
    # Its place is kept, for whoever routes to close it: an agent that lost a tool would look for another way.
    assert [one.binding for one in then.selections["a"]] == ["b"]


def mixed(services: str) -> build.Files:
    """An interface with a tool that is a job beside one that is a call, and an agent of it, whose connector
    is elsewhere and can only be reached.
    """
    reached = 'runtime = "remote"\nurl = "https://mcp.example.com/mcp"\n'
    tool = '[tool.ocr_extract]\nfrom = "scan"\n[tool.ocr_keep_submit]\nfrom = "keep"\n'
    return (
        jobs("ocr_extract")
        | bound(connector_more=tool, top=reached)
        | binding("b", "c")
        | agent("a", f"services.ocr = {services}\n")
    )


@pytest.mark.parametrize(
    ("services", "served"),
    [
        ('{ binding = "b", tools = ["ocr_extract"] }', True),
        ('"b"', False),
        ('{ binding = "b" }', False),
        ('{ binding = "b", version = 1, tools = ["ocr_extract", "ocr_keep_submit"] }', False),
        ('{ binding = "b", tools = ["ocr_keep_submit"] }', False),
        ('{ binding = "b", tools = ["ocr_keep_status"] }', False),
    ],
)
def test_of_an_interface_with_jobs_the_rest_is_served_to_who_selects_only_that(
    services: str, served: bool
) -> None:
    admission = build.judge(mixed(services), lock=("ocr/v1",))
    ref = ObjectRef(Kind.INTERFACE, "ocr/v1")
    assert ref not in admission.unusable
    if served:
        assert [one.tools for one in admission.selections["a"]] == [("ocr_extract",)]
        assert not build.errors(admission)
        return
    problem = build.only(admission, "A223")
    assert problem.reason == "NotBuilt"
    assert problem.what == (
        "interface/ocr/v1 cannot be served: operations.ocr_keep_submit.kind by the runtime remote "
        "is not built in this release"
    )
    version = "version = 1, " if "version" in services else ""
    assert problem.mend == f'write ocr = {{ binding = "b", {version}tools = ["ocr_extract"] }}'
    mended = mixed(problem.mend.removeprefix("write ocr = "))
    assert build.judge(mended, lock=("ocr/v1",)).selections["a"]
