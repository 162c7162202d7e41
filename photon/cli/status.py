"""`photon status`: how far each datacenter is, and what is wrong."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from photon.cli.ending import fail
from photon.cli.output import (
    VIOLATION,
    json_option,
    opened,
    pipeline_argument,
    print_result,
    within_option,
)
from photon.process.errors import NOT_DONE
from photon.process.readable import counted

if TYPE_CHECKING:
    from photon.health.status import DatacenterStatus
    from photon.pipeline.file import Pipeline

AVAILABILITY_SECONDS = 0.2  # the registry was asked first


@click.command()
@pipeline_argument
@json_option
@click.option("--check", is_flag=True, help="End with 1 if somebody is needed, for scripts.")
@within_option
@click.option("--safe-to-delete", is_flag=True, help="Print the log files that joins need no more.")
def status(pipeline_file: Path, as_json: bool, check: bool, within: float, safe_to_delete: bool) -> None:
    """How each datacenter of PIPELINE stands: whether it is well, what waits and why, what to do.

    The first line says whether all is well, also by the newest recorded verification; details come last. It
    reads the datacenters' own folders and lakes, and from the registry who is on hold or retired, and whether
    its endpoints are well; it disturbs neither registry nor joins. It ends with 3 if a datacenter's state
    can't be read, and with --check with 1 if its first line says that somebody is needed. What hangs is named
    after --within seconds, with the command that ends it.
    """
    with opened(pipeline_file) as pipeline:
        from photon.dispatcher.shift.people import beside_states, decisions_in_time
        from photon.health.overall import look_at_all, overall
        from photon.health.registry import in_words, look_at_endpoints
        from photon.process.clock import SystemClock
        from photon.process.in_time import NotInTime, Question
        from photon.verification.availability.report import ALL, report_of

        availability = Question(lambda: report_of(pipeline))
        ends = time.monotonic() + within
        is_local = pipeline.registry.endpoints == "local"  # `decisions` say how it is
        endpoints = None if is_local else Question(lambda: look_at_endpoints(pipeline))
        decisions = beside_states(pipeline, decisions_in_time(pipeline, within / 2, while_working=True))
        found, errors = look_at_all(pipeline, SystemClock(), decisions, within / 2)
        of_registry = "it could not be asked" if decisions.unknown_because is not None else ""
        if endpoints is not None and not of_registry:
            with suppress(NotInTime):
                left_seconds = max(AVAILABILITY_SECONDS, ends - time.monotonic())
                of_registry = in_words([endpoints.answer(left_seconds, while_working=True)])
        first = overall(found, errors, of_registry)
        is_needed = bool(errors or of_registry or any(one.needs_somebody for one in found.values()))
        is_held = False
        if safe_to_delete:
            lines = _safe_to_delete(pipeline, found)
            is_held = _warn_of_unread(found)
        else:
            lines = [first, "", *_headlines(pipeline_file, found, errors)]
            if decisions.unknown_because:
                lines.append(f"who is on hold or retired is NOT KNOWN: {decisions.unknown_because}")
            with suppress(NotInTime):  # the lines above say what hangs
                of_all = availability.answer(AVAILABILITY_SECONDS, while_working=True).sentences()[-1:]
                lines += of_all
            lines += ["", *(line for one in found.values() for line in _details(one))]
    told: dict[str, object] = {name: one.as_dict() for name, one in found.items()}
    told.update({name: {"error": str(error)} for name, error in errors.items()})
    told[ALL] = {"overall": first, "needs_somebody": is_needed}
    if as_json or lines:
        print_result(told, "\n".join(lines), as_json)
    if errors:
        fail(f"could not ask all datacenters: {'; '.join(map(str, errors.values()))}", NOT_DONE)
    if safe_to_delete and is_held:
        sys.exit(NOT_DONE)
    if check and is_needed:
        sys.exit(VIOLATION)


def _warn_of_unread(found: Mapping[str, DatacenterStatus]) -> bool:
    """Say where files that are not read keep all logs, and whether any do."""
    from photon.logs.unread_files import why_held

    held = {name: one.facts.unread_files for name, one in found.items() if one.facts.unread_files}
    for name, unread in held.items():
        click.echo(f"{name}: no log file may go: {why_held(unread)}", err=True)
    return bool(held)


def _safe_to_delete(pipeline: Pipeline, found: Mapping[str, DatacenterStatus]) -> list[str]:
    return [
        f"{pipeline.datacenters[name].logs / path}"
        for name, one in found.items()
        for log in (one.primary, one.foreign)
        for path in log.safe_to_delete
    ]


def _headlines(
    pipeline_file: Path, found: Mapping[str, DatacenterStatus], errors: Mapping[str, Exception]
) -> list[str]:
    """The sentences on each datacenter that come first."""
    from photon.health.headline import headline, sentences

    lines = [f"{name} is NOT KNOWN: {error}" for name, error in errors.items()]
    for one in found.values():
        lines.append(headline(one, shlex.quote(str(pipeline_file))))
        lines += [f"  {sentence}" for sentence in sentences(one)]
    return lines


def _details(one: DatacenterStatus) -> list[str]:
    from photon.process.pace import span

    facts = one.facts
    running = f"run by process {facts.process}" if facts.process else "not running"
    if facts.dagster_run:
        running += f" (run {facts.dagster_run} of Dagster)"
    lines = [
        f"{facts.datacenter}: {running}, epoch {facts.state.epoch or 'none'}, batch {facts.state.completed}"
    ]
    for side, log in (("primary", one.primary), ("foreign", one.foreign)):
        safe = f"{len(log.safe_to_delete)} safe to delete, {log.safe_to_delete_bytes:,} bytes"
        kinds = f"{log.gone_files} gone, {safe}"
        lines.append(
            f"  {side:8} {counted(log.files, 'file'):>13} ({kinds}), {log.read_bytes:>15,} bytes read, "
            f"{log.backlog_bytes:,} waiting"
        )
    for kind, work in (("not committed", one.stages.uncommitted), ("to take up again", one.stages.requeued)):
        lines.append(
            f"  {kind}: {counted(work.plans, 'plan')}, {work.primary_bytes:,} primary and "
            f"{work.foreign_bytes:,} foreign bytes, {counted(work.records, 'record')}"
        )
    for reason, count in one.waiting.items():
        age_seconds = one.stages.oldest_waiting_seconds.get(reason, 0.0)
        lines.append(f"  waiting, {reason}: {counted(count, 'record')}, the oldest for {age_seconds:,.0f} s")
    if one.waiting_by_age:
        ages = ", ".join(f"{count:,} {age}" for age, count in one.waiting_by_age.items())
        lines.append(f"  waiting, by when they were first seen: {ages}")
    orders = one.stages.orders
    lines.append(f"  work orders: {orders.waiting:,} waiting, {orders.refused:,} refused")
    if facts.growth.lag_seconds is not None:
        lines.append(f"  watermark {span(facts.growth.lag_seconds)} behind the clock")
    if one.completeness is not None:
        lines.append(f"  {one.completeness.sentence()}")
    if one.release is not None:
        lines.append(f"  {one.release.sentence()}")
    return lines + [f"  {key:22}{value:>14,}" for key, value in one.counts.items()]
