"""One datacenter in a process of its own, which writes down what each batch did: for measurements of outages.

    python -m bench.outage_process PIPELINE DATACENTER REPORTS

It joins with Spark until SIGTERM. CPU is that of this process and of all below it, from the moment when the
session is warm.
"""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from pyspark.sql import SparkSession

from bench.timing import family_cpu_seconds
from photon.dispatcher.retrying import BatchReport, Callbacks
from photon.dispatcher.shift.run import run_shift
from photon.jobs.batch_job import SparkRunner
from photon.join.messages import BatchTasks, JoinResult, TaskOutcome
from photon.pipeline.file import load_pipeline
from photon.process.clock import SystemClock
from photon.registry.opening import close_registries


class CountingRunner(SparkRunner):
    """Counts the pairs that the adapter was asked to combine, in all attempts of a batch."""

    def __init__(self, build: Callable[[], SparkSession], workers: int | None = None) -> None:
        super().__init__(build, workers)
        self.combined: Counter[int] = Counter()  # by the number of the batch: the next one may be at work too

    def run(self, batch: BatchTasks) -> list[TaskOutcome]:
        outcomes = super().run(batch)
        joins = [outcome for outcome in outcomes if isinstance(outcome, JoinResult)]
        number = batch.context.plan.batch
        self.combined[number] += sum(joined.adapter_calls.combine.asked for joined in joins)
        return outcomes


def report_of(batch: BatchReport, at_us: int, combined: int, cpu_seconds: float) -> Mapping[str, float]:
    """The line about a batch: events that it read, combined and won; processor time since the start."""
    counts: Counter[str] = batch.counts  # after its claims: what another datacenter has won is not joined
    return {
        "at_us": at_us,
        "seconds": round(batch.seconds, 4),
        "primary": counts["primary"],
        "foreign": counts["foreign"],
        "combined": combined,
        "won": min(combined, counts["joined"]),  # a new epoch counts what an earlier one has joined, too
        "cpu_seconds": round(cpu_seconds, 3),
    }


def main(pipeline: Path, datacenter: str, reports: Path) -> None:
    """Join until SIGTERM."""
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    clock, described = SystemClock(), load_pipeline(pipeline)
    with (
        closing(CountingRunner.for_shift(described, datacenter)) as runner,
        reports.open("a", buffering=1) as file,
    ):
        runner.warm_up()
        began = family_cpu_seconds()

        def on_batch(batch: BatchReport) -> None:
            cpu_seconds = family_cpu_seconds() - began
            combined = runner.combined.pop(batch.batch, 0)
            file.write(json.dumps(report_of(batch, clock.now_us(), combined, cpu_seconds)) + "\n")

        callbacks = Callbacks(lambda: bool(asked), on_batch)
        run_shift(described, datacenter, "stop", runner, callbacks=callbacks)
    close_registries()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
