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
@click.option("--safe-to-delete", is_flag=True, help="Print the log files that joins need no more.")
def status(pipeline_file: Path, as_json: bool, safe_to_delete: bool) -> None:
    """How each datacenter of PIPELINE stands: whether it is well, what waits and why, what to do.

    Details follow. It asks only the datacenters' own folders, and disturbs neither registry nor joins.
    """
    log_to_stderr()
    with expected_errors():
        from photon.clock import SystemClock
        from photon.pipeline.file import load_pipeline
        from photon.shift.standing import headline, sentences
        from photon.shift.status import status_of

        pipeline, clock = load_pipeline(pipeline_file), SystemClock()
        found = {name: status_of(pipeline, name, clock) for name in pipeline.datacenters}
    lines: list[str] = []
    for name, one in found.items():
        if safe_to_delete:
            logs = pipeline.datacenters[name].logs
            lines += [f"{logs / path}" for log in (one.primary, one.foreign) for path in log.safe_to_delete]
        else:
            lines.append(headline(name, one, clock.now_us(), f"photon join {pipeline_file} -d {name}"))
            lines += [f"  {sentence}" for sentence in sentences(one)]
    if not safe_to_delete:
        lines += ["", *(line for name, one in found.items() for line in _details(name, one))]
    print_result({name: asdict(one) for name, one in found.items()}, "\n".join(lines), as_json)


def _details(name: str, one: DatacenterStatus) -> list[str]:
    running = f"run by process {one.running_process}" if one.running_process else "not running"
    if one.running_run:
        running += f" (run {one.running_run} of Dagster)"
    lines = [f"{name}: {running}, epoch {one.epoch or 'none'}, batch {one.batch}"]
    for side, log in (("primary", one.primary), ("foreign", one.foreign)):
        kinds = f"{log.gone_files} gone, {len(log.safe_to_delete)} safe to delete"
        lines.append(
            f"  {side:8} {log.files:>7,} files ({kinds}), {log.read_bytes:>15,} bytes read, "
            f"{log.backlog_bytes:,} waiting"
        )
    if one.watermark_lag_seconds is not None:
        lines.append(f"  watermark {one.watermark_lag_seconds:,.1f} s behind the clock")
    return lines + [f"  {key:22}{value:>14,}" for key, value in one.counts.items()]
