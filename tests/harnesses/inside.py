"""What runs inside a network of its own: the scripted model on loopback, and one harness that speaks with it.

``python -m tests.harnesses.inside PLAN.json``: prints one JSON report. In the plan's command, environment and
files, ``{url}`` stands for the model's address. Nothing but loopback can be reached from here.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.harnesses.model import Case, Model, serve


def placed(value: Any, url: str) -> Any:
    match value:
        case str():
            return value.replace("{url}", url)
        case dict():
            return {key: placed(one, url) for key, one in value.items()}
        case list():
            return [placed(one, url) for one in value]
    return value


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text())
    model = Model(plan["wanted"], [Case(one["name"], one["arguments"]) for one in plan["cases"]])
    server = serve(model)
    plan = placed(plan, f"http://127.0.0.1:{server.server_address[1]}")
    for path, text in plan["files"].items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)
    with Path(os.devnull).open() as nothing:
        process = subprocess.Popen(
            plan["command"],
            cwd=plan["cwd"],
            env=plan["env"],
            stdin=nothing,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=plan["timeout"])
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            out, err = process.communicate()
        said = {"code": process.returncode, "out": out[-4000:], "err": err[-4000:]}
    server.shutdown()
    report = model.report() | {"said": said, "requests": json.dumps(model.bodies, ensure_ascii=False)}
    print(json.dumps(report))


main()
