"""Carry a plan of faults out on a world of real processes, and check what has come of it.

python -m tests.e2e.outages.drive --kills 200 --seed 1     # make soak-outages
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from photon.testing.traffic import Traffic
from tests.e2e.outages.checker import faults_in, rows_of
from tests.e2e.outages.plan import Fault, faults_of
from tests.e2e.outages.world import DatacenterProcess, Failed, World, until, world

POINT_SECONDS = 4.0  # a point that is not passed within this time is not waited for: the fault comes now
SETTINGS = """
home: {takeover_delay: 500ms, quiet_after: 2s}
recovery: {silent_after: 2s}
retry: {allowed_lateness: 1s}
tailing: {poll_interval: 50ms}
"""
TRAFFIC_SECONDS = 600.0
ILLS = dict.fromkeys(  # one of each comes every ten seconds
    (
        "click_before_query",
        "query_never_comes",
        "broken_line",
        "missing_id",
        "click_without_key",
        "click_twice_same_file",
        "click_twice_other_file",
        "malformed_query",
        "file_rollover",
        "rename_rotation",
    ),
    int(TRAFFIC_SECONDS / 10),
)


@dataclass(frozen=True)
class Dose:
    """How much a datacenter gets."""

    kills: int
    stops: int
    stopped_seconds: tuple[float, float]
    endpoint_outages: int = 0  # of one endpoint at a time, while this lasts


@dataclass(frozen=True)
class Outcome:
    """What a world has survived, and what is wrong with it."""

    seed: int
    survived: Counter[str]
    rows: int
    wrong: tuple[str, ...]


def drive(folder: Path, seed: int, dose: Dose, say: Callable[[str], None] = lambda text: None) -> Outcome:
    """One world with two datacenters under load, each of which gets its dose at once."""
    traffic = Traffic(
        seed, primary_per_second=100, foreign_per_second=40, duration_seconds=TRAFFIC_SECONDS, ills=ILLS
    )
    chance = random.Random(seed)
    with world(folder, traffic, SETTINGS) as made, ThreadPoolExecutor(len(made.datacenters) + 1) as pool:
        made.begin()
        work = []
        for datacenter in made.datacenters.values():
            plan = faults_of(chance, dose.kills, dose.stops, dose.stopped_seconds)
            work.append(pool.submit(_suffer, datacenter, plan, say))
        done = threading.Event()
        aside = pool.submit(_endpoints, made, random.Random(seed + 1), dose.endpoint_outages, done)
        try:
            survived = sum((one.result() for one in work), Counter[str]())
        finally:
            done.set()
        survived += aside.result()
        counts = made.complete()
        wrong = faults_in(folder, counts)
        rows = sum(len(rows_of(folder / "lake" / name)) for name in counts)
    return Outcome(seed, survived, rows, tuple(wrong))


def _suffer(datacenter: DatacenterProcess, plan: Sequence[Fault], say: Callable[[str], None]) -> Counter[str]:
    """Do to one datacenter what the plan says; what it has survived."""
    survived: Counter[str] = Counter()
    for fault in plan:
        datacenter.start()
        say(f"{datacenter.name}: {fault}")
        survived[fault.kind] += 1
        survived[f"{fault.kind} at a point"] += _inflict(datacenter, fault)
        if fault.kind == "stop":
            time.sleep(fault.stopped_seconds)
            datacenter.signal(signal.SIGCONT)
    datacenter.start()
    return survived


def _inflict(datacenter: DatacenterProcess, fault: Fault) -> bool:
    """Wait until the process is killed or stopped; whether that was at the fault's point."""
    number = signal.SIGKILL if fault.kind == "kill" else signal.SIGSTOP
    if not fault.point:
        time.sleep(fault.pause_seconds)
    else:
        datacenter.arm(fault.point, number)
        with suppress(Failed):
            until(lambda: _has_come(datacenter, fault), str(fault), POINT_SECONDS)
            return True
    datacenter.signal(number)
    until(lambda: _has_come(datacenter, fault), f"{datacenter.name}: {fault}")
    return False


def _has_come(datacenter: DatacenterProcess, fault: Fault) -> bool:
    return not datacenter.lives if fault.kind == "kill" else datacenter.is_stopped


def _endpoints(made: World, chance: random.Random, outages: int, done: threading.Event) -> Counter[str]:
    """Kill or stall one endpoint after the other."""
    survived: Counter[str] = Counter()
    for _ in range(outages):
        server = chance.choice(made.endpoints)
        how = chance.choice(("kill", "stall"))
        if done.wait(chance.uniform(0.5, 2)):
            break
        server.kill() if how == "kill" else server.stall()
        survived[f"{how} of an endpoint"] += 1
        done.wait(chance.uniform(1, 4))
        server.start() if how == "kill" else server.resume()
    return survived


def main(arguments: Sequence[str]) -> int:
    """Drive worlds until so many kills are survived; 1 if anything was lost, joined twice or wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="how many, and as many stops")
    parser.add_argument(
        "--seed", type=int, default=1, help="of the first world; each further one has the next"
    )
    parser.add_argument("--at-once", type=int, default=3, help="worlds")
    parser.add_argument("--each", type=int, default=5, help="kills, and stops, of a datacenter in a world")
    parser.add_argument(
        "--stopped", type=float, nargs=2, default=(10.0, 60.0), help="seconds, least and most"
    )
    options = parser.parse_args(arguments)
    dose = Dose(options.each, options.each, tuple(options.stopped), endpoint_outages=2 * options.each)
    worlds = -(-options.kills // (2 * options.each))
    survived: Counter[str] = Counter()
    wrong = 0

    def one(seed: int) -> Outcome:
        with tempfile.TemporaryDirectory(prefix="photon-outages-") as folder:
            return drive(Path(folder), seed, dose)

    with ThreadPoolExecutor(options.at_once) as pool:
        for outcome in pool.map(one, range(options.seed, options.seed + worlds)):
            survived += outcome.survived
            wrong += bool(outcome.wrong)
            print(f"seed {outcome.seed}: {outcome.rows} rows, {dict(outcome.survived)}", flush=True)
            for fault in outcome.wrong[:20]:
                print(f"seed {outcome.seed}: WRONG: {fault}", flush=True)
    print(f"{worlds} worlds, {wrong} of them wrong; survived: {dict(survived)}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
