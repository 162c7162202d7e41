"""How a run of an asset reads its pipeline, fails with a message, and drains when it is told to end."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from types import FrameType

from dagster import (
    AssetCheckExecutionContext,
    AssetExecutionContext,
    DagsterExecutionInterruptedError,
    DagsterRunStatus,
    Failure,
    MetadataValue,
    OpExecutionContext,
    RunRecord,
    TableRecord,
)
from dagster._core.definitions.run_request import InstigatorType

from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS
from photon.process.errors import UserError
from photon.process.operating_system import handled_by
from photon.resources.environment import ServedPipeline

# Dagster makes a MetadataValue of each plain value.
Metadata = dict[str, MetadataValue | int | float | str]

Row = Mapping[str, str | int | float]

Context = AssetExecutionContext | AssetCheckExecutionContext | OpExecutionContext

# Runs of this process that were told to end. A run is one process (`assets.work.IN_ONE_PROCESS`).
_TOLD_TO_END: set[str] = set()

# A process looks so often whether its run is over in Dagster, and has so long to end then, as a canceled one.
OVER_LOOK_SECONDS, OVER_GRACE_SECONDS = 10.0, 180.0

# After a line that Dagster could not store, none is handed to it for so long: each try takes some 20 s.
UNSTORED_PAUSE_SECONDS = 60.0


def table(rows: Sequence[Row]) -> MetadataValue:
    """Rows as a table; Dagster takes its columns and their types from the first row."""
    return MetadataValue.table([TableRecord(dict(row)) for row in rows])


def markdown_table(rows: Sequence[Sequence[str]], others: str = "-:") -> str:
    """Rows of cells, the first one a header; `others` aligns all columns but the first."""
    rule = ["-", *[others] * (len(rows[0]) - 1)]
    return "\n".join(f"|{'|'.join(row)}|" for row in [rows[0], rule, *rows[1:]])


def of_a_dry_run(metadata: Metadata) -> Metadata:
    """The same with its numbers as text: Dagster would plot them among those of what was done."""
    as_text = {name: f"{one:,}" if isinstance(one, int | float) else one for name, one in metadata.items()}
    says = ": ".join(filter(None, ("dry run, nothing was changed", str(metadata.get("says", "")))))
    return {**as_text, "says": says, "dry_run": True}


@contextmanager
def failures_with_a_message() -> Iterator[None]:
    """Turn errors that a user can mend into a Failure that says what to do; defects keep their stack."""
    try:
        yield
    except (UserError, OSError) as error:
        # No retry policy helps: somebody has to mend something first.
        raise Failure(description=str(error), allow_retries=False) from None


@contextmanager
def canceled_with_a_sentence(context: Context) -> Iterator[None]:
    """Turn an interruption into a Failure that says so: Dagster ends the run as canceled, without a stack.

    Dagster then begins the run's other assets. Each of them fails here, and says that it had not begun.
    """
    if context.run.run_id in _TOLD_TO_END:
        raise told_to_end(context, "This had not begun.")
    is_alone = multiprocessing.parent_process() is not None  # a code server began it for this run
    try:
        with ending_when_over(partial(_is_over, context)) if is_alone else nullcontext():
            yield
    except (KeyboardInterrupt, DagsterExecutionInterruptedError):
        what = "What it had done stays done; launch it again for the rest."
        raise told_to_end(context, what) from None
    except Exception as error:
        if _is_over(context):
            raise told_to_end(context, f"It failed later: {error}") from None
        raise
    if _is_over(context):
        raise told_to_end(context, "It was through all the same.")


@contextmanager
def ending_when_over(
    is_over: Callable[[], bool],
    look_seconds: float = OVER_LOOK_SECONDS,
    grace_seconds: float = OVER_GRACE_SECONDS,
) -> Iterator[None]:
    """Inside, this process ends once its run is over: as if it was interrupted, or killed after the grace.

    Dagster fails a run for its time, and one of which it has begun a second process: it turns that away, and
    then takes its end for that of the run.
    """
    has_left = threading.Event()

    def look() -> None:
        over = False
        while not over:
            if has_left.wait(look_seconds):
                return
            with suppress(Exception):  # Dagster's storage does not answer
                over = is_over()
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(grace_seconds)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=look, name="run is over", daemon=True).start()
    try:
        yield
    finally:
        has_left.set()


def _is_over(context: Context) -> bool:
    """Whether somebody has ended the run in Dagster by force: what comes later must not mark it anew."""
    run = context.instance.get_run_by_id(context.run.run_id)
    return run is not None and run.is_finished


def told_to_end(context: Context, what_came_of_it: str) -> Failure | DagsterExecutionInterruptedError:
    """Note that the run was told to end; return the error that ends it.

    Dagster shows the run as canceled if Dagster told it. One that somebody has ended there by force stays
    as it was marked: a Failure would make a failed run of one that was canceled.
    """
    _TOLD_TO_END.add(context.run.run_id)
    says = f"The run was told to end. {what_came_of_it}"
    if _is_over(context):
        return DagsterExecutionInterruptedError(says)
    return Failure(description=says, allow_retries=False)


@contextmanager
def pipeline_of_run(served: ServedPipeline, asks_registry: bool = True) -> Iterator[Pipeline]:
    """The pipeline as its file says now; what it opened is closed in the end.

    `asks_registry`: nothing can be done without it, so that the run fails soon where it hangs.
    """
    from photon.dispatcher.shift.people import ask_first  # late: a location loads without them
    from photon.registry.opening import close_registries_soon

    with failures_with_a_message():
        try:
            pipeline = served.load()
            if asks_registry:
                ask_first(pipeline, is_patient=True)
            yield pipeline
        finally:
            close_registries_soon()


def cursor_of(context: AssetCheckExecutionContext, sensor: str) -> str | None:
    """The cursor of a sensor, in the code location of this run if Dagster launched it."""
    origin = context.run.remote_job_origin
    states = context.instance.all_instigator_state(
        repository_selector_id=origin.repository_origin.get_selector_id() if origin else None,
        instigator_type=InstigatorType.SENSOR,
    )
    found = (one.sensor_instigator_data for one in states if one.name == sensor)
    return next((data.cursor for data in found if data is not None), None)


def ended_us(record: RunRecord) -> int:
    """The end of a run that is over, in microseconds since 1970; else its last change."""
    return round((record.end_time or record.update_timestamp.timestamp()) * MICROSECONDS)


class Drain:
    """Whether somebody asked the run to stop."""

    def __init__(self) -> None:
        self._asked = False

    def asked(self) -> bool:
        return self._asked

    def asked_by_dagster(self, context: AssetExecutionContext) -> bool:
        """Whether it was Dagster, which waits for the run to end as canceled, or has ended it by force."""
        run = context.instance.get_run_by_id(context.run.run_id) if self._asked else None
        return run is not None and (run.is_finished or run.status is DagsterRunStatus.CANCELING)

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        """Stop in order at the first signal, at once at the second."""
        if self._asked:
            raise DagsterExecutionInterruptedError
        self._asked = True


@contextmanager
def draining() -> Iterator[Drain]:
    """Inside, SIGINT and SIGTERM only ask, so that no batch is interrupted and has to be recovered.

    Only the main thread can take signals: in others this does nothing.
    """
    drain = Drain()
    if threading.current_thread() is not threading.main_thread():
        yield drain
        return
    with handled_by(drain.on_signal, signal.SIGINT, signal.SIGTERM):
        yield drain


@contextmanager
def logs_that_end_no_run() -> Iterator[None]:
    """Inside, a line of Photon's log that Dagster can't store is left out of the run's events.

    Dagster's handler raises what its storage raises, wherever in Photon the line was logged.
    """
    logger = logging.getLogger("photon")
    before = logger.handlers
    logger.handlers = [_Tolerating(handler) for handler in before]
    try:
        yield
    finally:
        logger.handlers = before


class _Tolerating(logging.Handler):
    """Hands lines on to another handler, but for a while after one that this could not take."""

    def __init__(self, handler: logging.Handler) -> None:
        super().__init__(handler.level)
        self._handler = handler
        self._not_before = -UNSTORED_PAUSE_SECONDS

    def handle(self, record: logging.LogRecord) -> bool:
        if time.monotonic() < self._not_before:
            return False
        try:
            return bool(self._handler.handle(record))
        except Exception:
            self._not_before = time.monotonic() + UNSTORED_PAUSE_SECONDS
            self.handleError(record)  # on standard error, which a run keeps too
            return False
