"""Running the `photon` command as a user does: in processes of its own, which are gone when a test ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from photon.pipeline.file import load_pipeline
from photon.process.faults import CRASH_AT
from photon.storage.delta import is_table, open_table

PHOTON = (sys.executable, "-m", "photon.cli.main")
PATIENCE_SECONDS = 240.0


def photon(
    *arguments: str | Path, status: int | None = 0, crash_at: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; with `status`, its exit status is checked. `crash_at`: `faults.arm_by`."""
    done = subprocess.run(
        [*PHOTON, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE_SECONDS,
        check=False, env={**os.environ, CRASH_AT: crash_at},
    )  # fmt: skip
    if status is not None:
        assert done.returncode == status, (
            f"{arguments}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
        )
    return done


def photon_json(*arguments: str | Path, crash_at: str = "") -> dict[str, Any]:
    """Run a command with --json to its end; return the object that it printed."""
    printed = json.loads(photon(*arguments, "--json", crash_at=crash_at).stdout)
    assert isinstance(printed, dict)
    return printed


@contextlib.contextmanager
def running(*arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    """A command in the background, with all its children; killed at the end if it still runs."""
    process = subprocess.Popen(
        [*PHOTON, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        kill(process)


def line_with(words: str, process: subprocess.Popen[str]) -> str:
    """The first line on standard error that has these words."""
    assert process.stderr is not None
    return next(line for line in process.stderr if words in line)


def kill(process: subprocess.Popen[str]) -> None:
    """kill -9 of the process alone, as a machine's out-of-memory killer would."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def stop(process: subprocess.Popen[str], how: signal.Signals = signal.SIGTERM) -> int:
    """Ask a command to stop, and return its exit status."""
    process.send_signal(how)
    process.communicate(timeout=PATIENCE_SECONDS)
    return process.returncode


def joined_rows(pipeline_file: Path) -> pa.Table:
    """The joined rows of all datacenters."""
    places = load_pipeline(pipeline_file).datacenters.values()
    tables = [open_table(place.lake / "joined_events").to_pyarrow_table() for place in places]
    return pa.concat_tables(tables, promote_options="default")


def wait_for_rows(pipeline_file: Path, datacenter: str, at_least: int) -> None:
    """Wait until a datacenter's table has some rows."""
    table = load_pipeline(pipeline_file).datacenters[datacenter].lake / "joined_events"
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if is_table(table) and open_table(table).count() >= at_least:
            return
        time.sleep(0.2)  # another process writes: there is no clock to inject
    raise AssertionError(f"{table} did not reach {at_least} rows within {PATIENCE_SECONDS:.0f} s")


def status_with(words: str, pipeline: Path) -> str:
    """What `photon status` prints once it has these words."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while words not in (said := photon("status", pipeline).stdout):
        assert time.monotonic() < deadline, f"{words} was never said: {said}"
        time.sleep(1)  # each look takes a second of a core, which the processes that it waits for need too
    return said
