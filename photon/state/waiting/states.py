"""Keep the states of a waiting segment's records, two bits each, and count records by reason and state.

The dispatcher's database stores them in pages, and a change rewrites whole pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from photon.state.waiting.reasons import CODE_OF, REASONS, UNJOINABLE

PAGE_ROWS = 16_384  # a page has 4 KiB, and to wake fifty records in all places rewrites some fifty pages


class WaitingState(IntEnum):
    """The state of a record. Its number only grows, so no row before the first open one opens again."""

    OPEN = 0  # waits until it is due
    WOKEN = 1  # is due now, whatever its time says
    REQUEUED = 2  # belongs to a plan that is taken up again
    GONE = 3  # is decided, or waits in a newer segment


States = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.int64]  # places of records in their segment, from 0
Tally = npt.NDArray[np.int64]  # how many records, by reason and state


def pack(states: States) -> bytes:
    """The stored form of a page."""
    by_byte = np.zeros((-(-len(states) // 4), 4), np.uint8)
    by_byte.reshape(-1)[: len(states)] = states
    return bytes(by_byte[:, 0] | by_byte[:, 1] << 2 | by_byte[:, 2] << 4 | by_byte[:, 3] << 6)


def unpack(page: bytes, rows: int) -> States:
    """The states of the first `rows` records of a page."""
    packed = np.frombuffer(page, np.uint8)
    return np.stack([packed >> shift & 3 for shift in (0, 2, 4, 6)], axis=1).reshape(-1)[:rows]


def pages_of(rows: Rows) -> list[int]:
    """The numbers of the pages that have these rows."""
    pages: list[int] = np.unique(rows // PAGE_ROWS).tolist()
    return pages


def no_tally() -> Tally:
    """The tally of no records."""
    return np.zeros((len(REASONS), len(WaitingState)), np.int64)


def tally_of(reasons: npt.NDArray[np.int8], states: States | int) -> Tally:
    """How many records there are by reason and state."""
    counts = np.bincount(reasons.astype(np.int64) * len(WaitingState) + states, minlength=no_tally().size)
    return counts.reshape(no_tally().shape)


def tally_to_stored(tally: Tally) -> dict[str, list[int]]:
    """The stored form: counts by the name of their reason, so that a newer Photon may add reasons."""
    return {reason.name: row for reason, row in zip(REASONS, tally.tolist(), strict=True) if any(row)}


def tally_from_stored(stored: Mapping[str, list[int]]) -> Tally:
    """The inverse of `tally_to_stored`."""
    tally = no_tally()
    for name, row in stored.items():
        tally[CODE_OF[name]] = row
    return tally


def live(tally: Tally) -> int:
    """Count the records that are not gone: they wait, or were given up."""
    return int(tally[:, : WaitingState.GONE].sum())


def given_up(tally: Tally) -> int:
    """Count the records that were given up as unjoinable, and are kept for a later run."""
    return int(tally[UNJOINABLE, WaitingState.OPEN])


def pending(tally: Tally) -> int:
    """Count the records that wait."""
    return live(tally) - given_up(tally)


def first_rows(states: States, state: WaitingState, start: int, end: int, most: int) -> Rows:
    """Find the first rows in [start, end) that have this state, at most `most`; read no page after these."""
    found, count = [np.empty(0, np.int64)], 0
    for first_row, page in _pages(states, start, end):
        rows = np.flatnonzero(page == state)[: most - count] + first_row
        found.append(rows)
        count += len(rows)
        if count == most:
            break
    return np.concatenate(found)


def _pages(states: States, start: int, end: int) -> Iterator[tuple[int, States]]:
    for first_row in range(start, end, PAGE_ROWS):
        yield first_row, states[first_row : min(first_row + PAGE_ROWS, end)]
