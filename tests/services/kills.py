"""Two followers of one table, and a server, that die by kill -9 at random moments."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2

from infra.servers.postgres import Postgres

KILLED_WITHIN_SECONDS = 0.3
PATIENCE_SECONDS = 120
ROOT = Path(__file__).parents[2]
KEY = "_datacenter", "_epoch", "_batch", "_occurrence"
Rows = Mapping[tuple[Any, ...], Mapping[str, Any]]  # rows by key


class Trial(ABC):
    """Releases come, followers deliver them, somebody dies, and the table is looked at; so many times."""

    def __init__(self, server: Postgres, folder: Path, table: str, seed: int) -> None:
        self.server, self.folder, self.table = server, folder, table
        self.random = random.Random(seed)
        self.url = server.url("fed")
        self.followers: list[subprocess.Popen[bytes]] = []
        self.made_last = 0

    @abstractmethod
    def program(self) -> list[str]:
        """The command of a follower."""

    @abstractmethod
    def release_more(self) -> tuple[int, int]:
        """Have more releases; the numbers of the first and the last one."""

    @abstractmethod
    def is_right(self, release: int, rows: Rows) -> bool:
        """Say whether these are the rows of a release."""

    def last_release(self) -> int:
        """The number of the last release, behind which none comes."""
        return self.made_last

    @property
    def ways(self) -> list[Callable[[], None]]:
        """The ways to kill somebody."""
        return [self.kill_follower, self.kill_follower, self.kill_backend, self.kill_server]

    def run(self, kills: int) -> None:
        try:
            self.followers = [self.follower() for _ in range(2)]
            for _ in range(kills):
                first, self.made_last = self.release_more()
                self.wait_for(first)
                time.sleep(self.random.uniform(0, KILLED_WITHIN_SECONDS))
                self.random.choice(self.ways)()
                self.check()
            last = self.last_release()
            self.wait_for(last)
            assert self.check() == last
        finally:
            for each in self.followers:
                each.kill()
                each.wait()

    def follower(self) -> subprocess.Popen[bytes]:
        with self.said.open("ab") as said:
            return subprocess.Popen(self.program(), cwd=ROOT, stdout=said, stderr=said)

    @property
    def said(self) -> Path:
        return self.folder / "said.log"

    def kill_follower(self) -> None:
        at = self.random.randrange(2)
        self.followers[at].kill()
        self.followers[at].wait()
        self.followers[at] = self.follower()

    def kill_backend(self) -> None:
        """Kill the server's process of one follower: the server ends all others, and recovers."""
        with closing(psycopg2.connect(self.url)) as connection, connection.cursor() as run:
            run.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'photon follow'")
            found = [pid for (pid,) in run.fetchall()]
        if found:
            os.kill(self.random.choice(found), signal.SIGKILL)

    def kill_server(self) -> None:
        self.server.kill()
        self.server.start_again()

    def look(self) -> tuple[int, Rows]:
        """The cursor's release and the table's rows, of one moment."""
        with closing(psycopg2.connect(self.url)) as connection, connection.cursor() as run:
            run.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            run.execute("SELECT to_regclass('photon_cursors'), to_regclass(%s)", (self.table,))
            if None in run.fetchone():
                return 0, {}
            run.execute("SELECT release FROM photon_cursors WHERE name = %s", (self.table,))
            release = run.fetchone()[0]
            run.execute(f"SELECT row_to_json(t) FROM {self.table} t")
            return release, {tuple(row[name] for name in KEY): row for (row,) in run.fetchall()}

    def wait_for(self, release: int) -> None:
        self.in_time(lambda: self.look()[0] >= release)

    def check(self) -> int:
        found: list[tuple[int, Rows]] = []

        def has_looked() -> bool:
            found.append(self.look())
            return True

        self.in_time(has_looked)
        release, rows = found[-1]
        assert self.is_right(release, rows), f"release {release}"
        return release

    def in_time(self, is_so: Callable[[], bool]) -> None:
        """Ask until it is so; a server that recovers does not answer."""
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end:
            assert all(each.poll() is None for each in self.followers), self.said.read_text()[-2_000:]
            try:
                if is_so():
                    return
            except psycopg2.OperationalError:
                pass
            time.sleep(0.02)
        raise AssertionError(self.standing())

    def standing(self) -> str:
        """Say where everybody stands, when nothing goes on."""
        for each in self.followers:
            each.send_signal(signal.SIGUSR1)
        time.sleep(1)
        with closing(psycopg2.connect(self.url)) as connection, connection.cursor() as run:
            run.execute(
                "SELECT pid, state, wait_event_type, wait_event, xact_start, query FROM pg_stat_activity"
            )
            server = "\n".join(map(str, run.fetchall()))
        log = (self.server.folder / "server.log").read_text()
        return f"{self.said.read_text()[-3_000:]}\n{server}\n{log[-2_000:]}"
