"""Random schedules over ledgers: the product's own code, and all that may happen to those who run it.

    python -m tests.registry.simulation --from 0 --seeds 1000
    python -m tests.registry.simulation --seed 4711

Processes are killed anywhere, sleep for long, run over copies of one state folder, and take each other for
dead; power fails; generations are rolled, collected and dropped; a datacenter goes for good. Checked, all the
time: no id has two rows; each row is its holder's; each join has a row; all readers read alike; releases have
numbers of their own, and show all rows that the ones before have shown. In the end, when all is well, each id
has its row, unless the boundary has passed it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from unittest.mock import patch

from photon.registry import closing, id_registry, view
from photon.registry.entry import Claims, Epoch
from photon.registry.errors import RegistryUnavailable
from photon.registry.generations import drop, raise_boundary, roll
from photon.registry.id_registry import IdRegistry
from photon.registry.register import with_generation
from photon.registry.view import View, catch_up, newest_states
from tests.registry.simulated_driver import Driver, StateFolder, copy_of, end_epochs, kept_or_new_view
from tests.registry.simulated_positions import CALM, SimulatedPositions
from tests.registry.simulated_releases import ReleasesInOrder
from tests.registry.simulated_world import DATACENTERS, LATEST_US, Observer, RuleBroken, new_world, summary_of
from tests.registry.turns import Process, on_one_core

MOST_STEPS_AT_REST = 12_000  # all is joined within these; some 300 are usual
MOST_FREES = 1  # an entry has so few, so that closes have parts
MOST_RIDING = 1  # so few ride with claims, so that closes have entries of their own
MOST_CLAIMS = 3
MOST_DECODED = 1_000  # entries: each is read by many
MOST_FOLDERS = 4
MOST_ASIDE = 3
TOLD_EVERY = 200  # seeds
POWER_FAILS = 0.02  # the chance at a step at which a table has commits that are not on disk

Job = Callable[[View, SimulatedPositions], None]


class Simulation:
    """One simulated history; its seed decides what happens."""

    def __init__(self, seed: int) -> None:
        self.world = new_world(seed)
        self.chance = self.world.chance
        self.stores = self.world.stores
        self.observer = Observer(self.world)
        self.releases = ReleasesInOrder(self.world)
        self.folders = [StateFolder(name) for name in DATACENTERS]
        self.running: dict[int, Process] = {}  # keys: indices of folders
        self.aside: list[Process] = []
        self.wakes: dict[int, int] = {}  # the step at which each frozen folder's process thaws
        self.kept: list[View] = []  # views of readers who have not read on for long

    def run(self) -> None:
        """Play the seed. RuleBroken, or an error that a process must not raise."""
        try:
            with (
                on_one_core(),
                patch.object(closing, "MOST_FREES", MOST_FREES),
                patch.object(closing, "MOST_RIDING", MOST_RIDING),
                patch.object(id_registry, "cut", cut_short),
                patch.object(view, "decode", lru_cache(MOST_DECODED)(view.decode)),
            ):
                self._disturbed()
                self._at_rest()
        finally:
            for process in [*self.running.values(), *self.aside]:
                process.kill()

    def _look(self) -> None:
        """All that must hold at any time."""
        self.observer.look()
        self.releases.look(self.observer.view)

    # -- while all goes wrong

    def _disturbed(self) -> None:
        for step in range(self.chance.randrange(300, 1_500)):
            self._happen(step)
            index = self.chance.randrange(len(self.folders))
            if self.wakes.get(index, 0) <= step:
                self._step(index)
            for process in list(self.aside):
                if self.chance.random() < 0.4:
                    self._step_aside(process)
            if step % 40 == 0:
                self._look()
        self._look()
        self.observer.look_at_readers(self.kept)

    def _happen(self, step: int) -> None:
        """Have things happen from outside, by chance."""
        chance = self.chance.random
        if chance() < 0.02:
            self.stores.land()
        if chance() < 0.02:
            self.world.arrived += 1
        unsynced = [name for name, table in self.world.tables.items() if table.unsynced]
        if unsynced and chance() < POWER_FAILS:
            self._cut_power(step, self.chance.choice(unsynced))
        if chance() > 0.1:
            return
        what = self.chance.choices(tuple(HAPPENINGS), tuple(HAPPENINGS.values()))[0]
        what(self, step)

    def _copy_a_folder(self, step: int) -> None:
        if len(self.folders) < MOST_FOLDERS:
            self.folders.append(self.chance.choice(self.folders).copied())
            self.world.tell(f"{step}: a state folder of {self.folders[-1].datacenter} is copied")

    def _remove_a_copy(self, step: int) -> None:
        if len(self.folders) > len(DATACENTERS):
            self.folders.pop()
            self._kill(len(self.folders))

    def _kill_one(self, step: int) -> None:
        if self.running:
            self._kill(self.chance.choice(sorted(self.running)))

    def _kill_aside(self, step: int) -> None:
        if self.aside:
            self.aside.pop(self.chance.randrange(len(self.aside))).kill()

    def _cut_power(self, step: int, datacenter: str) -> None:
        """All processes of a datacenter end, and its table is as it was synced."""
        for index in [one for one in self.running if self.folders[one].datacenter == datacenter]:
            self._kill(index)
        self.world.tell(f"{step}: the power of {datacenter} fails")
        self.world.tables[datacenter].lose_power()
        self._look()

    def _freeze_one(self, step: int) -> None:
        self.wakes[self.chance.randrange(len(self.folders))] = step + self.chance.randrange(30, 500)

    def _keep_a_view(self, step: int) -> None:
        if len(self.kept) < 2:
            self.kept.append(copy_of(self.observer.view))

    def _move_members(self, step: int) -> None:
        self.stores.move_members()

    def _roll(self, step: int) -> None:
        ledgers = self.chance.randrange(1, 4)

        def job(view: View, positions: SimulatedPositions) -> None:
            roll(view, positions, ledgers)
            self.world.tell(f"generation {len(view.register.generations) - 1} is open")

        self._begin_aside(job)

    def _announce_a_generation(self, step: int) -> None:
        """Have a roller die before it opens a ledger of its generation."""
        self._look()
        register = self.stores.register
        newest = len(register.generations) - 1
        if all(self.observer.view.states[one].is_open for one in register.ledgers(newest)):
            self.stores.register = with_generation(register, newest, self.chance.randrange(1, 4))

    def _raise_boundary(self, step: int) -> None:
        boundary_us = self.chance.randrange(LATEST_US - 2)
        self._begin_aside(lambda view, positions: raise_boundary(view, positions, boundary_us))

    def _drop(self, step: int) -> None:
        def job(view: View, positions: SimulatedPositions) -> None:
            catch_up(view, positions)
            for generation in drop(view, positions):
                self.world.tell(f"generation {generation} is dropped")

        self._begin_aside(job)

    def _collect(self, step: int) -> None:
        boundary_us = self.chance.randrange(LATEST_US - 2)

        def job(view: View, positions: SimulatedPositions) -> None:
            raise_boundary(view, positions, boundary_us)
            for generation in drop(view, positions):
                self.world.tell(f"generation {generation} is dropped, below {boundary_us}")

        self._begin_aside(job)

    def _take_for_dead(self, step: int) -> None:
        """Have somebody end a datacenter's epochs, rightly or not."""
        datacenter = self.chance.choice(DATACENTERS)
        newest = self.stores.register.epochs.get(datacenter, 0)
        if newest:
            last = Epoch(datacenter, newest if self.chance.random() < 0.7 else self.chance.randint(1, newest))

            def job(view: View, positions: SimulatedPositions) -> None:
                end_epochs(self.world, IdRegistry(positions, view), last, positions.pause)

            self._begin_aside(job)

    def _begin_aside(self, job: Job) -> None:
        if len(self.aside) >= MOST_ASIDE:
            return
        kept = self.chance.choice([None, *(folder.view for folder in self.folders)])
        self.aside.append(self._process(job, kept_or_new_view(self.world, kept)))

    def _process(self, job: Job, view: View) -> Process:
        def work(process: Process) -> None:
            positions = self.world.positions(process)
            while True:
                try:
                    job(view, positions)
                    return
                except RegistryUnavailable:
                    if not self.world.is_quiet and self.chance.random() < 0.5:
                        return
                    process.pause()

        return Process(work)

    # -- processes

    def _step(self, index: int) -> None:
        process = self.running.get(index)
        if process is None:
            folder = self.folders[index]

            def work(process: Process) -> None:
                Driver(self.world, folder, self.world.positions(process)).run()

            process = self.running[index] = Process(work)
        rows = sum(len(table.rows) for table in self.world.tables.values())
        process.step()
        if rows != sum(len(table.rows) for table in self.world.tables.values()):
            self._look()
        if process.is_over:
            del self.running[index]

    def _step_aside(self, process: Process) -> None:
        process.step()
        if process.is_over:
            self.aside.remove(process)

    def _kill(self, index: int) -> None:
        process = self.running.pop(index, None)
        if process is not None:
            process.kill()

    # -- when all is well

    def _at_rest(self) -> None:
        """End processes that work aside, perhaps retire a datacenter, and have the others join the rest."""
        self.world.is_quiet, self.world.arrived, self.stores.weather = True, len(self.world.records), CALM
        while self.stores.late or self.stores.late_changes:
            self.stores.land()
        for index in list(self.running):
            self._kill(index)
        self._finish_aside()
        self.folders = self.folders[: len(DATACENTERS)]
        self._look()
        if self.chance.random() < 0.4:
            self._retire(self.folders.pop(0).datacenter)
        for step in range(MOST_STEPS_AT_REST):
            index = step % len(self.folders)
            if index in self.running or not self._is_done(self.folders[index]):
                self._step(index)
            elif not self.running and all(map(self._is_done, self.folders)):
                break
        self._look()
        self.observer.look_at_readers(self.kept)
        missing = self._missing()
        if missing or self.running:
            raise RuleBroken(f"ids {missing} have no row in the end; at work: {sorted(self.running)}")

    def _is_done(self, folder: StateFolder) -> bool:
        """Say whether a datacenter has joined all, and closed all that it and copies of it have joined."""
        if len(folder.done) < len(self.world.records) or folder.epoch is None:
            return False
        catch_up(self.observer.view, self.observer.positions)
        unclosed = [one for state in newest_states(self.observer.view) for one in state.unclosed.values()]
        return not any(one.claimant.epoch.datacenter == folder.datacenter for one in unclosed)

    def _finish_aside(self) -> None:
        for process in list(self.aside):
            process.wake()
            for _ in range(MOST_STEPS_AT_REST):
                if process in self.aside:
                    self._step_aside(process)
        if self.aside:
            raise RuleBroken("a process does not come to its end")

    def _retire(self, datacenter: str) -> None:
        """Lose a datacenter for good, with its lake or without; another one ends its epochs."""
        newest = self.stores.register.epochs.get(datacenter, 0)
        is_given_up = self.chance.random() < 0.5
        self.world.tables[datacenter].is_lost = is_given_up
        self.world.tell(f"datacenter {datacenter} is retired{' with its lake' if is_given_up else ''}")

        def job(view: View, positions: SimulatedPositions) -> None:
            registry, last = IdRegistry(positions, view), Epoch(datacenter, newest)
            end_epochs(self.world, registry, last, positions.pause, is_given_up)

        self.aside.append(self._process(job, kept_or_new_view(self.world, None)))
        self._finish_aside()

    def _missing(self) -> list[int]:
        """The ids that lack a row, and have a record that the boundary has not passed.

        A row in a lake that was given up is one, as far as it was closed before; of one that the boundary has
        passed nobody knows that any more. An id whose row was lost may lack another one: who has lost it may
        have died before it freed the id.
        """
        held = summary_of(self.observer.view, self.world.hashes)
        boundary_us = self.stores.register.boundary_us
        tables = self.world.tables.values()
        all_rows = [(row, table.is_lost) for table in tables for row in table.rows]
        rows = {row.id for row, is_lost in all_rows if not is_lost or row.time_us < boundary_us}
        rows |= {one for one, (_, is_join) in enumerate(held) if is_join}
        wanted = {one.id for one in self.world.records if one.time_us >= boundary_us}
        return sorted(wanted - rows - {one for one, _ in self.world.lost})


HAPPENINGS: dict[Callable[[Simulation, int], None], float] = {
    Simulation._copy_a_folder: 4,
    Simulation._remove_a_copy: 4,
    Simulation._kill_one: 5,
    Simulation._kill_aside: 1,
    Simulation._freeze_one: 4,
    Simulation._keep_a_view: 1,
    Simulation._move_members: 1,
    Simulation._roll: 5,
    Simulation._announce_a_generation: 1,
    Simulation._raise_boundary: 2,
    Simulation._drop: 2,
    Simulation._collect: 5,
    Simulation._take_for_dead: 7,
}


def cut_short(claims: Claims) -> Iterator[Claims]:
    """Few claims an entry, so that a batch needs several."""
    return (claims.take(slice(at, at + MOST_CLAIMS)) for at in range(0, len(claims), MOST_CLAIMS))


def simulate(seed: int) -> str | None:
    """Run one seed: what is wrong, or None."""
    try:
        Simulation(seed).run()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def main() -> int:
    """The command: so many seeds, or one again with its story."""
    parser = argparse.ArgumentParser(description="Simulate processes that share ledgers.")
    parser.add_argument("--seeds", type=int, default=1_000, help="how many to run, from 0 or --from")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed")
    parser.add_argument("--seed", type=int, help="run this one alone, and tell what happens in it")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        simulation = Simulation(arguments.seed)
        try:
            simulation.run()
        finally:
            print("\n".join(simulation.world.story))
        return 0
    began = time.monotonic()
    for number in range(1, arguments.seeds + 1):
        seed = arguments.first + number - 1
        problem = simulate(seed)
        if problem is not None or number % TOLD_EVERY == 0 or number == arguments.seeds:
            print(f"{number} seeds, {time.monotonic() - began:.0f} s", flush=True)
        if problem is not None:
            print(f"seed {seed} fails: {problem}\nagain: python -m tests.registry.simulation --seed {seed}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
