"""One datacenter in a process of its own, which writes down what each batch did: for measurements of outages.

    python -m bench.outage_process PIPELINE DATACENTER REPORTS [until_idle]

It joins until SIGTERM. Tasks run in this process, without Spark: the start of a session takes every core of a
small machine for half a minute, and would be measured in the place of the outage.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from photon.dispatcher.dispatcher import Mode
from photon.dispatcher.retrying import BatchReport, Callbacks
from photon.dispatcher.shift.run import run_shift
from photon.join.messages import BatchTasks, JoinResult, TaskOutcome
from photon.join.tasks import LocalRunner
from photon.pipeline.file import load_pipeline
from photon.process.clock import SystemClock
from photon.registry.opening import close_registries


class CountingRunner(LocalRunner):
    """Counts the pairs that the adapter was asked to combine, in all attempts, and those that won."""

    def __init__(self) -> None:
        super().__init__()
        self.combined = self.won = 0

    def run(self, batch: BatchTasks) -> list[TaskOutcome]:
        outcomes = super().run(batch)
        joins = [outcome for outcome in outcomes if isinstance(outcome, JoinResult)]
        self.combined += sum(joined.adapter_calls.combine.asked for joined in joins)
        self.won += sum(joined.classes.get("joined", 0) for joined in joins)
        return outcomes


def report_of(
    batch: BatchReport, at_us: int, combined: int, won: int, cpu_seconds: float
) -> Mapping[str, float]:
    """The line about a batch: events that it read, combined and won; processor time since the start."""
    counts: Counter[str] = batch.counts
    return {
        "at_us": at_us,
        "seconds": round(batch.seconds, 4),
        "primary": counts["primary"],
        "foreign": counts["foreign"],
        "combined": combined,
        "won": won,
        "cpu_seconds": round(cpu_seconds, 3),
    }


def main(pipeline: Path, datacenter: str, reports: Path, mode: str = "stop") -> None:
    """Join until SIGTERM, or until nothing is left."""
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    clock, runner, began = SystemClock(), CountingRunner(), time.process_time()  # imports don't count
    with reports.open("a", buffering=1) as file:

        def on_batch(batch: BatchReport) -> None:
            cpu_seconds = time.process_time() - began
            report = report_of(batch, clock.now_us(), runner.combined, runner.won, cpu_seconds)
            file.write(json.dumps(report) + "\n")
            runner.combined = runner.won = 0

        callbacks = Callbacks(lambda: bool(asked), on_batch)
        run_shift(load_pipeline(pipeline), datacenter, cast(Mode, mode), runner, callbacks=callbacks)
    close_registries()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), *sys.argv[4:])
