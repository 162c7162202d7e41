"""A table of either kind of lake stays fit beside appends: compaction, checkpoint, log, vacuum, readers."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from photon.adapters import ROW_COLUMNS
from photon.pipeline.location import Location
from photon.storage import followed_table
from photon.storage.compaction import compact, groups_of
from photon.storage.data_files import DataFiles
from photon.storage.delta import LOG_FOLDER, log_entry, open_table
from photon.storage.output_files import write_rows_by_date
from photon.storage.store import store_of
from photon.storage.table_log import checkpoint, clean
from photon.storage.tables import CommitConflict, OutputTable
from photon.storage.tokens import Occurrence
from photon.storage.vacuum import vacuum
from tests.support.output_tables import APP, ids_in, new_table

BATCHES = 9
FAR_US = 2**52  # all checkpoints were written before
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def table(folder: Location) -> OutputTable:
    made = new_table(folder)
    for batch in range(1, BATCHES + 1):
        append(made, batch)
    return made


def rows(batch: int) -> pa.Table:
    """One row of the last day of a year, one of the first day of the next."""
    stamp = {"_datacenter": "east", "_epoch": "e", "_batch": batch, "_plan": f"p{batch}"}
    found = [
        stamp | {"_occurrence": f"{batch}:{n}", "_event_id": f"{batch}-{n}", "_event_time": time}
        for n, time in enumerate([NEW_YEAR - timedelta(seconds=1), NEW_YEAR])
    ]
    return pa.Table.from_pylist(found, ROW_COLUMNS)


def append(table: OutputTable, batch: int) -> None:
    files = write_rows_by_date(table.folder.parent, "joined_events", batch, rows(batch))
    table.commit(files, APP, batch, batch - 1, f"p{batch}")


def compact_all(table: OutputTable) -> int:
    handle = table.load()
    last = {"e": handle.transaction_version(APP) or 0}
    groups = groups_of(DataFiles(handle).all(), last, 2**30, 2)
    assert all(compact(table, group, "photon:east:compaction") is not None for group in groups)
    return len(groups)


def test_compaction_and_a_clean_log_leave_the_table_as_it_was(table: OutputTable) -> None:
    before, reader = ids_in(table), open_table(table.folder)
    assert compact_all(table) == 2
    assert len(DataFiles(table.load())) == 4
    checkpoint(table.folder)
    assert clean(table.folder, FAR_US) > BATCHES
    assert store_of(table.folder).size_bytes(log_entry(3)) is None
    assert vacuum(table, None, True, time.time_ns() // 1_000) == 0  # nothing has lain there for a week
    assert ids_in(table) == before
    assert reader.to_pyarrow_table().num_rows == 2 * BATCHES  # the reader was open before
    assert len(list(store_of(table.folder / LOG_FOLDER).names())) <= 4


def compact_and_clean(folder: Location) -> None:
    """Compact and clean as another process does it, long after all handles were opened."""
    table = OutputTable(folder, "joined_events")
    compact_all(table)
    checkpoint(table.folder)
    assert clean(table.folder, FAR_US) > 0


def test_a_dispatcher_that_opens_its_table_anew_goes_on_and_a_zombie_fails(
    table: OutputTable, folder: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed_table, "REOPENED_AFTER_SECONDS", 0.0)
    zombie = OutputTable(folder, "joined_events")
    zombie.load()
    append(table, BATCHES + 1)
    compact_and_clean(folder)
    with pytest.raises(CommitConflict):
        append(zombie, BATCHES + 1)
    append(table, BATCHES + 2)
    assert len(ids_in(table)) == 2 * BATCHES + 4
    found = OutputTable(folder, "joined_events").occurrences_of("e", 4, "p4")
    assert sorted(found) == [Occurrence(4, 0), Occurrence(4, 1)]
