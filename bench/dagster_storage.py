"""How many bytes Dagster stores a day with two datacenters, and how long its writers wait.

    python bench/dagster_storage.py

The target is 50 MB a day. It stores some runs, ticks and events through Dagster's own API, with the storage
of infra/dagster.yaml. Then it measures the files below DAGSTER_HOME, compute logs included. `DAY` says how
many of each a day has. Dagster keeps ticks that start nothing for some hours only: these count once.
"""

# Annotations must be types here, not strings: Dagster reads that of `context`.
import multiprocessing
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dagster import (
    AssetCheckSpec,
    AssetExecutionContext,
    AssetMaterialization,
    AssetsDefinition,
    DagsterInstance,
    MaterializeResult,
    StaticPartitionsDefinition,
    asset,
    materialize,
)
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.scheduler.instigation import TickData, TickStatus

from assets.logs import OBSERVED_EVERY_SECONDS, observations
from assets.reporting import PICTURE_EVERY, shift_metadata
from assets.run_history import SKIPPED_TICKS_KEPT_HOURS
from assets.verification import CHECKS, check_result, report_metadata
from photon.clock import MICROSECONDS
from photon.completeness.estimate import Completeness
from photon.join.outcomes import Counts, OutcomeClass
from photon.lifeline import end_with
from photon.pipeline.file import load_pipeline
from photon.shift.growth import Growth, LogSize
from photon.shift.report import Latency, ShiftReport
from photon.state.view import StateView
from photon.testing.traffic import Traffic
from photon.verification.report import DatacenterReport, VerificationReport
from resources.environment import ServedPipeline

SETTINGS = Path(__file__).parents[1] / "infra" / "dagster.yaml"
DATACENTERS = ("east", "west")
SOME = 60
DAEMON_SECONDS = 5  # between two ticks of a sensor, as Dagster's daemon goes round
NOW_US = 1_767_607_200 * MICROSECONDS
COUNTS: dict[OutcomeClass, int] = {
    "joined": 612_345,
    "joined_elsewhere": 598_123,
    "duplicates": 311,
    "unjoinable": 42,
    "pending": 96,
}
DAY = {
    "shift": 2 * 48,  # of 30 minutes
    "report of a shift": 2 * 1_440 * (PICTURE_EVERY - 1) // PICTURE_EVERY,
    "report with a picture": 2 * 1_440 // PICTURE_EVERY,
    "look at both logs": 2 * 86_400 // OBSERVED_EVERY_SECONDS,
    "verification": 24,
    "pruning": 24,
    "tick that starts nothing": 2 * SKIPPED_TICKS_KEPT_HOURS * 3_600 // DAEMON_SECONDS,
    "other tick": 2 * 48 + 2 * 24,
}
WRITERS = (1, 2, 4)
EVENTS_OF_A_WRITER = 150


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        file = Traffic(1, DATACENTERS).write_pipeline(Path(name))
        served = ServedPipeline(load_pipeline(file), DATACENTERS)
        with _home() as home, DagsterInstance.from_config(str(home)) as instance:
            each = _bytes_of_each(served, instance, home)
    total = 0.0
    for what, count in DAY.items():
        total += each[what] * count
        print(f"{what:26} {each[what]:8,.0f} B  x {count:6,} = {each[what] * count / 1e6:6.2f} MB")
    print(f"{'a day, two datacenters':26} {total / 1e6:31.1f} MB; the target is 50 MB")
    for writers in WRITERS:
        median_ms, worst_ms = _wait_of(writers)
        print(
            f"{writers} processes write without a pause: {median_ms:.0f} ms an event, 99 % {worst_ms:.0f} ms"
        )


@contextmanager
def _home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        os.environ["DAGSTER_HOME"] = name
        shutil.copy(SETTINGS, name)
        yield Path(name)


def _bytes_of_each(served: ServedPipeline, instance: DagsterInstance, home: Path) -> dict[str, float]:
    def grown_by(act: Callable[[], object], times: int) -> float:
        before = _stored_bytes(home)
        act()
        return (_stored_bytes(home) - before) / times

    def run(what: AssetsDefinition, partition: str | None = "east") -> Callable[[], object]:
        return lambda: materialize([what], instance=instance, partition_key=partition)

    reporting = {
        "report of a shift": AssetMaterialization(["p", "shift"], metadata=_report(False), partition="east"),
        "report with a picture": AssetMaterialization(
            ["p", "shift"], metadata=_report(True), partition="east"
        ),
    }
    run(_shift([]))()  # tables, snapshots and folders, which all runs share
    shift_bytes = statistics.mean(grown_by(run(_shift([])), 1) for _ in range(5))
    each = {"shift": shift_bytes, "pruning": shift_bytes}
    for what, event in reporting.items():
        each[what] = (grown_by(run(_shift([event] * SOME)), 1) - shift_bytes) / SOME
    seen = observations(served, "east", GROWTH)
    each["look at both logs"] = (grown_by(run(_shift(seen * SOME)), 1) - shift_bytes) / SOME
    run(_verification(), None)()
    each["verification"] = statistics.mean(grown_by(run(_verification(), None), 1) for _ in range(5))
    each["tick that starts nothing"] = grown_by(lambda: _ticks(instance, TickStatus.SKIPPED), SOME)
    each["other tick"] = grown_by(lambda: _ticks(instance, TickStatus.SUCCESS), SOME)
    return each


def _stored_bytes(home: Path) -> int:
    return sum(path.stat().st_size for path in home.rglob("*") if path.is_file())


def _shift(events: list[Any]) -> AssetsDefinition:
    @asset(key=["p", "shift"], partitions_def=StaticPartitionsDefinition(list(DATACENTERS)))
    def shift(context: AssetExecutionContext) -> MaterializeResult[None]:
        for event in events:
            context.log_event(event)
        return MaterializeResult(metadata=_report(True))

    return shift


def _verification() -> AssetsDefinition:
    sound = DatacenterReport(classes={str(name): n for name, n in COUNTS.items()}, rows=612_345)
    report = VerificationReport(dict.fromkeys(DATACENTERS, sound), rows=1_210_468)
    specs = [AssetCheckSpec(check.name, asset=["p", "verification"]) for check in CHECKS]

    @asset(key=["p", "verification"], check_specs=specs)
    def verification() -> MaterializeResult:  # type: ignore[type-arg]  # Dagster refuses MaterializeResult[None] with checks
        results = [check_result(check, report) for check in CHECKS]
        return MaterializeResult(metadata=report_metadata(report, 31.5), check_results=results)

    return verification


GROWTH = Growth(
    LogSize(files=120, bytes=123_456_789_012, unread_bytes=1_234_567),
    LogSize(files=60, bytes=12_345_678_901, unread_bytes=123_456),
    signature="0123456789abcdef0123456789abcdef",
    state=StateView(
        "713ae1ba233e9d3e",
        12_345,
        Counts(foreign=sum(COUNTS.values()), classes=COUNTS),
        watermark_us=NOW_US,
        due=12,
    ),
    lag_seconds=1.234,
)


def _classes(minute: int) -> dict[str, int]:
    joined = 3_181 + 7 * minute % 100
    return {"joined": joined, "joined_elsewhere": joined, "unjoinable": 30 + minute % 13, "dead_letters": 3}


def _report(with_picture: bool) -> dict[str, Any]:
    latency = Latency(0.412, 0.871, 1.934)
    reports = [
        ShiftReport(NOW_US + i * 60 * MICROSECONDS, 60.0, 112, 3_181 + 7 * i % 100, latency, _classes(i))
        for i in range(30)
    ]
    said = Completeness("0" * 32, 12_345, NOW_US, NOW_US, NOW_US, NOW_US, 0.999, 900, 4_320_000, 1_234)
    return shift_metadata("east", reports, GROWTH, said, with_picture)


def _ticks(instance: DagsterInstance, status: TickStatus) -> None:
    why = "run 0779fb10-4a67-471c-9de5-66e774e13426 joins (process 12345), and nothing else is to be done"
    for _ in range(SOME):
        tick = instance.create_tick(
            TickData("a" * 40, "search_clicks__east", InstigatorType.SENSOR, TickStatus.STARTED, time.time(),
                     selector_id="b" * 40, run_ids=[], cursor='{"signature": "0123456789abcdef", "at_us": 1}')
        )  # fmt: skip
        reason = {"skip_reason": why} if status is TickStatus.SKIPPED else {}
        instance.update_tick(tick.with_status(status, **reason))


def _wait_of(writers: int) -> tuple[float, float]:
    """Median and 99 % of the time that an event takes to store, in milliseconds."""
    with _home() as home:
        with DagsterInstance.from_config(str(home)) as instance:
            instance.get_runs(limit=1)
        with multiprocessing.get_context("spawn").Pool(writers, end_with, (os.getpid(),)) as pool:
            seconds = sorted(s for some in pool.map(_write, [str(home)] * writers) for s in some)
    return seconds[len(seconds) // 2] * 1e3, seconds[len(seconds) * 99 // 100] * 1e3


def _write(home: str) -> list[float]:
    seconds = []
    metadata = _report(False)
    with DagsterInstance.from_config(home) as instance:
        for _ in range(EVENTS_OF_A_WRITER):
            began = time.perf_counter()
            instance.report_runless_asset_event(AssetMaterialization(["p", "shift"], metadata=metadata))
            seconds.append(time.perf_counter() - began)
    return seconds


if __name__ == "__main__":
    main()
