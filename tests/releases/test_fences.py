"""A fence ends an epoch in all tables whose rows releases show, and says how far it came."""

from __future__ import annotations

from pathlib import Path

import pytest

from photon.storage import tables
from photon.storage.columns import DEAD_LETTER_COLUMNS
from photon.storage.output_files import write_rows
from photon.storage.tables import CommitConflict, OutputTable, app_id, batch_of, fence_epoch
from photon.storage.tokens import PlanKey


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake whose epoch 1 has committed two batches."""
    for name in ("joined_events", "dead_letters"):
        OutputTable(tmp_path, name).create("p", "east")
    for batch in (1, 2):
        OutputTable(tmp_path, "joined_events").commit([], app_id("east", "1"), batch, batch - 1)
    return tmp_path


def commit_side_row(lake: Path, batch: int) -> None:
    """Commit as a process does that slept while its epoch was ended."""
    file = write_rows(lake, "dead_letters", batch, DEAD_LETTER_COLUMNS.empty_table())
    OutputTable(lake, "dead_letters").commit_missing([file], "east", PlanKey("east", "1", batch, "p"))


def test_no_side_row_comes_into_an_epoch_that_was_ended(lake: Path) -> None:
    fence_epoch(lake, "east", "1")
    with pytest.raises(CommitConflict):
        commit_side_row(lake, 3)


def test_without_the_rule_a_sleeper_writes_side_rows_into_an_epoch_that_was_ended(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "FENCED_TABLES", ("joined_events",))
    fence_epoch(lake, "east", "1")
    commit_side_row(lake, 3)


def test_a_fence_says_how_far_its_epoch_came(lake: Path) -> None:
    fence_epoch(lake, "east", "1")
    fence_epoch(lake, "east", "2")
    joined = OutputTable(lake, "joined_events")
    assert [batch_of(joined.version_of(app_id("east", epoch))) for epoch in "12"] == [2, 0]
