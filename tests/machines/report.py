"""`make flows-machines`: the attempts on machines that this one is not, started under emulation.

x86_64 and aarch64 with Debian's kernel, where control groups are v2 alone and systemd delegates a group to
who runs the attempts: root, then an ordinary user. Exit 1 when one attempt passed, a test failed, or a
machine did not come to its end. Arguments: which of the machines; none: both.
"""

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.machines import making

EMULATED = {
    "x86_64": ("qemu-system-x86_64", "-machine", "q35", "-cpu", "max"),
    "aarch64": ("qemu-system-aarch64", "-machine", "virt", "-cpu", "cortex-a72"),
}
CONSOLE = {"x86_64": "ttyS0", "aarch64": "ttyAMA0"}
PATIENCE_S = {"x86_64": 1800, "aarch64": 5400}
PARTS = 4  # walls and tests, as root and as an ordinary user
_ENDED = re.compile(r"^machine: \w+ ended (\d+)$")


def command(machine: str, made: making.Made, checkout: Path) -> list[str]:
    quiet = "quiet loglevel=0 systemd.show_status=no systemd.unit=machine.service panic=-1"
    disks = [f"if=virtio,format=raw,snapshot=on,file={disk}" for disk in (made.disk, checkout)]
    return [
        *("nice", "-n", "10", *EMULATED[machine]),
        *("-accel", "tcg", "-smp", "2", "-m", "3G", "-nodefaults", "-no-user-config"),
        *("-display", "none", "-serial", "stdio", "-no-reboot", "-kernel", str(made.kernel)),
        *("-initrd", str(made.initrd), "-append", f"console={CONSOLE[machine]} {quiet}"),
        *(word for disk in disks for word in ("-drive", disk)),
    ]


def lines(machine: str, made: making.Made, checkout: Path) -> Iterator[str]:
    """What the machine says from its beginning to its end."""
    with subprocess.Popen(
        ["timeout", "--kill-after=5", str(PATIENCE_S[machine]), *command(machine, made, checkout)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as running:
        assert running.stdout is not None
        try:
            yield from (line.rstrip() for line in running.stdout)
        finally:
            running.terminate()


def run(machine: str) -> bool:
    """Whether every part of one machine came to its end, and none found anything."""
    made, ends = making.made(machine), []
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="handler-machine-") as folder:
        making.checkout(disk := Path(folder) / "checkout")
        for line in lines(machine, made, disk):
            print(line, flush=True)
            if found := _ENDED.match(line):
                ends.append(found[1])
    print(f"{machine}: {len(ends)} of {PARTS} parts ended, in {time.monotonic() - start:.0f} s\n", flush=True)
    return ends == ["0"] * PARTS


def main() -> int:
    found = [run(machine) for machine in sys.argv[1:] or EMULATED]
    return 0 if all(found) else 1


if __name__ == "__main__":
    sys.exit(main())
