"""Readers of releases amid kills, compactions, rebuilds, reshards and a retirement see one truth."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock

import pytest

from examples.demo.traffic import Traffic
from photon.pipeline.file import load_pipeline
from photon.process.clock import MICROSECONDS
from photon.process.faults import BACKFILL_FAULT_POINTS, COMPACTION_FAULT_POINTS, ROLL_FAULT_POINTS
from photon.upkeep.compact import plan_compaction
from tests.e2e.outages.checker import read_logs
from tests.e2e.outages.commands import DONE, KILLED, command, rebuild_without_spark
from tests.e2e.outages.drive import SETTINGS, suffer, until_done
from tests.e2e.outages.plan import faults_of
from tests.e2e.outages.release_reader import ReleaseReader, latest, reading, tables_now
from tests.e2e.outages.world import World, until, world
from tests.support.manual_clock import ManualClock

pytestmark = [pytest.mark.server, pytest.mark.slow]

MINUTES = float(os.environ.get("PHOTON_TESTS_MINUTES", "10"))
SHARE_BEFORE_RETIREMENT = 0.8  # this share of the time passes before
KILLED_FIRST = 0.5  # this share of the commands is
RELEASES = SETTINGS + "releases: {every: 1s}\n"
ADAPTED = "adapter: versions:join\n"
ADAPTER = '''
from pathlib import Path
import pyarrow as pa
from photon.adapters import Adapter

VERSION = Path(__file__).with_name("version")


class Versions(Adapter):
    """Says in each row when it was made: a rebuild makes others."""

    def combine(self, foreign, primary):
        rows = super().combine(foreign, primary)
        return rows.append_column("version", pa.array([VERSION.read_text()] * len(rows), pa.string()))


join = Versions()
'''
Words = tuple[str, ...]
Run = Callable[[list[str]], None] | None
A_WEEK_LATER = timedelta(days=9)  # vacuum then removes files that have left a table by now


def traffic(*datacenters: str) -> Traffic:
    """Make traffic for the whole test."""
    return Traffic(32, datacenters, 40, 20, 60 * MINUTES + 900)


def test_a_reader_that_takes_the_rows_of_now_for_a_release_is_found_out(tmp_path: Path) -> None:
    with world(tmp_path, traffic("east", "west"), RELEASES, stores=0) as made:
        made.begin()
        with reading(made.file) as right, reading(made.file, tables_now) as wrong:
            until(lambda: wrong.wrong and len(right.seen) > 2, "the wrong reader is found out")
    assert right.wrong == []
    assert "pyarrow" in wrong.wrong[0]


@pytest.mark.long
@pytest.mark.timeout(60 * MINUTES + 900)
def test_readers_see_one_truth_amid_all_that_happens_to_tables(tmp_path: Path) -> None:
    """The test takes PHOTON_TESTS_MINUTES minutes, or ten."""
    (tmp_path / "versions.py").write_text(ADAPTER)
    (tmp_path / "version").write_text("0")
    ends = time.monotonic() + 60 * MINUTES
    retires = ends - 60 * MINUTES * (1 - SHARE_BEFORE_RETIREMENT)
    calm = Lock()
    with (
        world(tmp_path, traffic("east", "north", "west"), RELEASES + ADAPTED, stores=0) as made,
        reading(made.file) as reader,
        ThreadPoolExecutor(2) as pool,
    ):
        made.begin()
        work = [
            pool.submit(kill_joins, made, calm, retires),
            pool.submit(operate, made, reader, calm, retires),
        ]
        survived = sum((one.result() for one in work), Counter[str]())
        retire_without_its_lake(made, "north", reader)
        survived += kill_joins(made, calm, ends)
        made.complete()
        until_done(made, ("recover", str(made.file)))  # the retirement says so
        counts = made.complete()
    logs = [read_logs(tmp_path / "logs" / name) for name in counts]
    release, rows = latest(made.file)
    ids = rows.to_table(["_event_id"])["_event_id"].to_pylist()
    print(f"{reader.polls} polls, {reader.refused} refused; {len(reader.seen)} releases,")
    print(f"{len(reader.complete)} of them complete up to some time,")
    print(f"{reader.read_again} read again; {release.rows} rows in the last one; {dict(survived)}")
    assert reader.wrong == []
    assert reader.incomplete(logs) == []
    assert made.faults(counts) == []
    assert set(ids) == set().union(*(one.joinable for one in logs))


def kill_joins(made: World, calm: Lock, until_seconds: float) -> Counter[str]:
    """Kill one datacenter after another until a monotonic time; return what they have survived."""
    chance, survived = random.Random(1), Counter[str]()
    while time.monotonic() < until_seconds:
        with calm:
            for datacenter in made.datacenters.values():
                survived += suffer(datacenter, faults_of(chance, 1, 0, (0, 0)), lambda text: None)
    return survived


def operate(made: World, reader: ReleaseReader, calm: Lock, until_seconds: float) -> Counter[str]:
    """Run commands of operators again and again; half of them are killed first."""
    chance, done = random.Random(2), Counter[str]()
    while time.monotonic() < until_seconds:
        for words, points, run in operations(made, chance):
            (made.folder / "version").write_text(str(done.total()))
            if chance.random() < KILLED_FIRST:
                status = command(made.folder, words, chance.choice(points), run=run)
                done[f"{words[0]} killed"] += status == KILLED
            until(lambda words=words, run=run: command(made.folder, words, run=run) == DONE, " ".join(words))
            done[words[0]] += 1
        vacuum_as_if_a_week_later(made, reader, calm)
        done["vacuum"] += 1
    return done


def operations(made: World, chance: random.Random) -> Iterator[tuple[Words, Sequence[str], Run]]:
    """Yield commands in their order, with the points at which each may be killed."""
    file, day = str(made.file), datetime.now(UTC).date().isoformat()
    yield ("registry", "reshard", file, str(chance.randint(1, 4))), ROLL_FAULT_POINTS, None
    yield ("compact", file), COMPACTION_FAULT_POINTS, None
    for name in made.datacenters:
        rebuild = ("backfill", file, "-d", name, "--day", day, "--rebuild")
        yield rebuild, BACKFILL_FAULT_POINTS, rebuild_without_spark


def vacuum_as_if_a_week_later(made: World, reader: ReleaseReader, calm: Lock) -> None:
    """Compact with a clock that is ahead, while nobody has an older version open."""
    with calm:
        for datacenter in made.datacenters.values():
            datacenter.kill()
        pipeline = load_pipeline(made.file)
        clock = ManualClock(round((datetime.now(UTC) + A_WEEK_LATER).timestamp() * MICROSECONDS))
        with reader.pausing:
            for name in made.datacenters:
                plan_compaction(pipeline, name, clock).apply()
        for datacenter in made.datacenters.values():
            datacenter.start()


def retire_without_its_lake(made: World, name: str, reader: ReleaseReader) -> None:
    made.datacenters.pop(name).close()
    with reader.pausing:
        reader.lost = name
        (made.folder / "lake" / name).rename(made.folder / "lake-that-is-gone")
    until_done(made, ("retire", str(made.file), name, "--lake-is-gone"))
    until_done(made, ("recover", str(made.file)))
