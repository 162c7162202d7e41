"""Measures joins of the same generated logs in one run, in turn: Photon's, Spark's own and Flink's.

Measured is the time from the moment when all log files are there, with the session warm, to the commit of the
last row, as a reader of the tables sees it. What the rows are is compared with the truth afterwards.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import mean
from typing import Any

import psutil
import pyarrow as pa

from bench.flink_environment import FLINK_VERSION
from bench.join_contenders import Contender, JoinFailed, contender
from bench.join_logs import JoinLogs, place
from bench.join_rows import CommitWatch, Found, compare, read_rows
from photon.process.clock import MICROSECONDS, Clock, SystemClock
from photon.toolchain.java import java_command

# In this order, for the last ones are left out where the time is short.
CONTENDERS = (
    "photon", "photon_racing", "stream_memory", "flink_heap", "batch", "stream_rocksdb", "flink_rocksdb",
)  # fmt: skip
SOONER = ("photon", "photon_racing", "stream_memory")  # their second round comes before the kill
STREAMS = ("stream_memory", "stream_rocksdb")
WARM_UP_SHARE = 20  # so many times fewer events than in the logs
WARM_UP_FILES = 4
MUCH_PER_TRIGGER, LITTLE_PER_TRIGGER = 10, 4  # files of each log that a stream takes at once
IDLE_SECONDS = 120.0  # without a commit: nothing more comes of a join that ends only when it is stopped
PACKAGES = ("photon-join", "pyspark", "delta-spark", "deltalake", "pyarrow")

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Sizes:
    """How much is joined."""

    primary: int
    foreign: int
    late_primary: int  # where logs are late or out of order
    late_foreign: int
    rounds: int = 2
    minutes: float = 27  # no run begins later
    hurts: Sequence[str] = ("late", "out_of_order", "idle", "kill")
    curves: bool = False  # cost against history, files and cores


# Sessions that start and get warm take most of a run of the smaller ones, some half a minute.
SIZES = {
    "full": Sizes(2_000_000, 100_000, 200_000, 10_000, curves=True),
    "quick": Sizes(200_000, 10_000, 50_000, 2_500, rounds=1, minutes=4, hurts=("late",)),
    "small": Sizes(50_000, 2_500, 50_000, 2_500, rounds=1, curves=True),
}


@dataclass(frozen=True)
class Scenario:
    """Something that is wrong with the logs."""

    name: str
    some_late: bool = False
    shuffle_seed: int | None = None
    one_idle: bool = False
    cores: int | None = None  # for Photon; None: all
    files_per_trigger: int = LITTLE_PER_TRIGGER  # more at once, and a stream would see little that is late


PLAIN = Scenario("plain", files_per_trigger=MUCH_PER_TRIGGER)
HURTS = (
    Scenario("late", some_late=True),
    Scenario("out_of_order", shuffle_seed=1),
    Scenario("idle", one_idle=True),
)
KILL = "kill"  # -9, of all processes, at half of the time that the join took before; and a new start
HURT = ("photon", "stream_memory", "flink_heap")  # who goes through them


@dataclass(frozen=True)
class Run:
    """One join of the logs."""

    contender: str
    scenario: str
    round: int
    seconds: float  # from the logs being there to the last row being readable
    cpu_seconds: float | None  # all its processes meanwhile; None if one of them ended
    events_per_second: float
    found: Found
    load_average: float  # the minute before: whether others were at work


def measure_joins(
    folder: Path, sizes: Sizes, contenders: Sequence[str], progress: Progress, clock: Clock | None = None
) -> dict[str, Any]:
    """All runs as one JSON object. `folder` is new; each run works in it and leaves nothing.

    A run that fails, or would begin too late (`Sizes.minutes`), is named in `left_out`. So what matters most
    comes first, and second rounds come late.
    """
    clock = clock or SystemClock()
    began_us, left_out = clock.now_us(), {}

    def run(bench: Bench, name: str, turn: int, kill_after_seconds: float | None = None) -> Iterator[Run]:
        what = f"{KILL if kill_after_seconds else bench.scenario.name} {name} {turn}"
        if clock.now_us() - began_us > sizes.minutes * 60 * MICROSECONDS:
            left_out[what] = f"{sizes.minutes} minutes were over"
            return
        try:
            yield bench.run(name, turn, kill_after_seconds)
        except JoinFailed as error:
            left_out[what] = str(error)

    plain = Bench(folder / "plain", JoinLogs(sizes.primary, sizes.foreign), progress)
    runs = [done for name in contenders for done in run(plain, name, 1)]
    seconds = mean_seconds(runs)
    hurt = [name for name in HURT if name in seconds]
    hurt_runs: list[Run] = []
    for scenario in (one for one in HURTS if one.name in sizes.hurts):
        logs = JoinLogs(
            sizes.late_primary,
            sizes.late_foreign,
            some_late=scenario.some_late,
            one_idle=scenario.one_idle,
        )
        bench = Bench(folder / scenario.name, logs, progress, scenario)
        hurt_runs += [done for name in hurt for done in run(bench, name, 1)]
    points = curve_points(sizes.late_primary) if sizes.curves and "photon" in seconds else ()
    curves = [
        {"point": asdict(point), "run": asdict(done)}
        for point in points
        for done in run(_curve_bench(folder, point, sizes, progress), "photon", 1)
    ]
    rest = [(name, turn) for turn in range(2, sizes.rounds + 1) for name in contenders]
    runs += [done for name, turn in rest if name in SOONER for done in run(plain, name, turn)]
    if KILL in sizes.hurts:
        hurt_runs += [done for name in hurt for done in run(plain, name, 1, seconds[name] / 2)]
    runs += [done for name, turn in rest if name not in SOONER for done in run(plain, name, turn)]
    return {
        "measured_at": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(began_us / MICROSECONDS)),
        "took_seconds": round((clock.now_us() - began_us) / MICROSECONDS, 1),
        "sizes": asdict(sizes),
        "bytes": plain.bytes,
        "machine": machine(),
        "versions": versions(),
        "settings": {name: contender(name, folder, MUCH_PER_TRIGGER).settings() for name in contenders},
        "runs": [asdict(done) for done in runs],
        "ratios": ratios(mean_seconds(runs)),
        "hurts": [asdict(done) for done in hurt_runs],
        "curves": curves,
        "left_out": left_out,
    }


@dataclass(frozen=True)
class CurvePoint:
    """How much is indexed before, in how many files each log is, and on how many cores."""

    history: int
    files: int = 20
    cores: int | None = None  # all

    @property
    def name(self) -> str:
        """The name of the run at this point."""
        return f"history_{self.history}_files_{self.files}_cores_{self.cores or 'all'}"


def curve_points(primary: int) -> tuple[CurvePoint, ...]:
    """Where Photon's cost is measured, of so many primary events: from one point along three lines."""
    least = primary // WARM_UP_SHARE
    return (
        CurvePoint(least),
        CurvePoint(least, cores=1),
        CurvePoint(primary),
        CurvePoint(5 * primary),
        CurvePoint(least, files=200),
        CurvePoint(least, files=1_000),
    )


def _curve_bench(folder: Path, point: CurvePoint, sizes: Sizes, progress: Progress) -> Bench:
    warm_up = JoinLogs(point.history, max(sizes.late_foreign // WARM_UP_SHARE, 100), WARM_UP_FILES, seed=2)
    logs = JoinLogs(sizes.late_primary, sizes.late_foreign, point.files)
    return Bench(folder / point.name, logs, progress, Scenario(point.name, cores=point.cores), warm_up)


def mean_seconds(runs: Sequence[Run]) -> dict[str, float]:
    """The mean of each contender's rounds."""
    names = dict.fromkeys(run.contender for run in runs)
    return {name: mean(run.seconds for run in runs if run.contender == name) for name in names}


def ratios(seconds: dict[str, float]) -> dict[str, dict[str, float]]:
    """How many times as fast as each other join each join is."""
    streams = [seconds[name] for name in STREAMS if name in seconds]
    others = seconds | ({"faster_stream": min(streams)} if streams else {})
    return {
        name: {other: round(took / own, 2) for other, took in others.items() if other != name}
        for name, own in seconds.items()
    }


class Bench:
    """Runs contenders, one after the other, on the same logs."""

    def __init__(
        self,
        folder: Path,
        logs: JoinLogs,
        progress: Progress,
        scenario: Scenario = PLAIN,
        warm_up: JoinLogs | None = None,
    ) -> None:
        self._folder, self._logs, self._progress, self.scenario = folder, logs, progress, scenario
        primary, foreign = (max(count // WARM_UP_SHARE, 100) for count in (logs.primary, logs.foreign))
        self._warm_up = warm_up or JoinLogs(primary, foreign, WARM_UP_FILES, seed=2)

    @property
    def bytes(self) -> int:
        """The bytes of all files of both logs."""
        self._generate()
        return sum(path.stat().st_size for path in (self._folder / "generated").iterdir())

    def _generate(self) -> None:
        """Write the logs, unless they are there: those of a bench that has no time left are not needed."""
        if not (self._folder / "generated").exists():
            self._warm_up.write(self._folder / "generated_warm_up")
            self._logs.write(self._folder / "generated")

    def run(self, name: str, turn: int, kill_after_seconds: float | None = None) -> Run:
        """One join, in a folder of its own that is removed at the end."""
        self._generate()
        folder = self._folder / f"{name}_{turn}"
        one = contender(name, folder, self.scenario.files_per_trigger, self.scenario.cores)
        try:
            run = self._run(one, turn, kill_after_seconds)
        finally:
            one.stop()
        shutil.rmtree(folder)  # a run that failed leaves it, if the folder above it stays
        now = time.strftime("%H:%M:%S")
        self._progress(f"{now} {run.scenario}: {name}: {run.seconds:.1f} s, {run.found}")
        return run

    def _run(self, one: Contender, turn: int, kill_after_seconds: float | None) -> Run:
        load = os.getloadavg()[0]
        began = one.begin(
            self._warm_up,
            lambda folder: place(self._folder / "generated_warm_up", folder),
            lambda folder: place(self._folder / "generated", folder, self.scenario.shuffle_seed),
        )
        cpu_before = one.cpu_seconds()
        expected = self._logs.expected()
        if one.has_warm_up_in_tables:
            expected = pa.concat_tables([expected, self._warm_up.expected()])
        watch = CommitWatch(one.tables())
        if kill_after_seconds is not None:
            watch.wait(lambda: time.time() > began + kill_after_seconds, IDLE_SECONDS)
            one.kill()
            one.begin_again()
        watch.wait(lambda: watch.rows >= expected.num_rows or one.has_ended(), IDLE_SECONDS)
        cpu_after = one.cpu_seconds() if kill_after_seconds is None else None
        one.finish(self._logs.records)
        watch.look()
        seconds = watch.last_seconds - began
        return Run(
            contender=one.name,
            scenario=self.scenario.name if kill_after_seconds is None else KILL,
            round=turn,
            seconds=round(seconds, 2),
            cpu_seconds=round(cpu_after - cpu_before, 1) if cpu_after and cpu_before else None,
            events_per_second=round((self._logs.primary + self._logs.records) / seconds),
            found=compare(read_rows(one.tables(), expected.column_names), expected),
            load_average=round(load, 2),
        )


def machine() -> dict[str, Any]:
    """The machine that the joins ran on."""
    cpu_info = Path("/proc/cpuinfo")
    models = re.findall(r"model name\s*: (.+)", cpu_info.read_text()) if cpu_info.exists() else []
    return {
        "processor": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": platform.platform(),
    }


def versions() -> dict[str, str]:
    """The versions of all that took part."""
    java = subprocess.run([java_command(), "-version"], capture_output=True, text=True, check=False)
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parent,
    )  # fmt: skip
    return {
        **{name: version(name) for name in PACKAGES},
        "flink": FLINK_VERSION,
        "commit": commit.stdout.strip() or "unknown",
        "python": platform.python_version(),
        "java": java.stderr.splitlines()[0],
    }
