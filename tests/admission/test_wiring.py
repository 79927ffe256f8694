"""Every problem of bindings, projects and agents: the exact words, and that each mend mends."""

import pytest

from reconciler.admission.admit import admit
from reconciler.model.names import InterfaceRef, Kind, ObjectRef
from tests.admission import build
from tests.admission.build import agent, binding, connector, interface, project, tool
from tests.admission.table import Bad, check

B = "bindings/b.toml"
A = "agents/a.toml"
P = "projects/p.toml"

SETTINGS = """
[settings.model]
env = "ENGINE_MODEL"
description = "which model reads"
enum = ["fast", "best"]

[settings.level]
env = "ENGINE_LEVEL"
description = "how hard it tries"
default = 3
"""
ENGINE = build.catalog() | connector("engine", "ocr/v1", more=SETTINGS)
FORMED = build.catalog() | connector(
    "engine",
    "ocr/v1",
    more='[settings.docs]\ndescription = "d"\nformat = "folder"\nrequired = true\n'
    '[settings.url]\ndescription = "u"\nformat = "url"\n',
)
PATTERNED = build.catalog() | connector(
    "engine", "ocr/v1", more='[settings.from]\ndescription = "the sender, of mail"\npattern = "^.+@x$"\n'
)
NEEDY = build.catalog() | connector(
    "engine", "ocr/v1", more='[settings.model]\ndescription = "m"\nrequired = true\nenum = ["fast"]\n'
)
SECRET = build.catalog() | connector(
    "engine", "ocr/v1", more='[secretSlots.api_key]\nenv = "API_KEY"\nrequired = true\n'
)
INSIDE = ("/home/ada/config/keys/x", "~/config/x", "/home/ada/other/../config/x")  # the configuration
NOT_BUILT = build.catalog() | connector("engine", "ocr/v1", more="[sandbox]\ngpu = true\n")
_OCR = interface()
PAID = build.catalog() | {
    "interfaces/ocr/v1/interface.toml": str(_OCR["interfaces/ocr/v1/interface.toml"])
    + 'outcome_unknown = "nobody knows whether it was done"\n[operations.ocr_extract]\neffect = "paid"\n',
    "interfaces/ocr/v1/skills/ocr/SKILL.md": str(_OCR["interfaces/ocr/v1/skills/ocr/SKILL.md"])
    + "On outcome_unknown ask a person.\n",
}
_ASKED = tool("llm_extract")
_ASKED["inputSchema"]["properties"]["model"] = {"type": "string", "maxLength": 100}  # type: ignore[index]
LLM = build.catalog() | interface("llm", tools=[_ASKED]) | connector("c", "llm/v1")
BUILTIN: dict[str, str | bytes] = {
    **interface("fs"),
    "connectors/inside/connector.toml": 'apiVersion = "handler.connector/v1"\nname = "inside"\n'
    'description = "d"\nimplements = ["fs/v1"]\nruntime = "builtin"\n',
}
TWO = interface(version=1) | interface(version=2) | connector("both", "ocr/v1", "ocr/v2")
BOUND = binding("ocr-tesseract", "ocr-tesseract") | binding("ocr-rapid", "ocr-rapid")

BINDINGS = [
    Bad(
        "B201",
        binding("b", "ocr-teseract"),
        B,
        "connector",
        "connector 'ocr-teseract' does not exist",
        "write 'ocr-tesseract'",
        (B, "ocr-teseract", "ocr-tesseract"),
        reason="UnresolvedReference",
    ),
    Bad(
        "B201",
        binding("b", "zzz"),
        B,
        "connector",
        "connector 'zzz' does not exist",
        "add connectors/zzz/connector.toml",
        connector("zzz", "ocr/v1"),
        reason="UnresolvedReference",
    ),
    Bad(
        "B203",
        binding("b", "engine", 'settings = { modl = "fast" }\n'),
        B,
        "settings.modl",
        "'modl' is not a setting of connector/engine",
        "write 'model'",
        (B, "modl", "model"),
        ENGINE,
        reason="UnknownField",
    ),
    Bad(
        "B204",
        binding("b", "engine", 'settings = { model = "slow" }\n'),
        B,
        "settings.model",
        "the value 'slow' is not one of 'fast' or 'best'",
        "write 'fast' or 'best'",
        (B, '"slow"', "'best'"),
        ENGINE,
    ),
    Bad(
        "B204",
        binding("b", "engine", 'settings = { from = "" }\n'),
        B,
        "settings.from",
        "the value is empty",
        "write the sender; it matches '^.+@x$'",
        binding("b", "engine", 'settings = { from = "a@x" }\n'),
        PATTERNED,
    ),
    Bad(
        "B204",
        binding("b", "engine", 'settings = { level = "high" }\n'),
        B,
        "settings.level",
        "the value 'high' is not a number",
        "write a value like 3",
        (B, '"high"', "3"),
        ENGINE,
    ),
    Bad(
        "B204",
        binding("b", "engine", 'settings = { docs = "~/documents", url = "http://example.com" }\n'),
        B,
        "settings.url",
        "the value 'http://example.com' is no address that can be reached: plain http goes to an address "
        "like 127.0.0.1, and to names only https",
        "write an address, like 'https://api.example.com/v1'",
        (B, '"http://example.com"', "'https://api.example.com/v1'"),
        FORMED,
    ),
    Bad(
        "B204",
        binding("b", "engine", 'settings = { docs = "/etc/ssl" }\n'),
        B,
        "settings.docs",
        "the value '/etc/ssl' is no folder that can be shown: it is a whole part of the machine, not one "
        "folder of documents",
        "write a folder, like '~/documents'",
        (B, '"/etc/ssl"', "'~/documents'"),
        FORMED,
    ),
    *(
        Bad(
            "B214",
            binding("b", "engine", f'settings = {{ docs = "{folder}" }}\n'),
            B,
            "settings.docs",
            f"the folder '{folder}' holds more than documents",
            "name a folder of documents alone, like '~/documents'",
            (B, f'"{folder}"', "'~/documents'"),
            FORMED,
        )
        for folder in ("~/config/agents", "/home/ada/config")
    ),
    Bad(
        "B205",
        binding("b", "engine"),
        B,
        "",
        "the setting 'docs' is missing",
        "write settings = { docs = '~/documents' }",
        (B, "", "settings = { docs = '~/documents' }"),
        FORMED,
    ),
    Bad(
        "B205",
        binding("b", "engine"),
        B,
        "",
        "the setting 'model' is missing",
        "write settings = { model = 'fast' }",
        (B, "", "settings = { model = 'fast' }"),
        NEEDY,
    ),
    Bad(
        "B206",
        binding("b", "ocr-rapid", 'secrets = { key = { env = "K" } }\n'),
        B,
        "secrets.key",
        "'key' is not a secret slot of connector/ocr-rapid",
        "delete 'key'",
        reason="UnknownField",
    ),
    Bad(
        "B207",
        binding("b", "engine"),
        B,
        "",
        "the secret slot 'api_key' is empty",
        'write secrets = { api_key = { env = "API_KEY" } }',
        (B, "", 'secrets = { api_key = { env = "API_KEY" } }'),
        SECRET,
        reason="SecretUnresolved",
    ),
    *(
        Bad(
            "B215",
            binding("b", "engine", f'secrets = {{ api_key = {{ env = "{variable}" }} }}\n'),
            B,
            "secrets.api_key.env",
            f"the variable '{variable}' is no secret's own",
            "write { env = 'API_KEY' }, and give handlerd that variable",
            (B, f'"{variable}"', "'API_KEY'"),
            SECRET,
        )
        for variable in ("PATH", "XDG_RUNTIME_DIR", "HANDLER_STATE", "https_proxy")
    ),
    Bad(
        "B216",
        binding("b", "engine", 'secrets = { api_key = { file = "keys/x" } }\n'),
        B,
        "secrets.api_key.file",
        "the path of the secret 'api_key' is not whole",
        "write it from '/' or '~/', like '~/.secrets/api_key'",
        (B, '"keys/x"', "'~/.secrets/api_key'"),
        SECRET,
        reason="SecretUnresolved",
    ),
    *(
        Bad(
            "B216",
            binding("b", "engine", f'secrets = {{ api_key = {{ file = "{path}" }} }}\n'),
            B,
            "secrets.api_key.file",
            "the path of the secret 'api_key' leads into the configuration",
            "move the file out, and write '~/.secrets/api_key'",
            (B, f'"{path}"', "'~/.secrets/api_key'"),
            SECRET,
            reason="SecretUnresolved",
        )
        for path in INSIDE
    ),
    Bad(
        "B209",
        binding("b", "c", 'models = ["m", "m"]\n'),
        B,
        "models[1]",
        "the model 'm' stands twice",
        "delete one",
        catalog=LLM,
    ),
    Bad(
        "B213",
        binding("b", "ocr-rapid", 'models = ["m"]\n'),
        B,
        "models",
        "'models' limits nothing",
        "delete models",
        (B, 'models = ["m"]\n', ""),
    ),
    Bad(
        "B210",
        binding("b", "ocr-rapid", 'shadow = "b"\n') | binding("bb", "ocr-tesseract"),
        B,
        "shadow",
        "shadow 'b' is not another binding",
        "write 'bb'",
        (B, '"b"', "'bb'"),
        reason="UnresolvedReference",
    ),
    Bad(
        "B217",
        binding("b", "ocr-rapid", 'shadow = "other"\n') | binding("other", "c"),
        B,
        "shadow",
        "shadow 'other' does not implement ocr/v1",
        "name another binding, or delete shadow",
        binding("b", "ocr-rapid"),
        LLM,
        reason="UnresolvedReference",
    ),
    Bad(
        "B218",
        binding("b", "ocr-rapid", 'shadow = "c"\n')
        | binding("c", "ocr-tesseract", 'shadow = "d"\n')
        | binding("d", "ocr-rapid"),
        B,
        "shadow",
        "shadow 'c' has a shadow itself",
        "name another binding, or delete shadow",
        binding("b", "ocr-rapid"),
        reason="UnresolvedReference",
    ),
    Bad(
        "B219",
        binding("b", "inside", 'shadow = "c"\n') | binding("c", "inside"),
        B,
        "shadow",
        "shadow 'c' would compare the product with itself",
        "name another binding, or delete shadow",
        binding("b", "inside"),
        BUILTIN,
        reason="UnresolvedReference",
    ),
    Bad(
        "B211",
        binding("b", "ocr-rapid", 'conformance.smoke = ["rejects a zap"]\n'),
        B,
        "conformance.smoke[0]",
        "there is no case 'rejects a zap'",
        "write 'rejects a zip'",
        (B, '"rejects a zap"', "'rejects a zip'"),
        reason="UnresolvedReference",
    ),
    Bad(
        "B212",
        binding("b", "ocr-rapid", 'conformance.smoke = ["rejects a zip"]\n'),
        B,
        "conformance.smoke[0]",
        "the case 'rejects a zip' of interface/ocr/v1 calls 'ocr_extract', whose effect is 'paid'",
        "delete 'rejects a zip'",
        binding("b", "ocr-rapid", "conformance.smoke = []\n"),
        PAID,
    ),
]

PROJECTS = [
    Bad(
        "P201",
        BOUND | project("p", 'services = { ocr = "ocr-rapd" }\n'),
        P,
        "services.ocr",
        "binding 'ocr-rapd' for 'ocr' does not exist",
        "write 'ocr-rapid'",
        (P, "ocr-rapd", "ocr-rapid"),
        reason="UnresolvedReference",
    ),
    Bad(
        "P203",
        {B: 'apiVersion = "handler.binding/v1"\naddon = "shop"\n'}
        | project("p", 'services = { ocr = "b" }\n'),
        P,
        "services.ocr",
        "binding 'b' is of an addon",
        "name a binding of a connector",
    ),
    Bad(
        "P204",
        BOUND | project("p", 'services = { oc = "ocr-rapid" }\n'),
        P,
        "services.oc",
        "binding 'ocr-rapid' does not offer 'oc'",
        "write 'ocr' as the key, or name a binding that offers 'oc'",
        (P, "oc", "ocr"),
        reason="UnresolvedReference",
    ),
    Bad(
        "P205",
        BOUND | project("p", 'services = { ocr = ["ocr-rapid", "ocr-tesseract"] }\n'),
        P,
        "services.ocr",
        "'ocr' lists 2 bindings",
        "write 'ocr-rapid'",
        (P, '["ocr-rapid", "ocr-tesseract"]', "'ocr-rapid'"),
    ),
    Bad(
        "P206",
        project("p", 'requires = ["ocr/v2"]\n'),
        P,
        "requires[0]",
        "interface 'ocr/v2' does not exist",
        "write 'ocr/v1'",
        (P, "ocr/v2", "ocr/v1"),
        reason="UnresolvedReference",
    ),
    Bad(
        "P207",
        project("p", 'requires = ["ocr/v1", "ocr/v2"]\n'),
        P,
        "requires[1]",
        "ocr/v2 is required beside ocr/v1",
        "write 'ocr/v1'",
        (P, "ocr/v2", "ocr/v1"),
        TWO,
    ),
]

CHAIN = {
    "chains/answer.toml": '[[tasks]]\nid = "x"\nhandler = "noop"\n'
    'transition = { branches = [{ operator = "default", goto = "end" }] }\n'
}
AGENTS = [
    Bad(
        "A201",
        project("site") | agent("a", 'project = "sit"\n'),
        A,
        "project",
        "project 'sit' does not exist",
        "write 'site'",
        (A, '"sit"', "'site'"),
        reason="UnresolvedReference",
    ),
    Bad(
        "A202",
        BOUND | agent("a", 'services = { ocr = "ocr-tess" }\n'),
        A,
        "services.ocr",
        "binding 'ocr-tess' for 'ocr' does not exist",
        "write 'ocr-tesseract'",
        (A, "ocr-tess", "ocr-tesseract"),
        reason="UnresolvedReference",
    ),
    Bad(
        "A203",
        BOUND | agent("a", 'requires = ["ocr/v1"]\n'),
        A,
        "requires[0]",
        "needs ocr/v1, and nothing is bound to 'ocr'",
        'write services = { ocr = "ocr-rapid" }, or run `handler rebind a ocr ocr-rapid`',
        (A, "", 'services = { ocr = "ocr-rapid" }'),
        reason="MissingRequirement",
    ),
    Bad(
        "A203",
        agent("a", 'requires = ["ocr/v1"]\n'),
        A,
        "requires[0]",
        "needs ocr/v1, and nothing is bound to 'ocr'",
        'write bindings/ocr-rapid.toml with apiVersion = "handler.binding/v1" and connector = "ocr-rapid",'
        " and select it",
        binding("ocr-rapid", "ocr-rapid") | agent("a", 'services = { ocr = "ocr-rapid" }\n'),
        reason="MissingRequirement",
    ),
    Bad(
        "A203",
        agent("a", 'requires = ["ocr/v1"]\n'),
        A,
        "requires[0]",
        "needs ocr/v1, and nothing is bound to 'ocr'",
        "add a connector that implements ocr/v1, and a binding of it",
        connector("c", "ocr/v1") | binding("c", "c") | agent("a", 'services = { ocr = "c" }\n'),
        interface(),
        reason="MissingRequirement",
    ),
    Bad(
        "A204",
        BOUND | agent("a", 'services = { tts = "ocr-rapid" }\n'),
        A,
        "services.tts",
        "binding 'ocr-rapid' does not offer 'tts'",
        "name a binding that offers 'tts'",
        reason="UnresolvedReference",
    ),
    Bad(
        "A205",
        binding("b", "both") | agent("a", 'services = { ocr = "b" }\n'),
        A,
        "services.ocr",
        "which version of 'ocr' is used is not said",
        'write ocr = { binding = "b", version = 2 }',
        (A, 'ocr = "b"', 'ocr = { binding = "b", version = 2 }'),
        TWO,
    ),
    Bad(
        "A206",
        BOUND
        | binding("b", "both")
        | agent("a", 'requires = ["ocr/v2"]\nservices = { ocr = "ocr-rapid" }\n'),
        A,
        "services.ocr",
        "binding 'ocr-rapid' does not offer ocr/v2",
        "write 'b'",
        (A, '"ocr-rapid"', "'b'"),
        build.catalog() | TWO,
        reason="UnresolvedReference",
    ),
    Bad(
        "A207",
        BOUND | agent("a", '[services.ocr]\nbinding = "ocr-rapid"\ntools = ["ocr_extrac"]\n'),
        A,
        "services.ocr.tools[0]",
        "'ocr_extrac' is not a tool of ocr/v1",
        "write 'ocr_extract'",
        (A, '"ocr_extrac"', "'ocr_extract'"),
    ),
    Bad(
        "A208",
        interface() | connector("c", "ocr/v1") | binding("b", "c") | agent("a", 'services = { ocr = "b" }\n'),
        A,
        "services.ocr",
        "ocr/v1 is a draft: handler.lock does not list it",
        "run `handler lock add ocr/v1` once it is reviewed",
        catalog={},
        reason="UnresolvedReference",
    ),
    Bad(
        "A209",
        {B: 'apiVersion = "handler.binding/v1"\naddon = "shop"\n'} | agent("a", 'services = { ocr = "b" }\n'),
        A,
        "services.ocr",
        "binding 'b' is of an addon",
        "name a binding of a connector",
    ),
    Bad(
        "A210",
        BOUND | agent("a", 'services = { ocr = ["ocr-rapid", "ocr-tesseract"] }\n'),
        A,
        "services.ocr",
        "'ocr' lists 2 bindings",
        "write 'ocr-rapid'",
        (A, '["ocr-rapid", "ocr-tesseract"]', "'ocr-rapid'"),
        alone=False,
    ),
    Bad(
        "A211",
        agent("a", 'scope = ["~/config/agents"]\n'),
        A,
        "scope[0]",
        "the folder '~/config/agents' lies in a folder of the product",
        "name a folder beside it, or write { path = '~/config/agents', access = 'read' }",
        (A, '"~/config/agents"', "{ path = '~/config/agents', access = 'read' }"),
    ),
    Bad(
        "A211",
        agent("a", '[[scope]]\npath = "/home/ada"\naccess = "write"\n'),
        A,
        "scope[0].path",
        "the folder '/home/ada' holds a folder of the product",
        "name a folder beside it, or write { path = '/home/ada', access = 'read' }",
    ),
    Bad(
        "A212",
        agent("a", 'scope = ["/srv/../home/ada"]\n'),
        A,
        "scope[0]",
        "the folder '/srv/../home/ada' is not written plainly",
        "leave '.', '..' and '//' out",
    ),
    Bad(
        "A213",
        agent("a", 'scope = ["~/docs", "/home/ada/docs/"]\n'),
        A,
        "scope[1]",
        "the folder '/home/ada/docs/' stands twice",
        "delete one",
    ),
    Bad(
        "A214",
        binding("b", "c") | agent("a", 'services = { web = "b", web-search = "b" }\n'),
        A,
        "services.web-search",
        "web-search/v1 and web/v1 both have a tool 'web_search_extract'",
        "grant other tools of 'web-search' with tools = [...]",
        catalog=interface("web", tools=[tool("web_extract"), tool("web_search_extract")])
        | {
            "interfaces/web/v1/conformance/cases.toml": build.CASES.format(tool="web_extract")
            + build.CASES.format(tool="web_search_extract")
        }
        | interface("web-search")
        | connector("c", "web/v1", "web-search/v1"),
    ),
    Bad(
        "A231",
        binding("b", "c", 'models = ["small"]\n')
        | binding("d", "e", 'models = ["large"]\n')
        | agent("a", 'requires = ["llm/v1"]\nservices = { llm = ["b", "d"] }\n'),
        A,
        "services.llm[1]",
        "binding 'd' does not offer llm/v1",
        "delete 'd', or name a binding that offers llm/v1",
        catalog=LLM | interface("llm", version=2, tools=[_ASKED]) | connector("e", "llm/v2"),
        reason="UnresolvedReference",
    ),
    Bad(
        "A229",
        binding("b", "c", 'models = ["small"]\n')
        | binding("d", "c")
        | agent("a", 'services = { llm = ["b", "d"] }\n'),
        A,
        "services.llm[1]",
        "binding 'd' states no models",
        'write models = ["…"] in bindings/d.toml',
        binding("d", "c", 'models = ["large"]\n'),
        catalog=LLM,
    ),
    Bad(
        "A230",
        binding("b", "c", 'models = ["small", "large"]\n')
        | binding("d", "c", 'models = ["huge", "large"]\n')
        | agent("a", 'services = { llm = ["b", "d"] }\n'),
        A,
        "services.llm[1]",
        "'b' and 'd' both have the model 'large'",
        "delete 'large' from models in bindings/d.toml",
        binding("d", "c", 'models = ["huge"]\n'),
        catalog=LLM,
    ),
    Bad(
        "A230",
        binding("b", "c", 'models = ["small"]\n') | agent("a", 'services = { llm = ["b", "b"] }\n'),
        A,
        "services.llm[1]",
        "binding 'b' stands twice",
        "delete one",
        agent("a", 'services = { llm = ["b"] }\n'),
        catalog=LLM,
    ),
    Bad(
        "A225",
        binding("b", "c", 'models = ["small", "large"]\n')
        | agent("a", 'models = ["small", "lage"]\nservices = { llm = "b" }\n'),
        A,
        "models[1]",
        "no binding of this agent has the model 'lage'",
        "write 'large'",
        (A, '"lage"', "'large'"),
        catalog=LLM,
        reason="UnresolvedReference",
    ),
    Bad(
        "A226",
        agent("a", 'models = ["gpt"]\nservices = { ocr = "ocr-rapid" }\n')
        | binding("ocr-rapid", "ocr-rapid"),
        A,
        "models",
        "'models' limits nothing",
        "delete models",
        (A, 'models = ["gpt"]\n', ""),
    ),
    Bad(
        "A216",
        agent("a", 'requires = ["ocr/v3"]\n'),
        A,
        "requires[0]",
        "interface 'ocr/v3' does not exist",
        "write 'ocr/v1'",
        reason="UnresolvedReference",
    ),
    Bad(
        "A217",
        binding("b", "nothing") | agent("a", 'services = { ocr = "b" }\n'),
        A,
        "services.ocr",
        "waits for binding/b",
        "mend binding/b first",
        binding("b", "ocr-rapid"),
        reason="WaitsFor",
        alone=False,
    ),
    Bad(
        "A218",
        project("p", 'requires = ["zzz/v1"]\n') | agent("a", 'project = "p"\n'),
        A,
        "project",
        "waits for project/p",
        "mend project/p first",
        project("p"),
        reason="WaitsFor",
        alone=False,
    ),
    Bad(
        "A219",
        agent("a", 'agents = ["clark"]\n') | agent("clerk"),
        A,
        "agents[0]",
        "agent 'clark' is not another agent",
        "write 'clerk'",
        (A, '"clark"', "'clerk'"),
        reason="UnresolvedReference",
    ),
    Bad(
        "A220",
        project("p", 'requires = ["ocr/v1"]\nservices = { ocr = "b" }\n')
        | binding("b", "both")
        | agent("a", 'project = "p"\nrequires = ["ocr/v2"]\n'),
        A,
        "requires[0]",
        "ocr/v2 is required beside ocr/v1",
        "write 'ocr/v1'",
        (A, '"ocr/v2"', "'ocr/v1'"),
        TWO,
    ),
    Bad(
        "A222",
        binding("b", "both")
        | agent("a", 'requires = ["ocr/v1"]\nservices = { ocr = { binding = "b", version = 2 } }\n'),
        A,
        "services.ocr.version",
        "ocr/v2 is selected and ocr/v1 is required",
        "write version = 1",
        (A, "version = 2", "version = 1"),
        TWO,
    ),
    Bad(
        "A223",
        BOUND | binding("b", "engine") | agent("a", 'services = { ocr = "b" }\n'),
        A,
        "services.ocr",
        "connector/engine cannot be served: sandbox.gpu is not built in this release",
        "write 'ocr-rapid'",
        (A, '"b"', "'ocr-rapid'"),
        NOT_BUILT,
        reason="NotBuilt",
    ),
    Bad(
        "A227",
        agent("a", 'sandbox.egress = ["b.example:443", "api.example.com.:443"]\n'),
        A,
        "sandbox.egress[1]",
        "'api.example.com.:443' is no host that can be reached",
        "write host:port, like 'api.example.com:443'",
        (A, "api.example.com.:443", "api.example.com:443"),
    ),
    Bad(
        "A228",
        agent("a", 'sandbox.egress = ["b.example:443", "dev.localhost:8099"]\n'),
        A,
        "sandbox.egress[1]",
        "'dev.localhost:8099' cannot be reached",
        "write '127.0.0.1:8099'",
        (A, "dev.localhost:8099", "127.0.0.1:8099"),
        warning=True,
    ),
    Bad(
        "A228",
        agent("a", 'sandbox.egress = ["169.254.169.254:80"]\n'),
        A,
        "sandbox.egress[0]",
        "'169.254.169.254:80' is the machine's own affair",
        "delete it, unless just that is meant",
        agent("a", "sandbox.egress = []\n"),
        warning=True,
    ),
    Bad(
        "A232",
        agent("a", "[run]\n"),
        A,
        "run",
        "'run' names nothing to run",
        'write command = ["PROGRAM", "{input}"], or chain = "ID"',
        agent("a", 'run.command = ["cat"]\n'),
    ),
    Bad(
        "A232",
        agent("a", 'run = { command = ["cat"], chain = "answer" }\n') | CHAIN,
        A,
        "run.chain",
        "'run' names a command and a chain",
        "keep one of command and chain",
        (A, 'command = ["cat"], ', ""),
    ),
    Bad(
        "A235",
        agent("a", 'run.command = ["tool", "--text={input}"]\n'),
        A,
        "run.command[1]",
        "'--text={input}' stays as it is",
        "write '{input}' as an argument of its own; after sh -c 'LINE', as \"$1\": 'sh', '{input}'",
        (A, "--text={input}", "{input}"),
    ),
    Bad(
        "A235",
        agent("a", 'run.command = ["{input}"]\n'),
        A,
        "run.command[0]",
        "the program is what others say",
        'write "PROGRAM", "{input}"',
        (A, '"{input}"', '"PROGRAM", "{input}"'),
    ),
    Bad(
        "A233",
        agent("a", 'run.chain = "anser"\n') | CHAIN,
        A,
        "run.chain",
        "chain 'anser' does not exist",
        "write 'answer'",
        (A, "anser", "answer"),
        reason="UnresolvedReference",
    ),
    Bad(
        "A234",
        agent("a", 'agents = ["b"]\n') | agent("b", 'run.command = ["cat"]\n'),
        A,
        "agents",
        "'agents' lists whom it may call, and it has no service to call by",
        'add agent = "…" to services: a binding of connector agent-local',
        agent("a", ""),
        warning=True,
    ),
]


@pytest.mark.parametrize("bad", [*BINDINGS, *PROJECTS, *AGENTS], ids=str)
def test_each_fault_is_told_in_its_own_words_and_its_mend_mends(bad: Bad) -> None:
    check(bad)


def test_a_pinned_connector_is_the_pinned_one() -> None:
    seen = build.judge(binding("b", "ocr-rapid"), build.catalog())
    digest = seen.in_force[ObjectRef(Kind.CONNECTOR, "ocr-rapid")].digest
    wrong = f'connectorDigest = "sha256:{"0" * 64}"\n'
    right = f"sha256:{digest}"
    check(
        Bad(
            "B208",
            binding("b", "ocr-rapid", wrong),
            B,
            "connectorDigest",
            "connector/ocr-rapid is not the one that is pinned",
            f"look at what changed, then write '{right}'",
            (B, f"sha256:{'0' * 64}", right),
            reason="FrozenModified",
        )
    )


def test_a_binding_waits_for_a_refused_connector_and_so_does_a_project_for_a_binding() -> None:
    files = connector("c", "ocr/v9") | binding("b", "c") | project("p", 'services = { ocr = "b" }\n')
    admission = build.judge(files, build.catalog())
    said = {problem.code: (problem.what, problem.reason) for problem in build.errors(admission)}
    assert said["B202"] == ("waits for connector/c", "WaitsFor")
    assert said["P202"] == ("waits for binding/b", "WaitsFor")
    assert set(said) == {"C201", "B202", "P202"}


def test_who_requires_a_refused_version_waits_for_it() -> None:
    bad = build.interface("tts", tools=[])
    files = bad | agent("a", 'requires = ["tts/v1"]\n') | project("p", 'requires = ["tts/v1"]\n')
    admission = build.judge(files, build.catalog(), lock=("tts/v1",))
    for ref, code in ((ObjectRef(Kind.AGENT, "a"), "A217"), (ObjectRef(Kind.PROJECT, "p"), "P202")):
        (problem,) = admission.refused[ref]
        assert (problem.code, problem.what, problem.field_path) == (
            code,
            "waits for interface/tts/v1",
            "requires[0]",
        )
    assert "a" not in admission.selections


def test_an_agent_is_not_admitted_without_what_its_kept_project_requires() -> None:
    files = project("p", 'requires = ["ocr/v1"]\n') | agent("a", 'project = "p"\n') | BOUND
    before = build.judge(files, build.catalog())
    assert build.only(before, "A203")
    after = admit(build.inventory(files, {}), before.in_force, before, build.WHERE)
    assert ObjectRef(Kind.PROJECT, "p") in after.retained
    assert [problem.what for problem in after.refused[ObjectRef(Kind.AGENT, "a")]] == [
        "waits for interface/ocr/v1"
    ]


def test_an_unmet_requirement_of_a_project_is_shown_in_the_project_and_refuses_the_agent() -> None:
    files = BOUND | project("site", 'requires = ["ocr/v1"]\n') | agent("clerk", 'project = "site"\n')
    problem = build.only(build.judge(files, build.catalog()), "A203")
    assert (problem.at.file, problem.field_path) == ("projects/site.toml", "requires[0]")
    assert (problem.at.line, problem.at.column) == (2, 13)
    assert problem.about == ObjectRef(Kind.AGENT, "clerk")
    assert problem.candidates == ("ocr-rapid", "ocr-tesseract")


def test_an_agents_own_choice_hides_its_projects_default() -> None:
    files = (
        BOUND
        | project("site", 'requires = ["ocr/v1"]\nservices = { ocr = "ocr-tesseract" }\n')
        | agent("clerk", 'project = "site"\n')
        | agent("reader", 'project = "site"\nservices = { ocr = "ocr-rapid" }\n')
    )
    admission = build.judge(files, build.catalog())
    (inherited,), (own,) = admission.selections["clerk"], admission.selections["reader"]
    assert (inherited.binding, inherited.file) == ("ocr-tesseract", "projects/site.toml")
    assert (own.binding, own.file, own.path) == ("ocr-rapid", "agents/reader.toml", ("services", "ocr"))


def test_a_requirement_decides_between_the_versions_of_a_connector() -> None:
    files = binding("b", "both") | agent("a", 'requires = ["ocr/v1"]\nservices = { ocr = "b" }\n')
    admission = build.judge(files, TWO)
    assert [one.interface for one in admission.selections["a"]] == [InterfaceRef("ocr", 1)]


def test_a_long_selection_carries_its_grants() -> None:
    text = '[services.ocr]\nbinding = "ocr-rapid"\nversion = 1\ntools = ["ocr_extract"]\nmaxCalls = 5\n'
    admission = build.judge(BOUND | agent("a", text), build.catalog())
    (one,) = admission.selections["a"]
    assert (one.tools, one.max_calls, one.path) == (("ocr_extract",), 5, ("services", "ocr", "binding"))


def test_one_bad_service_refuses_the_agent_as_a_whole() -> None:
    # B-02: a bad entry must not widen, narrow or switch off the rest in silence.
    files = BOUND | agent("writer", 'services = { ocr = "ocr-rapid", tts = "does-not-exist" }\n')
    admission = build.judge(files, build.catalog())
    assert "writer" not in admission.selections
    problem = build.only(admission, "A202")
    assert "'tts'" in problem.what
    assert "'does-not-exist'" in problem.what


def test_a_version_that_vanished_under_a_kept_connector_makes_its_agents_wait() -> None:
    files = binding("b", "c") | agent("a", 'services = { ocr = "b" }\n') | connector("c", "ocr/v1")
    before = admit(build.inventory(files, interface()), {}, None, build.WHERE)
    after = admit(build.inventory(files, {}), before.in_force, before, build.WHERE)
    said = {str(problem.about): (problem.code, problem.what) for problem in build.errors(after)}
    assert said["agent/a"] == ("A221", "waits for interface/ocr/v1")
    # The connector keeps its last form, and what that rests on stays with it: the agent is served as before.
    assert [one.interface for one in after.selections["a"]] == [InterfaceRef("ocr", 1)]
    assert InterfaceRef("ocr", 1) in after.contracts
