"""Count a datacenter's rows, and its records without a row, by the day of their events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from photon.pipeline.file import Pipeline
from photon.pipeline.location import Location
from photon.state.view import open_view
from photon.storage.columns import TableName
from photon.storage.delta import lake_errors
from photon.storage.tables import OutputTable
from photon.verification.days import DAY_US, Window

_EPOCH = date(1970, 1, 1)
Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DayCounts:
    """The rows of one day in one datacenter, and its records without a row by class."""

    rows: int = 0
    pending: int = 0
    unjoinable: int = 0
    too_old: int = 0


def day_of(time_us: int) -> date:
    """The UTC day of a time."""
    return _EPOCH + timedelta(days=time_us // DAY_US)


def counts_by_day(pipeline: Pipeline, datacenter: str, window: Window) -> dict[date, DayCounts]:
    """The counts of each day of a window, from tables and state. LakeUnavailable, StateUnavailable."""
    place = pipeline.datacenters[datacenter]
    waiting, pending = pa.array([], pa.string()), np.empty(0, np.int64)
    with open_view(place.state) as state:
        if state is not None:
            records, pending = state.waiting.events(), state.waiting.event_times_us()
            waiting = records.filter(pc.invert(records["given_up"]))["event_id"].combine_chunks()
    rows = _by_day(_event_times(place.lake, "joined_events", "_event_time", window), window)
    counts = {
        "pending": _by_day([pending], window),
        "unjoinable": _by_day([_times_without_row(place.lake, "unjoined", waiting, window)], window),
        "too_old": _by_day([_times_without_row(place.lake, "too_old", waiting, window)], window),
    }
    return {
        day: DayCounts(rows[day], **{name: by_day[day] for name, by_day in counts.items()})
        for day in window.days()
    }


def _by_day(parts: Iterable[Times], window: Window) -> Counter[date]:
    """How many of these times lie on each day of the window."""
    found: Counter[date] = Counter()
    for times in parts:
        inside = times[(times >= window.start_us) & (times < window.end_us)]
        days, numbers = np.unique(inside // DAY_US, return_counts=True)
        for day, count in zip(days.tolist(), numbers.tolist(), strict=True):
            found[day_of(day * DAY_US)] += count
    return found


def _event_times(lake: Location, name: TableName, time: str, window: Window) -> Iterator[Times]:
    for batch in _batches(lake, name, [time], time, window):
        yield batch[time].cast(pa.int64()).to_numpy(zero_copy_only=False)


def _times_without_row(lake: Location, name: TableName, waiting: pa.Array, window: Window) -> Times:
    """The event times of a side table's records, but for events that wait again or have a row since."""
    batches = list(_batches(lake, name, ["event_id", "event_time", "_epoch"], "event_time", window))
    if not batches:
        return np.empty(0, np.int64)
    records = pa.Table.from_batches(batches)
    records = records.set_column(2, "_epoch", records["_epoch"].cast(pa.int64()))
    latest = records.group_by("event_id").aggregate([("_epoch", "max")])  # a new epoch reads all logs again
    records = records.join(latest, "event_id").filter(pc.field("_epoch") == pc.field("_epoch_max"))
    ids = records["event_id"].cast(pa.string())
    joined = [
        pc.unique(pc.filter(found, pc.is_in(found, value_set=ids.combine_chunks())))
        for batch in _batches(lake, "joined_events", ["_event_id", "_event_time"], "_event_time", window)
        for found in [batch["_event_id"].cast(pa.string())]
    ]
    has_row = pc.is_in(ids, value_set=pa.concat_arrays([waiting, *joined]))
    left = records.filter(pc.invert(has_row))
    times: Times = left["event_time"].cast(pa.int64()).to_numpy()
    return times


def _batches(
    lake: Location, name: TableName, columns: list[str], time: str, window: Window
) -> Iterator[pa.RecordBatch]:
    """The rows of a table whose times lie in the window; none without a table."""
    table = OutputTable(lake, name)
    if not table.exists():
        return
    ends = pa.array([window.start_us, window.end_us]).cast(pa.timestamp("us", "UTC"))
    inside = (pc.field(time) >= ends[0]) & (pc.field(time) < ends[1])
    with lake_errors(f"read {table.folder}"):
        scanner = table.load().to_pyarrow_dataset().scanner(columns=columns, filter=inside)
        yield from scanner.to_batches()
