"""A fed table of a real PostgreSQL: rows and cursor move together, whoever dies and however values look."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg2
import pyarrow as pa
import pytest

from infra.servers.postgres import HOST, USER, Postgres
from infra.servers.process import free_steady_port
from photon.feed import postgres_session
from photon.feed.postgres import PostgresTable
from photon.feed.sink import Fed, SinkUnavailable
from photon.feed.step import FeedStopped
from photon.process.errors import WrongUsage
from photon.process.faults import watched
from photon.releases.finding import ReleaseUnreadable
from tests.feed.made_steps import FED, POSITION, release, row, step
from tests.services.postgres import postgres

pytestmark = pytest.mark.services
PORT = free_steady_port()
URL = f"postgresql://{USER}@{HOST}:{PORT}/fed"
FOLLOWERS = "FROM pg_stat_activity WHERE application_name = 'photon follow'"
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres(PORT) as found:
        found.database("fed")
        yield found


class Database:
    """A schema of a test's own, as people look at it."""

    def __init__(self) -> None:
        self.schema = f"test_{next(NUMBERS)}"
        self.connection = psycopg2.connect(URL)
        self.connection.autocommit = True
        self.ask(f"CREATE SCHEMA {self.schema}; SET search_path = {self.schema}")

    def ask(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as run:
            run.execute(query, values)
            return list(run.fetchall()) if run.description else []

    @contextmanager
    def table(
        self, name: str = "clicks", fed: Fed = FED, takes_changes: bool = True
    ) -> Iterator[PostgresTable]:
        with closing(PostgresTable(URL, f"{self.schema}.{name}", fed, takes_changes)) as found:
            yield found

    def events(self) -> list[tuple[Any, ...]]:
        return self.ask("SELECT _event_id, position FROM clicks ORDER BY _batch, _occurrence")


@pytest.fixture
def database(server: Postgres) -> Iterator[Database]:
    found = Database()
    yield found
    found.connection.close()


def test_a_table_is_made_from_the_schema_with_the_token_as_its_key(database: Database) -> None:
    with database.table() as table:
        assert table.cursor() is None
        assert table.deliver([step(1), step(2, [row(2, at, position=at) for at in range(5)])]) == release(2)
        assert table.deliver([step(3, [])]) == release(3)
        assert table.cursor() == release(3)
    assert database.events() == [("1-0", 1), *((f"2-{at}", at) for at in range(5))]
    assert database.ask("SELECT name, pipeline, fed, is_made, release FROM photon_cursors") == [
        ("clicks", "clicks", "joined", True, 3)
    ]
    key = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'clicks'::regclass"
    assert database.ask(key) == [("PRIMARY KEY (_datacenter, _epoch, _batch, _occurrence)",)]


def test_without_into_a_table_is_called_as_its_pipeline_in_the_first_schema_of_the_path(
    database: Database,
) -> None:
    with closing(PostgresTable(URL, None, Fed(FED.pipeline, database.schema, "unjoined"))) as table:
        table.deliver([step(1)])
    assert database.ask(f"SELECT count(*) FROM public.{database.schema}_unjoined") == [(1,)]


def test_a_step_that_does_not_follow_on_the_cursor_is_not_taken(database: Database) -> None:
    with database.table() as table:
        table.deliver([step(1)])
        assert table.deliver([step(3)]) == release(1)
        assert table.deliver([step(1)]) == release(1)
    assert database.events() == [("1-0", 1)]


VALUES: list[tuple[pa.DataType, Any, str, Any]] = [
    (pa.bool_(), True, "boolean", True),
    (pa.int8(), -128, "smallint", -128),
    (pa.int32(), 2**31 - 1, "integer", 2**31 - 1),
    (pa.int64(), -(2**63), "bigint", -(2**63)),
    (pa.float32(), 0.5, "real", 0.5),
    (pa.float64(), 0.1 + 0.2, "double precision", 0.1 + 0.2),
    (pa.float64(), float("-inf"), "double precision", float("-inf")),
    (pa.decimal128(38, 10), Decimal("0.0000000001"), "numeric", Decimal("0.0000000001")),
    (pa.string(), "", "text", ""),
    (pa.string(), "\\.", "text", "\\."),
    (pa.string(), 'a,"b"\r\n\\.\n\tö😀', "text", 'a,"b"\r\n\\.\n\tö😀'),
    (pa.string(), "\\N", "text", "\\N"),
    (pa.string(), "NULL", "text", "NULL"),
    (pa.binary(), b"\x00\xff\\", "bytea", b"\x00\xff\\"),
    (pa.binary(), b"", "bytea", b""),
    (pa.date32(), date(2026, 1, 31), "date", date(2026, 1, 31)),
    (
        pa.timestamp("us", "UTC"), datetime(2026, 1, 5, 12, 0, 0, 7, UTC),
        "timestamp with time zone", datetime(2026, 1, 5, 12, 0, 0, 7, UTC),
    ),
    (pa.list_(pa.float64()), [1.5, float("nan"), None], "jsonb", [1.5, "NaN", None]),
    (pa.struct([("a", pa.string())]), {"a": 'x "y"'}, "jsonb", {"a": 'x "y"'}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "server_type", "found"), VALUES)
def test_a_value_comes_back_as_it_was_and_null_as_null(
    database: Database, kind: pa.DataType, value: Any, server_type: str, found: Any
) -> None:
    rows = [row(1, 0, it=value), row(1, 1, it=None)]
    with database.table() as table:
        table.deliver([step(1, rows, others=pa.schema([("it", kind)]))])
    values = database.ask("SELECT it FROM clicks ORDER BY _occurrence")
    assert [bytes(one) if isinstance(one, memoryview) else one for (one,) in values] == [found, None]
    assert database.ask("SELECT DISTINCT pg_typeof(it)::text FROM clicks") == [(server_type,)]


def test_a_row_that_is_there_already_is_refused_with_its_step(database: Database) -> None:
    with database.table() as table:
        table.deliver([step(1)])
        with pytest.raises(FeedStopped, match=r"release 2: .*duplicate key.*nothing of it is there"):
            table.deliver([step(2, [row(2), row(1)])])
        assert table.cursor() == release(1)
    assert database.events() == [("1-0", 1)]


def test_a_key_that_two_rows_of_a_step_have_is_told(database: Database) -> None:
    """As where somebody has copied a row in a lake."""
    twice = [row(1, position=1), row(1, position=1)]
    with (
        database.table() as table,
        pytest.raises(
            FeedStopped,
            match=r"2 rows have the key \(east, 1, 1, 0:0\).*a verification.*--resync",
        ),
    ):
        table.deliver([step(1, twice)])
    assert database.ask("SELECT to_regclass('clicks')") == [(None,)]


def test_steps_before_one_that_is_refused_are_there(database: Database) -> None:
    with database.table() as table, pytest.raises(FeedStopped, match="release 3"):
        table.deliver([step(1), step(2), step(3, [row(1)]), step(4)])
    assert [one for one, _ in database.events()] == ["1-0", "2-0"]


def test_what_is_taken_back_goes_and_what_changed_is_there_once(database: Database) -> None:
    with database.table() as table:
        table.deliver([step(1, [row(1, at, position=at) for at in range(4)])])
        changes = [
            row(1, 0, "delete", position=0),
            row(1, 1, "update_preimage", position=1),
            row(1, 1, "update_postimage", position=10),
            row(1, 7, "insert", position=7),
            row(2, 0, position=2),
        ]
        table.deliver([step(2, [{**one, "_release": 2} for one in changes], page_rows=2)])
    assert database.events() == [("1-1", 10), ("1-2", 2), ("1-3", 3), ("1-7", 7), ("2-0", 2)]


def test_a_row_may_take_the_key_of_one_that_goes_later_in_the_step(database: Database) -> None:
    with database.table() as table:
        table.deliver([step(1, [row(1, 0, position=0)])])
        changes = [row(1, 0, "insert", position=5), row(1, 0, "delete", position=0)]
        table.deliver([step(2, changes, page_rows=1)])
    assert database.events() == [("1-0", 5)]


def test_all_rows_of_a_datacenter_go_that_is_gone(database: Database) -> None:
    west = row(1, 0, _datacenter="west", _event_id="w")
    gone = {"_release": 2, "_change_type": "delete", "_datacenter": "west"}
    with database.table() as table:
        table.deliver([step(1, [row(1), west]), step(2, [gone, row(2)], lakes_gone=["west"])])
    assert [one for one, _ in database.events()] == ["1-0", "2-0"]


def test_a_table_that_was_made_gets_new_columns(database: Database) -> None:
    wider = pa.schema([*POSITION, ("country", pa.string())])
    with database.table() as table:
        table.deliver([step(1), step(2, [row(2, country="dk")], others=wider), step(3)])
    assert database.ask("SELECT country FROM clicks ORDER BY _batch") == [(None,), ("dk",), (None,)]


def test_a_table_of_ones_own_gets_the_columns_that_it_has_whatever_their_case_and_type(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    database.ask("CREATE TABLE mine (_event_id bytea, position numeric, remark text DEFAULT 'none')")
    columns = pa.schema([("Position", pa.int64()), ("country", pa.string())])
    with database.table("mine", takes_changes=False) as table:
        table.deliver([step(1, [row(1, Position=7, country="dk")], others=columns), step(2, others=columns)])
    found = database.ask("SELECT convert_from(_event_id, 'UTF8'), position, remark FROM mine ORDER BY 1")
    assert found == [("1-0", 7, "none"), ("2-0", None, "none")]
    assert database.ask("SELECT is_made FROM photon_cursors") == [(False,)]
    assert caplog.text.count("no column 'country'") == 1


def test_a_table_of_ones_own_without_the_key_takes_nothing_back(database: Database) -> None:
    database.ask("CREATE TABLE mine (_event_id text)")
    with database.table("mine") as table:
        table.deliver([step(1)])
        with pytest.raises(FeedStopped, match="lacks column _datacenter"):
            table.deliver([step(2, [row(1, 0, "delete")])])


def test_a_table_of_ones_own_with_no_known_column_is_refused(database: Database) -> None:
    database.ask("CREATE TABLE mine (remark text)")
    with database.table("mine") as table, pytest.raises(FeedStopped, match="none of the columns"):
        table.deliver([step(1)])


def test_the_key_of_a_table_of_ones_own_may_have_other_types(database: Database) -> None:
    database.ask("CREATE TABLE mine (_datacenter varchar(20), _epoch int, _batch int, _occurrence text)")
    with database.table("mine") as table:
        table.deliver([step(1), step(2), step(3, [row(1, 0, "delete")])])
    assert database.ask("SELECT _epoch, _batch FROM mine") == [(1, 2)]


def test_rows_without_a_cursor_are_not_doubled_by_a_snapshot(database: Database) -> None:
    with database.table() as table:
        table.deliver([step(1)])
        database.ask("DELETE FROM photon_cursors")
        with pytest.raises(FeedStopped, match=r"has rows and no cursor.*--resync"):
            table.deliver([step(5, after=None)])
        table.deliver([step(5, [], after=None)])  # --from now: the rows may be of somebody's own load
        assert table.cursor() == release(5)


def test_a_table_that_is_gone_is_not_made_again_without_its_rows(database: Database) -> None:
    with database.table() as table:
        table.deliver([step(1)])
        database.ask("DROP TABLE clicks")
        with pytest.raises(FeedStopped, match=r"is gone.*release 1.*--resync"):
            table.deliver([step(2)])
        table.replace(step(2, [row(1), row(2)], after=None))
        table.deliver([step(3)])
    assert [one for one, _ in database.events()] == ["1-0", "2-0", "3-0"]


def test_a_resync_replaces_all_rows_in_one_transaction(database: Database) -> None:
    with database.table() as table:
        table.deliver([step(1), step(2)])
        with pytest.raises(FeedStopped):
            table.replace(step(9, [row(7), row(7)], after=None))
        assert [one for one, _ in database.events()] == ["1-0", "2-0"]
        table.replace(step(9, [row(7)], after=None))
        assert table.cursor() == release(9)
    assert [one for one, _ in database.events()] == ["7-0"]


def test_a_table_takes_rows_of_one_pipeline_and_table(database: Database) -> None:
    with database.table() as table:
        table.deliver([step(1)])
    for other in (Fed(Path("views.yaml"), "views"), Fed(FED.pipeline, "clicks", "unjoined")):
        with (
            database.table(fed=other) as table,
            pytest.raises(FeedStopped, match="fed with joined rows of clicks"),
        ):
            table.deliver([step(2)])


@pytest.mark.parametrize(("kind", "value"), [(pa.string(), "a\0b"), (pa.list_(pa.string()), ["a\0b"])])
def test_a_nul_is_refused_with_its_column_and_event(
    database: Database, kind: pa.DataType, value: Any
) -> None:
    rows = [row(1, 0, it=None), row(1, 1, it=value)]
    with database.table() as table, pytest.raises(FeedStopped, match="column 'it' of event '1-1' has a NUL"):
        table.deliver([step(1, rows, others=pa.schema([("it", kind)]))])


def test_a_name_that_the_server_would_cut_is_refused(database: Database) -> None:
    long = pa.schema([("ö" * 32, pa.int64())])
    with database.table() as table, pytest.raises(FeedStopped, match="at most 63 bytes"):
        table.deliver([step(1, others=long)])
    database.ask("CREATE TABLE mine (_event_id text)")
    with database.table("mine") as table:
        table.deliver([step(1, others=long)])


@pytest.mark.parametrize("into", ["ö" * 32, "public."])
def test_a_table_is_not_called_as_the_server_would_cut_it(into: str) -> None:
    with pytest.raises(WrongUsage, match="at most 63 bytes"):
        PostgresTable(URL, into, FED)


def test_a_step_that_can_not_be_read_leaves_nothing(database: Database) -> None:
    def pages() -> Iterator[pa.Table]:
        yield from step(1).pages()
        raise ReleaseUnreadable(1, "east", "its lake is away; mount it")

    whole = step(1)
    broken = type(whole)(whole.release, whole.after, whole.schema, pages, inserts=2)
    with database.table() as table:
        with pytest.raises(ReleaseUnreadable, match="away"):
            table.deliver([broken])
        assert table.cursor() is None
        table.deliver([whole])
    assert database.events() == [("1-0", 1)]


def test_of_two_followers_one_waits_and_learns_that_the_other_was_first(database: Database) -> None:
    found: list[Any] = []

    def second() -> None:
        with database.table() as table:
            found.append(table.deliver([step(2, [row(2, 5)])]))

    with database.table() as table:
        table.deliver([step(1)])
        waiting = threading.Thread(target=second)

        def while_it_is_locked(point: str, _: object) -> None:
            if point == "follow.after_rows" and not waiting.ident:
                waiting.start()
                _wait_until(database, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")

        with watched(while_it_is_locked):
            table.deliver([step(2)])
    waiting.join()
    assert found == [release(2)]
    assert [one for one, _ in database.events()] == ["1-0", "2-0"]


def _wait_until(database: Database, query: str) -> None:
    while not database.ask(query)[0][0]:
        pass


def test_two_that_make_the_table_at_once_make_it_once(database: Database) -> None:
    begin = threading.Barrier(4)
    found: list[Any] = []

    def follow() -> None:
        with database.table() as table:
            begin.wait()
            found.append(table.deliver([step(1)]))

    threads = [threading.Thread(target=follow) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [release(1)] * 4
    assert database.events() == [("1-0", 1)]


def test_who_waits_too_long_is_told_for_what(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(postgres_session._SETTINGS, "lock_timeout", "'50ms'")
    with database.table() as table:
        table.deliver([step(1)])
        database.ask("BEGIN; SELECT * FROM photon_cursors FOR UPDATE")
        with pytest.raises(SinkUnavailable, match="waiting for another follower"):
            table.deliver([step(2)])
        database.ask("ROLLBACK; BEGIN; SELECT * FROM clicks")
        with pytest.raises(SinkUnavailable, match="waiting for its readers, to add columns for release 2"):
            table.deliver([step(2, others=pa.schema([*POSITION, ("country", pa.string())]))])
        database.ask("ROLLBACK")
        assert table.deliver([step(2)]) == release(2)


def test_a_role_that_isolates_otherwise_or_only_reads_by_default_changes_nothing(database: Database) -> None:
    options = (
        "?options=-c%20default_transaction_isolation%3Dserializable%20-c%20default_transaction_read_only%3Don"
    )
    with closing(PostgresTable(URL + options, f"{database.schema}.clicks", FED)) as table:
        assert table.deliver([step(1)]) == release(1)


def test_a_server_that_goes_away_and_comes_back_has_rows_and_cursor_that_agree(
    server: Postgres, database: Database
) -> None:
    with database.table() as table:
        table.deliver([step(1)])
        server.stop()
        with pytest.raises(SinkUnavailable, match=f"table {database.schema}.clicks of {HOST}/fed"):
            table.deliver([step(2)])
        with pytest.raises(SinkUnavailable):
            table.cursor()
        server.start()
        assert table.cursor() == release(1)
        assert table.deliver([step(2)]) == release(2)


def test_an_answer_that_is_lost_at_the_commit_leaves_it_to_the_cursor(database: Database) -> None:
    def cut(point: str, _: object) -> None:
        if point == "follow.after_rows":
            database.ask(f"SELECT pg_terminate_backend(pid) {FOLLOWERS}")

    with database.table() as table:
        with watched(cut), pytest.raises(SinkUnavailable, match=r"writing release 1: .*terminat"):
            table.deliver([step(1)])
        assert table.cursor() is None
        assert table.deliver([step(1)]) == release(1)


@pytest.mark.parametrize("place", ["[::1/db", "odd@host/db"])
def test_a_url_that_is_none_is_refused_without_its_password(place: str) -> None:
    with pytest.raises(WrongUsage, match="expected a URL") as refused:
        PostgresTable(f"postgresql://me:secret@{place}", None, FED)
    assert "secret" not in str(refused.value)
