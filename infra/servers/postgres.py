"""A PostgreSQL, from Debian's package: made, stopped and started again, gone in the end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from photon.process.errors import UserError

USER = "postgres"  # Debian's; the server refuses to run as root
HOST = "127.0.0.1"
PATIENCE_SECONDS = 120


class PostgresMissing(UserError):
    """There is no PostgreSQL on this machine; the message names the remedy."""


def programs() -> Path:
    """Find the folder of the newest PostgreSQL on this machine. PostgresMissing."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if not found:
        raise PostgresMissing("there is no PostgreSQL on this machine: apt-get install postgresql")
    return found[-1].parent


@dataclass(frozen=True)
class Postgres:
    """A server in a folder of its own, at a port of the loopback address."""

    programs: Path
    folder: Path
    port: int
    settings: tuple[str, ...] = ()  # of its own, as NAME=VALUE

    def database(self, name: str) -> dict[str, str]:
        """Make an empty database; return the environment by which infra/production/dagster.yaml finds it."""
        self._run("createdb", *self._who, name)
        return {
            "PHOTON_PG_HOST": HOST,
            "PHOTON_PG_PORT": str(self.port),
            "PHOTON_PG_DATABASE": name,
            "PHOTON_PG_USER": USER,
            "PHOTON_PG_PASSWORD": "any",  # the server trusts who is on this machine
        }

    def url(self, database: str) -> str:
        """Return the address of a database, as libpq takes it."""
        return f"postgresql://{USER}@{HOST}:{self.port}/{database}"

    def make(self) -> None:
        """Make the server's folder."""
        self._run("initdb", "--auth=trust", "--no-sync", f"--username={USER}", "--pgdata", self._data)

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        settings = f"listen_addresses={HOST}", f"unix_socket_directories={self.folder}", *self.settings
        options = " -c ".join([f"-p {self.port}", *settings])
        log = self.folder / "server.log"
        self._run("pg_ctl", "start", "--wait", "--pgdata", self._data, "--options", options, "--log", log)

    def stop(self) -> None:
        """Stop the server in order, and cut all connections."""
        self._run("pg_ctl", "stop", "--wait", "--mode=fast", "--pgdata", self._data)

    def kill(self) -> None:
        """End it by kill -9, as a machine that dies; its helpers see it and end by themselves."""
        os.kill(int((self.folder / "data" / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)

    def start_again(self) -> None:
        """Start it behind a kill: it refuses as long as a helper of the killed one lives."""
        for _ in range(PATIENCE_SECONDS):
            try:
                return self.start()
            except subprocess.CalledProcessError:
                time.sleep(0.1)
        raise AssertionError(f"it did not start: {(self.folder / 'server.log').read_text()[-2_000:]}")

    def back_up(self, name: str) -> None:
        """Write a database into a file, as docs/dagster.md says; the file's name is the database's."""
        self._run("pg_dump", *self._who, "-Fc", "--file", self.folder / name, name)

    def put_back(self, name: str) -> None:
        """Replace a database by the content of its file."""
        self._run("pg_restore", *self._who, "--clean", "-d", name, self.folder / name)

    @property
    def _who(self) -> tuple[str, ...]:
        return f"--host={HOST}", f"--port={self.port}", f"--username={USER}"

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _run(self, program: str, *arguments: str | Path) -> None:
        subprocess.run(
            [self.programs / program, *arguments], check=True, timeout=PATIENCE_SECONDS, cwd=self.folder,
            stdout=subprocess.DEVNULL, **_other_user(),
        )  # fmt: skip


def _other_user() -> dict[str, Any]:
    return {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}


@contextmanager
def postgres(port: int, *settings: str) -> Iterator[Postgres]:
    """A server that runs. PostgresMissing."""
    found = programs()
    # A folder of root's does not do: it is closed to the server's user.
    folder = Path(tempfile.mkdtemp(prefix="photon-postgres-"))
    if os.geteuid() == 0:
        shutil.chown(folder, USER, USER)
    server = Postgres(found, folder, port, settings)
    try:
        server.make()
        server.start()
        yield server
    finally:
        if (folder / "data" / "postmaster.pid").exists():
            server.stop()
        shutil.rmtree(folder)
