"""What a machine is started from: Debian's kernel, a disk of Debian and python's packages, and the checkout.

Nothing of the foreign machine runs while its disk is made: packages are laid out without their scripts, which
systemd, python and bubblewrap do without. The disk is kept in ``.cache/machines``, under a name that changes
with what it is made from.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
KEPT = CHECKOUT / ".cache" / "machines"
REQUIREMENTS = CHECKOUT / "requirements" / "dev.txt"
HERE = Path(__file__).parent
SUITE = "bookworm"
PACKAGES = (
    "python3",
    "bubblewrap",
    "util-linux",
    "systemd",
    "systemd-sysv",
    "busybox-static",
    "git",
    "strace",
)
# From the kernel's own folder, in the order in which they need each other: a disk over PCI.
MODULES = (
    "virtio",
    "virtio_ring",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "virtio_blk",
)
DEBIAN: Mapping[str, str] = {"x86_64": "amd64", "aarch64": "arm64"}
USER = 1000
_GLIBC = range(17, 37)  # the wheels that Debian 12's C library, 2.36, can load


@dataclass(frozen=True, slots=True)
class Made:
    """What one machine is started from."""

    kernel: Path
    initrd: Path
    disk: Path


def made(machine: str) -> Made:
    """What there is for this kind of machine (as ``uname -m`` says it); made when it is not kept."""
    folder = KEPT / f"{machine}-{_digest()}"
    if not folder.exists():
        for old in KEPT.glob(f"{machine}-*"):
            shutil.rmtree(old)
        KEPT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=KEPT) as place:
            _make(machine, Path(place))
            (Path(place) / "whole").rename(folder)
    return Made(folder / "kernel", folder / "initrd", folder / "disk")


def checkout(disk: Path) -> None:
    """A disk with the checkout as it stands, with what is not committed yet."""
    with tempfile.TemporaryDirectory() as place:
        files = _said("git", "-C", CHECKOUT, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        present = [one for one in files.split("\0") if one and (CHECKOUT / one).exists()]
        _run("cp", "--parents", "-a", "-t", place, *present, cwd=CHECKOUT)
        _run("chown", "-R", "0:0", place)
        Path(place).chmod(0o755)
        (Path(place) / ".venv").mkdir()
        _compiled(Path(place), Path(place) / "reconciler", Path(place) / "tests")
        _ext4(Path(place), disk, "64M")


@cache
def _digest() -> str:
    whole = hashlib.sha256(REQUIREMENTS.read_bytes())
    for one in (Path(__file__), HERE / "init"):
        whole.update(one.read_bytes())
    return whole.hexdigest()[:12]


def _make(machine: str, place: Path) -> None:
    root, whole, first = place / "root", place / "whole", place / "first"
    whole.mkdir()
    _debian(DEBIAN[machine], root)
    _packages(machine, root / "venv")
    _settled(root)
    (kernel,) = (root / "boot").glob("vmlinuz-*")
    shutil.copy(kernel, whole / "kernel")
    _first(root, first)
    names = "\n".join(str(one.relative_to(first)) for one in sorted(first.rglob("*")))
    with (whole / "initrd").open("wb") as file:
        packed = ["cpio", "--create", "--format=newc", "--quiet"]
        subprocess.run(packed, cwd=first, input=names.encode(), stdout=file, check=True)
    shutil.rmtree(root / "boot")
    _compiled(root, root / "usr/lib/python3.11", root / "venv")
    _ext4(root, whole / "disk", "2G")


def _debian(debian: str, root: Path) -> None:
    """Debian, as its packages lie in their archives."""
    names = ",".join((*PACKAGES, f"linux-image-cloud-{debian}"))
    _run(
        "debootstrap", "--foreign", f"--arch={debian}", "--variant=minbase", f"--include={names}", SUITE, root
    )
    for package in sorted((root / "var/cache/apt/archives").glob("*.deb")):
        with subprocess.Popen(("dpkg-deb", "--fsys-tarfile", package), stdout=subprocess.PIPE) as archive:
            subprocess.run(
                ("tar", "-x", "--keep-directory-symlink", "-C", root), stdin=archive.stdout, check=True
            )
        package.unlink()


def _packages(machine: str, venv: Path) -> None:
    """An environment with what the tests import, of that machine's wheels."""
    site = venv / "lib/python3.11/site-packages"
    site.mkdir(parents=True)
    kinds = [f"--platform=manylinux_2_{minor}_{machine}" for minor in _GLIBC]
    _run(
        *("python3", "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"),
        *("--no-compile", "--only-binary=:all:", "--require-hashes", "--python-version=3.11", *kinds),
        *(f"--platform=manylinux2014_{machine}", "--target", site, "-r", REQUIREMENTS),
    )
    (site / "bin").rename(venv / "bin")
    (venv / "bin/python").symlink_to("/usr/bin/python3.11")
    (venv / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11\n")
    (site / "checkout.pth").write_text("/handler\n")


def _settled(root: Path) -> None:
    """What is needed of what the scripts of packages would have written."""
    for name, more in (
        ("passwd", f"tester:x:{USER}:{USER}::/home/tester:/bin/sh\n"),
        ("group", f"tester:x:{USER}:\n"),
    ):
        (root / "etc" / name).write_text((root / f"usr/share/base-passwd/{name}.master").read_text() + more)
    for name in ("dev", "proc", "sys"):  # links, where a container made them
        if (folder := root / name).is_symlink():
            folder.unlink()
            folder.mkdir()
    (root / "etc/machine-id").write_text("")
    (root / "handler").mkdir()
    (home := root / "home/tester").mkdir(parents=True)
    shutil.chown(home, USER, USER)


def _first(root: Path, first: Path) -> None:
    """The little system that mounts the disks: busybox, and the kernel's modules for a disk."""
    for name in ("bin", "modules", "dev", "proc", "root"):
        (first / name).mkdir(parents=True)
    shutil.copy(root / "bin/busybox", first / "bin/busybox")
    (first / "bin/sh").symlink_to("busybox")
    for place, name in enumerate(MODULES):
        (module,) = (root / "lib/modules").rglob(f"{name}.ko")
        shutil.copy(module, first / "modules" / f"{place}-{name}.ko")
    shutil.copy(HERE / "init", first / "init")


def _compiled(root: Path, *folders: Path) -> None:
    """Compile python's files here, once: an emulated machine would take seconds for it at each start."""
    quiet = ("-m", "compileall", "-q", "-j", "2", "-s")
    subprocess.run((sys.executable, *quiet, root, *folders), capture_output=True, check=False)


def _ext4(folder: Path, disk: Path, size: str) -> None:
    _run("mke2fs", "-q", "-t", "ext4", "-d", folder, disk, size)


def _run(*command: str | Path, cwd: Path | None = None) -> None:
    ran = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SystemExit(f"{command[0]} failed:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")


def _said(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
