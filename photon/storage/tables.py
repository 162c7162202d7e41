"""The Delta tables of one datacenter: how rows become visible, exactly once (protocol A3, A4, A10, A12).

Tasks write Parquet files that nobody sees (`write_rows`); the dispatcher commits files named in the
results of successful tasks together with (app id, batch). Which rows there are is decided by
`photon.join.joiner`, what a commit means for the dispatcher by `photon.dispatcher`.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from photon.errors import UserError
from photon.tokens import Occurrence, Token

TableName = Literal["joined_events", "dead_letters", "unjoined", "too_old"]
RowStatus = Literal[
    "row", "no row", "undecided"
]  # no row: and there never will be; undecided: not yet committed

_STAMP = [("_datacenter", pa.string()), ("_epoch", pa.string()), ("_batch", pa.int64())]
_AT = pa.timestamp("us", "UTC")
ROW_COLUMNS = pa.schema(
    [
        *_STAMP,
        ("_occurrence", pa.string()),
        ("_joined_at", _AT),
        ("_event_id", pa.string()),
        ("_primary_occurrence", pa.string()),
        ("_event_time", _AT),  # the foreign event's own time, which may be part of its identity
    ]
)
DEAD_LETTER_COLUMNS = pa.schema(
    [
        *_STAMP,
        ("_occurrence", pa.string()),
        ("side", pa.string()),
        ("path", pa.string()),
        ("length_bytes", pa.int64()),
        ("reason", pa.string()),
        ("raw", pa.binary()),
        ("event_id", pa.string()),
    ]
)
UNJOINED_COLUMNS = pa.schema(
    [
        *_STAMP,
        ("_occurrence", pa.string()),
        ("event_id", pa.string()),
        ("key", pa.string()),
        ("event_time", _AT),
        ("header", pa.binary()),
        ("raw", pa.binary()),
    ]
)
TABLE_COLUMNS: dict[TableName, pa.Schema] = {
    "joined_events": ROW_COLUMNS,
    "dead_letters": DEAD_LETTER_COLUMNS,
    "unjoined": UNJOINED_COLUMNS,
    "too_old": UNJOINED_COLUMNS,
}
# Commits of one app id are numbered by batch; a fence is beyond every batch there can be.
FENCE_VERSION = 2**53
STATS_COLUMNS = ("_epoch", "_batch")  # by which rows are read back
_FORBIDDEN_IN_NAMES = re.compile(r"[ ,;{}()\n\t=]")  # Parquet column names that Delta refuses


class LakeUnavailable(UserError):
    """The table can't be read or written now (full, read-only, gone); the message names folder and reason."""


class CommitConflict(Exception):
    """Somebody else committed under the same app id: whether this commit counts is for the table to say."""


class SchemaConflict(Exception):
    """Rows whose types differ from those of the table's columns."""


@dataclass(frozen=True)
class OutputFile:
    """A Parquet file that a task has written below a table's folder, not yet committed."""

    table: str
    path: str  # relative to the table's folder
    size_bytes: int
    rows: int
    schema: pa.Schema


def app_id(datacenter: str, epoch: str, table: TableName = "joined_events") -> str:
    """Under which name an epoch commits to a table."""
    return f"photon:{datacenter}:{epoch}:{table}"


def presentable(table: pa.Table) -> pa.Table:
    """The same rows with column names and types that a Delta table can hold.

    Characters that Delta refuses become `_`; a column of nothing but nulls without a type is left
    out (it reads as null anyway); types without a Delta counterpart become their nearest one.
    """
    names: list[str] = []
    columns: list[pa.ChunkedArray] = []
    taken: set[str] = set()
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_null(column.type):
            continue
        shown = _FORBIDDEN_IN_NAMES.sub("_", name) or "column"
        while shown.lower() in taken:
            shown += "_"
        taken.add(shown.lower())
        names.append(shown)
        columns.append(column.cast(_delta_type(column.type)))
    return pa.table(columns, names=names)


def _delta_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _delta_type(kind.value_type)
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_timestamp(kind):
        return _AT
    if pa.types.is_unsigned_integer(kind):
        return pa.int64()
    if pa.types.is_date64(kind):
        return pa.date32()
    return kind


def fit(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with the table's types where it has the column; ArrowInvalid if a value does not fit."""
    for index, field in enumerate(table.schema):
        known = schema.get_field_index(field.name)
        if known >= 0 and schema.field(known).type != field.type:
            wanted = schema.field(known).type
            table = table.set_column(index, field.name, table.column(index).cast(wanted))
    return table


def write_rows(lake: Path, name: TableName, batch: int, rows: pa.Table) -> OutputFile:
    """Write rows below the table's folder, under a name of their own, for a later commit.

    LakeUnavailable if the disk refuses. A file that is never committed is invisible; vacuum removes it.
    """
    path = f"batch-{batch}-{uuid.uuid4().hex}.parquet"
    target = lake / name / path
    try:
        pq.write_table(rows, target, compression="zstd")
        return OutputFile(name, path, target.stat().st_size, rows.num_rows, rows.schema)
    except OSError as error:
        target.unlink(missing_ok=True)
        raise LakeUnavailable(
            f"cannot write {target}: {error}; make it writable, it is tried again"
        ) from error


class OutputTable:
    """One Delta table of one datacenter, as its dispatcher writes it."""

    def __init__(self, lake: Path, name: TableName) -> None:
        self.lake = lake
        self.name = name
        self.folder = lake / name
        self._handle: DeltaTable | None = None

    def exists(self) -> bool:
        """Whether the table was ever made."""
        return DeltaTable.is_deltatable(str(self.folder))

    def create(self, pipeline: str, datacenter: str) -> None:
        """Make the table if it is not there, with Photon's own columns; the others come with the rows."""
        if self.exists():
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            DeltaTable.create(
                str(self.folder),
                schema=TABLE_COLUMNS[self.name],
                mode="ignore",
                name=self.name,
                description=f"pipeline {pipeline}, datacenter {datacenter}",
                configuration={
                    "delta.checkpointInterval": "100",
                    # The columns of `_stats`. Of any other column delta-rs would take the bounds that are
                    # not there for null, and leave out every file when rows are filtered by it.
                    "delta.dataSkippingStatsColumns": ",".join(STATS_COLUMNS),
                },
            )
        except (OSError, DeltaError) as error:
            raise LakeUnavailable(f"cannot make the table {self.folder}: {error}") from error

    def load(self) -> DeltaTable:
        """A handle on the table as it stands now: every commit there is, and no later one.

        The handle of the last time is brought up to date, which reads only what was committed since,
        unless its last commit is not in the folder: then another table stands there now.
        """
        try:
            if self._handle is not None and not self._log_entry(self._handle.version()).exists():
                self._handle = None
            if self._handle is None:
                self._handle = DeltaTable(str(self.folder))
            else:
                self._handle.update_incremental()
            return self._handle
        except (OSError, DeltaError, TableNotFoundError) as error:
            self._handle = None
            raise LakeUnavailable(f"cannot read the table {self.folder}: {error}") from error

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turns what goes wrong while rows are read into LakeUnavailable."""
        try:
            yield
        except (OSError, DeltaError) as error:
            raise LakeUnavailable(f"cannot read rows of {self.folder}: {error}") from error

    def _log_entry(self, version: int) -> Path:
        return self.folder / "_delta_log" / f"{version:020d}.json"

    def table_id(self) -> str:
        """The id that Delta gave the table when it was made."""
        return str(self.load().metadata().id)

    def has_commits(self) -> bool:
        """Whether anything was ever committed after the table was made."""
        return self.load().version() > 0

    def schema(self) -> pa.Schema:
        """The table's columns as of the last look at it, as Arrow types. Nobody else adds columns."""
        return pa.schema((self._handle or self.load()).schema().to_arrow())

    def version_of(self, app: str) -> int:
        """The last batch that `app` committed; 0 before the first."""
        return self.load().transaction_version(app) or 0

    def commit(self, files: Sequence[OutputFile], app: str, batch: int, exactly_after: int | None) -> None:
        """Make the rows of `files` visible, as batch `batch` of `app`, all or nothing.

        With `exactly_after` the app's version must be exactly that (protocol A3), else merely below
        `batch`. CommitConflict if it is not, or somebody else commits at the same time; LakeUnavailable
        if the table can't be reached: then whether the commit took place is unknown as well.
        """
        handle = self._with_columns_of(files)
        version = handle.transaction_version(app) or 0
        if version != exactly_after if exactly_after is not None else version >= batch:
            raise CommitConflict(
                f"{self.folder} stands at batch {version} of {app}, which should come before batch {batch}"
            )
        try:
            handle.create_write_transaction(
                [self._action(file) for file in files],
                mode="append",
                schema=handle.schema(),
                commit_properties=CommitProperties(app_transactions=[Transaction(app, batch)]),
            )
        except CommitFailedError as error:
            raise CommitConflict(f"{self.folder}: batch {batch} of {app}: {error}") from error
        except (OSError, DeltaError) as error:
            raise LakeUnavailable(f"cannot commit batch {batch} to {self.folder}: {error}") from error

    def fence(self, app: str) -> None:
        """Let no batch of `app` be committed any more (protocol E1): its version is beyond all batches."""
        if self.version_of(app) < FENCE_VERSION:
            self.commit([], app, FENCE_VERSION, None)

    def row_status_of(self, tokens: Collection[Token]) -> dict[Token, RowStatus]:
        """What the table, at one snapshot, says of tokens of this datacenter (protocol A8, E1).

        Reads three columns of the files whose statistics admit the tokens' batches.
        """
        if not tokens:
            return {}
        with self.reading():
            return self._row_status_of(tokens)

    def _row_status_of(self, tokens: Collection[Token]) -> dict[Token, RowStatus]:
        handle = self.load()
        by_epoch: dict[str, list[Token]] = defaultdict(list)
        for token in tokens:
            by_epoch[token.plan.epoch].append(token)
        standing: dict[Token, RowStatus] = {}
        for epoch, group in by_epoch.items():
            batches = sorted({token.plan.batch for token in group})
            wanted = (ds.field("_epoch") == epoch) & ds.field("_batch").isin(batches)
            columns = ["_batch", "_occurrence"]
            rows = handle.to_pyarrow_dataset().to_table(columns=columns, filter=wanted)
            present = set(zip(rows["_batch"].to_pylist(), rows["_occurrence"].to_pylist(), strict=True))
            version = handle.transaction_version(app_id(group[0].plan.datacenter, epoch)) or 0
            for token in group:
                if (token.plan.batch, str(token.occurrence)) in present:
                    standing[token] = "row"
                else:
                    standing[token] = "no row" if version >= token.plan.batch else "undecided"
        return standing

    def occurrences_of(self, epoch: str, batch: int) -> list[Occurrence]:
        """The occurrences of the rows that one batch committed."""
        wanted = (ds.field("_epoch") == epoch) & (ds.field("_batch") == batch)
        with self.reading():
            rows = self.load().to_pyarrow_dataset().to_table(columns=["_occurrence"], filter=wanted)
        return [Occurrence.parse(text) for text in rows["_occurrence"].to_pylist()]

    def _with_columns_of(self, files: Iterable[OutputFile]) -> DeltaTable:
        """The table as it stands, with all columns that the files have; SchemaConflict if types differ."""
        handle = self.load()
        known = {field.name: field.type for field in pa.schema(handle.schema().to_arrow())}
        new: dict[str, pa.Field] = {}
        for file in files:
            for field in file.schema:
                if field.name not in known:
                    known[field.name] = field.type
                    new[field.name] = pa.field(field.name, field.type, nullable=True)
                elif known[field.name] != field.type:
                    raise SchemaConflict(
                        f"column {field.name!r} of {self.folder} holds {known[field.name]}, "
                        f"new rows have {field.type}"
                    )
        if not new:
            return handle
        self._alter(handle, list(new.values()))
        return self.load()

    def _alter(self, handle: DeltaTable, new: list[pa.Field]) -> None:
        try:
            handle.alter.add_columns(list(Schema.from_arrow(pa.schema(new)).fields))
        except CommitFailedError as error:
            raise CommitConflict(f"{self.folder}: adding columns: {error}") from error
        except (OSError, DeltaError) as error:
            raise LakeUnavailable(f"cannot add columns to {self.folder}: {error}") from error

    def _action(self, file: OutputFile) -> AddAction:
        target = self.folder / file.path
        try:
            size_bytes = target.stat().st_size
        except OSError as error:
            raise LakeUnavailable(f"{target}, written by a task, is not there: {error}") from error
        if size_bytes != file.size_bytes:
            raise LakeUnavailable(f"{target} has {size_bytes} bytes; the task wrote {file.size_bytes}")
        return AddAction(
            file.path, size_bytes, {}, int(time.time() * 1000), True, self._stats(target, file.rows)
        )

    def _stats(self, target: Path, rows: int) -> str:
        """Bounds of the columns by which rows are read back; Parquet's footer has them."""
        metadata = pq.read_metadata(target)
        low: dict[str, object] = {}
        high: dict[str, object] = {}
        names = metadata.schema.names
        for name in STATS_COLUMNS:
            groups = [
                metadata.row_group(g).column(names.index(name)).statistics
                for g in range(metadata.num_row_groups)
            ]
            if groups and all(group is not None and group.has_min_max for group in groups):
                low[name] = min(group.min for group in groups)
                high[name] = max(group.max for group in groups)
        return json.dumps({"numRecords": rows, "minValues": low, "maxValues": high, "nullCount": {}})
