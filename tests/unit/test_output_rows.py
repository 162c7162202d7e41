"""Rows read back by batch: pages of committed rows, rows that came since."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from photon.adapters import ROW_COLUMNS
from photon.storage.joined_rows import CommittedRows
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


def test_a_snapshot_has_what_was_committed_before_it_by_epoch_and_batch(table: OutputTable) -> None:
    commit(table, "e", 1, "a", "b")
    commit(table, "e", 2, "c")
    commit(table, "f", 1, "d")
    committed = CommittedRows(table)
    commit(OutputTable(table.folder.parent, "joined_events"), "e", 3, "late")
    assert sorted(ids_of(committed, "e", range(1, 10))) == ["a", "b", "c"]
    assert ids_of(committed, "e", range(2, 3)) == ["c"]


def test_rows_of_some_events_of_a_batch_name_their_plan(table: OutputTable) -> None:
    commit(table, "e", 1, "a", "b", "c")
    commit(table, "e", 2, "a")
    commit(table, "f", 1, "a")
    committed = CommittedRows(table)
    found = committed.of_batches("e", {1}, ["a", "c", "nobody's"])
    assert sorted(found["_event_id"].to_pylist()) == ["a", "c"]
    assert committed.of_batches("e", [1, 2]).num_rows == 4
    assert committed.of_batches("e", []).num_rows == 0


def test_compacted_files_are_read_by_batch_too(table: OutputTable) -> None:
    for batch, event_id in enumerate("abc", start=1):
        commit(table, "e", batch, event_id)
    table.load().optimize.compact()
    committed = CommittedRows(table)
    assert sorted(ids_of(committed, "e", range(2, 4))) == ["b", "c"]
