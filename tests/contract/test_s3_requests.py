"""What a store is asked, counted between Photon and a real MinIO; time goes by in numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from bench.s3_requests import CountingS3, Requests
from infra.servers.minio import MinioServer
from photon.dispatcher.completion import watermark_of
from photon.dispatcher.log_reader import LogReader
from photon.dispatcher.retrying import Callbacks
from photon.logs.on_s3 import listing
from photon.logs.on_s3.listing import ListedWatch
from photon.logs.on_s3.objects import found_object
from photon.pipeline.location import S3Folder
from photon.process.clock import MICROSECONDS
from photon.releases.parts import ABSENT_LOOKED_SECONDS, SIDE_LOOKED_SECONDS, LakeCounter
from photon.releases.release import NOTHING
from photon.state.completeness.publishing import EVERY_US, S3_EVERY_US, Publisher
from photon.storage.columns import TABLE_COLUMNS
from photon.storage.followed_table import FEW_COMMITS, REOPENED_AFTER_SECONDS, REOPENED_AT_LAST_SECONDS
from photon.storage.s3 import S3Store
from photon.storage.store import content
from photon.storage.tables import OutputTable
from tests.simulation.world import World
from tests.unit.test_output_commit import APP, ids_in, written

pytestmark = pytest.mark.server

HOUR_SECONDS = 3_600
NOW_US = 100 * HOUR_SECONDS * MICROSECONDS


@pytest.fixture
def counting(minio: MinioServer) -> Iterator[CountingS3]:
    """A way to the MinIO that counts."""
    found = CountingS3(minio.url)
    yield found
    found.refuse()


@pytest.fixture
def counted(on_s3: S3Folder, counting: CountingS3) -> S3Folder:
    """An empty folder whose requests are counted."""
    return replace(on_s3, endpoint_url=counting.url)


def asked(counting: CountingS3, do: Callable[[], object]) -> Requests:
    """The requests that something takes."""
    counting.requests.clear()
    do()
    return Requests(counting.requests)


def table_in(folder: S3Folder, commits: int) -> OutputTable:
    made = OutputTable(folder, "joined_events")
    made.create("clicks", "east")
    for batch in range(1, commits + 1):
        made.commit(
            [written(made, f"{folder.name} {batch}")], APP, batch, batch - 1, passed=0 if batch > 1 else None
        )
    return made


def test_a_commit_costs_the_same_however_many_entries_the_log_has(
    counted: S3Folder, counting: CountingS3
) -> None:
    """Broken variant: delta-rs is asked how far an app came, and reads all entries since the checkpoint."""
    table = table_in(counted, 2)
    counts = []
    for batch in range(3, 24):
        files = [written(table, "a")]
        commit = partial(table.commit, files, APP, batch, batch - 1, passed=0)
        counts.append(asked(counting, commit).total())
    assert max(counts) == min(counts) <= 13, counts


def test_a_table_to_which_nothing_was_committed_costs_a_listing(
    counted: S3Folder, counting: CountingS3
) -> None:
    table = table_in(counted, 2)
    table.load()

    def look() -> None:
        handle = table.load_if_there()
        assert handle is not None
        assert table.version_in(handle, APP) == 2

    assert [method for method, _ in asked(counting, look).elements()] == ["LIST"]
    other = OutputTable(counted, "joined_events")
    other.commit([written(other, "b")], APP, 3, 2)
    look_again = table.load_if_there()
    assert look_again is not None
    assert table.version_in(look_again, APP) == 3


def test_an_entry_that_one_handle_of_a_process_has_read_no_other_one_reads(
    counted: S3Folder, counting: CountingS3
) -> None:
    """Broken variant: each handle has its own, and a release reads again what batches have read."""
    table, other = table_in(counted, 1), OutputTable(counted, "joined_events")
    other.load()
    for batch in range(2, 12):
        table.commit([written(table, f"{batch}")], APP, batch, batch - 1, passed=0)
    table.load()

    def go_on() -> None:
        handle = other.load_if_there()
        assert handle is not None
        assert other.version_in(handle, APP) == 11

    entries = [key for method, key in asked(counting, go_on).elements() if method == "GET"]
    assert len(entries) == 2 * 10, "delta-rs itself reads each twice"


def test_an_old_handle_is_opened_anew_where_the_log_has_few_commits_since_its_checkpoint(
    counted: S3Folder, counting: CountingS3
) -> None:
    """Broken variant: each two minutes, and each time a hundred entries may be read, twice."""
    table = table_in(counted, FEW_COMMITS)
    table.load()

    def is_opened_after(seconds: float) -> bool:
        table._opened -= seconds
        return any("_last_checkpoint" in key for _, key in asked(counting, table.load))

    assert not is_opened_after(REOPENED_AFTER_SECONDS)
    assert is_opened_after(REOPENED_AT_LAST_SECONDS - REOPENED_AFTER_SECONDS), "entries leave the log"
    few = table_in(counted / "few", FEW_COMMITS - 1)
    few._opened -= REOPENED_AFTER_SECONDS
    assert any("_last_checkpoint" in key for _, key in asked(counting, few.load))


@pytest.mark.parametrize("look", ["load", "load_if_there"])
def test_a_lake_that_is_put_back_with_other_entries_under_the_same_numbers_is_known(
    counted: S3Folder, look: str
) -> None:
    """Broken variant: an entry that is there is taken for the one that was."""
    table, other = table_in(counted / "one", 3), table_in(counted / "other", 2)
    other.with_columns_of([])
    other.commit([written(other, "more")], "another app", 1, None)
    assert table.load().version() == other.load().version()
    here, there = S3Store(counted / "one"), S3Store(counted / "other")
    here.remove(*here.sizes())
    for name in there.sizes():
        here.put(name, content(there.read(name)))
    handle = getattr(table, look)()
    assert handle.metadata().id == other.table_id()
    assert (table.version_in(handle, APP), table.version_in(handle, "another app")) == (2, 1)
    assert sorted(ids_in(table)) == sorted(ids_in(other))


def test_a_release_that_finds_nothing_new_lists_each_table_where_that_is_due(
    counted: S3Folder, counting: CountingS3
) -> None:
    """What others do to a side table is to be a red fact within a minute, with a release each half of one."""
    now_seconds, absent = 0.0, {"unmatched", "left_out"}
    for name in TABLE_COLUMNS.keys() - absent:
        OutputTable(counted, name).create("clicks", "east")
    counter = LakeCounter("east", counted, elapsed_seconds=lambda: now_seconds)
    before = counter.count(None, NOTHING).part

    def looked_at() -> set[str]:
        found = asked(counting, lambda: counter.count(before, NOTHING))
        assert {(method, count) for (method, _), count in found.items()} == {("LIST", 1)}
        return {key.removeprefix(str(counted).removeprefix("s3://")).split("/")[1] for _, key in found}

    counter.count(before, NOTHING)
    now_seconds += SIDE_LOOKED_SECONDS - 1
    assert looked_at() == {"joined_events"}
    now_seconds += 1
    assert looked_at() == TABLE_COLUMNS.keys() - absent
    now_seconds += ABSENT_LOOKED_SECONDS
    assert looked_at() == TABLE_COLUMNS.keys()


def test_copies_of_releases_are_asked_for_where_a_release_is_to_be_made(
    tmp_path: Path, counted: S3Folder, counting: CountingS3
) -> None:
    """Broken variant: each half minute of an idle join lists and reads them."""
    world = World(tmp_path)
    east = world.pipeline.datacenters["east"].model_copy(update={"lake": counted})
    world.use(world.pipeline.model_copy(update={"datacenters": {"east": east}}))
    world.events("c1")
    world.join()
    ends_us = world.clock.now_us() + HOUR_SECONDS // 12 * MICROSECONDS
    idle = Callbacks(lambda: world.clock.now_us() >= ends_us)
    found = asked(counting, lambda: world.join(mode="stop", callbacks=idle))
    copies = {key: count for key, count in found.items() if "/releases" in key[1]}
    assert sum(copies.values()) <= 8, f"at its start, and no more: {copies}"


def test_completeness_is_said_half_as_often_in_a_store(counted: S3Folder, tmp_path: Path) -> None:
    """Each time is a write, the dearest request: of an idle hour every eleventh was one."""
    for lake, every_us in ((tmp_path, EVERY_US), (counted, S3_EVERY_US)):
        publisher = Publisher(lake, "1", 0.999)
        publisher.say(NOW_US, np.empty(0, np.int64), 1, NOW_US, {})
        publisher.came({})
        due = [publisher.is_due(NOW_US + us) for us in (every_us - 1, every_us)]
        assert due == [False, True]


def test_an_hour_without_news_costs_a_log_of_2100_objects_fewer_than_900_listings(
    counted: S3Folder, counting: CountingS3
) -> None:
    """Names in order are found within five seconds all the same, and others within three minutes."""
    store, now_seconds = S3Store(counted), 0.0
    for number in range(2_100):
        store.put(f"q/{number:05}.jsonl", content(b"{}"))
    watch = ListedWatch(store, found_object, "q/*.jsonl", elapsed_seconds=lambda: now_seconds)

    def pass_by(seconds: float, until: str = "") -> float:
        nonlocal now_seconds
        began_seconds = now_seconds
        while now_seconds < began_seconds + seconds:
            files = watch.scan().files
            if until and until in {file.path for file in files}:
                break
            now_seconds += 0.5
        return now_seconds - began_seconds

    pass_by(300)
    found = asked(counting, lambda: pass_by(HOUR_SECONDS / 3))  # each third of it costs the same
    assert {method for method, _ in found} == {"LIST"}
    assert HOUR_SECONDS / 5 <= 3 * found.total() < 900
    store.put("q/99999.jsonl", content(b"{}"))
    assert pass_by(10, until="q/99999.jsonl") <= 5
    pass_by(300)
    store.put("q/00000-a.jsonl", content(b"{}"))
    assert pass_by(300, until="q/00000-a.jsonl") <= 180


@pytest.fixture
def world(tmp_path: Path, on_s3: S3Folder, monkeypatch: pytest.MonkeyPatch) -> World:
    """A datacenter whose logs are on S3; a page of a listing has five, and one comes if it is asked for."""
    monkeypatch.setattr(listing, "LISTED_AT_ONCE", 5)
    monkeypatch.setattr(listing, "PAGE_EVERY_SECONDS", float(HOUR_SECONDS))
    made = World(tmp_path)
    east = made.pipeline.datacenters["east"].model_copy(update={"logs": on_s3})
    made.use(made.pipeline.model_copy(update={"datacenters": {"east": east}}))
    return made


def put_query(logs: S3Folder, name: str) -> None:
    row = {"query_id": name, "time": 0}
    S3Store(logs).put(f"queries/{name}.jsonl", content(f"{json.dumps(row)}\n".encode()))


def read_all(reader: LogReader, time_us: int) -> None:
    """Read what is there, as a batch does; the events have this time."""
    ranges = reader.cut("primary", 2**30, 2**30)
    reader.advance(ranges.advances, {each.file_number: time_us for each in ranges.advances})
    reader.backlog_bytes["primary"] = {}


def test_the_watermark_waits_for_a_full_look_that_began_after_what_it_rests_on(
    world: World, on_s3: S3Folder
) -> None:
    """Broken variants: the last name counts at once; or a full look does that was under way.

    The events of an object whose name is in no order would be given up as if they were never to come.
    """
    now_us = NOW_US

    def watermark(before_us: int | None) -> int | None:
        return watermark_of(reader, world.pipeline, now_us, before_us, has_requeued=False)

    for number in range(12):
        put_query(on_s3, f"5-{number:02}")
    reader = LogReader(world.pipeline, "east", {})
    reader.look(now_us, final=False)
    read_all(reader, 100)
    assert watermark(None) is None, "its first page was older than its last one"
    assert reader.awaits_listing
    reader.look(now_us, final=False, whole=True)
    assert (watermark(None), reader.checks_pending) == (100, False)
    now_us += HOUR_SECONDS * MICROSECONDS  # files of before are idle
    put_query(on_s3, "1-out-of-order")
    put_query(on_s3, "9-in-order")
    while not reader.backlog_bytes["primary"]:
        reader.look(now_us, final=False)
    assert [reader.files[number].file.path for number in reader.backlog_bytes["primary"]] == [
        "queries/9-in-order.jsonl"
    ]
    read_all(reader, 200)
    assert watermark(100) == 100
    reader.look(now_us, final=False, whole=True)
    assert watermark(100) == 100, "what was found is not read yet"
    read_all(reader, 150)
    assert watermark(100) == 150
    assert reader.checks_pending, "one was found: there may be others"
    reader.look(now_us, final=False, whole=True)
    assert [reader.checks_pending] == [False]


def test_a_watermark_that_does_not_wait_passes_over_an_object_in_no_order(
    world: World, on_s3: S3Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LogReader, "settled_us", lambda self, side, read_us, before_us: read_us)
    for number in range(12):
        put_query(on_s3, f"5-{number:02}")
    reader = LogReader(world.pipeline, "east", {})
    reader.look(NOW_US, final=False)
    put_query(on_s3, "1-out-of-order")
    put_query(on_s3, "9-in-order")
    while len(reader.files) < 13:
        reader.look(NOW_US, final=False)
    read_all(reader, 200)
    assert "queries/1-out-of-order.jsonl" not in {one.file.path for one in reader.files.values()}
    assert watermark_of(reader, world.pipeline, NOW_US, 100, has_requeued=False) == 200


def test_a_run_that_ends_when_idle_joins_what_came_in_no_order(world: World, on_s3: S3Folder) -> None:
    for number in range(12):
        put_query(on_s3, f"5-{number:02}")
    world.join()
    put_query(on_s3, "1-out-of-order")
    world.forget()
    world.join()
    with world.state_of("east") as state:
        assert "queries/1-out-of-order.jsonl" in {one.file.path for one in state.files().values()}
