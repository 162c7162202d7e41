"""Make a damaged spool file again: its records are read from the log, each at its place (protocol A19)."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from photon.dispatcher.state import DispatcherState
from photon.dispatcher.waiting import WaitingRow
from photon.faults import fault_point
from photon.join.spool import SPOOL_COLUMNS, replace_spool
from photon.logs.files import TrackedFile
from photon.logs.one_record import read_records
from photon.pipeline.file import Pipeline
from photon.storage.tables import LakeUnavailable, OutputTable
from photon.tokens import Occurrence

log = logging.getLogger(__name__)

KEPT = ["_raw", "_key", "_time_us"]  # of a record's columns, beside those that the state has


@dataclass(frozen=True)
class SpoolRepair:
    """Mends the spool of one datacenter."""

    pipeline: Pipeline
    datacenter: str
    state: DispatcherState
    unjoined: OutputTable

    def mend(self, spool_file: str, files: Mapping[int, TrackedFile]) -> str:
        """Write the file anew, under its name and with each record in its row; what was done.

        A record that is not in its log any more has no bytes from now on: its next look counts it as lost.
        LakeUnavailable: logs or lake can't be read, so that nobody knows what is lost. OSError.
        """
        logs = self.pipeline.datacenters[self.datacenter].logs
        if not logs.is_dir():
            raise LakeUnavailable(
                f"spool file {spool_file} is damaged, and the logs folder {logs} is not there"
            )
        waiting = self.state.waiting_in(spool_file)
        found = self._read_again(waiting, logs, files)
        recorded = set(self.unjoined.occurrences_of_epoch(self.state.epoch or ""))
        rows: list[dict[str, object]] = [{}] * (1 + max((row.spool_row for row in waiting), default=-1))
        for row in waiting:
            rows[row.spool_row] = _spooled(row, found.get(row.occurrence), row.occurrence in recorded)
        lost = [row for row in waiting if row.occurrence not in found]
        for row in lost:
            log.warning(
                "event %s is lost: its record, at byte %d of %s, is neither in its log nor in the spool",
                row.event_id,
                row.offset_bytes,
                files[row.file_number].file.path,
            )
        fault_point("spool.before_replace")
        replace_spool(self.state.folder, spool_file, pa.Table.from_pylist(rows, SPOOL_COLUMNS))
        return (
            f"spool file {spool_file} was damaged: {len(waiting) - len(lost)} of its records are read again, "
            f"{len(lost)} are lost"
        )

    def _read_again(
        self, waiting: Iterable[WaitingRow], logs: Path, files: Mapping[int, TrackedFile]
    ) -> dict[Occurrence, dict[str, object]]:
        """What the spool keeps of the records that their logs still have."""
        ids: dict[int, dict[int, str]] = defaultdict(dict)
        for row in waiting:
            ids[row.file_number][row.offset_bytes] = row.event_id
        foreign, limits = self.pipeline.foreign, self.pipeline.limits
        found: dict[Occurrence, dict[str, object]] = {}
        for number, event_ids in ids.items():
            records = read_records(logs, files[number].file, event_ids, foreign, limits)
            places = [Occurrence(number, offset) for offset in records["_offset"].to_pylist()]
            found.update(zip(places, records.select(KEPT).to_pylist(), strict=True))
        return found


def _spooled(row: WaitingRow, found: dict[str, object] | None, recorded: bool) -> dict[str, object]:
    gone: dict[str, object] = {"_raw": None, "_key": "", "_time_us": row.primary_time_us}
    return {
        "_file": row.file_number,
        "_offset": row.offset_bytes,
        "_id": row.event_id,
        **(gone if found is None else found),
        "attempts": row.attempts,
        "first_seen_us": row.first_seen_us,
        "recorded": recorded,
    }
