"""`photon follow`, the server and real joins die by kill -9, while rows come, are rebuilt and compacted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from examples.demo.traffic import Traffic
from infra.servers.postgres import Postgres
from infra.servers.process import free_steady_port
from photon import read
from tests.e2e.outages.drive import SETTINGS
from tests.e2e.outages.world import World, until, world
from tests.releases.lakes import new_lakes
from tests.services.kills import KEY, ROOT, Rows, Trial
from tests.services.postgres import postgres

pytestmark = pytest.mark.services
PHOTON = ROOT / ".venv" / "bin" / "photon"


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres(free_steady_port()) as found:
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


class OfJoins(Trial):
    """Two datacenters that join live traffic, and make a release each second."""

    def __init__(self, server: Postgres, made: World, seed: int) -> None:
        super().__init__(server, made.folder, f"joins_{seed}", seed)
        self.made = made
        made.begin()
        until(lambda: self._newest() > 0, "a release is there")

    def program(self) -> list[str]:
        given = ["--to", self.url, "--into", self.table, "--changes", "--from", "start"]
        return [str(PHOTON), "follow", str(self.made.file), *given]

    @property
    def ways(self) -> list[Callable[[], None]]:
        return [*super().ways, self.kill_join, self.kill_join]

    def kill_join(self) -> None:
        datacenter = self.random.choice(list(self.made.datacenters.values()))
        datacenter.kill()
        datacenter.start()

    def release_more(self) -> tuple[int, int]:
        next_one = self._newest() + 1
        return next_one, next_one

    def last_release(self) -> int:
        counts = self.made.complete()
        assert self.made.faults(counts) == []
        return self._newest()

    def is_right(self, release: int, rows: Rows) -> bool:
        if not release:
            return not rows
        found = read.joined(self.made.file, release=release).to_table(columns=[*KEY, "_event_id"])
        expected = {tuple(row[name] for name in KEY): row["_event_id"] for row in found.to_pylist()}
        return {key: row["_event_id"] for key, row in rows.items()} == expected

    def _newest(self) -> int:
        return max((one.number for one in read.releases(self.made.file)), default=0)


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


@pytest.mark.parametrize("kills", [5, pytest.param(100, marks=pytest.mark.long)])
@pytest.mark.timeout(1_800)
def test_killed_beside_joins_that_are_killed_the_table_has_the_rows_of_its_cursors_release(
    server: Postgres, tmp_path: Path, kills: int
) -> None:
    traffic = Traffic(33, ("east", "west"), 40, 20, 1_800)
    with world(tmp_path, traffic, SETTINGS + "releases: {every: 1s}\n", stores=0) as made:
        OfJoins(server, made, seed=kills).run(kills)
