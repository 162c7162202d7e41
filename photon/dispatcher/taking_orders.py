"""Take up work orders: the dispatcher reads the records again, and plans them alone (protocol E4, E8)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from photon.dispatcher.reading_again import SecondReading
from photon.dispatcher.recovery.orders import Order, OrderedRecord, leaves, read_order, still_open, with_parts
from photon.join.waiting_records import as_waiting
from photon.logs.files import TrackedFile
from photon.pipeline.file import Pipeline
from photon.process.faults import fault_point
from photon.process.readable import counted
from photon.state.dispatcher_state import DispatcherState
from photon.state.plan import PlanContent
from photon.state.waiting.reasons import ORDERED
from photon.state.waiting.retries import Retries
from photon.state.waiting.segments import read_all_records, write_segment
from photon.storage.mended_letters import MendedLetter, add_mended
from photon.storage.tokens import Occurrence, new_id

# One task reads them all, so that two records of an event are never made rows of by two tasks (E8).
MOST_RECORDS_A_PLAN = 1_000

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OrderTaking:
    """Takes up the orders of one datacenter. Used by the dispatcher's thread alone, between two plans."""

    pipeline: Pipeline
    datacenter: str
    state: DispatcherState

    def take(self, path: Path, files: Mapping[int, TrackedFile], now_us: int) -> int:
        """Take up the order in this file, and return how many records are looked at again.

        OSError, StateUnavailable; LakeUnavailable or FormatTooNew where mended letters can't be told.
        A crash before the file is removed takes it up again, which finds nothing left to do.
        """
        order = read_order(path)
        if order is None:
            return 0
        places = {record.occurrence for record in order.records}
        waits = self.state.waiting.given_up_among(places)
        again, woken = still_open(order, self.state.epoch or "", self.state.ordered_at(places), waits)
        reading = SecondReading(self.pipeline, self.datacenter, order.epoch)
        mended = reading.mended() if again else {}
        mended |= {record.occurrence: record.mended for record in again if record.mended is not None}
        found = reading.read(((record.occurrence, record.event_id) for record in again), files, mended)
        known = {Occurrence(*place) for place in zip(*_columns(found, "_file", "_offset"), strict=True)}
        taken = [record for record in again if record.occurrence in known]
        if taken or woken:
            self._add_mended(order, taken, mended, now_us)
            self._store(order, found, taken, woken, now_us)
        self._tell(order, len(taken) + len(woken), len(again) - len(taken))
        fault_point("order.after_taken")
        path.unlink(missing_ok=True)
        return len(taken) + len(woken)

    def _add_mended(
        self, order: Order, taken: Sequence[OrderedRecord], mended: Mapping[Occurrence, bytes], now_us: int
    ) -> None:
        """Say in the lake that dead letters are looked at again, and as what: before they are (A12)."""
        completed = self.state.completed
        letters = [each for each in taken if each.counted_as == "dead_letters"]
        again = (
            MendedLetter(order.epoch, each.occurrence, each.event_id, completed, mended.get(each.occurrence))
            for each in letters
        )
        add_mended(self.pipeline, self.datacenter, again, now_us)
        fault_point("order.after_mended")

    def _store(
        self,
        order: Order,
        found: pa.Table,
        taken: Sequence[OrderedRecord],
        woken: Sequence[OrderedRecord],
        now_us: int,
    ) -> None:
        segment, plans = None, []
        if taken:
            folder, name = self.state.waiting.folder, new_id()
            segment = write_segment(folder, name, self._waiting(found, taken, now_us))
            plans = _plans(name, read_all_records(folder, name))
            fault_point("order.after_segment")
        places = {record.occurrence for record in woken}
        counts = self.state.counts()
        leaving = with_parts(leaves(taken, counts.classes), counts)
        self.state.take_order(segment, plans, places, leaving)

    def _tell(self, order: Order, taken: int, gone: int) -> None:
        if order.epoch != self.state.epoch:
            log.warning("work order %s is of an epoch that is over: recover again", order.order_id)
            return
        log.info(
            "work order %s (%s): looks again at %d of %s",
            order.order_id, order.why, taken, counted(len(order.records), "record"),
        )  # fmt: skip
        if gone:
            log.warning("work order %s: %s gone", order.order_id, counted(gone, "record", "are"))

    def _waiting(self, found: pa.Table, taken: Sequence[OrderedRecord], now_us: int) -> pa.Table:
        """The records as those that wait, due now."""
        given_up = {record.occurrence for record in taken if record.counted_as == "unjoinable"}
        places = zip(*_columns(found, "_file", "_offset"), strict=True)
        rows = found.num_rows
        columns = {
            "attempts": np.zeros(rows, np.int32),
            "first_seen_us": np.full(rows, now_us),
            "recorded": pa.array([Occurrence(*place) in given_up for place in places], pa.bool_()),
            "reason": np.full(rows, ORDERED, np.int8),
            "due_us": np.full(rows, now_us),
        }
        return as_waiting(found, columns, self.pipeline.primary)


def _plans(segment: str, records: pa.Table) -> list[PlanContent]:
    """Plans of these records alone, with all records of an event in as few as can be."""
    order = pc.sort_indices(records, [("_id", "ascending"), ("_file", "ascending"), ("_offset", "ascending")])
    plans = []
    for start in range(0, records.num_rows, MOST_RECORDS_A_PLAN):
        rows = order.slice(start, MOST_RECORDS_A_PLAN)
        files, offsets = (records[name].take(rows).to_numpy() for name in ("_file", "_offset"))
        retries = Retries.of(segment, rows.to_numpy(), files, offsets, np.zeros(len(rows), np.bool_))
        plans.append(PlanContent(retries=(retries,)))
    return plans


def _columns(table: pa.Table, *names: str) -> list[list[int]]:
    return [table[name].to_pylist() for name in names]
