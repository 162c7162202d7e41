"""Ask the table whether events that this datacenter has claimed before have their rows (protocol A8).

`photon.dispatcher.completion` decides what becomes of their records.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from photon.dispatcher import completion
from photon.dispatcher.completion import GivenUpHold, OwnHold
from photon.dispatcher.recovery.holders import OtherEpochs
from photon.pipeline.file import Pipeline
from photon.process.readable import counted
from photon.registry.entry import Claimant, Mask
from photon.registry.errors import RegistryUnavailable
from photon.registry.hashing import hashes_of_texts
from photon.registry.id_registry import IdRegistry
from photon.registry.taken_rows import listed
from photon.state.dispatcher_state import DispatcherState
from photon.state.outcomes import HeldRecord
from photon.storage.delta import LakeUnavailable
from photon.storage.joined_rows import CommittedRows
from photon.storage.tables import OutputTable
from photon.storage.tokens import Occurrence

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TableAnswers:
    """Asks the joined table of one datacenter, for the epoch of its state."""

    state: DispatcherState
    pipeline: Pipeline
    datacenter: str
    joined: OutputTable
    registry: IdRegistry
    others_took: Callable[[], bool]  # whether a missing row may be one that others took (E12)

    def resolve(self, batch: int, records: Sequence[HeldRecord]) -> completion.Resolved:
        """Decide on records of events that were claimed here, when `batch` ends, and free what has no row.

        While others may have taken the row, only an order frees (E12). LakeUnavailable.
        """
        if not records:
            return completion.Resolved()
        before = self.state.inherited_among({record.event_id for record in records})
        held = sorted({record.event_id for record in records if record.holder is not None})
        holds = self._own_holds(held)
        resolved = completion.resolve(records, holds, before)
        if resolved.to_free:
            some = [record for record in records if record.event_id in resolved.to_free]
            try:
                resolved = completion.resolve(records, holds, before, self._may_free(some))
            except RegistryUnavailable as error:
                log.info("what has no row any more waits for the next look at the records: %s", error)
                resolved.to_free.clear()
        self._free(batch, resolved, records)
        return resolved

    def _may_free(self, records: Sequence[HeldRecord]) -> Collection[Occurrence]:
        """The records of joins without a row that make these due; asked once rows were read (E12, E13).

        LakeUnavailable, RegistryUnavailable.
        """
        due = {record.occurrence for record in records}
        if self.others_took():
            due = {*self.state.ordered_at(due)}
        taken = self._are_listed([record.event_id for record in records])
        listed = {one.occurrence for one, is_listed in zip(records, taken, strict=True) if is_listed}
        return due - listed

    def _are_listed(self, ids: Sequence[str]) -> Sequence[bool]:
        """Whether a person has acknowledged that others took their rows.

        The register is read anew: what was acknowledged a moment ago counts. LakeUnavailable,
        RegistryUnavailable.
        """
        taken = listed(self.pipeline, self.registry.read_register())
        return list(taken.has(hashes_of_texts(ids)).tolist())

    def settle_given_up(
        self, batch: int, records: Sequence[HeldRecord], holders: OtherEpochs
    ) -> completion.Resolved:
        """Decide on events whose rows recovery misses, joined by a datacenter that makes none again (E8).

        Those without a row are freed. While a table can't be read, its records wait.
        """
        if not records:
            return completion.Resolved()
        settled = completion.settle_given_up(records, self._holds_of_given_up(records, holders))
        self._free(batch, settled, records)
        return settled

    def _free(self, batch: int, resolved: completion.Resolved, records: Sequence[HeldRecord]) -> None:
        """Free joins without a row (L11), so that their records are due; else these wait till later."""
        ids = list(resolved.to_free)
        if not ids:
            return
        try:
            self.registry.free(hashes_of_texts(ids), set(resolved.to_free.values()).__contains__)
        except RegistryUnavailable as error:
            log.info("%s freed at the next look at the records: %s", counted(len(ids), "event", "are"), error)
            return
        log.warning("batch %d: %s no row any more; joined again", batch, counted(len(ids), "event", "have"))
        due = {one.occurrence for one in records if one.event_id in resolved.to_free}
        resolved.released |= due - resolved.ended

    def _holds_of_given_up(
        self, records: Sequence[HeldRecord], holders: OtherEpochs
    ) -> dict[str, GivenUpHold | None]:
        """The holds of datacenters that never run again, by event; None: the table can't be read now.

        Who holds them is looked up first: a join's row is in each snapshot that is taken after that, or gone.
        """
        ids = sorted({record.event_id for record in records})
        hashes = hashes_of_texts(ids)
        try:
            listed_ids = np.array(self._are_listed(ids), bool)
        except (RegistryUnavailable, LakeUnavailable) as error:
            log.warning("whether rows of ordered records were acknowledged as taken: %s", error)
            return dict.fromkeys(ids)
        found = self.registry.holders(hashes)
        by_datacenter: dict[str, list[tuple[Claimant, Mask]]] = defaultdict(list)
        for at, claimant in found.claimants.items():
            if claimant.epoch.datacenter in holders.given_up:
                held = found.are_joins & found.refs.are(*at)
                by_datacenter[claimant.epoch.datacenter].append((claimant, held))
        holds: dict[str, GivenUpHold | None] = {}
        for name, plans in by_datacenter.items():
            try:
                have_rows = holders.rows_of_given_up(name)
                read = [(one, held, have_rows(one, hashes) | listed_ids) for one, held in plans]
            except LakeUnavailable as error:
                log.warning("whether retired datacenter %s has the rows of ordered records: %s", name, error)
                holds |= {ids[index]: None for _, held in plans for index in held.nonzero()[0].tolist()}
                continue
            for claimant, held, has_row in read:
                for index in held.nonzero()[0].tolist():
                    holds[ids[index]] = GivenUpHold(claimant, bool(has_row[index]))
        return holds

    def _own_holds(self, ids: Sequence[str]) -> Mapping[str, OwnHold]:
        """The holds of this datacenter's plans among these events."""
        holders = self.registry.holders(hashes_of_texts(ids))
        held = zip(ids, map(holders.holder, range(len(ids))), holders.are_joins.tolist(), strict=True)
        own = {
            event_id: (claimant, is_join)
            for event_id, claimant, is_join in held
            if claimant is not None and claimant.epoch.datacenter == self.datacenter
        }
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
