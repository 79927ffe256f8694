"""Connectors that behave badly, each in its own way, and a house that has them all."""

import json
from pathlib import Path
from typing import Any

from tests.kit.house import House, wait_for
from tests.reasons.telling import Shown, golden

CONNECTOR = """apiVersion = "handler.connector/v1"
name = "{name}"
description = "for tests"
implements = ["ocr/v1"]
runtime = "python"
"""
HANDLER = 'apiVersion = "handler.config/v1"\n[reconcile]\nscanSeconds = 0.2\nresyncSeconds = 1\n'
SAYS = """from handler_connector import serve
serve({"ocr_extract": lambda args, call: {"pages": [{"text": "a word"}]}})
"""
DIES = 'print("the model is not there", flush=True)\nraise SystemExit(3)\n'
SILENT = "import time\ntime.sleep(600)\n"
HUNGRY = """from handler_connector import serve
def extract(args, call):
    hoard = bytearray(512 * 2**20)
    return {"pages": [{"text": str(len(hoard))}]}
serve({"ocr_extract": extract})
"""
SLOW = """import signal, threading, time
from handler_connector import serve
signal.signal(signal.SIGTERM, signal.SIG_IGN)
threading.Thread(target=time.sleep, args=(600,)).start()
def extract(args, call):
    time.sleep(600)
    return {"pages": [{"text": "slowly"}]}
serve({"ocr_extract": extract})
"""
TELLS = """import base64, os
from handler_connector import secret, serve
key = secret("api_key")
print("starting with", key, base64.b64encode(b"user:" + key.encode()).decode(), flush=True)
def extract(args, call):
    return {"pages": [{"text": key if os.path.exists("/tmp/asked") else open("/tmp/asked", "w").name}]}
serve({"ocr_extract": extract})
"""
MORE = {
    "silent": "[ready]\ntimeoutSeconds = 1\n",
    "packed": "",
    "tells": '[secretSlots.api_key]\nenv = "KEY"\nvia = "fd"\n',
    "keyed": '[secretSlots.api_key]\nenv = "KEY"\n',
    "unwalled": '[sandbox]\nprograms = ["a-program-that-is-nowhere"]\n',
}
CODES = {
    "says": SAYS,
    "dies": DIES,
    "silent": SILENT,
    "hungry": HUNGRY,
    "slow": SLOW,
    "unwalled": SAYS,
    "starts": SILENT,
    "keyed": SAYS,
    "tells": TELLS,
}


def furnish(made: House, *names: str, resync: bool = False) -> None:
    """Write connectors of these names, a binding of each, and an agent of each that uses it."""
    made.write("handler.toml", HANDLER if resync else HANDLER.replace("resyncSeconds = 1\n", ""))
    for name in names:
        made.write(f"connectors/{name}/main.py", CODES[name])
        made.write(f"connectors/{name}/PROVISIONING.md", "Nothing.\n")
        made.write(f"connectors/{name}/connector.toml", CONNECTOR.format(name=name) + MORE.get(name, ""))
        binding(made, name)
        made.write(
            f"agents/{name}-user.toml",
            f'apiVersion = "handler.agent/v1"\nrequires = ["ocr/v1"]\nservices = {{ ocr = "{name}" }}\n'
            f'scope = ["{made.inbox}"]\n',
        )


def binding(made: House, name: str, more: str = "") -> None:
    made.write(f"bindings/{name}.toml", f'apiVersion = "handler.binding/v1"\nconnector = "{name}"\n{more}')


def gold(made: House, shown: Shown, name: str, words: str) -> None:
    """What the command says of the house, once its summary has caught up, is the golden text of that name."""
    kind, _, plain = words.rpartition(" ")[2].partition("/")
    if kind == "binding":
        wait_for(lambda: is_told(made, plain), "the summary has caught up")
    places = {made.config: "~/config", made.state: "~/state", made.run: "~/run", made.inbox: "~/inbox"}
    golden(name, shown.told(made.state, words, places))


def is_told(made: House, name: str) -> bool:
    """The summary tells of each instance of this binding what the binding's own file tells; and of no call
    that holds one which has started, since the end of the last is heard of a little after its answer.
    """
    whole = json.loads((made.state / "status/summary.json").read_bytes())["instances"]
    mine = [one for one in whole if one["binding"] == name]
    if any(one.get("calls") and one["phase"] != "starting" for one in mine):
        return False
    keys = ("phase", "pid", "restarts")
    seen = {one["name"]: [one[key] for key in keys] for one in mine}
    return seen == {one["id"]: [one[key] for key in keys] for one in instances(made, name)}


def instances(made: House, name: str) -> list[dict[str, Any]]:
    return list(made.status("binding", name).get("inventory") or [])


def reason(made: House, name: str, kind: str = "Ready") -> str:
    return str(made.condition("binding", name, kind).get("reason", ""))


def only(folder: Path, holds: str) -> Path:
    """The one folder below this one that holds such a file."""
    (found,) = (path for path in folder.iterdir() if (path / holds).exists())
    return found
