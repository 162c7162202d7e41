"""A pipeline with old and young events and the commands that delete its old ids; for tests of gc."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from photon.cli.main import main
from photon.clock import MICROSECONDS, SystemClock
from photon.ledger.opening import close_registries, init_registry
from photon.pipeline.file import Pipeline, load_pipeline
from photon.shift.run import run_shift
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
foreign: {{files: "clicks/*.csv", format: csv, id: click, key: query, time: at, time_unit: us, {identity}}}
registry:
  endpoints: [{{url: {url}}}]
  keep_days: {keep_days}
  shards: 4
"""
IDENTITIES = {
    "time and id": "time_in_id: true",
    "id with its time": "id_codec: server_process_timestamp",
    "id alone": "time_in_id: false",
}


class World:
    """One datacenter with events of 40 days ago and of today, joined."""

    def __init__(self, folder: Path, url: str, identity: str, keep_days: int | None) -> None:
        self.folder, self.now_us = folder, SystemClock().now_us()
        self.file = folder / "pipeline.yaml"
        days = "null" if keep_days is None else keep_days
        name = f"clicks-{uuid.uuid4().hex[:8]}"
        self.file.write_text(PIPELINE.format(name=name, url=url, identity=identity, keep_days=days))
        self.pipeline: Pipeline = load_pipeline(self.file)
        old = [self.now_us - 40 * DAY_US + number for number in range(OLD)]
        young = [self.now_us - 60 * MICROSECONDS + number for number in range(YOUNG)]
        for side in ("queries", "clicks"):
            (folder / "logs" / "east" / side).mkdir(parents=True)
        self.write("queries", "query,at", [f"q{time_us},{time_us - 1}" for time_us in old + young])
        self.write("clicks", "click,query,at", [f"server:7:{t},q{t},{t}" for t in old + young])
        init_registry(self.pipeline, SystemClock())
        close_registries()

    def write(self, side: str, header: str, lines: list[str], name: str = "a") -> None:
        path = self.folder / "logs" / "east" / side / f"{name}.csv"
        path.write_text("\n".join([header, *lines, ""]))

    def join(self) -> dict[str, int]:
        return run_shift(self.pipeline, "east", "complete", "local").counts.as_dict()

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
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def told(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)
