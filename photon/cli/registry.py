"""Commands on a pipeline's registry: `photon registry`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from photon.cli.examples import epilog_of
from photon.cli.output import (
    DONE,
    NOTHING_CHANGED,
    UPKEEP_LINE_SECONDS,
    VIOLATION,
    dry_run_option,
    json_option,
    opened,
    pipeline_argument,
    print_result,
    showing_progress,
    within_option,
)
from photon.errors import NOT_DONE
from photon.pipeline.sections import MOST_SHARDS

DOUBLES_TOLD = 10

if TYPE_CHECKING:
    from photon.pipeline.file import Pipeline
    from photon.registry.consensus.acceptor import StoreSize
    from photon.registry.operations.report import RegistryState
    from photon.upkeep.pipeline_gc import GcResult
    from photon.upkeep.refill import Refilled


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
    with opened(pipeline_file) as pipeline:
        from photon.clock import SystemClock
        from photon.registry.operations.init import init_registry

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
    with opened(pipeline_file) as pipeline:
        from photon.registry.operations.repair import repair_endpoint
        from photon.registry.operations.repair_dry_run import would_repair

        if dry_run:
            found = would_repair(pipeline, url)
            value = {"dry_run": True, **found.as_dict()}
            print_result(value, "\n".join([NOTHING_CHANGED, *found.sentences()]), as_json)
            return
        with showing_progress(UPKEEP_LINE_SECONDS) as say:
            done = repair_endpoint(pipeline, url, anew, say)
    before = " (others by the run before)" if done.went_on else ""
    says = f"{done.endpoint} is repaired: {done.copied} ids copied{before}, {done.mended} mended afterwards"
    print_result(asdict(done), says, as_json)


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
    with opened(pipeline_file) as pipeline, showing_progress(UPKEEP_LINE_SECONDS) as say:
        from photon.registry.open import open_registry
        from photon.registry.operations.init import find_registry
        from photon.upkeep.refill import refill as put_back

        done = put_back(pipeline, open_registry(find_registry(pipeline)), dry_run, say=say)
    print_result({"dry_run": dry_run, **done.as_dict()}, _refill_text(done, dry_run, pipeline), as_json)
    sys.exit(VIOLATION if done.doubles else DONE)


def _refill_text(done: Refilled, dry_run: bool, pipeline: Pipeline) -> str:
    lines = [NOTHING_CHANGED] if dry_run else []
    would = "would be " if dry_run else ""
    if not done.began:
        lines.append(f"{done.rows:,} rows: the registry has the id of each")
    else:
        lines.append(
            f"{done.rows:,} rows: {done.put_back:,} ids {would}put back, {done.released:,} {would}taken from "
            "who has no row for them"
        )
        lines.append("each datacenter begins a new epoch: it reads its logs again, and joins what has no row")
    if done.too_old:
        lines.append(f"{done.too_old:,} rows are older than what the registry keeps, and need no id")
    if done.doubles:
        lines.append(f"PROBLEM {len(done.doubles):,} events have a second row, and stay as they are:")
        lines += [f"  {one}" for one in done.doubles[:DOUBLES_TOLD]]
        lines.append(f"  photon verify {pipeline.typed} names all, and what leaves one row of each")
    return "\n".join(lines)


@registry.command(epilog=epilog_of("registry state"))
@pipeline_argument
@within_option
@json_option
def state(pipeline_file: Path, within: float, as_json: bool) -> None:
    """Show PIPELINE's registry: its shards, sizes, tokens, endpoints and epochs.

    Reads the stores, as much as `registry.state` in the pipeline file allows, while joins go on. What hangs
    is named after --within seconds, with the command that ends it.
    """
    with opened(pipeline_file) as pipeline:
        from photon.registry.operations.report import registry_state
        from photon.shift.people import asked_in_time

        found = asked_in_time(
            pipeline, lambda: registry_state(pipeline, grace_seconds=within / 3), within, while_working=True
        )
    lines = _state_lines(found, pipeline)
    print_result(found.as_dict(), "\n".join(lines), as_json)


def _state_lines(found: RegistryState, pipeline: Pipeline) -> list[str]:
    """The state for people: all shards together, then each endpoint and each epoch."""
    from photon.registry.operations.report import HOT_SHARDS, KINDS, how_to_reshard

    hot = pipeline.health.shard_load.warn
    kinds = ", ".join(f"{found.total(kind):,} {kind}" for kind in KINDS)
    lines = [
        f"{found.pipeline}: {found.total('ids'):,} ids ({kinds}) in {found.coverage}",
        f"  {found.total('key_bytes'):,} bytes of keys, {found.total('value_bytes'):,} beside them",
    ]
    if found.shard_rate is not None:
        lines.append(f"  each shard takes some {found.shard_rate:,.1f} ids a second")
    if found.shard_load is not None and found.shard_load >= hot:
        lines.append(f"  PROBLEM {HOT_SHARDS}: {how_to_reshard(found, pipeline)}")
    for one in found.endpoints:
        if one.health != "up":
            lines.append(f"  PROBLEM {one.endpoint}: {one.health}: {one.problem}")
        if not one.answers:
            continue
        counted = ((one.items, "items"), (one.bytes, "bytes"))
        size = "".join(f"{count:,} {what}, " for count, what in counted if count is not None)
        lines.append(
            f"  {one.endpoint}: {one.health}, a read takes {one.read_ms:.1f} ms, {size}behind at"
            f" {one.behind:,} ids ({one.missing:,} missing, {one.older:,} older, {one.uncleared:,} uncleared)"
        )
    epochs = sorted(found.register.epochs.items(), key=lambda item: item[1].since_us)
    decided = (("on hold", found.register.on_hold), ("retired", found.register.given_up))
    lines += [f"  datacenter {name}: {what}" for what, names in decided for name in names]
    return [*lines, *(f"  epoch {name} of {e.datacenter}: {e.state}" for name, e in epochs)]


@registry.command(epilog=epilog_of("registry reshard"))
@pipeline_argument
@click.argument("shards", type=click.IntRange(1, MOST_SHARDS))
@json_option
def reshard(pipeline_file: Path, shards: int, as_json: bool) -> None:
    """Spread PIPELINE's registry over SHARDS shards, for all events from its horizon on.

    Nobody waits and nothing is moved: earlier events stay in the shards that they have. If run again before
    the new number is in use, the last one counts.
    """
    with opened(pipeline_file) as pipeline:
        from photon.clock import in_utc
        from photon.registry.operations.resharding import reshard as have_shards

        done = have_shards(pipeline, shards)
        begins = None if done.begins_us is None else in_utc(done.begins_us)
    says = f"{done.shards} shards are in force"
    if begins is not None:
        says = f"{done.shards} shards for events from {begins} on (before: {done.before})"
    print_result({**asdict(done), "begins": begins}, says, as_json)


@registry.command(epilog=epilog_of("registry gc"))
@pipeline_argument
@dry_run_option
@json_option
def gc(pipeline_file: Path, dry_run: bool, as_json: bool) -> None:
    """Delete the ids of PIPELINE's registry that are older than registry.keep_days, at every endpoint.

    Never past what the last stored verification of every datacenter has seen (photon verify --record, or
    Dagster's). Joins go on; may be killed and run again. Exit status 3 if an endpoint did not answer:
    the next pass takes what is left there.
    """
    with opened(pipeline_file) as pipeline, showing_progress(UPKEEP_LINE_SECONDS) as say:
        from photon.clock import SystemClock
        from photon.upkeep.gc_dry_run import would_gc
        from photon.upkeep.pipeline_gc import run_gc

        done = (would_gc if dry_run else run_gc)(pipeline, SystemClock(), say)
    print_result({"dry_run": dry_run, **done.as_dict()}, _gc_text(done, dry_run), as_json)
    sys.exit(DONE if done.is_done else NOT_DONE)


def _gc_text(done: GcResult, dry_run: bool) -> str:
    told = done.as_dict()
    boundary, before = told["boundary"] or "none", told["boundary_before"] or "none"
    lines = [NOTHING_CHANGED] if dry_run else []
    lines.append(f"boundary: {boundary} (before: {before}); {done.because}")
    verb = "would be deleted" if dry_run else "deleted"
    for name, one in done.endpoints.items():
        left = f"; NOT ALL: {one.problem}" if one.problem else ""
        there = "" if one.after is None else f", {_size(one.after)} left"
        lines.append(f"{name}: {_size(one.deleted)} {verb}{there}{left}")
    return "\n".join(lines)


def _size(size: StoreSize) -> str:
    return f"{size.items:,} items" + ("" if size.bytes is None else f" of {size.bytes:,} bytes")
