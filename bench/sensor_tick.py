"""How long a tick of a datacenter's sensor takes with many log files, all of them known and some grown.

    python bench/sensor_tick.py [FILES]
    python bench/sensor_tick.py OBJECTS s3    on a MinIO, which is started and ended

The target is 0.5 s for 5,000 files, and for 10,000 objects. A tick by hand, with a real instance in a folder:
the daemon and the code location's server add what they need to talk to one another, some 0.05 s.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import BinaryIO

from dagster import DagsterInstance, DagsterRunStatus, build_sensor_context

from bench.minio_server import CREDENTIALS, minio_server
from bench.plan_many_files import LINE, many_files
from orchestration.definitions import build_defs
from orchestration.sensors import TICK_SECONDS, shift_sensor
from photon.dispatcher.log_reader import LogReader
from photon.pipeline.location import S3Folder
from photon.state.dispatcher_state import DispatcherState
from photon.storage.store import Store, store_of
from resources.environment import location_settings

ROUNDS = 10
PAST_RUNS = 300  # three days of two datacenters' shifts


def main(count: int, store: str) -> None:
    """Measure with `count` files and print."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as parts:
        folder = Path(name)
        paths = many_files(folder, count)
        write: Write = _append
        if store == "s3":
            os.environ |= CREDENTIALS
            server = parts.enter_context(minio_server(folder / "minio", ["logs"]))
            text = (folder / "pipeline.yaml").read_text()
            on_s3 = f"{{logs: s3://logs/here, storage: {{endpoint_url: {server.url}}}}}"
            (folder / "pipeline.yaml").write_text(text.replace("{logs: logs}", on_s3))
            logs = store_of(S3Folder("logs", "here", server.url))
            write = partial(_put, logs, folder / "logs")
        instance = parts.enter_context(DagsterInstance.local_temp(name))
        seconds = _ticks(folder, paths, instance, write)
    print(f"{count:,} files, {PAST_RUNS} runs before: a tick takes {seconds[ROUNDS // 2]:.3f} s (median)")
    print(f"the slowest of {ROUNDS} {seconds[-1]:.3f} s; the target is 0.5 s for 5,000 files, 10,000 objects")


Write = Callable[[Path, int], object]  # lines of a file, in a round


def _ticks(folder: Path, paths: Sequence[Path], instance: DagsterInstance, write: Write) -> list[float]:
    settings = location_settings({"PHOTON_PIPELINES": str(folder / "pipeline.yaml")})
    (served,) = settings.served
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda path: write(path, 0), paths))
    state = DispatcherState(served.pipeline.datacenters["here"].state)
    state.begin_epoch("many", "here", "bench", time.time_ns() // 1000, False)
    LogReader(served.pipeline, "here", state.files(), state).look(time.time_ns() // 1000, final=False)
    state.close()
    defs = build_defs(settings)
    job = defs.resolve_job_def(served.job_name("shift"))
    for _ in range(PAST_RUNS):
        instance.create_run_for_job(job, status=DagsterRunStatus.SUCCESS, tags={"dagster/partition": "here"})
    sensor = shift_sensor(served, "here")
    seconds = []
    for number in range(ROUNDS + 1):  # the first tick of a process lists and imports
        for path in paths[number :: 10 * ROUNDS]:
            write(path, number + 1)
        began = time.perf_counter()
        context = build_sensor_context(instance, definitions=defs)
        tick = sensor.evaluate_tick(context)
        seconds.append(time.perf_counter() - began)
        assert tick.run_requests
        if number == 0:
            print(f"the first tick of a process takes {seconds.pop():.3f} s")
        time.sleep(TICK_SECONDS)
    return sorted(seconds)


def _append(path: Path, number: int) -> None:
    with path.open("ab") as log:
        log.write(LINE)


def _put(logs: Store, folder: Path, path: Path, number: int) -> None:
    name = path.relative_to(folder).with_suffix(f".{number}.jsonl").as_posix()

    def write(sink: BinaryIO) -> None:
        sink.write(LINE)

    logs.put(name, write)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5_000, "".join(sys.argv[2:3]))
