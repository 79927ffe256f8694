"""The same trivial server once for each runtime, and once with nothing around it: what coldstart times.

Each answers one line with one line. ``KINDS`` are connectors as an author writes them; ``BARE`` are the
programs that they are held against, which bind the path that is their last argument or, of standard input and
output, answer there.
"""

import io
import re
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PYTHON = b"""
from handler_connector import serve

serve({"echo_say": lambda args, call: {"text": args["text"]}})
"""
DENO = b"""
import { serve } from "handler_connector";

serve({ echo_say: (args) => ({ text: args.text }) });
"""
FLOOR = """
import json, socket, sys
listener = socket.socket(socket.AF_UNIX); listener.bind(sys.argv[-1]); listener.listen(8)
while True:
    connection, _ = listener.accept()
    file = connection.makefile("rwb")
    for line in file:
        answer = {"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": {}}
        file.write(json.dumps(answer).encode() + b"\\n"); file.flush()
"""
ASYNCIO = """
import asyncio, json, sys
async def serve(reader, writer):
    while line := await reader.readline():
        answer = {"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": {}}
        writer.write(json.dumps(answer).encode() + b"\\n")
async def main():
    server = await asyncio.start_unix_server(serve, sys.argv[-1])
    await server.serve_forever()
asyncio.run(main())
"""
STDIO = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    info = {"name": "x", "version": "1"}
    result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": info}
    if asked["method"] == "tools/list":
        result = {"tools": [{"name": "echo_say", "inputSchema": {"type": "object"}}]}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
BARE_DENO = """
const listener = Deno.listen({ transport: "unix", path: Deno.args[0] });
for await (const connection of listener) {
  const data = new Uint8Array(65536);
  const size = await connection.read(data);
  const { id } = JSON.parse(new TextDecoder().decode(data.subarray(0, size)));
  const answer = JSON.stringify({ jsonrpc: "2.0", id, result: {} }) + "\\n";
  await connection.write(new TextEncoder().encode(answer));
}
"""
PERL = r"""
use Socket;
my $path = $ENV{HANDLER_CONNECTOR_SOCKET} || $ARGV[-1];
socket(my $door, PF_UNIX, SOCK_STREAM, 0) or die;
bind($door, pack_sockaddr_un($path)) or die "bind: $!";
listen($door, 8);
while (accept(my $wire, $door)) {
    next if fork;
    select((select($wire), $| = 1)[0]);
    while (my $line = <$wire>) {
        my ($id) = $line =~ /"id":\s*(\d+)/ or next;
        print $wire qq({"jsonrpc":"2.0","id":$id,"result":{"capabilities":{}}}\n);
    }
    exit 0;
}
"""
LISTENS = FLOOR.replace("sys.argv[-1]", '__import__("os").environ["HANDLER_CONNECTOR_SOCKET"]')

# Of each runtime: the files of its connector, and what of its recipe is not as a python connector's.
KINDS: Mapping[str, tuple[dict[str, bytes], dict[str, Any]]] = {
    "python": ({"main.py": PYTHON}, {}),
    "command": ({"serve.py": LISTENS.encode()}, {"command": ("python", "serve.py"), "entry": ""}),
    "mcp": (
        {"server.py": STDIO.encode(), "connector.toml": b"[tool.echo_say]\n"},
        {"command": ("python", "server.py"), "entry": ""},
    ),
    "deno": ({"main.ts": DENO}, {"entry": "main.ts"}),
    "image": ({"connector.toml": b""}, {"entry": ""}),
}


def perl_image(folder: Path) -> str:
    """Import an image that is perl and the server above; its name by digest. OSError or
    CalledProcessError where podman is not there, or cannot.
    """
    archive = folder / "perl.tar"
    archive.write_bytes(_root())
    command = '["/usr/bin/perl", "/app/serve.pl"]'
    name = "localhost/handler-coldstart"
    _said("podman", "import", "--quiet", "--change", f"ENTRYPOINT {command}", str(archive), f"{name}:1")
    digest = _said("podman", "image", "inspect", "--format", "{{.Digest}}", f"{name}:1").strip()
    return f"{name}@{digest}"


def forget_image() -> None:
    """Remove it again."""
    subprocess.run(("podman", "rmi", "localhost/handler-coldstart:1"), capture_output=True, check=False)


def _root() -> bytes:
    libraries = re.findall(r"(/\S+) \(0x", _said("ldd", "/usr/bin/perl"))
    modules = _said("perl", "-e", "print for grep { m{perl-base} } @INC")
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as made:
        for path in ("/usr/bin/perl", *libraries):
            made.add(Path(path).resolve(), path.lstrip("/"))
        made.add(modules, modules.lstrip("/"))
        entry = tarfile.TarInfo("app/serve.pl")
        entry.size, entry.mode = len(PERL.encode()), 0o644
        made.addfile(entry, io.BytesIO(PERL.encode()))
    return whole.getvalue()


def _said(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout
