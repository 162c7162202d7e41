"""Notice a registry that is behind a lake: it was put back to an older copy of itself (protocol L10, A23).

Ids are claimed before their rows are committed, batch after batch. So a registry that lacks any id of a row
lacks those of the newest batch too. Who finds that joins nothing: each row whose id is missing could be
joined a second time. While a process runs, each of its reads compares the last entry that it has read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from photon.dispatcher.recovery.distant_lakes import DistantLakes
from photon.dispatcher.recovery.rows_of_plans import RowsOfPlans
from photon.dispatcher.recovery.second_rows import MOST_NOTED, note_second_rows
from photon.pipeline.event_time import event_times_us
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import ForeignLog
from photon.process.clock import MICROSECONDS
from photon.process.machine import Machine
from photon.registry.entry import Claimant, Epoch, Hashes, Mask, Times
from photon.registry.errors import RegistryMismatch
from photon.registry.hashing import hashes_of
from photon.registry.id_registry import IdRegistry
from photon.storage.delta import LakeUnavailable
from photon.storage.joined_rows import CommittedRows
from photon.storage.tables import OutputTable
from photon.storage.tokens import Occurrence, PlanKey

log = logging.getLogger(__name__)

LOOK_US = 5 * MICROSECONDS  # between two looks of a process that has no batch
# How far to go back where the newest rows prove nothing: all below the boundary.
MOST_BATCHES = 8


@dataclass(frozen=True, slots=True, eq=False)
class RowClaims:
    """Rows of one plan, with the columns `REGISTERED_AS`, and what was claimed for them."""

    claimant: Claimant
    rows: pa.Table
    hashes: Hashes
    times_us: Times

    def take(self, which: Mask) -> RowClaims:
        """Some of them."""
        rows = self.rows.filter(pa.array(which))
        return RowClaims(self.claimant, rows, self.hashes[which], self.times_us[which])

    def token(self, index: int) -> str:
        """The name of a row."""
        (datacenter, number), batch, plan = self.claimant
        key = PlanKey(datacenter, str(number), batch, plan)
        return key.token(Occurrence.parse(self.rows["_occurrence"][index].as_py()))

    def event_id(self, index: int) -> str:
        """The id of a row's event."""
        return str(self.rows["_event_id"][index].as_py())


def claims_of_rows(rows: pa.Table, datacenter: str, foreign: ForeignLog) -> Iterator[RowClaims]:
    """The claims made for rows, plan by plan. A row's place in the logs may be altered: it does not count."""
    plans = rows.select(["_epoch", "_batch", "_plan"]).group_by(["_epoch", "_batch", "_plan"]).aggregate([])
    for plan in plans.sort_by([("_epoch", "ascending"), ("_batch", "ascending")]).to_pylist():
        same = (pc.equal(rows[name], plan[name]) for name in plan)
        own = rows.filter(pc.and_(pc.and_(next(same), next(same)), next(same)))
        claimant = Claimant(Epoch(datacenter, int(plan["_epoch"])), plan["_batch"], plan["_plan"])
        times_us = event_times_us(own["_event_id"], own["_event_time"].cast(pa.int64()), foreign)
        yield RowClaims(claimant, own, hashes_of(own["_event_id"]), times_us)


def newest_claims(
    table: OutputTable, datacenter: str, foreign: ForeignLog, boundary_us: int
) -> list[RowClaims]:
    """The claims that were made for the newest batch with rows at or above the boundary. LakeUnavailable."""
    committed = CommittedRows(table)
    epochs = committed.epochs()
    for rows in committed.newest(max(epochs, key=int), MOST_BATCHES) if epochs else ():
        claims = list(claims_of_rows(rows, datacenter, foreign))
        if any((one.times_us >= boundary_us).any() for one in claims):
            return claims
    return []


def claims_missing_in(claims: RowClaims, registry: IdRegistry) -> dict[Claimant | None, RowClaims]:
    """The rows whose ids the registry does not have for them, by who holds these instead (None: nobody).

    Rows below the boundary may be missing (L5).
    """
    found = registry.holders(claims.hashes)
    is_missing = ~found.are_of(claims.claimant) & (claims.times_us >= registry.register.boundary_us)
    missing: dict[Claimant | None, RowClaims] = {}
    if (is_missing & ~found.are_held).any():
        missing[None] = claims.take(is_missing & ~found.are_held)
    for claimant in sorted({*found.claimants.values()} - {claims.claimant}):
        if (held := is_missing & found.are_of(claimant)).any():
            missing[claimant] = claims.take(held)
    return missing


@dataclass
class RegistryWatch:
    """Compares a registry with the newest rows of all tables that can be read, for one datacenter's join.

    `table`: the datacenter's own.
    """

    pipeline: Pipeline
    datacenter: str
    registry: IdRegistry
    table: OutputTable
    machine: Machine
    unread: dict[str, str] = field(default_factory=dict)  # why the rows of a datacenter are not compared
    lakes: DistantLakes = field(init=False)
    _looked_us: int = 0

    def __post_init__(self) -> None:
        self.lakes = DistantLakes(machine=self.machine)

    def check(self) -> None:
        """At a start, read the view to its tail, and refuse a registry that lacks rows of a newest batch.

        RegistryMismatch, RegistryUnavailable; LakeUnavailable of the own table.
        """
        read = {self.datacenter: self._newest_of(self.datacenter)}
        for name in self._others():
            try:
                read[name] = self.lakes.ask(name, partial(self._newest_of, name))
            except LakeUnavailable as error:
                self._note_unread(name, error)
        self._compare(read)

    def tend(self) -> None:
        """While running: look at the registry now and then, and at tables that could not be read so far.

        RegistryMismatch, RegistryUnavailable.
        """
        now_us = self.machine.clock.elapsed_us()
        if now_us - self._looked_us < LOOK_US:
            return
        self._looked_us = now_us
        read: dict[str, list[RowClaims]] = {}
        for name in sorted(self.unread.keys() & {*self._others()}):
            try:
                claims = self.lakes.poll(name, partial(self._newest_of, name))
            except LakeUnavailable as error:
                self._note_unread(name, error)
            else:
                read |= {} if claims is None else {name: claims}
        if read:
            self._compare(read)
        else:
            self.registry.read_on()
        self.unread = {name: why for name, why in self.unread.items() if name not in read}

    def _note_unread(self, datacenter: str, error: LakeUnavailable) -> None:
        if datacenter not in self.unread:
            log.warning(
                "whether the registry has the newest rows of datacenter %s is not known: %s",
                datacenter,
                error,
            )
        self.unread[datacenter] = str(error)

    def _others(self) -> list[str]:
        """The other datacenters whose rows count: also one that was retired with its lake."""
        return sorted({*self.pipeline.datacenters} - {self.datacenter, *self.registry.register.lakes_gone})

    def _newest_of(self, datacenter: str) -> list[RowClaims]:
        """The last claims of a table; none if the registry knows another table."""
        place = self.pipeline.datacenters[datacenter]
        table = self.table if datacenter == self.datacenter else OutputTable(place.lake, "joined_events")
        known = self.registry.register.tables.get(datacenter)
        if not table.exists():
            if known is not None:
                raise LakeUnavailable(f"there is no table {table.folder}")
            return []
        if known is not None and table.table_id() != known:
            return []  # that datacenter's own join refuses the table, and says why
        boundary_us = self.registry.register.boundary_us
        return newest_claims(table, datacenter, self.pipeline.foreign, boundary_us)

    def _compare(self, read: Mapping[str, Sequence[RowClaims]]) -> None:
        """Read the view to its tail, and compare it with rows that were read before. RegistryMismatch.

        A row may be gone by then, with its id: look at both again.
        """
        self.registry.catch_up()
        suspects = [name for name, claims in read.items() if self._missing_claims(claims)]
        if not suspects:
            return
        again = {name: self.lakes.ask(name, partial(self._newest_of, name)) for name in suspects}
        self.registry.catch_up()
        for claims in again.values():
            for holder, missing in self._missing_claims(claims):
                self._judge(holder, missing)

    def _missing_claims(self, claims: Sequence[RowClaims]) -> list[tuple[Claimant | None, RowClaims]]:
        """The claims that the registry lacks, and who has the ids instead."""
        return [each for one in claims for each in claims_missing_in(one, self.registry).items()]

    def _judge(self, holder: Claimant | None, missing: RowClaims) -> None:
        """RegistryMismatch, unless all are second rows of their events: no event gets a third one."""
        datacenter = missing.claimant.epoch.datacenter
        without = np.flatnonzero(~self._have_rows(holder, missing.hashes)).tolist()
        if without:
            place = self.pipeline.datacenters[datacenter].lake / "joined_events"
            by = "nobody has" if holder is None else f"{holder} has"
            row = f"the id {missing.event_id(without[0])!r} of the row {missing.token(without[0])}"
            why = f"{by} {row} in the table {place}"
            if holder is not None and _is_later(holder, missing.claimant):
                raise lake_is_copied(self.pipeline, datacenter, why)
            raise lake_is_ahead(self.pipeline, why)
        log.warning(
            "%d of the newest rows of datacenter %s are second rows of their events, such as that of %r: "
            "photon verify %s says what to do",
            len(missing.hashes), datacenter, missing.event_id(0), self.pipeline.typed,
        )  # fmt: skip
        some = range(min(len(missing.hashes), MOST_NOTED))
        with suppress(OSError):  # where the disk is full, the next look notes them
            state = self.pipeline.datacenters[self.datacenter].state
            note_second_rows(state, {missing.token(index): missing.event_id(index) for index in some})

    def _have_rows(self, holder: Claimant | None, hashes: Hashes) -> Mask:
        """Which events have a row of the plan that holds them: these have two, and get no third one."""
        place = None if holder is None else self.pipeline.datacenters.get(holder.epoch.datacenter)
        if holder is None or place is None:
            return np.zeros(len(hashes), bool)
        table = OutputTable(place.lake, "joined_events")
        return self.lakes.ask(holder.epoch.datacenter, partial(_have_rows, table, holder, hashes))


def _have_rows(table: OutputTable, plan: Claimant, hashes: Hashes) -> Mask:
    return RowsOfPlans(table).have_rows(plan, hashes) if table.exists() else np.zeros(len(hashes), bool)


def _is_later(holder: Claimant, of_newest_rows: Claimant) -> bool:
    """Whether a plan of the same datacenter came after that of its newest rows: it has another table."""
    one, other = holder.epoch, of_newest_rows.epoch
    return one.datacenter == other.datacenter and (one.number, holder.batch) > (
        other.number,
        of_newest_rows.batch,
    )


def lake_is_ahead(pipeline: Pipeline, why: str) -> RegistryMismatch:
    """The error of a registry that lacks what a lake has: both are named, and what to do."""
    return RegistryMismatch(
        f"the registry of {pipeline.name} ({_places(pipeline)}) is older than the lake: {why}. "
        "It was put back from a copy, or is another one, and events would be joined a second time; nothing "
        "is joined. Put the ids of all rows back into it, with every datacenter stopped: "
        f"photon registry refill {pipeline.typed}"
    )


def lake_is_copied(pipeline: Pipeline, datacenter: str, why: str) -> RegistryMismatch:
    """The error of a registry with which a datacenter has joined on into another lake than this one."""
    return RegistryMismatch(
        f"a copy of datacenter {datacenter}, with a lake of its own, has joined with the registry of "
        f"{pipeline.name} ({_places(pipeline)}): {why}. Each of the two has only a part of the rows, and "
        "events would be joined a second time; nothing is joined. Stop the copy, and give its pipeline a "
        "name of its own. Then put the ids of all rows of this lake back, with every datacenter stopped: "
        f"photon registry refill {pipeline.typed}"
    )


def _places(pipeline: Pipeline) -> str:
    endpoints = pipeline.registry.endpoints
    places = [pipeline.registry_folder] if endpoints == "local" else [one.url for one in endpoints]
    return ", ".join(map(str, places))
