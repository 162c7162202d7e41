"""Put the ids of all rows back into a registry that is older than the lakes, or new (protocol B19, L10).

the register: a refill has begun               -> no epoch begins, nothing that is appended counts
every table: its epochs fenced                 -> no batch is committed any more (E1)
ledgers of a new incarnation: every row's id   -> what the old ones hold without a row is free
                     and the last release      -> no number of a release is used again (R5)
the register: the new ledgers, epochs above    -> each datacenter begins a new epoch (A13)

Killed in between, joins stay refused until it has run to its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from photon.dispatcher.recovery.registry_watch import RowClaims, claims_of_rows
from photon.dispatcher.recovery.rows_of_plans import RowsOfPlans
from photon.dispatcher.recovery.second_rows import note_second_rows
from photon.dispatcher.refusals import refuse_missing_datacenters, refuse_place_of_another
from photon.dispatcher.shift.lease import lease_status_of
from photon.pipeline.file import Pipeline
from photon.process.clock import SystemClock
from photon.process.errors import UserError
from photon.process.faults import fault_point
from photon.process.readable import counted
from photon.registry.entry import Claimant, Claims, Epoch, LedgerId, Mask
from photon.registry.errors import RegistryMismatch
from photon.registry.id_registry import IdRegistry
from photon.registry.known_tables import known_tables
from photon.registry.opening import newest_incarnation, stored_views
from photon.registry.refilling import (
    FilledLedgers,
    as_filled,
    begin_ledgers,
    put_back,
    with_refill_begun,
    with_refill_ended,
)
from photon.registry.register import Register, with_list_again
from photon.registry.taken_rows import lists_in_lakes, put_list
from photon.registry.view import View, current_register
from photon.releases.at_once import copies_in_lakes, refilled
from photon.releases.numbering import lacked, last_release, numbered
from photon.releases.release import Release
from photon.state.database import STATE_FILE
from photon.state.points import mark
from photon.state.view import open_view
from photon.storage.delta import LakeUnavailable
from photon.storage.joined_rows import CommittedRows
from photon.storage.tables import CommitConflict, OutputTable, app_id, fence_epoch
from photon.storage.tokens import Occurrence
from photon.upkeep.plans import Say, refuse_outdated, silent

PAGE_ROWS = 10_000  # compared together: bounds memory
DOUBLES_TOLD = 10  # `--json` names no more either


class NotRefilled(UserError):
    """The registry can't be refilled so; the message says why, and what to do."""


@dataclass
class Refilled:
    """The result of a refill."""

    rows: int = 0
    put_back: int = 0  # ids that the registry did not have
    too_old: int = 0  # rows below the boundary, whose ids the registry need not have
    released: int = 0  # ids that were held by a claim without a row, and have their row's now
    doubles: list[str] = field(default_factory=list)  # ids whose holder has a row too: their event has two
    began: bool = False  # whether anything had to be changed

    def as_dict(self) -> dict[str, object]:
        """All of it, by name."""
        return {
            "rows": self.rows,
            "put_back": self.put_back,
            "released": self.released,
            "too_old": self.too_old,
            "doubles": self.doubles[:DOUBLES_TOLD],
            "doubles_count": len(self.doubles),
            "new_epochs": self.began,
        }


@dataclass(frozen=True)
class RefillPlan:
    """A refill to come. Nothing is to be changed if the registry has the id of every row."""

    register: Register  # when the plan was made
    work: _Refill
    second_rows: Mapping[str, Mapping[str, str]]  # ids of second rows by their tokens, by datacenter
    expected: Refilled

    def apply(self, say: Say = silent) -> Refilled:
        """Put back what the registry does not have. May be killed and run again.

        PlanOutdated, NotRefilled, RegistryMismatch, LakeUnavailable, RegistryUnavailable.
        """
        done, second_rows, work = self.expected, self.second_rows, self.work
        if done.began:
            _refuse_beside_joins(work.pipeline)
            refuse_outdated(self.register, current_register(work.registry.positions))
            work.say = say
            done = work.run(self.register, self.expected)
            second_rows = work.second_rows
            says = f"{counted(done.put_back, 'id')} put back, {done.released:,} taken from who has no row"
            mark(work.pipeline, work.tables, "refill", says)
        _note_second_rows(work.pipeline, second_rows)
        return done


def plan_refill(
    pipeline: Pipeline, registry: IdRegistry, page_rows: int = PAGE_ROWS, say: Say = silent
) -> RefillPlan:
    """Compare the registry with all rows. Every datacenter has to be stopped, and every lake there.

    `registry`: with a view that has read nothing (`open_reader(pipeline, from_stored=False)`). NotRefilled,
    PlaceTaken, RegistryMismatch, LakeUnavailable, RegistryUnavailable.
    """
    register = registry.read_register()
    refuse_missing_datacenters(pipeline, register)
    _refuse_rows_of_nobody(pipeline, register)
    tables = _tables(pipeline, register)
    _refuse_beside_joins(pipeline)
    work = _Refill(pipeline, registry, tables, page_rows, say)
    expected = work.look()
    is_known = register.tables.keys() >= tables.keys()
    is_behind = bool(expected.put_back or expected.released) or _is_behind_a_view(pipeline, work.registry)
    expected.began = is_behind or not is_known or register.is_refilling or work.lacks_releases()
    return RefillPlan(register, work, dict(work.second_rows), expected)


def _is_behind_a_view(pipeline: Pipeline, registry: IdRegistry) -> bool:
    """Whether the registry has less than a datacenter has read of it, though it has the ids of all rows."""
    try:
        for view in stored_views(pipeline, registry.register):
            IdRegistry(registry.positions, view).read_on()
    except RegistryMismatch:
        return True
    return False


def _note_second_rows(pipeline: Pipeline, second_rows: Mapping[str, Mapping[str, str]]) -> None:
    """Have the status of each datacenter whose state is here tell of its second rows."""
    for name, place in pipeline.datacenters.items():
        if second_rows.get(name) and place.state.is_dir():
            with suppress(OSError):  # the command says it too
                note_second_rows(place.state, second_rows[name])


def _tables(pipeline: Pipeline, register: Register) -> dict[str, OutputTable]:
    """The tables whose rows count, by datacenter; each can be read. NotRefilled, PlaceTaken.

    A refill fences them, which would end the epochs of another pipeline.
    """
    found: dict[str, OutputTable] = {}
    for name, place in pipeline.datacenters.items():
        if name in register.lakes_gone:
            continue  # rows of a lake that is gone don't count
        table = OutputTable(place.lake, "joined_events")
        try:
            table_id = table.table_id() if table.exists() else None
            refuse_place_of_another(f"the table {table.folder}", table.pipeline(), pipeline, name)
        except LakeUnavailable as error:
            raise NotRefilled(
                f"the lake of datacenter {name} can't be read: {error}; then again: "
                f"photon registry refill {pipeline.typed}"
            ) from error
        known = register.tables.get(name)
        has_joined = known is not None or (place.state / STATE_FILE).exists()
        if table_id is None:
            if has_joined:
                raise NotRefilled(
                    f"datacenter {name} has joined, and its table {table.folder} is not there: put its lake "
                    f"back, then again: photon registry refill {pipeline.typed}. Before that, "
                    f"{pipeline.if_lake_is_lost(name)}"
                )
            continue
        if known is not None and table_id != known:
            raise NotRefilled(
                f"the table {table.folder} is not the one that the registry knows of datacenter {name}: put "
                f"its lake back, then again: photon registry refill {pipeline.typed}"
            )
        found[name] = table
    return found


def _refuse_rows_of_nobody(pipeline: Pipeline, register: Register) -> None:
    """NotRefilled if rows count whose datacenter was retired with its lake, and then left out of the file."""
    for name in sorted(known_tables(register).keys() - pipeline.datacenters.keys()):
        raise NotRefilled(
            f"datacenter {name} was retired with its rows, which count, and {pipeline.file} lacks it: their "
            "ids would be lost. Put it back into the file for the refill, with its lake, then again: "
            f"photon registry refill {pipeline.typed}. If its lake is lost for good, before that: "
            f"photon retire {pipeline.typed} {name} --lake-is-gone"
        )


def _refuse_beside_joins(pipeline: Pipeline) -> None:
    for name, place in pipeline.datacenters.items():
        status = lease_status_of(place.state)
        if status.is_locked:
            process = (
                f"process {status.lease.process} on {status.lease.host}" if status.lease else "a process"
            )
            raise NotRefilled(
                f"datacenter {name} is run by {process}: stop it first (under Dagster, its sensor too), then "
                f"again: photon registry refill {pipeline.typed}"
            )


@dataclass
class _Refill:
    """One look at all tables, and the run that follows it."""

    pipeline: Pipeline
    registry: IdRegistry
    tables: dict[str, OutputTable]
    page_rows: int
    say: Say
    # Ids of second rows by their tokens, by datacenter.
    second_rows: dict[str, dict[str, str]] = field(default_factory=dict)
    _rows_of: dict[str, RowsOfPlans] = field(default_factory=dict)

    def look(self) -> Refilled:
        """Find what the registry lacks now. Nothing is changed."""
        found = Refilled()
        try:
            self.registry.read_on()
        except RegistryMismatch:  # the registry does not agree with itself: the rows tell what it has
            self.registry = IdRegistry(self.registry.positions, View(self.registry.register, "refill"))
        view = self.registry.view
        for claims in self._claims(found, "looked at"):
            holders = view.holders(claims.hashes)
            is_own, boundary_us = holders.are_of(claims.claimant), view.register.boundary_us
            is_old = ~is_own & (claims.times_us < boundary_us)
            found.too_old += int(is_old.sum())
            found.put_back += int((~holders.are_held & ~is_old).sum())
            for claimant in sorted({*holders.claimants.values()} - {claims.claimant}):
                held = claims.take(holders.are_of(claimant))
                has_row = self._have_rows(claimant, held)
                found.released += int((~has_row).sum())
                self._note_doubles(found, held.take(has_row), claimant)
        return found

    def run(self, register: Register, found: Refilled) -> Refilled:
        """Put back the ids of all rows, into ledgers of a new incarnation."""
        registry = self.registry
        # A clock that was set back since an earlier refill must not make this one older than its views.
        least = max(SystemClock().now_us(), newest_incarnation(self.pipeline))
        incarnation = registry.positions.change(lambda now: with_refill_begun(now, least)).filling
        fault_point("refill.after_begun")
        if register.filling:  # a run that died
            self._forget_first(register, register.filling)
        epochs = {name: self._fence(name, register) for name in sorted({*self.tables, *register.epochs})}
        fault_point("refill.after_fence")
        filled = FilledLedgers(registry.positions, incarnation)
        view = View(as_filled(filled.attempt().confirm(), incarnation), registry.view.writer)
        newest = self._newest_release()
        first = None if newest is None else numbered(refilled(newest, SystemClock().now_us()))
        begin_ledgers(view, filled, epochs, first)
        done = Refilled(put_back=found.put_back, released=found.released, too_old=found.too_old, began=True)
        self.second_rows = {}
        for claims in self._claims(done, "in the registry"):
            put_back(view, filled, [_as_joins(claims)])
            self._note_second_rows(done, view, claims)
            fault_point("refill.after_page")
        self._put_lists_back(view, filled, epochs)
        fault_point("refill.before_switch")
        tables = {name: table.table_id() for name, table in self.tables.items()}
        registry.positions.change(lambda now: with_refill_ended(now, incarnation, epochs, tables))
        fault_point("refill.after_switch")
        self._forget(register)
        return done

    def _claims(self, done: Refilled, what: str) -> Iterator[RowClaims]:
        """Read the claims of all rows page by page; each table when it has its turn."""
        for datacenter, table in self.tables.items():
            for page in CommittedRows(table).all_pages(self.page_rows):
                yield from claims_of_rows(page, datacenter, self.pipeline.foreign)
                done.rows += page.num_rows
                self.say(f"{counted(done.rows, 'row')} {what}")

    def _put_lists_back(self, view: View, filled: FilledLedgers, epochs: Mapping[str, int]) -> None:
        """Joins that stay without a row are joins again, of what lakes have; rows come first (E13)."""
        gone, now_us = self.registry.register.lakes_gone, SystemClock().now_us()
        for name, hashes in lists_in_lakes(self.pipeline, gone).items():
            many = len(hashes)
            places = (np.zeros(many, np.uint32), np.zeros(many, np.int64))
            plan = Claimant(Epoch(name, max(1, epochs.get(name, 1) - 1)), 0, "taken")
            put_back(view, filled, [Claims(plan, hashes, np.full(many, now_us), *places)])
            digest = put_list(self.pipeline, gone, name, hashes)
            self.registry.positions.change(partial(with_list_again, datacenter=name, digest=digest))

    def lacks_releases(self) -> bool:
        """Whether a lake has a release that the registry lacks."""
        return lacked(self.registry, copies_in_lakes(self.pipeline)) is not None

    def _newest_release(self) -> Release | None:
        """The last release that a lake or the registry knows."""
        last = last_release(self.registry.view)
        known = [*copies_in_lakes(self.pipeline), *([] if last is None else [last])]
        return max(known, key=lambda one: one.number, default=None)

    def _fence(self, datacenter: str, register: Register) -> int:
        """Fence every epoch that register, table or state know: a number above them. NotRefilled."""
        known = [register.epochs.get(datacenter, 0)]
        known += [epoch.number for epoch in self._claiming() if epoch.datacenter == datacenter]
        place = self.pipeline.datacenters.get(datacenter)
        if place is not None:
            with open_view(place.state) as state:
                known += [int(state.epoch)] if state is not None and state.epoch else []
        table = self.tables.get(datacenter)
        if table is not None:
            known += map(int, CommittedRows(table).epochs())
            while table.knows(app_id(datacenter, str(max(known) + 1))):  # an epoch may have committed no row
                known.append(max(known) + 1)
            # Also the last one, which nobody has begun: ledgers call it over, and so must the table.
            for number in range(1, max(known) + 2):
                self._fence_one(table, datacenter, number)
        return max(known) + 1

    def _claiming(self) -> set[Epoch]:
        view = self.registry.view
        return {one.epoch for ledger in view.claimants.ledgers() for _, one in view.claimants.items(ledger)}

    def _fence_one(self, table: OutputTable, datacenter: str, number: int) -> None:
        """NotRefilled, LakeUnavailable."""
        try:
            fence_epoch(table.folder.parent, datacenter, str(number))
        except CommitConflict as error:
            raise NotRefilled(
                f"the table of datacenter {datacenter} was just written: {error}; stop who writes it, then "
                f"again: photon registry refill {self.pipeline.typed}"
            ) from error

    def _forget(self, register: Register) -> None:
        """Delete the ledgers that are the registry no more."""
        live = [one for g in register.live_generations for one in register.ledgers(g)]
        self.registry.positions.forget(live, register.incarnation)

    def _forget_first(self, register: Register, incarnation: int) -> None:
        """Delete the ledgers that a refill has begun."""
        first = [LedgerId(0, number) for number in range(register.generations[-1].ledgers)]
        self.registry.positions.forget(first, incarnation)

    def _have_rows(self, claimant: Claimant, held: RowClaims) -> Mask:
        """Which of these ids have a row of that plan; nobody can say it of a datacenter without a table."""
        name = claimant.epoch.datacenter
        if name not in self.tables:
            counts = name not in self.pipeline.datacenters and name not in self.registry.register.lakes_gone
            return np.full(len(held.hashes), counts)
        if name not in self._rows_of:
            self._rows_of[name] = RowsOfPlans(self.tables[name])
        return self._rows_of[name].have_rows(claimant, held.hashes)

    def _note_second_rows(self, done: Refilled, view: View, claims: RowClaims) -> None:
        holders = view.holders(claims.hashes)
        for claimant in sorted({*holders.claimants.values()} - {claims.claimant}):
            self._note_doubles(done, claims.take(holders.are_of(claimant)), claimant)

    def _note_doubles(self, done: Refilled, second: RowClaims, holder: Claimant) -> None:
        name = second.claimant.epoch.datacenter
        for index in range(len(second.hashes)):
            id_, token = second.event_id(index), second.token(index)
            self.second_rows.setdefault(name, {})[token] = id_
            done.doubles.append(f"{id_}: the row of {token}, and that of {holder}, which holds the id")


def _as_joins(claims: RowClaims) -> Claims:
    places = [Occurrence.parse(text) for text in claims.rows["_occurrence"].to_pylist()]
    files = np.array([place.file_number for place in places], np.uint32)
    offsets = np.array([place.offset_bytes for place in places], np.int64)
    return Claims(claims.claimant, claims.hashes, claims.times_us, files, offsets)
