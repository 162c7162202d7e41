"""Which rows of a datacenter's tables of reports nobody asks for any more (protocol D14). Pure.

`mended_letters` and `removed_rows` have no rule: repairs read the lines that people have mended, and an id
whose row a rebuild took out stays joined.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from photon.process.clock import MICROSECONDS
from photon.state.database import StateReader
from photon.storage.append_table import ReportTable
from photon.storage.leaving_rows import Bools, Rule
from photon.verification.log_copies.lacks import compared_since_us

DAY_US = 86_400 * MICROSECONDS
# The longest range that the live page shows (`photon.page.series`).
HISTORY_DAYS = 400
# A copy of the state that is put back within this time finds the rows of all files that it knows.
OF_FILES_DAYS = 35


@dataclass(frozen=True)
class KnownFiles:
    """A state's epoch, and the numbers of the files that it knows."""

    epoch: int
    numbers: Collection[int]

    @classmethod
    def of(cls, state: StateReader | None) -> KnownFiles | None:
        """The files that a state knows; None where there is no state."""
        return None if state is None else cls(int(state.epoch or 0), state.files().keys())


def rules(known: KnownFiles | None, now_us: int) -> Mapping[ReportTable, Rule]:
    """The rule of each table whose rows may leave. Nothing of a file leaves where no state is `known`."""
    history = Rule(("at",), partial(recent_or_last, now_us=now_us))
    found: dict[ReportTable, Rule] = {
        "points": history,
        "verification_reports": history,
        "availability_minutes": history,
        "log_copies_compared": Rule(("hour_us", "at"), partial(compared_again, now_us=now_us)),
    }
    if known is not None:
        of_files = partial(verified_furthest, known=known, now_us=now_us)
        found["verified_files"] = Rule(("epoch", "file", "offset_bytes", "at"), of_files)
        columns = ("epoch", "number", "at", "parts", "digests")
        found["log_copies"] = Rule(columns, partial(readings_in_use, known=known, now_us=now_us))
    return found


def recent_or_last(rows: pa.Table, now_us: int) -> Bools:
    """Rows of the last `HISTORY_DAYS`, and those of the last time: nobody counts as never verified."""
    at_us = _int64(rows, "at")
    return at_us >= min(now_us - HISTORY_DAYS * DAY_US, int(at_us.max(initial=0)))


def verified_furthest(rows: pa.Table, known: KnownFiles, now_us: int) -> Bools:
    """The furthest row of each file, while the state may know the file, or a copy of it."""
    rows = rows.append_column("row", pa.array(np.arange(rows.num_rows)))
    keys = [(name, "ascending") for name in ("epoch", "file", "offset_bytes", "at")]
    ordered = rows.sort_by(keys)
    furthest = np.zeros(rows.num_rows, np.bool_)
    if rows.num_rows:
        next_ones = ordered.slice(1)
        same = [
            pc.equal(ordered[name].slice(0, rows.num_rows - 1), next_ones[name]) for name in ("epoch", "file")
        ]
        is_last = np.append(~pc.and_(*same).to_numpy(), True)
        furthest[ordered["row"].to_numpy()[is_last]] = True
    epochs = _int64(rows, "epoch")
    is_known = (epochs == known.epoch) & np.isin(rows["file"].to_numpy(), list(known.numbers))
    stays: Bools = furthest & (is_known | (epochs > known.epoch) | _recent(rows, now_us))
    return stays


def compared_again(rows: pa.Table, now_us: int) -> Bools:
    """Verdicts on hours that may be compared again, by the latest of these hours."""
    hours_us = _int64(rows, "hour_us")
    is_compared: Bools = hours_us >= compared_since_us(hours_us.tolist(), now_us)
    return is_compared | _recent(rows, now_us)


def readings_in_use(rows: pa.Table, known: KnownFiles, now_us: int) -> Bools:
    """Readings of logs' copies without which `comparing` would find another copy."""
    stays = _recent(rows, now_us)
    readings = [Reading(at, row, bool(stays[at])) for at, row in enumerate(rows.to_pylist())]
    readings.sort(key=lambda one: (one.epoch, one.row["number"], one.row["at"]))
    for epoch, some in groupby(readings, key=lambda one: one.epoch):
        # The first one counts where two were made at once.
        counted = [next(of_number) for _, of_number in groupby(some, key=lambda one: one.row["number"])]
        if epoch >= known.epoch:
            stays[_used(counted, known.numbers if epoch == known.epoch else None, now_us)] = True
    return stays


@dataclass(frozen=True)
class Reading:
    """One row of `log_copies`, its place in the table, and whether it stays because of its age."""

    at: int
    row: dict[str, Any]
    is_recent: bool

    @property
    def epoch(self) -> int:
        return int(self.row["epoch"])

    @property
    def files(self) -> set[int]:
        """Numbers of the files whose digests this reading has."""
        return {each["file"] for each in self.row["digests"]}


def _used(readings: Sequence[Reading], known_files: Collection[int] | None, now_us: int) -> list[int]:
    """The places of those readings of an epoch that are used. `known_files` None: each file may be known.

    A reading is if it is the last one, has the latest part of a known file, has an hour that is compared, or
    digests a file anew of which an earlier one that stays has digests: those do not count any more.
    """
    hours_us = (each["hour_us"] for one in readings for each in one.row["digests"])
    since_us = compared_since_us(hours_us, now_us)
    latest = {part["file"]: one.at for one in readings for part in one.row["parts"]}
    needed = {at for file, at in latest.items() if known_files is None or file in known_files}
    reached: dict[int, int] = {}
    with_digests: set[int] = set()
    used = []
    for one in readings:
        parts = one.row["parts"]
        again = {part["file"] for part in parts if part["start"] < reached.get(part["file"], 0)}
        is_compared = any(each["hour_us"] >= since_us for each in one.row["digests"])
        is_used = one is readings[-1] or one.at in needed or is_compared or again & with_digests
        reached |= {part["file"]: part["end"] for part in parts}
        if is_used:
            used.append(one.at)
        if is_used or one.is_recent:
            with_digests |= one.files
    return used


def _recent(rows: pa.Table, now_us: int) -> Bools:
    recent: Bools = _int64(rows, "at") >= now_us - OF_FILES_DAYS * DAY_US
    return recent


def _int64(rows: pa.Table, name: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    values: np.ndarray[Any, np.dtype[np.int64]] = rows[name].cast(pa.int64()).to_numpy()
    return values
