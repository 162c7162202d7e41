"""`joined_events` is partitioned by the UTC date of its events; one that is not is read and written on."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from photon.adapters import DATE_COLUMN, ROW_COLUMNS
from photon.storage.candidate_files import (
    candidate_files,
    list_of,
    own_candidate_files,
    read_candidates,
    write_candidates,
)
from photon.storage.columns import by_date
from photon.storage.compaction import compact, groups_of
from photon.storage.data_files import DataFiles
from photon.storage.output_files import write_rows_by_date
from photon.storage.replacing import PlannedReplacement, replace_files
from photon.storage.tables import OutputTable, app_id
from photon.storage.tokens import Occurrence, PlanKey

APP, PLAN = app_id("east", "e"), PlanKey("east", "e", 1, "p")
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
DAYS = [NEW_YEAR - timedelta(microseconds=1), NEW_YEAR, NEW_YEAR + timedelta(hours=23), None]
DATES = [date(2025, 12, 31), date(2026, 1, 1), None]


@pytest.fixture
def table(tmp_path: Path) -> OutputTable:
    made = OutputTable(tmp_path, "joined_events")
    made.create("clicks", "east")
    return made


def rows(batch: int = 1, times: list[datetime | None] = DAYS) -> pa.Table:
    stamp = {"_datacenter": "east", "_epoch": "e", "_batch": batch, "_plan": "p"}
    found = [
        stamp | {"_occurrence": f"{batch}:{n}", "_event_id": f"{batch}-{n}", "_event_time": time}
        for n, time in enumerate(times)
    ]
    return pa.Table.from_pylist(found, ROW_COLUMNS)


def append(table: OutputTable, batch: int = 1, times: list[datetime | None] = DAYS) -> None:
    files = write_rows_by_date(table.folder.parent, "joined_events", batch, rows(batch, times))
    table.commit(files, APP, batch, batch - 1, "p")


def read(table: OutputTable) -> pa.Table:
    return OutputTable(table.folder.parent, table.name).load().to_pyarrow_table()


def test_rows_of_one_date_stay_one_table_and_others_are_told_apart_by_utc() -> None:
    one = rows(times=DAYS[1:3])
    assert by_date(one) == [("2026-01-01", one)]
    found = {day: part["_event_id"].to_pylist() for day, part in by_date(rows())}
    assert found == {"2025-12-31": ["1-0"], "2026-01-01": ["1-1", "1-2"], None: ["1-3"]}
    assert by_date(rows(times=[])) == []


def test_a_row_is_in_the_partition_of_its_event(table: OutputTable) -> None:
    append(table)
    found = read(table).sort_by("_occurrence")
    assert found[DATE_COLUMN].to_pylist() == [DATES[0], DATES[1], DATES[1], None]
    files = DataFiles(table.load()).all()
    assert {(file.date, file.rows) for file in files} == {(DATES[0], 1), (DATES[1], 2), (None, 1)}


def test_who_asks_for_one_day_opens_its_files_alone(table: OutputTable) -> None:
    append(table)
    dataset = DeltaTable(str(table.folder)).to_pyarrow_dataset()
    fragments = list(dataset.get_fragments(ds.field(DATE_COLUMN) == DATES[0]))
    assert len(fragments) == 1


def test_the_rows_of_a_batch_are_read_back_whatever_their_dates(table: OutputTable) -> None:
    append(table)
    assert sorted(table.occurrences_of("e", 1, "p")) == [Occurrence(1, n) for n in range(4)]


def test_each_date_of_a_batch_has_a_candidate_file_that_may_be_committed_as_it_is(tmp_path: Path) -> None:
    table = OutputTable(tmp_path, "joined_events")
    table.create("clicks", "east")
    files = write_candidates(tmp_path, PLAN, 0, rows())
    assert [file.date for file in files] == ["2025-12-31", "2026-01-01", None]
    names = own_candidate_files(tmp_path, PLAN, 0)
    assert names == [*(file.path for file in files), list_of(files[0])]
    stored = read_candidates(tmp_path, names)
    assert stored is not None
    assert stored.num_rows == 4
    again = write_candidates(tmp_path, PLAN, 0, rows())
    assert not {file.path for file in again} & set(names)
    table.commit(again, APP, 1, 0, "p")
    assert read(table).num_rows == 4


@pytest.mark.parametrize("listed", ["", "[", '["2026-01-01", null]'])
def test_a_run_that_died_before_its_first_file_leaves_nothing_to_propose(tmp_path: Path, listed: str) -> None:
    table = OutputTable(tmp_path, "joined_events")
    table.create("clicks", "east")
    Path(str(table.folder), "batch-1-p-0-0.json").write_text(listed)
    files = write_candidates(tmp_path, PLAN, 0, rows(times=DAYS[1:3]))
    assert [file.path for file in files] == ["_event_date=2026-01-01/batch-1-p-0-1.parquet"]
    found = candidate_files(tmp_path, PLAN)
    assert found == ["batch-1-p-0-0.json", files[0].path, "batch-1-p-0-1.json"]
    stored = read_candidates(tmp_path, found)
    assert stored is not None
    assert stored.num_rows == 2


def test_a_batch_of_one_date_is_one_file(tmp_path: Path) -> None:
    (OutputTable(tmp_path, "joined_events")).create("clicks", "east")
    assert len(write_candidates(tmp_path, PLAN, 0, rows(times=DAYS[1:3]))) == 1


def test_a_compaction_keeps_dates_apart(table: OutputTable) -> None:
    for batch in range(1, 6):
        append(table, batch)
    before = read(table).sort_by([("_batch", "ascending"), ("_occurrence", "ascending")])
    for group in groups_of(DataFiles(table.load()).all(), {"e": 5}, 2**30, 2):
        assert compact(table, group, "photon:east:compaction") is not None
    assert read(table).sort_by([("_batch", "ascending"), ("_occurrence", "ascending")]) == before
    files = DataFiles(table.load()).all()
    assert sorted(str(file.date) for file in files if "compacted-" in file.path) == sorted(map(str, DATES))
    assert len(files) == 6


def test_replaced_files_leave_their_partitions(table: OutputTable) -> None:
    append(table)
    gone = [file.path for file in DataFiles(table.load()).all() if file.date == DATES[1]]
    new = write_rows_by_date(
        table.folder.parent, "joined_events", 1, rows(times=[NEW_YEAR + timedelta(days=1)])
    )
    replace_files(table, PlannedReplacement(frozenset(gone), new, "photon:east:rebuild", 1, {}))
    assert read(table)[DATE_COLUMN].to_pylist().count(DATES[1]) == 0
    assert read(table).num_rows == 3


def test_new_columns_of_an_adapter_come_into_a_partitioned_table(table: OutputTable) -> None:
    append(table)
    more = rows(2).append_column("country", pa.array(["x"] * 4))
    files = write_rows_by_date(table.folder.parent, "joined_events", 2, more)
    table.commit(files, APP, 2, 1, "p")
    assert read(table)["country"].null_count == 4
    assert DATE_COLUMN not in table.schema().names


def values(found: pa.Table) -> list[dict[str, Any]]:
    return sorted(found.select(ROW_COLUMNS.names).to_pylist(), key=lambda row: row["_occurrence"])
