"""The window that is verified: what a datacenter's dispatcher says it has read, and what it still waits for.

Nothing else of its state is believed (protocol E5): classes and rows are found anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from photon.dispatcher.state import STATE_FILE, DispatcherState, StateUnavailable
from photon.logs.files import ByteRange, Side, TrackedFile

WAITING_COLUMNS = pa.schema(
    [
        ("file", pa.int32()),
        ("offset", pa.int64()),
        ("event_id", pa.string()),
        ("given_up", pa.bool_()),  # when the inputs were declared complete; else it still waits
    ]
)


@dataclass(frozen=True)
class ReadOffsets:
    """Committed offsets, and what waits behind them. `epoch` None: nothing was ever read."""

    epoch: str | None = None
    completed: int = 0
    files: Mapping[int, TrackedFile] = field(default_factory=dict)
    requeued: tuple[ByteRange, ...] = ()  # foreign ranges before the offsets, to be taken up again
    waiting: pa.Table = field(default_factory=WAITING_COLUMNS.empty_table)
    earliest_waiting_us: int | None = None  # `DispatcherState.earliest_waiting_us`
    problem: str = ""

    def of(self, side: Side) -> list[TrackedFile]:
        """The files of one log."""
        return [tracked for tracked in self.files.values() if tracked.file.side == side]

    @property
    def foreign_end_bytes(self) -> dict[int, int]:
        """How far each foreign file is read, by number."""
        return {tracked.file.number: tracked.offset_bytes for tracked in self.of("foreign")}


def read_offsets(state_folder: Path) -> ReadOffsets:
    """The window as it stands; one without files, and a problem, where the state can't be read.

    The dispatcher may run meanwhile. Each statement sees a later state, so their order matters: what
    is read first is in the tables when they are read afterwards, and what waits is looked at last.
    """
    if not (state_folder / STATE_FILE).exists():
        return ReadOffsets(
            problem=f"{state_folder}: no state, so nothing of this datacenter's logs is verified"
        )
    try:
        state = DispatcherState(state_folder, read_only=True)
    except StateUnavailable as error:
        return ReadOffsets(problem=str(error))
    try:
        epoch, completed, files = state.epoch, state.completed, state.files()
        requeued = tuple(r for content in state.requeued_contents() for r in content.foreign)
        return ReadOffsets(epoch, completed, files, requeued, _waiting(state), state.earliest_waiting_us())
    finally:
        state.close()


def _waiting(state: DispatcherState) -> pa.Table:
    columns = list(zip(*state.waiting_events(), strict=True)) or [(), (), (), ()]
    files, offsets, ids, statuses = columns
    given_up = [status == "unjoinable" for status in statuses]
    values = (files, offsets, ids, given_up)
    arrays = [pa.array(column, f.type) for column, f in zip(values, WAITING_COLUMNS, strict=True)]
    return pa.table(arrays, schema=WAITING_COLUMNS)
