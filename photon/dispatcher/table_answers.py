"""Ask the table whether records whose ids were registered before have their rows (protocol A8).

`photon.dispatcher.completion` decides what becomes of them.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from photon.dispatcher import completion
from photon.join.messages import RegisteredHere
from photon.pipeline.event_key import EventKey
from photon.pipeline.sections import ForeignLog
from photon.state.dispatcher_state import DispatcherState
from photon.storage.joined_rows import epochs_of_rows
from photon.storage.tables import OutputTable
from photon.tokens import Token

log = logging.getLogger(__name__)

ROWS_ARE_GONE = "of events that were joined, and whose rows are gone from the table: verification names them"


@dataclass(frozen=True)
class TableAnswers:
    """Asks the joined table of one datacenter, for the epoch of its state."""

    state: DispatcherState
    joined: OutputTable
    foreign: ForeignLog

    def resolve(self, batch: int, records: Sequence[RegisteredHere]) -> completion.Resolved:
        """Decide on records that were registered here, when `batch` ends. LakeUnavailable."""
        before = self.state.inherited_among(completion.event_name(record.key) for record in records)
        tokens = {Token.parse(record.token) for record in records if record.token is not None}
        row_status = self.joined.row_status_of(tokens)
        epochs = self._epochs_of_rows([record for record in records if record.token is None])
        resolved = completion.resolve(records, row_status, epochs, self.state.epoch or "", before)
        if missing := resolved.counts["missing"]:
            log.warning("batch %d: %d records %s", batch, missing, ROWS_ARE_GONE)
        return resolved

    def _epochs_of_rows(self, records: Sequence[RegisteredHere]) -> Mapping[EventKey, Collection[str]]:
        """In which epochs these events have rows; in a first epoch no row need be read."""
        if not self.state.follows_an_epoch:
            return {record.key: {self.state.epoch or ""} for record in records}
        ids = {record.key.id for record in records}
        return epochs_of_rows(self.joined, ids, self.foreign)
