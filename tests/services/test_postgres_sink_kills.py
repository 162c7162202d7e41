"""Followers and the server die by kill -9 at random moments: the table is that of its cursor's release."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.servers.postgres import Postgres
from infra.servers.process import free_steady_port
from tests.feed.made_history import History
from tests.services.kills import Rows, Trial
from tests.services.postgres import postgres

pytestmark = pytest.mark.services
RELEASES_A_KILL = 60


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres(free_steady_port()) as found:
        found.database("fed")
        yield found


class OfMadeSteps(Trial):
    """Inserts, deletes, updates, a column that comes and a datacenter that goes, by the thousand."""

    def __init__(self, server: Postgres, folder: Path, seed: int, kills: int) -> None:
        super().__init__(server, folder, f"history_{seed}", seed)
        self.given = [str(seed), str(kills * RELEASES_A_KILL)]
        self.history, self.target = History(seed, kills * RELEASES_A_KILL, keeps_rows=True), 0
        self.put_target()

    def program(self) -> list[str]:
        program = [sys.executable, "-m", "tests.feed.deliver_history", self.url, self.table]
        return [*program, *self.given, str(self.folder / "target")]

    def release_more(self) -> tuple[int, int]:
        first = self.target + 1
        self.target += RELEASES_A_KILL
        self.put_target()
        return first, self.target

    def put_target(self) -> None:
        unfinished = self.folder / "unfinished"
        unfinished.write_text(str(self.target))
        unfinished.replace(self.folder / "target")

    def is_right(self, release: int, rows: Rows) -> bool:
        found = {key: (row["position"], row.get("country")) for key, row in rows.items()}
        return found == self.history.rows[release]


def test_killed_at_ten_moments_the_table_is_that_of_its_cursors_release(
    server: Postgres, tmp_path: Path
) -> None:
    OfMadeSteps(server, tmp_path, seed=1, kills=10).run(10)


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_killed_at_a_hundred_moments_the_table_is_that_of_its_cursors_release(
    server: Postgres, tmp_path: Path
) -> None:
    OfMadeSteps(server, tmp_path, seed=2, kills=100).run(100)
