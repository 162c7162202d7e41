"""A code location over a folder of its own, ticks of its sensors, and processes that have a lock."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

from dagster import DagsterInstance, DagsterRunStatus, Definitions, build_sensor_context
from dagster._core.definitions.sensor_definition import SensorExecutionData

from examples.demo.traffic import Traffic
from photon.orchestration.code_location import build_defs
from photon.orchestration.sensors import JOINING, ShiftKind, shift_sensor
from photon.process.clock import SystemClock
from photon.resources.environment import LocationSettings, ServedPipeline, location_settings
from tests.support.manual_clock import ManualClock

# Takes the lock as a shift of run argv[2] would, says so, and gives no sign of life until it is killed.
HOLDER = """
import sys, time
from pathlib import Path
from photon.process.clock import SystemClock
from photon.dispatcher.shift.lease import DatacenterLock, Lease
lease = Lease.of_this_process(sys.argv[2], SystemClock().now_us(), 1_800_000_000)
lock = DatacenterLock(Path(sys.argv[1]), "east", lease)
print("holds it", flush=True)
time.sleep(600)
"""


class Location:
    """One pipeline of one or two datacenters, with logs, as a code location serves it."""

    def __init__(
        self,
        folder: Path,
        datacenters: tuple[str, ...] = ("east", "west"),
        name: str = "clicks",
        more: str = "",
        start_us: int | None = None,
        instance: DagsterInstance | None = None,
        land: str = "",
    ) -> None:
        """`land`: what the first datacenter lands, as its key says it."""
        self.folder = folder
        self._instance = instance
        start_us = SystemClock().now_us() - 3_000_000 if start_us is None else start_us
        self.traffic = Traffic(1, datacenters, duration_seconds=2, start_us=start_us)
        self.traffic.write_all(folder)
        self.file = self.traffic.write_pipeline(folder, name, more, {datacenters[0]: land})
        if "kafka:" in land:  # its files have one pattern alone
            self.file.write_text(self.file.read_text().replace("/**/", "/*/"))
        self.settings: LocationSettings = location_settings({"PHOTON_PIPELINES": str(self.file)})
        self.served: ServedPipeline = self.settings.served[0]
        self.pipeline = self.served.pipeline
        self.defs: Definitions = build_defs(self.settings)
        self.job = self.served.job_name("shift")
        self.clock = ManualClock(SystemClock().now_us())

    @property
    def instance(self) -> DagsterInstance:
        """Return the Dagster that serves the location, where a test has one."""
        assert self._instance is not None
        return self._instance

    def state(self, datacenter: str = "east") -> Path:
        return self.pipeline.datacenters[datacenter].state

    def tick(
        self, datacenter: str = "east", cursor: str | None = None, kind: ShiftKind = JOINING
    ) -> SensorExecutionData:
        """Evaluate the sensor of a datacenter now, with all that it does to runs and processes."""
        context = build_sensor_context(self.instance, cursor, definitions=self.defs)
        return shift_sensor(self.served, datacenter, self.clock, kind).evaluate_tick(context)

    def run(
        self,
        datacenter: str = "east",
        status: DagsterRunStatus = DagsterRunStatus.STARTED,
        kind: ShiftKind = JOINING,
    ) -> str:
        """Store a run of a job of shifts as Dagster does, and return its id."""
        run = self.instance.create_run_for_job(
            self.defs.resolve_job_def(self.served.job_name(kind.job)),
            run_id=str(uuid.uuid4()),
            status=status,
            tags={"dagster/partition": datacenter},
        )
        return run.run_id

    @contextlib.contextmanager
    def holder(
        self, run_id: str, datacenter: str = "east", kind: ShiftKind = JOINING
    ) -> Iterator[subprocess.Popen[str]]:
        """A process that has the datacenter's lock in the name of a run."""
        command = [sys.executable, "-c", HOLDER, str(kind.lease_in(self.pipeline, datacenter)), run_id]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == "holds it\n"
                yield process
            finally:
                process.kill()


def launched(tick: SensorExecutionData) -> list[str | None]:
    """The partitions for which a tick requests runs."""
    return [request.partition_key for request in tick.run_requests or []]
