"""What a batch costs while records wait: the same live batches with each of these numbers of them.

python bench/waiting_records.py [RECORDS ...]
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from photon.clock import SystemClock
from photon.dispatcher.retrying import BatchReport, Callbacks
from photon.dispatcher.waiting import due_retries
from photon.event_store.hashing import hash_ids
from photon.join.tasks import LocalRunner
from photon.pipeline.file import Pipeline, load_pipeline
from photon.registry.address import RegistryAddress
from photon.registry.consensus.register import Members
from photon.registry.quorum.proposer import QuorumRegistry
from photon.shift.run import ForTests, ShiftLimits, run_shift
from photon.state.dispatcher_state import DispatcherState
from photon.testing.memory_registry import memory_registry
from photon.tokens import new_id
from photon.waiting.reasons import PRIMARY
from photon.waiting.segments import RECORD_COLUMNS, write_segment

PIPELINE = """
name: searches
datacenters: {east: {logs: logs}}
primary: {files: "queries/*.jsonl", format: jsonl, id: query, time: at, time_unit: us}
foreign: {files: "clicks/*.jsonl", format: jsonl, id: click, key: query, time: at, time_unit: us}
"""
SEGMENT_RECORDS = 500_000  # what a merged segment holds of records of 250 bytes
BATCHES, PRIMARIES, CLICKS, WOKEN = 20, 5_000, 250, 50
HOUR_US = 3_600_000_000


def waiting_records(start: int, count: int, now_us: int) -> pa.Table:
    """Records that wait for the queries w<start>, ...; due at some time of the next hour."""
    numbers = np.arange(start, start + count)
    keys = pa.array([f"w{n}" for n in numbers])
    padding = "words " * 30
    raws = [f'{{"click": "of w{n}", "query": "w{n}", "at": {now_us}, "text": "{padding}"}}' for n in numbers]
    constant = {"_file": 1, "_time_us": now_us, "attempts": 3, "first_seen_us": now_us, "recorded": False}
    constant |= {"primary_time_us": now_us, "reason": PRIMARY}
    columns = {
        "_offset": pa.array(numbers),
        "_raw": pa.array(raws).cast(pa.binary()),
        "_id": pa.array([f"of w{n}" for n in numbers]),
        "_key": keys,
        "key_hash": pa.array(hash_ids(keys)),
        "due_us": pa.array(now_us + HOUR_US + np.random.default_rng(start).integers(0, HOUR_US, count)),
        **{
            name: pa.repeat(pa.scalar(value, RECORD_COLUMNS.field(name).type), count)
            for name, value in constant.items()
        },
    }
    return pa.table(columns).select(RECORD_COLUMNS.names)


@dataclass
class Live:
    """Live batches, one after the other: each is written when the one before is readable."""

    folder: Path
    waiting: int
    wake: int  # waiting records of which each batch has the primaries
    seconds: list[float] = field(default_factory=list)
    _began: float = 0.0

    def write(self) -> None:
        number, now_us = len(self.seconds), SystemClock().now_us()
        ids = [f"q{number}-{n}" for n in range(PRIMARIES - self.wake)]
        some = np.random.default_rng(number).choice(max(self.waiting, 1), self.wake, False)
        self._append("queries", ({"query": i, "at": now_us} for i in [*ids, *(f"w{n}" for n in some)]))
        clicks = ((f"c{number}-{n}", ids[n] if n % 2 else "never") for n in range(CLICKS))
        self._append("clicks", ({"click": c, "query": q, "at": now_us} for c, q in clicks))
        self._began = time.perf_counter()

    def _append(self, kind: str, events: Iterator[dict[str, object]]) -> None:
        with (self.folder / "logs" / kind / "a.jsonl").open("a") as log:
            log.writelines(json.dumps(event) + "\n" for event in events)

    def on_batch(self, report: BatchReport) -> None:
        if report.counts["primary"]:
            self.seconds.append(time.perf_counter() - self._began)
            self.write()

    def run(self, pipeline: Pipeline, registry: QuorumRegistry) -> float:
        """The median of the batches' times, but for the first three."""
        address = RegistryAddress(pipeline.name, (), Members(1, ("memory",)), pipeline.registry)
        callbacks = Callbacks(should_stop=lambda: len(self.seconds) >= BATCHES, on_batch=self.on_batch)
        self.write()
        for_tests = ForTests(SystemClock(), (address, registry))
        run_shift(pipeline, "east", "stop", LocalRunner(registry), ShiftLimits(), callbacks, for_tests)
        return statistics.median(self.seconds[3:])


def measure(waiting: int, wake: int) -> None:
    """Print what a batch costs while so many records wait."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind in ("queries", "clicks"):
            (folder / "logs" / kind).mkdir(parents=True)
        (folder / "pipeline.yaml").write_text(PIPELINE)
        pipeline = load_pipeline(folder / "pipeline.yaml")
        first = Live(folder, waiting, 0)
        first.seconds = [0.0] * (BATCHES - 1)
        registry = memory_registry(clock=SystemClock(), settings=pipeline.registry)
        first.run(pipeline, registry)
        state = DispatcherState(pipeline.datacenters["east"].state)
        now_us = SystemClock().now_us()
        for start in range(0, waiting, SEGMENT_RECORDS):
            records = waiting_records(start, min(SEGMENT_RECORDS, waiting - start), now_us)
            state.waiting.add([write_segment(state.waiting.folder, new_id(), records)])
            state.waiting.store()
        batch = Live(folder, waiting, wake).run(pipeline, registry)
        print(f"{waiting:>12,} {wake:>6} {batch * 1e3:>12.0f}", *_decisions(state, pipeline), flush=True)
        state.close()


def _decisions(state: DispatcherState, pipeline: Pipeline) -> list[str]:
    """Milliseconds of: what each look asks, choosing 50,000 of all that is due, waking by 200,000 hashes."""
    state.waiting.forget()
    now_us = SystemClock().now_us()
    hashes = np.sort(np.random.default_rng(1).integers(0, 2**64, 200_000, np.uint64))
    waiting = state.waiting
    waiting.recount()  # reads what is stored
    decisions = (
        lambda: (
            waiting.count(),
            waiting.count_due(now_us),
            due_retries(waiting, now_us, 50_000, None, pipeline.retry),
        ),
        lambda: due_retries(waiting, now_us + 3 * HOUR_US, 50_000, now_us, pipeline.retry),
        lambda: waiting.wake([hashes]),
    )
    took = []
    for decide in decisions:
        began = time.perf_counter()
        decide()
        took.append(f"{(time.perf_counter() - began) * 1e3:>10.1f}")
    return took


if __name__ == "__main__":
    measure(0, 0)  # warm up
    print("     waiting  woken  batch, ms     look, ms  due, ms  wake, ms")
    for records in [int(argument) for argument in sys.argv[1:]] or [0, 1_000_000, 10_000_000]:
        for woken in (0, WOKEN) if records else (0,):
            measure(records, woken)
