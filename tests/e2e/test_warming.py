"""A shift joins in a process of its own until its Spark session is warm."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import psutil
import pytest

from photon.dispatcher.retrying import BatchReport, Callbacks
from photon.dispatcher.shift.run import prepare, run_shift
from photon.jobs.batch_job import SparkRunner
from photon.jobs.session import usable_cores
from photon.jobs.warming import CORES_PER_SESSION, WarmingRunner, session_turn
from photon.join.messages import NoWorkerStarts
from photon.join.task_process import TaskProcess
from photon.pipeline.file import Pipeline, load_pipeline
from photon.process.environment import EnvironmentLacks
from tests.e2e.one_query import log_clicks, one_query
from tests.e2e.photon_process import joined_rows
from tests.e2e.process_marks import soon
from tests.e2e.test_deadly_adapter import ADAPTER


def pipeline_in(folder: Path, *clicks: str, more: str = "", adapter: str = "") -> Pipeline:
    pipeline = load_pipeline(one_query(folder, *clicks, more=more, adapter=adapter))
    prepare(pipeline)
    return pipeline


@contextmanager
def never_warm() -> Iterator[WarmingRunner]:
    """A runner whose session is not there before its end: nobody could tell how long a real one takes."""
    is_over = threading.Event()

    def open_spark() -> SparkRunner:
        is_over.wait()
        raise EnvironmentLacks("it is over")

    with closing(WarmingRunner(open_spark)) as runner:
        try:
            yield runner
        finally:
            is_over.set()


@pytest.mark.slow
def test_the_events_on_which_an_adapter_dies_raises_or_hangs_are_dead_letters_before_spark_is_there_too(
    tmp_path: Path,
) -> None:
    clicks = ["a", "b", "raises", "c", "kills", "d", "hangs"]
    pipeline = pipeline_in(tmp_path, *clicks, more="limits: {task_timeout: 30s}", adapter=ADAPTER)
    with never_warm() as runner:
        counts = run_shift(pipeline, "east", "complete", runner).counts.as_dict()
    assert (counts["joined"], counts["dead_letters"], counts["pending"]) == (4, 3, 0)
    assert sorted(joined_rows(pipeline.file)["click"].to_pylist()) == ["a", "b", "c", "d"]


DIES_ONCE = """
import os
from pathlib import Path

from photon.adapters import per_event


@per_event
def join(foreign, primary):
    if not Path(r"{mark}").exists():
        Path(r"{mark}").touch()
        os.kill(os.getpid(), 9)
    return {{**primary, **foreign}}
"""


def test_a_record_under_which_the_process_was_killed_once_is_joined(tmp_path: Path) -> None:
    mark = tmp_path / "killed"
    (tmp_path / "dies_once.py").write_text(DIES_ONCE.format(mark=mark))
    pipeline = pipeline_in(tmp_path, "a", more="adapter: dies_once:join\n")
    with never_warm() as runner:
        counts = run_shift(pipeline, "east", "complete", runner).counts.as_dict()
    assert mark.exists()
    assert (counts["joined"], counts["dead_letters"]) == (1, 0)


@pytest.mark.spark
@pytest.mark.slow
def test_a_shift_joins_before_its_session_is_warm_and_goes_on_with_spark(tmp_path: Path) -> None:
    pipeline = pipeline_in(tmp_path, "0")
    opened: list[SparkRunner] = []
    batches: list[BatchReport] = []

    def open_spark() -> SparkRunner:
        opened.append(SparkRunner.for_shift(pipeline, "east"))
        return opened[-1]

    def on_batch(batch: BatchReport) -> None:
        batches.append(batch)
        assert len(batches) > 1 or not opened  # the first batch's rows are there before
        runner.warm_up()
        if len(batches) < 3:
            log_clicks(pipeline.file, str(len(batches)))

    with closing(WarmingRunner(open_spark)) as runner:
        callbacks = Callbacks(lambda: len(batches) > 2 and runner.is_warm, on_batch)
        run_shift(pipeline, "east", "stop", runner, callbacks=callbacks)
        log_clicks(pipeline.file, "the last one")
        run_shift(pipeline, "east", "complete", runner)
        assert runner.workers == opened[0].workers
        opened[0].close()
    assert len(opened) == 1
    assert sorted(joined_rows(pipeline.file)["click"].to_pylist()) == ["0", "1", "2", "the last one"]


def test_a_session_that_can_not_be_built_ends_the_shift_with_its_reason(tmp_path: Path) -> None:
    pipeline, batches = pipeline_in(tmp_path, "0"), list[BatchReport]()

    def open_spark() -> SparkRunner:
        raise EnvironmentLacks("there is no Java")

    def on_batch(batch: BatchReport) -> None:
        batches.append(batch)
        runner.warm_up()
        log_clicks(pipeline.file, str(len(batches)))

    with closing(WarmingRunner(open_spark)) as runner, pytest.raises(EnvironmentLacks, match="no Java"):
        run_shift(pipeline, "east", "stop", runner, callbacks=Callbacks(on_batch=on_batch))
    assert joined_rows(pipeline.file).num_rows == len(batches) >= 1


def test_a_successor_that_warms_up_takes_over_at_once_when_its_predecessor_is_gone() -> None:
    looks = iter([True, True, False])
    with never_warm() as runner:
        runner.get_ready(lambda: next(looks))
        assert not runner.is_warm
    assert next(looks, None) is None


HAS_THE_TURN = """
import sys, threading, time
from photon.jobs.warming import session_turn
with session_turn(threading.Event(), int(sys.argv[1])):
    print("mine", flush=True)
    time.sleep(600)
"""


@contextmanager
def turn_of_another(places: int = 1) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HAS_THE_TURN, str(places)]
    other = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "mine\n"
        yield other
    finally:
        other.kill()
        other.communicate()


def test_a_session_begins_once_the_one_before_it_is_warm_or_its_process_dead() -> None:
    is_mine = threading.Event()

    def wait_in_turn() -> None:
        with session_turn(threading.Event(), 1):
            is_mine.set()

    with turn_of_another() as other:
        waits = threading.Thread(target=wait_in_turn)
        waits.start()
        assert not is_mine.wait(0.5)
        other.kill()
        waits.join()
    assert is_mine.is_set()


def test_two_sessions_begin_at_once_where_there_are_places_for_two() -> None:
    with turn_of_another(), session_turn(threading.Event(), 2):
        pass


def test_a_session_that_waited_too_long_begins_all_the_same() -> None:
    with turn_of_another(), session_turn(threading.Event(), 1, seconds=0.2):
        pass


def test_a_shift_that_ends_before_its_turn_begins_no_session() -> None:
    opened = list[int]()

    def open_spark() -> SparkRunner:
        opened.append(1)
        raise EnvironmentLacks("it was opened")

    places = max(1, usable_cores() // CORES_PER_SESSION)
    with ExitStack() as turns, closing(WarmingRunner(open_spark)) as runner:
        for _ in range(places):
            turns.enter_context(turn_of_another(places))
        runner.warm_up()
        runner.close()
    assert not opened


BEGINS_ONE = """
import time
from photon.join.task_process import TaskProcess
print(TaskProcess().number, flush=True)
time.sleep(600)
"""


def test_the_process_of_tasks_ends_with_a_shift_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", BEGINS_ONE], stdout=subprocess.PIPE, text=True) as shift:
        assert shift.stdout is not None
        number = int(shift.stdout.readline())
        assert psutil.pid_exists(number)
        os.kill(shift.pid, signal.SIGKILL)
    assert soon(lambda: not psutil.pid_exists(number))


def test_a_process_that_can_not_begin_is_no_batch_that_kills_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyarrow.py").write_text("raise ImportError('broken')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with closing(TaskProcess()) as process, pytest.raises(NoWorkerStarts, match="status 1"):
        process.run(None)  # type: ignore[arg-type]  # it never gets there
