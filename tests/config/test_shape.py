"""Every key and value of a file is judged in plain words, at its place, with a mend that works."""

import re

import pytest
import tomli
import tomlkit
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.config import load, toml
from reconciler.model.inventory import Inventory, Layer, Tree
from reconciler.model.problems import Problem, Severity
from tests.kit.effort import times

HEADS = {
    "bindings/x.toml": 'apiVersion = "handler.binding/v1"\n',
    "agents/x.toml": 'apiVersion = "handler.agent/v1"\n',
    "projects/x.toml": 'apiVersion = "handler.project/v1"\n',
    "connectors/x/connector.toml": 'apiVersion = "handler.connector/v1"\nname = "x"\ndescription = "d"\n',
    "interfaces/x/v1/interface.toml": (
        'apiVersion = "handler.interface/v1"\nname = "x"\nversion = 1\ndescription = "d"\n'
    ),
    "handler.toml": "",
    "policies/egress.toml": 'apiVersion = "handler.egress-policy/v1"\n',
    "policies/approval.toml": 'apiVersion = "handler.approval-policy/v1"\n',
}
BINDING, AGENT, PROJECT, CONNECTOR, INTERFACE, CONFIG, POLICY, APPROVAL = HEADS


def loaded(file: str, written: str) -> Inventory:
    return load.inventory({Layer.CONFIG: Tree("test", {file: written.encode()})})


def judged(file: str, body: str) -> tuple[Problem, ...]:
    return loaded(file, HEADS[file] + body).problems


# file, text after its head, then what is said: code, place, what, mend
TOLD = [
    (BINDING, 'conector = "ocr"', "B101 2:1", "'conector' is not a key of a binding", "write 'connector'"),
    (
        BINDING,
        '"\u0441onnector" = "a"',
        "B101 2:1",
        "is not a key of a binding: it has '\u0441' (U+0441)",
        "write 'connector'",
    ),
    (
        BINDING,
        'connector = "a"\nidleStopSeconds = 3',
        "B101 3:1",
        "'idleStopSeconds' is not a key of a binding",
        "move it to [instance]",
    ),
    (
        BINDING,
        'connector = "a"\n[instance]\nsuspend = true',
        "B101 4:1",
        "'suspend' is not a key of instance",
        "move it above the first table",
    ),
    (
        BINDING,
        'connector = "a"\n[instance]\nidle_stop_seconds = 3',
        "B101 4:1",
        "'idle_stop_seconds' is not a key of instance",
        "write 'idleStopSeconds'",
    ),
    (
        BINDING,
        'connector = "a"\n[secrets]\nk = { vault = "x" }',
        "B101 4:7",
        "'vault' is not a key of secrets.k",
        "remove it; its keys are age, command",
    ),
    (BINDING, "", "B106 1:1", "it names neither a connector nor an addon", 'add connector = "ocr-tesseract"'),
    (
        BINDING,
        'connector = "a"\naddon = "b"',
        "B106 3:9",
        "it names both a connector and an addon",
        "remove one",
    ),
    (
        BINDING,
        'name = "y"\nconnector = "a"',
        "B104 2:8",
        "name is 'y', and the path says 'x'",
        'write name = "x"',
    ),
    (
        BINDING,
        "connector = 5",
        "B103 2:13",
        "connector is a number, not text",
        'write connector = "ocr-tesseract"',
    ),
    (
        BINDING,
        'connector = "OCR Main"',
        "B103 2:13",
        "connector 'OCR Main' does not fit as a name: names are lower-case",
        'write connector = "ocr-main"',
    ),
    (
        BINDING,
        'connector = "\u043ecr"',
        "B103 2:13",
        "connector '\u043ecr' does not fit as a name: '\u043e' (U+043E) is not ASCII",
        'write connector = "ocr"',
    ),
    (
        BINDING,
        'connector = "a"\nsuspend = "yes"',
        "B103 3:11",
        "suspend is text, not true or false",
        "write suspend = true",
    ),
    (
        BINDING,
        'connector = "a"\nmodels = "m"',
        "B103 3:10",
        "models is text, not a list",
        'write models = ["m"]',
    ),
    (
        BINDING,
        'connector = "a"\n[instance]\nidleStopSeconds = "120"',
        "B103 4:19",
        "instance.idleStopSeconds is text, not a number",
        "write idleStopSeconds = 120",
    ),
    (
        BINDING,
        'connector = "a"\n[instance]\npids = 0',
        "B103 4:8",
        "instance.pids is 0, not a number from 1 to 65,536",
        "write a number from 1 to 65,536",
    ),
    (
        BINDING,
        'connector = "a"\n[probe]\nlink = "onn"',
        "B103 4:8",
        "probe.link is 'onn', not 'off' or 'on'",
        'write link = "on"',
    ),
    (
        BINDING,
        'connector = "a"\n[settings]\na = [1]',
        "B103 4:5",
        "settings.a is a list, not text, a whole number, a number or true or false",
        "write text",
    ),
    (BINDING, 'connector = "a"\n[settings]\na = nan', "B103 4:5", "settings.a is no finite number", "finite"),
    (
        BINDING,
        'connector = "a"\n[settings]\nBad = 1',
        "B103 4:1",
        "'Bad' does not fit as a key of settings",
        "'bad'",
    ),
    (
        BINDING,
        'connector = "a"\n[secrets]\napi_key = "sk-CANARY"',
        "B103 4:11",
        "secrets.api_key holds a value where a reference belongs",
        'write api_key = { env = "API_KEY" }',
    ),
    (
        BINDING,
        'connector = "a"\n[secrets]\n"api_key.env" = { env = "X" }',
        "B103 4:1",
        "'api_key.env' does not fit as a key of secrets",
        "write 'api-key-env'",
    ),
    (
        BINDING,
        'connector = "a"\n[secrets]\nk = { env = "sk CANARY" }',
        "B103 4:13",
        "secrets.k.env is not written as it has to be",
        'write it like "API_KEY"',
    ),
    (
        BINDING,
        'connector = "a"\n[secrets]\nk = {}',
        "B107 4:5",
        "secrets.k says nothing",
        'write k = { env = "API_KEY" }',
    ),
    (
        BINDING,
        'connector = "a"\n[secrets]\nk = { env = "A", file = "/x" }',
        "B107 4:5",
        "secrets.k has 2 forms: env, file",
        "keep one of them",
    ),
    (
        BINDING,
        f'connector = "a"\ndescription = "{"x" * 5000}"',
        "B103 3:15",
        "has 5,000 characters",
        "at most 4,096",
    ),
    (
        AGENT,
        "services = { ocr = 5 }",
        "A103 2:20",
        "services.ocr is a number, not text, a table or a list",
        'write ocr = "ocr-tesseract"',
    ),
    (
        AGENT,
        'services = { ocr = "Bad" }',
        "A103 2:20",
        "services.ocr 'Bad' does not fit as a name",
        'write ocr = "bad"',
    ),
    (AGENT, 'services = { llm = ["a", "B"] }', "A103 2:26", "services.llm[1] 'B' does not fit", 'write "b"'),
    (
        AGENT,
        'services = { ocr = { bindng = "a" } }',
        "A101 2:22",
        "'bindng' is not a key of services.ocr",
        "write 'binding'",
    ),
    (
        AGENT,
        "services = { ocr = { tools = [] } }",
        "A102 2:20",
        "'binding' is missing in services.ocr",
        'add binding = "ocr-tesseract" to services.ocr',
    ),
    (
        CONFIG,
        '[http]\nlisten = "0.0.0.0:9464"',
        "S103 2:10",
        "http.listen '0.0.0.0:9464' is not written as it has to be",
        'write it like "127.0.0.1:9464"',
    ),
    (AGENT, "services = { llm = [] }", "A103 2:20", "services.llm is empty", 'write llm = "ocr-tesseract"'),
    (
        AGENT,
        'requires = ["ocr"]',
        "A103 2:13",
        "requires[0] 'ocr' is not written as it has to be",
        'write it like "ocr/v1"',
    ),
    (
        AGENT,
        'scope = ["docs"]',
        "A103 2:10",
        "scope[0] 'docs' is not written as it has to be",
        'write it like "~/documents"',
    ),
    (
        AGENT,
        'scope = [{ path = "/a", access = "raed" }]',
        "A103 2:34",
        "scope[0].access is 'raed'",
        'write access = "read"',
    ),
    (AGENT, "scope = [3]", "A103 2:10", "scope[0] is a number, not text or a table", 'write "~/documents"'),
    (AGENT, 'name = "y"', "A104 2:8", "name is 'y', and the path says 'x'", 'write name = "x"'),
    (
        PROJECT,
        'requires = "ocr/v1"',
        "P103 2:12",
        "requires is text, not a list",
        'write requires = ["ocr/v1"]',
    ),
    (APPROVAL, "rule = []", "S521 2:1", "'rule' is not a key of an approval", "write 'rules'"),
    (
        APPROVAL,
        'defaultAction = "ask"',
        "S523 2:17",
        "defaultAction is 'ask', not 'allow', 'approve' or 'deny'",
        "write 'allow', 'approve' or 'deny'",
    ),
    (POLICY, "rules = []", "S501 2:1", "'rules' is not a key of a policy", "write 'rule'"),
    (
        POLICY,
        'remote = "denied"',
        "S503 2:10",
        "remote is 'denied', not 'allow', 'ask' or 'deny'",
        'write remote = "deny"',
    ),
    (PROJECT, "service = {}", "P101 2:1", "'service' is not a key of a project", "write 'services'"),
    (PROJECT, 'name = "y"', "P104 2:8", "name is 'y', and the path says 'x'", 'write name = "x"'),
    (CONNECTOR, "", "C102 1:1", "'implements' is missing", 'add implements = ["ocr/v1"]'),
    (
        CONNECTOR,
        'implements = "ocr/v1"',
        "C103 4:14",
        "implements is text, not a list",
        'write implements = ["ocr/v1"]',
    ),
    (
        CONNECTOR,
        'implements = ["ocr/v1"]\negress = ["*.example.com:443"]',
        "C103 5:11",
        "egress[0] '*.example.com:443' is not written as it has to be",
        'write it like "api.example.com:443"',
    ),
    (
        CONNECTOR,
        'implements = ["ocr/v1"]\n[settings.g]\nenv = "G"',
        "C102 5:1",
        "'description' is missing in settings.g",
        'add description = "What it is for, in one sentence" to settings.g',
    ),
    (
        CONNECTOR,
        'implements = ["ocr/v1"]\nruntime = "pyton"',
        "C103 5:11",
        "runtime is 'pyton', not 'python', 'deno'",
        'write runtime = "python"',
    ),
    (
        CONNECTOR,
        'implements = ["ocr/v1"]\n[sandbox]\ncpu = -1.5',
        "C103 6:7",
        "sandbox.cpu is -1.5, not a number greater than 0 and at most 1,024",
        "write a number greater than 0 and at most 1,024",
    ),
    (
        CONNECTOR,
        'implements = ["ocr/v1"]\ngpu = 1',
        "C101 5:1",
        "'gpu' is not a key of a connector",
        "[reserve]",
    ),
    (INTERFACE, "purposes = 1", "I101 5:1", "'purposes' is not a key of an interface", "write 'purpose'"),
    (
        INTERFACE,
        "[limits]\ntimeoutSeconds = 0",
        "I103 6:18",
        "limits.timeoutSeconds is 0, not a number greater than 0 and at most 86,400",
        "write a number greater than 0",
    ),
    (CONFIG, '[reconcile]\nmode = "manul"', "S103 2:8", "reconcile.mode is 'manul'", 'write mode = "manual"'),
    (
        CONFIG,
        '[telemetry]\notlpEndpoint = "https://CANARY@otel.example"',
        "S103 2:16",
        "telemetry.otlpEndpoint is not written as it has to be",
        'write it like "http://127.0.0.1:4318"',
    ),
    (
        CONFIG,
        "[state]",
        "S101 1:1",
        "'state' is not a key of handler.toml",
        "remove it; its keys are apiVersion",
    ),
]


@pytest.mark.parametrize(
    ("file", "body", "at", "what", "mend"), TOLD, ids=[f"{row[2]} {row[3][:40]}" for row in TOLD]
)
def test_one_mistake_is_one_problem_with_its_place_and_mend(
    file: str, body: str, at: str, what: str, mend: str
) -> None:
    problems = judged(file, body)
    assert len(problems) == 1, problems
    problem = problems[0]
    # A column of "[state]" is that of its bracket or its word: the first is near enough to a person.
    assert f"{problem.code} {problem.at.line}:{problem.at.column}" in (at, at.replace("1:1", "1:2"))
    assert what in problem.what
    assert mend in problem.mend
    assert problem.why
    assert problem.at.file == file
    assert "CANARY" not in repr(problem)


@pytest.mark.parametrize(
    ("file", "written", "code", "what", "mend"),
    [
        (BINDING, "", "B102", "the file is empty", 'add apiVersion = "handler.binding/v1"'),
        (BINDING, "# nothing\n", "B102", "the file is empty", 'add apiVersion = "handler.binding/v1"'),
        (
            BINDING,
            'connector = "a"',
            "B102",
            "'apiVersion' is missing",
            'add apiVersion = "handler.binding/v1"',
        ),
        (APPROVAL, "", "S522", "the file is empty", 'add apiVersion = "handler.approval-policy/v1"'),
        (POLICY, "", "S502", "the file is empty", 'add apiVersion = "handler.egress-policy/v1"'),
        (PROJECT, "", "P102", "the file is empty", 'add apiVersion = "handler.project/v1"'),
        (INTERFACE, "", "I102", "the file is empty", 'add apiVersion = "handler.interface/v1"'),
        (
            BINDING,
            'apiVersion = "handler.binding/v2"\nnew = 1',
            "B103",
            "this release does not read the format 'handler.binding/v2' here",
            'write apiVersion = "handler.binding/v1"',
        ),
        (
            BINDING,
            "apiVersion = 1",
            "B103",
            "a format that is no text",
            'write apiVersion = "handler.binding/v1"',
        ),
        (
            CONFIG,
            'apiVersion = "handler/v9"',
            "S103",
            "the format 'handler/v9'",
            'apiVersion = "handler.config/v1"',
        ),
    ],
)
def test_the_format_of_a_file_is_asked_before_its_keys(
    file: str, written: str, code: str, what: str, mend: str
) -> None:
    problems = loaded(file, written).problems
    assert len(problems) == 1, problems
    assert (problems[0].code, problems[0].at.line) == (code, 1)
    assert what in problems[0].what
    assert mend in problems[0].mend


def test_an_interface_is_named_and_numbered_by_its_folder() -> None:
    problems = loaded(
        INTERFACE, 'apiVersion = "handler.interface/v1"\nname = "tts"\nversion = 2\ndescription = "d"\n'
    ).problems
    assert [(problem.code, problem.at.line) for problem in problems] == [("I104", 2), ("I104", 3)]
    assert "write version = 1" in problems[1].mend
    wrong = loaded(
        "connectors/x/connector.toml", HEADS[CONNECTOR].replace('"x"', '"y"') + 'implements = ["a/v1"]'
    )
    assert [problem.code for problem in wrong.problems] == ["C104"]


def test_an_empty_handler_toml_is_right() -> None:
    inventory = loaded(CONFIG, "")
    assert not inventory.problems
    assert inventory.config().reconcile.mode == "auto"


def test_all_problems_come_at_once_in_the_order_of_the_file() -> None:
    problems = judged(BINDING, 'models = 1\nconector = "a"\nsuspend = 2\n[instance]\npids = 0\n')
    assert [problem.at.line for problem in problems] == [2, 3, 4, 6]


def test_a_file_with_very_many_problems_tells_the_first_fifty() -> None:
    problems = judged(PROJECT, "\n".join(f"k{number} = 1" for number in range(2000)))
    assert len(problems) == 51
    assert next(problem for problem in problems if problem.code == "S199").what.startswith("1,950 more")


def test_no_value_of_a_secret_or_a_setting_is_repeated() -> None:
    canary = "sk-CANARY-7f3a"
    bodies = [
        f'connector = "a"\n[secrets]\nk = "{canary}"',
        f'connector = "a"\n[secrets]\nk = ["{canary}"]',
        f'connector = "a"\n[secrets]\nk = {{ value = "{canary}" }}',
        f'connector = "a"\n[secrets]\nk = {{ env = "{canary}" }}',
        f'connector = "a"\n[secrets]\nk = {{ command = "{canary}" }}',
        f'connector = "a"\n[secrets]\nk = {{ command = [1, "{canary}"], file = "{canary}" }}',
        f'connector = "a"\n[settings]\nk = ["{canary}"]',
        f'connector = "a"\nsecrets = "{canary}"',
        f'connector = "a"\nsecrets = ["{canary}"]',
    ]
    for body in bodies:
        problems = judged(BINDING, body)
        assert problems
        assert "CANARY" not in repr(problems)


_SNIPPET = re.compile(r"(?:write|add) (\w+) = (.+?)(?: to [\w.\[\]]+|, (?:and|or) .*)?")


@pytest.mark.parametrize(
    ("file", "body"), [row[:2] for row in TOLD], ids=[f"{row[2]} {row[3][:40]}" for row in TOLD]
)
def test_what_a_mend_says_to_type_mends_it(file: str, body: str) -> None:
    before = HEADS[file] + body
    (problem,) = judged(file, body)
    snippet = _SNIPPET.fullmatch(problem.mend)
    if snippet is None:
        assert not re.match(r"(write|add) \w+ = ", problem.mend)  # words, not a snippet
        return
    key, value = snippet[1], tomli.loads(f"v = {snippet[2]}")["v"]
    path = (*problem.path[:-1], key) if problem.path and problem.path != (key,) else (key,)
    after = toml.edit(before, path, value)
    left = [(one.code, one.path) for one in loaded(file, after).problems]
    assert (problem.code, problem.path) not in left


@pytest.mark.parametrize("file", [BINDING, AGENT, PROJECT, CONNECTOR])
def test_what_a_mend_says_to_write_instead_of_a_key_is_a_key(file: str) -> None:
    renamed = {BINDING: "conector", AGENT: "service", PROJECT: "require", CONNECTOR: "implement"}[file]
    (problem,) = [one for one in judged(file, f"{renamed} = 1") if one.code.endswith("101")]
    assert problem.mend == f"write '{problem.candidates[0]}'"
    again = judged(file, f"{problem.candidates[0]} = 1")
    assert not [one for one in again if one.code.endswith("101")]


KEYS = st.sampled_from(
    [
        "apiVersion",
        "name",
        "connector",
        "secrets",
        "settings",
        "instance",
        "services",
        "scope",
        "errors",
        "limits",
        "requires",
        "tool",
        "egress",
        "implements",
        "description",
        "x",
        "é",
        "[key]",
        "str",
        "Selection",
    ]
)
VALUES = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=6),
        st.dates(),
        st.sampled_from(["a", "ocr/v1"]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=10,
)


@settings(max_examples=times(25))
@given(st.sampled_from(sorted(HEADS)), st.dictionaries(KEYS, VALUES, max_size=6))
def test_any_values_are_a_record_or_placed_problems(file: str, values: dict[str, object]) -> None:
    try:
        body = tomlkit.dumps(values)
        tomli.loads(HEADS[file] + body)
    except (ValueError, TypeError, AttributeError):
        body = ""
    inventory = loaded(file, HEADS[file] + body)
    errors = [problem for problem in inventory.problems if problem.severity is Severity.ERROR]
    assert bool(inventory.resources) != bool(errors)
    assert all(problem.at.line >= 1 and problem.what and problem.mend for problem in errors)
