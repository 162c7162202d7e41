"""How far a verification reaches: files that can't be read again, and up to which time events are final."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from photon.jobs.dialect import F
from photon.logs.files import Side
from photon.process.readable import counted
from photon.verification.classes import verified_until_us
from photon.verification.report import DatacenterReport, Unverified
from photon.verification.scope import Scope
from photon.verification.stored_reports import newly_verified_offsets, summarize_unreadable
from photon.verification.tasks import PLACE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

# Files that can't be read again from some byte on, by datacenter and number.
Unreadable = dict[tuple[str, int], Unverified]
WITHOUT_PRIMARIES = "without some primary logs, records that were filtered may be counted as unjoinable"


@dataclass(frozen=True, slots=True)
class FileTimes:
    """Times of the events in one foreign file."""

    latest_us: int | None = None
    first_undecided: int | None = None  # offset of its first record that is pending
    pending_us: int | None = None  # the earliest of these


def unreadable(records: DataFrame, side: Side) -> Unreadable:
    """The files of these records that can't be read to the end."""
    lost = records.where("lost_path is not null")
    by_file = lost.groupBy("datacenter", "file", F.col("lost_path").alias("path"))
    files = by_file.agg(F.sum("lost_bytes").alias("bytes"), F.first("lost_reason").alias("reason"))
    return {
        (row["datacenter"], row["file"]): Unverified(row["path"], side, row["bytes"], row["reason"])
        for row in files.orderBy("datacenter", "path").collect()
    }


def not_looked_for(scope: Scope) -> Unreadable:
    """Foreign files that are gone and were fully verified before."""
    return {
        (name, one.file.number): Unverified(one.file.path, "foreign", one.read_bytes, one.state)
        for name in scope.selected
        for one in scope.gone_and_verified(name)
    }


def read_files(records: DataFrame, decided: DataFrame) -> list[Row]:
    """For each foreign file with records: latest event, and first and earliest pending record, if any."""
    file = ["datacenter", "file"]
    columns = [*PLACE, "event_us"]
    pending = records.where("class = 'pending'").select(*columns)
    pending = pending.union(decided.where("outcome = 'pending'").select(*columns))
    first = pending.groupBy(*file).agg(
        F.min("offset").alias("first_undecided"), F.min("event_us").alias("pending_us")
    )
    latest = records.groupBy(*file).agg(F.max("event_us").alias("latest_us"))
    return latest.join(first, file, "left").collect()


def with_kept_times(scope: Scope, read_files: Sequence[Row]) -> dict[str, dict[int, FileTimes]]:
    """The times of each foreign file, with those of results that are kept, by datacenter and number."""
    found: dict[str, dict[int, FileTimes]] = {name: {} for name in scope.selected}
    for name, since in scope.since.items():
        for number, kept in since.trusted.items():
            found[name][number] = FileTimes(kept.latest_us)
    for row in read_files:
        before = found[row["datacenter"]].get(row["file"], FileTimes())
        latest = (each for each in (before.latest_us, row["latest_us"]) if each is not None)
        found[row["datacenter"]][row["file"]] = FileTimes(
            max(latest, default=None), row["first_undecided"], row["pending_us"]
        )
    return found


def forgotten_unverified(scope: Scope, name: str) -> list[Unverified]:
    """Foreign files that were forgotten, and never verified, while gc dropped nothing: they hold it back."""
    files = scope.read_offsets[name].forgotten.get("unverified", 0)
    if not files or scope.pipeline.registry.keep_days is None:
        return []
    return [Unverified(counted(files, "forgotten file"), "foreign", 0, "gone before keep_days was set")]


def how_far_verified(
    scope: Scope, name: str, files: Mapping[int, FileTimes], unreadable: Mapping[int, Unverified]
) -> DatacenterReport:
    """The part of a datacenter's report that says how much of its logs was verified."""
    read, verified = scope.read_offsets[name], scope.verified[name]
    latest = {number: each.latest_us for number, each in files.items() if each.latest_us is not None}
    undecided = {n: each.first_undecided for n, each in files.items() if each.first_undecided is not None}
    # Waiting records are known even where their log is gone.
    times = [read.earliest_waiting_us, *(each.pending_us for each in files.values())]
    pending_us = min((time_us for time_us in times if time_us is not None), default=None)
    unverified, verified_earlier = summarize_unreadable(unreadable, read.files, verified)
    never_read, notes = scope.never_read(name), scope.notes(name)
    if read.forgotten.get("primary") or any(file.side == "primary" for file in unreadable.values()):
        notes.append(WITHOUT_PRIMARIES)
    return DatacenterReport(
        unverified=(*unverified, *never_read, *forgotten_unverified(scope, name)),
        verified_earlier=verified_earlier,
        notes=tuple(notes),
        verified_until_us=verified_until_us(latest, scope.unread(name), pending_us),
        epoch=read.epoch,
        state_is_unreadable=read.is_unreadable,
        completed=read.completed,
        newly_verified_offsets=newly_verified_offsets(read.of("foreign"), undecided, unreadable, verified),
    )
