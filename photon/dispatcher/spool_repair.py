"""Make a damaged spool file again: its records are read from the log, each at its place (protocol A19)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from photon.dispatcher.state import DispatcherState
from photon.dispatcher.waiting import WaitingRow
from photon.faults import fault_point
from photon.join.spool import SPOOL_COLUMNS, replace_spool
from photon.logs.files import TrackedFile
from photon.logs.one_record import read_record
from photon.pipeline.file import Pipeline
from photon.storage.tables import LakeUnavailable, OutputTable
from photon.tokens import Occurrence

log = logging.getLogger(__name__)


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
        recorded = set(self.unjoined.occurrences_of_epoch(self.state.epoch or ""))
        rows: list[dict[str, object]] = [{}] * (1 + max((row.spool_row for row in waiting), default=-1))
        lost = 0
        for row in waiting:
            rows[row.spool_row] = spooled = self._record(row, logs, files, recorded)
            if spooled["_raw"] is None:
                lost += 1
                log.warning(
                    "event %s is lost: its record, at byte %d of %s, is neither in its log nor in the spool",
                    row.event_id,
                    row.offset_bytes,
                    files[row.file_number].file.path,
                )
        fault_point("spool.before_replace")
        replace_spool(self.state.folder, spool_file, pa.Table.from_pylist(rows, SPOOL_COLUMNS))
        done = f"spool file {spool_file} was damaged: {len(waiting) - lost} of its records are read again"
        return f"{done}, {lost} are lost"

    def _record(
        self,
        row: WaitingRow,
        logs: Path,
        files: Mapping[int, TrackedFile],
        recorded: Collection[Occurrence],
    ) -> dict[str, object]:
        file, foreign, limits = files[row.file_number].file, self.pipeline.foreign, self.pipeline.limits
        found = read_record(logs, file, row.offset_bytes, row.event_id, foreign, limits)
        gone = {"_raw": None, "_key": "", "_time_us": row.primary_time_us}
        return {
            "_file": row.file_number,
            "_offset": row.offset_bytes,
            "_id": row.event_id,
            **(found.select(list(gone)).to_pylist()[0] if found is not None else gone),
            "attempts": row.attempts,
            "first_seen_us": row.first_seen_us,
            "recorded": row.occurrence in recorded,
        }
