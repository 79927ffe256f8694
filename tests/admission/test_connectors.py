"""Every problem of a connector: the exact words, and that each mend mends."""

import pytest

from reconciler.admission import connectors
from reconciler.model.names import Kind, ObjectRef
from tests.admission import build
from tests.admission.build import Files, connector
from tests.admission.table import Bad, check

C = "connectors/c/connector.toml"
OCR = build.interface()
HASH = f"--hash=sha256:{'0' * 64}"


def bad(code: str, config: Files, path: str, what: str, mend: str, **more: object) -> Bad:
    file = str(more.pop("file", C))
    return Bad(code, config, file, path, what, mend, catalog=OCR, **more)  # type: ignore[arg-type]


def c(more: str, **files: str) -> Files:
    return connector("c", "ocr/v1", more=more) | {
        f"connectors/c/{name}": text for name, text in files.items()
    }


def top(more: str) -> Files:
    """A connector with more keys at the top of its file."""
    return {**connector("c", "ocr/v1"), C: build.CONNECTOR.format(name="c", implements='"ocr/v1"') + more}


def mcp(more: str) -> Files:
    return top(f'runtime = "mcp"\ncommand = ["x"]\n[tool.ocr_extract]\n{more}')


def script(more: str) -> Files:
    """A connector that deno runs."""
    return {C: build.CONNECTOR.format(name="c", implements='"ocr/v1"') + more, "connectors/c/main.ts": ""}


IMAGE = f"localhost/x@sha256:{'0' * 64}"
REMOTE = 'runtime = "remote"\n'
TOOL = '[tool.ocr_extract]\nfrom = "scan"\n'
FOLDER = '[settings.docs]\ndescription = "x"\nformat = "folder"\naccess = "add"\n'
SLOT = '[secretSlots.key]\nheader = "x-key"\n'

MADE_UP = "ghp_" + "Zq7Lw2Xc9V" * 4
TAKE_IT_BACK = (
    "have it replaced where it was issued, and give it by a binding's [secrets]; "
    "write made-up ones with the word EXAMPLE in them"
)

ROWS = [
    bad(
        "C219",
        top('runtime = "mcp"\ncommand = ["x"]\n'),
        "tool",
        "the tool 'ocr_extract' is not mapped",
        "add [tool.ocr_extract] with from, the wrapped server's name of it",
        fix=top('runtime = "mcp"\ncommand = ["x"]\n[tool.ocr_extract]\nfrom = "scan"\n'),
    ),
    bad(
        "C220",
        top(f'runtime = "image"\nimage = "{IMAGE}"\n{TOOL}[tool.ocr_extracts]\nfrom = "scan"\n'),
        "tool.ocr_extracts",
        "no implemented version has the tool 'ocr_extracts'",
        "write 'ocr_extract'",
        fix=top(f'runtime = "image"\nimage = "{IMAGE}"\n{TOOL}'),
    ),
    bad(
        "C220",
        mcp('[tool.ocr_extracts]\nfrom = "scan"\n'),
        "tool.ocr_extracts",
        "no implemented version has the tool 'ocr_extracts'",
        "write 'ocr_extract'",
        fix=mcp(""),
    ),
    bad(
        "C221",
        mcp('input = "{a: "\n'),
        "tool.ocr_extract.input",
        "cannot run the input of 'ocr_extract': Invalid jmespath expression: Incomplete expression",
        "write one like '{pages: [{text: text}]}'",
        fix=mcp('input = "{a: path}"\n'),
    ),
    bad(
        "C221",
        mcp('output = "{pages: ocr(text)}"\n'),
        "tool.ocr_extract.output",
        "cannot run the output of 'ocr_extract': there is no function 'ocr'",
        "write one like '{pages: [{text: text}]}'",
        fix=mcp('output = "{pages: parse_json(text)}"\n'),
    ),
    bad(
        "C221",
        mcp(f'output = "{"a" * 5000}"\n'),
        "tool.ocr_extract.output",
        "cannot run the output of 'ocr_extract': it has 5000 characters, more than 4096",
        "write one like '{pages: [{text: text}]}'",
    ),
    bad(
        "C242",
        mcp('input = "{a: pth, b: path.pth}"\n'),
        "tool.ocr_extract.input",
        "'pth' is nothing that the input of 'ocr_extract' is made from",
        "write 'path'",
        fix=mcp('input = "{a: path, b: path.pth}"\n'),
        warning=True,
    ),
    bad(
        "C242",
        mcp('output = "{pages: json.pages[?a].b | [0], n: length(structred.a[*].b)}"\n'),
        "tool.ocr_extract.output",
        "'structred' is nothing that the output of 'ocr_extract' is made from",
        "write 'structured'",
        warning=True,
    ),
    bad(
        "C222",
        mcp('errors = { "no pdf" = "broken" }\n'),
        "tool.ocr_extract.errors.no pdf",
        "the error 'broken' is none of the interface's",
        "write 'unavailable' or 'unsupported_format'",
        fix=mcp('errors = { "no pdf" = "unsupported_format" }\n'),
    ),
    bad(
        "C223",
        mcp('needs = ["field.seed"]\n'),
        "tool.ocr_extract.needs",
        "'needs' says nothing to runtime mcp",
        "delete 'needs'",
        fix=mcp(""),
    ),
    bad(
        "C218",
        top('runtime = "command"\ncommand = ["npx", "-y", "server"]\n'),
        "command[0]",
        "'npx' fetches what it runs, or needs a daemon",
        "name the program itself; for one from PyPI add requirements.lock",
        fix=top('runtime = "command"\ncommand = ["server"]\n'),
    ),
    bad(
        "C218",
        top('runtime = "command"\ncommand = ["/opt/x/bin/serve"]\n'),
        "command[0]",
        "the program '/opt/x/bin/serve' is not inside",
        "add '/opt/x/bin' to sandbox.read",
        fix=top('runtime = "command"\ncommand = ["/opt/x/bin/serve"]\n[sandbox]\nread = ["/opt/x/bin"]\n'),
    ),
    bad(
        "C218",
        top('runtime = "command"\ncommand = ["./mian.sh"]\n') | {"connectors/c/main.sh": "#!/bin/sh\n"},
        "command[0]",
        "the program 'mian.sh' is not in the folder",
        "write './main.sh'",
    ),
    bad(
        "C218",
        top('runtime = "command"\ncommand = ["./main.sh"]\n') | {"connectors/c/main.sh": "#!/bin/sh\n"},
        "command[0]",
        "the program 'main.sh' is not executable",
        "chmod +x connectors/c/main.sh",
    ),
    bad(
        "C218",
        top('runtime = "command"\ncommand = ["x", "a\\u0000b"]\n'),
        "command[0]",
        "the command holds a NUL character",
        "delete it",
    ),
    bad(
        "C218",
        top('runtime = "command"\ncommand = ["--help"]\n'),
        "command[0]",
        "'--help' is no program",
        "write a program's name",
        fix=top('runtime = "command"\ncommand = ["help"]\n'),
    ),
    bad(
        "C217",
        top('egress = ["b.example:443", "2130706433:443"]\n'),
        "egress[1]",
        "'2130706433:443' is no host that can be reached",
        "write host:port, like 'api.example.com:443'",
        fix=(C, "2130706433:443", "api.example.com:443"),
    ),
    bad(
        "C231",
        script('[secretSlots.key]\nenv = "KEY"\nvia = "fd"\n'),
        "secretSlots.key.via",
        "the slot 'key' goes via fd, which a script of deno's cannot read",
        'write via = "file"',
        fix=(C, 'via = "fd"', 'via = "file"'),
    ),
    bad(
        "C236",
        top(f'runtime = "image"\nimage = "{IMAGE}"\n[sandbox]\nprograms = ["tesseract"]\n'),
        "sandbox.programs",
        "'sandbox.programs' adds nothing to an image",
        "put it into the image, and delete 'programs'",
        fix=(C, 'programs = ["tesseract"]', ""),
    ),
    bad(
        "C236",
        top(f'runtime = "image"\nimage = "{IMAGE}"\n') | {"connectors/c/requirements.lock": f"a==1 {HASH}"},
        "runtime",
        "'requirements.lock' says nothing to runtime image",
        "delete requirements.lock",
    ),
    bad(
        "C237",
        top('runtime = "attached"\nsocket = "run/app.sock"\n'),
        "socket",
        "'run/app.sock' is no socket that can be attached",
        "write one like '/run/user/1000/app.sock'",
        alone=False,
    ),
    bad(
        "C237",
        top('runtime = "attached"\nsocket = "/run/a\\u0000b"\n'),
        "socket",
        "'/run/a\\u0000b' is no socket that can be attached",
        "write one like '/run/user/1000/app.sock'",
        alone=False,
    ),
    bad(
        "C238",
        top('runtime = "attached"\nsocket = "/run/app.sock"\negress = ["api.example.com:443"]\n'),
        "egress",
        "'egress' says nothing to runtime attached",
        "delete 'egress'",
        alone=False,
    ),
    bad(
        "C239",
        top('runtime = "attached"\nsocket = "/run/app.sock"\n'),
        "implements",
        "ocr/v1 has tools that take or write files",
        "run it as a connector of another runtime",
    ),
    bad(
        "C240",
        top('runtime = "builtin"\n'),
        "implements[0]",
        "the product itself does not have ocr/v1",
        "write a connector of another runtime for it",
    ),
    bad(
        "C241",
        top('runtime = "builtin"\negress = ["api.example.com:443"]\n'),
        "egress",
        "'egress' says nothing to runtime builtin",
        "delete 'egress'",
        alone=False,
    ),
    bad(
        "C224",
        top('egress = ["b.example:443", "localhost:8099"]\n'),
        "egress[1]",
        "'localhost:8099' cannot be reached",
        "write '127.0.0.1:8099'",
        fix=(C, "localhost:8099", "127.0.0.1:8099"),
        warning=True,
    ),
    bad(
        "C225",
        c("", **{"main.py": f"KEY = '{MADE_UP}'\n"}),
        "",
        "here stands what looks like a token of GitHub",
        TAKE_IT_BACK,
        file="connectors/c/main.py",
        fix=c("", **{"main.py": f"KEY = '{MADE_UP}EXAMPLE'\n"}),
        warning=True,
    ),
    bad(
        "C235",
        top(REMOTE + 'url = "https://mcp.example.com.:443/mcp"\n' + TOOL),
        "url",
        "'https://mcp.example.com.:443/mcp' is no address that can be reached",
        "write an address like 'https://mcp.example.com/mcp'",
        fix=(C, "com.:443", "com"),
    ),
    bad(
        "C232",
        top('egress = ["b.example:443"]\n' + '[secretSlots.key]\nheader = "Host: {}"\n'),
        "secretSlots.key.header",
        "the header 'host' is the gate's own",
        "write 'x-api-key'",
        fix=(C, "Host: {}", "x-api-key"),
    ),
    bad(
        "C233",
        top('egress = ["b.example:443"]\n' + SLOT + '[secretSlots.other]\nheader = "X-Key"\n'),
        "secretSlots.other.header",
        "the header 'x-key' is that of 'key' already",
        "name another header",
    ),
    bad(
        "C234",
        top(SLOT),
        "secretSlots.key.header",
        "egress is empty",
        'write egress = ["api.example.com:443"], with the vendor\'s host',
    ),
    bad(
        "C243",
        top('runtime = "python"\n[settings.docs]\ndescription = "x"\naccess = "add"\n'),
        "settings.docs.access",
        "'docs' is no folder",
        "delete access",
    ),
    bad(
        "C243",
        top(REMOTE + 'url = "https://mcp.example.com/mcp"\n' + TOOL + FOLDER),
        "settings.docs.access",
        "runtime remote adds no files to a folder",
        "run it as python or command",
    ),
    bad(
        "C207",
        {
            C: build.CONNECTOR.format(name="c", implements='"ocr/v1"') + 'runtime = "python"\n',
            "connectors/c/man.py": "",
        },
        "runtime",
        "the entry 'main.py' is not in the folder",
        'write entry = "man.py", or add main.py',
        fix=(C, "", 'entry = "man.py"'),
    ),
    bad(
        "C201",
        connector("c", "orc/v1"),
        "implements[0]",
        "interface 'orc/v1' does not exist",
        "write 'ocr/v1'",
        fix=(C, "orc/v1", "ocr/v1"),
        reason="UnresolvedReference",
    ),
    bad(
        "C202",
        connector("c", "ocr/v1", "ocr/v1"),
        "implements[1]",
        "ocr/v1 stands twice",
        "delete one 'ocr/v1'",
        fix=connector("c", "ocr/v1"),
    ),
    bad(
        "C203",
        build.interface("tts", tools=[]) | connector("c", "tts/v1"),
        "implements[0]",
        "waits for interface/tts/v1",
        "mend interface/tts/v1 first",
        fix=build.interface("tts"),
        reason="WaitsFor",
        alone=False,
    ),
    bad(
        "C204",
        {C: build.CONNECTOR.format(name="c", implements='"ocr/v1"')},
        "",
        "nothing says what runs the connector",
        "add main.py, or write runtime",
        fix={"connectors/c/main.py": ""},
    ),
    bad(
        "C204",
        c("", **{"main.ts": ""}),
        "",
        "main.py and main.ts both stand here",
        'write runtime = "python"',
        fix=(C, "", 'runtime = "python"'),
    ),
    bad(
        "C205",
        top('runtime = "command"\n'),
        "runtime",
        "'command' is missing",
        "write command",
    ),
    bad(
        "C206",
        top('url = "https://example.com/mcp"\n'),
        "url",
        "'url' says nothing to runtime python",
        "delete 'url'",
    ),
    bad(
        "C216",
        connector("c"),
        "implements",
        "implements is empty",
        'write implements = ["ocr/v1"], with the version that it fulfils',
        fix=(C, "[]", '["ocr/v1"]'),
    ),
    bad(
        "C207",
        top('entry = "man.py"\n'),
        "entry",
        "the entry 'man.py' is not in the folder",
        "write 'main.py'",
        fix=(C, "man.py", "main.py"),
    ),
    bad(
        "C207",
        top('runtime = "python"\nentry = "../x/main.py"\n'),
        "entry",
        "the entry '../x/main.py' lies outside the folder",
        "write 'main.py'",
        fix=(C, "../x/main.py", "main.py"),
    ),
    bad(
        "C209",
        c("", **{"requirements.lock": "# fixed\nnumpy>=2\n"}),
        "",
        "cannot read 'numpy>=2' as a fixed requirement",
        "write NAME==VERSION --hash=sha256:DIGEST, as `pip-compile --generate-hashes` does",
        file="connectors/c/requirements.lock",
    ),
    bad(
        "C210",
        c("[secretSlots.api-key]\n"),
        "secretSlots.api-key",
        "the slot 'api-key' has neither env nor header",
        'write env = "API_KEY"',
        fix=(C, "[secretSlots.api-key]", '[secretSlots.api-key]\nenv = "API_KEY"'),
    ),
    bad(
        "C210",
        c('[secretSlots.key]\nenv = "KEY"\nvia = "gate"\n'),
        "secretSlots.key.via",
        "the slot 'key' goes via gate and has no header",
        "write header",
    ),
    bad(
        "C210",
        c(SLOT + 'via = "file"\n'),
        "secretSlots.key.via",
        "the slot 'key' goes via file and has no env",
        'write env = "KEY"',
        fix=(C, 'header = "x-key"', 'header = "x-key"\nenv = "KEY"'),
    ),
    bad(
        "C211",
        c('[settings.path]\nenv = "LD_PRELOAD"\ndescription = "d"\n'),
        "settings.path.env",
        "the variable 'LD_PRELOAD' is reserved",
        "write 'CONNECTOR_LD_PRELOAD'",
        fix=(C, "LD_PRELOAD", "CONNECTOR_LD_PRELOAD"),
    ),
    bad(
        "C212",
        c(
            '[secretSlots.key]\nenv = "KEY"\n[settings.key]\nenv = "KEY"\ndescription = "d"\n',
        ),
        "settings.key.env",
        "the variable 'KEY' is secretSlots.key's already",
        "name another variable",
    ),
    bad(
        "C212",
        c('[settings.pageLimit]\ndescription = "d"\n[settings.page_limit]\ndescription = "d"\n'),
        "settings.page_limit.env",
        "the variable 'HANDLER_SETTING_PAGE_LIMIT' is settings.pageLimit's already",
        "name another variable",
    ),
    bad(
        "C213",
        c("[settings.a]\ndescription = \"d\"\npattern = '(?=x)'\n"),
        "settings.a.pattern",
        "cannot run the pattern '(?=x)'",
        "write a plain pattern",
    ),
    bad(
        "C214",
        c('[settings.a]\ndescription = "d"\nenum = ["x", "y"]\ndefault = "z"\n'),
        "settings.a.default",
        "the default 'z' is not one of 'x' or 'y'",
        "write 'x'",
        fix=(C, '"z"', "'x'"),
    ),
    bad(
        "C214",
        c('[settings.a]\ndescription = "d"\nenum = ["x", 1]\n'),
        "settings.a.enum",
        "the values are of several types",
        "write values of one type",
    ),
    bad(
        "C214",
        c('[settings.a]\ndescription = "d"\npattern = \'^[a-z]+$\'\ndefault = "A"\n'),
        "settings.a.default",
        "the default 'A' does not match '^[a-z]+$'",
        "write a value that fits, or leave the default out",
    ),
    bad(
        "C215",
        c('[sandbox]\nread = ["/usr/share/tesseract-ocr", "/"]\n'),
        "sandbox.read[1]",
        "the folder '/' is more than an engine's data",
        "name the engine's own folder, like '/usr/share/tesseract-ocr'",
    ),
    bad(
        "C215",
        c('[sandbox]\nread = ["/usr/share/../../etc"]\n'),
        "sandbox.read[0]",
        "the folder '/usr/share/../../etc' is not written plainly",
        "name the engine's own folder, like '/usr/share/tesseract-ocr'",
        fix=(C, "/usr/share/../../etc", "/usr/share/tesseract-ocr"),
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_each_fault_is_told_in_its_own_words_and_its_mend_mends(row: Bad) -> None:
    check(row)


@pytest.mark.parametrize(
    "folder",
    [
        *("/home/ada", "/home", "/proc/1/root", "/home/ada/config/x", "/etc", "/dev", "/var/run/docker.sock"),
        *("/etc/shadow", "/etc/ssh/ssh_host_rsa_key", "/etc/ssl/private", "/root/.ssh", "/home/ada/.gnupg"),
        *("/home/ada/.local/share/keyrings", "/opt/engine/.env", "/opt/x\\u0000--bind"),
    ],
)
def test_no_sandbox_reads_a_persons_home_keys_or_the_products_own_folders(folder: str) -> None:
    files = c(f'[sandbox]\nread = ["{folder}"]\n')
    assert build.only(build.judge(files, OCR), "C215")


@pytest.mark.parametrize(
    "folder",
    ["/home/ada/.cache/huggingface", "/opt/e/.clients/x", "/opt/e/.venv/lib", "/etc/fonts", "/etc/ssl/certs"],
)
def test_where_engines_keep_what_they_read_may_be_listed(folder: str) -> None:
    assert not build.judge(c(f'[sandbox]\nread = ["{folder}"]\n'), OCR).problems


@pytest.mark.parametrize(
    "line",
    [
        f"numpy==2.1.0 {HASH}",
        f"numpy==2.1.0 \\\n    {HASH} \\\n    {HASH}  # via rapidocr",
        f"a[b,c]==1.0+local ; python_version >= '3.11' {HASH}",
        "# a comment\n\n",
    ],
)
def test_requirements_that_are_fixed_by_hash_are_admitted(line: str) -> None:
    files = c("", **{"requirements.lock": f"{line}\n"})
    assert not build.judge(files, OCR).problems


@pytest.mark.parametrize(
    "line",
    [
        "numpy==2.1.0",
        f"numpy {HASH}",
        f"-e . {HASH}",
        "--no-binary :all:",
        "--index-url https://example.com/simple",
        f"numpy @ https://example.com/numpy.whl {HASH}",
        f"git+https://example.com/x.git {HASH}",
        f"numpy==2.1.0 --hash=md5:{'0' * 32}",
        f"numpy==2.* {HASH}",
        "-r other.txt",
    ],
)
def test_requirements_that_are_not_fixed_are_refused(line: str) -> None:
    files = c("", **{"requirements.lock": f"{line}\n"})
    assert build.only(build.judge(files, OCR), "C209").at.line == 1


def test_the_runtime_and_the_entry_are_told_by_the_files() -> None:
    files = (
        connector("py", "ocr/v1")
        | {"connectors/ts/connector.toml": build.CONNECTOR.format(name="ts", implements='"ocr/v1"')}
        | {"connectors/ts/main.ts": ""}
    )
    seen = build.judge(files, OCR)
    for name, runtime, entry in (("py", "python", "main.py"), ("ts", "deno", "main.ts")):
        one = seen.in_force[ObjectRef(Kind.CONNECTOR, name)]
        assert connectors.runtime(one) == runtime  # type: ignore[arg-type]
        assert connectors.entry(one) == entry  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "more",
    [
        'runtime = "mcp"\ncommand = ["npx"]\n',
        'runtime = "remote"\nurl = "https://mcp.example.com/mcp"\n',
        f'runtime = "image"\nimage = "x@sha256:{"0" * 64}"\n',
    ],
)
def test_a_wrapped_server_may_wait_for_its_interface(more: str) -> None:
    text = build.CONNECTOR.format(name="c", implements="") + more
    admission = build.judge({C: text}, OCR)
    assert not build.errors(admission)
    assert ObjectRef(Kind.CONNECTOR, "c") in admission.in_force
