"""The gate as a TypeScript connector meets it, by its kit's ``request``, in a real sandbox."""

import asyncio
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from reconciler.control.leaving import Leaving
from reconciler.model.recipes import Pinned, SandboxPolicy, folder_digest
from tests.control.test_gatekeeper import VALUE, Origin, listed, met, use
from tests.runtime.rig import Rig

deno_is_here = (Path(sys.executable).parent / "deno").exists() or shutil.which(
    "deno", path="/usr/local/bin:/usr/bin"
)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not deno_is_here, reason="no deno: pip install deno")]

MAIN = """
import { type Call, request, type Sending, serve, Unsent } from "handler_connector";

async function sent(method: string, url: string, more: Sending = {}): Promise<unknown> {
  try {
    const answer = await request(method, url, more);
    return [answer.status, await answer.text(), [...answer.headers.keys()].join()];
  } catch (fault) {
    return fault instanceof Unsent ? [fault.cause, fault.message] : [(fault as Error).name];
  }
}

async function all(args: Record<string, unknown>, call: Call): Promise<Record<string, unknown>> {
  const at = String(args.at);
  const found: Record<string, unknown> = {};
  const own = { headers: { "x-api-key": "mine" }, body: "böse", call };
  found.own = await sent("POST", `${at}/own#not-sent`, own);
  found.large = await sent("PUT", `${at}/large`, { body: new Uint8Array(300_000), call });
  found.long = ((await sent("GET", `${at}/long`, { call })) as string[])[1]?.length;
  found.most = ((await sent("GET", `${at}/long`, { call, most: 200_000 })) as string[])[1]?.length;
  found.more = await sent("GET", `${at}/long`, { call, most: 199_999 });
  found.endless = await sent("GET", `${at}/endless`, { call, most: 1000 });
  found.head = await sent("HEAD", `${at}/head`, { call });
  found.echo = await sent("GET", `${at}/echo`, { call });
  found.half = await sent("GET", `${at}/half`, { call });
  found.other = await sent("GET", `${at}/other`, { call: { id: 77, signal: call.signal } as Call });
  found.unlisted = await sent("GET", "https://evil.example.com/");
  found.nowhere = await sent("GET", "no address");
  found.line = await sent("GET", `${at}/x`, { headers: { "x-odd": "a\\r\\nhost: evil" } });
  found.method = await sent("GET / HTTP/1.1\\r\\nx:", `${at}/x`);
  const hidden = { host: "evil.example.com", connection: "upgrade", "transfer-encoding": "evil" };
  found.hidden = await sent("GET", `${at}/plain`, { headers: hidden });
  const given = new AbortController();
  const waiting = sent("GET", `${at}/silent`, { signal: given.signal });
  given.abort();
  found.given = await waiting;
  return { found };
}

serve({ all });
"""


class More(Origin):
    """Also answers at length, in part, and not at all."""

    async def came(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.got.append(head)
        path = head.split(b" ")[1]
        size = next((int(one[15:]) for one in head.split(b"\r\n") if one.startswith(b"Content-Length:")), 0)
        self.got.append(await reader.readexactly(size))
        body = {b"/echo": VALUE.encode(), b"/long": b"x" * 200_000}.get(path, b"done " + path)
        if path == b"/silent":
            await reader.read(1)
        elif path == b"/endless":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
            with suppress(ConnectionError):
                while not writer.transport.is_closing():  # over TLS, a drain tells of no lost connection…
                    writer.write(bytes(65_536))
                    await writer.drain()
                    await asyncio.sleep(0)  # …and yields to nobody
        elif path == b"/long":
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            writer.write(b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n")
        else:
            length = len(body) + (path == b"/half")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nX-Odd: 1\r\n\r\n" % length)
            writer.write(b"" if path == b"/head" else body)
        await writer.drain()
        writer.close()


def test_a_script_sends_through_the_gate_and_never_holds_the_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.control.test_gatekeeper.Origin", More)
    code = {"main.ts": MAIN.encode()}

    async def story(made: Rig, leaving: Leaving, origin: Origin) -> Any:
        name = await made.declare(
            code=Pinned(folder_digest(code), code), runtime="deno", entry="main.ts", ready_timeout_s=60,
            sandbox=SandboxPolicy(memory_bytes=1024 * 2**20, pids=64),
            egress=listed(origin.port), secrets=(use(tmp_path),),
        )  # fmt: skip
        leaving.serves = lambda instance, number: (instance, number) == (name, 2)
        _, line = await made.open(name)
        at = {"at": f"https://localhost:{origin.port}"}
        reply = await line.ask("tools/call", {"name": "all", "arguments": at})
        return reply["result"]["structuredContent"]["found"], origin.got

    (found, got), lines = met(tmp_path, story)
    odd = ["request", "this is no address, or a header has no form of one"]
    assert [found.pop("line"), found.pop("nowhere")] == [odd, odd]
    assert found.pop("half")[0] == "answer"
    assert found == {
        "own": [200, "done /own", ""], "large": [200, "done /large", ""], "long": 200_000,
        "most": 200_000, "more": ["bytes", "the answer has more than 199999 bytes"],
        "endless": ["bytes", "the answer has more than 1000 bytes"], "head": [200, "", ""],
        "hidden": [200, "done /plain", ""],
        "echo": ["echo", "the answer held a secret that the gate had added"],
        "other": ["call", "the call that the request says to serve does not run"],
        "unlisted": ["unlisted", "evil.example.com:443 is not on the list of what may be reached"],
        "method": ["request", "a method is capital letters"], "given": ["AbortError"],
    }  # fmt: skip
    heads, bodies = got[::2], got[1::2]
    assert heads[0].startswith(b"POST /own HTTP/1.1\r\n")
    assert all(one.count(b"x-api-key: " + VALUE.encode()) == 1 for one in heads)
    assert not any(b"mine" in one or b"evil" in one for one in heads)
    assert bodies[:2] == ["böse".encode(), bytes(300_000)]
    assert [one["call"] for one in lines if one["target"].startswith("evil")] == [""]
    assert [one["call"] for one in lines if one["method"] in ("POST", "PUT")] == ["2", "2"]
