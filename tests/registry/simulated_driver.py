"""A datacenter's driver as the ledgers see it: claim, commit, close; epochs that begin after others ended.

It stands for the join, and calls the real code of `photon.registry`.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from photon.registry import epochs
from photon.registry.closing import Closing
from photon.registry.entry import Claimant, Claims, Epoch
from photon.registry.errors import RegistryUnavailable, RetiredDatacenter
from photon.registry.id_registry import EpochOver, IdRegistry
from photon.registry.lookups import Hold
from photon.registry.view import View, catch_up
from tests.registry.simulated_positions import Pause, SimulatedPositions
from tests.registry.simulated_releases import copy_releases, look_at_start, make_release
from tests.registry.simulated_world import FENCED, Record, RuleBroken, Table, World

RELEASES = 0.3  # made at so many looks for work
SYNCS_SLOWLY, SLOW_SYNC = 0.1, 60  # the chance of it, and how often others may go on meanwhile


class Plan(NamedTuple):
    """The plan of the open batch."""

    name: str
    records: tuple[Record, ...]


@dataclass
class StateFolder:
    """A datacenter's state on disk, which may be copied and run as a copy. `done`: numbers of records."""

    datacenter: str
    epoch: Epoch | None = None
    batch: int = 0  # the last one that is committed, or behind that of an open plan
    plan: Plan | None = None
    done: set[int] = field(default_factory=set)
    view: View | None = None

    def copied(self) -> StateFolder:
        """Copy the folder; another process may go on with the copy."""
        return replace(self, done=set(self.done), view=None if self.view is None else copy_of(self.view))


class Ended(Exception):
    """This process ends: another one has its epoch, or nothing is left to do."""


class Driver:
    """One process over a state folder."""

    def __init__(self, world: World, folder: StateFolder, positions: SimulatedPositions) -> None:
        self.world, self.folder = world, folder
        self.pause = positions.pause
        self.table: Table = world.tables[folder.datacenter]
        self.registry = IdRegistry(positions, kept_or_new_view(world, folder.view))

    def run(self) -> None:
        """Start, and go on until the end; where nobody answers, start again, or try again."""
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
        self.registry.catch_up()
        look_at_start(self.world, self.folder.datacenter, self.registry)
        folder, epoch = self.folder, self.folder.epoch
        if epoch is not None and epochs.is_live(self.registry, epoch):
            version = self.table.versions[epoch]
            goes_on = version in (folder.batch, folder.batch + 1)
            if goes_on and self.registry.view.closed_through(epoch) <= version:
                return
        self.begin_epoch()

    def begin_epoch(self) -> None:
        """Take the next number, end all epochs before it, and commit batch 0 of it (L4)."""
        datacenter = self.folder.datacenter
        epoch = epochs.begin_epoch(self.registry, datacenter, self.table.newest, "table")
        end_epochs(self.world, self.registry, Epoch(datacenter, epoch.number - 1), self.pause)
        look_at_ended(self.world, Epoch(datacenter, epoch.number - 1))
        self.pause()
        if not self.table.begin(epoch):
            raise Ended
        self.pause()
        self.world.tell(f"epoch {epoch} begins")
        folder = self.folder
        folder.epoch, folder.batch, folder.plan, folder.done = epoch, 0, None, set()
        self.pause()

    def batch(self) -> None:
        """Plan a batch, or take up the open one, and commit it. The close rides with a claim or is alone."""
        folder, chance = self.folder, self.world.chance
        assert folder.epoch is not None
        self.pause()
        self.registry.read_on()
        if self.registry.view.is_over(folder.epoch):
            raise EpochOver(folder.epoch)
        copy_releases(self.world, folder.datacenter, self.registry.view)
        if chance.random() < RELEASES:
            make_release(self.world, self.registry, folder.epoch, folder.batch, self.pause)
        if self.world.is_quiet or chance.random() < 0.2:
            end_what_is_over(self.world, self.registry, self.pause)
        if not self.world.is_quiet and chance.random() < 0.04:
            self._lose_a_row()
        if folder.plan is None:
            folder.plan = self._plan()
        if folder.plan is None and epochs.claimed_through(self.registry, folder.epoch) > folder.batch:
            folder.plan = Plan(self.world.name("plan"), ())  # a copy has claimed, and may be gone
        if folder.plan is None:
            self.registry.close(self._closing())
            if self.world.is_quiet:
                raise Ended
            return
        batch, (plan, records) = folder.batch + 1, folder.plan
        claimant = Claimant(folder.epoch, batch, plan)
        too_old = self._commit(claimant, records)
        for _ in range(SLOW_SYNC if chance.random() < SYNCS_SLOWLY else 1):
            self.pause()
        self.table.sync()
        self.pause()
        final = too_old | self._final(claimant, records)
        if chance.random() < 0.15:
            folder.view = copy_of(self.registry.view)
        folder.done, folder.batch, folder.plan = folder.done | final, batch, None
        if chance.random() < 0.5:
            self.registry.close(self._closing())

    def _closing(self) -> Closing:
        """Return the close of all that is committed, by one snapshot of the table."""
        folder = self.folder
        assert folder.epoch is not None
        return Closing(folder.epoch, folder.batch, self.world.rowless(folder.datacenter))

    def _lose_a_row(self) -> None:
        """Have the table lose a row, and free its id, so that it is joined again (L11)."""
        if not self.table.rows:
            return
        self.table.sync()
        row = self.world.chance.choice(self.table.rows)
        self.table.rows.remove(row)
        self.table.lost_rows.append(row)
        self.world.lost.add((row.id, row.claimant))
        self.world.tell(f"{row} is lost")
        self.folder.done -= {one.number for one in self.world.records if one.id == row.id}
        self.pause()
        self.registry.free(self.world.hashes[[row.id]], lambda claimant: claimant == row.claimant)

    def _plan(self) -> Plan | None:
        chance, here = self.world.chance, self.world.records[: self.world.arrived]
        left = [one for one in here if one.number not in self.folder.done]
        if not left:
            return None
        some = [one for one in left if chance.random() < 0.7] or left[:1]
        chance.shuffle(some)
        return Plan(self.world.name("plan"), tuple(some))

    def _commit(self, claimant: Claimant, records: tuple[Record, ...]) -> set[int]:
        """Have the batch's rows committed; the records that are too old.

        Ended if a copy of this state has committed another plan (A15).
        """
        version = self.table.versions[claimant.epoch]
        if version >= claimant.batch:
            if self.table.plans.get((claimant.epoch, claimant.batch)) != claimant.plan or version >= FENCED:
                self.folder.epoch = None
                raise Ended
            return set()
        claims = self.world.claims(claimant, records)
        self._look_up(claims)
        holders = self.registry.claim(claims, self._closing())
        self._look_up(claims)
        self.pause()
        rows = [one for one, is_won in zip(records, holders.are_won(claims), strict=True) if is_won]
        if not self.table.commit(claimant, rows):
            raise Ended
        self.world.tell(f"{claimant} commits rows of ids {sorted(row.id for row in rows)}")
        return {
            one.number for one, is_too_old in zip(records, holders.are_too_old, strict=True) if is_too_old
        }

    def _look_up(self, claims: Claims) -> None:
        """Look up as a task does, and check that a snapshot answers as the view does."""
        registry, plan = self.registry, claims.claimant
        seen_by = plan if self.world.chance.random() < 0.5 else None
        found = registry.snapshot(seen_by).open(plan).look_up(claims.hashes, claims.times_us)
        known = registry.holders(claims.hashes, claims.times_us)
        own, joins, are_late = (
            known.are_of(plan),
            known.are_joins,
            claims.times_us < registry.register.boundary_us,
        )
        is_here = np.array(
            [
                one is not None and one.epoch.datacenter == plan.epoch.datacenter
                for one in map(known.holder, range(len(own)))
            ],
            bool,
        )
        expected = {
            Hold.NOBODY: ~known.are_held & ~known.are_too_old,
            Hold.THIS_PLAN: own & ~joins & ~are_late,
            Hold.HERE: is_here & ~(own & ~joins),
            Hold.ELSEWHERE: known.are_held & ~joins & ~is_here,
            Hold.JOINED_ELSEWHERE: joins & ~is_here,
            Hold.TOO_OLD: known.are_too_old | (own & ~joins & are_late),
        }
        for code, mask in expected.items():
            if (found.are(code) != mask).any():
                raise RuleBroken(f"a task sees {found.codes}, where {code!r} is {mask}")
        for column, right in zip(found.places, known.places, strict=True):
            if (column != np.where(found.are(Hold.THIS_PLAN), right, -1)).any():
                raise RuleBroken("a task sees other places of records than the view has")

    def _final(self, claimant: Claimant, records: tuple[Record, ...]) -> set[int]:
        """The records that nothing more is to be done about."""
        claims = self.world.claims(claimant, records)
        holders = self.registry.holders(claims.hashes, claims.times_us)
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
    view = copy_of(kept)
    view.writer = writer
    return view


def copy_of(view: View) -> View:
    """Copy a view, which then goes on by itself. The parts of states and runs never change."""
    twin = View(view.register, view.writer)
    twin.states = dict(view.states)
    for generation in view.holds.generations:
        twin.holds.replace(generation, view.holds.runs(generation))
    twin.claimants = copy.deepcopy(view.claimants)
    return twin


def end_epochs(
    world: World, registry: IdRegistry, last: Epoch, pause: Pause, is_given_up: bool = False
) -> None:
    """End a datacenter's epochs up to this one: fence each, close it everywhere (L4, E1)."""
    table = world.tables[last.datacenter]

    def fence(epoch: Epoch) -> None:
        table.fence(epoch)
        pause()

    if last.number:
        world.tell(f"{registry.view.writer} ends the epochs of {last.datacenter} up to {last.number}")
        if is_given_up:
            epochs.give_up_epochs(registry, last.datacenter, last.number)
        else:
            snapshot = partial(world.rowless, last.datacenter)
            epochs.end_epochs(registry, last.datacenter, last.number, fence, snapshot)


def look_at_ended(world: World, last: Epoch) -> None:
    """An epoch that was ended claims nothing in any ledger (L4)."""
    view = View(world.stores.register, "looks at what has ended")
    catch_up(view, world.stores.calm())
    for ledger, state in view.states.items() if last.number else ():
        if state.takes_entries and not state.is_over(last):
            raise RuleBroken(f"epoch {last} was ended, and goes on in {ledger}")
        if ledger.generation == 0 and not state.is_open:
            raise RuleBroken(f"epoch {last} was ended, and may open {ledger}")


def end_what_is_over(world: World, registry: IdRegistry, pause: Pause) -> None:
    """Finish for dead processes: end epochs that live no longer, and have not closed what they hold (L4)."""
    for epoch in epochs.unfinished(registry):
        end_epochs(world, registry, epoch, pause)
