"""Our python inside somebody else's file system: what is mounted, how it is called, and theirs untouched.

An image has its own loader and libraries, or others, or none. So our interpreter and setpriv come with the
host's loader and libraries under one folder of ours, and are called through that loader by name; what they
start finds the image's own.
"""

import os
import sysconfig
from dataclasses import replace
from pathlib import Path

from reconciler.runtime import host
from reconciler.runtime.images import Image
from reconciler.runtime.sandbox import Host, Need, Place, steers

_AT = "/.handler"
_BUNDLE = f"{_AT}/certificates.pem"
_OURS = ("proc", "dev", "sys", "run", "tmp", "kit", "env", ".handler")  # never the image's


def furnished(place: Place, image: Image) -> tuple[Place, Host]:
    """A place as an image shows it, and the host as its programs are called there; raises host.Missing."""
    machine, ours = _room(image.root)
    needs = (ours, *(_moved(need) for need in place.needs))
    own = dict(place.variables)
    if "SSL_CERT_FILE" in own:
        own["SSL_CERT_FILE"] = _BUNDLE
    theirs = {name: value for name, value in image.variables if not steers(name)}
    if "PATH" in theirs:
        del own["PATH"]
    variables = tuple(sorted((theirs | own).items()))
    return replace(
        place, app="", words=image.words, folder=image.folder, needs=needs, variables=variables
    ), machine


def _moved(need: Need) -> Need:
    """What lies in a folder of the image's cannot be added to it: certificates go beside our own."""
    return Need(
        tuple((path, _BUNDLE if inside == host.CERTIFICATES else inside) for path, inside in need.mounts)
    )


def _room(root: Path) -> tuple[Host, Need]:
    known, loader = host.survey(), host.loader()
    if loader is None:
        raise host.Missing("this python names no dynamic loader, so it cannot run beside an image")
    tools = [Path(one) for one in (known.interpreter, known.setpriv) if one]
    libraries = sorted({str(folder) for folder in host.library_folders(*tools)})
    paths = [f"{_AT}/lib/{number}" for number in range(len(libraries))]
    stdlib = Path(sysconfig.get_paths(vars={"base": _base(known.interpreter)})["stdlib"])
    python = f"{_AT}/python/bin/{Path(known.interpreter).name}"
    mounts = {
        **dict(zip(libraries, paths, strict=True)),
        str(loader.resolve()): f"{_AT}/loader",
        known.interpreter: python,
        str(stdlib): f"{_AT}/python/lib/{stdlib.name}",
    }
    by_loader = (f"{_AT}/loader", "--library-path", ":".join(paths))
    setpriv = ""
    if known.root:
        setpriv = f"{_AT}/setpriv"
        mounts[known.setpriv] = setpriv
    hidden = [name for name in ("site-packages", "dist-packages") if (stdlib / name).is_dir()]
    machine = Host(
        bwrap=known.bwrap, setpriv=setpriv, root=known.root, interpreter=python, mounts=(),
        links=_links(root),
        hidden=tuple(f"{_AT}/python/lib/{stdlib.name}/{name}" for name in hidden), by_loader=by_loader,
    )  # fmt: skip
    ours = tuple(mounts.items())
    return machine, Need(mounts=(*_shown(root), *ours))


def _base(interpreter: str) -> str:
    return str(Path(interpreter).parent.parent)


def _shown(root: Path) -> tuple[tuple[str, str], ...]:
    return tuple((one.path, f"/{one.name}") for one in _entries(root) if not one.is_symlink())


def _links(root: Path) -> tuple[tuple[str, str], ...]:
    return tuple((f"/{one.name}", os.readlink(one.path)) for one in _entries(root) if one.is_symlink())  # noqa: PTH115


def _entries(root: Path) -> list[os.DirEntry[str]]:
    with os.scandir(root) as found:
        return sorted((one for one in found if one.name not in _OURS), key=lambda one: one.name)
