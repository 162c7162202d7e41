"""A datacenter's dispatcher as others may see it: its state at one moment."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from photon.event_store.segments import Reused
from photon.logs.files import ByteRange, Side, TrackedFile
from photon.logs.unread_files import UnreadFile
from photon.process.clock import MICROSECONDS
from photon.state.database import STATE_FILE, StateReader, StateUnavailable
from photon.state.outcomes import Counts
from photon.state.waiting.segments import WaitingDamaged
from photon.state.waiting.waiting_view import WAITING_COLUMNS


@contextmanager
def open_view(folder: Path) -> Iterator[StateReader | None]:
    """The state at one moment; None where nothing was ever read. StateUnavailable, FormatTooNew."""
    if not (folder / STATE_FILE).exists():
        yield None
        return
    state = StateReader(folder)
    try:
        yield state if state.epoch is not None else None
    except (sqlite3.Error, OSError) as error:
        raise StateUnavailable(f"cannot read the state {state.path}: {error}") from error
    except WaitingDamaged as error:
        raise StateUnavailable(
            f"{folder}: waiting records {error} can't be read: they are merged just now, or the next start "
            "of the datacenter mends them"
        ) from error
    finally:
        state.close()


@dataclass(frozen=True)
class StateView:
    """How far a datacenter is. `epoch` None: nothing was ever read."""

    epoch: str | None = None
    completed: int = 0  # the number of the last completed batch
    counts: Counts = field(default_factory=Counts)
    watermark_us: int | None = None
    files: Mapping[int, TrackedFile] = field(default_factory=dict)
    unread: tuple[UnreadFile, ...] = ()  # what of the logs is there and was not read
    due: int = 0  # waiting records that are due
    soon: int = 0  # waiting records that somebody has to take up, whenever they are due
    requeued: int = 0  # plans to be taken up again
    has_open_plan: bool = False
    held: int = 0  # waiting records whose events another datacenter holds
    ahead: int = 0  # waiting records whose times lie ahead of the clock
    out_of_reach: Mapping[str, str] = field(default_factory=dict)  # which of them can't be freed, and why
    left: Mapping[str, int] = field(default_factory=dict)  # how many records left each class again
    before: Mapping[str, int] = field(default_factory=dict)  # `gained` as the latest window began
    begun_us: int | None = None  # when the epoch began
    ended_us: int = 0  # when its latest batch ended; 0: none has
    pipeline: str | None = None  # the name of the one that it belongs to
    settings: Mapping[str, object] = field(default_factory=dict)  # the ones that the epoch was begun with
    reused_at: tuple[tuple[int, int], ...] = ()  # file number and offset of some primaries with another's id

    @property
    def gained(self) -> dict[str, int]:
        """How many records ever came into each class: these numbers never fall."""
        return self.counts.gained(self.left)

    def lag_seconds(self, now_us: int) -> float | None:
        """How far the watermark is behind the clock."""
        return None if self.watermark_us is None else (now_us - self.watermark_us) / MICROSECONDS


def view_state(folder: Path, now_us: int) -> StateView:
    """How far a datacenter is now. StateUnavailable, FormatTooNew."""
    with open_view(folder) as state:
        return view_of(state, now_us)


def view_of(state: StateReader | None, now_us: int) -> StateView:
    """How far an opened state is."""
    if state is None:
        return StateView()
    window = state.window
    return StateView(
        epoch=state.epoch,
        completed=state.completed,
        counts=state.counts(),
        watermark_us=state.watermark_us,
        files=state.files(),
        unread=tuple(state.unread_files()),
        due=state.waiting.count_due(now_us),
        soon=state.waiting.count_soon(),
        requeued=state.count_requeued(),
        has_open_plan=state.has_open_plan,
        held=state.waiting.count(("held",)),
        ahead=state.waiting.count(("clock",)),
        out_of_reach=state.out_of_reach,
        left=state.left(),
        before=window.before.counts if window is not None else {},
        begun_us=int(begun) if (begun := state.meta("begun_us")) else None,
        ended_us=state.ended_us,
        pipeline=state.meta("pipeline"),
        settings=state.settings,
        reused_at=sum((each.reused for each in state.segments()), Reused()).examples,
    )


@dataclass(frozen=True)
class ReadOffsets:
    """How far the logs were read: all that verification believes of a dispatcher (protocol E5)."""

    epoch: str | None = None
    completed: int = 0
    files: Mapping[int, TrackedFile] = field(default_factory=dict)
    requeued: tuple[ByteRange, ...] = ()  # foreign ranges before the offsets, to be taken up again
    waiting: pa.Table = field(default_factory=WAITING_COLUMNS.empty_table)
    earliest_waiting_us: int | None = None  # `WaitingList.earliest_primary_us`
    conflicting: int = 0  # duplicates with other content than the record of their id that joined
    problem: str = ""
    is_unreadable: bool = False  # there is a state, and it can't be read
    unread: tuple[UnreadFile, ...] = ()  # files that are there and were not read
    forgotten: Mapping[str, int] = field(default_factory=dict)  # as the state counts them

    def of(self, side: Side) -> list[TrackedFile]:
        return [tracked for tracked in self.files.values() if tracked.file.side == side]


def read_offsets(folder: Path) -> ReadOffsets:
    """How far a datacenter has read its logs; no files, and a problem, where its state can't be read.

    Whatever is done at this moment is in the tables when they are read afterwards.
    """
    try:
        with open_view(folder) as state:
            if state is None:
                problem = f"{folder}: no state, so nothing of this datacenter's logs is verified"
                return ReadOffsets(problem=problem)
            requeued = tuple(r for _, content in state.requeued() for r in content.foreign)
            return ReadOffsets(
                state.epoch,
                state.completed,
                state.files(),
                requeued,
                state.waiting.events(),
                state.waiting.earliest_primary_us(),
                state.counts().conflicting,
                unread=tuple(state.unread_files()),
                forgotten=state.forgotten,
            )
    except StateUnavailable as error:
        return ReadOffsets(problem=str(error), is_unreadable=True)
