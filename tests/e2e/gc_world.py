"""A pipeline with old and young events and the commands that drop its old ids; for tests of gc."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

from click.testing import CliRunner, Result

from photon.cli.main import main
from photon.dispatcher.shift.run import run_shift
from photon.pipeline.file import Pipeline, load_pipeline
from photon.process.clock import MICROSECONDS, SystemClock
from photon.registry.opening import close_registries, init_registry
from photon.state.view import read_offsets
from photon.storage.tables import OutputTable
from photon.verification.report import DatacenterReport, VerificationReport
from photon.verification.stored_reports import append

DAY_US = 86_400 * MICROSECONDS
OLD, YOUNG = 40, 10
PIPELINE = """
name: {name}
datacenters: {{east: {{logs: logs/east}}}}
primary: {{files: "queries/*.csv", format: csv, id: query, time: at, time_unit: us}}
foreign: {{files: "clicks/*.csv", format: csv, id: click, key: query, time: at, time_unit: us}}
registry:
  endpoints: [{{url: {url}}}]
  keep_days: {keep_days}
"""


class World:
    """One datacenter with events of 40 days ago, and later of today. They fill a generation."""

    def __init__(self, folder: Path, url: str, keep_days: int | None = 30) -> None:
        self.folder, self.now_us = folder, SystemClock().now_us()
        self.file = folder / "pipeline.yaml"
        days = "null" if keep_days is None else keep_days
        name = f"clicks-{uuid.uuid4().hex[:8]}"
        self.file.write_text(PIPELINE.format(name=name, url=url, keep_days=days))
        self.pipeline: Pipeline = load_pipeline(self.file)
        for side in ("queries", "clicks"):
            (folder / "logs" / "east" / side).mkdir(parents=True)
        self.write_events(self.now_us - 40 * DAY_US, OLD)
        init_registry(self.pipeline, SystemClock())
        close_registries()

    def write_young_events(self) -> None:
        self.write_events(self.now_us - 60 * MICROSECONDS, YOUNG, "young")

    def write_events(self, first_us: int, count: int, name: str = "a") -> None:
        times_us = range(first_us, first_us + count)
        self.write("queries", "query,at", [f"q{t},{t - 1}" for t in times_us], name)
        self.write("clicks", "click,query,at", [f"server:7:{t},q{t},{t}" for t in times_us], name)

    def write(self, side: str, header: str, lines: list[str], name: str = "a") -> None:
        path = self.folder / "logs" / "east" / side / f"{name}.csv"
        path.write_text("\n".join([header, *lines, ""]))

    def join(self) -> dict[str, int]:
        return run_shift(self.pipeline, "east", "complete").counts.as_dict()

    def verified(self, until_us: int | None) -> None:
        """Have a verification on record that has seen all events up to then."""
        epoch = read_offsets(self.pipeline.datacenters["east"].state).epoch
        east = DatacenterReport(verified_until_us=until_us, epoch=epoch)
        report = VerificationReport({"east": east}, rows=0)
        append(self.pipeline, report, SystemClock().now_us(), "a run", 1.0)

    def rows(self) -> Counter[str]:
        table = OutputTable(self.pipeline.datacenters["east"].lake, "joined_events").load()
        return Counter(table.to_pyarrow_table(columns=["_event_id"])["_event_id"].to_pylist())


def photon(*arguments: str | Path) -> Result:
    """Run a command in this process. A kibibyte fills a generation: no command has a way in for that."""
    with mock.patch("photon.upkeep.gc.GENERATION_BYTES", 1_024):
        return CliRunner().invoke(main, [str(argument) for argument in arguments])


def told(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)
