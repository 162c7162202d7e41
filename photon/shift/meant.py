"""Whether a join did what anybody can have meant: it read logs, understood lines, and met keys. Else why not.

What is wrong while a datacenter runs is told by `standing` and by the health checks.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from photon.clock import microseconds
from photon.logs.files import Side
from photon.logs.folders import log_folder, watch_of
from photon.pipeline.file import Pipeline
from photon.pipeline.location import Location
from photon.state.view import open_view

# What was read by wrong settings is not read again by itself.
AGAIN = "then remove the folders lake and state of all datacenters, and join again"
EVERYTHING, SHOWN_OTHERS = "**/*", 3
# What becomes of a record alone whose primary event was found, here or elsewhere.
MET = ("joined", "joined_elsewhere", "duplicates", "filtered", "missing")


@dataclass(frozen=True, slots=True)
class LogSeen:
    """What there is of one log."""

    side: Side
    folder: str
    glob: str
    files: int
    problem: str | None  # why the folder can't be read
    others: tuple[str, ...] = ()  # some files of the folder, where the glob matches none
    unread: int = 0  # files that have something in them, where none of this log could ever be read

    @property
    def place(self) -> str:
        return f"{self.folder}/{self.glob}"


def told_of(pipeline: Pipeline, datacenter: str, counts: Mapping[str, float]) -> list[str]:
    """What a datacenter's join can't have been meant to do, of its counts and its logs as they are now.

    StateUnavailable, FormatTooNew.
    """
    overdue = 0 if _has_met(counts) else _overdue(pipeline, datacenter)
    return not_meant(str(pipeline.file), counts, look_at_logs(pipeline, datacenter), overdue)


def look_at_logs(pipeline: Pipeline, datacenter: str) -> tuple[LogSeen, ...]:
    """Both logs of a datacenter as they are now. StateUnavailable, FormatTooNew."""
    place = pipeline.datacenters[datacenter]
    globs: dict[Side, str] = {"primary": pipeline.primary.files, "foreign": pipeline.foreign.files}
    with open_view(place.state) as state:
        read = {known.file.side for known in state.files().values()} if state is not None else set()
    return tuple(_look_at(place.logs, side, glob, side in read) for side, glob in globs.items())


def _look_at(place: Location, side: Side, glob: str, is_read: bool) -> LogSeen:
    problem = log_folder(place).why_not_there()
    if problem is not None:
        return LogSeen(side, str(place), glob, 0, problem)
    files = watch_of(place, glob).scan().files
    others = () if files else log_folder(place).watch(EVERYTHING).scan().files
    shown = tuple(file.path for file in others[:SHOWN_OTHERS])
    unread = 0 if is_read else sum(file.size_bytes > 0 for file in files)
    return LogSeen(side, str(place), glob, len(files), None, shown, unread)


def _overdue(pipeline: Pipeline, datacenter: str) -> int:
    """How many records wait for a primary event although primary logs are read far beyond them."""
    with open_view(pipeline.datacenters[datacenter].state) as state:
        if state is None or state.watermark_us is None:
            return 0
        lateness_us = microseconds(pipeline.retry.allowed_lateness)
        return state.waiting.count_for_primary(state.watermark_us - lateness_us)


def not_meant(
    pipeline_file: str, counts: Mapping[str, float], logs: tuple[LogSeen, ...], overdue: int = 0
) -> list[str]:
    """What can't have been meant, each with what was seen and what to look at; none if all is well.

    `overdue`: records that wait for a primary event although primary logs are read beyond them.
    """
    return [
        *_nothing_to_read(pipeline_file, logs),
        *_nothing_understood(pipeline_file, counts),
        *_nothing_met(pipeline_file, counts, logs, overdue),
    ]


def _nothing_to_read(pipeline_file: str, logs: tuple[LogSeen, ...]) -> list[str]:
    told = [
        f"the folder of logs {log.folder} is {log.problem}; "
        f"look at `logs` of its datacenter in {pipeline_file}"
        for log in logs
        if log.problem is not None
    ]
    for log in logs:
        if not log.files and log.problem is None:
            others = f". The folder has {', '.join(log.others)}" if log.others else ""
            told.append(f"no file matches {log.place}; look at `{log.side}.files` in {pipeline_file}{others}")
        elif log.unread:
            told.append(
                f"none of the files that match {log.place} could be read; the warnings of this run say why. "
                f"Mend the files, or `{log.side}.files` in {pipeline_file}"
            )
    return list(dict.fromkeys(told))  # both logs are in one folder


def _nothing_understood(pipeline_file: str, counts: Mapping[str, float]) -> list[str]:
    told = []
    if counts["primary_dead_letters"] and not counts["primary"]:
        told.append(
            f"all {counts['primary_dead_letters']:,} primary lines are dead letters; "
            f"photon dead-letters {pipeline_file} has the reasons. Mend `primary` in {pipeline_file}, {AGAIN}"
        )
    if counts["foreign"] and counts["dead_letters"] == counts["foreign"]:
        told.append(
            f"all {counts['foreign']:,} foreign lines are dead letters; "
            f"photon dead-letters {pipeline_file} has the reasons. Mend `foreign` in {pipeline_file}, {AGAIN}"
        )
    return told


def _nothing_met(
    pipeline_file: str, counts: Mapping[str, float], logs: tuple[LogSeen, ...], overdue: int
) -> list[str]:
    if _has_met(counts) or not (counts["unjoinable"] + overdue and counts["primary"]):
        return []
    unmet = [
        f"{count:,} foreign events {what}"
        for count, what in (
            (counts["unjoinable"], "were given up"),
            (overdue, "wait, though primary logs are read beyond them"),
        )
        if count
    ]
    places = " ".join(shlex.quote(log.place) for log in logs)
    return [
        f"no key matches: {' and '.join(unmet)}, and {counts['primary']:,} primary events were read; "
        f"photon init --dry-run {places} says which columns match. Mend "
        f"`primary.id` and `foreign.key` in {pipeline_file}, {AGAIN}"
    ]


def _has_met(counts: Mapping[str, float]) -> bool:
    return any(counts[name] for name in MET)
