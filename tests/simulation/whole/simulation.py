"""Two or three whole datacenters in virtual time, interleaved by a seed (docs/proof.md).

    python -m tests.simulation.whole.simulation --seeds 1000
    python -m tests.simulation.whole.simulation --seed 4711

Every process is the product's own code. In the end all is mended, joined, verified and recovered, and then
every event that can be joined has its one row.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from photon.process.faults import disarm, watched
from photon.state.losses import losses_of
from photon.state.outcomes import Counts
from photon.state.view import view_state
from photon.upkeep.retire import NotRetired
from tests.simulation.rules import must
from tests.simulation.verifying import verify
from tests.simulation.whole import unmatched
from tests.simulation.whole.copies import RESTORED
from tests.simulation.whole.invariants import Invariants
from tests.simulation.whole.logs import Writers
from tests.simulation.whole.network import Weather
from tests.simulation.whole.operators import FALL_SILENT, PASSING, PASSING_COPIES, ROTATED_AWAY, People
from tests.simulation.whole.processes import EVEN, Worker, this_process
from tests.simulation.whole.shifts import Shifts, without_threads
from tests.simulation.whole.site import Site

LENGTH_SECONDS = 60.0
BURSTS = 6
BROKEN_LINES = 20  # where batches are passed over: their side rows are to be there once
ONE_IS_AWAY = 0.3  # share of seeds in which one dies with ids registered, and is back when the others rest
RECOVERS_WITHOUT_NEED = 0.2  # share of seeds that recover though nothing is missing
SHARE_OF_SEEDS = 100  # the command prints a line after so many
SEEDS_OF_GARBAGE = 5  # some 10 MB each
FASTEST = Path("/dev/shm")  # in memory, so that nothing is written to a disk


class Simulation:
    """One seed. `focus`: only these things happen to its datacenters, and often; empty: anything may."""

    def __init__(self, folder: Path, seed: int, focus: Sequence[str] = ()) -> None:
        self._focus = focus
        self.site = Site(folder, seed)
        self.unmatched = 0  # primaries that nothing was joined with, at rest
        self.shifts = Shifts(self.site)
        self.writers = Writers(self.site)
        self.invariants = Invariants(self.site, self.writers.incomplete)
        self.people = People(self.site, self.shifts, self.invariants, self.writers)

    def run(self) -> None:
        """Run the seed. RuleBroken if a rule does not hold; the product's unexpected errors pass through."""
        with ExitStack() as stack:
            stack.enter_context(without_threads(self.site))
            if unmatched.LOOKS in self._focus:
                stack.enter_context(unmatched.looked_for(self.site))
            stack.enter_context(watched(self._passed))
            stack.callback(disarm)
            self._live()
            self._come_to_rest()

    def _passed(self, point: str, path: Path | None) -> None:
        self.invariants.passed(point, path)
        worker = this_process()
        if worker is not None:
            worker.step(point)
            self.shifts.fail(point, worker)
            self.people.copies.passed(point, path, worker)

    def _live(self) -> None:
        chance, after = self.site.chance, self.site.network.after
        self.shifts.died = chance.choice((0.0, 0.3, 0.6))
        self.shifts.lost_answers = chance.choice((0.0, 0.05))
        if FALL_SILENT in self._focus:
            self.shifts.died = chance.choice(
                (0.0, 0.0, 0.2)
            )  # most shifts live, so that they pass over others
        for _ in range(self._count_of_deeds()):
            after(chance.uniform(2, LENGTH_SECONDS), lambda: self.people.act(self._focus))
        if "put_back_registry" in self._focus:
            self._copy_and_put_back()
        if chance.random() < ONE_IS_AWAY:
            away = chance.choice(self.site.names)
            after(chance.uniform(0.3, 0.9) * LENGTH_SECONDS, lambda: self.shifts.leaving.add(away))
        for _ in range(BURSTS * (3 if FALL_SILENT in self._focus else 1)):
            after(chance.uniform(0, LENGTH_SECONDS * 0.8), self.writers.burst)
        for _ in range(BROKEN_LINES if FALL_SILENT in self._focus else 0):
            after(
                chance.uniform(0, LENGTH_SECONDS), lambda: self.writers.break_a_line(self.people.somewhere())
            )
        for name in self.site.names:
            after(chance.uniform(0, 5), lambda name=name: self.shifts.begin(name))  # type: ignore[misc]
        after(LENGTH_SECONDS, self._stop)
        self.site.network.run()

    def _count_of_deeds(self) -> int:
        if "copy_stores" in self._focus:
            return self.site.chance.choice((0, 2, 5))
        if FALL_SILENT in self._focus:
            return 14
        return 10 if self._focus else self.site.chance.choice((0, 2, 5, 10))

    def _copy_and_put_back(self) -> None:
        """Copy in the midst and put back later; most shifts live, so that the copy lacks rows."""
        chance, after, copies = self.site.chance, self.site.network.after, self.people.copies
        self.shifts.died = chance.choice((0.0, 0.0, 0.2))
        after(chance.uniform(0.2, 0.5) * LENGTH_SECONDS, copies.take)
        after(chance.uniform(0.6, 0.9) * LENGTH_SECONDS, copies.put_back_registry)

    def _stop(self) -> None:
        self.shifts.stopping = True

    # -- at rest

    def _come_to_rest(self) -> None:
        """F13: once all is up and mended, all that can be joined is, and the classes add up."""
        self._mend()
        for away in [name for name in self.people.alive() if name in self.shifts.leaving]:
            self._survive(away)
        self.shifts.leaving.clear()
        self._complete_all()
        if not self.people.has_taken_rows:
            self._by_an_operator(self._must_be_verified)  # nobody need recover what nobody took
        if self.people.has_taken_rows or self.site.chance.random() < RECOVERS_WITHOUT_NEED:
            self._by_an_operator(self.people.verify_and_recover)
            self._complete_all()
            self._by_an_operator(self._must_be_verified)
        self._must_be_joined()
        if unmatched.LOOKS in self._focus:
            self._must_be_unmatched()
        self.invariants.look_at_side_rows()
        self.invariants.releases.look_at_rest(self.people.pipeline)

    def _survive(self, away: str) -> None:
        """E6: while one is away, the others join its events, if they have every log and nobody took rows."""
        survivors = [name for name in self.people.alive() if name != away]
        if not {*survivors} - {self.people.loser}:
            return
        for name in [name for name in survivors if self._complete(name).of("pending")]:
            self._complete(name)
        if not self.people.has_taken_rows:
            self._must_be_joined()

    def _must_be_joined(self) -> None:
        self.invariants.look_at_tables()
        joined = {row["_event_id"] for row in self.invariants.rows()}
        missing = sorted(self.writers.joinable - joined)
        must(not missing, f"F13: {len(missing)} events are missing: {missing[:3]}")
        must(joined == self.writers.joinable, "F13: rows of events that can't be joined")

    def _must_be_unmatched(self) -> None:
        """U: what no row names by now is found; and again, when primaries come late or a state is lost."""
        for number in range(self.site.chance.randrange(1, 4)):
            self._by_an_operator(partial(unmatched.look, self.people.pipeline))
            self.unmatched = unmatched.must_be_decided(self.site, self.people.pipeline)
            if self.site.chance.random() < 0.5:
                self.people._replace_state(unmatched.owner_of(self.site, self.people.pipeline), None)
            unmatched.late_primaries(self.site, number + 1)
            self._complete_all()
            if self.site.chance.random() < 0.5:
                self._stand_still()
        self._by_an_operator(partial(unmatched.look, self.people.pipeline))
        self.unmatched = unmatched.must_be_decided(self.site, self.people.pipeline)

    def _stand_still(self) -> None:
        """U1: a look stands still before its commit. Its state is lost, and the next epoch looks as well."""
        owner, later = unmatched.owner_of(self.site, self.people.pipeline), self.site.network.after
        self.people.look_for_unmatched(frozen_seconds=200.0)
        later(10, lambda: self.people._replace_state(owner, None))
        later(11, lambda: self.shifts.start(self.shifts.worker(owner, EVEN), owner, "complete"))
        later(100, self.people.look_for_unmatched)
        self.site.network.run()

    def _complete_all(self) -> None:
        """Complete datacenters, again where records wait: another one has published by then what it held."""
        for name in [name for name in self.people.alive() if self._complete(name).of("pending")]:
            self._complete(name)

    def _mend(self) -> None:
        """People see to all that is broken."""
        disarm()
        self.site.network.weather = Weather()
        self.site.ledgers.is_away = False
        self.shifts.stopping = False
        self.shifts.lost_answers = 0.0
        self.shifts.cut_off.clear()
        self.shifts.full_disks.clear()
        self.shifts.failing_workers.clear()
        self.shifts.freezing.clear()
        self.shifts.falling_silent.clear()
        self.shifts.dying_with_a_log.clear()
        for name in self.people.alive():  # some are still on hold, or a half-written change holds them
            self._by_an_operator(partial(self.people.set_hold, name, False))
        for name in sorted(self.people.given_up):
            self._by_an_operator(partial(self._retire, name))
        if self.people.copies.has_put_back:
            self._by_an_operator(self.people.copies.refill)

    def _retire(self, name: str, worker: Worker) -> None:
        with suppress(NotRetired):  # the registry does not know it: it never ran
            self.people.carry_out_retirement(name, worker)

    def _by_an_operator(self, work: Callable[[Worker], None]) -> None:
        """Have an operator's process do this to the end."""
        worker = self.shifts.worker(self.people.alive()[0])
        worker.start(lambda: work(worker))
        self.site.network.run()

    def _must_be_verified(self, worker: Worker) -> None:
        for name, report in verify(self.people.view(worker), self.people.alive()).items():
            with self.site.network.noting():
                must(not report.findings, f"F13: {name} is not sound: {report.findings}")

    def _complete(self, datacenter: str) -> Counts:
        worker = self.shifts.worker(datacenter, EVEN)
        results = self.shifts.start(worker, datacenter, "complete")
        self.site.network.run()
        must(results, f"F13: a complete run of {datacenter} does not end: {worker.last_step}")
        counts = results[0].counts
        must(counts.adds_up, f"F13: the classes of {datacenter} do not add up")
        letters = counts.of("dead_letters")
        lost_workers = self.people.done["lose_worker"] if datacenter == self.people.loser else 0
        must(
            letters <= lost_workers + self.writers.broken[datacenter],
            f"F13: {datacenter} has {letters} dead letters of whole lines",
        )
        written = self.writers.written[datacenter]
        is_read = counts.foreign == written or datacenter in self.writers.incomplete
        must(
            is_read or self._says_what_is_lost(datacenter),
            f"F13: {datacenter} has read {counts.foreign} of {written} records",
        )
        return counts

    def _says_what_is_lost(self, datacenter: str) -> bool:
        """Say whether logs moved out of sight, and people are told that their ends may be lost (D9).

        An epoch that began since then has never seen them: what it can't know it does not tell.
        """
        moved_in = self.writers.out_of_sight.get(datacenter, set())
        folder = self.site.pipeline.datacenters[datacenter].state
        state = view_state(folder, self.site.now_us)
        return bool(moved_in) and (bool(losses_of(state, folder)) or not moved_in <= {state.epoch})


def simulate(seed: int, focus: Sequence[str] = ()) -> str | None:
    """Run one seed: what is wrong, or None."""
    with tempfile.TemporaryDirectory(dir=FASTEST if FASTEST.is_dir() else None) as folder:
        try:
            Simulation(Path(folder), seed, focus).run()
        except AssertionError as broken:  # a broken rule, or an assertion of the product's own
            return str(broken)
    return None


def first_failure(seeds: Sequence[int], focus: Sequence[str] = ()) -> tuple[int, int | None, str | None]:
    """Run seeds until one fails; return how many ran, the failing one, and its problem."""
    logging.getLogger("photon").setLevel(logging.CRITICAL)  # simulated faults are logged often
    gc.disable()  # a tenth of the time, and what was imported is never garbage
    gc.freeze()
    for ran, seed in enumerate(seeds, 1):
        problem = problem_or_error(seed, focus)
        if ran % SEEDS_OF_GARBAGE == 0:
            gc.collect()
        if problem is not None:
            return ran, seed, problem
    return len(seeds), None, None


def problem_or_error(seed: int, focus: Sequence[str] = ()) -> str | None:
    """Run one seed: what is wrong, also an error that nobody expects, or None."""
    try:
        return simulate(seed, focus)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def main() -> int:
    """The command: so many seeds on all cores, or one again."""
    parser = argparse.ArgumentParser(description="Simulate whole datacenters.")
    parser.add_argument("--seeds", type=int, default=1_000, help="how many to run, from 0 or --from")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many at once")
    parser.add_argument("--seed", type=int, help="run this one alone, with what the product says")
    parser.add_argument("--restored", action="store_true", help="stores are put back from copies")
    parser.add_argument("--unmatched", action="store_true", help="unmatched primaries are looked for")
    parser.add_argument("--passing", action="store_true", help="silent datacenters are passed over")
    parser.add_argument("--passing-copies", action="store_true", help="and copies of states are put back")
    parser.add_argument("--rotated-away", action="store_true", help="logs are moved out of sight")
    arguments = parser.parse_args()
    kinds = {
        "--restored": (arguments.restored, RESTORED),
        "--passing": (arguments.passing, PASSING),
        "--passing-copies": (arguments.passing_copies, PASSING_COPIES),
        "--rotated-away": (arguments.rotated_away, ROTATED_AWAY),
        "--unmatched": (arguments.unmatched, unmatched.UNMATCHED),
    }
    kind, focus = next(((name, focus) for name, (is_asked, focus) in kinds.items() if is_asked), ("", ()))
    if arguments.seed is not None:
        logging.basicConfig(level=logging.INFO)
        problem = simulate(arguments.seed, focus)
        print(problem or "nothing is wrong")
        return int(problem is not None)
    began, end = time.monotonic(), arguments.first + arguments.seeds
    shares = [
        range(first, min(first + SHARE_OF_SEEDS, end))
        for first in range(arguments.first, end, SHARE_OF_SEEDS)
    ]
    done = 0
    os.environ["TOKIO_WORKER_THREADS"] = "1"  # delta-rs reads small files: more threads only wake each other
    # Spawned: a forked process has locks of threads that it lacks. Anew after each share: a simulated
    # process that was killed may leave a thread.
    with get_context("spawn").Pool(arguments.processes, maxtasksperchild=1) as pool:
        for ran, seed, problem in pool.imap_unordered(partial(first_failure, focus=focus), shares):
            done += ran
            print(f"{done} seeds, {time.monotonic() - began:.0f} s", flush=True)
            if seed is not None:
                print(f"seed {seed} fails: {problem}")
                print(f"again: python -m tests.simulation.whole.simulation --seed {seed} {kind}")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
