"""Ask the table whether events that this datacenter has claimed before have their rows (protocol A8).

`photon.dispatcher.completion` decides what becomes of their records.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from photon.dispatcher import completion
from photon.dispatcher.completion import OwnHold
from photon.join.outcomes import HeldRecord
from photon.registry.entry import Claimant, Hashes
from photon.registry.errors import RegistryUnavailable
from photon.registry.hashing import hashes_of
from photon.registry.id_registry import IdRegistry
from photon.state.dispatcher_state import DispatcherState
from photon.storage.joined_rows import CommittedRows
from photon.storage.tables import OutputTable
from photon.tokens import Occurrence

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TableAnswers:
    """Asks the joined table of one datacenter, for the epoch of its state."""

    state: DispatcherState
    datacenter: str
    joined: OutputTable
    registry: IdRegistry

    def resolve(self, batch: int, records: Sequence[HeldRecord]) -> completion.Resolved:
        """Decide on records of events that were claimed here, when `batch` ends, and free what has no row.

        LakeUnavailable.
        """
        if not records:
            return completion.Resolved()
        before = self.state.inherited_among({record.event_id for record in records})
        held = sorted({record.event_id for record in records if record.holder is not None})
        resolved = completion.resolve(records, self._own_holds(held), before)
        if resolved.to_free and self._free(
            list(resolved.to_free), set(resolved.to_free.values()).__contains__
        ):
            log.warning(
                "batch %d: %d events of ours have lost their rows, and are joined again",
                batch, len(resolved.to_free),
            )  # fmt: skip
            resolved.released |= {one.occurrence for one in records if one.event_id in resolved.to_free}
        return resolved

    def free_given_up(self, records: Sequence[HeldRecord], given_up: Collection[str]) -> set[Occurrence]:
        """Free events whose rows are missed and that a datacenter joined which makes none again (E8).

        The records whose events are free now.
        """
        if not records:
            return set()
        ids = [record.event_id for record in records]
        is_freed = self._free(ids, lambda one: one.epoch.datacenter in given_up)
        return {record.occurrence for record in records} if is_freed else set()

    def _free(self, ids: Sequence[str], are_freed: Callable[[Claimant], bool]) -> bool:
        """Free what such claimants hold and have joined (L11); False: later, their records wait till then."""
        try:
            self.registry.free(hashes_of_texts(ids), are_freed)
        except RegistryUnavailable as error:
            log.info("%d events are freed when their records are looked at again: %s", len(ids), error)
            return False
        return True

    def _own_holds(self, ids: Sequence[str]) -> Mapping[str, OwnHold]:
        """The holds of this datacenter's plans among these events."""
        holders = self.registry.holders(hashes_of_texts(ids))
        own: dict[str, tuple[Claimant, bool]] = {}
        for at, claimant in holders.claimants.items():
            if claimant.epoch.datacenter == self.datacenter:
                for index in holders.refs.are(*at).nonzero()[0].tolist():
                    own[ids[index]] = (claimant, bool(holders.are_joins[index]))
        rows = self._rows({event_id: claimant for event_id, (claimant, _) in own.items()})
        return {
            event_id: OwnHold(
                claimant, rows.get(event_id), is_join, str(claimant.epoch.number) == self.state.epoch
            )
            for event_id, (claimant, is_join) in own.items()
        }

    def _rows(self, own: Mapping[str, Claimant]) -> dict[str, Occurrence]:
        """The records that have the rows of these holds, by event."""
        by_epoch: dict[str, dict[str, Claimant]] = defaultdict(dict)
        for event_id, claimant in own.items():
            by_epoch[str(claimant.epoch.number)][event_id] = claimant
        committed, found = CommittedRows(self.joined), dict[str, Occurrence]()
        for epoch, some in by_epoch.items():
            rows = committed.of_batches(epoch, {one.batch for one in some.values()}, some)
            names = (rows[name].to_pylist() for name in ("_event_id", "_batch", "_plan", "_occurrence"))
            for event_id, batch, plan, occurrence in zip(*names, strict=True):
                if (some[event_id].batch, some[event_id].plan) == (batch, plan):
                    found[event_id] = Occurrence.parse(occurrence)
        return found


def hashes_of_texts(ids: Iterable[str]) -> Hashes:
    """The hashes of some ids; half a surrogate pair, which is no UTF-8, is written as Python does."""
    return hashes_of(pa.array([one.encode("utf-8", "surrogatepass") for one in ids], pa.binary()))
