"""Acknowledge rows that others took from a datacenter: nothing brings them back any more (protocol E13).

its joins without a row: a list in every lake  -> nobody reads it yet
the register: the list's digest                -> whoever decides on these events goes by it
its lake: clean with the newest release        -> what others did up to there is over (E11)
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from photon.dispatcher.recovery.rows_of_plans import RowsOfPlans
from photon.pipeline.file import Pipeline
from photon.process.clock import SystemClock
from photon.process.errors import UserError
from photon.process.faults import fault_point
from photon.registry.entry import NO_HASHES, Hashes
from photon.registry.hashing import hashes_of
from photon.registry.holds import HashSet
from photon.registry.id_registry import IdRegistry
from photon.registry.register import Register, with_taken
from photon.registry.taken_rows import put_list, tidy_lists
from photon.registry.view import newest_states
from photon.releases import copies
from photon.releases.at_once import release_now
from photon.releases.foreign_commits import newest_part, newest_release, open_facts, others_took_rows
from photon.releases.release import CleanVerification
from photon.storage.delta import lake_errors
from photon.storage.joined_rows import ROWS_AT_ONCE, CommittedRows
from photon.storage.tables import OutputTable, app_id, batch_of
from photon.upkeep.plans import PlanOutdated, Say, refuse_outdated, silent


class NotAcknowledged(UserError):
    """The rows were not acknowledged; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class AcknowledgedRows:
    """How many joins stay without a row. `ended`: what others did that is over. `is_open`: more came."""

    rows: int
    ended: tuple[str, ...] = ()
    is_open: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON has it."""
        return asdict(self)


@dataclass(frozen=True)
class AcknowledgementPlan:
    """The acknowledgement to come of what a datacenter's table lacks."""

    pipeline: Pipeline
    registry: IdRegistry
    register: Register  # when the plan was made
    datacenter: str
    expected: AcknowledgedRows

    def apply(self, say: Say = silent) -> AcknowledgedRows:
        """Acknowledge them; may be killed and run again.

        PlanOutdated, NotAcknowledged, LakeUnavailable, RegistryUnavailable.
        """
        pipeline, name, gone = self.pipeline, self.datacenter, self.register.lakes_gone
        refuse_outdated(self.register, self.registry.read_register())
        release_now(pipeline, self.registry, name, SystemClock())
        lake = pipeline.datacenters[name].lake
        retired = self.register.given_up
        with lake_errors(f"read the releases in {lake}"):
            newest = newest_release(pipeline, name, retired)
        ended = _facts_of_taken_rows(pipeline, name, retired)
        hashes = taken_from(pipeline, self.registry, name)  # read behind the release
        digest = put_list(pipeline, gone, name, hashes)
        fault_point("acknowledge.after_list")
        before = self.register.taken.get(name, "")
        register = self.registry.change(lambda now: with_taken(now, name, digest, before))
        if register.taken.get(name) != digest:
            raise PlanOutdated(f"somebody else has just acknowledged rows of {name}: run it again")
        fault_point("acknowledge.after_register")
        tidy_lists(pipeline, gone, name, digest)
        if newest is not None:
            with lake_errors(f"write into {lake / copies.FOLDER}"):
                copies.note_verified(lake, CleanVerification(newest.number, clean=newest.number))
        table = OutputTable(lake, "joined_events")
        is_open = others_took_rows(pipeline, name, table, retired)
        return replace(self.expected, rows=len(hashes), ended=ended, is_open=is_open)


def plan_acknowledgement_of_rows(
    pipeline: Pipeline, registry: IdRegistry, datacenter: str
) -> AcknowledgementPlan:
    """Look for what the datacenter's table lacks. NotAcknowledged, LakeUnavailable, RegistryUnavailable."""
    register = registry.read_register()
    if datacenter in register.lakes_gone:
        raise NotAcknowledged(
            f"datacenter {datacenter} is retired, and its rows count no more: the others join their events "
            f"again, by photon recover {pipeline.typed}. To keep one away, delete its row there, and "
            "acknowledge the rows of that datacenter"
        )
    hashes = taken_from(pipeline, registry, datacenter)
    expected = AcknowledgedRows(len(hashes), _facts_of_taken_rows(pipeline, datacenter, register.given_up))
    return AcknowledgementPlan(pipeline, registry, register, datacenter, expected)


def _facts_of_taken_rows(pipeline: Pipeline, datacenter: str, retired: Collection[str]) -> tuple[str, ...]:
    """Tell what an acknowledgement ends. NotAcknowledged where rows were altered too: they stay wrong."""
    with lake_errors(f"read the releases in {pipeline.datacenters[datacenter].lake}"):
        found = open_facts(pipeline, datacenter, retired, newest_part(pipeline, datacenter, retired))
    if altered := next((one for one in found if one.kind == "changed"), None):
        raise NotAcknowledged(
            f"{altered.sentence}: nobody can acknowledge rows that were altered. "
            f"photon verify {pipeline.typed} names them, with the command that makes them right; once it "
            "finds nothing wrong, delete what is to go, and acknowledge that"
        )
    return tuple(one.sentence for one in found)


def taken_from(pipeline: Pipeline, registry: IdRegistry, datacenter: str) -> Hashes:
    """The joins of a datacenter that have no row in its table.

    Joins are read first: the row of one is in each later snapshot, or somebody took it. NotAcknowledged: what
    was claimed is not closed yet. LakeUnavailable, RegistryUnavailable.
    """
    registry.read_on()
    table = OutputTable(pipeline.datacenters[datacenter].lake, "joined_events")
    if not table.exists():
        raise NotAcknowledged(f"there is no table {table.folder}: put the lake back")
    _refuse_unclosed(pipeline, registry, table, datacenter)
    joins = [NO_HASHES]
    for some in registry.view.ids_of(datacenter):
        joins.append(some[registry.holders(some).are_joins])
    found = np.concatenate(joins)
    among, has_row = HashSet(found), np.zeros(len(found), bool)
    for page in CommittedRows(table).all_pages(ROWS_AT_ONCE):
        at = among.rows(hashes_of(page["_event_id"]))
        has_row[at[at >= 0]] = True
    return found[~has_row]


def _refuse_unclosed(pipeline: Pipeline, registry: IdRegistry, table: OutputTable, datacenter: str) -> None:
    """NotAcknowledged where a batch that the table has lacks a row of what it claimed: it is no join yet."""
    rows = RowsOfPlans(table)
    for state in newest_states(registry.view):
        for at, one in state.unclosed.items():
            (name, number), batch = one.claimant.epoch, one.claimant.batch
            if name != datacenter or batch > batch_of(table.version_of(app_id(name, str(number)))):
                continue
            if rows(at, one).any():
                raise NotAcknowledged(
                    f"batch {batch} of datacenter {datacenter} is not closed yet, and some of its rows are "
                    f"missing: have it run for a moment, then again: photon acknowledge {pipeline.typed} "
                    f"{datacenter} --rows"
                )
