"""Waiting segments in a local folder and on S3 alike; a store that does not answer has damaged nothing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from infra.servers.minio import MinioServer
from photon.pipeline.location import Location, S3Folder
from photon.state.waiting.merging import merge
from photon.state.waiting.retries import Retries
from photon.state.waiting.segments import (
    GROUP_ROWS,
    INDEX,
    RECORD_COLUMNS,
    RECORDS,
    WaitingIndex,
    read_all_records,
    read_retries,
    write_segment,
)
from photon.storage import local_copies, s3
from photon.storage.store import store_of

pytestmark = pytest.mark.usefixtures("copies")


def records(count: int, raw_bytes: int = 10) -> pa.Table:
    rng = np.random.default_rng(1)
    columns = {
        "_file": np.ones(count, np.int32),
        "_offset": np.arange(count),
        "_raw": pa.array([rng.bytes(raw_bytes) for _ in range(count)], pa.binary()),
        "_id": [f"c{number}" for number in range(count)],
        "_key": [f"q{number}" for number in range(count)],
        "_time_us": np.arange(count),
        "attempts": np.ones(count, np.int32),
        "first_seen_us": np.arange(count),
        "recorded": np.zeros(count, bool),
        "key_hash": np.arange(count).astype(np.uint64),
        "primary_time_us": np.arange(count),
        "reason": np.zeros(count, np.int8),
        "due_us": np.arange(count),
    }
    return pa.table(columns).cast(RECORD_COLUMNS)


def references(name: str, *rows: int) -> Retries:
    return Retries.of(name, rows, [1] * len(rows), rows, [False] * len(rows))


@pytest.mark.parametrize("raw_bytes", [10, 1000])  # read at once, and in parts
def test_records_are_read_again_by_their_rows(folder: Location, raw_bytes: int) -> None:
    written = records(2 * GROUP_ROWS + 5, raw_bytes)
    write_segment(folder, "a", written)
    assert (store_of(folder).size_bytes("a" + RECORDS) or 0) > s3.READ_WHOLE_BYTES or raw_bytes == 10
    wanted = [1, 7, GROUP_ROWS + 3, 2 * GROUP_ROWS + 4]
    found = read_retries(folder, [references("a", *wanted)])
    assert found["_raw"].to_pylist() == written["_raw"].take(pa.array(wanted)).to_pylist()
    index = WaitingIndex(folder, "a")
    index.check()
    assert index.rows_of_keys(np.array([3, 5], np.uint64)).tolist() == [3, 5]


def test_segments_are_merged(folder: Location) -> None:
    write_segment(folder, "a", records(5))
    write_segment(folder, "b", records(7))
    merged = merge(folder, [("a", np.array([1, 2])), ("b", np.array([6]))], "c")
    assert merged.info.records == 3
    assert read_all_records(folder, "c")["_id"].to_pylist() == ["c1", "c2", "c6"]


@pytest.mark.server
def test_a_damaged_copy_of_an_index_is_fetched_again(
    on_s3: S3Folder,
) -> None:
    write_segment(on_s3, "a", records(50))
    assert len(WaitingIndex(on_s3, "a")) == 50
    local_copies.path_of(on_s3, "a" + INDEX).write_bytes(b"cut short")
    assert len(WaitingIndex(on_s3, "a")) == 50


@pytest.mark.server
@pytest.mark.parametrize("ill", ["away", "refused"])
def test_a_store_that_does_not_answer_has_damaged_nothing(
    minio: MinioServer, monkeypatch: pytest.MonkeyPatch, ill: str
) -> None:
    monkeypatch.setattr(s3, "RETRIES", 0)
    url = "http://127.0.0.1:9" if ill == "away" else minio.url
    s3.forget_clients()
    if ill == "refused":
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-secret")
    folder = S3Folder("photon", "waiting", url)
    for read in (lambda: WaitingIndex(folder, "a"), lambda: read_retries(folder, [references("a", 0)])):
        with pytest.raises(OSError, match="cannot read waiting records from s3://photon/waiting/a"):
            read()
    s3.forget_clients()
