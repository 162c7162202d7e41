"""Judges the minutes that are over, from rows, logs and states.

Reads rows in batches, so that a day takes no more memory than an hour, and no log but for records that are
missing. What is good, and what is left of the budget, is decided in `budget`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from photon.dispatcher.log_reader import LogReader
from photon.event_store.hashing import Hashes, hash_ids
from photon.event_store.interface import Around, index_folder
from photon.event_store.nearest import nearest_events
from photon.event_store.segments import SegmentDamaged, open_segment
from photon.logs.files import Side
from photon.logs.one_record import read_records_of
from photon.pipeline.file import Pipeline
from photon.process.clock import CLOCK_TOLERANCE_US, microseconds
from photon.state.database import StateReader, StateUnavailable
from photon.state.timeline import EpochTimeline, read_timeline
from photon.state.view import open_view
from photon.state.waiting.reasons import UNJOINABLE
from photon.state.waiting.states import WaitingState
from photon.storage.columns import text
from photon.storage.joined_rows import CommittedRows
from photon.storage.store_errors import is_away
from photon.storage.tables import OutputTable
from photon.storage.tokens import Occurrence
from photon.verification.availability.budget import (
    HOUR_US,
    MINUTE_US,
    Minute,
    MinuteCounts,
    Moments,
    measured,
    minutes_to_judge,
)
from photon.verification.availability.stored import MINUTES, stored_minutes
from photon.verification.report import Case, DatacenterReport, FindingKind

_TIME = pa.timestamp("us", "UTC")
ROWS_AT_ONCE = 100_000
ROW_COLUMNS = ("_batch", "_occurrence", "_primary_occurrence", "_event_id", "_event_time", "_joined_at")
# Findings whose cases a report names, and which have no row.
WITHOUT_ROW: tuple[FindingKind, ...] = (
    "missing",
    "unjoinable_but_joinable",
    "unjoinable_but_joinable_when_complete",
)

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class JudgedEvents:
    """Events of one datacenter, with what was measured of them; one element each."""

    epoch: str
    ids: pa.Array
    event_us: Ints
    places: Ints  # four columns: file number and offset of the record, and of its primary
    moments: Moments

    def __len__(self) -> int:
        return len(self.event_us)

    def take(self, rows: npt.NDArray[Any]) -> JudgedEvents:
        ids = self.ids.take(pa.array(np.arange(len(self))[rows]))
        return JudgedEvents(self.epoch, ids, self.event_us[rows], self.places[rows], self.moments.take(rows))


def judge(
    pipeline: Pipeline,
    datacenter: str,
    report: DatacenterReport | None,
    now_us: int,
    run: str,
) -> list[Minute]:
    """Judge the minutes of a datacenter that are over, and store them. Run again, it adds none twice.

    `report`: of a verification just made; what it names as missing has no row. LakeUnavailable,
    StateUnavailable, FormatTooNew.
    """
    settings, within_us = pipeline.availability, microseconds(pipeline.availability.within)
    stored = stored_minutes(pipeline, datacenter)
    last_us = max(stored, default=None)
    with open_view(pipeline.datacenters[datacenter].state) as state:
        if state is None:
            return []
        timelines = timelines_of(pipeline, datacenter, 0 if last_us is None else last_us)
        if not timelines:
            return []
        of_epoch = timelines.get(state.epoch or "", EpochTimeline())
        until_us = read_until_us(pipeline, datacenter, state, of_epoch, now_us)
        begun_us = min(one.first_us for one in timelines.values())
        starts = minutes_to_judge(last_us, begun_us, until_us, now_us, within_us)
        if not starts:
            return []
        counts = MinuteCounts(starts[0], starts[-1] + MINUTE_US, within_us)
        lacking = [waiting_events(pipeline, state, of_epoch)]
        lacking += _missing_events(pipeline, datacenter, report, state, of_epoch)
    for events in rows_since(pipeline, datacenter, timelines, counts.first_us):
        counts.add(events.moments)
    for event in without_row(pipeline, lacking, counts):
        counts.add(event.moments)
    minutes = counts.minutes()
    at_us, of_events = now_us, settings.of_events
    own = {"within_us": within_us, "of_events": of_events, "at": at_us, "run": run}
    rows = [_row_of(minute) | own | {"is_good": minute.is_good(of_events)} for minute in minutes]
    MINUTES.append(pipeline, datacenter, rows)
    return minutes


def _row_of(minute: Minute) -> dict[str, Any]:
    values: dict[str, Any] = asdict(minute)
    return {"minute": values.pop("at_us"), **values}


def timelines_of(pipeline: Pipeline, datacenter: str, since_us: int) -> dict[str, EpochTimeline]:
    """All that a datacenter has noted since then, by epoch. StateUnavailable, FormatTooNew."""
    state = pipeline.datacenters[datacenter].state
    margin_us = HOUR_US + CLOCK_TOLERANCE_US
    try:
        return read_timeline(state, since_us - margin_us)
    except OSError as error:
        raise StateUnavailable(f"cannot read the timeline in {state}: {error}") from error


# -- how far a datacenter has read


def read_until_us(
    pipeline: Pipeline, datacenter: str, state: StateReader, timeline: EpochTimeline, now_us: int
) -> int:
    """All that came into a datacenter's logs before this time was read, and what it did with it is stored."""
    reader = LogReader(pipeline, datacenter, state.files(), unread=state.unread_files())
    reader.look(now_us, final=False)
    until_us = now_us
    sides: tuple[Side, Side] = ("primary", "foreign")
    for number in {number for side in sides for number in reader.backlog_bytes[side]}:
        if reader.has_more_than_half_a_line(number):
            until_us = min(until_us, timeline.first_unread_us(number, reader.files[number].offset_bytes))
    for one in reader.unread():  # what they hold came before they were seen, or changed last
        until_us = min([until_us, one.since_us, *([one.changed_ns // 1_000] if one.changed_ns else [])])
    for _, content in state.requeued():
        for part in (*content.primary, *content.foreign):
            until_us = min(until_us, timeline.first_unread_us(part.file_number, part.start_bytes))
    return until_us


# -- events with a row


def rows_since(
    pipeline: Pipeline, datacenter: str, timelines: Mapping[str, EpochTimeline], since_us: int
) -> Iterator[JudgedEvents]:
    """The rows of a datacenter that could be read since then, with their moments, some at a time."""
    table = OutputTable(pipeline.datacenters[datacenter].lake, "joined_events")
    if not table.exists():
        return
    with table.reading():
        rows = table.load().to_pyarrow_dataset()
        for epoch, one in timelines.items():
            first = one.first_batch_since(since_us - CLOCK_TOLERANCE_US)  # events may be ahead of the clock
            wanted = (text("_epoch") == epoch) & (ds.field("_batch") >= first)
            for batch in rows.to_batches(
                columns=list(ROW_COLUMNS),
                filter=wanted,
                batch_size=ROWS_AT_ONCE,
                batch_readahead=1,
                fragment_readahead=1,
            ):
                if batch.num_rows:
                    yield _events_of_rows(batch, epoch, one)


def _events_of_rows(rows: pa.RecordBatch, epoch: str, timeline: EpochTimeline) -> JudgedEvents:
    places = np.concatenate([_places(rows["_occurrence"]), _places(rows["_primary_occurrence"])], axis=1)
    event_us, joined_us = (_microseconds(rows[name]) for name in ("_event_time", "_joined_at"))
    readable_us = timeline.readable(rows["_batch"].to_numpy())
    moments = measured(event_us, _came_after(timeline, places), joined_us, readable_us)
    return JudgedEvents(epoch, rows["_event_id"].cast(pa.string()), event_us, places, moments)


def _came_after(timeline: EpochTimeline, places: Ints) -> list[Ints]:
    return [timeline.came_after(places[:, 0], places[:, 1]), timeline.came_after(places[:, 2], places[:, 3])]


def _microseconds(times: pa.Array) -> Ints:
    found: Ints = pc.fill_null(times.cast(_TIME).cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return found


def _places(occurrences: pa.Array) -> Ints:
    """File number and offset of each: -1 and 0 where it is null."""
    parts = pc.split_pattern(pc.fill_null(occurrences.cast(pa.string()), "-1:0"), ":")
    places: Ints = pc.list_flatten(parts).cast(pa.int64()).to_numpy().reshape(-1, 2)
    return places


# -- events without one


def waiting_events(pipeline: Pipeline, state: StateReader, timeline: EpochTimeline) -> JudgedEvents:
    """Events that wait though their primary is in the index. StateUnavailable."""
    waiting, parts = state.waiting, [_no_events(state.epoch or "")]
    index = _Index(pipeline, state)
    for name in sorted(waiting.names):
        listed = waiting.listed(name)
        is_open = listed.states != WaitingState.GONE
        is_open &= (listed.index.reasons != UNJOINABLE) | (listed.states != WaitingState.OPEN)
        rows = np.flatnonzero(is_open)
        if len(rows):
            records = listed.index.records.select(["_id", "_file", "_offset", "primary_time_us"])
            columns = records.take(pa.array(rows)).combine_chunks()
            parts.append(index.events(columns, listed.index.hashes_by_row[rows], timeline))
    return _concat(parts)


def _missing_events(
    pipeline: Pipeline,
    datacenter: str,
    report: DatacenterReport | None,
    state: StateReader,
    timeline: EpochTimeline,
) -> list[JudgedEvents]:
    """Events that a verification has just found missing, as far as this datacenter has to answer for it."""
    if report is None or report.epoch != state.epoch:
        return []
    cases: list[Case] = [
        case
        for finding in report.findings
        if finding.kind in WITHOUT_ROW
        for case in finding.cases
        if case.holder in (None, datacenter)
    ]
    if not cases:
        return []
    wanted = ((Occurrence.parse(case.occurrence), case.event_id) for case in cases)
    logs = pipeline.datacenters[datacenter].logs
    found = read_records_of(logs, wanted, state.files(), pipeline.foreign, pipeline.limits)
    found = found.filter(pc.is_valid(found["_key"]))
    if not found.num_rows:
        return []
    columns = found.select(["_id", "_file", "_offset", "_time_us"]).combine_chunks()
    return [_Index(pipeline, state).events(columns, hash_ids(found["_key"]), timeline)]


class _Index:
    """The index of a datacenter's primary events, as its state lists it now."""

    def __init__(self, pipeline: Pipeline, state: StateReader) -> None:
        self._window = pipeline.retry.lookup_window
        self._epoch = state.epoch or ""
        try:
            folder = index_folder(state.work)
            self._segments = [open_segment(folder, each.name) for each in state.segments()]
        except (SegmentDamaged, OSError) as error:
            mends = "" if is_away(error) else ": the index is merged just now, or the next start mends it"
            raise StateUnavailable(f"{error}{mends}; try again") from error

    def events(self, records: pa.Table, key_hashes: Hashes, timeline: EpochTimeline) -> JudgedEvents:
        """Those of these records (id, file, offset, time) whose primary is there, without a row."""
        ids, files, offsets, times_us = records.columns
        if not self._segments:
            return _no_events(self._epoch)
        expected_us = times_us.to_numpy().astype(np.int64)
        nearest = nearest_events(
            self._segments, key_hashes, Around.within(expected_us, self._window), _is_there
        )
        found, record = nearest.places, nearest.keys
        file_of, offset_of = (column.to_numpy().astype(np.int64)[record] for column in (files, offsets))
        places = np.stack([file_of, offset_of, found.files.astype(np.int64), found.offsets_bytes], axis=1)
        came_after = _came_after(timeline, places)
        event_us = expected_us[record]
        of_records = ids.combine_chunks().cast(pa.string()).take(pa.array(record))
        return JudgedEvents(self._epoch, of_records, event_us, places, measured(event_us, came_after))


def _is_there(files: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
    """A log file that went is no matter here."""
    return np.ones(len(files), bool)


def without_row(
    pipeline: Pipeline, lacking: Iterable[JudgedEvents], counts: MinuteCounts
) -> list[JudgedEvents]:
    """Those of these events that belong to the minutes and have no row in any datacenter; each once."""
    events = _concat([each.take(counts.inside(each.moments.joinable_us)) for each in lacking])
    if not len(events):
        return []
    ids = events.ids.to_pylist()
    _, first = np.unique(np.array(ids, object), return_index=True)
    has_row: set[str] = set()
    for place in pipeline.datacenters.values():
        table = OutputTable(place.lake, "joined_events")
        if table.exists():
            for page in CommittedRows(table).of_events(set(ids)):
                has_row.update(page["_event_id"].to_pylist())
    kept = [row for row in sorted(first.tolist()) if ids[row] not in has_row]
    return [events.take(np.array(kept, np.int64))] if kept else []


def _no_events(epoch: str) -> JudgedEvents:
    none = np.empty(0, np.int64)
    return JudgedEvents(epoch, pa.array([], pa.string()), none, none.reshape(0, 4), measured(none, []))


def _concat(parts: list[JudgedEvents]) -> JudgedEvents:
    moments = [each.moments for each in parts]
    return JudgedEvents(
        parts[0].epoch,
        pa.concat_arrays([each.ids for each in parts]),
        np.concatenate([each.event_us for each in parts]),
        np.concatenate([each.places for each in parts]),
        Moments(*(np.concatenate([getattr(m, each.name) for m in moments]) for each in fields(Moments))),
    )
