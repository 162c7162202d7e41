"""How long a tick of a datacenter's sensor takes with many log files, all of them known and some grown.

    python bench/sensor_tick.py [FILES]

The target is 0.5 s for 5,000 files. A tick by hand, with a real instance in a folder: the daemon and the code
location's server add what they need to talk to one another, some 0.05 s.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from dagster import DagsterInstance, DagsterRunStatus, build_sensor_context

from bench.plan_many_files import LINE, many_files
from orchestration.definitions import build_defs
from orchestration.sensors import shift_sensor
from photon.dispatcher.log_reader import LogReader
from photon.state.database import DispatcherState
from resources.environment import location_settings

ROUNDS = 10
PAST_RUNS = 300  # three days of two datacenters' shifts


def main(count: int) -> None:
    """Measure with `count` files and print."""
    with tempfile.TemporaryDirectory() as name, DagsterInstance.local_temp(name) as instance:
        folder = Path(name)
        paths = many_files(folder, count)
        settings = location_settings({"PHOTON_PIPELINES": str(folder / "pipeline.yaml")})
        (served,) = settings.served
        for path in paths:
            path.write_bytes(LINE)
        state = DispatcherState(served.pipeline.datacenters["here"].state)
        state.begin_epoch("many", "here", "bench", time.time_ns() // 1000, False)
        LogReader(served.pipeline, "here", state.files(), state).look(time.time_ns() // 1000, final=False)
        state.close()
        defs = build_defs(settings)
        job = defs.resolve_job_def(served.job_name("shift"))
        for _ in range(PAST_RUNS):
            tags = {"dagster/partition": "here"}
            instance.create_run_for_job(job, status=DagsterRunStatus.SUCCESS, tags=tags)
        sensor = shift_sensor(served, "here")
        seconds = []
        for number in range(ROUNDS):
            for path in paths[number::ROUNDS]:
                with path.open("ab") as log:
                    log.write(LINE)
            began = time.perf_counter()
            context = build_sensor_context(instance, definitions=defs)
            tick = sensor.evaluate_tick(context)
            seconds.append(time.perf_counter() - began)
            assert tick.run_requests
        seconds.sort()
        print(f"{count:,} files, {PAST_RUNS} runs before: a tick takes {seconds[ROUNDS // 2]:.3f} s (median)")
        print(f"the slowest of {ROUNDS} {seconds[-1]:.3f} s; the target is 0.5 s for 5,000 files")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5_000)
