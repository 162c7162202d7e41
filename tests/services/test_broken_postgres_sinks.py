"""Without one transaction, the lock or the cursor's own word a table lacks rows or has them twice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import pytest

from photon.feed.postgres import PostgresTable
from photon.feed.step import Step
from photon.process.faults import fault_point, watched
from photon.releases.release import Release
from tests.feed.made_steps import FED, step
from tests.services.test_postgres_sink import URL, Database, database, server

__all__ = ["database", "server"]
pytestmark = pytest.mark.services


class CursorFirst(PostgresTable):
    def _deliver(self, steps: Sequence[Step]) -> Release | None:
        with self._transaction("") as run:
            target = self._lock(run)
            target.cursor = steps[-1].release
            self._put_cursor(run, target)
        fault_point("follow.after_rows")
        with self._transaction("") as run:
            target = self._lock(run)
            for each in steps:
                self._write(run, target, each)
        return target.cursor


class RowsFirst(PostgresTable):
    def _deliver(self, steps: Sequence[Step]) -> Release | None:
        with self._transaction("") as run:
            target = self._lock(run)
            for each in steps:
                self._write(run, target, each)
        fault_point("follow.after_rows")
        with self._transaction("") as run:
            target = self._lock(run)
            target.cursor = steps[-1].release
            self._put_cursor(run, target)
        return target.cursor


class WithoutLock(PostgresTable):
    def _cursor_row(self, run: Any, lock: str = "") -> Any:
        return super()._cursor_row(run)


class RemembersItsCursor(PostgresTable):
    remembered: Release | None = None

    def deliver(self, steps: Sequence[Step]) -> Release | None:
        self.remembered = super().deliver(steps)
        return self.remembered

    def cursor(self) -> Release | None:
        return self.remembered or super().cursor()


class Killed(Exception):
    pass


def die(point: str, _: object) -> None:
    if point == "follow.after_rows":
        raise Killed


Scenario = Callable[[Database, Callable[[], PostgresTable]], None]


def follow(table: PostgresTable, up_to: int) -> None:
    """Deliver what is behind the cursor."""
    last = table.cursor()
    while last is None or last.number < up_to:
        last = table.deliver([step(1 if last is None else last.number + 1)])


def a_follower_dies(database: Database, opened: Callable[[], PostgresTable]) -> None:
    with closing(opened()) as table, pytest.raises(Killed), watched(die):
        follow(table, 2)
    with closing(opened()) as table:
        follow(table, 2)


def two_follow_at_once(database: Database, opened: Callable[[], PostgresTable]) -> None:
    def second() -> None:
        with closing(opened()) as table:
            table.deliver([step(2)])

    other = threading.Thread(target=second)

    def let_it_come(point: str, _: object) -> None:
        if point == "follow.after_rows" and other.ident is None:
            other.start()
            while not database.ask("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"):
                pass

    with closing(opened()) as table:
        follow(table, 1)
        with watched(let_it_come):
            table.deliver([step(2)])
    other.join()


def a_backup_is_put_back(database: Database, opened: Callable[[], PostgresTable]) -> None:
    with closing(opened()) as table:
        follow(table, 1)
        (row,) = database.ask("SELECT release, cursor FROM photon_cursors")
        follow(table, 2)
        database.ask("UPDATE photon_cursors SET release = %s, cursor = %s", *row)
        database.ask("DELETE FROM mine WHERE _event_id = '2-0'")
        follow(table, 2)


def rows_after(database: Database, kind: type[PostgresTable], scenario: Scenario) -> list[str]:
    """The rows of a table without a key, which would refuse some of what goes wrong."""
    database.ask("CREATE TABLE mine (_event_id text)")
    scenario(database, lambda: kind(URL, f"{database.schema}.mine", FED))
    return [event for (event,) in database.ask("SELECT _event_id FROM mine ORDER BY 1")]


@pytest.mark.parametrize(
    ("broken", "scenario"),
    [
        (CursorFirst, a_follower_dies),
        (RowsFirst, a_follower_dies),
        (WithoutLock, two_follow_at_once),
        (RemembersItsCursor, a_backup_is_put_back),
    ],
)
def test_without_the_rule_rows_are_lacking_or_there_twice(
    database: Database, broken: type[PostgresTable], scenario: Scenario
) -> None:
    assert rows_after(database, broken, scenario) != ["1-0", "2-0"]
    database.ask("DROP TABLE mine; DROP TABLE photon_cursors")
    assert rows_after(database, PostgresTable, scenario) == ["1-0", "2-0"]
