"""The state of each record of a segment: two bits a record, in pages, and how many records each state has.

A page is what one change rewrites in the dispatcher's database.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from photon.state.waiting.reasons import CODE_OF, REASONS, UNJOINABLE

PAGE_ROWS = 16_384  # 4 KiB: some fifty of them are rewritten when as many records are woken


class State(IntEnum):
    """The state of a record. It only ever grows, so the rows before the first open one stay as they are."""

    OPEN = 0  # waits until it is due
    WOKEN = 1  # is due now, whatever its time says
    REQUEUED = 2  # belongs to a plan that is taken up again
    GONE = 3  # is decided, or waits in a newer segment


States = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.int64]
Tally = npt.NDArray[np.int64]  # how many records, by reason and state


def pack(states: States) -> bytes:
    """The stored form of a page."""
    four = np.zeros((-(-len(states) // 4), 4), np.uint8)
    four.reshape(-1)[: len(states)] = states
    return bytes(four[:, 0] | four[:, 1] << 2 | four[:, 2] << 4 | four[:, 3] << 6)


def unpack(page: bytes, rows: int) -> States:
    """The states of the first `rows` records of a page."""
    packed = np.frombuffer(page, np.uint8)
    return np.stack([packed >> shift & 3 for shift in (0, 2, 4, 6)], axis=1).reshape(-1)[:rows]


def pages_of(rows: Rows) -> list[int]:
    """The pages that these rows are on."""
    pages: list[int] = np.unique(rows // PAGE_ROWS).tolist()
    return pages


def no_tally() -> Tally:
    """The tally of no records."""
    return np.zeros((len(REASONS), len(State)), np.int64)


def tally_of(reasons: npt.NDArray[np.int8], states: States | int) -> Tally:
    """How many records there are by reason and state."""
    counts = np.bincount(reasons.astype(np.int64) * len(State) + states, minlength=no_tally().size)
    return counts.reshape(no_tally().shape)


def tally_to_stored(tally: Tally) -> dict[str, list[int]]:
    """The stored form: by the name of the reason, so that a newer Photon may have more of them."""
    return {reason.name: row for reason, row in zip(REASONS, tally.tolist(), strict=True) if any(row)}


def tally_from_stored(stored: Mapping[str, list[int]]) -> Tally:
    """The inverse of `tally_to_stored`."""
    tally = no_tally()
    for name, row in stored.items():
        tally[CODE_OF[name]] = row
    return tally


def live(tally: Tally) -> int:
    """How many records are not gone."""
    return int(tally[:, : State.GONE].sum())


def given_up(tally: Tally) -> int:
    """How many records are unjoinable, and are only kept."""
    return int(tally[UNJOINABLE, State.OPEN])


def pending(tally: Tally) -> int:
    """How many records wait."""
    return live(tally) - given_up(tally)


def first_rows(states: States, state: State, start: int, end: int, most: int) -> Rows:
    """The first rows in [start, end) in this state, at most `most`; reads no further than it must."""
    found, count = [np.empty(0, np.int64)], 0
    for at, page in _pages(states, start, end):
        rows = np.flatnonzero(page == state)[: most - count] + at
        found.append(rows)
        count += len(rows)
        if count == most:
            break
    return np.concatenate(found)


def _pages(states: States, start: int, end: int) -> Iterator[tuple[int, States]]:
    for at in range(start, end, PAGE_ROWS):
        yield at, states[at : min(at + PAGE_ROWS, end)]
