"""Followers and the server die by kill -9 at random moments: the table is that of its cursor's release."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import psycopg2
import pytest

from tests.feed.made_history import History, Rows
from tests.services.postgres import HOST, USER, Postgres, postgres

pytestmark = pytest.mark.services
PORT = 54331
URL = f"postgresql://{USER}@{HOST}:{PORT}/fed"
RELEASES_A_KILL = 60
KILLED_WITHIN_SECONDS = 0.3
PATIENCE_SECONDS = 60
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres(PORT) as found:
        found.database("fed")
        yield found


def release_and_rows(table: str) -> tuple[int, Rows]:
    """The cursor's release and the table's rows, of one moment."""
    with closing(psycopg2.connect(URL)) as connection, connection.cursor() as run:
        run.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        run.execute("SELECT to_regclass('photon_cursors'), to_regclass(%s)", (table,))
        if None in run.fetchone():
            return 0, {}
        run.execute("SELECT release FROM photon_cursors WHERE name = %s", (table,))
        number = run.fetchone()[0]
        run.execute(f"SELECT row_to_json(t) FROM {table} t")
        rows = [one for (one,) in run.fetchall()]
    keys = "_datacenter", "_epoch", "_batch", "_occurrence"
    return number, {tuple(one[name] for name in keys): (one["position"], one.get("country")) for one in rows}


@dataclass
class Trial:
    """Two followers of one history into one table, and what becomes of them."""

    server: Postgres
    folder: Path
    seed: int
    kills: int
    target: int = 0
    followers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.table = f"history_{self.seed}"
        self.random = random.Random(self.seed)
        self.history = History(self.seed, self.kills * RELEASES_A_KILL)

    def run(self) -> None:
        self.raise_target()
        try:
            self.followers = [self.follower() for _ in range(2)]
            for _ in range(self.kills):
                self.wait_for(self.target - RELEASES_A_KILL + 1)
                time.sleep(self.random.uniform(0, KILLED_WITHIN_SECONDS))
                self.random.choice(
                    [self.kill_follower, self.kill_follower, self.kill_backend, self.kill_server]
                )()
                self.check()
                self.raise_target()
            self.wait_for(self.target)
            assert self.check() == self.target
        finally:
            for each in self.followers:
                each.kill()
                each.wait()

    def raise_target(self) -> None:
        """Have the followers find more releases."""
        self.target = min(self.target + RELEASES_A_KILL, self.kills * RELEASES_A_KILL)
        unfinished = self.folder / "unfinished"
        unfinished.write_text(str(self.target))
        unfinished.replace(self.folder / "target")

    def follower(self) -> subprocess.Popen[bytes]:
        given = [URL, self.table, self.seed, self.kills * RELEASES_A_KILL, self.folder / "target"]
        said = (self.folder / "said.log").open("ab")
        program = [sys.executable, "-m", "tests.feed.deliver_history", *map(str, given)]
        return subprocess.Popen(program, cwd=ROOT, stderr=said)

    def kill_follower(self) -> None:
        at = self.random.randrange(2)
        self.followers[at].kill()
        self.followers[at].wait()
        self.followers[at] = self.follower()

    def kill_backend(self) -> None:
        """Kill the server's process of one follower: the server ends all others, and recovers."""
        with closing(psycopg2.connect(URL)) as connection, connection.cursor() as run:
            run.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'photon follow'")
            found = [pid for (pid,) in run.fetchall()]
        if found:
            os.kill(self.random.choice(found), signal.SIGKILL)

    def kill_server(self) -> None:
        self.server.kill()
        self.server.start_again()

    def wait_for(self, number: int) -> None:
        self.in_time(lambda: release_and_rows(self.table)[0] >= number)

    def check(self) -> int:
        found: list[tuple[int, Rows]] = []
        self.in_time(lambda: bool(found.append(release_and_rows(self.table))) or True)
        number, rows = found[-1]
        assert rows == self.history.rows[number]
        return number

    def in_time(self, is_so: Callable[[], bool]) -> None:
        """Ask until it is so; a server that recovers does not answer."""
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end:
            assert all(each.poll() is None for each in self.followers), (self.folder / "said.log").read_text()
            try:
                if is_so():
                    return
            except psycopg2.OperationalError:
                time.sleep(0.05)
        raise AssertionError((self.folder / "said.log").read_text()[-2_000:])


def test_killed_at_ten_moments_the_table_is_that_of_its_cursors_release(
    server: Postgres, tmp_path: Path
) -> None:
    Trial(server, tmp_path, seed=1, kills=10).run()


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_killed_at_a_hundred_moments_the_table_is_that_of_its_cursors_release(
    server: Postgres, tmp_path: Path
) -> None:
    Trial(server, tmp_path, seed=2, kills=100).run()
