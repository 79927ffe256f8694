"""OCI images as connectors: podman keeps their files, and our sandbox shows them.

Where podman is not installed, a program that answers as it does stands in for it, so that all of ours is run;
one test more asks the real one, and is skipped where there is none.
"""

import asyncio
import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.model.recipes import Pinned, Recipe, folder_digest
from reconciler.runtime import images
from reconciler.runtime.environments import NotBuiltError
from reconciler.runtime.gating import Gated
from reconciler.runtime.images import Images
from reconciler.runtime.workshop import Unready
from tests.runtime.rig import Line, Rig, rig

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("perl", path="/usr/bin") is None, reason="no /usr/bin/perl"),
]

REFERENCE = f"localhost/handler-trial@sha256:{'a' * 64}"
CODE = Pinned(folder_digest({"connector.toml": b""}), {"connector.toml": b""})
SERVER = r"""
use Socket;
socket(my $door, PF_UNIX, SOCK_STREAM, 0) or die;
bind($door, pack_sockaddr_un($ENV{HANDLER_CONNECTOR_SOCKET})) or die "bind: $!";
listen($door, 8);
print STDERR "the image serves\n";
while (accept(my $wire, $door)) {
    next if fork;
    select((select($wire), $| = 1)[0]);
    while (my $line = <$wire>) {
        my ($id) = $line =~ /"id":\s*(\d+)/ or next;
        my $result = '{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{}}';
        if ($line =~ m{"look":\s*"([^"]*)"}) {
            my $path = $1;
            my @names = sort glob("$path/*");
            my $found = -d $path ? "a folder of " . @names : -e $path ? "a file" : "nothing";
            $result = qq({"content":[],"structuredContent":{"found":"$found"}});
        } elsif ($line =~ m{"write":\s*"([^"]*)"}) {
            my $said = open(my $file, ">", $1) ? "written" : "$!";
            $result = qq({"content":[],"structuredContent":{"found":"$said"}});
        } elsif ($line =~ m{"variable":\s*"([^"]*)"}) {
            $result = qq({"content":[],"structuredContent":{"found":"$ENV{$1}"}});
        } elsif ($line =~ /"who"/) {
            my $cwd = readlink("/proc/self/cwd");
            my ($caps) = join("", do { open my $f, "<", "/proc/self/status"; <$f> }) =~ /CapEff:\s*(\w+)/;
            $result = qq({"content":[],"structuredContent":{"found":"$> $caps $cwd"}});
        } elsif ($line =~ /"gate"/) {
            socket(my $out, PF_UNIX, SOCK_STREAM, 0);
            my $said = connect($out, pack_sockaddr_un($ENV{HANDLER_GATE_SOCKET})) ? "" : "$!";
            syswrite($out, "GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n");
            while (sysread($out, my $part, 4096)) { $said .= $part }
            $result = qq({"content":[],"structuredContent":{"found":"$said"}});
        } elsif ($line =~ /"socket"/) {
            my $there = pack_sockaddr_in(53, inet_aton("1.1.1.1"));
            socket(my $out, PF_INET, SOCK_STREAM, 0);
            my $said = connect($out, $there) ? "OPEN" : "$!";
            $result = qq({"content":[],"structuredContent":{"found":"$said"}});
        }
        print $wire qq({"jsonrpc":"2.0","id":$id,"result":$result}\n);
    }
    exit 0;
}
"""
STDIO = r"""
$| = 1;
while (my $line = <STDIN>) {
    my ($id) = $line =~ /"id":\s*(\d+)/ or next;
    my $result = '{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{}}';
    $result = '{"tools":[{"name":"scan","inputSchema":{"type":"object"}}]}' if $line =~ m{tools/list};
    my ($what) = $line =~ /"what":\s*"(\w+)"/;
    $result = qq({"content":[{"type":"text","text":"$what"}],"isError":true}) if $line =~ /"scan".*"bad"/;
    $result = qq({"content":[],"structuredContent":{"said":"$what"}}) if $line =~ /"scan".*"good"/;
    print qq({"jsonrpc":"2.0","id":$id,"result":$result}\n);
}
"""
MAPPING = b"""
[tool.x]
from = "scan"
input = "{what: look}"
output = "{found: structured.said}"
errors = { bad = "broken" }
"""
CONFIG = {
    "Entrypoint": ["perl"],
    "Cmd": ["/app/serve.pl"],
    "WorkingDir": "/app",
    "Env": ["PATH=/opt/bin:/usr/bin", "GREETING=from the image", "LD_PRELOAD=/evil.so", "HOME=/nowhere"],
}


def rootfs() -> bytes:
    """A small system of its own: perl with the modules and libraries that it needs, as an archive."""
    listed = subprocess.run(["ldd", "/usr/bin/perl"], capture_output=True, text=True, check=True).stdout
    libraries = re.findall(r"(/\S+) \(0x", listed)
    modules = subprocess.run(
        ["perl", "-e", "print for grep { m{perl-base} } @INC"], capture_output=True, text=True, check=True
    ).stdout
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        for path in ("/usr/bin/perl", *libraries):
            archive.add(Path(path).resolve(), path.lstrip("/"))
        archive.add(modules, modules.lstrip("/"))
        archive.addfile(*file("app/serve.pl", SERVER.encode()))
        archive.addfile(*file("app/stdio.pl", STDIO.encode()))
        archive.addfile(*file("etc/motd", b"of the image"))
        link = tarfile.TarInfo("opt/bin")
        link.type, link.linkname = tarfile.SYMTYPE, "/usr/bin"
        archive.addfile(link)
    return whole.getvalue()


def file(name: str, content: bytes, **more: Any) -> tuple[tarfile.TarInfo, io.BytesIO]:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o755
    for key, value in more.items():
        setattr(entry, key, value)
    return entry, io.BytesIO(content)


@pytest.fixture
def keeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A program that answers as podman does, for one image; its archive and config are files beside it."""
    program = tmp_path / "podman"
    program.write_text(
        f'#!/bin/sh\nset -e\ncd {tmp_path}\necho "$@" >> asked\n'
        'case "$1 $2" in\n"image inspect") cat inspected ;;\n"create "*) echo c0ffee ;;\n'
        '"export c0ffee") cat archive ;;\n"rm --force") ;;\n*) exit 9 ;;\nesac\n'
    )
    program.chmod(0o755)
    (tmp_path / "inspected").write_text(json.dumps([{"Config": CONFIG}]))
    monkeypatch.setattr(images, "_tool", lambda: str(program))
    yield tmp_path


async def found(line: Line, **arguments: str) -> str:
    reply = await line.ask("tools/call", {"name": "x", "arguments": arguments})
    said: str = reply["result"]["structuredContent"]["found"]
    return said


async def lives(made: Rig, reference: str) -> Line:
    """A connector that is an image runs as any other does, and sees its own system alone."""
    name = await made.declare(
        "picture", CODE, runtime="image", image=reference, entry="", settings=(("WORD", "hello"),),
        egress=("api.example.com:443",), ready_timeout_s=60,
    )  # fmt: skip
    endpoint, line = await made.open(name)
    assert await found(line, look="/etc/motd") == "a file"
    for hidden in (
        "/etc/passwd",
        "/usr/bin/env",
        "/home",
        "/root",
        "/usr/share",
        "/opt/bin/sh",
        "/app/connector.toml",
    ):
        assert await found(line, look=hidden) == "nothing", hidden
    ours = f"/.handler/python/lib/python{sys.version_info[0]}.{sys.version_info[1]}"
    assert await found(line, look=f"{ours}/site-packages") in ("nothing", "a folder of 0")
    for path in ("/etc/x", "/usr/bin/x", "/app/x", "/x", "/.handler/x", "/kit/x"):
        assert await found(line, write=path) in ("Read-only file system", "Permission denied"), path
    assert await found(line, write="/tmp/x") == "written"
    variables = {
        name: await found(line, variable=name) for name in ("GREETING", "WORD", "PATH", "LD_PRELOAD")
    }
    assert variables == {
        "GREETING": "from the image", "WORD": "hello", "PATH": "/opt/bin:/usr/bin", "LD_PRELOAD": "",
    }  # fmt: skip
    assert await found(line, variable="HOME") == "/tmp"
    assert await found(line, variable="HTTPS_PROXY") == "http://127.0.0.1:3128"
    who, caps, folder = (await found(line, who="")).split()
    assert (who != "0", caps, folder) == (True, "0" * 16, "/app")
    assert await found(line, socket="") == "Network is unreachable"
    assert not endpoint.ended.done()
    return line


async def closed(recipe: object, listener: Any) -> Any:
    listener.close()
    return lambda: None


class Gate:
    """Stands for the gate: answers whoever connects with what it heard first."""

    def __init__(self) -> None:
        self.serving: list[asyncio.Task[Any]] = []

    def __call__(self, recipe: Recipe, listener: socket.socket, gated: Gated) -> Callable[[], None]:
        async def came(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            line = await reader.readline()
            writer.write(recipe.egress[0].encode() + b" hears " + line.strip())
            writer.close()

        listener.setblocking(False)
        opening = asyncio.start_unix_server(came, sock=listener)
        self.serving.append(asyncio.get_running_loop().create_task(opening))
        return lambda: self.serving.pop().result().close()


def test_an_image_runs_inside_our_sandbox_and_sees_its_own_system_alone(keeper: Path) -> None:
    (keeper / "archive").write_bytes(rootfs())

    async def story() -> None:
        async with rig(way_out=closed, gate=Gate()) as made:
            line = await lives(made, REFERENCE)
            assert await found(line, gate="") == "api.example.com:443 hears GET / HTTP/1.1"
            log = (made.base / "state" / "logs" / "picture.log").read_text()
            assert "the image serves" in log

    asyncio.run(story())
    asked = (keeper / "asked").read_text().splitlines()
    assert asked == [
        f"image inspect {REFERENCE}",
        f"create --network none --pull never {REFERENCE} /none",
        "export c0ffee",
        "rm --force c0ffee",
    ]


def test_an_image_of_a_wrapped_server_answers_by_its_mapping(keeper: Path) -> None:
    (keeper / "archive").write_bytes(rootfs())
    (keeper / "inspected").write_text(json.dumps([{"Config": CONFIG | {"Cmd": ["/app/stdio.pl"]}}]))

    async def story() -> None:
        files = {"connector.toml": MAPPING}
        async with rig() as made:
            more = {"runtime": "image", "image": REFERENCE, "entry": "connector.toml", "ready_timeout_s": 60}
            name = await made.declare("scanner", Pinned(folder_digest(files), files), **more)
            _, line = await made.open(name)
            assert await found(line, look="good") == "good"
            refused = await line.ask("tools/call", {"name": "x", "arguments": {"look": "bad"}})
            assert refused["result"]["_meta"]["ai.handler/error"]["code"] == "broken"

    asyncio.run(story())


def test_an_image_that_is_not_here_says_how_to_get_it_and_is_never_pulled(keeper: Path) -> None:
    (keeper / "inspected").unlink()

    async def story() -> str:
        async with rig() as made:
            name = await made.declare("picture", CODE, runtime="image", image=REFERENCE, ready_timeout_s=1)
            with pytest.raises(Unready) as refused:
                await made.supervisor.ready(name)
            return refused.value.message

    assert f"the image is not on this machine: podman pull {REFERENCE}" in asyncio.run(story())
    assert set((keeper / "asked").read_text().splitlines()) == {f"image inspect {REFERENCE}"}


def test_a_podman_that_does_not_work_is_not_taken_for_a_missing_image(keeper: Path) -> None:
    broken = "#!/bin/sh\necho 'Error: cannot clone: Operation not permitted' >&2\nexit 125\n"
    (keeper / "podman").write_text(broken)
    with pytest.raises(NotBuiltError, match="exit 125: Error: cannot clone: Operation not permitted"):
        asyncio.run(Images(keeper / "images").unpack(REFERENCE))


@pytest.mark.parametrize("slow", ["image inspect", "create"])
def test_a_podman_that_hangs_is_ended_with_everything_else(keeper: Path, slow: str) -> None:
    program, real = keeper / "podman", keeper / "real"
    program.rename(real)
    program.write_text(
        f'#!/bin/sh\ncase "$*" in "{slow}"*) echo $$ > {keeper}/pid.new; mv {keeper}/pid.new {keeper}/pid; '
        f'sleep 50; exit 0 ;; esac\nexec {real} "$@"\n'
    )
    program.chmod(0o755)

    async def story() -> float:
        made = Images(keeper / "images")
        asking = asyncio.ensure_future(made.unpack(REFERENCE))
        while not (keeper / "pid").exists():
            await asyncio.sleep(0.01)
        began = asyncio.get_running_loop().time()
        made.close()
        with pytest.raises(NotBuiltError):
            await asking
        return asyncio.get_running_loop().time() - began

    assert asyncio.run(story()) < 40, "it did not wait for podman"
    with pytest.raises(ProcessLookupError):
        os.kill(int((keeper / "pid").read_text()), 0)


def test_without_podman_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconciler.runtime.searched._SEARCHED", (str(tmp_path),))
    with pytest.raises(NotBuiltError, match="install the package podman"):
        asyncio.run(Images(tmp_path / "images").unpack(REFERENCE))


HOSTILE = {
    "a name that climbs": [file("../outside", b"x")],
    "a name through a link": [
        file("way", b"", type=tarfile.SYMTYPE, linkname="/tmp"),
        file("way/outside", b"x"),
    ],
    "a hard link to the host": [file("shadow", b"", type=tarfile.LNKTYPE, linkname="../../../etc/shadow")],
    "a hard link through a link": [
        file("way", b"", type=tarfile.SYMTYPE, linkname="/etc"),
        file("shadow", b"", type=tarfile.LNKTYPE, linkname="way/shadow"),
    ],
    "a file in place of a link": [
        file("way", b"", type=tarfile.SYMTYPE, linkname="../../outside"),
        file("way", b"x"),
    ],
    "a folder in place of a link": [
        file("way", b"", type=tarfile.SYMTYPE, linkname="/tmp"),
        file("way", b"", type=tarfile.DIRTYPE),
    ],
    "a file that is written twice": [file("one", b"x"), file("one", b"y")],
    "a link in place of the image": [file("./", b"", type=tarfile.SYMTYPE, linkname="/tmp")],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_an_archive_that_leads_out_of_its_folder_is_not_unpacked(keeper: Path, name: str) -> None:
    with tarfile.open(keeper / "archive", "w") as archive:
        for entry, content in HOSTILE[name]:
            archive.addfile(entry, content if entry.isreg() else None)
    held = Images(keeper / "images")
    with pytest.raises(NotBuiltError, match="cannot be unpacked"):
        asyncio.run(held.unpack(REFERENCE))
    assert held.unpacked(REFERENCE) is None
    assert list((keeper / "images").iterdir()) == []
    assert not any(path.name == "outside" for path in keeper.rglob("*"))


def test_a_second_name_of_a_link_changes_nothing_where_the_link_leads(keeper: Path) -> None:
    """podman hands over such a pair: a mode or an owner set by that name would be set outside."""
    kept = keeper / "kept"
    kept.write_text("of a person")
    kept.chmod(0o600)
    os.utime(kept, (5, 5))
    with tarfile.open(keeper / "archive", "w") as archive:
        archive.addfile(file("way", b"", type=tarfile.SYMTYPE, linkname=str(kept))[0])
        archive.addfile(file("second", b"", type=tarfile.LNKTYPE, linkname="way")[0])
        archive.addfile(file("lost", b"", type=tarfile.LNKTYPE, linkname="device")[0])
        archive.addfile(*file("compiled", b"x", mtime=7))
    held = Images(keeper / "images")
    asyncio.run(held.unpack(REFERENCE))
    image = held.unpacked(REFERENCE)
    assert image is not None
    assert sorted(one.name for one in image.root.iterdir()) == ["app", "compiled", "second", "way"]
    assert (image.root / "compiled").stat().st_mtime == 7
    found = kept.stat()
    assert (found.st_mode & 0o777, found.st_mtime, kept.read_text()) == (0o600, 5, "of a person")


NUL = "\0--bind\0/\0/tmp"


@pytest.mark.parametrize("said", [{"WorkingDir": f"/{NUL}"}, {"Env": [f"A=b{NUL}"]}, {"Cmd": ["x", NUL]}])
def test_what_an_image_says_of_itself_is_never_an_option_of_the_sandbox(
    keeper: Path, said: dict[str, Any]
) -> None:
    (keeper / "inspected").write_text(json.dumps([{"Config": CONFIG | said}]))
    with pytest.raises(NotBuiltError, match=f"of its {next(iter(said))} is no text"):
        asyncio.run(Images(keeper / "images").unpack(REFERENCE))
    assert (keeper / "asked").read_text().splitlines() == [f"image inspect {REFERENCE}"]


def test_devices_and_set_user_id_bits_are_left_behind(keeper: Path) -> None:
    with tarfile.open(keeper / "archive", "w") as archive:
        archive.addfile(file("su", b"x", mode=0o6777)[0], io.BytesIO(b"x"))
        archive.addfile(file("null", b"", type=tarfile.CHRTYPE, devmajor=1, devminor=3)[0])
        archive.addfile(file("pipe", b"", type=tarfile.FIFOTYPE)[0])
    held = Images(keeper / "images")
    asyncio.run(held.unpack(REFERENCE))
    image = held.unpacked(REFERENCE)
    assert image is not None
    assert sorted(path.name for path in image.root.iterdir()) == ["app", "su"]  # it starts in /app
    assert (image.root / "su").stat().st_mode & 0o7777 == 0o755


def test_an_image_that_several_want_is_unpacked_once(keeper: Path) -> None:
    (keeper / "archive").write_bytes(rootfs())
    held = Images(keeper / "images")

    async def story() -> None:
        first = asyncio.ensure_future(held.unpack(REFERENCE))
        rest = [asyncio.ensure_future(held.unpack(REFERENCE)) for _ in range(3)]
        await asyncio.sleep(0)
        first.cancel()  # who leaves takes nothing from the others
        await asyncio.gather(*rest)

    asyncio.run(story())
    assert held.unpacked(REFERENCE) is not None
    assert (keeper / "asked").read_text().splitlines().count("export c0ffee") == 1
    assert [path.name for path in (keeper / "images").iterdir()] == ["a" * 64]


@pytest.mark.skipif(shutil.which("podman", path="/usr/bin") is None, reason="podman is not installed")
def test_podman_keeps_the_image_and_runs_nothing(tmp_path: Path) -> None:
    """The real one, on an image that it is handed as an archive: no registry is asked."""
    (tmp_path / "archive").write_bytes(rootfs())
    changes = [f"ENV {one}" for one in CONFIG["Env"] if "LD_" not in one] + [
        'ENTRYPOINT ["perl"]', 'CMD ["/app/serve.pl"]', "WORKDIR /app",
    ]  # fmt: skip

    def podman(*words: str) -> str:
        done = subprocess.run(["podman", *words], capture_output=True, text=True, check=False)
        if done.returncode and "import" in words:
            pytest.skip(f"podman does not work here: {done.stderr.strip()[-200:]}")
        return done.stdout.strip()

    options = [part for one in changes for part in ("--change", one)]
    tag = f"localhost/handler-trial-{os.getpid()}:1"
    podman("import", *options, str(tmp_path / "archive"), tag)
    try:
        (inspected,) = json.loads(podman("image", "inspect", tag))
        reference = inspected["RepoDigests"][0]

        async def story() -> None:
            async with rig(way_out=closed) as made:
                await lives(made, reference)

        asyncio.run(story())
        assert podman("ps", "--all", "--quiet", "--filter", f"ancestor={tag}") == ""
    finally:
        podman("rmi", "--force", tag)
