"""Join records for a look alone: nothing is registered, and nothing is written."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from photon.event_store.interface import EventStore, Primaries, index_folder
from photon.event_store.logs import Index, store_for_a_look
from photon.event_store.segments import SegmentDamaged
from photon.join.adapting import adapt_pairs, adapter_of, skip_records
from photon.join.joiner import look_up_primaries
from photon.join.records import Ints, Records, fresh_records, raw_records
from photon.logs.files import TrackedFile
from photon.pipeline.file import Pipeline
from photon.state.view import open_view
from photon.storage.tables import OutputTable

NO_PRIMARY = "no primary event of its key is in the logs read so far: it would wait"
SKIPPED = "it has no key, or the adapter passes over it"


def try_joins(pipeline: Pipeline, datacenter: str, events: pa.Table) -> list[str]:
    """The outcomes of these records (`FOREIGN_EVENTS`) if they were joined now, in words.

    StateUnavailable, LakeUnavailable, AdapterNotFound.
    """
    place = pipeline.datacenters[datacenter]
    with open_view(place.state) as state:
        if state is None or not events.num_rows:
            return ["it can't be told without the datacenter's state"] * events.num_rows
        files, segments = state.files(), state.segments()
        primary = [one.file for one in files.values() if one.file.side == "primary" and one.state == "open"]
        index = Index(index_folder(state.work), tuple(segment.name for segment in segments))
        try:
            with store_for_a_look(place.logs, pipeline.primary, index, primary) as store:
                return _Trial(pipeline, datacenter, files, events).outcomes(store)
        except (SegmentDamaged, OSError) as error:  # a merge has just replaced a segment
            return [f"its primary can't be looked for just now: {error}"] * events.num_rows


class _Trial:
    """Records of one datacenter, and what comes of them."""

    def __init__(
        self, pipeline: Pipeline, datacenter: str, files: Mapping[int, TrackedFile], events: pa.Table
    ) -> None:
        self._pipeline = pipeline
        self._place = pipeline.datacenters[datacenter]
        log_files = {number: tracked.file for number, tracked in files.items()}
        self._records = Records(fresh_records(events, 0, True), log_files, pipeline.foreign)
        self._adapter = adapter_of(pipeline)
        self._said = np.full(len(self._records), "", dtype=object)

    def outcomes(self, store: EventStore) -> list[str]:
        records = self._records
        self._said[pc.is_null(records.table["_key"]).to_numpy()] = SKIPPED
        asked = self._open()
        skipped = skip_records(self._adapter, records.raws(asked), self._pipeline)
        self._said[asked[skipped.rows]] = SKIPPED
        for row, why in skipped.failures.items():
            self._said[asked[row]] = f"it would be a dead letter: {why}"
        asked = self._open()
        found = look_up_primaries(store, records, asked, self._pipeline)
        self._said[asked[found.rows < 0]] = NO_PRIMARY
        self._adapt(asked[found.rows >= 0], found, found.rows[found.rows >= 0])
        return [str(each) for each in self._said]

    def _open(self) -> Ints:
        return np.flatnonzero(self._said == "")

    def _adapt(self, rows: Ints, found: Primaries, of_row: Ints) -> None:
        if not len(rows):
            return
        primaries = found.events.take(pa.array(of_row))
        numbers, offsets = primaries["_file"].to_numpy(), primaries["_offset"].to_numpy()
        raws = raw_records(primaries["_raw"].combine_chunks(), numbers, found.files)
        table = OutputTable(self._place.lake, "joined_events")
        adapted = adapt_pairs(self._adapter, self._records.raws(rows), raws, self._pipeline, table.schema())
        for row, number, offset in zip(rows, numbers, offsets, strict=True):
            self._said[row] = f"it joins the primary event at {found.files[number].path}, offset {offset}"
        self._said[rows[adapted.filtered]] = "the adapter drops it"
        for row, why in adapted.failures.items():
            self._said[rows[row]] = f"it would be a dead letter: {why}"
