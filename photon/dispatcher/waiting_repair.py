"""Make a damaged waiting segment again: from its other file, else from the logs (protocol A19)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from photon.dispatcher.reading_again import SecondReading
from photon.logs.files import TrackedFile
from photon.logs.folders import log_folder
from photon.pipeline.file import Pipeline
from photon.pipeline.location import Location
from photon.process.faults import fault_point
from photon.process.readable import counted, readable
from photon.state.dispatcher_state import DispatcherState
from photon.state.waiting.reasons import NEVER_US, PRIMARY
from photon.state.waiting.retries import Retries
from photon.state.waiting.segments import (
    RECORD_COLUMNS,
    WaitingDamaged,
    WaitingIndex,
    read_all_records,
    write_index,
    write_records,
)
from photon.storage.delta import LakeUnavailable
from photon.storage.store import store_of
from photon.storage.tables import OutputTable
from photon.storage.tokens import Occurrence

log = logging.getLogger(__name__)

KEPT = ["_raw", "_key", "_time_us"]  # columns of a record that the index lacks


@dataclass(frozen=True)
class WaitingRepair:
    """Mends the waiting segments of one datacenter."""

    pipeline: Pipeline
    datacenter: str
    state: DispatcherState
    unjoined: OutputTable

    @property
    def _folder(self) -> Location:
        return self.state.waiting.folder

    def mend(self, segment: str, files: Mapping[int, TrackedFile]) -> str:
        """Write a segment's damaged file anew, each record in its row, and say what was done.

        LakeUnavailable: logs or lake can't be read, so that nobody knows what is lost. OSError.
        """
        if segment not in self.state.waiting.names:
            return f"waiting records {segment} are damaged, and no longer of use"
        index, records = self._index(segment), self._records(segment)
        if index is None and records is None:
            return self._lose(segment)
        if index is None:
            fault_point("waiting.before_mend")
            write_index(self._folder, segment, records)
            store_of(self._folder).sync()
            self.state.waiting.forget()
            return f"the index of waiting records {segment} was damaged, and is made again"
        return self._read_again(index, files)

    def _index(self, segment: str) -> WaitingIndex | None:
        try:
            index = WaitingIndex(self._folder, segment)
            index.check()
        except WaitingDamaged:
            return None
        return index if len(index) == self.state.waiting.listed(segment).info.records else None

    def _records(self, segment: str) -> pa.Table | None:
        try:
            records = read_all_records(self._folder, segment)
        except WaitingDamaged:
            return None
        return records if len(records) == self.state.waiting.listed(segment).info.records else None

    def _read_again(self, index: WaitingIndex, files: Mapping[int, TrackedFile]) -> str:
        """Read the records from their logs again.

        A record that is not in its log any more has no bytes from now on: its next look counts it as lost.
        """
        logs = self.pipeline.datacenters[self.datacenter].logs
        if (why := log_folder(logs).why_not_there()) is not None:
            raise LakeUnavailable(
                f"waiting records {index.name} are damaged, and the logs folder {logs} is not there: {why}"
            )
        rows = self.state.waiting.rows_left(index.name)
        found = self._found(index, rows, files)
        known = index.records.to_pylist()
        places = [Occurrence(record["_file"], record["_offset"]) for record in known]
        recorded = set(self.unjoined.occurrences_of_epoch(self.state.epoch or "", places))
        lost, mended = [], []
        is_left = np.isin(np.arange(len(index)), rows)
        for place, record, left in zip(places, known, is_left.tolist(), strict=True):
            gone = {"_raw": None, "_key": "", "_time_us": record["primary_time_us"], "key_hash": 0}
            mended.append(record | gone | found.get(place, {}) | {"recorded": place in recorded})
            if left and place not in found:
                lost.append((place, record["_id"]))
        for place, event_id in lost:
            log.warning(
                "event %s is lost: its record, at byte %d of %s, is neither in its log nor where it waited",
                readable(event_id),
                place.offset_bytes,
                readable(files[place.file_number].file.path),
            )
        table = pa.Table.from_pylist(mended, RECORD_COLUMNS)
        hashes = index.hashes_by_row
        table = table.set_column(RECORD_COLUMNS.get_field_index("key_hash"), "key_hash", pa.array(hashes))
        fault_point("waiting.before_mend")
        write_records(self._folder, index.name, table)
        store_of(self._folder).sync()
        again = counted(len(rows) - len(lost), "record", "are")
        return (
            f"waiting records {index.name} were damaged: {again} read again, "
            f"{counted(len(lost), 'record', 'are')} lost"
        )

    def _found(
        self, index: WaitingIndex, rows: np.ndarray, files: Mapping[int, TrackedFile]
    ) -> dict[Occurrence, dict[str, object]]:
        """Find the records at these rows in the logs, or what people have put in their places."""
        known = index.records.select(["_file", "_offset", "_id"]).take(pa.array(rows)).to_pylist()
        wanted = ((Occurrence(each["_file"], each["_offset"]), each["_id"]) for each in known)
        reading = SecondReading(self.pipeline, self.datacenter, self.state.epoch or "")
        found = reading.read(wanted, files, reading.mended())
        numbers, offsets_bytes = found["_file"].to_pylist(), found["_offset"].to_pylist()
        places = map(Occurrence, numbers, offsets_bytes)
        return dict(zip(places, found.select(KEPT).to_pylist(), strict=True))

    def _lose(self, segment: str) -> str:
        """Both files are gone, and with them what they held: count it, and go on with what plans know."""
        listed = self.state.waiting.listed(segment)
        count, before = listed.info.records, self.state.counts().of("lost")
        kept = self.state.lose_waiting(segment)
        lost = self.state.counts().of("lost") - before
        fault_point("waiting.after_lost")
        if kept:
            stub = _stub(count, kept)
            write_records(self._folder, segment, stub)
            write_index(self._folder, segment, stub)
            store_of(self._folder).sync()
            self.state.waiting.forget()
        lost_records = counted(lost, "record", "are")
        said = f"both files of waiting records {segment} are gone or damaged: {lost_records} lost"
        if planned := sum(len(each.rows) for each in kept):
            said += f", and {planned} more that a plan refers to, unless their rows are stored"
        log.warning(
            "%s; nobody knows any more which events they were: put a copy of the files back, or, while "
            "their logs are there, move %s away, and a new epoch finds them again",
            said,
            self.state.folder,
        )
        return said


def _stub(records: int, kept: Sequence[Retries]) -> pa.Table:
    """Empty records, which have the places in the log of those that plans refer to."""
    files, offsets_bytes = np.zeros(records, np.int32), np.zeros(records, np.int64)
    for each in kept:
        files[each.rows.to_numpy()] = each.files.to_numpy()
        offsets_bytes[each.rows.to_numpy()] = each.offsets_bytes.to_numpy()
    known = {"_file": files, "_offset": offsets_bytes, "due_us": np.full(records, NEVER_US)}
    unknown = {"_raw": None, "_id": "", "_key": "", "recorded": False, "reason": PRIMARY}
    columns = [
        pa.array(known[field.name])
        if field.name in known
        else pa.repeat(pa.scalar(unknown.get(field.name, 0), field.type), records)
        for field in RECORD_COLUMNS
    ]
    return pa.table(columns, schema=RECORD_COLUMNS)
