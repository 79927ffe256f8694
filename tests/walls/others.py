"""The attempts of runtimes that bring a world of their own: an image, a script of deno's, a server elsewhere.

The image is python alone, packed from the interpreter that runs the tests; a program that answers as podman
does hands it over, so that no store of podman's is asked or changed. A script of deno's cannot run
``escapes.py``; it tries the same aims by deno's means. Of a server that is elsewhere nothing runs here but
our wrapper: the attempts are made in its place, as if the server had taken it over.
"""

import errno
import io
import json
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from reconciler.model.recipes import Pinned
from reconciler.runtime import host, images
from tests.runtime.rig import KIT, pinned
from tests.walls import escapes

SOURCE = Path(escapes.__file__).read_bytes()
SCRIPT = Path(__file__).with_name("escapes.ts")
GROUP = "a script of deno's"
PERMISSIONS, MODULES = "deno's permissions", "no module from outside"
# What deno throws. A folder of /tmp may be read, and is not there; another is refused before anybody looks.
SEEN = {
    **escapes.SEEN,
    escapes.MOUNTS: (*escapes.SEEN[escapes.MOUNTS], "NotCapable"),
    PERMISSIONS: ("NotCapable",),
    MODULES: ("TypeError",),
}
_ERRNO = re.compile(r"\(os error (\d+)\)")
REFERENCE = f"localhost/handler-walls@sha256:{'e' * 64}"
_LEFT_OUT = (
    "test",
    "site-packages",
    "dist-packages",
    "idlelib",
    "tkinter",
    "ensurepip",
    "__pycache__",
    "lib2to3",
)
_HOME = "/python"  # where the image has its interpreter: nowhere that an attempt looks


def script() -> dict[str, str]:
    """The attempts of ``escapes.ts``, each with the wall that is meant to stop it."""
    return dict(re.findall(r'^attempt\("([^"]+)", "([^"]+)"', SCRIPT.read_text(), re.MULTILINE))


def deno() -> bool:
    """Whether a script can be run here."""
    try:
        host.deno("/usr/bin/deno")
    except host.Missing:
        return False
    return True


def stopped(words: str, said: dict[str, str]) -> tuple[str, bool]:
    """What was seen of a script's attempt, and whether it is what its wall shows."""
    how = said.get("stopped", "")
    if number := _ERRNO.search(said.get("message", "")):
        how = errno.errorcode[int(number[1])]
    elif said.get("message", "").startswith("Module not found"):
        how = "ENOENT"
    return how or f"passed: {said.get('passed', '')}", how in SEEN[script()[words]]


def wrapper(base: Path, serves: bytes) -> Path:
    """A kit in whose remote wrapper the attempts stand."""
    folder = base / "kit"
    shutil.copytree(KIT.parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "handler_escapes.py").write_bytes(SOURCE)
    (folder / "handler_remote.py").write_bytes(
        serves.replace(b"import escapes", b"import handler_escapes as escapes")
    )
    return folder / KIT.name


def picture() -> Pinned:
    """The code of a connector that is an image: there is none."""
    return pinned(b"")


def libraries(path: Path) -> set[str]:
    said = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout
    return set(re.findall(r"(/\S+) \(0x", said))


def system() -> bytes:
    """The interpreter, its standard library and the libraries of both, as an archive."""
    program = Path(sys.executable).resolve()
    library = Path(sysconfig.get_path("stdlib"))
    inside = f"{_HOME}/lib/{library.name}"
    needed = libraries(program)
    for extension in (library / "lib-dynload").glob("*.so"):
        needed |= libraries(extension)
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        archive.add(program, f"{_HOME}/bin/python".lstrip("/"))
        for path in sorted(needed):
            archive.add(Path(path).resolve(), path.lstrip("/"))
        archive.add(library, inside.lstrip("/"), filter=_wanted)
        for name in ("app/escapes.py", "app/main.py"):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(SOURCE), 0o644
            archive.addfile(entry, io.BytesIO(SOURCE))
    return whole.getvalue()


def _wanted(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if any(part in _LEFT_OUT for part in entry.name.split("/")) else entry


@contextmanager
def kept(base: Path) -> Iterator[None]:
    """``REFERENCE`` is an image that podman has."""
    place = base / "podman"
    place.mkdir()
    config = {"Entrypoint": [f"{_HOME}/bin/python"], "Cmd": ["/app/escapes.py"], "WorkingDir": "/app"}
    (place / "inspected").write_text(json.dumps([{"Config": config}]))
    (place / "archive").write_bytes(system())
    program = place / "program"
    program.write_text(
        f'#!/bin/sh\nset -e\ncd {place}\ncase "$1 $2" in\n"image inspect") cat inspected ;;\n'
        '"create "*) echo c0ffee ;;\n"export c0ffee") cat archive ;;\n"rm --force") ;;\n*) exit 9 ;;\nesac\n'
    )
    program.chmod(0o755)
    with mock.patch.object(images, "_tool", lambda: str(program)):
        yield
