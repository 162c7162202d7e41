"""A datacenter's driver as the ledgers see it: claim, commit, close; epochs that begin after others ended.

A stand-in for the join, which does not use ledgers yet. What it calls of `photon.ledger` is the real code.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import NamedTuple

from photon.ledger.claiming import EpochOver, claim
from photon.ledger.closing import Closing, close_batches, end_epoch
from photon.ledger.entry import Claimant, Entry, Epoch, Free
from photon.ledger.errors import RegistryUnavailable, RetiredDatacenter
from photon.ledger.fold import LedgerState
from photon.ledger.register import Register, with_epoch
from photon.ledger.rolling import everywhere
from photon.ledger.view import View, catch_up
from tests.ledger.simulated_positions import SimulatedPositions
from tests.ledger.simulated_world import FENCED, Record, RuleBroken, Table, World


class Plan(NamedTuple):
    """What the open batch has."""

    name: str
    records: tuple[Record, ...]


@dataclass
class StateFolder:
    """What a datacenter keeps on disk: it may be copied, and the copy runs. `done`: numbers of records."""

    datacenter: str
    epoch: Epoch | None = None
    batch: int = 0  # the last one that is closed
    plan: Plan | None = None
    done: set[int] = field(default_factory=set)
    view: View | None = None


class Ended(Exception):
    """This process ends: another one has its epoch, or nothing is left to do."""


class Driver:
    """One process over a state folder."""

    def __init__(self, world: World, folder: StateFolder, positions: SimulatedPositions) -> None:
        self.world, self.folder, self.positions = world, folder, positions
        self.pause = positions.pause
        self.table: Table = world.tables[folder.datacenter]
        self.view = kept_or_new_view(world, folder.view)

    def run(self) -> None:
        """Start, and go on until it ends; who is not answered starts again, or tries again."""
        is_started = False
        while True:
            try:
                if not is_started:
                    self.start()
                    is_started = True
                self.batch()
            except (Ended, EpochOver, RetiredDatacenter):
                return
            except RegistryUnavailable:
                if self.world.chance.random() < 0.3:
                    return

    def start(self) -> None:
        """See whether the state goes on where it stopped; else begin an epoch (A13, L10)."""
        catch_up(self.view, self.positions)
        folder, epoch = self.folder, self.folder.epoch
        if epoch is not None and not self.view.is_over(epoch):
            version = self.table.versions[epoch]
            goes_on = version in (folder.batch, folder.batch + 1)
            if goes_on and self.view.closed_through(epoch) <= version:
                return
        self.begin_epoch()

    def begin_epoch(self) -> None:
        """Take the next number, end all epochs before it, and commit batch 0 of it (L4)."""
        handed_out: list[Epoch] = []

        def change(register: Register) -> Register:
            register, epoch = with_epoch(register, self.folder.datacenter, self.table.newest)
            handed_out.append(epoch)
            return register

        self.view.note(self.positions.change(change))
        epoch = handed_out[-1]
        end_epochs(self.world, self.view, self.positions, Epoch(epoch.datacenter, epoch.number - 1))
        look_at_ended(self.world, Epoch(epoch.datacenter, epoch.number - 1))
        self.pause()
        if not self.table.begin(epoch):
            raise Ended
        self.pause()
        self.world.tell(f"epoch {epoch} begins")
        folder = self.folder
        folder.epoch, folder.batch, folder.plan, folder.done = epoch, 0, None, set()
        self.pause()

    def batch(self) -> None:
        """Plan a batch, or take up the open one, and see it through to its close."""
        folder = self.folder
        assert folder.epoch is not None
        self.pause()
        catch_up(self.view, self.positions)
        if self.view.is_over(folder.epoch):
            raise EpochOver(folder.epoch)
        if self.world.is_quiet or self.world.chance.random() < 0.2:
            end_what_is_over(self.world, self.view, self.positions)
        if not self.world.is_quiet and self.world.chance.random() < 0.04:
            self._lose_a_row()
        if folder.plan is None:
            folder.plan = self._plan()
        if folder.plan is None:
            return
        batch, (plan, records) = folder.batch + 1, folder.plan
        claimant = Claimant(folder.epoch, batch, plan)
        self._commit(claimant, records)
        self.pause()
        close_batches(
            self.view, self.positions, Closing(folder.epoch, batch, self.world.rowless(folder.datacenter))
        )
        final = self._final(claimant, records)
        if self.world.chance.random() < 0.15:
            folder.view = copy.deepcopy(self.view)
        folder.done, folder.batch, folder.plan = folder.done | final, batch, None

    def _lose_a_row(self) -> None:
        """Have the table lose a row, and free its id, so that it is joined again (L11)."""
        if not self.table.rows:
            return
        row = self.world.chance.choice(self.table.rows)
        hashes = self.world.hashes[[row.id]]
        self.table.rows.remove(row)
        self.world.lost.add((row.id, row.claimant))
        self.world.tell(f"{row} is lost")
        self.folder.done -= {one.number for one in self.world.records if one.id == row.id}
        self.pause()

        def is_held(state: LedgerState) -> bool:
            found = self.view.holders(hashes)
            return bool((state.covers(hashes) & found.are_joins & found.are_of(row.claimant)).any())

        def make(state: LedgerState) -> Entry:
            return Entry(frees=tuple(Free(*at, hashes) for at in self.view.holders(hashes).claimants))

        everywhere(self.view, self.positions, make, is_held)

    def _plan(self) -> Plan | None:
        chance, here = self.world.chance, self.world.records[: self.world.arrived]
        left = [one for one in here if one.number not in self.folder.done]
        if left:
            some = [one for one in left if chance.random() < 0.7] or left[:1]
            chance.shuffle(some)
            return Plan(self.world.name("plan"), tuple(some))
        if self.world.is_quiet:
            raise Ended
        return None

    def _commit(self, claimant: Claimant, records: tuple[Record, ...]) -> None:
        """Have the batch's rows committed; Ended if a copy of this state has committed another plan (A15)."""
        version = self.table.versions[claimant.epoch]
        if version >= claimant.batch:
            if self.table.plans.get((claimant.epoch, claimant.batch)) != claimant.plan or version == FENCED:
                self.folder.epoch = None
                raise Ended
            return
        holders = claim(self.view, self.positions, self.world.claims(claimant, records))
        self.pause()
        own = [one for one, is_own in zip(records, holders.are_of(claimant), strict=True) if is_own]
        # Which of an id's records counted is in its entry: the oldest of them, or a younger one.
        rows = {one.id: one for one in sorted(own, key=lambda one: -one.time_us)}
        if not self.table.commit(claimant, list(rows.values())):
            raise Ended
        self.world.tell(f"{claimant} commits rows of ids {sorted(rows)}")

    def _final(self, claimant: Claimant, records: tuple[Record, ...]) -> set[int]:
        """The records that nothing more is to be done about."""
        claims = self.world.claims(claimant, records)
        holders = self.view.holders(claims.hashes, claims.times_us)
        own = {row.id for row in self.table.rows if row.claimant == claimant}
        are_final = holders.are_joins | holders.are_too_old
        return {
            one.number for one, is_final in zip(records, are_final, strict=True) if is_final or one.id in own
        }


def kept_or_new_view(world: World, kept: View | None) -> View:
    """A copy of a view that was kept, or a new one; under a name of its own."""
    writer = world.name("writer")
    if kept is None or world.chance.random() < 0.3:
        return View(world.stores.register, writer)
    view = copy.deepcopy(kept)
    view.writer = writer
    return view


def end_epochs(world: World, view: View, positions: SimulatedPositions, last: Epoch) -> None:
    """End a datacenter's epochs up to this one: fence each, close it everywhere (L4, E1)."""
    table = world.tables[last.datacenter]
    if last.number == 0:
        return
    for number in range(1, last.number + 1):
        table.fence(Epoch(last.datacenter, number))
        positions.pause()
    world.tell(f"{view.writer} ends the epochs of {last.datacenter} up to {last.number}")
    rowless = world.rowless(last.datacenter)
    if world.chance.random() < 0.5:
        end_epoch(view, positions, last, rowless)
    for number in range(1, last.number + 1):
        epoch = Epoch(last.datacenter, number)
        if number == last.number or any(state.unclosed_of(epoch) for state in view.states.values()):
            end_epoch(view, positions, epoch, rowless)


def look_at_ended(world: World, last: Epoch) -> None:
    """An epoch that was ended claims nothing in any ledger (L4)."""
    view = View(world.stores.register, "looks at what has ended")
    catch_up(view, world.stores.calm())
    for ledger, state in view.states.items() if last.number else ():
        if state.takes_entries and not state.is_over(last):
            raise RuleBroken(f"epoch {last} was ended, and goes on in {ledger}")
        if ledger.generation == 0 and not state.is_open:
            raise RuleBroken(f"epoch {last} was ended, and may open {ledger}")


def end_what_is_over(world: World, view: View, positions: SimulatedPositions) -> None:
    """Finish for those who died: what an epoch that is over holds and has not closed (L4)."""
    unclosed = {
        one.claimant.epoch
        for state in view.states.values()
        if not state.is_sealed
        for one in state.unclosed.values()
    }
    for epoch in sorted(unclosed):
        if view.is_over(epoch):
            end_epochs(world, view, positions, epoch)
