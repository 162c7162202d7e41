"""Measures a join on a standalone cluster: two workers beside two local cores, and simulated cores.

A simulated core has a tenth of a real one (`infra.servers.slow_cores`). So eight workers, the driver and
the registry fit into one core of this machine, and stand to each other as they would on ten. Waiting, disk
and network are not slowed down. The figures are those of full cores.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

from bench.join_contenders import PHOTON, JoinFailed, Photon, Place
from bench.join_logs import JoinLogs, place
from bench.join_measurement import machine, versions
from bench.join_rows import CommitWatch, Found, compare, read_rows
from bench.scaling import Costs
from infra.servers.process import ServerProcess, cpu_seconds_of, family_of
from infra.servers.slow_cores import SlowCore, slow_cores
from infra.servers.spark_cluster import SparkCluster, spark_cluster
from infra.servers.stores import StoreServer, fastest_kind

SHARE = 0.1  # part of a real core
CORES = (1, 2, 4, 8)
PAIRED_WORKERS = 2
IDLE_SECONDS = 240.0
WARM_UP_SHARE, WARM_UP_FILES = 5, 8  # enough that each JVM is warm, on eight workers too
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Run:
    """One join. Seconds and rates are those of full cores."""

    name: str
    cores: int
    seconds: float
    events_per_second: float
    task_cpu_seconds: float | None  # None: not apart from the driver's
    driver_cpu_seconds: float
    registry_cpu_seconds: float
    load_average: float
    found: Found


class _Registry(StoreServer):
    """A store on a core of its own, if it has one."""

    def __init__(self, folder: Path, core: SlowCore | None) -> None:
        super().__init__(fastest_kind(), folder)
        self._core = core

    def command(self) -> Sequence[str]:
        words = super().command()
        return words if self._core is None else self._core.command(words)


class PhotonElsewhere(Photon):
    """`photon join` of one datacenter with a registry that is no part of it, on a Spark master or here."""

    def __init__(
        self, name: str, folder: Path, registry_url: str, master: str | None, bound: Sequence[str] = ()
    ) -> None:
        """`master`: of a cluster; None: the cores of this machine. `bound`: words before its command."""
        super().__init__(name, folder, ["one"])
        self._registry_url, self._master, self._bound = registry_url, master, list(bound)

    def begin(self, warm_up: JoinLogs, place_warm_up: Place, place_logs: Place) -> float:
        self.folder.mkdir(parents=True)
        self._write_pipeline()
        made = subprocess.run(
            [*PHOTON, "registry", "init", str(self.pipeline)], capture_output=True, text=True, check=False
        )
        if made.returncode:
            raise JoinFailed(f"{self.name}: no registry: {made.stderr}")
        return super().begin(warm_up, place_warm_up, place_logs)

    def _pipeline(self) -> dict[str, Any]:
        spark: dict[str, Any] = {}
        if self._master is not None:
            settings = {"spark.driver.host": "127.0.0.1", "spark.pyspark.python": sys.executable}
            spark = {"spark": {"master": self._master, "settings": settings}}
        return {**super()._pipeline(), "registry": {"endpoints": [{"url": self._registry_url}]}, **spark}


def workers_cpu_seconds(cluster: SparkCluster) -> float:
    """CPU of a cluster's workers and of their executors."""
    return sum(cpu_seconds_of(family_of(worker.pid)) for worker in cluster.workers)


class ScalingBench:
    """Joins the same logs in different ways, each in a folder of its own."""

    def __init__(self, folder: Path, primary: int, foreign: int, progress: Progress) -> None:
        self._folder, self._progress = folder, progress
        self._logs = JoinLogs(primary, foreign)
        self._warm_up = JoinLogs(primary // WARM_UP_SHARE, foreign // WARM_UP_SHARE, WARM_UP_FILES, seed=2)
        self._logs.write(folder / "generated")
        self._warm_up.write(folder / "generated_warm_up")

    @property
    def bytes_an_event(self) -> float:
        """The bytes of a line of either log, on average."""
        files = (self._folder / "generated").iterdir()
        return sum(path.stat().st_size for path in files) / self._events

    @property
    def _events(self) -> int:
        return self._logs.primary + self._logs.records

    def here(self, name: str) -> Run:
        """A join on this machine's own cores."""
        with _Registry(self._folder / name / "registry", None) as store:
            one = PhotonElsewhere(name, self._folder / name / "join", store.url, None)
            return self._run(one, store, None, PAIRED_WORKERS)

    def on_cluster(self, name: str, workers: int) -> Run:
        """A join on so many workers of one full core."""
        folder = self._folder / name
        with (
            _Registry(folder / "registry", None) as store,
            spark_cluster(folder / "cluster", workers) as found,
        ):
            one = PhotonElsewhere(name, folder / "join", store.url, found.master.spark_url)
            return self._run(one, store, found, workers)

    def simulated(self, name: str, cores: int, has_slow_registry: bool) -> Run:
        """A join on so many slow workers, with a slow driver; a registry that is not slow never binds."""
        folder = self._folder / name
        with ExitStack() as parts:
            slow = parts.enter_context(slow_cores(cores + 2))
            driver, registry, *workers = slow
            store = parts.enter_context(_Registry(folder / "registry", registry))
            cluster = parts.enter_context(spark_cluster(folder / "cluster", 0))
            for core in workers:
                cluster.add_worker(core)
            url = cluster.master.spark_url
            one = PhotonElsewhere(name, folder / "join", store.url, url, driver.command([]))
            limited = [driver, *workers, *([registry] if has_slow_registry else [])]
            return self._run(one, store, cluster, cores, limited)

    def _run(
        self,
        one: PhotonElsewhere,
        store: ServerProcess,
        cluster: SparkCluster | None,
        cores: int,
        limited: Sequence[SlowCore] = (),
    ) -> Run:
        load, speed = psutil.getloadavg()[0], SHARE if limited else 1.0
        try:
            began = one.begin(
                self._warm_up,
                lambda folder: place(self._folder / "generated_warm_up", folder),
                lambda folder: place(self._folder / "generated", folder),
            )
            before = self._cpu(one, store, cluster)
            for core in limited:
                core.slow_down(SHARE)
            watch = CommitWatch(one.tables())
            expected = self._logs.expected()
            rows = expected.num_rows + self._warm_up.expected().num_rows
            watch.wait(lambda: watch.rows >= rows or one.has_ended(), IDLE_SECONDS)
            after = self._cpu(one, store, cluster)
            for core in limited:
                core.speed_up()
            one.finish(self._logs.records)
            rows_found = read_rows(one.tables(), expected.column_names)
        finally:
            for core in limited:
                core.speed_up()
            one.stop()
        found = compare(rows_found, pa.concat_tables([expected, self._warm_up.expected()]))
        seconds = (watch.last_seconds - began) * speed
        used = {part: after[part] - before[part] for part in after}
        run = Run(
            name=one.name,
            cores=cores,
            seconds=round(seconds, 2),
            events_per_second=round(self._events / seconds),
            task_cpu_seconds=round(used["tasks"], 2) if cluster is not None else None,
            driver_cpu_seconds=round(used["driver"], 2),
            registry_cpu_seconds=round(used["registry"], 2),
            load_average=round(load, 1),
            found=found,
        )
        self._progress(f"{time.strftime('%H:%M:%S')} {run}")
        return run

    def _cpu(
        self, one: PhotonElsewhere, store: ServerProcess, cluster: SparkCluster | None
    ) -> dict[str, float]:
        return {
            "tasks": workers_cpu_seconds(cluster) if cluster is not None else 0.0,
            "driver": one.cpu_seconds() or 0.0,
            "registry": cpu_seconds_of(family_of(store.pid)),
        }

    def costs(self, run: Run) -> Costs:
        """The cost of an event in a run on a cluster."""
        if run.task_cpu_seconds is None:
            raise ValueError(f"{run.name} was on no cluster: its tasks and its driver are one")
        each_us = 1e6 / self._events
        return Costs(
            task_us=run.task_cpu_seconds * each_us,
            driver_us=run.driver_cpu_seconds * each_us,
            registry_us=run.registry_cpu_seconds * each_us,
            bytes=self.bytes_an_event,
        )


def measure_scaling(
    folder: Path, primary: int, foreign: int, rounds: int, progress: Progress
) -> dict[str, Any]:
    """All runs as one JSON object: pairs in turn, then simulated cores. NoSlowCores."""
    bench = ScalingBench(folder, primary, foreign, progress)
    left_out: dict[str, str] = {}
    pairs: list[Run] = []
    for turn in range(1, rounds + 1):
        pairs += _tried(left_out, f"local_{turn}", bench.here)
        pairs += _tried(left_out, f"cluster_{turn}", partial(bench.on_cluster, workers=PAIRED_WORKERS))
    simulated: dict[str, list[Run]] = {"one_store": [], "elastic_store": []}
    for kind, runs in simulated.items():
        for cores in CORES:
            join = partial(bench.simulated, cores=cores, has_slow_registry=kind == "one_store")
            runs += _tried(left_out, f"{kind}_{cores}", join)
    costs = bench.costs(simulated["one_store"][0])
    return {
        "measured_at": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "primary": primary,
        "foreign": foreign,
        "share": SHARE,
        "machine": machine(),
        "versions": versions(),
        "pairs": [asdict(run) for run in pairs],
        "simulated": {kind: [asdict(run) for run in runs] for kind, runs in simulated.items()},
        "costs": asdict(costs),
        "left_out": left_out,
    }


def _tried(left_out: dict[str, str], name: str, join: Callable[[str], Run]) -> Iterator[Run]:
    try:
        yield join(name)
    except (JoinFailed, TimeoutError) as error:
        left_out[name] = str(error)
