"""Dated days on an instance of orchestration/dagster.yaml: it keeps its size, and what it shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as db
from dagster import DagsterInstance

from photon.assets import event_history
from tests.orchestration.dated_days import (
    GROW,
    JOINED,
    KEEP_THEIR_SIZE,
    begin,
    live,
    live_days,
    prune,
    rows,
    shown,
)


@pytest.mark.slow
@pytest.mark.timeout(3_600)  # thirty days are 180 runs
@pytest.mark.parametrize("number", [9, pytest.param(30, marks=pytest.mark.long)])
def test_the_last_day_is_no_larger_than_the_one_after_the_longest_retention(
    instance: DagsterInstance, home: Path, number: int
) -> None:
    def used_bytes() -> int:
        for path in home.rglob("*.db"):
            with db.create_engine(f"sqlite:///{path}").connect() as connection:
                connection.execute(db.text("PRAGMA wal_checkpoint(TRUNCATE)"))
        return sum(path.stat().st_size for path in home.rglob("*.db"))

    live_days(instance, used_bytes, number)
    logs = [path for path in (home / "storage").iterdir() if path.is_dir()]
    assert len(logs) <= rows(instance)["runs"]


def test_each_table_of_dagster_has_what_bounds_it(instance: DagsterInstance) -> None:
    """A newer Dagster with another table fails here: say what holds it, and prune it if it grows."""
    assert sorted(rows(instance)) == sorted([*GROW, *KEEP_THEIR_SIZE])


def test_what_is_shown_as_latest_and_made_stays(instance: DagsterInstance) -> None:
    begin(instance)
    for day in (0, 1):
        live(instance, day)
    before, lived = shown(instance), rows(instance)
    prune(instance, 20)
    assert shown(instance) == before
    after = rows(instance)
    assert [name for name in sorted(lived) if after[name] < lived[name]] == sorted(GROW)


def test_plots_keep_all_points_of_the_retention(instance: DagsterInstance) -> None:
    begin(instance)
    live(instance, 0)
    before = [record.storage_id for record in instance.fetch_observations(JOINED, limit=100).records]
    prune(instance, 2)
    assert [record.storage_id for record in instance.fetch_observations(JOINED, limit=100).records] == before


@contextmanager
def crash_at_delete(number: int) -> Iterator[list[str]]:
    """End each statement from the numbered DELETE on, as a kill does; the list has those that came so far."""
    deletes: list[str] = []

    def crash(_connection: Any, _cursor: Any, statement: str, *_: object) -> None:
        if statement.startswith("DELETE"):
            deletes.append(statement)
            if len(deletes) > number:
                raise SystemExit("killed")

    db.event.listen(db.engine.Engine, "before_cursor_execute", crash)
    try:
        yield deletes
    finally:
        db.event.remove(db.engine.Engine, "before_cursor_execute", crash)


def test_a_crash_at_any_step_loses_nothing_that_is_shown_and_the_next_call_goes_on(
    instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_history, "ROWS_AT_ONCE", 20)
    begin(instance)
    for day in (0, 1):
        live(instance, day)
    before = shown(instance)
    for number in count():  # one statement more each time, on what the times before have left
        with crash_at_delete(number) as deletes, suppress(SystemExit):
            prune(instance, 20)
        assert shown(instance) == before
        if len(deletes) <= number:
            break
    assert number > 10
    pruned = rows(instance)
    prune(instance, 20)
    assert rows(instance) == pruned
