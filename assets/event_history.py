"""Rows of Dagster's tables that nobody reads any more. Dagster itself deletes events by their run alone.

The newest of what is old stays: of each status of a check, and of each asset, partition and kind of event.
By these rows Dagster knows what was made, is fresh or has passed. This module alone knows Dagster's tables:
those of orchestration/dagster.yaml and of infra/production/dagster.yaml.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import sqlalchemy as db
from dagster import DagsterEventType, DagsterInstance
from dagster._core.instance.utils import RUNLESS_RUN_ID
from dagster._core.storage.event_log.schema import (
    AssetCheckExecutionsTable,
    AssetEventTagsTable,
    SqlEventLogStorageTable,
)
from dagster._core.storage.event_log.sql_event_log import SqlEventLogStorage
from dagster._core.storage.runs.schema import RunsTable, RunTagsTable
from dagster._core.storage.runs.sql_run_storage import SqlRunStorage

from photon.process.clock import MICROSECONDS

# One call deletes so many rows of each table, and the next one goes on: two pipelines have some 5,000 a day.
MOST_ROWS = 10_000
# One transaction deletes so many. Other writers of SQLite wait for it.
ROWS_AT_ONCE = 500
EVENTS, CHECKS = SqlEventLogStorageTable.c, AssetCheckExecutionsTable.c
# Dagster goes by these after their run is gone.
TOLD_OF_ASSETS = (DagsterEventType.ASSET_MATERIALIZATION.value, DagsterEventType.ASSET_OBSERVATION.value)


def delete_run(instance: DagsterInstance, run_id: str) -> None:
    """Delete a run that is over with its events. Those that tell of assets are left to `delete_outlived`."""
    storage = _events_of(instance)
    kind = EVENTS.dagster_event_type
    others = db.or_(kind.is_(None), kind.not_in(TOLD_OF_ASSETS))
    with storage.index_transaction() as connection:
        connection.execute(SqlEventLogStorageTable.delete().where(EVENTS.run_id == run_id, others))
    storage.free_concurrency_slots_for_run(run_id)
    instance.run_storage.delete_run(run_id)  # last: until then the next call finds what is left of it


def delete_tags_without_run(instance: DagsterInstance) -> None:
    """Delete the tags of runs that are gone. SQLite does not, since Dagster leaves its foreign keys off."""
    runs = instance.run_storage
    assert isinstance(runs, SqlRunStorage)
    with runs.connect() as connection:
        gone = RunTagsTable.c.run_id.not_in(db.select(RunsTable.c.run_id))
        connection.execute(RunTagsTable.delete().where(gone))


def delete_outlived(instance: DagsterInstance, before_us: int, dry_run: bool = False) -> int:
    """Delete a bounded number of events and evaluations from before a time, but the newest, and count them.

    With `dry_run` only count.
    """
    storage = _events_of(instance)
    before = datetime.fromtimestamp(before_us / MICROSECONDS, UTC).replace(tzinfo=None)  # Dagster's form
    kind = EVENTS.dagster_event_type
    with storage.index_connection() as connection:
        events = _outlived(
            connection,
            EVENTS.timestamp,
            before,
            [EVENTS.asset_key, kind, EVENTS.partition],
            db.or_(EVENTS.run_id == RUNLESS_RUN_ID, kind.in_(TOLD_OF_ASSETS)),
        )
        evaluations = _outlived(
            connection,
            CHECKS.evaluation_event_timestamp,
            before,
            [CHECKS.asset_key, CHECKS.check_name, CHECKS.partition, CHECKS.execution_status],
            db.true(),
        )
    if not dry_run:
        _delete(storage, events, AssetEventTagsTable.c.event_id, EVENTS.id)  # the tags of an event before it
        _delete(storage, evaluations, CHECKS.id)
    return len(events) + len(evaluations)


def _events_of(instance: DagsterInstance) -> SqlEventLogStorage:
    storage = instance.event_log_storage
    assert isinstance(storage, SqlEventLogStorage)
    return storage


def _outlived(
    connection: db.Connection,
    at: db.Column[datetime],
    before: datetime,
    group: Sequence[db.Column[str]],
    which: db.ColumnElement[bool],
) -> Sequence[int]:
    """The ids of old rows that are not the newest old one of their group, the oldest first."""
    number = at.table.c.id
    # No index has the times, but rows come nearly in their order: the first that is not old ends the search.
    recent = connection.scalar(db.select(number).where(at >= before).order_by(number).limit(1))
    old = db.and_(which, at < before, db.true() if recent is None else number < recent)
    newest = db.select(db.func.max(number)).where(old).group_by(*group)
    found = db.select(number).where(old, number.not_in(newest)).order_by(number).limit(MOST_ROWS)
    return connection.scalars(found).all()


def _delete(storage: SqlEventLogStorage, ids: Sequence[int], *columns: db.Column[int]) -> None:
    """Delete the rows that have these ids in the columns, in small transactions."""
    for first in range(0, len(ids), ROWS_AT_ONCE):
        with storage.index_transaction() as connection:
            for column in columns:
                some = column.in_(ids[first : first + ROWS_AT_ONCE])
                connection.execute(db.delete(column.table).where(some))
