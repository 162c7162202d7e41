"""A backfill repairs the faults that verification finds in rows: on generated traffic, with Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from examples.demo.stories import ILLS
from examples.demo.traffic import START_US, Traffic
from photon.dispatcher.shift.run import prepare, run_shift
from photon.pipeline.file import Pipeline, load_pipeline
from photon.process.faults import CRASH_AT
from photon.upkeep.backfill.rebuild import Rebuilt
from photon.verification.days import utc_day
from photon.verification.report import VerificationReport
from tests.simulation.rebuilding import all_removed

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.server, pytest.mark.timeout(900)]

SEED = 17
DAY = datetime.fromtimestamp(START_US / 1e6, UTC).date()
# Rows by an adapter that a test changes; each text is a module of its own, for a module is imported once.
ADAPTER = """
from photon.adapters import Adapter


class Own(Adapter):
    pass
"""
CHANGED = '''
import pyarrow.compute as pc
from photon.adapters import Adapted, Adapter, merge


class Own(Adapter):
    """Another value in one column, a new column, and no row of position 10."""

    def combine(self, foreign, primary):
        rows = merge(foreign, primary)
        place = rows.schema.get_field_index("primary_text")
        rows = rows.set_column(place, "primary_text", pc.utf8_upper(rows["primary_text"]))
        rows = rows.append_column("length", pc.utf8_length(rows["url"]).cast("int64"))
        kept = pc.not_equal(foreign["position"], "10").combine_chunks()
        return Adapted(rows.filter(kept), kept)
'''


@dataclass
class World:
    """Two datacenters whose logs are joined."""

    pipeline: Pipeline
    session: Any

    def verify(self) -> VerificationReport:
        from tests.spark.both_engines import verify

        return verify(self.pipeline, list(self.pipeline.datacenters), session=self.session)

    def rebuild(self, datacenter: str, dry_run: bool = False) -> Rebuilt:
        from photon.jobs.backfill import rebuild

        return rebuild(self.pipeline, datacenter, utc_day(DAY), dry_run, session=self.session)

    def use(self, name: str, text: str) -> None:
        (self.pipeline.file.parent / f"{name}.py").write_text(text)
        self.pipeline = self.pipeline.model_copy(update={"adapter": f"{name}:Own"})

    def join(self) -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda n: run_shift(self.pipeline, n, "complete"), self.pipeline.datacenters))

    def table(self, datacenter: str) -> DeltaTable:
        return DeltaTable(str(self.pipeline.datacenters[datacenter].lake / "joined_events"))

    def rows(self, datacenter: str) -> dict[str, dict[str, Any]]:
        found = self.table(datacenter).to_pyarrow_table().to_pylist()
        by_id = {row["_event_id"]: row for row in found}
        assert len(by_id) == len(found)
        return by_id


@pytest.fixture(scope="module")
def world(session: Any, tmp_path_factory: pytest.TempPathFactory) -> World:
    # A folder as people have them: Spark and Delta write such names each in their own way.
    folder = tmp_path_factory.mktemp("backfill") / "Läden & Co #1 100%"
    folder.mkdir()
    print(f"traffic of seed {SEED}")
    traffic = Traffic(SEED, duration_seconds=20, foreign_per_second=20, ills={ill.name: 2 for ill in ILLS})
    traffic.write_all(folder)
    (folder / "own.py").write_text(ADAPTER)
    pipeline = load_pipeline(traffic.write_pipeline(folder, more="adapter: own:Own\n"))
    prepare(pipeline)
    made = World(pipeline, session)
    made.join()
    return made


def test_with_an_unchanged_adapter_the_rows_are_equal_in_all_columns(world: World) -> None:
    before, version = world.rows("west"), world.table("west").version()
    assert len(before) > 100
    done = world.rebuild("west")
    assert (done.tally.same, done.tally.replaced, done.tally.dropped, done.tally.kept) == (
        len(before),
        0,
        {},
        {},
    )
    assert (world.rows("west"), world.table("west").version()) == (before, version)


def test_another_adapter_makes_other_values_and_verification_agrees_with_each(world: World) -> None:
    before = world.rows("west")
    world.use("own_changed", CHANGED)
    dropped = {event_id for event_id, row in before.items() if row["position"] == "10"}
    assert dropped
    for name in world.pipeline.datacenters:
        world.rebuild(name)
    after = world.rows("west")
    assert after.keys() == before.keys() - dropped
    assert all(row["length"] == len(row["url"]) for row in after.values())
    removed = all_removed(world.pipeline, "west").filter(pc.field("why") == "filtered")
    assert set(removed["_event_id"].to_pylist()) == dropped
    report = world.verify()
    assert report.ok, report.as_dict()
    assert report.datacenters["west"].classes["filtered"] >= len(dropped)


def photon(*words: str, crash_at: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "photon.cli.main", *words]
    environment = {**os.environ, CRASH_AT: crash_at}
    return subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)


def test_the_command_that_is_killed_goes_on_and_says_so(world: World) -> None:
    world.use("own_command", ADAPTER)
    path = world.pipeline.file
    path.write_text(path.read_text().replace("own:Own", "own_command:Own"))
    words = ["backfill", str(path), "-d", "east", "--day", DAY.isoformat(), "--rebuild", "--json"]
    before = world.rows("east")
    killed = photon(*words, crash_at="rebuild.after_commit")
    assert killed.returncode == -9, killed.stderr
    assert world.rows("east").keys() == before.keys()
    done = photon(*words)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["went_on"]
    assert said["tally"]["rows"] == len(before)
    assert world.rows("east").keys() == before.keys()
    assert {row["length"] for row in world.rows("east").values()} == {None}
    assert "rows in" in done.stderr, "the plan is told before"
