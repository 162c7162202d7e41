"""Read the lines of candidates that no row names, and make rows of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from photon.adapters import PRIMARY_PREFIX, is_reserved, same_column, stored_name
from photon.event_store.hashing import Hashes, hash_ids
from photon.event_store.logs import LogsEventStore
from photon.logs.columns import arrow_type, parse_columns
from photon.logs.files import LogFile
from photon.pipeline.sections import PrimaryLog
from photon.unmatched.candidates import Named
from photon.unmatched.deciding import Selection

LINES_AT_ONCE = 2**16
MOST_COPIES = 1_000  # of one id that are looked at; what comes behind them counts for nothing

Mask = npt.NDArray[np.bool_]
_FOUND = pa.schema(
    [
        ("_occurrence", pa.string()),
        ("primary_id", pa.string()),
        ("primary_time", pa.timestamp("us", "UTC")),
        ("conflicting", pa.bool_()),
    ]
)


@dataclass
class Trouble:
    """Trouble with lines: `unreadable` ones by their files, and values that did not fit."""

    unreadable: Counter[int] = field(default_factory=Counter)
    files: dict[int, LogFile] = field(default_factory=dict)  # those with unreadable lines
    unfit: int = 0


@dataclass(frozen=True)
class LineReading:
    """How lines become rows: of which columns, and of which types where the table has these already."""

    log: PrimaryLog
    columns: Sequence[str]
    table: pa.Schema

    def rows(
        self, store: LogsEventStore, known: Named, window: Selection, looked: Trouble
    ) -> Iterator[pa.Table]:
        """A row for each event whose id no row names: of several copies the first that can be read (U5).

        SegmentDamaged, OSError.
        """
        left = known.left
        for at in range(0, len(left), LINES_AT_ONCE):
            yield self._rows(store, left[at : at + LINES_AT_ONCE], known, window, looked)

    def _rows(
        self, store: LogsEventStore, hashes: Hashes, known: Named, window: Selection, looked: Trouble
    ) -> pa.Table:
        candidates = store.events_with(hashes, MOST_COPIES)
        events = store.read(candidates)
        wanted = hashes[candidates.keys]
        is_read = np.asarray(pc.is_valid(events["_id"]).to_numpy(), bool)
        # A line with an id of another hash is not what was indexed.
        is_read &= hash_ids(pc.fill_null(events["_id"], "")) == wanted
        _note_unreadable(events, ~is_read, candidates.files, looked)
        events, wanted = events.filter(pa.array(is_read)), wanted[is_read]
        first, is_conflicting = _first_of_each(events)
        events, wanted = events.take(pa.array(first)), wanted[first]
        numbers = events["_file"].to_numpy().astype(np.uint32)
        # A later copy of an id counts for nothing once an earlier run has looked at the first one.
        times_us, offsets = (events[name].to_numpy() for name in ("_time_us", "_offset"))
        is_left = window.are_candidates(numbers, times_us, offsets)
        is_left &= ~known.names(events["_id"].combine_chunks(), wanted)
        events = events.filter(pa.array(is_left))
        rows = pa.Table.from_arrays(
            [
                _places(events),
                events["_id"],
                events["_time_us"].cast(_FOUND.field("primary_time").type),
                pa.array(is_conflicting[is_left]),
            ],
            schema=_FOUND,
        )
        for name, values in self._values(events, candidates.files, looked).items():
            rows = rows.append_column(name, values)
        return rows

    def _values(self, events: pa.Table, files: Mapping[int, LogFile], looked: Trouble) -> dict[str, pa.Array]:
        """The columns that the pipeline file names; null where a line lacks one, or a value does not fit."""
        there = {same_column(one.name): one for one in self.table}
        found: dict[str, pa.Array] = {}
        parsed, place = self._parsed(events, files, looked)
        for name in self.columns:
            safe = f"{PRIMARY_PREFIX}{name}" if is_reserved(name) else name
            declared = pa.field(stored_name(safe), arrow_type(self.log.columns.get(name, "string")))
            kept = there.get(same_column(declared.name), declared)
            parts = []
            for table in parsed:
                values = table[name] if name in table.column_names else pa.nulls(len(table), declared.type)
                parts.append(_cast(values, kept.type, looked))
            together = pa.chunked_array(parts, kept.type)
            found[kept.name] = together.take(pa.array(place))
        return found

    def _parsed(
        self, events: pa.Table, files: Mapping[int, LogFile], looked: Trouble
    ) -> tuple[list[pa.Table], npt.NDArray[np.int64]]:
        """All columns of the events, by the headers of their files, and where each event is among them."""
        numbers = events["_file"].to_numpy()
        by_header: dict[bytes, list[int]] = {}
        for number in np.unique(numbers).tolist():
            by_header.setdefault(files[number].header, []).append(number)
        parsed: list[pa.Table] = []
        rows = [np.empty(0, np.int64)]
        for header, among in by_header.items() if self.columns else ():
            own = np.flatnonzero(np.isin(numbers, among))
            first_header = files[among[0]].first_header if header else b""
            columns = parse_columns(
                events["_raw"].take(pa.array(own)).combine_chunks(), first_header, self.log
            )
            parsed.append(columns.table)
            looked.unfit += len(columns.failures)
            rows.append(own)
        place = np.empty(events.num_rows, np.int64)
        order = np.concatenate(rows)
        place[order] = np.arange(len(order))
        return parsed, place


def _cast(values: pa.ChunkedArray | pa.Array, kind: pa.DataType, looked: Trouble) -> pa.Array:
    """Values in the type that the table has; null all together where one does not fit."""
    together = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    try:
        return together.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        looked.unfit += len(together)
        return pa.nulls(len(together), kind)


def _first_of_each(events: pa.Table) -> tuple[npt.NDArray[np.int64], Mask]:
    """The earliest copy of each id, and whether another one says something else; the earliest come first."""
    if not events.num_rows:
        return np.empty(0, np.int64), np.empty(0, bool)
    codes = events["_id"].combine_chunks().dictionary_encode().indices.to_numpy()
    ids, first, of = np.unique(codes, return_index=True, return_inverse=True)
    later = np.setdiff1d(np.arange(len(codes)), first)
    raws = events["_raw"]
    unlike = pc.not_equal(raws.take(pa.array(later)), raws.take(pa.array(first[of[later]])))
    is_conflicting = np.zeros(len(ids), bool)
    is_conflicting[of[later[np.asarray(unlike.to_numpy(), bool)]]] = True
    return first, is_conflicting


def _note_unreadable(events: pa.Table, is_lost: Mask, files: Mapping[int, LogFile], looked: Trouble) -> None:
    numbers = events["_file"].to_numpy()[is_lost].tolist()
    looked.unreadable.update(numbers)
    looked.files.update({number: files[number] for number in set(numbers)})


def _places(events: pa.Table) -> pa.Array:
    texts = (events[name].cast(pa.string()).combine_chunks() for name in ("_file", "_offset"))
    return pc.binary_join_element_wise(*texts, ":")
