"""Give a datacenter up for good: what it holds without a row is free (protocol E2, E6).

the register: given up                      -> no epoch of it begins any more
its table, if there is one: fenced          -> no batch of it is committed any more (E1)
every ledger: its epochs closed for ever    -> no claim of it counts any more; what has no row is free (L4)
if the lake is gone: its joins are freed    -> the others may join them (L11)
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from photon.dispatcher.recovery.rows_of_plans import rowless_unless_taken
from photon.pipeline.file import Pipeline
from photon.pipeline.location import Location
from photon.process.clock import SystemClock
from photon.process.faults import fault_point
from photon.process.readable import counted
from photon.registry.closing import Rowless
from photon.registry.entry import Epoch
from photon.registry.epochs import end_epochs, give_up_epochs
from photon.registry.holds import HashSet
from photon.registry.id_registry import IdRegistry
from photon.registry.register import Register, with_given_up
from photon.registry.taken_rows import listed
from photon.registry.view import current_register, newest_states
from photon.releases import copies
from photon.releases.at_once import release_now
from photon.releases.foreign_commits import others_took_rows
from photon.releases.numbering import last_release
from photon.state.points import mark
from photon.storage.delta import lake_errors
from photon.storage.tables import CommitConflict, OutputTable, fence_epoch
from photon.upkeep.plans import Say, refuse_outdated, silent
from photon.upkeep.retirable import NotRetired, table_that_counts


@dataclass(frozen=True, slots=True)
class Retired:
    """The result of retiring: ids that are free again, and ids with a row that counts.

    `rows`: of its table, which stay and count; None: the lake is gone. `was_retired`: an earlier run has
    retired it, and may have died before it had freed all.
    """

    released: int
    kept: int
    rows: int | None
    was_retired: bool = False


@dataclass(frozen=True)
class RetirePlan:
    """A retirement to come. `table`: its rows stay and count; None: its lake is gone."""

    pipeline: Pipeline
    registry: IdRegistry
    register: Register  # when the plan was made
    datacenter: str
    table: OutputTable | None
    expected: Retired  # as far as known: a batch that is just being committed would be fenced

    def apply(self, say: Say = silent) -> Retired:
        """Retire the datacenter; may be killed and run again.

        PlanOutdated, NotRetired, LakeUnavailable, RegistryUnavailable.
        """
        registry, datacenter, table = self.registry, self.datacenter, self.table
        refuse_outdated(self.register, current_register(registry.positions))
        register = registry.change(lambda now: with_given_up(now, datacenter, table is None))
        fault_point("retire.after_register")
        registry.read_on()
        held, last_epoch = _count_ids(registry, datacenter), register.epochs[datacenter]
        say(f"ends {counted(last_epoch, 'epoch')} of datacenter {datacenter}; held: {counted(held, 'id')}")
        if table is None:
            give_up_epochs(registry, datacenter, last_epoch)
        else:
            snapshot = partial(_rowless, self.pipeline, datacenter, table)
            end_epochs(registry, datacenter, last_epoch, partial(_fence, table), snapshot)
            _keep_last_release(registry, table.folder.parent)
        fault_point("retire.after_close")
        if table is None:
            _free_all(registry, datacenter, listed(self.pipeline, register), say)
            release_now(self.pipeline, registry, datacenter, SystemClock())
        kept = _count_ids(registry, datacenter)
        done = replace(self.expected, released=max(0, held - kept), kept=kept, rows=_count_rows(table))
        says = f"it never runs again; {counted(kept, 'id', 'keep')} a row"
        mark(self.pipeline, [datacenter], "retired", says)
        return done


def plan_retire(
    pipeline: Pipeline, registry: IdRegistry, datacenter: str, lake_is_gone: bool = False
) -> RetirePlan:
    """Plan a retirement. NotRetired, LakeUnavailable, RegistryUnavailable."""
    register = registry.read_register()
    table = table_that_counts(pipeline, datacenter, register, lake_is_gone)
    registry.read_on()
    held = _count_ids(registry, datacenter)
    rowless = None if table is None else _rowless(pipeline, datacenter, table)
    released = held if rowless is None else _count_rowless(registry, datacenter, rowless)
    expected = Retired(released, held - released, _count_rows(table), datacenter in register.given_up)
    return RetirePlan(pipeline, registry, register, datacenter, table, expected)


def _rowless(pipeline: Pipeline, datacenter: str, table: OutputTable) -> Rowless:
    """LakeUnavailable."""
    return rowless_unless_taken(table, partial(others_took_rows, pipeline, datacenter, table, [datacenter]))


def _fence(table: OutputTable, epoch: Epoch) -> None:
    """NotRetired, LakeUnavailable."""
    try:
        fence_epoch(table.folder.parent, epoch.datacenter, str(epoch.number))
    except CommitConflict as error:
        raise NotRetired(f"its table was just written: {error}; run it again") from error


def _keep_last_release(registry: IdRegistry, lake: Location) -> None:
    """Put a copy into a lake that gets no more: without any, readers would wait for one that it made (R10).

    LakeUnavailable.
    """
    last = last_release(registry.view)
    with lake_errors(f"store the last release in {lake}"), suppress(copies.OtherRelease):
        copies.put(lake, [] if last is None else [last])


def _free_all(registry: IdRegistry, datacenter: str, stay: HashSet, say: Say) -> None:
    """Free what it has joined: its rows count no more. But those that `stay` without a row (E13)."""
    freed = 0
    for hashes in list(registry.view.ids_of(datacenter)):  # before any of it is freed
        hashes = hashes[~stay.has(hashes)]
        registry.free(hashes, lambda claimant: claimant.epoch.datacenter == datacenter)
        freed += len(hashes)
        say(f"frees the joins of datacenter {datacenter}: {freed:,}")
        fault_point("retire.after_freed")


def _count_ids(registry: IdRegistry, datacenter: str) -> int:
    return sum(map(len, registry.view.ids_of(datacenter)))


def _count_rowless(registry: IdRegistry, datacenter: str, rowless: Rowless) -> int:
    return sum(
        int(rowless(at, one).sum())
        for state in newest_states(registry.view)
        for at, one in state.unclosed.items()
        if one.claimant.epoch.datacenter == datacenter
    )


def _count_rows(table: OutputTable | None) -> int | None:
    if table is None:
        return None
    with table.reading():
        return int(table.load().to_pyarrow_dataset().count_rows())
