"""A table that is fed from real tables of datacenters has the rows of each release, as readers have them."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import pytest

from photon import read
from photon.feed.postgres import PostgresTable
from photon.feed.sink import Fed
from photon.feed.steps import snapshot, steps
from photon.process.clock import SystemClock
from tests.releases.lakes import new_lakes
from tests.services.test_postgres_sink import URL, Database, database, server
from tests.support.shares import seeds

__all__ = ["database", "server"]
pytestmark = pytest.mark.services


@pytest.mark.parametrize("seed", seeds(2, 3))
def test_the_table_has_the_rows_of_each_release(tmp_path: Path, database: Database, seed: int) -> None:
    lakes, rng = new_lakes(tmp_path / "lakes", tmp_path), random.Random(seed)
    lakes.append("east")
    last = lakes.release().release
    with closing(
        PostgresTable(URL, f"{database.schema}.clicks", Fed(lakes.pipeline.file, "clicks"), True)
    ) as table:
        table.deliver([snapshot(lakes.pipeline, last)])
        for _ in range(12):
            name = rng.choice(["east", "west"])
            rng.choice([*[lakes.append] * 3, lakes.compact, lakes.rebuild, lakes.begin_epoch])(name)
            made = lakes.release(lags=rng.choice([0, 0, 1]))
            if rng.random() < 0.3:
                continue  # two releases in one transaction the next time
            last = table.deliver(list(steps(lakes.pipeline, last, SystemClock())))
            assert last == made.release
            assert frozenset(database.ask("SELECT _event_id, value FROM clicks")) == made.joined
    (row,) = database.ask("SELECT _datacenter, _release, _event_time FROM clicks LIMIT 1")
    assert None not in row


def test_the_table_has_the_events_that_each_release_shows_as_given_up(
    tmp_path: Path, database: Database
) -> None:
    lakes, rng = new_lakes(tmp_path / "lakes", tmp_path), random.Random(1)
    last = lakes.release().release
    fed = Fed(lakes.pipeline.file, "clicks", "unjoined")
    with closing(PostgresTable(URL, f"{database.schema}.given_up", fed, True)) as table:
        table.deliver([snapshot(lakes.pipeline, last, "unjoined")])
        for _ in range(10):
            name = rng.choice(["east", "west"])
            lakes.give_up(
                name, {f"e{lakes.events + rng.randint(-2, 4)}" for _ in range(2) if lakes.events > 2}
            )
            lakes.append(name)
            made = lakes.release()
            last = table.deliver(list(steps(lakes.pipeline, last, SystemClock(), table="unjoined")))
            assert last == made.release
            shown = read.unjoined(lakes.pipeline, release=made.release.number).to_table()
            found = database.ask("SELECT event_id, _datacenter FROM given_up")
            assert set(found) == set(
                zip(*(shown[n].to_pylist() for n in ("event_id", "_datacenter")), strict=True)
            )
            assert len(found) == shown.num_rows
    assert database.ask("SELECT raw FROM given_up")
