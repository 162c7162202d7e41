"""Simulate what is beside the ledgers: logs, joined tables, and an observer who knows the rules.

A table has a version for each epoch, as in the lake; a commit raises it together with its rows, and a
fence passes all versions by (protocol A5, E1). What was not synced goes when the power fails (A18).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from photon.registry.closing import Rowless
from photon.registry.entry import FOR_EVER, NO_TIME_US, Claimant, Claims, Epoch, Hashes, LedgerId, Mask
from photon.registry.fold import ClaimsAt, LedgerState, Unclosed
from photon.registry.form import decode
from photon.registry.view import View, catch_up
from photon.releases.release import Release
from tests.registry.simulated_positions import SimulatedPositions, Stores, new_stores
from tests.registry.turns import Process

FENCED = 2**53  # with the epoch's last batch: no other one of it is committed any more (E1, R6)
SPAN = 12  # hashes are spread over so many places: one to three ledgers share them evenly
LATEST_US = 9
DATACENTERS = ("a", "b")
NAPS = 0.006  # the chance that a process sleeps, while others go through some batches
MOST_OF_A_NAP = 250  # steps of its own that it misses


class Record(NamedTuple):
    """A foreign event in the logs that both datacenters read. Records of one id may have different times."""

    number: int
    id: int
    time_us: int


class Row(NamedTuple):
    """A row of a joined table."""

    id: int
    time_us: int
    claimant: Claimant


class RuleBroken(AssertionError):
    """A rule of the protocol does not hold."""


@dataclass
class Table:
    """A datacenter's joined table."""

    datacenter: str
    rows: list[Row] = field(default_factory=list)
    versions: dict[Epoch, int] = field(default_factory=dict)
    plans: dict[tuple[Epoch, int], str] = field(default_factory=dict)
    is_lost: bool = False
    lost_rows: list[Row] = field(default_factory=list)  # that somebody removed
    releases: dict[int, Release] = field(default_factory=dict)  # the lake's copies, by their numbers
    unsynced: list[Claimant] = field(default_factory=list)  # who has committed since the last sync

    @property
    def newest(self) -> int:
        """Return the greatest number of an epoch that the table knows."""
        return max((epoch.number for epoch in self.versions), default=0)

    def begin(self, epoch: Epoch) -> bool:
        """Commit batch 0 of an epoch, unless it is known already."""
        self.sync()
        return self.versions.setdefault(epoch, 0) == 0

    def fence(self, epoch: Epoch) -> None:
        """Have no batch of the epoch committed any more (E1)."""
        self.sync()
        version = self.versions.get(epoch, 0)
        self.versions[epoch] = version if version >= FENCED else FENCED + version

    def sync(self) -> None:
        """Have all commits on disk."""
        self.unsynced.clear()

    def lose_power(self) -> None:
        """Be without the commits that are not on disk."""
        for claimant in reversed(self.unsynced):
            self.versions[claimant.epoch] = claimant.batch - 1
            del self.plans[claimant.epoch, claimant.batch]
        self.rows = [row for row in self.rows if row.claimant not in self.unsynced]
        self.unsynced.clear()

    def commit(self, claimant: Claimant, records: Sequence[Record]) -> bool:
        """Commit a plan's rows, if it is its batch's turn."""
        if self.versions.get(claimant.epoch) != claimant.batch - 1:
            return False
        self.versions[claimant.epoch] = claimant.batch
        self.plans[claimant.epoch, claimant.batch] = claimant.plan
        self.unsynced.append(claimant)
        self.rows += [Row(one.id, one.time_us, claimant) for one in records]
        return True


@dataclass
class World:
    """All that is outside of processes, as a seed wants it. `story`: what happened, to be told of a seed."""

    seed: int
    chance: random.Random
    stores: Stores
    records: list[Record]
    hashes: Hashes  # at each id's number
    tables: dict[str, Table]
    arrived: int = 1  # so many of the records are in the logs
    stops: float = 1.0  # the chance that another process goes on where one may stop
    lost: set[tuple[int, Claimant]] = field(default_factory=set)  # rows that a table lost, by their ids
    is_quiet: bool = False
    names: int = 0
    story: list[str] = field(default_factory=list)

    def name(self, of: str) -> str:
        """A name that nobody else has."""
        self.names += 1
        return f"{of}{self.names}"

    def positions(self, process: Process) -> SimulatedPositions:
        """All ledgers, for a process that stops now and then, and sleeps for long once in a while."""

        def may_pause() -> None:
            if self.chance.random() < self.stops:
                process.pause()
            nap = self.chance.randrange(MOST_OF_A_NAP) if self.chance.random() < NAPS else 0
            if nap and not self.is_quiet:
                process.pause(nap)

        return SimulatedPositions(self.stores, may_pause)

    def tell(self, what: str) -> None:
        self.story.append(what)

    def claims(self, claimant: Claimant, records: Sequence[Record]) -> Claims:
        """Claims of these records' ids."""
        length = len(records)
        return Claims(
            claimant,
            self.hashes[[one.id for one in records]].reshape(-1, 2),
            np.array([one.time_us for one in records], np.int64),
            np.zeros(length, np.uint32),
            np.array([one.number for one in records], np.int64),
        )

    def rowless(self, datacenter: str) -> Rowless:
        """Take one snapshot of a datacenter's table, as it is now."""
        known = {(*self.hashes[row.id].tolist(), row.claimant) for row in self.tables[datacenter].rows}

        def rowless(at: ClaimsAt, one: Unclosed) -> Mask:
            return np.array([(*each, one.claimant) not in known for each in one.hashes.tolist()], bool)

        return rowless


def new_world(seed: int) -> World:
    """Some ids with one to three records each, and a register with one to three ledgers."""
    chance = random.Random(seed)
    places = [chance.randrange(SPAN) for _ in range(chance.randrange(3, 16))]
    # Upper halves of hashes meet now and then.
    upper = [(place << 64) // SPAN + chance.randrange(3) for place in places]
    hashes = np.array([(half, one) for one, half in enumerate(upper)], np.uint64)
    records = _records(chance, len(places))
    if chance.random() < 0.1:
        records[-1] = records[-1]._replace(time_us=NO_TIME_US)
    stores = new_stores(seed, chance.randrange(1, 4))
    tables = {name: Table(name) for name in DATACENTERS}
    world = World(seed, chance, stores, records, hashes, tables)
    world.stops = chance.choice((0.15, 0.3, 0.7))
    return world


def _records(chance: random.Random, ids: int) -> list[Record]:
    """Draw records in order of arrival; in half of all seeds most are younger than those before."""
    drawn: list[tuple[int, int]] = []
    for one in range(ids):
        time_us = chance.randrange(LATEST_US + 1)
        for _ in range(1 if chance.random() < 0.7 else chance.randrange(2, 4)):
            drawn.append((one, time_us))
            if chance.random() < 0.5:
                time_us = chance.randrange(LATEST_US + 1)
    chance.shuffle(drawn)
    if chance.random() < 0.5:
        drawn.sort(key=lambda each: each[1] + chance.random() * 3)
    return [Record(number, *each) for number, each in enumerate(drawn)]


class Observer:
    """Reads all that is decided, undisturbed, and complains as soon as a rule is broken."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.positions = world.stores.calm()
        self.view = View(world.stores.register, "observer")
        self._ends: dict[LedgerId, list[tuple[int, Epoch, int]]] = {}  # position, and what ends there
        self._read: dict[LedgerId, int] = {}  # entries that `_ends` know

    def look(self) -> None:
        """All that must hold at any time."""
        catch_up(self.view, self.positions)
        self._look_at_late_claims()
        self._look_at_children()
        self.look_at_rows()
        self._look_at_holders()

    def look_at_rows(self) -> None:
        """Check that no id has two rows, unless the boundary has passed the record of one (L5)."""
        first: dict[int, Row] = {}
        for table in self.world.tables.values():
            for row in table.rows if not table.is_lost else ():
                other = first.setdefault(row.id, row)
                if other is not row and not self._may_be_two(other, row):
                    raise RuleBroken(f"id {row.id} has two rows: {other} and {row}")

    def _may_be_two(self, one: Row, other: Row) -> bool:
        """Say whether a later record of the id may have joined while the first was below the boundary."""
        have_times = len({record.time_us for record in self.world.records if record.id == one.id}) > 1
        return have_times and min(one.time_us, other.time_us) < self.world.stores.register.boundary_us

    def _look_at_holders(self) -> None:
        held = summary_of(self.view, self.world.hashes)
        boundary_us = self.world.stores.register.boundary_us
        rows = {(row.id, row.claimant) for table in self.world.tables.values() for row in table.rows}
        for one, (claimant, is_join) in enumerate(held):
            if is_join and (one, claimant) not in rows | self.world.lost:
                raise RuleBroken(f"id {one} is a join of {claimant}, which has no row of it")
        for table in self.world.tables.values():
            for row in table.rows if not table.is_lost else ():
                if row.time_us >= boundary_us and held[row.id][0] != row.claimant:
                    raise RuleBroken(f"{row} is a row, and who holds the id is {held[row.id][0]}")

    def _look_at_late_claims(self) -> None:
        """Check that no claim counts behind its batch's close, or where its epoch is over (L3, L7)."""
        for ledger, state in sorted(self.view.states.items()):
            ends = self._ends_of(ledger)
            for (origin, position), one in state.unclosed.items():
                for at, epoch, through in ends if origin == ledger else ():
                    if at < position and _ends(epoch, through, one.claimant):
                        raise RuleBroken(f"a claim of {one.claimant} counts behind its close in {ledger}")

    def _look_at_children(self) -> None:
        """Check that all that is over or too old in a parent is so in its child (L5, L7)."""
        for ledger, state in self.view.states.items():
            parents = self.view.register.parents(ledger) if state.is_open else ()
            for before in (self.view.states[one] for one in parents if one in self.view.states):
                if state.boundary_us < before.boundary_us:
                    raise RuleBroken(f"{ledger} is born with a boundary before that of {before.ledger}")
                if any(number > state.over.get(name, 0) for name, number in before.over.items()):
                    raise RuleBroken(f"epochs are over in {before.ledger}, and not in its child {ledger}")

    def look_at_readers(self, others: Sequence[View]) -> None:
        """Check that all read alike: a view made now, in any order, and views made long ago (L1, L12)."""
        fresh = View(self.world.stores.register, "fresh")
        ledgers = sorted(fresh.states)
        for _ in range(3):
            self.world.chance.shuffle(ledgers)
            for ledger in ledgers[: self.world.chance.randrange(len(ledgers) + 1)]:
                if ledger in fresh.states:
                    catch_up(fresh, self.positions, [ledger])
        for view in (fresh, *others):
            catch_up(view, self.positions)
        catch_up(self.view, self.positions)
        hashes = self.world.hashes
        own = (summary_of(self.view, hashes), states_of(self.view))
        for view in (fresh, *others):
            found, states = summary_of(view, hashes), states_of(view)
            unlike: list[object] = [pair for pair in zip(own[0], found, strict=True) if pair[0] != pair[1]]
            unlike += [(own[1].get(one), states.get(one)) for one in states if own[1].get(one) != states[one]]
            if unlike or states.keys() != own[1].keys():
                raise RuleBroken(f"ledgers are read in two ways: {unlike}")

    def _ends_of(self, ledger: LedgerId) -> list[tuple[int, Epoch, int]]:
        """Read from bytes alone which epochs end in a ledger: at which positions, through which batch."""
        if ledger not in self._ends:
            self._ends[ledger] = []
            self._read[ledger] = 0
        ends, entries = self._ends[ledger], self.world.stores.entries.get(ledger, {})
        while self._read[ledger] in entries:
            position = self._read[ledger]
            entry = decode(entries[position])
            ends += [(position, close.epoch, close.through) for close in entry.closes]
            for parent in entry.genesis.parents if entry.genesis is not None else ():
                ends += [
                    (position, one, through)
                    for _, one, through in self._ends_of(parent)
                    if through == FOR_EVER
                ]
            self._read[ledger] += 1
        return ends


def _ends(epoch: Epoch, through: int, claimant: Claimant) -> bool:
    """Say whether a close ends this claimant's claims; one for ever ends all epochs before, too."""
    if through == FOR_EVER and claimant.epoch.datacenter == epoch.datacenter:
        return claimant.epoch.number <= epoch.number
    return claimant.epoch == epoch and claimant.batch <= through


def summary_of(view: View, hashes: Hashes) -> list[tuple[Claimant | None, bool]]:
    """Return who holds each id, and whether that is a join."""
    holders = view.holders(hashes)
    found: list[tuple[Claimant | None, bool]] = []
    for one in range(len(hashes)):
        refs = holders.refs
        at = (LedgerId(int(refs.generations[one]), int(refs.numbers[one])), int(refs.positions[one]))
        claimant = holders.claimants[at] if holders.are_held[one] else None
        found.append((claimant, bool(holders.are_joins[one])))
    return found


def states_of(view: View) -> dict[LedgerId, object]:
    """All that a view knows of its ledgers."""
    return {ledger: _of_state(state) for ledger, state in view.states.items()}


def _of_state(state: LedgerState) -> object:
    unclosed = {
        at: (one.claimant, sorted(zip(one.hashes.tolist(), one.files, one.offsets_bytes, strict=True)))
        for at, one in state.unclosed.items()
    }
    kinds = (state.is_open, state.is_sealed, state.boundary_us, state.latest_us)
    return (state.next_position, state.checksum, kinds, dict(state.void_through), dict(state.over), unclosed)
