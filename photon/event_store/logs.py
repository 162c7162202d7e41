"""LogsEventStore: find primary events by the index segments, and read their lines from the logs."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from photon.event_store.hashing import Hashes, hash_ids
from photon.event_store.interface import Around, IndexSnapshot, Ints, Primaries
from photon.event_store.log_files import LogFiles, write_log_files
from photon.event_store.nearest import best_of_each, nearest_events
from photon.event_store.segments import Places, Segment, SegmentDamaged, concat, forget_copy, open_segment
from photon.logs.files import LogFile
from photon.logs.formats.dialect import dialect_of
from photon.logs.later_headers import in_first_order
from photon.logs.parse import PRIMARY_EVENTS, parse_ids
from photon.logs.scattered import ScatteredLines, read_lines
from photon.pipeline.location import Location
from photon.pipeline.sections import PrimaryLog

MOST_OF_EQUAL_HASH = 64  # events of one hash, where two ids have it, that are told apart by their lines


@dataclass(frozen=True)
class Index:
    """Names of index segments in `folder`. Picklable."""

    folder: Location
    segments: tuple[str, ...]


@dataclass(frozen=True)
class KeyMatches:
    """Events whose hash is that of a key: those of one key follow each other by time."""

    keys: Ints  # which key each one may belong to
    places: Places
    files: Mapping[int, LogFile]


class LogsEventStore:
    """The EventStore of a datacenter, in its logs (paper, section 3.3).

    An index says where the events are whose id has the hash of a key; their lines tell whether it is the id.
    Every event whose log is there can be found (protocol C7).
    """

    def __init__(self, logs: Location, log: PrimaryLog, index: IndexSnapshot) -> None:
        """SegmentDamaged, OSError."""
        self._logs = logs
        self._log = log
        self._segments = open_segments(index.folder, index.segments)
        self._log_files: LogFiles = open_log_files(index.log_files_in or index.folder, index.log_files)

    def lookup(self, keys: pa.Array, around: Around) -> Primaries:
        hashes = hash_ids(keys)
        nearest = nearest_events(self._segments, hashes, around, self._log_files.knows)
        files = self._files_of(nearest.places)
        events, row_of = self._read(KeyMatches(nearest.keys, nearest.places, files))
        ids, asked = events["_id"].take(pa.array(row_of)), nearest.keys
        same = _equal(ids, keys.take(pa.array(asked)))
        rows, unanswered = np.full(len(keys), -1), np.zeros(len(keys), bool)
        rows[asked[same]] = row_of[same]
        # No line, or one whose id has another hash: it is not what was indexed, so nobody knows which
        # event counts.
        wrong = np.flatnonzero(~same)
        is_other = _hashes_of(ids.take(pa.array(wrong))) == hashes[asked[wrong]]
        unanswered[asked[wrong]] = True
        unread = frozenset(nearest.places.files[wrong[~is_other]].tolist())
        if is_other.any():  # an equal hash of another id
            others = asked[wrong[is_other]]
            found = self._among_equal_hashes(keys, hashes, others, around)
            unanswered[others] = found.unanswered
            rows[others] = np.where(found.rows >= 0, found.rows + events.num_rows, -1)
            events, files = pa.concat_tables([events, found.events]), {**files, **found.files}
        return _only_found(Primaries(rows, unanswered, nearest.is_ambiguous, events, files, unread))

    def _among_equal_hashes(self, keys: pa.Array, hashes: Hashes, asked: Ints, around: Around) -> Primaries:
        """The nearest events of keys whose hash is another id's, too. So rare that few are looked at."""
        some = self.events_with(hashes[asked], MOST_OF_EQUAL_HASH)
        key_of = asked[some.keys]
        is_inside = around.first_us[key_of] <= some.places.times_us
        is_inside &= some.places.times_us <= around.last_us[key_of]
        read = self.read(some)
        is_lost = pc.is_null(read["_id"]).to_numpy()
        own = np.flatnonzero(is_inside & (is_lost | _equal(read["_id"], keys.take(pa.array(key_of)))))
        own = own[best_of_each(some.keys[own], some.places.take(own), around.take(asked))]
        rows, nothing = np.full(len(asked), -1), np.zeros(len(asked), bool)
        rows[some.keys[own]] = np.where(is_lost[own], -1, own)
        unanswered = np.bincount(some.keys, minlength=len(asked)) == MOST_OF_EQUAL_HASH
        unanswered[some.keys[own]] |= is_lost[own]
        return Primaries(np.where(unanswered, -1, rows), unanswered, nothing, read, some.files)

    def events_with(self, hashes: Hashes, most_copies: int) -> KeyMatches:
        """The places of events whose ids have these hashes, the first by time, at most so many of each."""
        order = np.argsort(hashes)
        parts, whose = list[Places](), [np.empty(0, np.int64)]
        for segment in self._segments:
            rows, which = segment.find(hashes[order], most_copies)
            is_there = self._log_files.knows(segment.places.files[rows])
            parts.append(segment.places.take(rows[is_there]))
            whose.append(order[which[is_there]])
        places, keys = concat(parts), np.concatenate(whose)
        by = np.lexsort((places.offsets_bytes, places.files, places.digests, places.times_us, keys))
        by = by[np.arange(len(by)) - np.searchsorted(keys[by], keys[by]) < most_copies]
        return KeyMatches(keys[by], places.take(by), self._files_of(places.take(by)))

    def read(self, candidates: KeyMatches) -> pa.Table:
        """The events at these places (PRIMARY_EVENTS); nulls as `_id` and `_raw`: the line can't be read."""
        events, row_of = self._read(candidates)
        return events.take(pa.array(row_of))

    def _files_of(self, places: Places) -> Mapping[int, LogFile]:
        return self._log_files.files(np.unique(places.files).tolist())

    def _read(self, candidates: KeyMatches) -> tuple[pa.Table, Ints]:
        """The events at the candidates' places, each once, and for each candidate its row among them.

        Their `_id` and `_raw` are null where the line can't be read.
        """
        places = candidates.places
        order = np.lexsort((places.offsets_bytes, places.files))
        files, offsets = places.files[order], places.offsets_bytes[order]
        first = np.ones(len(order), bool)  # the first of the candidates for one place
        first[1:] = (np.diff(files.astype(np.int64)) != 0) | (np.diff(offsets) != 0)
        row_of = np.empty(len(order), np.int64)
        row_of[order] = np.cumsum(first) - 1
        places = places.take(order[first])
        lines = ScatteredLines(
            places.files.astype(np.int64), places.offsets_bytes, places.lengths_bytes.astype(np.int64)
        )
        raws = read_lines(self._logs, candidates.files, lines)
        changed = [file for file in candidates.files.values() if file.later_headers]
        if changed:
            own = in_first_order(
                raws.combine_chunks(), lines.files, lines.starts_bytes, changed, dialect_of(self._log)
            )
            raws = pa.chunked_array([own])
        columns = [
            pa.array(places.files.astype(np.int32)),
            pa.array(places.offsets_bytes),
            raws,
            self._ids(raws, places.files, candidates.files),
            pa.array(places.times_us),
        ]
        return pa.Table.from_arrays(columns, schema=PRIMARY_EVENTS), row_of

    def _ids(
        self, raws: pa.ChunkedArray, numbers: npt.NDArray[np.uint32], files: Mapping[int, LogFile]
    ) -> pa.ChunkedArray:
        """The id of each line; null where there is no line, or it is no event any more."""
        by_header: dict[bytes, list[int]] = {}
        for number in np.unique(numbers).tolist():
            by_header.setdefault(files[number].header, []).append(number)
        readable = pc.is_valid(raws).to_numpy()
        rows: list[Ints] = [np.empty(0, np.int64)]
        ids: list[pa.Array] = []
        for among in by_header.values():
            own = np.flatnonzero(readable & np.isin(numbers, among))
            lines = raws if len(own) == len(raws) else raws.take(pa.array(own))
            rows.append(own)
            ids.append(parse_ids(lines.combine_chunks(), files[among[0]], self._log))
        place = np.full(len(numbers), -1)
        place[np.concatenate(rows)] = np.arange(sum(map(len, rows)))
        return pa.chunked_array(ids, pa.string()).take(pa.array(place, mask=place < 0))


def _equal(ids: pa.ChunkedArray, keys: pa.Array) -> npt.NDArray[np.bool_]:
    equal: npt.NDArray[np.bool_] = pc.fill_null(pc.equal(ids, keys), False).to_numpy()
    return equal


def _hashes_of(ids: pa.ChunkedArray) -> Hashes:
    return hash_ids(pc.fill_null(ids, ""))


def _only_found(found: Primaries) -> Primaries:
    """Leave out the events that are nobody's."""
    rows = found.rows
    wanted, places = np.unique(rows[rows >= 0], return_inverse=True)
    rows[rows >= 0] = places
    return replace(found, events=found.events.take(pa.array(wanted)))


@contextmanager
def store_for_a_look(
    logs: Location, log: PrimaryLog, index: Index, files: Iterable[LogFile]
) -> Iterator[LogsEventStore]:
    """An EventStore over these log files, beside the dispatcher that writes the index.

    SegmentDamaged, OSError: a merge has just replaced a segment.
    """
    with tempfile.TemporaryDirectory() as scratch:
        write_log_files(Path(scratch), "files", files)
        snapshot = IndexSnapshot(index.folder, index.segments, "files", Path(scratch))
        yield LogsEventStore(logs, log, snapshot)


# -- segments and log file maps, which never change, stay open in a process between tasks

_lock = threading.Lock()
_segments: dict[tuple[Location, str], Segment] = {}
_log_files: tuple[Location, LogFiles] | None = None


def open_segments(folder: Location, names: Sequence[str]) -> list[Segment]:
    """These segments, and no others: those that a merge replaced are closed. SegmentDamaged, OSError."""
    keys = [(folder, name) for name in names]
    with _lock:
        for key in _segments.keys() - set(keys):
            del _segments[key]
            forget_copy(*key)
        for key in keys:
            if key not in _segments:
                _segments[key] = open_segment(*key)
        return [_segments[key] for key in keys]


def open_log_files(folder: Location, name: str) -> LogFiles:
    """The log file map of this name. SegmentDamaged, OSError."""
    global _log_files
    with _lock:
        if _log_files is None or _log_files[0] != folder / name:
            try:
                _log_files = folder / name, LogFiles(folder, name)
            except (pa.ArrowInvalid, FileNotFoundError) as error:
                raise SegmentDamaged(f"the map of log files {folder / name} can't be read: {error}") from None
        return _log_files[1]
