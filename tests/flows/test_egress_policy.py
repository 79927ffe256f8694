"""A policy of what may leave, the whole way: a file decides on what a connector sends; a person is asked."""

import concurrent.futures
import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from reconciler.control.receipts import verified
from reconciler.doors import lines
from tests.flows.test_hostile import CASE, IN, SKILL, Agent, tool
from tests.flows.test_runtimes import AGENT, BINDING, CONNECTOR, INTERFACE
from tests.kit.house import House, house, wait_for

pytestmark = [pytest.mark.flow, pytest.mark.timeout(180)]

SENDS = """from handler_connector import Unsent, request, serve
def sent(args, call):
    try:
        url = f"http://127.0.0.1:PORT/{args['mode']}"
        return {"text": request("POST", url, {}, b"the same").body.decode()}
    except Unsent as fault:
        return {"text": f"{fault.cause}: {fault.why}"}
serve({"probe_do": sent, "probe_file": sent})
"""
HEAD = 'apiVersion = "handler.egress-policy/v1"\n[[class]]\nname = "open"\n[[class]]\nname = "private"\n'
LABEL = '[[label]]\npaths = ["**/private/**", "private/**"]\nclass = "private"\n'


class Far(http.server.BaseHTTPRequestHandler):
    got: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        Far.got.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"came")

    def log_message(self, *words: Any) -> None:
        pass


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Far) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("egress")) as made:
        made.write("handler.toml", 'apiVersion = "handler.config/v1"\n')
        made.write(
            "interfaces/probe/v1/interface.toml",
            INTERFACE.replace("timeoutSeconds = 6", "timeoutSeconds = 120"),
        )
        tools = [tool("probe_do"), tool("probe_file", path=IN)]
        made.write("interfaces/probe/v1/tools.json", json.dumps(tools))
        made.write("interfaces/probe/v1/skills/probe/SKILL.md", SKILL)
        cases = CASE.format("probe_do") + CASE.format("probe_file")
        made.write("interfaces/probe/v1/conformance/cases.toml", cases)
        made.handler("lock", "add", "probe/v1", "--despite-warnings")
        more = f'egress = ["127.0.0.1:{port}"]\n[secretSlots.key]\nheader = "x-api-key"\n'
        made.write("connectors/acme-py/PROVISIONING.md", "nothing\n")
        connector = CONNECTOR.format(name="py", runtime="python", more=more)
        made.write("connectors/acme-py/connector.toml", connector)
        made.write("connectors/acme-py/main.py", SENDS.replace("PORT", str(port)))
        key = made.state.parent / "key"
        key.touch(mode=0o600)
        key.write_text("sk-CANARY-policy-01")
        secrets = f'secrets = {{ key = {{ file = "{key}" }} }}\n'
        made.write("bindings/acme-py.toml", BINDING.format(name="py") + secrets)
        made.write("agents/py.toml", AGENT.format(name="py", inbox=made.inbox))
        (made.inbox / "private").mkdir()
        (made.inbox / "private" / "a.txt").write_text("a secret of a client's")
        made.start()
        made.handler("apply", "--wait")
        yield made


def asked_of(made: House, method: str, **params: Any) -> Any:
    """The controller's answer, without a command that has to start first."""
    line = lines.Line(str(made.run / "control.sock"))
    try:
        return line.ask(method, params, 60)
    finally:
        line.close()


def policy(made: House, port: int, text: str) -> None:
    text = text.replace("ORIGIN", f'origins = ["http://127.0.0.1:{port}"]')
    made.write("policies/egress.toml", HEAD + LABEL + text)
    asked_of(made, "apply")


def approvals(made: House) -> list[dict[str, Any]]:
    found = asked_of(made, "approvals")["approvals"]
    return [one for one in found if one["state"] == "waiting"]


def test_a_policy_decides_on_what_leaves_and_takes_effect_in_open_sessions(place: House, port: int) -> None:
    Far.got.clear()
    (place.config / "policies" / "egress.toml").unlink(missing_ok=True)
    asked_of(place, "apply")
    with contextlib.closing(Agent(place, "py")) as agent:
        assert agent.ask(mode="first") == {"text": "came"}
        policy(place, port, '[[rule]]\nid = "no"\neffect = "deny"\nORIGIN\n')
        assert "what may be sent out does not allow this" in agent.ask(mode="second")
        policy(place, port, '[[rule]]\nid = "small"\neffect = "allow"\nmaxClass = "open"\nORIGIN\n'
               '[[rule]]\nid = "not-private"\neffect = "deny"\nclasses = ["private"]\nORIGIN\n')  # fmt: skip
        assert agent.ask(mode="third") == {"text": "came"}
        refused = agent.ask("probe_file", mode="file", path="private/a.txt")
        assert "what may be sent out does not allow this" in refused
        assert agent.ask(mode="fourth") == {"text": "came"}  # it was not read
        place.write("policies/egress.toml", "this is no policy")
        asked_of(place, "apply")
        assert agent.ask(mode="here") == {"text": "came"}  # refused: elsewhere nothing goes, here it does
    assert Far.got == ["/first", "/third", "/fourth", "/here"]
    events = place.handler("events", "binding/acme-py").stdout
    assert "a rule denies it (no)" in events


def test_a_person_agrees_once_to_exact_bytes(place: House, port: int) -> None:
    policy(place, port, '[[rule]]\nid = "asks"\neffect = "ask"\nask = { timeoutSeconds = 300 }\nORIGIN\n')
    Far.got.clear()
    with contextlib.closing(Agent(place, "py")) as agent, concurrent.futures.ThreadPoolExecutor(1) as pool:
        agent.socket.settimeout(120)  # commands are slow where the machine is busy
        asked = pool.submit(agent.ask, mode="agreed")
        wait_for(lambda: approvals(place), "a person is asked")
        (one,) = approvals(place)
        shown = place.handler("approve", "show", one["id"]).stdout
        assert f"http://127.0.0.1:{port}" in shown
        assert "the same" not in shown
        assert Far.got == []
        assert "once" in place.handler("approve", one["id"]).stdout
        assert asked.result(120) == {"text": "came"}
        again = place.handler("approve", one["id"], "--deny", check=False)
        assert (again.returncode, "is used" in again.stderr) == (1, True)
        asked = pool.submit(agent.ask, mode="agreed")  # the same bytes again: another question
        wait_for(lambda: approvals(place), "a person is asked")
        asked_of(place, "approve", id=approvals(place)[0]["id"], agreed=False)
        assert "denied" in asked.result(120)["text"]
    assert Far.got == ["/agreed"]


def test_one_flipped_byte_in_a_receipt_is_named_with_its_line(place: House, port: int) -> None:
    policy(place, port, '[[rule]]\nid = "goes"\neffect = "allow"\nORIGIN\n')
    with contextlib.closing(Agent(place, "py")) as agent:
        for _ in range(4):
            assert agent.ask(mode="kept") == {"text": "came"}
    assert verified(place.state).broken is None
    (path,) = (place.state / "receipts").glob("*.jsonl")
    text = path.read_bytes()
    assert b"sk-CANARY" not in text
    found = text.splitlines(keepends=True)
    found[1] = found[1].replace(b'"rule"', b'"rulf"')
    path.write_bytes(b"".join(found))
    done = place.handler("receipts", "verify", check=False)
    assert (done.returncode, f"{path}:3:" in done.stdout) == (1, True)
    path.write_bytes(text)
    assert "receipts hold" in place.handler("receipts", "verify").stdout
    assert Path(place.state, "receipts").stat().st_mode & 0o777 == 0o700
