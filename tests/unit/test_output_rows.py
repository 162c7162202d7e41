"""Rows read back by batch: stretches of batches, pages of committed rows, rows that came since."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from photon.adapters import ROW_COLUMNS
from photon.storage.joined_rows import CommittedRows, stretches
from photon.storage.output_files import write_rows
from photon.storage.tables import OutputTable, app_id


def commit(table: OutputTable, epoch: str, batch: int, *ids: str, columns: pa.Schema = ROW_COLUMNS) -> None:
    values = {"_datacenter": "east", "_epoch": epoch, "_batch": batch, "_occurrence": "1:0"}
    rows = pa.Table.from_pylist([values | {"_event_id": event_id} for event_id in ids], columns)
    file = write_rows(table.folder.parent, "joined_events", batch, rows)
    table.commit([file], app_id("east", epoch), batch, batch - 1)


@pytest.fixture
def table(tmp_path: Path) -> OutputTable:
    made = OutputTable(tmp_path, "joined_events")
    made.create("clicks", "east")
    return made


def ids_of(committed: CommittedRows, epoch: str, batches: range) -> list[str]:
    return [i for page in committed.pages(epoch, batches, 10) for i in page["_event_id"].to_pylist()]


def test_stretches_have_at_least_so_many_rows_and_end_with_the_last_batch() -> None:
    files = [(1, 3), (2, 3), (3, 3), (7, 1)]
    assert stretches(files, 0, 5) == [range(1, 3), range(3, 8)]
    assert stretches(files, 2, 1) == [range(3, 4), range(4, 8)]
    assert stretches(files, 7, 1) == []


def test_a_stretch_takes_all_files_of_a_batch() -> None:
    assert stretches([(1, 5), (1, 5), (2, 5)], 0, 5) == [range(1, 2), range(2, 3)]


def test_a_snapshot_has_what_was_committed_before_it_by_epoch_and_batch(table: OutputTable) -> None:
    commit(table, "e", 1, "a", "b")
    commit(table, "e", 2, "c")
    commit(table, "f", 1, "d")
    committed = CommittedRows(table)
    commit(OutputTable(table.folder.parent, "joined_events"), "e", 3, "late")
    assert committed.stretches("e", 0, 1) == [range(1, 2), range(2, 3)]
    assert committed.stretches("f", 0, 100) == [range(1, 2)]
    assert sorted(ids_of(committed, "e", range(1, 10))) == ["a", "b", "c"]
    assert ids_of(committed, "e", range(2, 3)) == ["c"]


def test_compacted_files_are_read_by_batch_too(table: OutputTable) -> None:
    for batch, event_id in enumerate("abc", start=1):
        commit(table, "e", batch, event_id)
    table.load().optimize.compact()
    committed = CommittedRows(table)
    assert committed.stretches("e", 1, 1) == [range(2, 4)]
    assert sorted(ids_of(committed, "e", range(2, 4))) == ["b", "c"]


def test_rows_that_are_older_than_a_column_have_none_of_it(tmp_path: Path) -> None:
    older = pa.schema([field for field in ROW_COLUMNS if field.name != "_event_time"])
    table = OutputTable(tmp_path, "joined_events")
    DeltaTable.create(str(table.folder), schema=older)
    commit(table, "e", 1, "old", columns=older)
    (page,) = CommittedRows(table).pages("e", range(1, 2), 10)
    assert page["_event_time"].to_pylist() == [None]
    commit(table, "e", 2, "new")
    assert sorted(ids_of(CommittedRows(table), "e", range(1, 3))) == ["new", "old"]
