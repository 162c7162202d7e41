"""SQL over a release: views have its rows and no other, with the tables' types, and read nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from photon import read
from photon.adapters import ROW_COLUMNS
from photon.releases.files import ReleaseFiles, shares
from photon.releases.release import Note, Part, Place, Release
from photon.releases.sql import VIEWS, add_views, connect
from photon.storage.columns import TABLE_COLUMNS, TableName
from photon.storage.compaction import compact, groups_of
from photon.storage.data_files import DataFiles
from photon.storage.output_files import day_folder, write_rows, write_rows_by_date
from photon.storage.tables import OutputTable, app_id
from tests.releases.lakes import new_lakes

DAY = datetime(2026, 1, 5, tzinfo=UTC)
NOBODY_MENDED = pa.table({name: pa.array([], pa.string()) for name in ("_epoch", "_batch", "_occurrence")})


@dataclass
class Lakes:
    """The tables of datacenters, and the cut of one release through them."""

    folder: Path
    cut: dict[str, Place] = field(default_factory=dict)
    mended_letters: dict[str, pa.Table] = field(default_factory=dict)

    def write(
        self, datacenter: str, epoch: int, batch: int, rows: pa.Table, name: TableName = "joined_events"
    ) -> OutputTable:
        """Commit rows as a batch."""
        table = OutputTable(self.folder / datacenter, name)
        table.create("clicks", datacenter)
        by_date = write_rows_by_date if name == "joined_events" else lambda *of: [write_rows(*of)]
        table.commit(
            by_date(table.folder.parent, name, batch, rows), app_id(datacenter, str(epoch), name), batch, None
        )
        self.cut.setdefault(datacenter, Place(0, 0))
        self.cut[datacenter] = max(self.cut[datacenter], Place(epoch, batch))
        return table

    def tables(self, name: TableName) -> list[ReleaseFiles]:
        found = []
        for datacenter, place in self.cut.items():
            table = OutputTable(self.folder / datacenter, name)
            if table.exists():
                handle = table.load()
                schema = pa.schema(handle.schema().to_arrow())
                files = shares(DataFiles(handle).all(), place)
                found.append(ReleaseFiles(datacenter, name, table.folder, place, schema, *files))
        return found

    def mended(self, datacenter: str) -> pa.Table:
        return self.mended_letters.get(datacenter, NOBODY_MENDED)

    def connect(self, *kept: Release) -> duckdb.DuckDBPyConnection:
        return connect(self, lambda: kept)  # type: ignore[arg-type]


@pytest.fixture
def lakes(tmp_path: Path) -> Lakes:
    return Lakes(tmp_path / "lake")


def rows(
    datacenter: str,
    epoch: int,
    batch: int,
    ids: Sequence[str],
    day: datetime | None = DAY,
    **columns: pa.Array,
) -> pa.Table:
    """Joined rows of one batch, with more columns."""
    own = [
        {
            "_datacenter": datacenter,
            "_epoch": str(epoch),
            "_batch": batch,
            "_plan": "p",
            "_occurrence": f"{batch}:{n}",
            "_event_id": name,
            "_event_time": day,
        }
        for n, name in enumerate(ids)
    ]
    table = pa.Table.from_pylist(own, ROW_COLUMNS)
    for name, values in columns.items():
        table = table.append_column(name, values)
    return table


def ids(connection: duckdb.DuckDBPyConnection, where: str = "true") -> list[str]:
    found = connection.execute(f"SELECT _event_id FROM joined WHERE {where} ORDER BY 1").fetchall()
    return [name for (name,) in found]


def test_rows_within_the_cut_are_there_and_later_ones_of_the_same_file_are_not(lakes: Lakes) -> None:
    lakes.write("east", 1, 1, rows("east", 1, 1, ["a"]))
    lakes.write("east", 2, 1, pa.concat_tables([rows("east", 2, 1, ["b"]), rows("east", 2, 2, ["late"])]))
    lakes.write("east", 2, 3, rows("east", 2, 3, ["later"]))
    lakes.write("west", 1, 1, rows("west", 1, 1, ["c"]))
    lakes.cut["east"] = Place(2, 1)
    assert ids(lakes.connect()) == ["a", "b", "c"]


def test_a_column_that_older_files_lack_is_null_there_and_types_are_those_of_the_table(lakes: Lakes) -> None:
    values = {
        "price": pa.array([Decimal("12345678901234567890.05")], pa.decimal128(38, 2)),
        "raw": pa.array([b"\x00\xff"]),
        "seen_at": pa.array([DAY], pa.timestamp("us", "UTC")),
        "tags": pa.array([["x", None]]),
        "of": pa.array([{"page": 3, "name": "n"}]),
        "filename": pa.array(["theirs"]),
    }
    lakes.write("east", 1, 1, rows("east", 1, 1, ["old"]))
    lakes.write("east", 1, 2, rows("east", 1, 2, ["new"], **values))
    connection = lakes.connect()
    found = connection.execute(f"SELECT {', '.join(values)}, _event_date FROM joined ORDER BY _event_id")
    assert found.to_arrow_table().to_pylist() == [
        {name: column[0].as_py() for name, column in values.items()} | {"_event_date": DAY.date()},
        dict.fromkeys(values) | {"_event_date": DAY.date()},
    ]
    described = dict(connection.execute("SELECT column_name, column_type FROM (DESCRIBE joined)").fetchall())
    assert {name: described[name] for name in (*values, "_event_date", "_batch")} == {
        "price": "DECIMAL(38,2)",
        "raw": "BLOB",
        "seen_at": "TIMESTAMP WITH TIME ZONE",
        "tags": "VARCHAR[]",
        "of": 'STRUCT(page BIGINT, "name" VARCHAR)',
        "filename": "VARCHAR",
        "_event_date": "DATE",
        "_batch": "BIGINT",
    }


def test_files_of_other_days_are_not_opened(lakes: Lakes) -> None:
    days = [DAY + timedelta(days=n) for n in range(3)]
    for n, day in enumerate(days, start=1):
        lakes.write("east", 1, 3 * n, rows("east", 1, 3 * n, [f"a{n}"], day))
        table = lakes.write("east", 1, 3 * n + 1, rows("east", 1, 3 * n + 1, [f"b{n}"], day))
    for group in groups_of(DataFiles(table.load()).all(), {"1": 100}, least_files=2):
        compact(table, group, "photon:east:compaction")
    lakes.write("east", 1, 50, rows("east", 1, 50, ["c1"], days[0]))  # not compacted yet
    lakes.write("east", 1, 51, rows("east", 1, 51, ["no day"], None))
    connection = lakes.connect()
    for path in (table.folder / day_folder(days[2].date())).iterdir():
        path.write_bytes(b"no Parquet")
    assert ids(connection, "_event_date = '2026-01-05'") == ["a1", "b1", "c1"]
    assert ids(connection, "_event_date BETWEEN '2026-01-05' AND '2026-01-06'") == [
        "a1",
        "a2",
        "b1",
        "b2",
        "c1",
    ]
    assert ids(connection, "_event_date IS NULL") == ["no day"]
    with pytest.raises(duckdb.Error, match="2026-01-07"):
        ids(connection)


def unjoined(datacenter: str, epoch: int, batch: int, ids: Sequence[str]) -> pa.Table:
    found = [
        {
            "_datacenter": datacenter,
            "_epoch": str(epoch),
            "_batch": batch,
            "_occurrence": f"{batch}:{n}",
            "event_id": name,
            "event_time": DAY,
        }
        for n, name in enumerate(ids)
    ]
    return pa.Table.from_pylist(found, TABLE_COLUMNS["unjoined"])


def test_an_event_is_unjoined_once_and_not_at_all_if_it_has_joined(lakes: Lakes) -> None:
    lakes.write("east", 1, 1, rows("east", 1, 1, ["joined"]))
    lakes.write("east", 10, 1, unjoined("east", 10, 1, ["late", "joined"]), "unjoined")
    lakes.write("east", 9, 2, unjoined("east", 9, 2, ["late"]), "unjoined")
    lakes.write("west", 1, 1, unjoined("west", 1, 1, ["late", "other"]), "unjoined")
    found = (
        lakes.connect().execute("SELECT event_id, _datacenter, _epoch FROM unjoined ORDER BY 1").fetchall()
    )
    assert found == [("late", "east", "9"), ("other", "west", "1")]


def conflict(epoch: int, batch: int, event_id: str, offset_bytes: int) -> pa.Table:
    row = {
        "_datacenter": "east",
        "_epoch": str(epoch),
        "_batch": batch,
        "event_id": event_id,
        "path": "clicks/a.jsonl",
        "offset_bytes": offset_bytes,
        "differs": "price",
    }
    return pa.Table.from_pylist([row], TABLE_COLUMNS["conflicting"])


def test_a_record_of_other_content_is_conflicting_once_however_often_it_was_read(lakes: Lakes) -> None:
    lakes.write("east", 10, 3, rows("east", 10, 3, ["c1"]))
    for epoch, batch, offset_bytes in ((9, 1, 7), (10, 2, 7), (10, 3, 90)):
        lakes.write("east", epoch, batch, conflict(epoch, batch, "c1", offset_bytes), "conflicting")
    lakes.write("east", 11, 1, conflict(11, 1, "later", 7), "conflicting")
    lakes.cut["east"] = Place(10, 3)
    found = lakes.connect().execute("SELECT event_id, offset_bytes, _epoch FROM conflicting ORDER BY 2")
    assert found.fetchall() == [("c1", 7, "10"), ("c1", 90, "10")]


def letters(batch: int, *of: tuple[str, str | None]) -> pa.Table:
    found = [
        {
            "_datacenter": "east",
            "_epoch": "1",
            "_batch": batch,
            "_occurrence": place,
            "event_id": name,
            "side": "foreign",
            "path": "a.csv",
        }
        for place, name in of
    ]
    return pa.Table.from_pylist(found, TABLE_COLUMNS["dead_letters"])


def test_lines_that_are_no_utf_8_are_read_as_the_documents_say(lakes: Lakes) -> None:
    raws = [b"caf\xe9", "café".encode(), b"\xff\x00\xfe", None]
    written = letters(1, *((f"1:{n}", f"e{n}") for n in range(len(raws))))
    at = written.schema.get_field_index("raw")
    written = written.set_column(at, written.schema.field("raw"), pa.array(raws, pa.binary()))
    lakes.write("east", 1, 1, written, "dead_letters")
    query = "SELECT decode(raw, 'replace') FROM dead_letters ORDER BY event_id"
    assert lakes.connect().execute(query).fetchall() == [("caf?",), ("café",), ("?\0?",), (None,)]
    assert "decode(raw, 'replace')" in Path("docs/sql.md").read_text()


def test_a_dead_letter_is_there_once_unless_it_was_taken_up_or_has_joined(lakes: Lakes) -> None:
    lakes.write("east", 1, 1, rows("east", 1, 1, ["joined"]))
    first = letters(1, ("1:0", "mended"), ("1:9", "again"), ("1:20", None), ("1:30", "joined"))
    lakes.write("east", 1, 1, first, "dead_letters")
    lakes.write("east", 1, 3, letters(3, ("1:9", "again"), ("2:20", None)), "dead_letters")
    lakes.mended_letters["east"] = pa.table(
        {"_epoch": ["1", "1"], "_batch": [2, 2], "_occurrence": ["1:0", "1:9"]}
    )
    found = lakes.connect().execute("SELECT event_id, _batch FROM dead_letters ORDER BY _batch, 1").fetchall()
    assert found == [("again", 3), (None, 3)]


def release(number: int, *notes: Note) -> Release:
    part = Part(Place(2, 7), "table", 12, 3)
    return Release(number, int(DAY.timestamp() * 1e6) + number, "east", {"east": part}, notes)


def test_releases_are_read_when_a_query_asks_for_them(lakes: Lakes) -> None:
    asked: list[int] = []

    def kept() -> list[Release]:
        asked.append(1)
        return [release(1), release(2, Note("rebuilt", "east", "a day"))]

    connection = connect(lakes, kept)  # type: ignore[arg-type]
    assert connection.execute("SELECT count(*) FROM joined").fetchall() == [(0,)]
    assert asked == []
    query = "SELECT number, rows, cut[1].batch, complete_up_to, notes[1].change FROM releases ORDER BY number"
    assert connection.execute(query).fetchall() == [(1, 12, 7, None, None), (2, 12, 7, None, "rebuilt")]
    assert asked == [1]


def test_a_pipeline_without_a_row_has_views_with_columns(lakes: Lakes) -> None:
    connection = lakes.connect()
    for view in VIEWS:
        assert connection.execute(f"SELECT count(*) FROM {view}").fetchall() == [(0,)]
    assert connection.execute("SELECT _event_id, _event_date FROM joined").fetchall() == []


@pytest.mark.parametrize(
    "statement",
    [
        "COPY (SELECT 1) TO '{folder}/made.csv'",
        "COPY (SELECT 1) TO '{folder}/east/joined_events/made.parquet'",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('{folder}/secret')",
        "SELECT * FROM '{folder}/secret'",
        "SELECT * FROM glob('{folder}/*')",
        "ATTACH '{folder}/other.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET autoinstall_known_extensions = true",
        "SELECT * FROM hidden",
    ],
)
def test_a_connection_reads_and_writes_nothing_else(lakes: Lakes, statement: str) -> None:
    hidden = pa.table({"of": ["Python"]})
    lakes.write("east", 1, 1, rows("east", 1, 1, ["a"]))
    (lakes.folder / "secret").write_text("secret")
    before = sorted(lakes.folder.rglob("*"))
    with pytest.raises(duckdb.Error):
        lakes.connect().execute(statement.format(folder=lakes.folder)).fetchall()
    assert sorted(lakes.folder.rglob("*")) == before
    assert hidden.num_rows == 1


@pytest.mark.parametrize(
    "statement",
    [
        "{copy}",
        "EXPLAIN ANALYZE {copy}",
        "WITH a AS ({copy}) SELECT 1",
        "CREATE TABLE a AS WITH a AS ({copy}) FROM a",
        "EXPORT DATABASE '{file}'",
    ],
)
def test_no_statement_writes_a_data_file(lakes: Lakes, statement: str) -> None:
    lakes.write("east", 1, 1, rows("east", 1, 1, ["a"]))
    connection = lakes.connect()
    [(name,)] = connection.execute(
        "FROM glob(current_setting('allowed_directories')[-1] || '0/*')"
    ).fetchall()
    [path] = lakes.folder.rglob("*.parquet")
    before = path.read_bytes()
    for file in (name, path):
        copy = f"COPY (SELECT 1 AS a) TO '{file}' (FORMAT parquet, USE_TMP_FILE false)"
        with pytest.raises(duckdb.Error, match=r"only read|disabled by configuration"):
            connection.execute(statement.format(copy=copy, file=file)).fetchall()
        assert path.read_bytes() == before
    assert ids(connection) == ["a"]


@pytest.mark.parametrize(
    ("name", "neighbour"),
    [
        ("it's [1]*?", "it's 1"),
        ("t [1]", "t 1"),
        ("a*b", "a-b"),
        ("q?x", "q-x"),
        ("**", "all"),
        ("[!x]", "y"),
        ("br{a,b}", "bra"),
    ],
)
def test_a_lake_may_have_an_odd_name(tmp_path: Path, name: str, neighbour: str) -> None:
    Lakes(tmp_path / neighbour).write("east", 1, 1, rows("east", 1, 1, ["of the neighbour"]))
    lakes = Lakes(tmp_path / name)
    lakes.write("east", 1, 1, rows("east", 1, 1, ["a"]))
    assert ids(lakes.connect()) == ["a"]
    own = duckdb.connect()
    add_views(own, lakes, lambda: [])  # type: ignore[arg-type]
    assert ids(own) == ["a"]


def test_views_can_be_made_in_a_connection_that_is_there(lakes: Lakes) -> None:
    lakes.write("east", 1, 1, rows("east", 1, 1, ["a"]))
    own = duckdb.connect()
    own.execute("CREATE TABLE names AS SELECT 'a' AS id, 'Ada' AS name")
    add_views(own, lakes, lambda: [])  # type: ignore[arg-type]
    assert own.execute("SELECT name FROM joined JOIN names ON id = _event_id").fetchall() == [("Ada",)]


def test_each_kept_release_has_its_rows_through_batches_compactions_and_rebuilds(tmp_path: Path) -> None:
    world = new_lakes(tmp_path / "lakes", tmp_path)
    for turn in range(6):
        for name in ("east", "west"):
            world.append(name)
            if turn % 2:
                world.rebuild(name)
        world.give_up("east", [f"e{turn}", f"x{turn}"])
        world.append("east")
        if turn == 3:
            world.begin_epoch("west")
        world.release(lags=turn % 2)
        world.compact("east")
    for made in world.made:
        connection = read.duckdb(world.pipeline, release=made.release.number)
        found = connection.execute("SELECT _event_id, value FROM joined").fetchall()
        assert len(found) == len(made.joined)
        assert frozenset(found) == made.joined
        expected = read.unjoined(world.pipeline, release=made.release.number).to_table()
        for name in ("event_id", "_batch"):
            rows = connection.execute(f'SELECT "{name}" FROM unjoined').fetchall()
            assert sorted(value for (value,) in rows) == sorted(expected[name].to_pylist())
    numbers = read.duckdb(world.pipeline).execute("SELECT number FROM releases ORDER BY 1").fetchall()
    assert numbers == [(made.release.number,) for made in world.made]
