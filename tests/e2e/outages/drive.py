"""Carry a plan of faults out on a world of real processes, and check what has come of it.

python -m tests.e2e.outages.drive --kills 200 --seed 1     # make soak-outages
python -m tests.e2e.outages.drive --kills 1000 --local --each 40 --stopped 3 10     # on the local registry
"""

from __future__ import annotations

import argparse
import random
import shutil
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

from examples.demo.traffic import Traffic
from photon.process.faults import REFILL_FAULT_POINTS
from tests.e2e.outages.checker import read_logs, rows_of
from tests.e2e.outages.commands import DONE, KILLED, NOT_DONE, VIOLATION, command
from tests.e2e.outages.plan import Fault, Operation, faults_of, operations_of, repair_of
from tests.e2e.outages.world import ENDPOINTS, DatacenterProcess, Failed, World, until, world

POINT_SECONDS = 4.0  # a fault comes after this time though its point was not passed
SETTINGS = """
home: {takeover_delay: 500ms}
recovery: {silent_after: 2s}
retry: {allowed_lateness: 1s}
tailing: {poll_interval: 50ms}
"""
KEPT = "  keep_days: 30\n"  # gc begins generations of a few KiB while a world lives (`commands`)
TRAFFIC_SECONDS = 600.0
ALONE_SECONDS = 90.0  # once all faults are over, all rows are out within this time
COPIES = "copies"  # the folder with copies of the endpoints' folders
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
    """The number of faults that a datacenter gets."""

    kills: int
    stops: int
    stopped_seconds: tuple[float, float]
    endpoint_outages: int = 0  # kills and stalls of one endpoint at a time, and its losses, while this lasts
    commands: int = 0  # commands that are killed
    refills: int = 0  # refills that are killed, once the whole registry was put back
    stores: int = ENDPOINTS  # 0: the local registry, which has no endpoint that could be killed


@dataclass(frozen=True)
class Outcome:
    """The faults that a world has survived, and what is wrong with it."""

    seed: int
    survived: Counter[str]
    rows: int
    wrong: tuple[str, ...]

    @property
    def kills(self) -> int:
        """Count the kills of datacenters, endpoints and commands."""
        return sum(
            count
            for what, count in self.survived.items()
            if what.startswith("kill") and not what.endswith("at a point")
        )


def drive(folder: Path, seed: int, dose: Dose, say: Callable[[str], None] = lambda text: None) -> Outcome:
    """One world with two datacenters under load, each of which gets its dose at once."""
    traffic = Traffic(
        seed, primary_per_second=100, foreign_per_second=40, duration_seconds=TRAFFIC_SECONDS, ills=ILLS
    )
    chance = random.Random(seed)
    with (
        world(folder, traffic, SETTINGS, KEPT, dose.stores) as made,
        ThreadPoolExecutor(len(made.datacenters) + 2) as pool,
    ):
        made.begin()
        work = []
        for datacenter in made.datacenters.values():
            plan = faults_of(chance, dose.kills, dose.stops, dose.stopped_seconds)
            work.append(pool.submit(suffer, datacenter, plan, say))
        work.append(pool.submit(_operate, made, operations_of(chance, dose.commands), say))
        done = threading.Event()
        aside = pool.submit(_endpoints, made, random.Random(seed + 1), dose, done, say)
        try:
            survived = sum((one.result() for one in work), Counter[str]())
        finally:
            done.set()
        survived += aside.result()
        if dose.refills:
            survived += _refill(made, chance, dose.refills, say)
        wrong = _left_alone(made)
        counts = made.complete()
        wrong += made.faults(counts)
        if command(folder, ("verify", made.file), ends=(DONE, VIOLATION)) == VIOLATION:
            wrong.append(f"photon verify finds a violation: {folder / 'commands.log'}")
        rows = sum(len(rows_of(folder / "lake" / name)) for name in counts)
    return Outcome(seed, survived, rows, tuple(wrong))


def _left_alone(made: World) -> list[str]:
    """End the traffic, wait for a while, and name what is not joined; empty: all is."""
    made.end_traffic()
    due: set[str] = set().union(
        *(read_logs(made.folder / "logs" / name).joinable for name in made.datacenters)
    )

    def lacking() -> set[str]:
        rows = (row for name in made.datacenters for row in rows_of(made.folder / "lake" / name))
        return due - {str(row["_event_id"]) for row in rows}

    with suppress(Failed):
        until(lambda: not lacking(), "all is joined", ALONE_SECONDS)
    return [f"not joined after {ALONE_SECONDS:.0f} s without a fault: {click}" for click in sorted(lacking())]


def suffer(datacenter: DatacenterProcess, plan: Sequence[Fault], say: Callable[[str], None]) -> Counter[str]:
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
        if not fault.point.startswith(("start.", "recover.")):
            datacenter.wait_until_it_joins()
        datacenter.arm(fault.point, number)
        with suppress(Failed):
            until(lambda: _has_come(datacenter, fault), str(fault), POINT_SECONDS)
            return True
    datacenter.signal(number)
    until(lambda: _has_come(datacenter, fault), f"{datacenter.name}: {fault}")
    return False


def _has_come(datacenter: DatacenterProcess, fault: Fault) -> bool:
    return not datacenter.lives if fault.kind == "kill" else datacenter.is_stopped


def _operate(made: World, plan: Sequence[Operation], say: Callable[[str], None]) -> Counter[str]:
    """Kill commands beside the joins."""
    survived: Counter[str] = Counter()
    for operation in plan:
        say(str(operation))
        survived += _killed(made, operation)
    return survived


def _killed(made: World, operation: Operation) -> Counter[str]:
    """Kill a command, at its point if it passes that, else sooner and sooner."""
    words = [str(made.file) if word == "PIPELINE" else word for word in operation.words]
    kind = f"kill of {' '.join(word for word in operation.words if word.isalpha() and word.islower())}"
    if command(made.folder, words, operation.point) == KILLED:
        return Counter({kind: 1, f"{kind} at a point": 1})
    seconds = operation.kill_after_seconds
    while command(made.folder, words, kill_after_seconds=seconds) != KILLED:
        seconds /= 2
    return Counter({kind: 1})


def _endpoints(
    made: World, chance: random.Random, dose: Dose, done: threading.Event, say: Callable[[str], None]
) -> Counter[str]:
    """Kill, stall or empty one endpoint after the other; for refills all are copied before the last one."""
    survived: Counter[str] = Counter()
    for number in range(dose.endpoint_outages):
        if number == dose.endpoint_outages - 1 and dose.refills:
            made.copy_endpoints(made.folder / COPIES)
            survived["kill of a server"] += len(made.endpoints)
        server = chance.choice(made.endpoints)
        how = chance.choice(("kill", "stall", "loss"))
        if done.wait(chance.uniform(0.5, 2)):
            how = "kill"  # in haste every outage is still done, and a kill is the quickest
        say(f"{how} of {server.url}")
        server.stall() if how == "stall" else server.kill()
        survived["stall of a server" if how == "stall" else "kill of a server"] += 1
        done.wait(chance.uniform(1, 4))
        if how == "loss":
            shutil.rmtree(server.folder)
            server.start()
            survived += _killed(made, repair_of(chance, server.url))
            until_done(made, ("registry", "repair", str(made.file), "--endpoint", server.url))
        server.resume() if how == "stall" else server.start()
    return survived


def _refill(made: World, chance: random.Random, kills: int, say: Callable[[str], None]) -> Counter[str]:
    """Put all endpoints back: joins are refused until a refill, which is killed so often, has ended."""
    survived: Counter[str] = Counter()
    for datacenter in made.datacenters.values():
        datacenter.kill()
        survived["kill"] += 1
    made.put_endpoints_back(made.folder / COPIES)
    words = ("registry", "refill", str(made.file))
    command(made.folder, ("join", made.file, "--until-idle", "--engine", "local"), ends=(NOT_DONE,))
    for point in chance.sample(REFILL_FAULT_POINTS, kills):
        say(f"refill, killed at {point}")
        survived += _killed(made, Operation(("registry", "refill", "PIPELINE"), point, 0.3))
    until_done(made, words)
    for datacenter in made.datacenters.values():
        datacenter.start()
    return survived


def until_done(made: World, words: Sequence[str]) -> None:
    """Run a command again until it ends well: something else may be in its way."""
    until(lambda: command(made.folder, words) == DONE, " ".join(words))


def drive_until(
    kills: int, first_seed: int, dose: Dose, at_once: int, folder: Path | None = None
) -> list[Outcome]:
    """Drive worlds, each with the next seed, until so many kills are survived; each outcome is printed."""
    outcomes: list[Outcome] = []

    def one(seed: int) -> Outcome:
        place = Path(tempfile.mkdtemp(prefix=f"photon-outages-{seed}-", dir=folder))
        outcome = drive(place, seed, dose)
        if not outcome.wrong:
            shutil.rmtree(place)
        return outcome

    with ThreadPoolExecutor(at_once) as pool:
        while sum(outcome.kills for outcome in outcomes) < kills:
            seed = first_seed + len(outcomes)
            for outcome in pool.map(one, range(seed, seed + at_once)):
                outcomes.append(outcome)
                print(f"seed {outcome.seed}: {outcome.rows} rows, {dict(outcome.survived)}", flush=True)
                for fault in outcome.wrong[:20]:
                    print(f"seed {outcome.seed}: WRONG: {fault}", flush=True)
    return outcomes


def main(arguments: Sequence[str]) -> int:
    """Drive worlds until so many kills are survived; 1 if anything was lost, joined twice or wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="of datacenters, endpoints and commands")
    parser.add_argument(
        "--seed", type=int, default=1, help="of the first world; each further one has the next"
    )
    parser.add_argument("--at-once", type=int, default=2, help="worlds")
    parser.add_argument("--each", type=int, default=3, help="kills, and stops, of a datacenter in a world")
    parser.add_argument(
        "--stopped", type=float, nargs=2, default=(10.0, 60.0), help="seconds, least and most"
    )
    parser.add_argument("--local", action="store_true", help="on the local registry; few stops, many kills")
    options = parser.parse_args(arguments)
    each, stopped = options.each, tuple(options.stopped)
    dose = Dose(each, each, stopped, endpoint_outages=each, commands=2 * each, refills=each)
    if options.local:
        dose = Dose(each, 2, stopped, commands=each, stores=0)
    outcomes = drive_until(options.kills, options.seed, dose, options.at_once)
    survived = sum((outcome.survived for outcome in outcomes), Counter[str]())
    wrong = sum(bool(outcome.wrong) for outcome in outcomes)
    print(f"{len(outcomes)} worlds, {wrong} of them wrong; survived: {dict(survived)}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
