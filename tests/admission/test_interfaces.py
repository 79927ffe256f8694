"""Every problem of an interface version: the exact words, and that each mend mends."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.admission import guidance
from reconciler.model.contract import COMPANIONS
from reconciler.model.jobs import SCHEMAS, companions
from tests.admission import build
from tests.admission.build import Files
from tests.admission.table import Bad, check
from tests.admission.test_connectors import MADE_UP, TAKE_IT_BACK
from tests.kit.effort import times

FOLDER = "interfaces/ocr/v1"
TOOLS = f"{FOLDER}/tools.json"
TOML = f"{FOLDER}/interface.toml"
SKILL = f"{FOLDER}/skills/ocr/SKILL.md"
CASES = f"{FOLDER}/conformance/cases.toml"
Tool = dict[str, Any]


def bent(bend: Callable[[Tool], object]) -> Files:
    """A good version whose one tool was changed."""
    one: Tool = build.tool()
    bend(one)
    return build.interface(tools=[one])


def typed(file: str, old: str, new: str, *more: str) -> Files:
    """A good version in which a text was changed once."""
    files = build.interface()
    text = files[file]
    assert isinstance(text, str)
    assert old in text
    return {**files, file: text.replace(old, new, 1) + "".join(more)}


def without(file: str) -> Files:
    return {path: text for path, text in build.interface().items() if path != file}


def jobs(
    *, job: str = "ocr_scan_submit", without: str = "", status: Tool | None = None, errors: str = "x"
) -> Files:
    """A good version with a job and what asks about it, but for what is said."""
    extract = build.tool()
    tools: list[Tool] = [extract]
    for kind in ("job", *COMPANIONS):
        name = job if kind == "job" else companions("ocr_scan_submit")[kind]
        wanted = SCHEMAS[kind]
        if kind != without:
            sides = zip(("inputSchema", "outputSchema"), wanted, strict=True)
            tools.append({**extract, "name": name} | {side: it for side, it in sides if it is not None})
    if status is not None:
        properties = {"job": status}
        tools[2]["inputSchema"] = {**tools[2]["inputSchema"], "properties": properties}
    files = build.interface(tools=tools)
    cases = build.CASES.replace("rejects a zip", "{tool}")
    listed = "".join(f'{one} = "it is so"\n' for one in ("not_ready", "cancelled") if errors)
    more = f'outcome_unknown = "it is so"\n{listed}[operations.{job}]\nkind = "job"\n'
    return {
        **files,
        TOML: str(files[TOML]) + more,
        CASES: "".join(cases.format(tool=one["name"]) for one in tools),
        SKILL: build.SKILL.format(name="ocr") + "So with outcome_unknown, not_ready and cancelled.\n",
    }


def path_of(one: Tool) -> Tool:
    prop: Tool = one["inputSchema"]["properties"]["path"]
    return prop


def put(key: str, value: object, side: str = "outputSchema") -> Callable[[Tool], object]:
    return lambda one: one[side].update({key: value})


def prop(name: str, schema: object, side: str = "outputSchema") -> Callable[[Tool], object]:
    return lambda one: one[side]["properties"].update({name: schema})


def lock(code: str, config: Files, file: str, path: str, what: str, mend: str, **more: Any) -> Bad:
    return Bad(code, config, file, path, what, mend, catalog={}, **more)


TEXT = {"type": "string", "maxLength": 9}
CLOSED = {"type": "object", "additionalProperties": False, "properties": {}}

SHAPE = [
    lock("I201", without(TOOLS), TOOLS, "", "tools.json is missing", f"write {TOOLS}", fix=build.interface()),
    lock(
        "I202",
        build.interface() | {TOOLS: "[{"},
        TOOLS,
        "",
        "tools.json is not JSON: expecting property name enclosed in double quotes at line 1, column 3",
        "save it as plain, small JSON",
    ),
    lock(
        "I204",
        build.interface(tools={"tools": []}),
        TOOLS,
        "",
        "tools.json is not an array with at least one tool",
        "write [{…}]",
    ),
    lock(
        "I204",
        bent(lambda one: one.update({"outputschema": one.pop("outputSchema")})) | {},
        TOOLS,
        "[0].outputschema",
        "'outputschema' is not a key of a tool",
        "write 'outputSchema'",
        fix=(TOOLS, "outputschema", "outputSchema"),
    ),
    lock(
        "I204",
        bent(lambda one: one.pop("description")),
        TOOLS,
        "[0]",
        "the tool has no 'description'",
        'write "description"',
    ),
    lock(
        "I204",
        bent(lambda one: one.update({"annotations": {"readOnly": True}})),
        TOOLS,
        "[0].annotations.readOnly",
        "'readOnly' is not a key of a tool",
        "write 'readOnlyHint'",
        fix=(TOOLS, "readOnly", "readOnlyHint"),
    ),
    lock(
        "I205",
        bent(lambda one: one.update({"name": "extract"})),
        TOOLS,
        "[0].name",
        "the tool name 'extract' is not 'ocr_' and then lower-case words",
        "write 'ocr_extract'",
        fix=(TOOLS, "extract", "ocr_extract"),
        alone=False,
    ),
    lock(
        "I205",
        bent(lambda one: one.update({"name": "ocr_" + "x" * 29})),
        TOOLS,
        "[0].name",
        f"the tool name 'ocr_{'x' * 29}' has 33 characters, more than 32",
        "write a name of at most 32 characters that starts with 'ocr_'",
        alone=False,
    ),
    lock(
        "I207",
        build.interface(tools=[build.tool(), build.tool()]),
        TOOLS,
        "[1].name",
        "the tool 'ocr_extract' stands twice",
        "rename or delete one",
    ),
    lock(
        "I208",
        bent(lambda one: one.update({"description": "é" * 2049})),
        TOOLS,
        "[0].description",
        "the description has 4098 bytes",
        "shorten it, and move what is long to the skill",
    ),
    lock(
        "I208",
        bent(prop("a", {**TEXT, "description": "x" * 4097})),
        TOOLS,
        "[0].outputSchema.properties.a.description",
        "the description has 4097 bytes",
        "shorten it, and move what is long to the skill",
    ),
    lock(
        "I209",
        bent(lambda one: one.update({"description": "Read\u200b it."})),
        TOOLS,
        "[0].description",
        "the text holds U+200B ZERO WIDTH SPACE, which a reader does not see",
        "delete U+200B",
    ),
    lock(
        "I209",
        typed(TOML, "the file is", "the \\u202Efile is"),
        TOML,
        "errors.unsupported_format",
        "the text holds U+202E RIGHT-TO-LEFT OVERRIDE, which a reader does not see",
        "delete U+202E",
    ),
    lock(
        "I209",
        typed(SKILL, "say so", "say\U000e0041 so"),
        SKILL,
        "",
        "the text holds U+E0041 TAG LATIN CAPITAL LETTER A, which a reader does not see",
        "delete U+E0041",
    ),
]

SUBSET = [
    lock(
        "I211",
        bent(lambda one: one.update({"outputSchema": {"type": "array", "maxItems": 1, "items": TEXT}})),
        TOOLS,
        "[0].outputSchema.type",
        "the schema's root is not of type object",
        'write "type": "object" at the root, and put the value into a property',
    ),
    lock(
        "I212",
        bent(lambda one: one["outputSchema"].pop("additionalProperties")),
        TOOLS,
        "[0].outputSchema",
        "the object is open: it takes properties that the contract does not name",
        'write "additionalProperties": false',
        fix=(TOOLS, '"outputSchema": {', '"outputSchema": {"additionalProperties": false,'),
    ),
    lock(
        "I213",
        bent(
            lambda one: one["outputSchema"].update(
                {"additionalproperties": one["outputSchema"].pop("additionalProperties")}
            )
        ),
        TOOLS,
        "[0].outputSchema.additionalproperties",
        "'additionalproperties' is not a keyword of JSON Schema",
        "write 'additionalProperties'",
        fix=(TOOLS, "additionalproperties", "additionalProperties"),
    ),
    lock(
        "I214",
        bent(put("$schema", "https://json-schema.org/draft/2020-12/schema")),
        TOOLS,
        "[0].outputSchema.$schema",
        "'$schema' is outside the portable subset",
        "leave '$schema' out",
    ),
    lock(
        "I215",
        bent(prop("a", {"$ref": "https://example.com/a.json"})),
        TOOLS,
        "[0].outputSchema.properties.a.$ref",
        "the reference 'https://example.com/a.json' leaves the schema or points at its root",
        "put the schema into \"$defs\" and refer to '#/$defs/NAME'",
    ),
    lock(
        "I215",
        bent(lambda one: (put("$defs", {"block": TEXT})(one), prop("a", {"$ref": "#/$defs/blok"})(one))),
        TOOLS,
        "[0].outputSchema.properties.a.$ref",
        "the reference '#/$defs/blok' points at no schema",
        "write '#/$defs/block'",
        fix=(TOOLS, "#/$defs/blok", "#/$defs/block"),
    ),
    lock(
        "I216",
        bent(prop("a", {"type": "string", "maxLength": 9, "pattern": "^(?P<x>a)$"})),
        TOOLS,
        "[0].outputSchema.properties.a.pattern",
        "cannot read the pattern '^(?P<x>a)$': invalid group modifier",
        "rewrite it with classes, groups, alternatives and repetitions alone",
    ),
    lock(
        "I216",
        bent(prop("a", {"type": "string", "maxLength": 9, "pattern": "^(?=a)a"})),
        TOOLS,
        "[0].outputSchema.properties.a.pattern",
        "cannot read the pattern '^(?=a)a': it needs look-around or back-references, or escapes that a linear"
        " engine lacks",
        "rewrite it with classes, groups, alternatives and repetitions alone",
    ),
    lock(
        "I228",
        bent(prop("a", {"enum": list(range(501))})),
        TOOLS,
        "[0].outputSchema.properties.a.enum",
        "the enumeration has 501 values, more than 500",
        "write a string with a pattern, and a tool that lists the values",
    ),
    lock(
        "I229",
        bent(prop("a", {**TEXT, "pattern": r"^\d$"})),
        TOOLS,
        "[0].outputSchema.properties.a.pattern",
        r"'\d' means other characters in Python clients than here",
        "write [0-9]",
        fix=(TOOLS, r"\\d", "[0-9]"),
        warning=True,
    ),
    lock(
        "I230",
        bent(
            lambda one: (
                put("$defs", {"a": TEXT})(one),
                prop("a", {"$ref": "#/$defs/a", "minLength": 1, "description": "words may"})(one),
            )
        ),
        TOOLS,
        "[0].outputSchema.properties.a.minLength",
        "'minLength' stands beside a reference",
        "put it into the schema that is referred to, or join both in an allOf",
    ),
    lock(
        "I217",
        bent(prop("a", {**TEXT, "format": "handler-file"})),
        TOOLS,
        "[0].outputSchema.properties.a.format",
        "'handler-file' stands where the router does not look for files",
        "move it to a top-level property of inputSchema, of type string",
    ),
    lock(
        "I218",
        bent(lambda one: path_of(one).update({"format": "handler-fil"})),
        TOOLS,
        "[0].inputSchema.properties.path.format",
        "the format 'handler-fil' is not known",
        "write 'handler-file'",
        fix=(TOOLS, "handler-fil", "handler-file"),
    ),
    lock(
        "I219",
        bent(lambda one: path_of(one).update({"description": "the scan"})),
        TOOLS,
        "[0].inputSchema.properties.path",
        "the description of 'path' does not say that it is a path in the work folder",
        'write "description": "a file in the work folder"',
        fix=(TOOLS, '"description": "the scan"', '"description": "a file in the work folder"'),
    ),
    lock(
        "I220",
        bent(lambda one: one["outputSchema"]["properties"]["text"].pop("maxLength")),
        TOOLS,
        "[0].outputSchema",
        "no bound is set for text",
        "write maxLength for strings and maxItems for arrays",
        warning=True,
    ),
    lock(
        "I221",
        bent(put("required", ["txt"])),
        TOOLS,
        "[0].outputSchema.required[0]",
        "'txt' is required and is not a property",
        "write 'text'",
        fix=(TOOLS, "txt", "text"),
    ),
    lock(
        "I222",
        bent(prop("a", True)),
        TOOLS,
        "[0].outputSchema.properties.a",
        "'a' is not an object of keywords",
        'write an object of keywords with a "type"',
    ),
    lock(
        "I223",
        bent(prop("a", {"description": "anything"})),
        TOOLS,
        "[0].outputSchema.properties.a",
        "the value may be anything",
        'write a "type"',
    ),
    lock(
        "I224",
        bent(prop("a", {"type": "array", "maxItems": 3})),
        TOOLS,
        "[0].outputSchema.properties.a",
        "the array may hold anything",
        'write "items" with the schema of one element',
    ),
    lock(
        "I225",
        bent(prop("a", {"type": "strng"})),
        TOOLS,
        "[0].outputSchema.properties.a.type",
        "the schema breaks the meta-schema's rule 'anyOf'",
        "correct the keyword's value",
    ),
    lock(
        "I226",
        bent(prop("a", {"type": "strng"})),
        TOOLS,
        "[0].outputSchema.properties.a.type",
        "a schema of ocr_extract cannot be compiled",
        "correct the keyword's value",
        lock=("ocr/v1",),
    ),
    lock(
        "I227",
        bent(
            lambda one: (
                put("$defs", {"a": {"$ref": "#/$defs/a"}})(one),
                prop("a", {"$ref": "#/$defs/a"})(one),
            )
        ),
        TOOLS,
        "[0].outputSchema.properties.a.$ref.$ref",
        "the reference leads back to itself",
        "state a bounded shape without recursion",
    ),
]

FILES = [
    lock(
        "I231",
        without(SKILL),
        TOML,
        "",
        "skills/ocr/SKILL.md is missing",
        "write skills/ocr/SKILL.md with front matter name and description",
        fix=build.interface(),
    ),
    lock(
        "I232",
        typed(SKILL, "name: ocr", "title: ocr"),
        SKILL,
        "",
        "the skill's front matter does not give name 'ocr' and a description",
        "start the file with the lines ---, name: ocr, description: WHEN TO USE IT, ---",
        fix=(SKILL, "title: ocr", "name: ocr"),
    ),
    lock(
        "I233",
        typed(SKILL, "On unsupported_format say so and stop.", "Read on."),
        SKILL,
        "",
        "the skill says nothing of 'unsupported_format'",
        "say in skills/ocr/SKILL.md what to do on unsupported_format",
        warning=True,
    ),
    lock(
        "I235",
        typed(SKILL, "On unsupported_format say so and stop.", "On unsupported_format stop.\n\n- When …\n"),
        SKILL,
        "",
        "here stand the words of an empty draft: '- When …'",
        "write what a model should know",
        warning=True,
    ),
    lock(
        "I234",
        build.interface() | {SKILL: b"\xff\xfe"},
        SKILL,
        "",
        "the skill is not UTF-8 text (byte 0)",
        "save the skill as shorter UTF-8 text",
    ),
    lock(
        "I241",
        without(CASES),
        CASES,
        "",
        "conformance/cases.toml is missing",
        "write conformance/cases.toml with one [[case]] for each tool",
        fix=build.interface(),
    ),
    lock(
        "I243",
        typed(CASES, 'tool = "ocr_extract"', 'tol = "ocr_extract"'),
        CASES,
        "case[0].tol",
        "'tol' is not a key of a case",
        "write 'tool'",
        fix=(CASES, "tol", "tool"),
    ),
    lock(
        "I243",
        typed(CASES, "expect.error", "expect.eror"),
        CASES,
        "case[0].expect.eror",
        "'eror' asserts nothing",
        "write 'error'",
        fix=(CASES, "eror", "error"),
    ),
    lock(
        "I244",
        build.interface()
        | {CASES: build.CASES.format(tool="ocr_extract") + build.CASES.format(tool="ocr_extrac")},
        CASES,
        "case[1].tool",
        "'ocr_extrac' is not a tool of this version",
        "write 'ocr_extract'",
    ),
    lock(
        "I245",
        build.interface(tools=[build.tool(), build.tool("ocr_boxes")]),
        CASES,
        "",
        "no case calls 'ocr_boxes'",
        'add a [[case]] with tool = "ocr_boxes"',
    ),
    lock(
        "I246",
        typed(CASES, "unsupported_format", "unsupported"),
        CASES,
        "case[0].expect.error",
        "the error 'unsupported' is not listed in interface.toml",
        "write 'unsupported_format'",
        fix=(CASES, "unsupported", "unsupported_format"),
    ),
    lock(
        "I247",
        without(f"{FOLDER}/conformance/archive.zip"),
        CASES,
        "case[0].input.path",
        "the file 'archive.zip' of the case is not in conformance/",
        "add conformance/archive.zip",
        fix=build.interface(),
    ),
    lock(
        "I252",
        typed(TOML, "[errors]", '[operations.ocr_extract]\neffect = "external"\n\n[errors]'),
        TOML,
        "operations.ocr_extract.effect",
        "'ocr_extract' has an effect, and outcome_unknown is not listed in [errors]",
        'write outcome_unknown = "it is not known whether it happened; do not repeat it" under [errors]',
        fix=typed(
            TOML,
            "[errors]",
            '[operations.ocr_extract]\neffect = "external"\n\n[errors]\n'
            'outcome_unknown = "it is not known whether it happened; do not repeat it"',
        ),
    ),
    lock(
        "I253",
        typed(TOML, "[errors]", '[operations.ocr_extrac]\nkind = "call"\n\n[errors]'),
        TOML,
        "operations.ocr_extrac",
        "'ocr_extrac' is not a tool of tools.json",
        "write 'ocr_extract'",
        fix=(TOML, "ocr_extrac", "ocr_extract"),
    ),
    lock(
        "I256",
        jobs(job="ocr_scan"),
        TOML,
        "operations.ocr_scan",
        "'ocr_scan' is a job, and its name does not end with _submit",
        "rename it 'ocr_scan_submit'",
    ),
    lock(
        "I257",
        jobs(without="cancel"),
        TOOLS,
        "",
        "the job 'ocr_scan_submit' has no 'ocr_scan_cancel' beside it",
        "add the tool 'ocr_scan_cancel'",
        fix=jobs(),
    ),
    lock(
        "I258",
        jobs(status={"type": "string"}),
        TOOLS,
        "[2].inputSchema",
        "the inputSchema of 'ocr_scan_status' is not that of every job",
        'write {"type": "object", "additionalProperties": false, "required": ["job"], "properties": '
        '{"job": {"type": "string", "pattern": "^[0-9a-f]{32}$", "maxLength": 32}}}, '
        "with descriptions as you like",
        fix=jobs(),
    ),
    lock(
        "I259",
        jobs(errors=""),
        TOML,
        "operations.ocr_scan_submit",
        "'ocr_scan_submit' is a job, and not_ready and cancelled are not listed in [errors]",
        'write not_ready = "…" under [errors]',
        fix=jobs(),
    ),
    lock(
        "I254",
        build.interface() | {f"{FOLDER}/notes.txt": "x"},
        f"{FOLDER}/notes.txt",
        "",
        "notes.txt is not part of an interface version",
        "move notes.txt out of the folder",
    ),
    lock(
        "I255",
        build.interface() | {f"{FOLDER}/conformance/notes.txt": f"a key\n{MADE_UP}"},
        f"{FOLDER}/conformance/notes.txt",
        "",
        "here stands what looks like a token of GitHub",
        TAKE_IT_BACK,
        fix={f"{FOLDER}/conformance/notes.txt": "a key"},
        warning=True,
    ),
]


@pytest.mark.parametrize("bad", [*SHAPE, *SUBSET, *FILES], ids=str)
def test_each_fault_is_told_in_its_own_words_and_its_mend_mends(bad: Bad) -> None:
    check(bad)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('[{"name": "a", "name": "b"}]', "the key 'name' stands twice in one object"),
        ('[{"a": NaN}]', "NaN is not a JSON number"),
        ('[{"a": -Infinity}]', "-Infinity is not a JSON number"),
        (f'[{{"a": {2**53}}}]', f"the number '{2**53}' is larger than every reader can hold"),
        (f"[{'9' * 5000}]", f"the number '{'9' * 79}…' is larger than every reader can hold"),
        ("[1e400]", "the number '1e400' is larger than every reader can hold"),
        (
            '["' + '\\"' * 100_000,
            "tools.json is not JSON: unterminated string at line 1, column 2",
        ),
        ("[" * 33 + "]" * 33, "tools.json is nested more than 32 deep"),
        ("[" * 200_000, "tools.json is nested more than 32 deep"),
        ('["' + "x" * 262_144 + '"]', "tools.json has 262148 bytes, more than 262144"),
        (b'["\xff"]', "tools.json is not UTF-8 text (byte 2)"),
        (
            b"\xef\xbb\xbf[]",
            "tools.json starts with a byte order mark, which JSON does not have",
        ),
    ],
)
def test_json_that_two_readers_could_read_differently_is_refused(text: str | bytes, what: str) -> None:
    admission = build.judge(build.interface() | {TOOLS: text})
    assert build.only(admission, "I202").what == what


def test_a_lone_surrogate_is_refused_also_in_a_key() -> None:
    for text in ('[{"a": "\\ud800"}]', '[{"\\udfff": 1}]'):
        admission = build.judge(build.interface() | {TOOLS: text})
        assert build.only(admission, "I202").what == "a text holds half of a character (a lone surrogate)"


SEEN = [
    "plain",
    "à côté",
    "naïve\r\nline",
    "✔\ufe0f done",
    "👩🏽\u200d⚕\ufe0f",
    "\u0645\u06cc\u200c\u062e\u0648",
    "क्\u200dष",
    "日本語",
]
UNSEEN = [
    ("a\u200bb", 1),
    ("a\u200db", 1),
    ("✔\ufe0f\ufe0f", 2),
    ("a\ufe0f", 1),
    ("\ufe0f", 0),
    ("x\ufe01", 1),
    ("é\u200d\u200dé", 1),
    ("lone\rreturn", 4),
    ("\u2028", 0),
    ("\x1b[0m", 0),
    ("\U000e0041", 0),
    ("\u3164", 0),
    ("a\U000e0100", 1),
    ("\u202eabc", 0),
    ("\u2066abc", 0),
    ("soft\u00adhyphen", 4),
    ("\ue000", 0),
]


@pytest.mark.parametrize("text", SEEN)
def test_texts_of_every_script_are_seen(text: str) -> None:
    assert guidance.hidden(text) is None


@pytest.mark.parametrize(("text", "offset"), UNSEEN)
def test_what_no_one_sees_is_found_where_it_stands(text: str, offset: int) -> None:
    found = guidance.hidden(text)
    assert found is not None
    assert found.offset == offset


def test_a_suite_that_is_no_toml_says_where() -> None:
    admission = build.judge(typed(CASES, "[[case]]", "[[case]"))
    problem = build.only(admission, "I242")
    assert (problem.at.file, problem.at.line) == (CASES, 1)


def test_the_contract_of_the_seed_is_admitted_with_a_warning_for_its_missing_bounds() -> None:
    block = {
        "type": "object",
        "additionalProperties": False,
        "required": ["text", "bbox"],
        "properties": {
            "text": {"type": "string"},
            "bbox": {"type": "array", "items": {"type": "number"}, "minItems": 4, "maxItems": 4},
        },
    }
    page = {
        "type": "object",
        "additionalProperties": False,
        "required": ["text"],
        "properties": {
            "text": {"type": "string"},
            "blocks": {"type": "array", "items": {"$ref": "#/$defs/block"}},
        },
    }
    seed = build.tool()
    seed["inputSchema"]["properties"]["languages"] = {  # type: ignore[index]
        "type": "array",
        "items": {"type": "string", "pattern": "^[a-z]{2}$"},
    }
    seed["outputSchema"] = {
        "type": "object",
        "additionalProperties": False,
        "required": ["pages"],
        "properties": {"pages": {"type": "array", "items": page}},
        "$defs": {"block": block},
    }
    admission = build.judge(build.interface(tools=[seed]))
    assert not build.errors(admission)
    assert [problem.what for problem in admission.problems] == [
        "no bound is set for languages",
        "no bound is set for block.text, pages, pages[].blocks and pages[].text",
    ]
    frozen = build.judge(build.interface(tools=[seed]), lock=("ocr/v1",))
    assert list(frozen.contracts)
    assert frozen.problems == ()  # no byte of it can be mended any more


MAP = {"type": "object", "additionalProperties": {"type": "number"}}
EITHER = {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "additionalProperties": False},
        MAP,
        {"type": ["string", "null"], "maxLength": 3},
        {"enum": ["a", "b"]},
        {"const": 3},
        {"anyOf": [CLOSED, {"type": "null"}]},
        {"type": "object", "oneOf": [CLOSED, MAP]},
        {**CLOSED, "properties": {"a": TEXT, "b": TEXT}, **EITHER},
        {"type": "object", "additionalProperties": False, "properties": {"$ref": TEXT, "anyOf": TEXT}},
        {"type": "array", "maxItems": 3, "items": {"type": "string", "pattern": "^[a-z]{2,9}$"}},
    ],
)
def test_closed_schemas_of_every_shape_are_admitted(schema: object) -> None:
    assert not build.judge(bent(prop("a", schema)), lock=("ocr/v1",)).problems


OPEN = {"type": "object", "properties": {"x": TEXT}}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"properties": {"x": TEXT}},
        {"type": ["object", "null"]},
        {"anyOf": [OPEN, CLOSED]},
        {"oneOf": [OPEN]},
        {"allOf": [CLOSED, OPEN]},
        {"type": "array", "maxItems": 1, "items": OPEN},
        {"type": "object", "additionalProperties": OPEN},
        {"type": "object", "additionalProperties": True},
        {"type": "object", "additionalProperties": {}, "properties": {"x": TEXT}},
        {**CLOSED, "properties": {"x": OPEN}},
    ],
)
def test_an_open_object_is_found_wherever_it_hides(schema: object) -> None:
    admission = build.judge(bent(prop("a", schema)))
    assert "I212" in {problem.code for problem in admission.problems}


def test_an_open_object_in_definitions_is_found() -> None:
    admission = build.judge(bent(put("$defs", {"x": OPEN})))
    assert build.only(admission, "I212").field_path == "[0].outputSchema.$defs.x"


@pytest.mark.parametrize(
    "reference",
    ["#/properties", "#/$defs", "#/$defs/a/default", "#/$defs/a/examples/0", "#/properties/b/enum/0", "#/",
     "#/$defs/a/x", "#/$defs/a/anyOf", "#/$defs/a/anyOf/-1", "#/$defs/a/anyOf/7", "#/$defs/a/required", "#"],
)  # fmt: skip
def test_what_a_reference_points_at_is_a_schema_that_was_judged(reference: str) -> None:
    """A default or an example that is an object would be read as a schema that takes anything."""
    defs = {"a": {"anyOf": [CLOSED], "default": {}, "examples": [{"x": 1}], "required": {}}}
    files = bent(
        lambda one: (
            put("$defs", defs)(one),
            prop("a", {"$ref": reference})(one),
            prop("b", {"enum": [{"type": "object"}]})(one),
        )
    )
    admission = build.judge(files)
    assert build.only(admission, "I215").field_path == "[0].outputSchema.properties.a.$ref"


@pytest.mark.parametrize("reference", ["#/$defs/a/anyOf/0", "#/properties/b/items", "#/$defs/x~1y~0z"])
def test_a_reference_to_any_schema_inside_is_admitted(reference: str) -> None:
    files = bent(
        lambda one: (
            put("$defs", {"a": {"anyOf": [CLOSED]}, "x/y~z": TEXT})(one),
            prop("a", {"$ref": reference})(one),
            prop("b", {"type": "array", "maxItems": 2, "items": TEXT})(one),
        )
    )
    assert not build.errors(build.judge(files))


def test_a_doubling_chain_of_references_is_refused_and_quickly() -> None:
    defs: dict[str, object] = {"d0": TEXT}
    for n in range(1, 20):
        both = {"$ref": f"#/$defs/d{n - 1}"}
        defs[f"d{n}"] = {"allOf": [both, dict(both)]}
    files = bent(lambda one: (put("$defs", defs)(one), prop("a", {"$ref": "#/$defs/d19"})(one)))
    problem = build.only(build.judge(files), "I227")
    assert "nodes with its references written out" in problem.what or "deep" in problem.what


def test_a_long_chain_of_references_is_refused_without_recursion() -> None:
    defs = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(3000)} | {"d3000": TEXT}
    files = bent(put("$defs", defs))
    assert build.only(build.judge(files), "I227").what.startswith("the schema is more than 32 deep")


@pytest.mark.parametrize(
    "schema",
    [
        {
            "type": "object",
            "additionalProperties": False,
            "properties": {"f": {**TEXT, "format": "handler-file"}},
        },
        {"anyOf": [{**TEXT, "format": "handler-file"}]},
        {"type": "object", "additionalProperties": {**TEXT, "format": "handler-output-file"}},
        {
            "type": "array",
            "maxItems": 2,
            "items": {"type": "array", "maxItems": 2, "items": {**TEXT, "format": "handler-file"}},
        },
        {"type": ["string", "null"], "maxLength": 3, "format": "handler-file"},
        {**TEXT, "items": {**TEXT, "format": "handler-file"}},
        {
            "type": ["array", "string"],
            "maxLength": 3,
            "maxItems": 3,
            "items": {**TEXT, "format": "handler-file"},
        },
        {"type": "array", "maxItems": 3, "items": {**TEXT, "format": "handler-output-file"}},
    ],
)
def test_a_file_at_no_known_place_is_refused(schema: object) -> None:
    admission = build.judge(bent(prop("a", schema, "inputSchema")))
    assert build.only(admission, "I217")


def test_a_list_of_files_at_the_top_is_admitted() -> None:
    files = {
        "type": "array",
        "maxItems": 9,
        "description": "files in the work folder",
        "items": {**TEXT, "format": "handler-file"},
    }
    assert not build.judge(bent(prop("scans", files, "inputSchema")), lock=("ocr/v1",)).problems


def test_front_matter_may_be_written_as_people_write_it() -> None:
    text = '---\r\nname: "ocr"\r\ndescription: >-\r\n  Read\r\n  a scan.\r\n---\r\nbody: not this\r\n'
    assert guidance.front_matter(text) == {"name": "ocr", "description": "Read a scan."}
    assert guidance.front_matter("name: ocr\n") == {}


def test_the_meta_schema_is_asked_for_drafts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    import jsonschema

    asked: list[object] = []
    real = jsonschema.Draft202012Validator.iter_errors

    def counted(self: object, *args: object, **more: object) -> object:
        asked.append(args)
        return real(self, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(jsonschema.Draft202012Validator, "iter_errors", counted)
    build.judge(build.interface(), lock=("ocr/v1",))
    assert not asked
    build.judge(build.interface())
    assert len(asked) >= 2


def test_more_faults_than_a_person_reads_are_told_as_one_cause() -> None:
    many = {f"x{n}": {"typ": "string"} for n in range(2000)}
    admission = build.judge(bent(lambda one: one["outputSchema"]["properties"].update(many)))
    assert len(admission.problems) == 51
    last = build.only(admission, "S199")
    assert last.what == "more problems are not listed"
    assert last.about in admission.refused


def test_warnings_never_hide_an_error() -> None:
    loose = {"type": "object", "additionalProperties": False, "properties": {"t": {"type": "string"}}}
    tools = [{**build.tool(f"ocr_t{n}"), "outputSchema": loose} for n in range(80)]
    tools.append({**build.tool("ocr_last"), "outputSchema": OPEN})
    assert build.only(build.judge(build.interface(tools=tools)), "I212").field_path == "[80].outputSchema"


_WORD = st.sampled_from(
    [
        "type",
        "properties",
        "items",
        "anyOf",
        "$ref",
        "$defs",
        "required",
        "pattern",
        "format",
        "enum",
        "x",
        "maxLength",
    ]
)
_VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.sampled_from(["object", "string", "#/$defs/x", "^a", "\u200b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORD, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.slow
@settings(max_examples=times(32))
@given(
    st.lists(st.fixed_dictionaries({}, optional={"name": _VALUE, "description": _VALUE}), max_size=2),
    _VALUE,
    st.booleans(),
)
def test_no_json_makes_a_rule_raise(tools: list[dict[str, object]], schema: object, locked: bool) -> None:
    lock = ("ocr/v1",) if locked else ()
    build.judge(build.interface(tools=tools), lock=lock)
    one = {**build.tool(), "inputSchema": schema if isinstance(schema, dict) else {"properties": schema}}
    admission = build.judge(build.interface(tools=[one]), lock=lock)
    assert admission.problems or admission.contracts


@pytest.mark.slow
@settings(max_examples=times(25))
@given(st.dictionaries(st.sampled_from(["name", "tool", "input", "expect", "tier", "x"]), _VALUE, max_size=6))
def test_no_suite_makes_a_rule_raise(case: dict[str, object]) -> None:
    from reconciler.config import words

    def plain(value: object) -> object:
        """TOML has no null."""
        if isinstance(value, dict):
            return {f"k{key.strip('$')}": plain(item) for key, item in value.items()}
        return (
            [plain(item) for item in value] if isinstance(value, list) else "none" if value is None else value
        )

    text = "[[case]]\n" + "".join(f"{key} = {words.literal(plain(value))}\n" for key, value in case.items())
    build.judge(build.interface() | {CASES: text})
