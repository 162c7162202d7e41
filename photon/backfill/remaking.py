"""What runs in a rebuild's tasks: read rows, join their own two records again, write what differs.

Arrow columns all the way, without Spark. A row keeps the columns that identify it, and `_joined_at`, which
says when its event was joined first. No id is registered: a row made again has that of the row it replaces.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from photon.adapters import ROW_COLUMNS, Adapter
from photon.backfill.earlier_epochs import todays_numbers
from photon.backfill.plan import Piece
from photon.backfill.records_at import LogCopy, RecordsAt, are, places_of, take
from photon.faults import fault_point
from photon.join.adapting import RawRecords, adapt_pairs, adapter_of, skip_records
from photon.logs.files import Side, TrackedFile
from photon.pipeline.file import Log, Pipeline
from photon.pipeline.location import Location
from photon.storage.columns import TableName, by_date
from photon.storage.store import store_of
from photon.storage.tables import OutputFile, lake_errors, write_parquet
from photon.tokens import Occurrence
from photon.verification.days import Window

TABLE: TableName = "joined_events"
REMOVED = "removed_rows"
# Why a row goes, and why one stays though it can't be made again.
Gone = Literal["filtered", "skipped", "doubled"]
Kept = Literal["foreign record gone", "primary record gone", "adapter fails", "earlier epoch"]
KEPT: tuple[Kept, ...] = ("foreign record gone", "primary record gone", "adapter fails", "earlier epoch")
MOST_EXAMPLES = 10  # of rows that can't be made again, of one piece
IDENTITY = ("_datacenter", "_epoch", "_batch", "_plan", "_occurrence", "_primary_occurrence", "_event_id")
REMOVED_COLUMNS = pa.schema(
    [
        ("run", pa.string()),  # of the rebuild
        ("at", pa.timestamp("us", "UTC")),
        ("why", pa.string()),
        ("version", pa.int64()),  # of the table that had the row
        ("file", pa.string()),  # of that version
        ("row", pa.int64()),  # in the file
        *((name, pa.int64() if name == "_batch" else pa.string()) for name in IDENTITY),
        ("_event_time", pa.timestamp("us", "UTC")),
    ]
)

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class RemakeContext:
    """What every task of a rebuild knows. Picklable."""

    pipeline: Pipeline
    datacenter: str
    run: str
    window: Window
    epoch: str  # that numbers log files as `files` does
    files: Mapping[int, TrackedFile]
    row_schema: pa.Schema
    version: int  # of the table
    at_us: int
    writes: bool  # not in a dry run
    mended: Mapping[Occurrence, bytes] = field(
        default_factory=dict
    )  # in the places of the log's lines (0047)

    @cached_property
    def adapter(self) -> Adapter:
        """The user's adapter, loaded in the task."""
        return adapter_of(self.pipeline)

    @property
    def foreign(self) -> LogCopy:
        return self._copy(self.pipeline.foreign, self.mended)

    @property
    def primary(self) -> LogCopy:
        return self._copy(self.pipeline.primary, {})

    def _copy(self, log: Log, mended: Mapping[Occurrence, bytes]) -> LogCopy:
        logs, line_bytes = self.pipeline.datacenters[self.datacenter].logs, self.pipeline.limits.line_bytes
        return LogCopy(logs, log, self.files, line_bytes, mended)

    @property
    def folder(self) -> Location:
        return self.pipeline.datacenters[self.datacenter].lake / TABLE


@dataclass
class Tally:
    """Numbers of rows in the window."""

    rows: int = 0
    same: int = 0
    replaced: int = 0
    dropped: dict[str, int] = field(default_factory=dict)  # by why
    kept: dict[str, int] = field(default_factory=dict)  # that can't be made again, by why

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.rows + other.rows,
            self.same + other.same,
            self.replaced + other.replaced,
            _sum(self.dropped, other.dropped),
            _sum(self.kept, other.kept),
        )


def _sum(some: Mapping[str, int], others: Mapping[str, int]) -> dict[str, int]:
    return {name: some.get(name, 0) + others.get(name, 0) for name in {**some, **others}}


@dataclass(frozen=True)
class Example:
    """A row that can't be made again."""

    event_id: str
    occurrence: str
    why: str


@dataclass(frozen=True)
class Remade:
    """What one task made of a piece."""

    touched: tuple[str, ...]  # files of the table that have a row that differs or goes
    outputs: tuple[OutputFile, ...]  # what takes the place of the touched files
    removed: tuple[OutputFile, ...]  # records of rows that go
    tally: Tally
    examples: tuple[Example, ...] = ()

    def __add__(self, other: Remade) -> Remade:
        return Remade(
            tuple(dict.fromkeys((*self.touched, *other.touched))),
            self.outputs + other.outputs,
            self.removed + other.removed,
            self.tally + other.tally,
            (self.examples + other.examples)[:MOST_EXAMPLES],
        )


def remake(piece: Piece, context: RemakeContext) -> Remade:
    """Make the rows of a piece again; write what takes their place where something differs."""
    done = Remade((), (), (), Tally())
    for rows in _slices(piece, context):
        made = _Remaking(rows, piece, context)
        made.make()
        fault_point("rebuild.in_task")
        done += made.result()
    return done


def _slices(piece: Piece, context: RemakeContext) -> Iterator[pa.Table]:
    """The rows of a piece with the table's columns, and where each one is: `file`, its number, and `row`.

    At most `backfill.piece_rows` at once: a row group that compaction wrote may be many times that.
    """
    tables, store = [], store_of(context.folder)
    with lake_errors(f"read rows of {context.folder}"):
        for number, part in enumerate(piece.parts):
            file = pq.ParquetFile(store.open(part.path))
            row = sum(file.metadata.row_group(g).num_rows for g in range(part.groups.start))
            for batch in file.iter_batches(context.pipeline.backfill.piece_rows, list(part.groups)):
                table = _as_schema(pa.Table.from_batches([batch]), context.row_schema)
                count = table.num_rows
                table = table.append_column("file", pa.repeat(pa.scalar(number, pa.int64()), count))
                tables.append(table.append_column("row", pa.array(np.arange(row, row + count))))
                row += count
                # What is not touched is written again only of a partial piece: no other may be cut.
                if piece.partial:
                    yield tables.pop().combine_chunks()
    if tables:
        yield pa.concat_tables(tables).combine_chunks()


def _as_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows of one file with all of the table's columns and types: a file may be older than a column."""
    columns = [
        table[field.name].cast(field.type)
        if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


class _Remaking:
    """The rows of one piece on their way. The number of a row in `rows` names it."""

    def __init__(self, rows: pa.Table, piece: Piece, context: RemakeContext) -> None:
        self.rows, self.piece, self.context = rows, piece, context
        window, times = context.window, rows["_event_time"].cast(pa.int64())
        inside = pc.and_(pc.greater_equal(times, window.start_us), pc.less(times, window.end_us))
        self.inside: Mask = pc.fill_null(inside, False).to_numpy()
        self.kept: dict[str, Ints] = {}
        self.gone: dict[str, Ints] = {}
        self.examples: list[Example] = []
        self.fresh: pa.Table | None = None  # rows made again
        self.fresh_rows: Ints = np.empty(0, np.int64)  # in whose place they are
        self.changed: Mask = np.zeros(rows.num_rows, bool)

    def make(self) -> None:
        left = self.inside.copy()
        doubled = self._doubled()
        self.gone["doubled"] = np.flatnonzero(doubled & left)
        left &= ~doubled
        known = pc.is_valid(self.rows["_primary_occurrence"]).to_numpy()
        self._keep("earlier epoch", np.flatnonzero(left & ~known))
        self._join_again(np.flatnonzero(left & known))

    def _doubled(self) -> Mask:
        found = np.zeros(self.rows.num_rows, bool)
        if self.piece.doubled:
            wanted = {(path, row) for path, row in self.piece.doubled}
            paths = [part.path for part in self.piece.parts]
            files, rows = self.rows["file"].to_numpy(), self.rows["row"].to_numpy()
            for number, path in enumerate(paths):
                of_file = [row for name, row in wanted if name == path]
                found |= (files == number) & np.isin(rows, of_file)
        return found

    def _join_again(self, rows: Ints) -> None:
        log, copy = self.context.pipeline.foreign, self.context.foreign
        ids = take(self.rows["_event_id"], rows).combine_chunks()
        numbers, offsets = self._places("_occurrence", rows, ids, copy, "foreign")
        self._keep("earlier epoch", rows[numbers < 0])
        known = numbers >= 0
        rows, ids = rows[known], ids.filter(pa.array(known))
        foreign = RecordsAt.read(numbers[known], offsets[known], copy)
        found, keys = foreign.texts(log.id, log.key)
        is_there = are(found, ids)
        self._keep("foreign record gone", rows[~is_there])
        self._join_with_primaries(rows[is_there], foreign.only(is_there), keys.filter(pa.array(is_there)))

    def _join_with_primaries(self, rows: Ints, foreign: RecordsAt, keys: pa.Array) -> None:
        log, copy = self.context.pipeline.primary, self.context.primary
        primary = RecordsAt.read(*self._places("_primary_occurrence", rows, keys, copy, "primary"), copy)
        (ids,) = primary.texts(log.id)
        is_there = are(ids, keys)
        # Today's adapter may pass over events without asking for their primary.
        skipped = np.zeros(len(rows), bool)
        skipped[skip_records(self.context.adapter, foreign.raws, self.context.pipeline).rows] = True
        self.gone["skipped"] = rows[skipped]
        self._keep("primary record gone", rows[~skipped & ~is_there])
        whole = ~skipped & is_there
        self._adapt(rows[whole], foreign.only(whole).raws, primary.only(whole).raws)

    def _places(self, name: str, rows: Ints, ids: pa.Array, copy: LogCopy, side: Side) -> tuple[Ints, Ints]:
        """The file numbers and offsets of the records of rows; -1 where an epoch's file is unknown."""
        numbers, offsets = places_of(take(self.rows[name], rows))
        epochs = pc.fill_null(take(self.rows["_epoch"], rows), "").to_numpy()
        earlier = np.flatnonzero(epochs != self.context.epoch)
        if len(earlier):
            some = ids.take(pa.array(earlier))
            numbers[earlier] = todays_numbers(
                epochs[earlier], numbers[earlier], offsets[earlier], some, copy, side, copy.log.id
            )
        return numbers, offsets

    def _adapt(self, rows: Ints, foreign: RawRecords, primary: RawRecords) -> None:
        context = self.context
        made = adapt_pairs(context.adapter, foreign, primary, context.pipeline, context.row_schema)
        for row, reason in list(made.failures.items())[: MOST_EXAMPLES - len(self.examples)]:
            self._tell(int(rows[row]), reason)
        self._keep("adapter fails", rows[sorted(made.failures)], tell=False)
        self.gone["filtered"] = rows[made.filtered]
        self.fresh_rows = rows[made.kept]
        old = take(self.rows, self.fresh_rows)
        own = old.select(ROW_COLUMNS.names)
        self.fresh = pa.table(
            [*own.columns, *made.table.columns], names=[*own.column_names, *made.table.column_names]
        )
        self.changed[self.fresh_rows] = differs(old.drop_columns(["file", "row"]), self.fresh)

    def _keep(self, why: Kept, rows: Ints, tell: bool = True) -> None:
        self.kept[why] = np.append(self.kept.get(why, rows[:0]), rows)
        if tell:
            for row in rows[: MOST_EXAMPLES - len(self.examples)].tolist():
                self._tell(row, why)

    def _tell(self, row: int, why: str) -> None:
        event_id, occurrence = (self.rows[name][row].as_py() for name in ("_event_id", "_occurrence"))
        self.examples.append(Example(event_id, occurrence, why))

    # -- what comes of it

    def result(self) -> Remade:
        going = np.zeros(self.rows.num_rows, bool)
        for rows in self.gone.values():
            going[rows] = True
        files = self.rows["file"].to_numpy()
        numbers = np.unique(files[going | self.changed])
        touched = tuple(self.piece.parts[number].path for number in numbers.tolist())
        tally = Tally(
            rows=int(self.inside.sum()),
            same=len(self.fresh_rows) - int(self.changed.sum()),
            replaced=int(self.changed.sum()),
            dropped={why: len(rows) for why, rows in self.gone.items() if len(rows)},
            kept={why: len(rows) for why, rows in self.kept.items() if len(rows)},
        )
        outputs: tuple[OutputFile, ...] = ()
        removed: tuple[OutputFile, ...] = ()
        if self.context.writes:
            # Of a part of a file nobody knows yet whether another part is touched.
            whole = np.isin(files, numbers) | np.isin(files, self.piece.partial)
            outputs = tuple(self._write(np.flatnonzero(whole & ~going)))
            removed = self._write_removed()
        return Remade(touched, outputs, removed, tally, tuple(self.examples))

    def _write(self, rows: Ints) -> list[OutputFile]:
        """Write these rows, those made again as they are now; a file for each epoch and date."""
        fresh = np.full(self.rows.num_rows, -1)
        fresh[self.fresh_rows] = np.arange(len(self.fresh_rows))
        place = np.where(fresh[rows] >= 0, self.rows.num_rows + fresh[rows], rows)
        tables = [self.rows.drop_columns(["file", "row"])]
        if self.fresh is not None:
            tables.append(self.fresh)
        everything = pa.concat_tables(tables, promote_options="default")
        epochs = pc.fill_null(self.rows["_epoch"], "").to_numpy(zero_copy_only=False)[rows]
        found = []
        for epoch in sorted(set(epochs.tolist())):
            of_epoch = everything.take(pa.array(place[epochs == epoch]))
            found += [
                replace(write_output(self.context, TABLE, part), date=date)
                for date, part in by_date(of_epoch)
            ]
        return found

    def _write_removed(self) -> tuple[OutputFile, ...]:
        tables = []
        for why, rows in self.gone.items():
            paths = pa.array([part.path for part in self.piece.parts])
            of = self.rows.take(pa.array(rows))
            values = {
                "run": pa.repeat(self.context.run, len(rows)),
                "at": pa.repeat(pa.scalar(self.context.at_us), len(rows)),
                "why": pa.repeat(why, len(rows)),
                "version": pa.repeat(pa.scalar(self.context.version), len(rows)),
                "file": paths.take(of["file"]),
                "row": of["row"],
                **{name: of[name] for name in (*IDENTITY, "_event_time")},
            }
            columns = [values[field.name].cast(field.type) for field in REMOVED_COLUMNS]
            tables.append(pa.table(columns, schema=REMOVED_COLUMNS))
        together = pa.concat_tables([REMOVED_COLUMNS.empty_table(), *tables])
        return (write_output(self.context, REMOVED, together),) if together.num_rows else ()


def write_output(context: RemakeContext, name: str, rows: pa.Table) -> OutputFile:
    """Write rows to a new file below a table's folder, and sync it; nobody sees it before its commit."""
    folder = context.pipeline.datacenters[context.datacenter].lake / name
    path = f"rebuild-{context.run}-{uuid.uuid4().hex}.parquet"
    with lake_errors(f"write {folder / path}"):
        store_of(folder).make()
        return OutputFile(name, path, write_parquet(folder, path, rows), rows.num_rows, rows.schema)


def differs(old: pa.Table, new: pa.Table) -> Mask:
    """Which rows differ. A column that one of them lacks is null in it."""
    found = np.zeros(old.num_rows, bool)
    for name in dict.fromkeys([*old.column_names, *new.column_names]):
        if name not in new.column_names or name not in old.column_names:
            only = (old if name in old.column_names else new)[name]
            found |= pc.is_valid(only).to_numpy(zero_copy_only=False)
        elif not old[name].equals(new[name]):
            found |= _values_differ(old[name].combine_chunks(), new[name].combine_chunks())
    return found


def _values_differ(old: pa.Array, new: pa.Array) -> Mask:
    if pa.types.is_nested(old.type) or old.type != new.type:
        pairs = zip(old.to_pylist(), new.to_pylist(), strict=True)
        return np.array([a != b for a, b in pairs], bool)
    unlike = pc.xor(pc.is_null(old), pc.is_null(new))
    if pa.types.is_floating(old.type):  # NaN is as good as NaN
        both = pc.and_(pc.fill_null(pc.is_nan(old), False), pc.fill_null(pc.is_nan(new), False))
        unequal = pc.and_not(pc.fill_null(pc.not_equal(old, new), False), both)
    else:
        unequal = pc.fill_null(pc.not_equal(old, new), False)
    mask: Mask = pc.or_(unlike, unequal).to_numpy(zero_copy_only=False)
    return mask
