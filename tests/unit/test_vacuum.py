"""Old data files go once nobody reads them any more."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable

from photon.storage.archived_log import ArchivedLog
from photon.storage.delta import LOG_FOLDER
from photon.storage.table_log import checkpoint, clean
from photon.storage.tables import OutputTable
from photon.storage.tokens import PlanKey
from photon.storage.vacuum import KeptFiles, vacuum
from tests.unit.compacted_table import (
    BATCHES,
    WEEK_SECONDS,
    again,
    append,
    compact_all,
    new_table,
    now_us,
    rows,
)


@pytest.fixture
def table(tmp_path: Path) -> OutputTable:
    return new_table(tmp_path)


# -- old data files

DAY_US = 86_400_000_000


def age(table: OutputTable, name: str) -> None:
    then = time.time() - WEEK_SECONDS - 60
    os.utime(table.folder / name, (then, then))


def test_readers_that_are_open_go_on_for_a_week(table: OutputTable) -> None:
    reader = DeltaTable(str(table.folder))
    compact_all(table)
    for path in table.folder.glob("_event_date=*/*.parquet"):
        age(table, str(path))  # the files are old, and left the table just now
    assert vacuum(table, None, True, now_us()) == 0
    checkpoint(table.folder)
    clean(table.folder, now_us() + 1_000_000)
    assert vacuum(table, None, True, now_us() + DAY_US) == 0
    assert reader.to_pyarrow_table().num_rows == 2 * BATCHES


def test_files_that_left_the_table_a_week_ago_go_with_the_commits_that_say_so(table: OutputTable) -> None:
    compact_all(table)
    append(table, BATCHES + 1)
    before = rows(table)
    checkpoint(table.folder)
    clean(table.folder, now_us() + 1_000_000)
    assert vacuum(table, None, False, now_us() + 6 * DAY_US) == 0
    assert vacuum(table, None, False, now_us() + 8 * DAY_US) == BATCHES - 1
    data_files = [path for path in table.folder.rglob("*.parquet") if LOG_FOLDER not in path.parts]
    assert len(data_files) == 3
    assert ArchivedLog(table.folder).bundles() == []
    assert rows(again(table)) == before


def test_commits_stay_until_a_release_has_looked_for_those_of_others(table: OutputTable) -> None:
    compact_all(table)
    append(table, BATCHES + 1)
    last = table.load().version()
    checkpoint(table.folder)
    clean(table.folder, now_us() + 1_000_000)
    later_us = now_us() + 8 * DAY_US
    assert vacuum(table, None, False, later_us, KeptFiles(looked=1)) == 0
    assert ArchivedLog(table.folder).bundles() != []
    assert vacuum(table, None, False, later_us, KeptFiles(looked=last)) == BATCHES - 1


def test_a_file_stays_that_is_in_the_table_again(table: OutputTable) -> None:
    version = table.load().version()
    compact_all(table)
    DeltaTable(str(table.folder)).restore(version)
    append(table, BATCHES + 1)
    checkpoint(table.folder)
    clean(table.folder, now_us() + 1_000_000)
    vacuum(table, None, False, now_us() + 8 * DAY_US)
    assert ArchivedLog(table.folder).bundles() == []
    assert len(rows(again(table))) == 2 * (BATCHES + 1)


def test_files_that_were_never_committed_go_after_a_week_but_those_of_an_open_plan(
    table: OutputTable,
) -> None:
    open_plan = PlanKey("east", "e", BATCHES + 1, "its")
    names = [f"batch-{BATCHES + 1}-its-0-0.parquet", "batch-1-ended-0-0.parquet", "batch-1-young-0-0.parquet"]
    for name in names:
        (table.folder / name).write_bytes(b"candidates")
    age(table, names[0])
    age(table, names[1])
    assert vacuum(table, None, False, now_us()) == 0  # nobody knows here which plan is open
    assert vacuum(table, open_plan, True, now_us()) == 1
    assert [name for name in names if (table.folder / name).exists()] == [names[0], names[2]]
    assert vacuum(table, None, True, now_us()) == 0  # the folder was looked at just now
    assert vacuum(table, None, True, now_us() + DAY_US) == 1
    assert len(rows(again(table))) == 2 * BATCHES
