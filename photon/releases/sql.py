"""SQL over one release: a DuckDB connection whose views have its rows, and which reads nothing else.

DuckDB opens data files by `file_system`, from lakes on S3 too, so that it fetches no extension and writes
none of them. It cuts a file's day out of its name, and opens no file of a day that a query does not ask for.
A view of each day's files would have it bind 365 views a query, which takes a second.
"""

from __future__ import annotations

import logging
import shutil
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from photon.adapters import DATE_COLUMN, FILE_COLUMN
from photon.pipeline.location import Location
from photon.releases.file_system import ReleaseFileSystem
from photon.releases.finding import ReleaseUnreadable
from photon.releases.release import Release
from photon.storage.columns import PARTITIONS, TABLE_COLUMNS, TableName
from photon.storage.data_files import DataFile
from photon.storage.local_copies import own_folder

if TYPE_CHECKING:
    from photon.releases.files import ReleaseFiles
    from photon.releases.reading import OpenRelease

log = logging.getLogger(__name__)

MEMORY_SHARE = 0.5  # of the machine: joins beside a query need the rest, and DuckDB would take 80 %
SPILLED_SHARE = 0.5  # of what is free on the disk of temporary files, where it would take 90 %
VIEWS = ("joined", "unjoined", "unmatched", "dead_letters", "conflicting", "releases")
# This connection reads the files of its views: no other file, no extension, nothing of Python's.
CLOSED = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,
}
_EPOCH = "TRY_CAST(_epoch AS BIGINT)"
_OFFSET = "split_part(_occurrence, ':', -1)"
_IS_MATCHED = "EXISTS (SELECT 1 FROM joined WHERE joined._primary_id = {}.primary_id)"
_TIME = pa.timestamp("us", "UTC")
_RELEASE_COLUMNS = pa.schema(
    [
        ("number", pa.int64()),
        ("made_at", _TIME),
        ("made_by", pa.string()),
        ("complete_up_to", _TIME),
        ("mostly_up_to", _TIME),
        ("unmatched_up_to", _TIME),
        ("rows", pa.int64()),
        ("unread_files", pa.int64()),
        (
            "cut",
            pa.list_(pa.struct([("datacenter", pa.string()), ("epoch", pa.int64()), ("batch", pa.int64())])),
        ),
        (
            "notes",
            pa.list_(
                pa.struct([("change", pa.string()), ("datacenter", pa.string()), ("says", pa.string())])
            ),
        ),
    ]
)


def connect(
    opened: OpenRelease, kept: Callable[[], Sequence[Release]], may_write: Iterable[Path] = ()
) -> duckdb.DuckDBPyConnection:
    """A DuckDB in memory with the views of a release; its settings are locked.

    `kept` reads all releases, once for each query of `releases`. `may_write`: files that a COPY may write.
    pyarrow.ArrowTypeError if two tables disagree on a column's type.
    """
    connection = _in_memory()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_progress_bar = false")  # the bar would write between rows
    connection.execute("SET parquet_metadata_cache = true")  # data files never change
    files = add_views(connection, opened, kept)
    connection.execute(f"SET allowed_directories = [{_text(files.root)}]")
    connection.execute(f"SET allowed_paths = [{', '.join(_text(str(path)) for path in may_write)}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def add_views(
    connection: duckdb.DuckDBPyConnection, opened: OpenRelease, kept: Callable[[], Sequence[Release]]
) -> ReleaseFileSystem:
    """Make the views of a release in a connection of your own; the files that they read.

    They are temporary: a cursor of the connection does not see them.
    """
    views = _Views(connection)
    joined, letters = opened.tables("joined_events"), opened.tables("dead_letters")
    mended = _mended({each.datacenter: opened.mended(each.datacenter) for each in letters})
    connection.register("releases", _KeptReleases(kept))
    views.add("joined", views.rows_of("joined_events", joined))
    views.add("unjoined", _unjoined(views.rows_of("unjoined", opened.tables("unjoined"))))
    views.add("unmatched", _unmatched(views.rows_of("unmatched", opened.tables("unmatched"))))
    views.add("conflicting", _conflicting(views.rows_of("conflicting", _examples(opened))))
    taken_up = None if mended is None else views.values_of(mended)
    views.add("dead_letters", _dead_letters(views.rows_of("dead_letters", letters), taken_up))
    return views.files


def _examples(opened: OpenRelease) -> list[ReleaseFiles]:
    """The files of conflicting records, examples that no release counts: they close no other view."""
    try:
        return opened.tables("conflicting")
    except ReleaseUnreadable as error:
        log.warning("the view conflicting is empty: %s", error)
        return []


def withdrawn_ids(opened: OpenRelease) -> pa.Array:
    """The primaries of rows in `unmatched` that a joined row of the release names after all.

    Of both tables only ids are read; what does not fit into memory DuckDB puts on disk.
    """
    written = opened.tables("unmatched")
    if not any(each.whole or each.partial for each in written):
        return pa.array([], pa.string())
    with _in_memory() as connection:
        views = _Views(connection)
        views.add("joined", views.rows_of("joined_events", opened.tables("joined_events")))
        views.add("written", views.rows_of("unmatched", written))
        query = f"SELECT DISTINCT primary_id FROM written WHERE {_IS_MATCHED.format('written')}"
        found: pa.Table = connection.sql(query).to_arrow_table()
    return found["primary_id"].combine_chunks()


def _in_memory() -> duckdb.DuckDBPyConnection:
    """A connection that opens no file yet; what needs more memory goes to a folder of this user alone."""
    connection = duckdb.connect(config={**CLOSED})
    spilled = own_folder("sql") / uuid.uuid4().hex  # DuckDB makes it and removes it
    most_bytes = int(shutil.disk_usage(spilled.parent).free * SPILLED_SHARE)
    connection.execute(f"SET temp_directory = {_text(str(spilled))}")
    connection.execute(f"SET max_temp_directory_size = '{most_bytes} B'")
    connection.execute(f"SET memory_limit = '{MEMORY_SHARE:.0%}'")
    return connection


@dataclass
class _KeptReleases:
    """All releases that are kept, as DuckDB scans them: they are read when a query asks for them."""

    kept: Callable[[], Sequence[Release]]

    def __arrow_c_schema__(self) -> object:
        return _RELEASE_COLUMNS.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        rows = [release_row(release) for release in self.kept()]
        return pa.Table.from_pylist(rows, _RELEASE_COLUMNS).__arrow_c_stream__(requested_schema)


def release_row(release: Release) -> dict[str, object]:
    """The row of a release in the view `releases`; times are in microseconds."""
    return {
        "number": release.number,
        "made_at": release.made_us,
        "made_by": release.by,
        "complete_up_to": release.complete_up_to_us,
        "mostly_up_to": release.mostly_up_to_us,
        "unmatched_up_to": release.unmatched_up_to_us,
        "rows": release.rows,
        "unread_files": sum(part.unread for part in release.parts.values()),
        "cut": [{"datacenter": name, **place._asdict()} for name, place in release.cut.items()],
        "notes": [asdict(note) for note in release.notes],
    }


class _Views:
    """The views of one connection, and the files that they read."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection, self.files = connection, ReleaseFileSystem()
        connection.register_filesystem(self.files)

    def add(self, name: str, query: str) -> None:
        """Make a view, in place of one that was there."""
        self._connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {query}")

    def value_of(self, expression: str) -> str:
        """The value of an expression, which DuckDB then need not bind at each query."""
        name = f"photon_{uuid.uuid4().hex}"
        self._connection.execute(f"SET VARIABLE {name} = {expression}")
        return f"getvariable('{name}')"

    def values_of(self, table: pa.Table) -> str:
        """A query of the rows of a table in memory."""
        name = f"photon_{uuid.uuid4().hex}"
        self._connection.register(name, table)
        return f"SELECT * FROM {name}"

    def rows_of(self, name: TableName, tables: Sequence[ReleaseFiles]) -> str:
        """A query of all rows of a table in a release; a column that a file lacks is null there.

        ArrowTypeError if datacenters disagree on a column's type.
        """
        own = pa.schema(
            [*TABLE_COLUMNS[name], *(pa.field(each, pa.date32()) for each in PARTITIONS.get(name, ()))]
        )
        columns = pa.unify_schemas([own, *(each.schema for each in tables)])
        types = self._types_of(columns)
        nothing = ", ".join(f"NULL::{kind} AS {_name(column)}" for column, kind in types.items())
        found: dict[tuple[bool, str | None], list[tuple[Location, DataFile]]] = defaultdict(list)
        for each in tables:
            for file, condition in _files_of(each):
                found[file.date is not None, condition].append((each.folder, file))
        schema = self.value_of(_schema_of_files(types)) if found else ""
        parts = [
            _of_files(self.files.add(files), schema, list(types), has_day, condition)
            for (has_day, condition), files in found.items()
        ]
        return " UNION ALL ".join(parts) or f"SELECT {nothing} WHERE false"

    def _types_of(self, columns: pa.Schema) -> dict[str, str]:
        """The columns with their types, as DuckDB calls them."""
        empty = self._connection.from_arrow(columns.empty_table())
        return dict(zip(columns.names, map(str, empty.types), strict=True))


def _files_of(files: ReleaseFiles) -> Iterator[tuple[DataFile, str | None]]:
    """Each file, and the condition on its rows."""
    yield from ((file, None) for file in files.whole)
    yield from ((file, files.sql_condition) for file in files.partial)


def _schema_of_files(types: dict[str, str]) -> str:
    """The columns of data files, as `read_parquet` takes them; one that a file lacks is null there."""
    columns = (
        f"{_text(column)}: {{name: {_text(column)}, type: {_text(kind)}, default_value: NULL}}"
        for column, kind in types.items()
        if column != DATE_COLUMN
    )
    return f"MAP {{{', '.join(columns)}}}"


def _of_files(pattern: str, schema: str, columns: Sequence[str], has_day: bool, condition: str | None) -> str:
    day = f"CAST(parse_filename({FILE_COLUMN}) AS DATE)" if has_day else "NULL::DATE"
    rows = (
        f"read_parquet({_text(pattern)}, schema = {schema}, filename = {_text(FILE_COLUMN)}, "
        "hive_partitioning = false)"
    )
    found = ", ".join(
        f"{day} AS {_name(column)}" if column == DATE_COLUMN else _name(column) for column in columns
    )
    return f"SELECT {found} FROM {rows}" + (f" WHERE {condition}" if condition else "")


def _unjoined(rows: str) -> str:
    """The first row of each event that has none among the joined ones."""
    order = f"event_time NULLS LAST, _datacenter, {_EPOCH}, _batch, _occurrence"
    return f"""
        SELECT * FROM (
            SELECT * FROM ({rows}) QUALIFY row_number() OVER (PARTITION BY event_id ORDER BY {order}) = 1
        ) AS given_up
        WHERE NOT EXISTS (SELECT 1 FROM joined WHERE joined._event_id = given_up.event_id)"""


def _unmatched(rows: str) -> str:
    """The rows of runs without those that were withdrawn: a row that was joined later names their primary."""
    return f"SELECT * FROM ({rows}) AS written WHERE NOT {_IS_MATCHED.format('written')}"


def _conflicting(rows: str) -> str:
    """The newest row of each record: a new epoch of its datacenter reads, and compares, all of them again."""
    record = "_datacenter, event_id, path, offset_bytes"
    newest = f"row_number() OVER (PARTITION BY {record} ORDER BY {_EPOCH} DESC, _batch DESC)"
    return f"SELECT * FROM ({rows}) QUALIFY {newest} = 1"


def _dead_letters(rows: str, mended: str | None) -> str:
    """The newest letter of each event, or place in a log, if it was neither taken up nor has joined."""
    at = "CASE WHEN event_id IS NULL THEN {} END"
    event = f"_datacenter, side, event_id, {at.format('path')}, {at.format(_OFFSET)}"
    taken_up = f"""
        AND NOT EXISTS (
            SELECT 1 FROM ({mended}) AS mended
            WHERE mended._datacenter = letter._datacenter AND mended._epoch = letter._epoch
                AND mended._occurrence = letter._occurrence AND mended._batch >= letter._batch
        )"""
    return f"""
        SELECT * FROM (
            SELECT * FROM ({rows})
            QUALIFY row_number() OVER (
                PARTITION BY {event} ORDER BY {_EPOCH} DESC, _batch DESC, _occurrence
            ) = 1
        ) AS letter
        WHERE NOT EXISTS (
            SELECT 1 FROM joined WHERE letter.side = 'foreign' AND joined._event_id = letter.event_id
        ){taken_up if mended else ""}"""


def _mended(by_datacenter: Mapping[str, pa.Table]) -> pa.Table | None:
    """The letters that were taken up again, each with its datacenter; None without any."""
    found = [
        rows.append_column("_datacenter", pa.array([name] * rows.num_rows, pa.string()))
        for name, rows in by_datacenter.items()
        if rows.num_rows
    ]
    return pa.concat_tables(found) if found else None


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
