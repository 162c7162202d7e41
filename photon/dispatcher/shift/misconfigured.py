"""Tell the signs of a wrong pipeline file: a join read no logs, understood no line, or matched no key.

What is wrong while a datacenter runs is told by `photon.health`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from photon.dispatcher.shift.growth import names_beside
from photon.dispatcher.shift.keys import (
    JOIN_AGAIN,
    columns_in_words,
    columns_of_newest,
    has_met,
    no_key_matches,
    none_has_a_key,
    overdue_records,
    which_match,
)
from photon.join.adapting import adapter_of, may_skip
from photon.logs.file_kinds import LOOKED_AT_BYTES, no_json_lines
from photon.logs.files import Side, TrackedFile
from photon.logs.folders import log_folder, watch_of
from photon.logs.source import UNREADABLE
from photon.pipeline.file import Pipeline
from photon.pipeline.location import Location
from photon.pipeline.sections import Log, Tailing
from photon.registry.opening import begin_anew
from photon.state.view import open_view

EVERYTHING, SHOWN_OTHERS = "**/*", 3


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
    beside: tuple[str, ...] = ()  # sentences about files that are called nearly as its own

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
    is_cut_short: bool = False  # whether the join was stopped, so that files may not be read yet
    # A file that holds something else than lines, and what to do with it, for each log without an event.
    odd_files: Mapping[Side, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()  # the columns of the newest foreign lines, where none has a key


def signs_of_misconfiguration(
    pipeline: Pipeline,
    datacenter: str,
    counts: Mapping[str, float],
    is_complete: bool = False,
    is_cut_short: bool = False,
    logs: tuple[LogFound, ...] = (),
) -> list[str]:
    """Name what is wrong with a datacenter's join. `logs`: as they are now, where that is known.

    AdapterNotFound, StateUnavailable, FormatTooNew.
    """
    overdue = 0 if has_met(counts) else overdue_records(pipeline, datacenter)
    logs, adapter_skips = logs or look_at_logs(pipeline, datacenter), may_skip(adapter_of(pipeline))
    odd_files = _odd_files(pipeline, datacenter, counts)
    columns = _columns(pipeline, datacenter) if none_has_a_key(counts) else ()
    found = JoinFindings(logs, overdue, adapter_skips, is_complete, is_cut_short, odd_files, columns)
    return signs_in(pipeline, counts, found)


def look_at_logs(pipeline: Pipeline, datacenter: str) -> tuple[LogFound, ...]:
    """Both logs of a datacenter as they are now. StateUnavailable, FormatTooNew."""
    place = pipeline.datacenters[datacenter]
    globs: dict[Side, str] = {"primary": pipeline.primary.files, "foreign": pipeline.foreign.files}
    with open_view(place.state) as state:
        known = list(state.files().values()) if state is not None else []
    return tuple(_look_at(pipeline, place.logs, side, glob, known) for side, glob in globs.items())


def _look_at(
    pipeline: Pipeline, place: Location, side: Side, glob: str, known: Sequence[TrackedFile]
) -> LogFound:
    problem = log_folder(place).why_not_there()
    if problem is not None:
        return LogFound(side, str(place), glob, 0, problem)
    found = watch_of(place, glob, pipeline.tailing.links_lead_out).scan()
    files, is_read = found.files, any(one.file.side == side for one in known)
    others = () if files else log_folder(place).watch(EVERYTHING).scan().files
    shown = tuple(file.path for file in others[:SHOWN_OTHERS])
    unread = 0 if is_read else sum(file.size_bytes > 0 for file in files)
    beside = tuple(names_beside(pipeline, side, glob, found, known))
    return LogFound(side, str(place), glob, len(files), None, shown, unread, beside)


def _odd_files(pipeline: Pipeline, datacenter: str, counts: Mapping[str, float]) -> dict[Side, str]:
    """One file of each log that has nothing but dead letters, where its beginning tells what it is."""
    logs: dict[Side, Log] = {"primary": pipeline.primary, "foreign": pipeline.foreign}
    place = pipeline.datacenters[datacenter].logs
    odd = {side: _odd_file(place, logs[side], pipeline.tailing) for side in _not_understood(counts)}
    return {side: told for side, told in odd.items() if told is not None}


def _odd_file(place: Location, log: Log, tailing: Tailing) -> str | None:
    if log.format != "jsonl":
        return None
    for file in watch_of(place, log.files, tailing.links_lead_out).scan().files[:SHOWN_OTHERS]:
        try:
            with log_folder(place).open(file) as source:
                odd = no_json_lines(source.read(0, LOOKED_AT_BYTES))
        except UNREADABLE:
            continue
        if odd is not None:
            return f"{place / file.path} {odd.what}; {odd.remedy_for(place / file.path)}"
    return None


def _columns(pipeline: Pipeline, datacenter: str) -> tuple[str, ...]:
    place = pipeline.datacenters[datacenter]
    with open_view(place.state) as state:
        files = state.files().values() if state is not None else ()
        read = [tracked for tracked in files if tracked.file.side == "foreign"]
    return columns_of_newest(place.logs, pipeline.foreign, read)


def signs_in(pipeline: Pipeline, counts: Mapping[str, float], found: JoinFindings) -> list[str]:
    """Name each sign with what was found and what to look at; none if all is well."""
    return [
        *(_nothing_to_read(pipeline, found.logs) if not found.is_cut_short else ()),
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
    if not none_has_a_key(counts):
        return []
    skipped, dead_letters = counts["skipped"], counts["dead_letters"]
    columns = ", ".join(pipeline.foreign.key)
    none_has = f"none has the key `{columns}` (`foreign.key`)"
    because = f"{none_has}, or the adapter {pipeline.adapter} skips it" if found.adapter_skips else none_has
    other = f", the other {dead_letters:,} are dead letters" if dead_letters else ""
    seen = f"; {columns_in_words(found.columns)}" if found.columns else ""
    mend = "`foreign.key` or the adapter" if found.adapter_skips else "`foreign.key`"
    again = _again(pipeline) if found.adapter_skips else JOIN_AGAIN
    return [
        f"all {skipped:,} foreign lines that could be read were skipped{other}: {because}"
        f"{seen}; {which_match(*(log.place for log in found.logs))}. Mend {mend} in {pipeline.file}, {again}"
    ]


def _nothing_met(pipeline: Pipeline, counts: Mapping[str, float], found: JoinFindings) -> list[str]:
    says = no_key_matches(counts, found.overdue)
    if not says:
        return []
    match = which_match(*(log.place for log in found.logs))
    return [f"{says}; {match}. Mend `primary.id` and `foreign.key` in {pipeline.file}, {JOIN_AGAIN}"]


def _again(pipeline: Pipeline) -> str:
    # Records that were read by another adapter, or under other ids, are not read again by themselves.
    return f"then begin anew: {begin_anew(pipeline)}; and join again"
