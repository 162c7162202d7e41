"""Read single foreign records again, as they were mended or as the logs still have them (docs/adr/0047)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from photon.logs.files import TrackedFile
from photon.logs.one_record import parse_lines, read_records_of
from photon.logs.parse import FOREIGN_EVENTS
from photon.pipeline.file import Pipeline
from photon.storage.mended_letters import mended_letters
from photon.storage.tokens import Occurrence

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SecondReading:
    """Reads records of one epoch of a datacenter again."""

    pipeline: Pipeline
    datacenter: str
    epoch: str

    def mended(self) -> dict[Occurrence, bytes]:
        """The lines that people have put in the places of the log's. LakeUnavailable, FormatTooNew."""
        letters = mended_letters(self.pipeline, self.datacenter, self.epoch)
        return {place: each.raw for place, each in letters.items() if each.raw is not None}

    def read(
        self,
        wanted: Iterable[tuple[Occurrence, str]],
        files: Mapping[int, TrackedFile],
        mended: Mapping[Occurrence, bytes],
    ) -> pa.Table:
        """Read the records at these places that are not gone, with their events' ids (`FOREIGN_EVENTS`)."""
        id_of, logs = dict(wanted), self.pipeline.datacenters[self.datacenter].logs
        log, limits = self.pipeline.foreign, self.pipeline.limits
        by_file: dict[int, dict[int, bytes]] = defaultdict(dict)
        for place in id_of.keys() & mended.keys():
            if place.file_number in files:
                by_file[place.file_number][place.offset_bytes] = mended[place]
        parts = [FOREIGN_EVENTS.empty_table()]
        for number, lines in by_file.items():
            events = parse_lines(lines, files[number].file, log, limits).events
            ids = [id_of[Occurrence(number, offset)] for offset in events["_offset"].to_pylist()]
            parts.append(events.filter(pc.equal(events["_id"], pa.array(ids, pa.string()))))
        in_logs = [(place, event_id) for place, event_id in id_of.items() if place not in mended]
        return pa.concat_tables([*parts, read_records_of(logs, in_logs, files, log, limits)])


def as_mended(lines: pa.Array, numbers: Ints, offsets: Ints, mended: Mapping[Occurrence, bytes]) -> pa.Array:
    """The lines with those that people have put in their places (docs/adr/0047)."""
    known = np.isin(offsets, [place.offset_bytes for place in mended])
    at = {row: Occurrence(int(numbers[row]), int(offsets[row])) for row in np.flatnonzero(known).tolist()}
    rows = [row for row, place in at.items() if place in mended]
    if not rows:
        return lines
    is_mended = np.isin(np.arange(len(lines)), rows)
    new = pa.array([mended[at[row]] for row in rows], pa.binary())
    return pc.replace_with_mask(lines, pa.array(is_mended), new)
