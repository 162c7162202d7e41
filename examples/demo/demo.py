"""A whole demo, put together from its parts; and live traffic under Dagster for as long as somebody looks.

The only place that knows all parts. The command is `photon.cli.demo`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from examples.demo.dagster_stack import stack_in
from examples.demo.folder import DemoFolder, held_folder
from examples.demo.interrupts import Interrupts
from examples.demo.performance import Performance
from examples.demo.plot import draw
from examples.demo.process_tree import ProcessTree
from examples.demo.scenario import PIPELINE, SETTINGS, phases, stay, traffic
from examples.demo.summary import Course, Summary
from examples.demo.view import View, open_view
from examples.demo.watch import Watch
from photon.clock import MICROSECONDS, Clock, SystemClock
from photon.pipeline.file import load_pipeline
from photon.testing.generator import generating
from photon.testing.traffic import Traffic

LONGEST_SECONDS = 420.0  # all phases of a demo at their bounds; its traffic is stopped long before
STAY_SECONDS = 86_400.0  # live traffic ends by itself after a day: it fills a disk

STAY_ROWS = 10_000  # the last minutes: nothing else is shown


@dataclass(frozen=True)
class Wishes:
    """What the user of a demo may choose."""

    folder: Path
    seconds: float  # how long both datacenters join undisturbed
    ui_port: int


def run_demo(wishes: Wishes) -> Summary:
    """Begin anew in the folder, and go through every phase; everything that was started has ended then.

    FolderRefused, NoProject, DemoFailed, DagsterFailed, GeneratorFailed; KeyboardInterrupt for a signal.
    """
    clock = SystemClock()
    with held_folder(wishes.folder) as folder:
        folder.empty()
        logged = traffic(_seed(clock), wishes.seconds + LONGEST_SECONDS)
        logged.write_pipeline(folder.path, PIPELINE, SETTINGS)
        with _performance(folder, logged, wishes.ui_port, clock) as performance:
            performance.start_dagster()
            performance.play(phases(wishes.seconds))
            assert performance.kill is not None
            course = Course(tuple(performance.watch.rows), performance.spans, performance.kill)
            performance.view.says("drawing the plot")
            draw(course, folder.plot)
            verdict = performance.verdict()
            url = performance.stack.url
            performance.view.says("done; everything that was started is ended")
    return Summary(verdict, course, url, str(folder.plot), str(folder.path))


def run_live(wishes: Wishes) -> None:
    """Live traffic under Dagster, on what is in the folder, until KeyboardInterrupt. Raises as `run_demo`."""
    clock = SystemClock()
    with held_folder(wishes.folder) as folder:
        logged = traffic(_seed(clock), STAY_SECONDS)
        if not folder.is_begun:
            folder.empty()
            logged.write_pipeline(folder.path, PIPELINE, SETTINGS)
        folder.set_logs_aside()
        with _performance(folder, logged, wishes.ui_port, clock, STAY_ROWS) as performance:
            performance.watch.skip_history()
            performance.start_dagster()
            performance.play(stay())


@contextmanager
def _performance(
    folder: DemoFolder, logged: Traffic, ui_port: int, clock: Clock, keep_rows: int | None = None
) -> Iterator[Performance]:
    """All parts, at work; ended in the opposite order."""
    pipeline = load_pipeline(folder.pipeline)
    stack = stack_in(folder, ui_port)
    shifts = [place.state for place in pipeline.datacenters.values()]
    for place in pipeline.datacenters.values():
        place.logs.mkdir(parents=True, exist_ok=True)
    with (
        Interrupts() as interrupts,  # around all: also while all the others end
        ProcessTree(shifts, keep_open=[folder.lock.fileno()]) as tree,
        _shown() as view,
        generating(logged, folder.path) as generator,
    ):
        interrupts.hurry = tree.hurry
        watch = Watch(pipeline, clock, deque(maxlen=keep_rows))
        yield Performance(pipeline, stack, tree, generator, watch, view, clock)


@contextmanager
def _shown() -> Iterator[View]:
    view = open_view()
    try:
        yield view
    except KeyboardInterrupt:
        view.says("everything that was started is being ended; once more Ctrl-C: at once")
        raise
    finally:
        view.close()


def _seed(clock: Clock) -> int:
    """Another one every second: the events of one folder's next traffic are other events."""
    return clock.now_us() // MICROSECONDS
