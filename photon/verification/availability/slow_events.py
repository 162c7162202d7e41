"""The slowest events of a minute, each with its file and offset: from a bad minute to its cause."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from photon.logs.files import TrackedFile
from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS, in_utc
from photon.state.timeline import EpochTimeline
from photon.state.view import open_view
from photon.verification.availability.budget import MINUTE_US, NEVER_US, MinuteCounts
from photon.verification.availability.minutes import (
    JudgedEvents,
    rows_since,
    timelines_of,
    waiting_events,
    without_row,
)


@dataclass(frozen=True)
class SlowEvent:
    """One event, when it could have been joined and when it could be read, and where its two lines are."""

    event_id: str
    event_us: int  # the event's own time
    joinable_us: int
    readable_us: int  # `NEVER_US`: it has no row
    path: str
    offset_bytes: int
    primary_path: str
    primary_offset_bytes: int

    @property
    def took_us(self) -> int:
        return self.readable_us - self.joinable_us

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "readable_us": None if self.readable_us == NEVER_US else self.readable_us}

    def __str__(self) -> str:
        took = "has no row" if self.readable_us == NEVER_US else f"took {self.took_us / MICROSECONDS:,.2f} s"
        return (
            f"{self.event_id} {took}: of {in_utc(self.event_us, 'milliseconds')}, joinable from "
            f"{in_utc(self.joinable_us, 'milliseconds')} on; {self.path} at byte {self.offset_bytes}, "
            f"primary event {self.primary_path} at byte {self.primary_offset_bytes}"
        )


def slowest_events(pipeline: Pipeline, datacenter: str, minute_us: int, most: int) -> list[SlowEvent]:
    """The events that became joinable in a minute: those without a row first, then the slowest.

    LakeUnavailable, StateUnavailable, FormatTooNew.
    """
    minute = MinuteCounts(minute_us, minute_us + MINUTE_US, 0)
    with open_view(pipeline.datacenters[datacenter].state) as state:
        if state is None:
            return []
        timelines = timelines_of(pipeline, datacenter, minute_us)
        epoch, files = state.epoch or "", state.files()
        lacking = without_row(
            pipeline, [waiting_events(pipeline, state, timelines.get(epoch, EpochTimeline()))], minute
        )
    found = [each for events in lacking for each in _slowest(events, minute, most, epoch, files)]
    for events in rows_since(pipeline, datacenter, timelines, minute_us):
        found += _slowest(events, minute, most, epoch, files)
        found = heapq.nlargest(most, found, key=lambda event: event.took_us)
    return found


def _slowest(
    events: JudgedEvents, minute: MinuteCounts, most: int, epoch: str, files: Mapping[int, TrackedFile]
) -> Iterator[SlowEvent]:
    inside = events.take(minute.inside(events.moments.joinable_us))
    took_us = inside.moments.readable_us - inside.moments.joinable_us

    def path(number: int) -> str:
        if events.epoch == epoch and number in files:
            return files[number].file.path
        if events.epoch == epoch:
            return f"log file {number}, which is gone and was forgotten"
        return f"file {number} of epoch {events.epoch}"

    for row in np.argsort(-took_us, kind="stable")[:most].tolist():
        file, offset, primary_file, primary_offset = inside.places[row].tolist()
        yield SlowEvent(
            inside.ids[row].as_py(),
            int(inside.event_us[row]),
            int(inside.moments.joinable_us[row]),
            int(inside.moments.readable_us[row]),
            path(file),
            offset,
            path(primary_file),
            primary_offset,
        )
