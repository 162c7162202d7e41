"""Nothing is lost or done twice while a store on S3 is slow, busy, cut off or gone."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from photon.logs.on_s3 import objects
from photon.logs.tailing.retry_times import FIRST_PAUSE_US
from photon.logs.tailing.tail import LogTail
from photon.pipeline.location import S3Folder
from photon.pipeline.sections import Limits, PrimaryLog, Tailing
from photon.storage import s3
from photon.storage.candidate_files import candidate_files, read_candidates, write_candidates
from photon.storage.delta import LakeUnavailable
from photon.storage.store import store_of
from photon.storage.store_errors import StoreUnavailable
from photon.storage.tables import NOT_BEGUN, CommitConflict, LastCommit, OutputTable
from photon.storage.tokens import PlanKey
from tests.conftest import BUCKET
from tests.faulty_s3 import Fault, FaultyS3
from tests.support.output_tables import APP, ids_in, new_table, rows_of, written

pytestmark = pytest.mark.server

PLAN = PlanKey("east", "e", 1, "p")
BUSY = "SlowDown: Please reduce your request rate, at "


@pytest.fixture
def folder(faulty: FaultyS3, tmp_path: Path) -> Iterator[S3Folder]:
    """An empty folder, at the end of a way that may fail."""
    s3.forget_clients()
    yield S3Folder(BUCKET, tmp_path.name, faulty.url)
    s3.forget_clients()


@pytest.fixture
def table(folder: S3Folder) -> OutputTable:
    return new_table(folder)


def put(folder: S3Folder, name: str, content: bytes = b"content") -> None:
    store_of(folder).create(name, lambda sink: sink.write(content))


def is_commit(method: str, path: str) -> bool:
    return method == "PUT" and "_delta_log" in path


# -- objects


def test_a_store_that_is_busy_now_and_then_does_what_it_is_asked_for(
    folder: S3Folder, faulty: FaultyS3
) -> None:
    faulty.meet("busy", share=0.3, seed=3)
    store = store_of(folder)
    for number in range(10):
        put(folder, f"{number}", b"%d" % number)
    store.put("0", lambda sink: sink.write(b"another"))
    store.remove("1")
    assert sorted(store.names()) == ["0", *(f"{number}" for number in range(2, 10))]
    assert [store.read(f"{number}") for number in (0, 2)] == [b"another", b"2"]
    assert faulty.met["busy"] > 5


@pytest.mark.parametrize(
    ("fault", "says"),
    [("busy", BUSY), ("cut", "Connection reset by peer, at "), ("silent", "operation timed out, at ")],
)
def test_a_store_that_fails_for_longer_is_named_with_the_object_and_what_it_said(
    folder: S3Folder, faulty: FaultyS3, monkeypatch: pytest.MonkeyPatch, fault: Fault, says: str
) -> None:
    monkeypatch.setattr(s3, "REQUEST_TIMEOUT", timedelta(seconds=0.2))
    faulty.meet(fault)
    with pytest.raises(StoreUnavailable, match=re.escape(f"{folder}/a: {says}{faulty.url}") + "$"):
        store_of(folder).read("a")
    faulty.mend()
    with pytest.raises(FileNotFoundError):
        store_of(folder).read("a")


def test_a_store_that_refuses_connections_is_named_and_is_there_again_without_a_new_client(
    folder: S3Folder, faulty: FaultyS3
) -> None:
    put(folder, "a")
    faulty.refuse()
    with pytest.raises(StoreUnavailable, match=re.escape(f"/a: Connection refused, at {faulty.url}")):
        store_of(folder).size_bytes("a")
    faulty.listen()
    assert store_of(folder).read("a") == b"content"


def test_an_object_of_a_bucket_that_is_missing_is_not_gone(faulty: FaultyS3) -> None:
    """Broken variant: taken for gone, what waits in a bucket would be given up when its endpoint changes."""
    store = store_of(S3Folder("no-such-bucket", "waiting", faulty.url))
    for read in (store.read, store.open):
        with pytest.raises(StoreUnavailable, match=r"NoSuchBucket: .*; make the bucket, or name another one"):
            read("a")


# -- tables


@pytest.mark.parametrize("fault", ["busy", "cut", "busy late", "cut late"])
@pytest.mark.parametrize("requests", [1, math.inf])
def test_a_commit_that_fails_is_there_once_or_not_at_all_as_the_table_says_then(
    table: OutputTable, faulty: FaultyS3, fault: Fault, requests: float
) -> None:
    file = written(table, 1, "a")
    faulty.meet(fault, requests, among=is_commit)
    with suppress(LakeUnavailable, CommitConflict):
        table.commit([file], APP, 1, 0, "p")
    faulty.mend()
    assert faulty.met[fault] >= 1
    if table.last_commit(APP) == NOT_BEGUN:
        assert not fault.endswith("late")
        table.commit([file], APP, 1, 0, "p")
    assert table.last_commit(APP) == LastCommit(1, "p")
    table.commit([written(table, 2, "b")], APP, 2, 1, "q")
    assert ids_in(table) == ["a", "b"]


def test_a_table_is_opened_and_read_through_failures_now_and_then(
    table: OutputTable, faulty: FaultyS3
) -> None:
    table.commit([written(table, 1, "a")], APP, 1, 0, "p")
    faulty.meet("busy", share=0.3, seed=1)
    again = OutputTable(table.folder.parent, "joined_events")
    assert again.exists()
    assert ids_in(again) == ["a"]
    assert faulty.met["busy"] > 1


@pytest.mark.parametrize(
    "use", [lambda table: table.exists(), lambda table: table.load(), lambda table: table.last_commit(APP)]
)
def test_other_threads_go_on_while_a_lake_is_slow(
    table: OutputTable, faulty: FaultyS3, use: Callable[[OutputTable], None]
) -> None:
    """The proxy is one of them: a call that held Python's lock would wait for it until it times out."""
    table.commit([], APP, 1, 0, "p")
    faulty.delay_seconds = 0.1
    use(OutputTable(table.folder.parent, "joined_events"))


# -- candidate rows


def test_candidate_rows_that_can_not_be_read_now_are_not_taken_for_half_written(
    folder: S3Folder, faulty: FaultyS3
) -> None:
    """Broken variant: their ids would stay registered without a row, for nobody to join."""
    write_candidates(folder, PLAN, 0, rows_of(1, "a"))
    names = candidate_files(folder, PLAN)
    faulty.meet("busy")
    with pytest.raises(LakeUnavailable, match=f"cannot read candidate rows from {folder}/joined_events"):
        read_candidates(folder, names)
    faulty.mend()
    found = read_candidates(folder, names)
    assert found is not None
    assert found["_event_id"].to_pylist() == ["a"]


# -- logs


def tail_of(folder: S3Folder) -> LogTail:
    log = PrimaryLog(files="**/*", format="jsonl", id="id", time="t")
    return LogTail(folder, "primary", log, Limits(), Tailing())


def is_read_of_b(method: str, path: str) -> bool:
    return method == "GET" and "/b" in path.partition("?")[0]


def test_a_range_that_can_not_be_cut_now_is_not_taken_for_half_a_line(
    folder: S3Folder, faulty: FaultyS3
) -> None:
    put(folder, "b", b'{"n": 1}\n' * 200_000)
    tail = tail_of(folder)
    (tracked,) = tail.observe({}, 1, now_us=0, final=True).changed.values()
    objects._beginnings.clear()
    faulty.meet("busy", among=is_read_of_b)
    assert tail.cut(tracked, 10_000) is None
    held = tail.observe({1: tracked}, 2, now_us=1)
    assert held.backlog_bytes == {}
    assert f"{folder}/b: {BUSY}" in held.problems[0].reason
    faulty.mend()
    seen = tail.observe({1: tracked}, 2, now_us=FIRST_PAUSE_US)
    assert list(seen.backlog_bytes) == [1]
    assert tail.cut(tracked, 10_000) is not None
