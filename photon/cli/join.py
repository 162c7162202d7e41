"""`photon join`: one datacenter in this process, or each in its own."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack, nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

import click

from photon.cli.backlog_line import telling_how_far
from photon.cli.children import Children, StopSignals
from photon.cli.ending import fail
from photon.cli.land import land_first
from photon.cli.output import (
    DONE,
    chosen,
    expected_errors,
    json_option,
    log_to_stderr,
    pipeline_argument,
    print_result,
    showing_progress,
)
from photon.process.errors import NOT_DONE, NOT_MEANT, WRONG_USAGE
from photon.process.extras import has_extra, need_extra
from photon.process.readable import counted

log = logging.getLogger(__name__)

LINE_EVERY_SECONDS = 5.0
SHOWN = ("batches", "primary", "foreign", "joined", "joined_elsewhere", "unjoinable", "dead_letters")


@click.command()
@pipeline_argument
@click.option(
    "--datacenter", "-d", help="Only this one. Without it: every datacenter, each in its own process."
)
@click.option("--until-idle", is_flag=True, help="End when there is nothing left to do now.")
@click.option(
    "--complete", is_flag=True, help="The logs are complete: what can't be joined now is unjoinable."
)
@json_option
@click.option(
    "--engine",
    type=click.Choice(["spark", "local"]),
    default=lambda: "spark" if has_extra("spark") else "local",
    show_default="spark, if it is installed",
    help="local: without Spark, in this process; for logs too small for a JVM.",
)
@click.option("--master", help="Spark's master, such as spark://HOST:7077. Default: the pipeline file's.")
@click.option(
    "--spark",
    "spark_settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of Spark; may be repeated.",
)
@click.option("--parent", type=int, hidden=True, help="The process that runs every datacenter: end with it.")
def join(
    pipeline_file: Path,
    datacenter: str | None,
    until_idle: bool,
    complete: bool,
    as_json: bool,
    engine: str,
    master: str | None,
    spark_settings: tuple[str, ...],
    parent: int | None,
) -> None:
    """Join the logs of PIPELINE until it is stopped (SIGINT, SIGTERM), idle, or all is done.

    Prints for each datacenter how many foreign records there are and in which class they ended.
    """
    if until_idle and complete:
        fail("--until-idle and --complete exclude each other: choose how the join ends", WRONG_USAGE)
    # First of all: the imports below take a second, and a stop may come before they end.
    signals = StopSignals(parent)
    log_to_stderr()
    with expected_errors(pipeline_file):
        from photon.pipeline.file import load_pipeline

        if engine == "spark":
            need_extra("spark")
        pipeline = load_pipeline(pipeline_file).on_spark(master, _parsed(spark_settings))
        names = chosen(pipeline, datacenter)
        if parent is None:
            _prepare(pipeline, " and ".join(names), signals)
            if complete:
                land_first(pipeline, names, signals.stop_requested)
    mode = "complete" if complete else "until_idle" if until_idle else "stop"
    if len(names) == 1:
        name = names[0]
        results = {name: _join_one(pipeline, name, mode, engine, signals)}
        is_cut_short = mode == "stop" or signals.stop_requested()
        _tell_conflicts(pipeline, name, results[name])
        status = _warned(pipeline, name, results[name], complete, is_cut_short)
    else:
        passed_on = [f"--{mode.replace('_', '-')}"] if mode != "stop" else []
        passed_on += ["--engine", engine, *(["--master", master] if master else [])]
        passed_on += [f"--spark={setting}" for setting in spark_settings]
        with ExitStack() as stack:
            if mode != "stop":
                say = stack.enter_context(showing_progress(LINE_EVERY_SECONDS))
                stack.enter_context(telling_how_far(pipeline, names, say))
            results, status = _join_each(pipeline_file, names, passed_on, signals)
    print_result(results, _results_text(results), as_json)
    sys.exit(status)


def _prepare(pipeline: Any, who: str, signals: StopSignals) -> None:
    """Check the pipeline, and make what a very first join lacks."""
    from photon.dispatcher.retrying import StoppedWaiting
    from photon.dispatcher.shared_places import shared_logs
    from photon.dispatcher.shift.run import prepare

    for shared in shared_logs(pipeline):
        log.warning("%s", shared)
    try:
        prepare(pipeline, _telling_callbacks(who, signals))
    except StoppedWaiting as error:
        fail(str(error), NOT_DONE)


def _telling_callbacks(who: str, signals: StopSignals, on_batch: Any = lambda report: None) -> Any:
    """Callbacks that tell people of waits."""
    from photon.dispatcher.retrying import Callbacks
    from photon.process.pace import span

    return Callbacks(
        signals.stop_requested,
        on_batch,
        on_wait=lambda reason: log.warning("%s: waits: %s", who, reason),
        on_resume=lambda reason, seconds: log.warning(
            "%s: goes on after %s, in which it waited: %s", who, span(seconds), reason
        ),
    )


def _parsed(settings: Iterable[str]) -> dict[str, str]:
    """Settings of Spark by their names."""
    pairs = [setting.partition("=") for setting in settings]
    for name, equals, _ in pairs:
        if not (name and equals):
            fail(f"--spark {name}: expected KEY=VALUE, such as spark.executor.memory=2g", WRONG_USAGE)
    return {name: value for name, _, value in pairs}


def _join_one(
    pipeline: Any,
    datacenter: str,
    mode: Any,
    engine: Any,
    signals: StopSignals,
) -> Any:
    from photon.dispatcher.retrying import BatchReport, StoppedWaiting
    from photon.dispatcher.shift.ending import ShiftLimits
    from photon.dispatcher.shift.run import run_shift

    done: Counter[str] = Counter()
    # The line goes on telling while a batch takes long; `on_batch` waits for its end.
    tells_how_far = mode != "stop" and signals.parent is None
    try:
        # Text that an adapter prints is not the result.
        with (
            expected_errors(pipeline.file),
            showing_progress(LINE_EVERY_SECONDS, plain=signals.parent is not None) as say,
            redirect_stdout(sys.stderr),
            telling_how_far(pipeline, [datacenter], say) if tells_how_far else nullcontext(),
        ):

            def on_batch(report: BatchReport) -> None:
                done.update({"batches": 1, **report.counts})
                if not tells_how_far:
                    say(f"{datacenter}: {', '.join(f'{done[key]:,} {key}' for key in SHOWN)}")

            callbacks = _telling_callbacks(datacenter, signals, on_batch)
            limits = ShiftLimits(parent=signals.parent)
            result = run_shift(pipeline, datacenter, mode, _engine(engine), limits, callbacks)
    except StoppedWaiting as error:
        fail(str(error), NOT_DONE)
    return result.as_dict()


def _engine(name: str) -> Any:
    """The engine that is called so. Only who asks for Spark imports it."""
    if name == "spark":
        from photon.jobs.batch_job import SparkRunner

        return SparkRunner.for_shift
    from photon.dispatcher.shift.run import without_spark

    return without_spark


def _warned(pipeline: Any, name: str, counts: Any, complete: bool, is_cut_short: bool) -> int:
    """Warn of files that are not read, and where hardly anything joined: a complete join has failed then."""
    from photon.dispatcher.shift.misconfigured import look_at_logs, signs_of_misconfiguration

    is_complete = complete and not is_cut_short
    with expected_errors(pipeline.file):
        logs = look_at_logs(pipeline, name)
        told = signs_of_misconfiguration(pipeline, name, counts, is_complete, is_cut_short, logs)
    for each in [*told, *(says for found in logs for says in found.beside)]:
        log.warning("%s: %s", name, each)
    if not (unread := counts["unread_files"]):
        return NOT_MEANT if told and is_complete else DONE
    said = "; ".join(f"{one['path']}: {one['reason']}" for one in unread)
    log.warning(
        "%s: the logs are not complete: %s not read (%s). %s. Let them be read, or let no `files` match "
        "them; if nothing can be done: photon acknowledge %s %s",
        name, counted(counts["unread_file_count"], "file", "are"), said,
        counted(counts["pending"], "event", "wait"), pipeline.typed, name,
    )  # fmt: skip
    return NOT_DONE if is_complete else DONE


def _tell_conflicts(pipeline: Any, name: str, counts: Any) -> None:
    """Warn of records that have no row although they differ from the record of the same id that has one."""
    from photon.state.losses import BAD

    if conflicting := counts["conflicting"]:
        log.warning(
            "%s: %s something else than the record of the same id that joined, without a row of their own: "
            "foreign.id (%s) may be no id. %s has some of them, with both places",
            name,
            counted(conflicting, "duplicate", "say"),
            ", ".join(pipeline.foreign.id),
            pipeline.datacenters[name].lake / "conflicting",
        )
    for each in ("ambiguous", "reused_primaries"):
        if counts[each] and (each == "ambiguous" or not pipeline.retry.expects_reused_ids):
            log.warning(
                "%s: %s %s: primary.id (%s) may be no id, or retry.lookup_window is to be set below half "
                "of the time between two uses", name, f"{counts[each]:,}", BAD[each],
                ", ".join(pipeline.primary.id),
            )  # fmt: skip


def _join_each(
    pipeline_file: Path, names: list[str], options: list[str], signals: StopSignals
) -> tuple[dict[str, Any], int]:
    """Every datacenter in a process of its own; their results, and the worst of their exit statuses."""
    line = [
        sys.executable,
        *("-P", "-m"),  # not what is called photon in the folder of whoever starts it
        "photon.cli.main",
        "join",
        str(pipeline_file),
        f"--parent={os.getpid()}",
        *options,
    ]
    children = Children({name: [*line, "--json", "-d", name] for name in names})
    signals.pass_on_to(children)
    results: dict[str, Any] = {}
    ended = children.wait()
    for each in ended.values():
        printed = json.loads(each.printed or "{}")  # of an error: its sentence
        results |= {name: result for name, result in printed.items() if name in names}
    return results, worst_status(each.returncode for each in ended.values())


def worst_status(returncodes: Iterable[int]) -> int:
    """The largest exit status of children; one that a signal ended counts as 128 and its number."""
    return max((code if code >= 0 else 128 - code for code in returncodes), default=DONE)


LISTED = "unread_files"  # in JSON; people are warned of each


def _results_text(results: dict[str, Any]) -> str:
    return "\n".join(
        line
        for name, result in results.items()
        for line in (
            f"{name}:",
            *(f"  {key:22}{value:>14,}" for key, value in result.items() if key != LISTED),
        )
    )
