"""Answers of the ledgers on an event: which claim holds it, and how it stands with the claim's epoch."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pyarrow as pa

from photon.pipeline.event_time import event_times_us
from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS
from photon.registry.entry import Claimant, Times, told_boundary
from photon.registry.epochs import is_live
from photon.registry.hashing import hashes_of_texts
from photon.registry.id_registry import IdRegistry
from photon.registry.origins import claims_behind, origins_of
from photon.registry.register import Register
from photon.state.view import open_view
from photon.tracing.report import Decision, HolderState, RegistryAnswer, Trace

MOST_ENTRIES_BEHIND = 1_000  # are read for other claims of the event: those of some minutes


def decision_on(datacenter: str, register: Register) -> Decision:
    """The decision that people have made on a datacenter."""
    if datacenter in register.lakes_gone:
        return "lake gone"
    if datacenter in register.given_up:
        return "retired"
    return "on hold" if datacenter in register.on_hold else ""


def ask_registry(pipeline: Pipeline, registry: IdRegistry, found: Trace) -> RegistryAnswer:
    """The ledgers' answer on the event, as far as `registry` has read them. RegistryUnavailable."""
    one = hashes_of_texts([found.event_id])
    holders = registry.holders(one, _event_time_us(pipeline, found))
    current = registry.view.current(one).ledgers()
    boundary_us = told_boundary(registry.view.states[current[0][0]].boundary_us) if current else None
    (origin,) = origins_of(registry, one)
    if origin is None:
        return RegistryAnswer("too old" if holders.are_too_old[0] else "free", boundary_us)
    behind = claims_behind(registry, (origin.ledger, origin.position), one, MOST_ENTRIES_BEHIND)
    silent = {name for place in pipeline.datacenters.values() for name in _silent(place.state)}
    epoch, batch, plan = origin.claimant
    return RegistryAnswer(
        "joined" if holders.are_joins[0] else "held",
        boundary_us,
        datacenter=epoch.datacenter,
        epoch=str(epoch.number),
        batch=batch,
        plan=plan,
        ledger=str(origin.ledger),
        position=origin.position,
        time_us=origin.time_us,
        occurrence=str(origin.occurrence),
        holder_state=_holder_state_of(origin.claimant, registry, silent),
        also_claimed=tuple(str(other) for other in dict.fromkeys(each.claimant for each in behind)),
    )


def _silent(folder: Path) -> Collection[str]:
    """The datacenters that this one takes for silent, and can't do anything for."""
    with open_view(folder) as state:
        return state.out_of_reach if state is not None else ()


def _holder_state_of(holder: Claimant, registry: IdRegistry, silent: Collection[str]) -> HolderState:
    name = holder.epoch.datacenter
    if decision := decision_on(name, registry.register):
        return decision
    if not is_live(registry, holder.epoch):
        return "over"
    return "silent" if name in silent else "live"


def _event_time_us(pipeline: Pipeline, found: Trace) -> Times:
    """When the event was, as one of its records or rows says: whether the boundary has passed it."""
    times = {record.time_us for one in found.datacenters.values() for record in one.records}
    for one in found.datacenters.values():
        said = [row["event_time"] for row in (*one.unjoined, *one.too_old)]
        for event_time in (*said, *(row["_event_time"] for row in one.rows)):
            if event_time is not None:
                times.add(int(event_time.timestamp()) * MICROSECONDS + event_time.microsecond)
    ids = pa.array([found.event_id])
    return event_times_us(ids, pa.array([min(times, default=None)], pa.int64()), pipeline.foreign)
