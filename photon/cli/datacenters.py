"""Commands on a whole datacenter: `photon hold`, `photon resume`, `photon retire`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from photon.cli.output import (
    UPKEEP_LINE_SECONDS,
    dry_run_option,
    json_option,
    opened,
    pipeline_argument,
    print_outcome,
    print_result,
    showing_progress,
)
from photon.process.readable import counted

if TYPE_CHECKING:
    from photon.upkeep.recovery import Recovered
    from photon.upkeep.retire import Retired


@click.command()
@pipeline_argument
@click.argument("datacenter")
@json_option
def hold(pipeline_file: Path, datacenter: str, as_json: bool) -> None:
    """Keep DATACENTER of PIPELINE from running, for planned work. The others take over its share at once.

    A process that runs it ends within seconds, before its next batch; none starts until photon resume.
    """
    says = f"datacenter {datacenter} is on hold: a process that runs it ends within seconds"
    _hold(pipeline_file, datacenter, True, says, as_json)


@click.command()
@pipeline_argument
@click.argument("datacenter")
@json_option
def resume(pipeline_file: Path, datacenter: str, as_json: bool) -> None:
    """Let DATACENTER of PIPELINE run again, after photon hold."""
    _hold(pipeline_file, datacenter, False, f"datacenter {datacenter} may run again", as_json)


def _hold(pipeline_file: Path, datacenter: str, is_held: bool, says: str, as_json: bool) -> None:
    with opened(pipeline_file) as pipeline:
        from photon.cli.output import chosen
        from photon.dispatcher.shift.people import ask_first
        from photon.upkeep.hold import plan_hold
        from photon.upkeep.plans import carry_out

        chosen(pipeline, datacenter)
        ask_first(pipeline)
        on_hold = carry_out(lambda: plan_hold(pipeline, datacenter, is_held))
        if not is_held:
            from photon.state.starting import what_starts

            says += f": start it with {what_starts(pipeline, datacenter)}"
    print_result({"on_hold": list(on_hold)}, says, as_json)


@click.command()
@pipeline_argument
@click.argument("datacenter")
@click.option("--lake-is-gone", is_flag=True, help="Its rows are lost too: they count no more.")
@dry_run_option
@json_option
def retire(pipeline_file: Path, datacenter: str, lake_is_gone: bool, dry_run: bool, as_json: bool) -> None:
    """Give DATACENTER of PIPELINE up for good: it never runs again under this name.

    Its rows stay, and events that it registered without a row are free for the others. With --lake-is-gone
    its rows don't count any more, and all of its events are free: the others are verified, and ordered to
    join again what they called joined by it. Refused while its lake can be read. May be killed and run again.
    """
    with opened(pipeline_file, asks_registry=True) as pipeline, showing_progress(UPKEEP_LINE_SECONDS) as say:
        from photon.registry.opening import open_reader
        from photon.upkeep.plans import carry_out
        from photon.upkeep.retire import plan_retire

        done = carry_out(
            lambda: plan_retire(pipeline, open_reader(pipeline), datacenter, lake_is_gone), dry_run, say
        )
        ordered: dict[str, Recovered] = {}
        if done.rows is None and not dry_run:
            from photon.jobs.verification import recover_now

            say(f"datacenter {datacenter} is retired; verifies the others. If that fails, run it again")
            ordered = recover_now(pipeline, say)
    value = {**asdict(done), "ordered": {name: one.as_dict() for name, one in ordered.items()}}
    told = _would_retire(datacenter, done) if dry_run else _retired(datacenter, done, ordered)
    print_outcome(value, told, dry_run, as_json)


def _would_retire(datacenter: str, would: Retired) -> list[str]:
    if would.was_retired:
        lines = [f"datacenter {datacenter} is retired already; this would free what an earlier run has left"]
    else:
        lines = [f"datacenter {datacenter} would never run again under this name"]
    if would.rows is not None:
        lines.append(
            f"{counted(would.rows, 'row')} would stay and count; {counted(would.kept, 'id', 'keep')} a row"
        )
    else:
        lines.append(
            "its lake is gone: its rows would count no more, and the others would be ordered to join again "
            f"what they called joined by it, at most {counted(would.released, 'event')}"
        )
    return [*lines, f"{counted(would.released, 'id')} would be free for the other datacenters"]


def _retired(datacenter: str, done: Retired, ordered: Mapping[str, Recovered]) -> list[str]:
    already = " already" if done.was_retired else ""
    lines = [
        f"datacenter {datacenter} is retired{already}: {counted(done.released, 'id', 'are')} free, "
        f"{counted(done.kept, 'id', 'keep')} a row"
    ]
    if ordered:
        from photon.upkeep.recovery import recovery_sentences

        lines += recovery_sentences(ordered, dry_run=False)
    return lines
