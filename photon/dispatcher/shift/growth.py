"""Whether a datacenter has something to do, seen from its log files and its state.

Cheap enough for a sensor that looks every few seconds at thousands of files: opens no log file.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from photon.logs.discovery import FoundFile, Scan, Unseen, nearly_matching, signature_of
from photon.logs.files import Side, TrackedFile
from photon.logs.folders import watch_of
from photon.logs.unread_files import Identity
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Log
from photon.process.errors import FormatTooNew
from photon.process.pace import pace
from photon.process.readable import readable
from photon.state.database import StateDamaged, StateUnavailable, damage_is_named
from photon.state.unread_logs import acknowledged_files
from photon.state.view import StateView, view_state

MOST_SHOWN_BESIDE = 3  # paths in one sentence
LIVE_BYTES = 8 * 2**20  # a live datacenter may find so much unread at any moment


@dataclass(frozen=True)
class LogSize:
    """One log on disk; compressed files count with their compressed bytes."""

    files: int
    bytes: int
    unread_bytes: int  # sizes less the offsets of completed batches


@dataclass(frozen=True)
class Growth:
    """The findings of a look at a datacenter."""

    primary: LogSize
    foreign: LogSize
    signature: str  # a digest of all log files: where it is the same, nothing has changed
    state: StateView = field(default_factory=StateView)
    lag_seconds: float | None = None  # now minus the watermark
    problems: tuple[str, ...] = ()  # problems of the logs
    has_untracked: bool = False  # files with something in them that the dispatcher does not know
    state_unreadable: str = ""  # why; then `state` is empty, and what follows from it is not known
    beside: tuple[str, ...] = ()  # sentences about files with nearly the name of a log's

    @property
    def files(self) -> int:
        return self.primary.files + self.foreign.files

    @property
    def due(self) -> int:
        """How many records and plans the next batches take up."""
        return self.state.due + self.state.requeued + self.state.has_open_plan

    @property
    def waiting(self) -> int:
        return self.state.counts.of("pending")


@dataclass(frozen=True)
class LogsRead:
    """How far the logs of some datacenters are read, for a join that has an end."""

    read_bytes: int
    all_bytes: int
    joined: int

    @classmethod
    def of(cls, looks: list[Growth]) -> LogsRead | None:
        """Add up all datacenters; None where one of them can't be looked at just now."""
        if any(look.problems for look in looks):
            return None
        logs = [log for look in looks for log in (look.primary, look.foreign)]
        all_bytes = sum(log.bytes for log in logs)
        unread_bytes = sum(log.unread_bytes for log in logs)
        return cls(all_bytes - unread_bytes, all_bytes, sum(look.state.counts.of("joined") for look in looks))

    def since(self, first: LogsRead, seconds: float) -> str:
        """Say what was read in the seconds since a first look, without the work of earlier joins."""
        # The bytes of a log that was read and then deleted count no more.
        done, total = max(0, self.read_bytes - first.read_bytes), max(0, self.all_bytes - first.read_bytes)
        grown = max(0, self.all_bytes - first.all_bytes)
        told = pace(done, total, seconds, grown=grown)
        return f"reads logs: {told}; {self.joined - first.joined:,} joined"


def growth_of(pipeline: Pipeline, datacenter: str, now_us: int) -> Growth:
    """Look at a datacenter. What can't be read is a problem that is named, not an error."""
    place = pipeline.datacenters[datacenter]
    state, state_unreadable = StateView(), ""
    try:
        with damage_is_named(place.state):
            state = view_state(place.state, now_us)
    except (FormatTooNew, StateDamaged, StateUnavailable) as error:
        state_unreadable = str(error)
    leads_out = pipeline.tailing.links_lead_out
    primary = watch_of(place.logs, pipeline.primary.files, leads_out).scan()
    foreign = watch_of(place.logs, pipeline.foreign.files, leads_out).scan()
    given_up = acknowledged_files(place.state)
    awaited = _awaited(primary, "primary", given_up), _awaited(foreign, "foreign", given_up)
    problems = [f"{one.path}: {one.reason}" for found in awaited for one in found.problems]
    return Growth(
        primary=_size(primary, awaited[0], state.files, "primary"),
        foreign=_size(foreign, awaited[1], state.files, "foreign"),
        signature=signature_of((primary, foreign)),
        state=state,
        lag_seconds=state.lag_seconds(now_us),
        problems=tuple(dict.fromkeys(problems)),
        has_untracked=_has_untracked(awaited[0], state.files, "primary")
        or _has_untracked(awaited[1], state.files, "foreign"),
        state_unreadable=state_unreadable,
        beside=(
            *names_beside(pipeline, "primary", pipeline.primary.files, primary, state.files.values()),
            *names_beside(pipeline, "foreign", pipeline.foreign.files, foreign, state.files.values()),
        ),
    )


def names_beside(
    pipeline: Pipeline, side: Side, glob: str, found: Scan, known: Iterable[TrackedFile]
) -> list[str]:
    """Name files that nobody reads, and that have nearly the name of a log's files."""
    inodes = {tracked.file.inode for tracked in known if tracked.state == "open"}
    near = nearly_matching(glob, (path for path, inode in found.others.items() if inode not in inodes))
    more = f" and {len(near) - MOST_SHOWN_BESIDE} more" if len(near) > MOST_SHOWN_BESIDE else ""
    shown = ", ".join(map(readable, near[:MOST_SHOWN_BESIDE]))
    says = (
        f"`{side}.files`, {glob}, does not match {shown}{more}: nobody reads "
        f"them. If they are logs, rename or decompress them, or mend `{side}.files` in {pipeline.file}"
    )
    return [says] if near else []


def unread_now(pipeline: Pipeline, datacenter: str, files: Mapping[int, TrackedFile]) -> int | None:
    """The unread bytes of both logs, by the files that a dispatcher knows; None: the logs are in a store."""
    place = pipeline.datacenters[datacenter]
    if not isinstance(place.logs, Path):
        return None
    sides: tuple[tuple[Side, Log], ...] = (("primary", pipeline.primary), ("foreign", pipeline.foreign))
    given_up = acknowledged_files(place.state)
    leads_out = pipeline.tailing.links_lead_out
    scans = ((watch_of(place.logs, log.files, leads_out).scan(), side) for side, log in sides)
    return sum(
        _size(found, _awaited(found, side, given_up), files, side).unread_bytes for found, side in scans
    )


def _awaited(found: Scan, side: Side, given_up: Collection[Identity]) -> Scan:
    """A scan without the files that a person gave up, as long as nobody changes them (D11)."""
    known = {(path, inode, changed_ns) for log, path, inode, _, changed_ns in given_up if log == side}
    if not known:
        return found

    def is_given_up(one: FoundFile | Unseen) -> bool:
        return (one.path, one.inode, one.changed_ns) in known

    named = {readable(os.fsencode(one.path)) for one in found.unseen if is_given_up(one)}
    return replace(
        found,
        files=tuple(one for one in found.files if not is_given_up(one)),
        problems=tuple(one for one in found.problems if one.path not in named),
        unseen=tuple(one for one in found.unseen if not is_given_up(one)),
    )


def _size(found: Scan, awaited: Scan, files: Mapping[int, TrackedFile], side: Side) -> LogSize:
    by_inode = _open_files(files, side)
    return LogSize(
        files=len(found.files),
        bytes=sum(file.size_bytes for file in found.files),
        unread_bytes=sum(_unread_bytes(file, by_inode.get(file.inode)) for file in awaited.files),
    )


def _has_untracked(found: Scan, files: Mapping[int, TrackedFile], side: Side) -> bool:
    by_inode = _open_files(files, side)
    new = (file.size_bytes and file.inode not in by_inode for file in found.files)
    return bool(found.unseen) or any(new)


def _open_files(files: Mapping[int, TrackedFile], side: Side) -> dict[int, TrackedFile]:
    """The files of a log that the dispatcher knows to be there, by inode."""
    known = [tracked for tracked in files.values() if tracked.file.side == side]
    return {tracked.file.inode: tracked for tracked in known if tracked.state == "open"}


def _unread_bytes(found: FoundFile, tracked: TrackedFile | None) -> int:
    if tracked is None:
        return found.size_bytes
    if found.compressed or tracked.file.compressed:
        return 0 if tracked.offset_bytes >= tracked.size_bytes else found.size_bytes
    if found.modified_ns == tracked.modified_ns:  # not written since: the dispatcher knows its end
        return tracked.unread_bytes
    return max(0, found.size_bytes - tracked.offset_bytes)
