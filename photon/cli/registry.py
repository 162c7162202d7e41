"""Commands on a pipeline's registry: `photon registry`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from photon.cli.examples import epilog_of
from photon.cli.output import (
    DONE,
    UPKEEP_LINE_SECONDS,
    VIOLATION,
    dry_run_option,
    json_option,
    opened,
    pipeline_argument,
    pipeline_file_of,
    print_outcome,
    print_result,
    showing_progress,
    within_option,
)
from photon.process.errors import NOT_DONE
from photon.process.readable import counted

DOUBLES_TOLD = 10
# As in photon.registry.register, which takes long to load.
MOST_LEDGERS = 64

if TYPE_CHECKING:
    from photon.pipeline.file import Pipeline
    from photon.upkeep.gc import GcResult
    from photon.upkeep.refill import Refilled
    from photon.upkeep.registry_state import RegistrySize, RegistryState


@click.group()
def registry() -> None:
    """Make a pipeline's registry, show it, or repair one of its endpoints."""


@registry.command(epilog=epilog_of("registry init"))
@pipeline_argument
@json_option
def init(pipeline_file: Path, as_json: bool) -> None:
    """Make the registry of PIPELINE if it is missing: its table, and the register in it.

    Only this command makes tables. It may be repeated, also by several at once.
    """
    with opened(pipeline_file, asks_registry=True) as pipeline:
        from photon.process.clock import SystemClock
        from photon.registry.opening import init_registry

        address = init_registry(pipeline, SystemClock())
    tables, endpoints = list(address.tables), [str(one) for one in address.endpoints]
    places = ", ".join(f"table {t} at {e}" for t, e in zip(tables, endpoints, strict=True))
    value = {"tables": tables, "endpoints": endpoints}
    print_result(value, f"registry of {address.pipeline}: {places}", as_json)


@registry.command(epilog=epilog_of("registry repair"))
@pipeline_argument
@click.option("--endpoint", "url", required=True, help="URL of the endpoint, as in the pipeline file.")
@click.option("--anew", is_flag=True, help="From the beginning, whatever an earlier run has done.")
@dry_run_option
@json_option
def repair(pipeline_file: Path, url: str, anew: bool, dry_run: bool, as_json: bool) -> None:
    """Fill an endpoint of PIPELINE's registry that lost its data, was restored, or is new.

    From a majority of the others, while joins go on. May be killed and run again: then it goes on where it
    stopped.
    """
    with opened(pipeline_file, asks_registry=True) as pipeline:
        from photon.upkeep.repair import plan_repair

        plan = plan_repair(pipeline, url, anew)
        if dry_run:
            print_outcome(plan.as_dict(), plan.sentences(), dry_run, as_json)
            return
        with showing_progress(UPKEEP_LINE_SECONDS) as say:
            done = plan.apply(say)
    before = " (others by the run before)" if done.went_on else ""
    copied = f"{counted(done.copied, 'entry')} copied{before}, {done.mended:,} mended afterwards"
    says = f"{done.endpoint} is repaired: {copied}"
    print_outcome(asdict(done), [says], dry_run, as_json)


def _pipeline_and_folder(
    ctx: click.Context, parameter: click.Parameter, words: Sequence[str]
) -> tuple[Path, Path]:
    if not words:
        raise click.UsageError("FOLDER is missing: where the copy is to be")
    *files, folder = words
    return pipeline_file_of(ctx, parameter, [Path(file) for file in files]), Path(folder)


@registry.command(epilog=epilog_of("registry refill"))
@pipeline_argument
@dry_run_option
@json_option
def refill(pipeline_file: Path, dry_run: bool, as_json: bool) -> None:
    """Put the ids of all rows back into PIPELINE's registry, after it was put back from a copy or made anew.

    Every datacenter has to be stopped, and every lake there. Afterwards each begins a new epoch: it reads its
    logs again, and joins what has no row. Changes nothing if the registry lacks nothing. May be killed and
    run again; until it has run to its end no datacenter joins. Exit status 1 if an event has two rows.
    """
    with opened(pipeline_file, asks_registry=True) as pipeline, showing_progress(UPKEEP_LINE_SECONDS) as say:
        from photon.registry.opening import open_reader
        from photon.upkeep.plans import carry_out
        from photon.upkeep.refill import plan_refill

        done = carry_out(
            lambda: plan_refill(pipeline, open_reader(pipeline, from_stored=False), say=say), dry_run, say
        )
    print_outcome(done.as_dict(), _refill_lines(done, dry_run, pipeline), dry_run, as_json)
    sys.exit(VIOLATION if done.doubles else DONE)


@registry.command(epilog=epilog_of("registry backup"))
@click.argument("words", nargs=-1, metavar="[PIPELINE] FOLDER", callback=_pipeline_and_folder)
@json_option
def backup(words: tuple[Path, Path], as_json: bool) -> None:
    """Copy PIPELINE's local registry into FOLDER, with all that was claimed so far, while joins go on.

    The copy has all pipelines of the registry. A file that is there is never replaced.
    """
    pipeline_file, folder = words
    with opened(pipeline_file) as pipeline:
        from photon.registry.opening import copy_registry

        copy = str(copy_registry(pipeline, folder))
    print_result({"copy": copy}, f"the registry is copied to {copy}", as_json)


def _refill_lines(done: Refilled, dry_run: bool, pipeline: Pipeline) -> list[str]:
    lines = []
    would = "would be " if dry_run else ""
    if not done.began:
        lines.append(f"{counted(done.rows, 'row')}: the registry has the id of each")
    else:
        lines.append(
            f"{counted(done.rows, 'row')}: {counted(done.put_back, 'id')} {would}put back, {done.released:,} "
            f"{would}taken from who has no row for them"
        )
        lines.append("each datacenter begins a new epoch: it reads its logs again, and joins what has no row")
    if done.too_old:
        lines.append(
            f"{counted(done.too_old, 'row', 'are')} older than what the registry keeps, so no id is needed"
        )
    if done.doubles:
        lines.append(
            f"PROBLEM {counted(len(done.doubles), 'event', 'have')} a second row, which is left alone:"
        )
        lines += [f"  {one}" for one in done.doubles[:DOUBLES_TOLD]]
        lines.append(f"  photon verify {pipeline.typed} names all, and what leaves one row of each")
    return lines


@registry.command(epilog=epilog_of("registry state"))
@pipeline_argument
@within_option
@json_option
def state(pipeline_file: Path, within: float, as_json: bool) -> None:
    """Show PIPELINE's registry: its ledgers, sizes, endpoints and epochs.

    Reads on from the newest view that a datacenter has stored, while joins go on. What hangs is named after
    --within seconds, with the command that ends it.
    """
    with opened(pipeline_file) as pipeline:
        from photon.dispatcher.shift.people import asked_in_time
        from photon.upkeep.registry_state import registry_state

        found = asked_in_time(
            pipeline, lambda: registry_state(pipeline, grace_seconds=within / 3), within, while_working=True
        )
    lines = _state_lines(found, pipeline)
    print_result(found.as_dict(), "\n".join(lines), as_json)


def _state_lines(found: RegistryState, pipeline: Pipeline) -> list[str]:
    """The state for people: all together, then each ledger, each endpoint and each epoch."""
    from photon.health.registry import LEDGERS, judge_registry
    from photon.process.clock import in_utc

    boundary = "none" if found.boundary_us is None else in_utc(found.boundary_us)
    lines = [f"{found.pipeline}: {_size(found.size)}; boundary: {boundary}"]
    if found.bytes_per_second is not None:
        lines.append(f"  the busiest ledger takes {found.bytes_per_second:,.0f} bytes a second")
    if (verdict := judge_registry(found, pipeline)[LEDGERS]).level != "ok":
        lines.append(f"  PROBLEM {verdict.text}")
    for ledger in found.ledgers:
        sealed = "" if ledger.state == "open" else f", {ledger.state}"
        home = f" (home of {ledger.home})" if ledger.home else ""
        lines.append(
            f"  ledger {ledger.ledger}{home}: {counted(ledger.ids, 'id')} in "
            f"{counted(ledger.positions, 'entry')} of {counted(ledger.bytes, 'byte')}{sealed}"
        )
    for one in found.endpoints:
        if one.health != "up":
            lines.append(f"  PROBLEM {one.endpoint}: {one.health}: {one.problem}")
        if not one.answers:
            continue
        size = "" if one.bytes is None else f", {counted(one.bytes, 'byte')}"
        lacks = f"lacks {one.behind:,} of {counted(one.positions, 'entry')}"
        lines.append(f"  {one.endpoint}: {one.health}, a read takes {one.read_ms:.1f} ms{size}, {lacks}")
    decided = (("on hold", found.register.on_hold), ("retired", found.register.given_up))
    lines += [f"  datacenter {name}: {what}" for what, names in decided for name in names]
    for epoch in found.epochs:
        unclosed = f"{counted(epoch.unclosed, 'id')} that no batch has closed"
        lines.append(f"  datacenter {epoch.datacenter}: epoch {epoch.number} is {epoch.state}, {unclosed}")
    if found.register.is_refilling:
        lines.append(f"  PROBLEM a refill did not end: photon registry refill {pipeline.typed}")
    return lines


def _pipeline_and_ledgers(
    ctx: click.Context, parameter: click.Parameter, words: Sequence[str]
) -> tuple[Path, int | None]:
    if len(words) > 1 or (words and words[0].isdecimal()):
        *files, number = words
        ledgers = click.IntRange(1, MOST_LEDGERS)(number, parameter, ctx)
    else:
        files, ledgers = list(words), None
    return pipeline_file_of(ctx, parameter, [Path(file) for file in files]), ledgers


@registry.command(epilog=epilog_of("registry reshard"))
@click.argument("words", nargs=-1, metavar="[PIPELINE] [LEDGERS]", callback=_pipeline_and_ledgers)
@dry_run_option
@json_option
def reshard(words: tuple[Path, int | None], dry_run: bool, as_json: bool) -> None:
    """Spread PIPELINE's registry over LEDGERS ledgers from now on, for events of any time.

    Nobody waits and nothing is moved. Without LEDGERS the pipeline file's policy is asked, as Dagster does.
    A single word is LEDGERS if it is a number; ./4 is a file.
    """
    pipeline_file, ledgers = words
    with opened(pipeline_file, asks_registry=True) as pipeline:
        from photon.registry.opening import open_reader
        from photon.upkeep.plans import carry_out
        from photon.upkeep.reshard import plan_reshard

        done = carry_out(lambda: plan_reshard(pipeline, open_reader(pipeline), ledgers), dry_run)
    print_outcome(done.as_dict(), [done.sentence(pipeline, dry_run)], dry_run, as_json)


@registry.command(epilog=epilog_of("registry gc"))
@pipeline_argument
@dry_run_option
@json_option
def gc(pipeline_file: Path, dry_run: bool, as_json: bool) -> None:
    """Drop the ids of PIPELINE's registry that are older than registry.keep_days.

    Never past what the last stored verification of every datacenter has seen (photon verify --record, or
    Dagster's). Ids go with all of their generation of ledgers. Joins go on; may be killed and run again. Exit
    status 3 if the registry did not answer on the way: the next pass goes on.
    """
    with opened(pipeline_file, asks_registry=True) as pipeline, showing_progress(UPKEEP_LINE_SECONDS) as say:
        from photon.process.clock import SystemClock
        from photon.registry.opening import open_reader
        from photon.upkeep.gc import plan_gc
        from photon.upkeep.plans import carry_out

        done = carry_out(lambda: plan_gc(pipeline, open_reader(pipeline), SystemClock()), dry_run, say)
    print_outcome(done.as_dict(), _gc_lines(done, dry_run), dry_run, as_json)
    sys.exit(DONE if done.is_done else NOT_DONE)


def _gc_lines(done: GcResult, dry_run: bool) -> list[str]:
    sizes = f"before: {_size(done.before)}; afterwards: {_size(done.after)}"
    problem = [f"NOT ALL: {done.problem}"] if done.problem else []
    return [*done.sentences(dry_run), sizes, *problem]


def _size(size: RegistrySize) -> str:
    return f"{counted(size.ids, 'id')} in {counted(size.ledgers, 'ledger')} of {counted(size.bytes, 'byte')}"
