"""A PostgreSQL of Debian's on this machine for as long as a test runs: a cluster of its own in a temp folder.

As root it runs as the user ``nobody``, since PostgreSQL refuses root. Nothing listens but a Unix socket, and
``loopback`` where a password is wanted.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

PASSWORD = "correct-horse-battery"


def program(name: str) -> str | None:
    """Where a program of PostgreSQL lies; Debian keeps them out of the PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda one: int(one.parts[4]))
    return str(found[-1]) if found else shutil.which(name)


def missing() -> str:
    """Why no server can be started here; "" where one can."""
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return "psycopg is not installed (pip install 'handler-reconciler[postgres]')"
    return "" if program("initdb") else "no PostgreSQL on this machine: `make flows-postgres` installs it"


@dataclass
class Server:
    """One cluster. ``url()`` gives an address with an empty schema of its own."""

    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp")))
    port: int = 0
    _process: subprocess.Popen[bytes] | None = None
    _schemas: int = 0

    def __post_init__(self) -> None:
        self._who = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] * (os.geteuid() == 0)
        if self._who:
            os.chown(self.folder, 65534, 65534)
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        initdb = [program("initdb"), "-D", self.folder / "data", "-U", "handler", "--no-sync", "-E", "UTF8"]
        made = subprocess.run(
            [*self._who, *initdb, "--locale=C", "--auth-local=trust", "--auth-host=scram-sha-256",
             f"--pwfile={secret}"],
            capture_output=True, text=True, timeout=100, check=False, cwd=self.folder,
        )  # fmt: skip
        assert made.returncode == 0, made.stderr
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = {
            "listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": self.folder,
            "fsync": "off", "shared_buffers": "16MB", "max_connections": 40,
        }  # fmt: skip
        settings = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._who, program("postgres"), "-D", self.folder / "data", *settings],
                stdout=log, stderr=log, cwd=self.folder,
            )  # fmt: skip
        deadline = time.monotonic() + 60
        while not self._answers():
            assert time.monotonic() < deadline, (self.folder / "log").read_text()
            assert self._process.poll() is None, (self.folder / "log").read_text()
            time.sleep(0.02)

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.plain()).close()
        except psycopg.OperationalError:
            return False
        return True

    def plain(self) -> str:
        """The address by the socket, where no password is asked for."""
        return f"postgresql://handler@/postgres?host={self.folder}&port={self.port}"

    def loopback(self, schema: str = "public") -> str:
        """The address by TCP, where ``PASSWORD`` is asked for."""
        options = f"?options=-csearch_path%3D{schema}"
        return f"postgresql://handler@127.0.0.1:{self.port}/postgres{options}"

    def schema(self) -> str:
        """A new, empty schema."""
        import psycopg

        self._schemas += 1
        name = f"ledger{self._schemas}"
        with psycopg.connect(self.plain(), autocommit=True) as base:
            base.execute(f"CREATE SCHEMA {name}".encode())
        return name

    def url(self) -> str:
        """The address of a new, empty ledger."""
        return f"{self.plain()}&options=-csearch_path%3D{self.schema()}"

    def kill(self) -> None:
        """End it at once, with every connection."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(30)
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait(30)
            self._process = None

    def close(self) -> None:
        """End it and take its folder away."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
