"""Bounds in the log, pyarrow's condition and SQL's say alike which rows of a table are in a release."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from photon.adapters import ROW_COLUMNS
from photon.releases.files import condition, rows_within, share_of, shares, sql_condition
from photon.releases.release import Place
from photon.storage.data_files import DataFile, DataFiles
from photon.storage.output_files import write_rows
from photon.storage.tables import OutputTable
from tests.support.shares import seeds

PLACE = Place(10, 5)


def file(
    first_epoch: str | None, last_epoch: str | None, batches: tuple[Any, Any], nulls: Any = 0
) -> DataFile:
    return DataFile("a", 10, 1, first_epoch, last_epoch, *batches, None, nulls, nulls)


@pytest.mark.parametrize("batch", [1, 99])
def test_an_earlier_epoch_counts_whole_and_a_later_one_not_at_all(batch: int) -> None:
    assert share_of(file("9", "9", (batch, batch)), PLACE) == "whole"
    assert share_of(file("11", "11", (batch, batch)), PLACE) == "none"
    assert share_of(file("100", "100", (batch, batch)), PLACE) == "none"


def test_of_the_last_epoch_batches_decide() -> None:
    assert share_of(file("10", "10", (1, 5)), PLACE) == "whole"
    assert share_of(file("10", "10", (5, 6)), PLACE) == "partial"
    assert share_of(file("10", "10", (6, 9)), PLACE) == "none"


@pytest.mark.parametrize("ends", [("10", "9"), ("10", "3"), ("1", "2"), (None, None), ("x", "x")])
def test_bounds_of_several_epochs_or_none_leave_it_to_the_rows(ends: tuple[str | None, str | None]) -> None:
    assert share_of(file(*ends, (1, 1)), PLACE) == "partial"


@pytest.mark.parametrize("nulls", [1, None])
def test_a_file_that_may_have_nulls_is_never_read_plainly(nulls: int | None) -> None:
    assert share_of(file("9", "9", (1, 1), nulls), PLACE) == "partial"
    assert share_of(file("10", "10", (1, 1), nulls), PLACE) == "partial"


# -- random tables


def random_table(lake: Path, rng: random.Random) -> tuple[OutputTable, list[tuple[str | None, int | None]]]:
    """A table of files as batches, compactions and people write them, and its rows' epochs and batches."""
    table, places = OutputTable(lake, "unjoined"), []
    table.create("clicks", "east")
    for number in range(1, rng.randint(2, 12)):
        kind = rng.choice(("batch", "compacted", "mixed", "odd"))
        epoch, batch = rng.randint(1, 12), rng.randint(0, 9)
        rows: list[tuple[str | None, int | None]] = [(str(epoch), batch)] * rng.randint(1, 3)
        if kind == "compacted":
            rows = [(str(epoch), batch + step) for step in range(rng.randint(1, 5))]
        if kind == "mixed":
            rows = [(str(rng.randint(1, 12)), rng.randint(0, 9)) for _ in range(rng.randint(1, 4))]
        if kind == "odd":
            rows += [(None, batch), (str(epoch), None), ("x", 1)][: rng.randint(1, 3)]
        stored = [{"_datacenter": "east", "_epoch": name, "_batch": at} for name, at in rows]
        written = write_rows(lake, "unjoined", number, pa.Table.from_pylist(stored, ROW_COLUMNS))
        table.commit([written], "test", number, number - 1)
        places += rows
    return table, places


def is_within(row: tuple[str | None, int | None], place: Place) -> bool:
    epoch, batch = row
    if epoch is None or not epoch.isdecimal():
        return False
    return int(epoch) < place.epoch or (
        int(epoch) == place.epoch and batch is not None and batch <= place.batch
    )


@pytest.mark.parametrize("seed", seeds(4, 12))
def test_log_pyarrow_and_sql_count_the_rows_that_a_plain_model_counts(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    table, rows = random_table(tmp_path, rng)
    files = DataFiles(table.load()).all()
    everything = table.load().to_pyarrow_dataset().to_table(columns=["_epoch", "_batch"])
    for _ in range(6):
        place = Place(rng.randint(1, 13), rng.randint(0, 12))
        expected = sum(is_within(row, place) for row in rows)
        assert rows_within(table.store, files, place) == expected
        assert everything.filter(condition(place)).num_rows == expected
        [found] = duckdb.sql(f"SELECT count(*) FROM everything WHERE {sql_condition(place)}").fetchall()
        assert found == (expected,)


def test_a_live_batch_says_in_the_log_that_its_rows_have_no_nulls(tmp_path: Path) -> None:
    table = OutputTable(tmp_path, "unjoined")
    table.create("clicks", "east")
    rows = pa.Table.from_pylist([{"_datacenter": "east", "_epoch": "1", "_batch": 1}], ROW_COLUMNS)
    table.commit([write_rows(tmp_path, "unjoined", 1, rows)], "test", 1, 0)
    assert [len(some) for some in shares(DataFiles(table.load()).all(), Place(1, 1))] == [1, 0]
