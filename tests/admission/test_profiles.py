"""Every problem of a profile, of the register, and of what speaks by profiles: the exact words, the mends."""

import pytest

from reconciler.admission.admit import admit
from reconciler.config.profiles import digest
from reconciler.config.toml import read
from reconciler.model.inventory import LockEntry
from reconciler.model.names import Kind, ObjectRef
from tests.admission import build
from tests.admission.build import Files, binding
from tests.admission.table import Bad, check

P = "profiles/acme.pictures/1/profile.toml"
C = "connectors/c/connector.toml"
REGISTER = """apiVersion = "handler.dialect/v1"
name = "openai.images"
version = 1
description = "Pictures"
driver = "openai-images@1"
[operations.generate]
result = "openai.images.result@1"
[operations.edit]
result = "openai.images.result@1"
"""
PROFILE = """apiVersion = "handler.dialect-profile/v1"
[profile]
id = "acme.{name}"
revision = 1
dialect = "openai.images@1"
provider = "acme"
models = ["acme-1"]
driver = "openai-images@1"
refuses = ["edit"]
[auth]
scheme = "bearer"
header = "authorization"
secret = "api_key"
[transport]
base = "https://api.acme.example/v1"
[[operation]]
name = "generate"
method = "POST"
path = "/images/generations"
effect = "none"
result = "openai.images.result@1"
required = ["model", "prompt"]
[operation.field.model]
type = "string"
[operation.field.prompt]
type = "string"
"""
GOOD = PROFILE.format(name="pictures")
TOOLS = [
    build.tool("ocr_extract")
    | {
        "inputSchema": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "model": {"type": "string", "maxLength": 200, "description": "the model to ask"},
                "prompt": {"type": "string", "maxLength": 200, "description": "what to draw"},
            },
        }
    }
]
CATALOG = build.interface(tools=TOOLS) | {"dialects/openai.images@1/dialect.toml": REGISTER}
SLOT = '[secretSlots.api_key]\nheader = "Authorization: Bearer {}"\n'
TOOL = '[tool.ocr_extract]\noperation = "generate"\n'


def of(text: str) -> Files:
    """A configuration of one profile."""
    return {P: text}


def but(old: str, new: str) -> Files:
    """The good profile with one text in place of another."""
    assert old in GOOD, old
    return of(GOOD.replace(old, new, 1))


def more(text: str) -> Files:
    return of(GOOD + text)


def speaking(
    text: str = "", profiles: str = '"acme.pictures@1"', tool: str = TOOL, slot: str = SLOT
) -> Files:
    """A connector without code, with its profile."""
    head = build.CONNECTOR.format(name="c", implements='"ocr/v1"')
    return {P: GOOD, C: f'{head}runtime = "dialect"\nprofiles = [{profiles}]\n{text}{slot}{tool}'}


def bad(code: str, config: Files, path: str, what: str, mend: str, **others: object) -> Bad:
    file = str(others.pop("file", P))
    return Bad(code, config, file, path, what, mend, catalog=CATALOG, **others)  # type: ignore[arg-type]


BOUND = binding("b", "c", '[secrets]\napi_key = { env = "ACME_KEY" }\n')


def bound(models: str, config: Files) -> Files:
    text = f'models = [{models}]\n[secrets]\napi_key = {{ env = "ACME_KEY" }}\n'
    return {**config, **binding("b", "c", text)}


B = "bindings/b.toml"
OTHER = {"profiles/acme.other/1/profile.toml": PROFILE.format(name="other")}
OPEN = GOOD.replace('models = ["acme-1"]\n', "").replace("https://api.acme.example/v1", "binding")
ADDRESS = '[settings.baseUrl]\ndescription = "Where it is"\nformat = "url"\nrequired = true\n'

HERE = """settings = { baseUrl = "http://127.0.0.1:8080/v1" }
[secrets]
api_key = { env = "ACME_KEY" }
"""

SPOKEN = {**CATALOG, **speaking(), **BOUND}  # with its dialect, as one layer

ROWS = [
    bad(
        "D201",
        {"dialects/acme.own@1/dialect.toml": REGISTER.replace("openai.images", "acme.own")},
        "",
        "a configuration has no dialects of its own",
        "state the server's facts in a profile of a dialect that is there",
        file="dialects/acme.own@1/dialect.toml",
    ),
    bad(
        "D202",
        but("openai.images@1", "openai.image@1"),
        "profile.dialect",
        "the dialect 'openai.image@1' is not in the register",
        "write 'openai.images@1'",
        reason="UnresolvedReference",
        fix=of(GOOD),
        alone=True,
    ),
    bad(
        "D203",
        but("openai-images@1", "openai-chat@1"),
        "profile.driver",
        "the driver 'openai-chat@1' does not speak openai.images@1",
        "write driver = 'openai-images@1'",
    ),
    bad(
        "D204",
        but('refuses = ["edit"]', 'refuses = ["edits", "edit"]'),
        "profile.refuses[0]",
        "openai.images@1 has no operation 'edits'",
        "write 'edit'",
        fix=of(GOOD),
    ),
    bad(
        "D205",
        but('refuses = ["edit"]', 'refuses = ["edit", "generate"]'),
        "profile.refuses[1]",
        "the operation 'generate' stands twice",
        "delete one of them",
        fix=of(GOOD),
    ),
    bad(
        "D206",
        but('refuses = ["edit"]\n', ""),
        "profile.refuses",
        "nothing is said of 'edit'",
        "add it to refuses, or a table [[operation]]: edit",
        fix=of(GOOD),
    ),
    bad(
        "D207",
        but('result = "openai.images.result@1"', 'result = "openai.video@1"'),
        "operation[0].result",
        "its result is not 'openai.video@1'",
        "write 'openai.images.result@1'",
        fix=of(GOOD),
    ),
    bad(
        "D208",
        more('[operation.cancel]\nmode = "request"\n'),
        "operation[0]",
        "'cancel.path' is missing",
        "state cancel.path",
        fix=more('[operation.cancel]\nmode = "request"\npath = "/images/{job}/cancel"\n'),
    ),
    bad(
        "D209",
        but('required = ["model", "prompt"]', 'required = ["model", "promt"]'),
        "operation[0].required",
        "'promt' is not stated",
        "write 'prompt'",
        fix=of(GOOD),
    ),
    bad(
        "D210",
        but("[operation.field.model]", 'rejected = ["prompt"]\n[operation.field.model]'),
        "operation[0].rejected",
        "the field 'prompt' is both stated and rejected",
        "delete one of them",
        fix=of(GOOD),
    ),
    bad(
        "D211",
        but('models = ["acme-1"]', 'models = ["acme-1", "acme-1"]'),
        "profile.models[1]",
        "the model 'acme-1' stands twice",
        "delete one",
        fix=of(GOOD),
    ),
    bad(  # litellm#15799: a key in an address reached logs and spend rows
        "D212",
        but('scheme = "bearer"\nheader = "authorization"', 'scheme = "query"\nparameter = "key"'),
        "auth.scheme",
        "the scheme 'query' is not served",
        'write scheme = "header", with the header by which the server takes a key',
        fix=but('scheme = "bearer"\nheader = "authorization"', 'scheme = "header"\nheader = "x-api-key"'),
    ),
    bad(
        "C250",
        speaking(profiles='"acme.pictures@1", "acme.pictures@1"'),
        "profiles[1]",
        "acme.pictures@1 stands twice",
        "delete one",
        file=C,
        fix=speaking(),
    ),
    bad(
        "C251",
        speaking(profiles='"acme.picture@1"'),
        "profiles[0]",
        "profile 'acme.picture@1' does not exist",
        "write 'acme.pictures@1'",
        file=C,
        reason="UnresolvedReference",
        fix=speaking(),
    ),
    bad(
        "C251",
        {**speaking(), **but('refuses = ["edit"]\n', "")},
        "profiles[0]",
        "waits for profile/acme.pictures@1",
        "mend profile/acme.pictures@1 first",
        file=C,
        reason="WaitsFor",
        alone=False,
    ),
    bad(
        "C252",
        {**speaking(profiles='"acme.pictures@1", "acme.other@1"'), **OTHER},
        "profiles[1]",
        "acme.other@1 and acme.pictures@1 both offer 'generate' for the model 'acme-1'",
        "list one of them",
        file=C,
        fix=speaking(),
    ),
    bad(
        "C253",
        speaking(tool=""),
        "tool",
        "the tool 'ocr_extract' names no operation",
        "add [tool.ocr_extract] with operation = 'generate'",
        file=C,
        fix=speaking(),
    ),
    bad(
        "C253",
        speaking(tool='[tool.ocr_extract]\noperation = "generat"\n'),
        "tool.ocr_extract.operation",
        "no profile offers the operation 'generat'",
        "write 'generate'",
        file=C,
        fix=speaking(),
    ),
    bad(
        "C254",
        speaking(tool=TOOL + 'needs = ["cancel mode"]\n'),
        "tool.ocr_extract.needs[0]",
        "'cancel mode' cannot be read as a fact",
        "write one like 'lookup.by=job-id'",
        file=C,
        fix=speaking(tool=TOOL + 'needs = ["field.prompt"]\n'),
    ),
    bad(
        "C255",
        speaking(slot=""),
        "profiles",
        "the slot 'api_key' is missing",
        "add [secretSlots.api_key] with header = 'authorization: Bearer {}'",
        file=C,
        fix=speaking(),
    ),
    bad(
        "C256",
        {**speaking(), P: OPEN},
        "profiles",
        "the setting 'baseUrl' is missing",
        'add [settings.baseUrl] with format = "url" and required = true',
        file=C,
        fix={**speaking(ADDRESS), P: OPEN},
    ),
    bad(
        "B220",
        bound('"acme-2"', speaking()),
        "models[0]",
        "no profile of connector/c states the model 'acme-2'",
        "write 'acme-1'",
        file=B,
        fix=bound('"acme-1"', speaking()),
    ),
    bad(
        "B221",
        {
            **speaking(ADDRESS),
            P: OPEN,
            **binding("b", "c", HERE),
        },
        "",
        "no model is named",
        'write models = ["…"], with the exact ids that may be asked for',
        file=B,
    ),
    bad(
        "B222",
        bound('"acme-1"', speaking(tool=TOOL + 'needs = ["lookup.by=job-id"]\n')),
        "models",
        "ocr_extract needs lookup.by=job-id: acme.pictures@1: the profile states []",
        "use a connector whose profile states lookup.by=job-id, or another model",
        file=B,
        reason="UnsupportedFact",
        fix=bound('"acme-1"', speaking(tool=TOOL + 'needs = ["field.prompt"]\n')),
    ),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_what_is_wrong_is_told_and_the_mend_mends_it(row: Bad) -> None:
    check(row)


def test_a_published_profile_that_states_other_facts_is_refused_and_its_last_form_stays() -> None:
    values = read(GOOD.encode())
    assert isinstance(values, dict)
    was = build.inventory(of(GOOD), CATALOG, lock=["acme.pictures@1"])
    first = admit(was, {}, None, build.WHERE)
    lock = {
        "acme.pictures@1": LockEntry("acme.pictures@1", f"sha256:{digest(values)}", "", "ada", "2026-11-30")
    }
    seen = build.inventory(but('provider = "acme"', 'provider = "acme again"'), CATALOG, lock=lock)
    second = admit(seen, first.in_force, None, build.WHERE)
    problem = build.only(second, "D301")
    assert problem.reason == "ProfileMutated"
    assert "profiles/acme.pictures/2" in problem.mend
    ref = ObjectRef(Kind.PROFILE, "acme.pictures@1")
    assert second.in_force[ref] is first.in_force[ref]
    commented = build.inventory(of(f"# nothing new\n{GOOD}"), CATALOG, lock=lock)
    assert not build.errors(admit(commented, {}, None, build.WHERE))


def test_an_edit_of_a_profile_is_judged_like_a_first_reading() -> None:
    config = bound('"acme-1"', speaking(tool=TOOL + 'needs = ["field.prompt"]\n'))
    before = build.inventory(config, CATALOG)
    first = admit(before, {}, None, build.WHERE)
    assert not build.errors(first)
    edited = {
        **config,
        P: GOOD.replace("[operation.field.prompt]", "[operation.field.words]").replace('"prompt"', '"words"'),
    }
    after = build.inventory(edited, CATALOG, previous=before)
    again = admit(after, {}, first, build.WHERE)
    fresh = admit(build.inventory(edited, CATALOG), {}, None, build.WHERE)
    assert [one.code for one in build.errors(again)] == ["B222"]
    assert again.problems == fresh.problems
