"""Tell the signs of a wrong pipeline file: a join read no logs, understood no line, or matched no key.

What is wrong while a datacenter runs is told by `photon.health`.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from photon.join.adapting import adapter_of, may_skip
from photon.logs.file_kinds import LOOKED_AT_BYTES, no_json_lines
from photon.logs.files import Side
from photon.logs.folders import log_folder, watch_of
from photon.logs.source import UNREADABLE
from photon.pipeline.file import Pipeline
from photon.pipeline.location import Location
from photon.pipeline.sections import Log
from photon.process.clock import microseconds
from photon.registry.opening import begin_anew
from photon.state.view import open_view

JOIN_AGAIN = "then join again: all logs are read anew"  # a new epoch begins (A24)
EVERYTHING, SHOWN_OTHERS = "**/*", 3
# Classes of records whose primary event was found, here or elsewhere.
MET = ("joined", "joined_elsewhere", "duplicates", "filtered")


@dataclass(frozen=True, slots=True)
class LogFound:
    """The files of one log, as a look found them."""

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


@dataclass(frozen=True, slots=True)
class JoinFindings:
    """All that logs and state tell of a datacenter's join, beside its counts.

    `overdue`: records that wait for a primary event although primary logs are read beyond them.
    """

    logs: tuple[LogFound, ...]
    overdue: int = 0
    adapter_skips: bool = False  # whether it may pass over events that have a key
    is_complete: bool = False  # whether no line may come any more
    # A file that holds something else than lines, and what to do with it, for each log without an event.
    odd_files: Mapping[Side, str] = field(default_factory=dict)


def signs_of_misconfiguration(
    pipeline: Pipeline, datacenter: str, counts: Mapping[str, float], is_complete: bool = False
) -> list[str]:
    """Look at a datacenter's logs as they are now, and name what is wrong with its join.

    AdapterNotFound, StateUnavailable, FormatTooNew.
    """
    overdue = 0 if _has_met(counts) else _overdue(pipeline, datacenter)
    logs, adapter_skips = look_at_logs(pipeline, datacenter), may_skip(adapter_of(pipeline))
    odd_files = _odd_files(pipeline, datacenter, counts)
    return signs_in(pipeline, counts, JoinFindings(logs, overdue, adapter_skips, is_complete, odd_files))


def look_at_logs(pipeline: Pipeline, datacenter: str) -> tuple[LogFound, ...]:
    """Both logs of a datacenter as they are now. StateUnavailable, FormatTooNew."""
    place = pipeline.datacenters[datacenter]
    globs: dict[Side, str] = {"primary": pipeline.primary.files, "foreign": pipeline.foreign.files}
    with open_view(place.state) as state:
        read = {known.file.side for known in state.files().values()} if state is not None else set()
    return tuple(_look_at(place.logs, side, glob, side in read) for side, glob in globs.items())


def _look_at(place: Location, side: Side, glob: str, is_read: bool) -> LogFound:
    problem = log_folder(place).why_not_there()
    if problem is not None:
        return LogFound(side, str(place), glob, 0, problem)
    files = watch_of(place, glob).scan().files
    others = () if files else log_folder(place).watch(EVERYTHING).scan().files
    shown = tuple(file.path for file in others[:SHOWN_OTHERS])
    unread = 0 if is_read else sum(file.size_bytes > 0 for file in files)
    return LogFound(side, str(place), glob, len(files), None, shown, unread)


def _odd_files(pipeline: Pipeline, datacenter: str, counts: Mapping[str, float]) -> dict[Side, str]:
    """One file of each log that has nothing but dead letters, where its beginning tells what it is."""
    logs: dict[Side, Log] = {"primary": pipeline.primary, "foreign": pipeline.foreign}
    place = pipeline.datacenters[datacenter].logs
    odd = {side: _odd_file(place, logs[side]) for side in _not_understood(counts)}
    return {side: told for side, told in odd.items() if told is not None}


def _odd_file(place: Location, log: Log) -> str | None:
    if log.format != "jsonl":
        return None
    for file in watch_of(place, log.files).scan().files[:SHOWN_OTHERS]:
        try:
            with log_folder(place).open(file) as source:
                odd = no_json_lines(source.read(0, LOOKED_AT_BYTES))
        except UNREADABLE:
            continue
        if odd is not None:
            return f"{place / file.path} {odd.what}; {odd.remedy}"
    return None


def _overdue(pipeline: Pipeline, datacenter: str) -> int:
    """How many records wait for a primary event although primary logs are read far beyond them."""
    with open_view(pipeline.datacenters[datacenter].state) as state:
        if state is None or state.watermark_us is None:
            return 0
        lateness_us = microseconds(pipeline.retry.allowed_lateness)
        return state.waiting.count_for_primary(state.watermark_us - lateness_us)


def signs_in(pipeline: Pipeline, counts: Mapping[str, float], found: JoinFindings) -> list[str]:
    """Name each sign with what was found and what to look at; none if all is well."""
    return [
        *_nothing_to_read(pipeline, found.logs),
        *(_nothing_read(pipeline, counts, found.logs) if found.is_complete else ()),
        *_nothing_understood(pipeline, counts, found.odd_files),
        *_nothing_with_a_key(pipeline, counts, found),
        *_nothing_met(pipeline, counts, found),
    ]


def _nothing_to_read(pipeline: Pipeline, logs: tuple[LogFound, ...]) -> list[str]:
    file = pipeline.file
    told = [
        f"the folder of logs {log.folder} is {log.problem}; look at `logs` of its datacenter in {file}"
        for log in logs
        if log.problem is not None
    ]
    for log in logs:
        if not log.files and log.problem is None:
            others = f". The folder has {', '.join(log.others)}" if log.others else ""
            told.append(f"no file matches {log.place}; look at `{log.side}.files` in {file}{others}")
        elif log.unread:
            told.append(
                f"none of the files that match {log.place} could be read: the warnings of this run say why, "
                f"or they have no line below their header. Mend the files, or `{log.side}.files` in {file}"
            )
    return list(dict.fromkeys(told))  # both logs are in one folder


def _nothing_read(pipeline: Pipeline, counts: Mapping[str, float], logs: tuple[LogFound, ...]) -> list[str]:
    if pipeline.new_epoch_reads_from == "now":  # the lines that are there may have been passed over
        return []
    lines = {
        "primary": counts["primary"] + counts["primary_dead_letters"],
        "foreign": counts["foreign"],
    }
    return [
        f"not one line is in the files that match {log.place}. Put its lines there, "
        f"or mend `{log.side}.files` in {pipeline.file}, and join again"
        for log in logs
        if log.files and not log.unread and not lines[log.side]
    ]


def _not_understood(counts: Mapping[str, float]) -> dict[Side, float]:
    """How many lines each log has, where all of its lines are dead letters."""
    all_of: tuple[tuple[Side, float, float], ...] = (
        ("primary", counts["primary_dead_letters"], counts["primary_dead_letters"] + counts["primary"]),
        ("foreign", counts["dead_letters"], counts["foreign"]),
    )
    return {side: lines for side, dead_letters, lines in all_of if lines and dead_letters == lines}


def _nothing_understood(
    pipeline: Pipeline, counts: Mapping[str, float], odd_files: Mapping[Side, str]
) -> list[str]:
    told = []
    for side, lines in _not_understood(counts).items():
        reasons = f"photon dead-letters {pipeline.typed} has the reasons"
        mend = odd_files.get(side) or f"Mend `{side}` in {pipeline.file}"
        again = JOIN_AGAIN if side == "primary" and side not in odd_files else _again(pipeline)
        told.append(f"all {lines:,} {side} lines are dead letters; {reasons}. {mend}, {again}")
    return told


def _nothing_with_a_key(pipeline: Pipeline, counts: Mapping[str, float], found: JoinFindings) -> list[str]:
    skipped, dead_letters = counts["skipped"], counts["dead_letters"]
    if not skipped or skipped + dead_letters != counts["foreign"]:
        return []
    columns = ", ".join(pipeline.foreign.key)
    none_has = f"none has the key `{columns}` (`foreign.key`)"
    because = f"{none_has}, or the adapter {pipeline.adapter} skips it" if found.adapter_skips else none_has
    other = f", the other {dead_letters:,} are dead letters" if dead_letters else ""
    mend = "`foreign.key` or the adapter" if found.adapter_skips else "`foreign.key`"
    again = _again(pipeline) if found.adapter_skips else JOIN_AGAIN
    return [
        f"all {skipped:,} foreign lines that could be read were skipped{other}: {because}; "
        f"{_which_match(found.logs)}. Mend {mend} in {pipeline.file}, {again}"
    ]


def _nothing_met(pipeline: Pipeline, counts: Mapping[str, float], found: JoinFindings) -> list[str]:
    if _has_met(counts) or not (counts["unjoinable"] + found.overdue and counts["primary"]):
        return []
    unmet = [
        f"{count:,} foreign events {what}"
        for count, what in (
            (counts["unjoinable"], "were given up"),
            (found.overdue, "wait, though primary logs are read beyond them"),
        )
        if count
    ]
    return [
        f"no key matches: {' and '.join(unmet)}, and {counts['primary']:,} primary events were read; "
        f"{_which_match(found.logs)}. Mend `primary.id` and `foreign.key` in {pipeline.file}, {JOIN_AGAIN}"
    ]


def _which_match(logs: tuple[LogFound, ...]) -> str:
    places = " ".join(shlex.quote(log.place) for log in logs)
    return f"photon init --dry-run {places} says which columns match"


def _again(pipeline: Pipeline) -> str:
    # Records that were read by another adapter, or under other ids, are not read again by themselves.
    return f"then begin anew: {begin_anew(pipeline)}; and join again"


def _has_met(counts: Mapping[str, float]) -> bool:
    return any(counts[name] for name in MET)
