"""`photon status`: how far each datacenter is, and what is wrong."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from photon.cli.output import expected_errors, json_option, log_to_stderr, pipeline_argument, print_result

if TYPE_CHECKING:
    from photon.shift.status import DatacenterStatus


@click.command()
@pipeline_argument
@json_option
def status(pipeline_file: Path, as_json: bool) -> None:
    """How far each datacenter of PIPELINE is: what was read, what waits, what can't be read.

    Asks only the datacenters' own folders; neither the registry nor a running join is disturbed.
    """
    log_to_stderr()
    with expected_errors():
        from photon.clock import SystemClock
        from photon.pipeline.file import load_pipeline
        from photon.shift.status import status_of

        pipeline = load_pipeline(pipeline_file)
        found = {name: status_of(pipeline, name, SystemClock()) for name in pipeline.datacenters}
    lines = [line for name, one in found.items() for line in _lines(name, one)]
    print_result({name: asdict(one) for name, one in found.items()}, "\n".join(lines), as_json)


def _lines(name: str, one: DatacenterStatus) -> list[str]:
    running = f"run by process {one.running_process}" if one.running_process else "not running"
    if one.running_run:
        running += f" (run {one.running_run} of Dagster)"
    lines = [f"{name}: {running}, epoch {one.epoch or 'none'}, batch {one.batch}"]
    for side, log in (("primary", one.primary), ("foreign", one.foreign)):
        lines.append(
            f"  {side:8} {log.files:>7,} files ({log.gone_files} gone), {log.read_bytes:>15,} bytes read, "
            f"{log.backlog_bytes:,} waiting"
        )
    if one.watermark_lag_seconds is not None:
        lines.append(f"  watermark {one.watermark_lag_seconds:,.1f} s behind the clock")
    lines += [f"  {key:22}{value:>14,}" for key, value in one.counts.items()]
    lines += [f"  waits for {reason}: {count:,}" for reason, count in one.waiting.items()]
    return lines + [f"  PROBLEM {problem}" for problem in one.problems]
