"""A rebuild's tasks: read rows, join their own two records again, write those that differ.

Arrow columns all the way, without Spark. A row keeps the columns that identify it, and `_joined_at`, which
says when its event was joined first. No id is registered: a row made again has that of the row it replaces.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from photon.adapters import FILE_COLUMN, ROW_COLUMNS, ROW_NUMBER_COLUMN
from photon.join.adapting import RawRecords, adapt_pairs, skip_records
from photon.logs.files import Side
from photon.logs.formats.times import parse_event_times, style_of, time_texts
from photon.process.faults import fault_point
from photon.storage.columns import by_date, differs
from photon.storage.delta import lake_errors
from photon.storage.output_files import OutputFile, day_folder, write_parquet
from photon.storage.own_columns import columns_of_people
from photon.storage.store import store_of
from photon.upkeep.backfill.messages import (
    IDENTITY,
    MOST_EXAMPLES,
    REMOVED,
    REMOVED_COLUMNS,
    TABLE,
    Kept,
    Remade,
    RemakeContext,
    RowTally,
    UnmadeRow,
)
from photon.upkeep.backfill.places_today import (
    NOT_LOOKED_FOR,
    KnownRecords,
    places_of_primaries,
    todays_numbers,
)
from photon.upkeep.backfill.plan import RemakePiece
from photon.upkeep.backfill.records_at import Ints, LogCopy, Mask, RecordsAt, are, places_of, take
from photon.upkeep.backfill.rows_in_doubt import settle_misplaced


@dataclass(frozen=True)
class _Foreign:
    """The foreign records at the places of some rows; each array has an item for each row."""

    records: RecordsAt
    numbers: Ints  # numbers of log files; -1: unknown
    ids: pa.Array  # ids in the records
    keys: pa.Array
    times_us: pa.Array
    is_there: Mask  # whether a row's own record is at its place


def remake(piece: RemakePiece, context: RemakeContext) -> Remade:
    """Make the rows of a piece again; write what takes their place where something differs."""
    done = Remade((), (), (), RowTally())
    for rows in _slices(piece, context):
        made = _Remaking(rows, piece, context)
        made.make()
        fault_point("rebuild.in_task")
        done += made.result()
    return done


def _slices(piece: RemakePiece, context: RemakeContext) -> Iterator[pa.Table]:
    """The rows of a piece with the table's columns, and where each one is: its file's number, and its own.

    At most `piece_rows` at once: a row group that compaction wrote may be many times that.
    """
    tables, store = [], store_of(context.folder)
    with lake_errors(f"read rows of {context.folder}"):
        for number, part in enumerate(piece.parts):
            file = pq.ParquetFile(store.open(part.path))
            row = sum(file.metadata.row_group(g).num_rows for g in range(part.groups.start))
            for batch in file.iter_batches(context.piece_rows, list(part.groups)):
                table = _as_schema(pa.Table.from_batches([batch]), context.row_schema)
                count = table.num_rows
                table = table.append_column(FILE_COLUMN, pa.repeat(pa.scalar(number, pa.int64()), count))
                tables.append(table.append_column(ROW_NUMBER_COLUMN, pa.array(np.arange(row, row + count))))
                row += count
                # Untouched rows are written again only of a partial piece: no other may be cut.
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

    def __init__(self, rows: pa.Table, piece: RemakePiece, context: RemakeContext) -> None:
        self.rows, self.piece, self.context = rows, piece, context
        self.own = rows.select(ROW_COLUMNS.names)  # as it is to be
        window, times = context.window, rows["_event_time"].cast(pa.int64())
        inside = pc.and_(pc.greater_equal(times, window.start_us), pc.less(times, window.end_us))
        self.inside: Mask = pc.fill_null(inside, True).to_numpy()  # a row without a time is of any day
        self.is_current: Mask = pc.equal(pc.fill_null(rows["_epoch"], ""), context.epoch).to_numpy()
        self.is_left: Mask = np.zeros(rows.num_rows, bool)  # nobody has looked for its log file
        self.kept: dict[str, Ints] = {}
        self.gone: dict[str, Ints] = {}
        self.examples: list[UnmadeRow] = []
        self.fresh: pa.Table | None = None  # rows made again
        self.fresh_rows: Ints = np.empty(0, np.int64)  # in whose place they are
        self.changed: Mask = np.zeros(rows.num_rows, bool)

    def make(self) -> None:
        left = self.inside.copy()
        is_second = self._are_second_rows()
        self.gone["second row"] = np.flatnonzero(is_second & left)
        left &= ~is_second
        known = pc.is_valid(self.rows["_primary_occurrence"]).to_numpy() | self.is_current
        self._keep("earlier epoch", np.flatnonzero(left & ~known))
        self._join_again(np.flatnonzero(left & known))

    def _are_second_rows(self) -> Mask:
        found = np.zeros(self.rows.num_rows, bool)
        if self.piece.second_rows:
            wanted = {(path, row) for path, row in self.piece.second_rows}
            paths = [part.path for part in self.piece.parts]
            files, rows = (self.rows[name].to_numpy() for name in (FILE_COLUMN, ROW_NUMBER_COLUMN))
            for number, path in enumerate(paths):
                of_file = [row for name, row in wanted if name == path]
                found |= (files == number) & np.isin(rows, of_file)
        return found

    def _join_again(self, rows: Ints) -> None:
        foreign = self._foreign_of(rows)
        at = np.flatnonzero(~foreign.is_there & foreign.records.can_be_wrong & self.is_current[rows])
        if len(at):
            rows = self._settle(rows, at, foreign)
            foreign = self._foreign_of(rows)
        of_earlier = (foreign.numbers < 0) & ~self.is_current[rows]
        self._keep("earlier epoch", rows[of_earlier])
        self._keep("foreign record gone", rows[~foreign.is_there & ~of_earlier])
        there = foreign.is_there
        self._put("_event_time", rows[there], foreign.times_us.filter(pa.array(there)))
        self._join_with_primaries(
            rows[there], foreign.records.only(there), foreign.keys.filter(pa.array(there))
        )

    def _foreign_of(self, rows: Ints) -> _Foreign:
        log, copy = self.context.pipeline.foreign, self.context.foreign
        ids = take(self.own["_event_id"], rows).combine_chunks()
        numbers, offsets = self._places("_occurrence", rows, ids, copy, "foreign")
        records = RecordsAt.read(numbers, offsets, copy)
        found, keys, *times = records.texts(log.id, log.key, *([name] for name in log.time))
        times_us = parse_event_times(time_texts(times), style_of(log))
        is_there = are(found, ids) & pc.is_valid(times_us).to_numpy(zero_copy_only=False)
        return _Foreign(records, numbers, found, keys, times_us, is_there)

    def _settle(self, rows: Ints, at: Ints, foreign: _Foreign) -> Ints:
        """Ask the registry about rows at whose places other records are; the rows that stay."""
        misplaced = self.own.take(pa.array(rows[at]))
        there = foreign.ids.take(pa.array(at))
        goes, moved = settle_misplaced(misplaced, there, self.context.pipeline, self.context.datacenter)
        self.gone["altered id"] = rows[at[goes]]
        is_moved = pc.is_valid(moved)
        self._put("_occurrence", rows[at[is_moved.to_numpy(zero_copy_only=False)]], moved.filter(is_moved))
        return np.setdiff1d(rows, self.gone["altered id"])

    def _join_with_primaries(self, rows: Ints, foreign: RecordsAt, keys: pa.Array) -> None:
        primary, is_there, times_us = self._primaries_of(rows, keys)
        # Today's adapter may pass over events without asking for their primary.
        skipped = np.zeros(len(rows), bool)
        skipped[skip_records(self.context.adapter, foreign.raws, self.context.pipeline).rows] = True
        self.gone["skipped"] = rows[skipped]
        wrong = np.flatnonzero(~skipped & ~is_there & primary.can_be_wrong & self.is_current[rows])
        if len(wrong):
            some, times = pa.array(wrong), take(self.own["_primary_time"], rows[wrong]).combine_chunks()
            places = places_of_primaries(keys.take(some), times, self.context.primary, self.context.index)
            found = pc.is_valid(places)
            self._put(
                "_primary_occurrence", rows[wrong[found.to_numpy(zero_copy_only=False)]], places.filter(found)
            )
            primary, is_there, times_us = self._primaries_of(rows, keys)
        self._keep("primary record gone", rows[~skipped & ~is_there])
        whole = ~skipped & is_there
        self._put("_primary_id", rows[whole], keys.filter(pa.array(whole)))
        self._put("_primary_time", rows[whole], times_us.filter(pa.array(whole)))
        self._adapt(rows[whole], foreign.only(whole).raws, primary.only(whole).raws)

    def _primaries_of(self, rows: Ints, keys: pa.Array) -> tuple[RecordsAt, Mask, pa.Array]:
        """The records where rows have their primaries, whether these are events of their keys, and when."""
        copy = self.context.primary
        primary = RecordsAt.read(*self._places("_primary_occurrence", rows, keys, copy, "primary"), copy)
        ids, *times = primary.texts(copy.log.id, *([name] for name in copy.log.time))
        times_us = parse_event_times(time_texts(times), style_of(copy.log))
        return primary, are(ids, keys) & pc.is_valid(times_us).to_numpy(zero_copy_only=False), times_us

    def _put(self, name: str, rows: Ints, values: pa.Array) -> None:
        """Have these values, in the order of their rows, in a column of Photon's own."""
        if len(rows):
            is_put = np.zeros(self.rows.num_rows, bool)
            is_put[rows] = True
            column = self.own[name].combine_chunks()
            put = pc.replace_with_mask(column, pa.array(is_put), values.cast(column.type))
            self.own = self.own.set_column(self.own.column_names.index(name), self.own.field(name), put)

    def _places(self, name: str, rows: Ints, ids: pa.Array, copy: LogCopy, side: Side) -> tuple[Ints, Ints]:
        """The file numbers and offsets of the records of rows; -1 where an epoch's file is unknown."""
        numbers, offsets = places_of(take(self.own[name], rows))
        epochs = pc.fill_null(take(self.rows["_epoch"], rows), "").to_numpy()
        earlier = np.flatnonzero(~self.is_current[rows])
        if len(earlier):
            time = "_event_time" if side == "foreign" else "_primary_time"
            times_us = take(self.rows[time], rows[earlier]).combine_chunks().cast(pa.int64())
            known = KnownRecords(copy.log.id, ids.take(pa.array(earlier)), times_us)
            numbers[earlier] = todays_numbers(
                epochs[earlier], numbers[earlier], offsets[earlier], known, copy, side
            )
            self.is_left[rows[earlier]] = numbers[earlier] == NOT_LOOKED_FOR
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
        own = take(self.own, self.fresh_rows)
        kept = old.select(columns_of_people(context.row_schema, made.table.column_names))
        self.fresh = pa.table(
            [*own.columns, *made.table.columns, *kept.columns],
            names=[*own.column_names, *made.table.column_names, *kept.column_names],
        )
        self.changed[self.fresh_rows] = differs(
            old.drop_columns([FILE_COLUMN, ROW_NUMBER_COLUMN]), self.fresh
        )

    def _keep(self, why: Kept, rows: Ints, tell: bool = True) -> None:
        if (is_left := self.is_left[rows]).any():
            left, rows = rows[is_left], rows[~is_left]
            self.is_left[left] = False
            self._keep("too many log files: rebuild fewer hours at once", left)
        self.kept[why] = np.append(self.kept.get(why, rows[:0]), rows)
        if tell:
            for row in rows[: MOST_EXAMPLES - len(self.examples)].tolist():
                self._tell(row, why)

    def _tell(self, row: int, why: str) -> None:
        event_id, occurrence = (self.rows[name][row].as_py() for name in ("_event_id", "_occurrence"))
        self.examples.append(UnmadeRow(event_id, occurrence, why))

    # -- what comes of it

    def result(self) -> Remade:
        going = np.zeros(self.rows.num_rows, bool)
        for rows in self.gone.values():
            going[rows] = True
        files = self.rows[FILE_COLUMN].to_numpy()
        numbers = np.unique(files[going | self.changed])
        touched = tuple(self.piece.parts[number].path for number in numbers.tolist())
        tally = RowTally(
            rows=int(self.inside.sum()),
            same=len(self.fresh_rows) - int(self.changed.sum()),
            replaced=int(self.changed.sum()),
            dropped={why: len(rows) for why, rows in self.gone.items() if len(rows)},
            kept={why: len(rows) for why, rows in self.kept.items() if len(rows)},
        )
        outputs: tuple[OutputFile, ...] = ()
        removed: tuple[OutputFile, ...] = ()
        if self.context.writes:
            # Nobody knows yet whether another part of the same file is touched.
            whole = np.isin(files, numbers) | np.isin(files, self.piece.partial)
            outputs = tuple(self._write(np.flatnonzero(whole & ~going)))
            removed = self._write_removed()
        return Remade(touched, outputs, removed, tally, tuple(self.examples))

    def _write(self, rows: Ints) -> list[OutputFile]:
        """Write these rows, those made again as they are now; a file for each epoch and date."""
        fresh = np.full(self.rows.num_rows, -1)
        fresh[self.fresh_rows] = np.arange(len(self.fresh_rows))
        place = np.where(fresh[rows] >= 0, self.rows.num_rows + fresh[rows], rows)
        tables = [self.rows.drop_columns([FILE_COLUMN, ROW_NUMBER_COLUMN])]
        if self.fresh is not None:
            tables.append(self.fresh)
        everything = pa.concat_tables(tables, promote_options="default")
        epochs = pc.fill_null(self.rows["_epoch"], "").to_numpy(zero_copy_only=False)[rows]
        found = []
        for epoch in sorted(set(epochs.tolist())):
            of_epoch = everything.take(pa.array(place[epochs == epoch]))
            found += [
                replace(write_output(self.context, TABLE, part, day_folder(date)), date=date)
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
                "file": paths.take(of[FILE_COLUMN]),
                "row": of[ROW_NUMBER_COLUMN],
                **{name: of[name] for name in (*IDENTITY, "_event_time")},
            }
            columns = [values[field.name].cast(field.type) for field in REMOVED_COLUMNS]
            tables.append(pa.table(columns, schema=REMOVED_COLUMNS))
        together = pa.concat_tables([REMOVED_COLUMNS.empty_table(), *tables])
        return (write_output(self.context, REMOVED, together),) if together.num_rows else ()


def write_output(context: RemakeContext, name: str, rows: pa.Table, within: str = "") -> OutputFile:
    """Write rows to a new file below a table's folder, and sync it; nobody sees it before its commit."""
    folder = context.pipeline.datacenters[context.datacenter].lake / name
    path = f"{within}rebuild-{context.run}-{uuid.uuid4().hex}.parquet"
    with lake_errors(f"write {folder / path}"):
        store_of(folder).make()
        return OutputFile(name, path, write_parquet(folder, path, rows), rows.num_rows, rows.schema)
