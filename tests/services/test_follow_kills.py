"""`photon follow` and the server die by kill -9, while rows come, are rebuilt and compacted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.releases.lakes import new_lakes
from tests.services.kills import ROOT, Rows, Trial
from tests.services.postgres import Postgres, postgres

pytestmark = pytest.mark.services
PHOTON = ROOT / ".venv" / "bin" / "photon"


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres(54332) as found:
        found.database("fed")
        yield found


class OfLakes(Trial):
    """Real tables of two datacenters, and the command that people type."""

    def __init__(self, server: Postgres, folder: Path, seed: int) -> None:
        super().__init__(server, folder, f"lakes_{seed}", seed)
        self.lakes = new_lakes(folder / "lakes", folder)
        self.lakes.rng = self.random
        self.release_more()

    def program(self) -> list[str]:
        given = ["--to", self.url, "--into", self.table, "--changes", "--from", "start"]
        return [str(PHOTON), "follow", str(self.lakes.pipeline.file), *given]

    def release_more(self) -> tuple[int, int]:
        first = len(self.lakes.made) + 1
        lakes = self.lakes
        happenings = [
            lakes.append,
            lakes.append,
            lakes.append,
            lakes.rebuild,
            lakes.compact,
            lakes.begin_epoch,
        ]
        for _ in range(4):
            self.random.choice(happenings)(self.random.choice(["east", "west"]))
            lakes.release()
        return first, len(lakes.made)

    def is_right(self, release: int, rows: Rows) -> bool:
        found = frozenset((row["_event_id"], row["value"]) for row in rows.values())
        return found == (self.lakes.made[release - 1].joined if release else frozenset())


def test_killed_at_five_moments_the_table_has_the_rows_of_its_cursors_release(
    server: Postgres, tmp_path: Path
) -> None:
    OfLakes(server, tmp_path, seed=1).run(5)


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_killed_at_a_hundred_moments_the_table_has_the_rows_of_its_cursors_release(
    server: Postgres, tmp_path: Path
) -> None:
    OfLakes(server, tmp_path, seed=2).run(100)
