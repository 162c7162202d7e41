"""A fed table that others change stops its follower; settings of a server or a database do not lead it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime

import psycopg2
import pyarrow as pa
import pytest

from infra.servers.postgres import HOST, USER, Postgres
from photon.feed.postgres import PostgresTable
from photon.feed.postgres_session import settings_for
from photon.feed.step import FeedStopped
from photon.process.errors import WrongUsage
from tests.feed.made_steps import FED, release, row, step
from tests.services.test_postgres_sink import PORT, URL, Database, database, server

__all__ = ["database", "server"]  # fixtures
pytestmark = pytest.mark.services

TEXT = pa.schema([("position", pa.int64()), ("country", pa.string()), ("at", pa.timestamp("us", "UTC"))])
CHANGES = {
    "ALTER TABLE clicks RENAME COLUMN country TO land": "has no column 'country' any more",
    "ALTER TABLE clicks DROP COLUMN position": "has no column 'position' any more",
    "ALTER TABLE clicks ALTER COLUMN position TYPE integer": "has integer in column 'position'",
    "ALTER TABLE clicks ALTER COLUMN at TYPE timestamp": "has timestamp without time zone in column 'at'",
    "ALTER TABLE clicks DROP CONSTRAINT clicks_pkey": "has the key (), which was (_datacenter, ",
    "ALTER TABLE clicks DROP CONSTRAINT clicks_pkey, ADD PRIMARY KEY (_event_id)": "has the key (_event_id)",
    "TRUNCATE clicks": "lacks the row (east, 1, 2, 0:0), which was there",
    "DELETE FROM clicks": "lacks the row (east, 1, 2, 0:0)",
    # Truncated, and filled by somebody else.
    "TRUNCATE clicks; INSERT INTO clicks (_datacenter, _epoch, _batch, _occurrence) VALUES ('x', 1, 1, '')": (
        "lacks the row (east, 1, 2, 0:0)"
    ),
}


def rows(number: int) -> list[dict[str, object]]:
    at = datetime(2026, 1, number, tzinfo=UTC)
    return [row(number, n, position=n, country="de", at=at) for n in range(2)]


@pytest.mark.parametrize("change", CHANGES)
def test_a_made_table_that_somebody_changed_stops_the_follower_until_a_resync(
    database: Database, change: str
) -> None:
    with database.table() as table:
        table.deliver([step(2, rows(2), after=None, others=TEXT)])
        table.deliver([step(3, rows(3), others=TEXT)])
        database.ask(change)
        before = database.ask("SELECT * FROM clicks")
        for _ in range(2):
            with pytest.raises(FeedStopped) as stopped:
                table.deliver([step(4, rows(4), others=TEXT)])
            assert CHANGES[change] in str(stopped.value)
            assert "have all rows delivered anew by --resync" in str(stopped.value)
        assert database.ask("SELECT * FROM clicks") == before
        assert table.cursor() == release(3)
        every = [*rows(2), *rows(3), *rows(4)]
        table.replace(step(4, every, after=None, others=TEXT))
        assert table.deliver([step(5, rows(5), others=TEXT)]) == release(5)
    found = database.ask("SELECT _batch, position, country, at FROM clicks ORDER BY 1, 2")
    assert [(batch, position, country) for batch, position, country, _ in found] == [
        (batch, position, "de") for batch in range(2, 6) for position in range(2)
    ]


def test_what_people_add_and_take_back_is_theirs(database: Database) -> None:
    with database.table() as table:
        table.deliver([step(2, rows(2), after=None, others=TEXT)])
        database.ask("ALTER TABLE clicks ADD COLUMN mine text; CREATE INDEX ON clicks (country)")
        table.deliver([step(3, rows(3), others=TEXT)])
        database.ask("ALTER TABLE clicks DROP COLUMN mine; REINDEX TABLE clicks")
        database.ask("VACUUM FULL clicks")
        assert table.deliver([step(4, rows(4), others=TEXT)]) == release(4)


def test_a_row_that_the_follower_itself_takes_back_is_not_missed(database: Database) -> None:
    with database.table() as table:
        table.deliver([step(2, rows(2)[:1], after=None, others=TEXT)])
        table.deliver([step(3, [{**rows(2)[0], "_release": 3, "_change_type": "delete"}], others=TEXT)])
        assert table.deliver([step(4, rows(4), others=TEXT)]) == release(4)
        gone = [{**each, "_release": 5, "_change_type": "delete"} for each in rows(4)]
        table.deliver([step(5, [*gone, *rows(5)], others=TEXT)])
        assert table.deliver([step(6, rows(6), others=TEXT)]) == release(6)


@pytest.fixture
def odd_server(server: Postgres) -> Iterator[None]:
    odd = {"timezone": "Asia/Tokyo", "datestyle": "SQL, DMY", "intervalstyle": "sql_standard"}
    odd |= {"statement_timeout": "1ms", "row_security": "on", "lock_timeout": "1ms"}
    with closing(psycopg2.connect(URL)) as connection, connection.cursor() as run:
        connection.autocommit = True
        for name, value in odd.items():
            run.execute(f"ALTER DATABASE fed SET {name} = %s", (value,))
        yield
        run.execute("ALTER DATABASE fed RESET ALL")


@pytest.mark.parametrize(
    ("kind", "said", "expected"),
    [
        ("timestamptz", "2026-01-02 03:04:05", "2026-01-02 03:04:05+00"),
        ("timestamptz", "2026-07-01T00:00", "2026-07-01 00:00:00+00"),
        ("interval", "-1 2:03:04", "-1 days +02:03:04"),
        ("date", "2026-02-01", "2026-02-01"),
    ],
)
def test_a_text_means_the_same_whatever_the_database_has_set(
    database: Database, odd_server: None, kind: str, said: str, expected: str
) -> None:
    database.ask(f"CREATE TABLE clicks (_event_id text, at {kind})")
    text = pa.schema([("at", pa.string())])
    with database.table() as table:
        table.deliver([step(2, [row(2, at=said)], after=None, others=text)])
    shown = "SET timezone = 'UTC'; SET datestyle = 'ISO'; SET intervalstyle = 'postgres'"
    assert database.ask(f"{shown}; SELECT at::text FROM clicks") == [(expected,)]


def test_an_order_of_day_and_month_is_never_guessed(database: Database, odd_server: None) -> None:
    database.ask("CREATE TABLE clicks (_event_id text, at date)")
    with database.table() as table, pytest.raises(FeedStopped, match="01/02/2026"):
        table.deliver(
            [step(2, [row(2, at="01/02/2026")], after=None, others=pa.schema([("at", pa.string())]))]
        )


def test_all_time_outs_are_set_that_a_server_knows() -> None:
    names = ("statement_timeout = 0", "idle_in_transaction_session_timeout = '10min'", "lock_timeout = '10s'")
    for version in (130_000, 150_004, 170_002):
        assert all(name in settings_for(version) for name in names)
        assert ("idle_session_timeout = 0" in settings_for(version)) == (version >= 140_000)
        assert ("transaction_timeout = 0" in settings_for(version)) == (version >= 170_000)


@pytest.mark.parametrize("name", ["xmin", "ctid", "tableoid"])
def test_a_column_with_a_name_of_postgresqls_own_is_named_with_the_remedy(
    database: Database, name: str
) -> None:
    more = pa.schema([("position", pa.int64()), (name, pa.string())])
    made = step(2, [row(2, position=1, **{name: "v"})], after=None, others=more)
    with database.table() as table:
        with pytest.raises(FeedStopped, match=f"column '{name}': PostgreSQL has one .* without this column"):
            table.deliver([made])
        database.ask("CREATE TABLE clicks (_event_id text, position bigint)")
        assert table.deliver([made]) == release(2)
    assert database.ask("SELECT position FROM clicks") == [(1,)]


def test_row_level_security_is_told_with_a_remedy_that_works(database: Database, server: Postgres) -> None:
    with database.table() as table:
        table.deliver([step(2, rows(2), after=None, others=TEXT)])
    role = f"fed_{database.schema}"
    database.ask(f"CREATE ROLE {role} LOGIN; GRANT ALL ON SCHEMA {database.schema} TO {role}")
    database.ask(f"GRANT ALL ON ALL TABLES IN SCHEMA {database.schema} TO {role}")
    database.ask(
        "ALTER TABLE clicks ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON clicks USING (position = 0)"
    )
    url = f"postgresql://{role}@{HOST}:{PORT}/fed"
    with closing(PostgresTable(url, f"{database.schema}.clicks", FED, True)) as table:
        with pytest.raises(
            FeedStopped, match="a role with BYPASSRLS, or ALTER TABLE clicks DISABLE ROW LEVEL"
        ):
            table.deliver([step(3, rows(3), others=TEXT)])
        database.ask(f"ALTER ROLE {role} BYPASSRLS")
        assert table.deliver([step(3, rows(3), others=TEXT)]) == release(3)


@pytest.mark.parametrize(
    ("made", "what"),
    [
        ("CREATE TABLE t (a int); CREATE INDEX clicks ON t (a)", "is an index"),
        ("CREATE SEQUENCE clicks", "is no table"),
        ("CREATE MATERIALIZED VIEW clicks AS SELECT 1 AS a", "is no table"),
    ],
)
def test_into_something_that_is_no_table_is_told(database: Database, made: str, what: str) -> None:
    database.ask(made)
    with (
        database.table() as table,
        pytest.raises(FeedStopped, match=f"clicks {what}: name a table by --into"),
    ):
        table.deliver([step(2, after=None)])


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://{USER}:se/cret@{HOST}:{PORT}/fed",
        f"postgresql://{USER}:secr@et@{HOST}:{PORT}/fed",
        f"postgresql://{USER}:se/cr/et@{HOST}/fed?sslmode=disable",
        f"postgres://{USER}:/secret@{HOST}",
    ],
    ids=["a slash", "an at sign", "two slashes", "a slash first"],  # two processes have two ports
)
def test_no_part_of_a_password_is_told(url: str) -> None:
    with pytest.raises(WrongUsage) as refused:
        PostgresTable(url, None, FED)
    assert "%2F for /" in str(refused.value)
    assert not {"se/cret", "cret", "secr", "sec"} & set(str(refused.value).replace("@", " ").split())
