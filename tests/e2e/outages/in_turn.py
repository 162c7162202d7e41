"""Three datacenters under load: in turn one is killed, one slowed down, and one cut off from the registry.

python -m tests.e2e.outages.in_turn --seconds 120     # make soak-outages

Prints, as JSON, what was lost or joined twice, and how late the rows of the other two were during each fault.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.live_measurement import TableWatch
from examples.demo.latency import SeenRow, TableReader, TimeSpan, percentile
from examples.demo.traffic import Traffic
from photon.process.clock import MICROSECONDS
from tests.e2e.outages.cable import Cable
from tests.e2e.outages.world import PATIENCE_SECONDS, DatacenterProcess, Failed, world

DATACENTERS = ("east", "west", "north")
PRIMARY_PER_SECOND, FOREIGN_PER_SECOND = 100.0, 40.0
SHARE, TURN_SECONDS = 0.1, 0.1  # a slow process runs for this share of each turn
SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "most": 1.0}
READ_EVERY_SECONDS = 0.02
Say = Callable[[str], None]


def faults_in_turn(
    folder: Path, seconds: float, calm_seconds: float, say: Say, more: str = ""
) -> dict[str, Any]:
    """Join live traffic amid the faults, with calm between them; then join all to the end."""
    longest_seconds = PATIENCE_SECONDS + 3 * seconds + 4 * calm_seconds
    traffic = Traffic(7, DATACENTERS, PRIMARY_PER_SECOND, FOREIGN_PER_SECOND, longest_seconds)
    with world(folder, traffic, more) as made, made.cables_of("north") as cables:
        made.begin()
        tables = [folder / "lake" / name / "joined_events" for name in DATACENTERS]
        watch = TableWatch(TableReader(tables).poll, lambda: None, READ_EVERY_SECONDS)
        if not watch.until(lambda: len(watch.datacenters) == len(DATACENTERS), PATIENCE_SECONDS):
            raise Failed(f"only {sorted(watch.datacenters)} have rows; see {folder}")
        spans = {}
        for name, victim, fault in (
            ("calm", "", ExitStack()),
            ("killed", "east", _killed(made.datacenters["east"])),
            ("slowed to a tenth", "west", _slowed(made.datacenters["west"])),
            ("cut off", "north", _cut(cables)),
        ):
            watch.pass_by(calm_seconds)
            say(f"{name}: {victim or 'nobody'}")
            began_us = watch.clock.now_us()
            with fault:
                watch.pass_by(seconds)
            spans[name] = (victim, TimeSpan(began_us, watch.clock.now_us()))
        watch.pass_by(calm_seconds)
        counts = made.complete()
        watch.pass_by(calm_seconds)
        wrong = made.faults(counts)
    found = {name: _told(watch.rows, victim, span) for name, (victim, span) in spans.items()}
    return {"wrong": wrong, "rows": len(watch.clicks), "load": os.getloadavg(), "faults": found}


@contextmanager
def _killed(datacenter: DatacenterProcess) -> Iterator[None]:
    datacenter.kill()
    yield
    datacenter.start()


@contextmanager
def _slowed(datacenter: DatacenterProcess) -> Iterator[None]:
    """Stop the process most of the time: a share of a core would not slow one that takes less than it."""
    ends = threading.Event()

    def take_turns() -> None:
        while not ends.is_set():
            datacenter.signal(signal.SIGCONT)
            time.sleep(SHARE * TURN_SECONDS)  # a real process runs: no clock can be set
            datacenter.signal(signal.SIGSTOP)
            ends.wait((1 - SHARE) * TURN_SECONDS)
        datacenter.signal(signal.SIGCONT)

    turns = threading.Thread(target=take_turns)
    turns.start()
    try:
        yield
    finally:
        ends.set()
        turns.join()


@contextmanager
def _cut(cables: Sequence[Cable]) -> Iterator[None]:
    for cable in cables:
        cable.cut()
    yield
    for cable in cables:
        cable.mend()


def _told(rows: Sequence[SeenRow], victim: str, span: TimeSpan) -> dict[str, Any]:
    """The delays of clicks that were logged during a fault, and when its victim had a row again."""
    within = [row for row in rows if row.written_us in span]
    back_us = [row.readable_us for row in rows if row.row[0] == victim and row.readable_us >= span.end_us]
    return {
        "victim": victim,
        "seconds": round(span.seconds, 1),
        "rows_of_others": _delays([row for row in within if row.row[0] != victim]),
        "all_rows": _delays(within),
        "back_after_seconds": (min(back_us) - span.end_us) / MICROSECONDS if back_us else None,
    }


def _delays(rows: Sequence[SeenRow]) -> dict[str, float]:
    delays_us = sorted(row.latency_us for row in rows)
    seconds = {name: percentile(delays_us, share) / MICROSECONDS for name, share in SHARES.items()}
    return {"rows": len(rows), **{name: round(delay, 2) for name, delay in seconds.items()}}


def main(arguments: Sequence[str]) -> int:
    """Let each fault last so long; 1 if anything was lost, joined twice or wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120.0, help="of each fault")
    parser.add_argument("--calm", type=float, default=40.0, help="seconds between two faults")
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="photon-in-turn-"))
    found = faults_in_turn(folder, options.seconds, options.calm, lambda text: print(text, file=sys.stderr))
    print(json.dumps(found, indent=1))
    return int(bool(found["wrong"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
