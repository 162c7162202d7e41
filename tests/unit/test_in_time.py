"""Whatever hangs, who asks goes on: with what others answer, and the name of what does not."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from photon.dispatcher.shift import people
from photon.dispatcher.shift.people import Decisions, decisions_in_time
from photon.health import overall
from photon.health.overall import look_at_all
from photon.health.status import DatacenterStatus, status_of
from photon.pipeline.file import Pipeline
from photon.process import in_time
from photon.process.clock import Clock, SystemClock
from photon.process.in_time import NotInTime, Question, Repeated
from photon.process.operating_system import is_stopped, state_of, what_ends


@pytest.fixture
def hanging() -> Iterator[threading.Event]:
    """Yield an event that questions wait for: they hang until the test has ended."""
    event = threading.Event()
    yield event
    event.set()


def test_an_answer_in_time_is_given_and_so_is_an_error() -> None:
    assert Question(lambda: 7).answer(5) == 7
    with pytest.raises(ZeroDivisionError):
        Question(lambda: 1 // 0).answer(5)


def test_what_hangs_ends_no_wait_of_who_asks(hanging: threading.Event) -> None:
    with pytest.raises(NotInTime, match=r"no answer within 0\.1 s"):
        Question(hanging.wait).answer(0.1)


def test_an_answer_that_comes_late_is_that_of_the_next_who_asks_and_one_thread_hangs_at_most(
    hanging: threading.Event,
) -> None:
    asked = 0

    def hang() -> int:
        nonlocal asked
        asked += 1
        hanging.wait()
        return 8

    looks = Repeated[int](stands_seconds=600.0)
    assert looks.answer(lambda: 7, 5) == 7
    for _ in range(3):
        with pytest.raises(NotInTime):
            looks.answer(hang, 0.01)
    assert (asked, looks.last) == (1, 7)
    hanging.set()
    assert [looks.answer(lambda: 9, 5) for _ in range(2)] == [8, 9]


def test_what_is_at_work_has_its_time(hanging: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("photon.process.in_time.MOST_TIMES", 100)  # on a machine of any load

    def work() -> bool:
        ends = time.thread_time() + 0.6
        while time.thread_time() < ends:
            pass
        return True

    assert Question(work).answer(0.3, while_working=True)
    with pytest.raises(NotInTime):
        Question(hanging.wait).answer(0.1, while_working=True)


def test_what_hangs_ends_although_another_thread_is_at_work(hanging: threading.Event) -> None:
    def work() -> None:
        while not hanging.is_set():
            pass

    busy = threading.Thread(target=work)
    busy.start()
    with pytest.raises(NotInTime):
        Question(hanging.wait).answer(0.1, while_working=True)
    hanging.set()
    busy.join()


def test_what_stands_in_line_for_a_processor_has_its_time_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is no disk that hangs: nobody is told to look at one."""
    began = time.monotonic()
    monkeypatch.setattr(in_time, "MOST_TIMES", 100)
    monkeypatch.setattr(in_time, "_in_line_seconds", lambda: time.monotonic() - began)
    assert Question(lambda: time.sleep(0.5) or True).answer(0.1, while_working=True)  # type: ignore[func-returns-value]


@pytest.mark.skipif(sys.platform != "linux", reason="nobody else counts it")
def test_a_thread_that_shares_its_processor_stands_in_line() -> None:
    processor = min(os.sched_getaffinity(0))
    pinned = f"import os; os.sched_setaffinity(0, [{processor}])"
    other = subprocess.Popen(
        [sys.executable, "-c", f"{pinned}\nprint(flush=True)\nwhile True: pass"], stdout=-1
    )
    has_ended = threading.Event()

    def work() -> None:
        os.sched_setaffinity(0, [processor])  # pins this thread alone
        while not has_ended.is_set():
            pass

    assert other.stdout is not None
    other.stdout.readline()
    thread = threading.Thread(target=work)
    before = in_time._in_line_seconds()
    thread.start()
    try:
        while in_time._in_line_seconds() < before + 0.05:
            assert other.poll() is None
    finally:
        has_ended.set()
        thread.join()
        other.kill()
        other.communicate()


def test_a_datacenter_that_hangs_keeps_no_other_from_being_told(
    pipeline: Pipeline, hanging: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of(pipeline: Pipeline, name: str, clock: Clock, decisions: Decisions) -> DatacenterStatus:
        if name == "west":
            hanging.wait()
        return status_of(pipeline, name, clock, decisions)

    monkeypatch.setattr(overall, "status_of", of)
    found, errors = look_at_all(pipeline, SystemClock(), Decisions(), 0.3)
    assert list(found) == ["east"]
    assert str(errors["west"]).startswith("datacenter west: no answer within 0.3 s; ")


@pytest.mark.parametrize("what", ["state", "logs", "lake"])
def test_the_folder_that_hangs_is_named(
    pipeline: Pipeline, hanging: threading.Event, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    folder, listed = getattr(pipeline.datacenters["west"], what), os.listdir

    def list_(path: Path) -> list[str]:
        if path == folder:
            hanging.wait()
        return listed(path)

    monkeypatch.setattr(overall, "status_of", lambda *_: hanging.wait())
    monkeypatch.setattr(overall.os, "listdir", list_)
    said = str(look_at_all(pipeline, SystemClock(), Decisions(), 0.1)[1]["west"])
    assert f"; {folder} does not answer: look at its disk, mount or store" in said


def test_a_registry_that_hangs_is_one_that_could_not_be_asked(
    pipeline: Pipeline, hanging: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(people, "register_of", lambda _: hanging.wait())
    why = decisions_in_time(pipeline, 0.1).unknown_because
    assert why is not None
    assert why.startswith(f"the local registry in {pipeline.registry_folder}: no answer within 0.1 s; ")


def test_a_registry_that_a_busy_machine_asks_late_is_no_silent_one(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def register_of(_: Pipeline) -> None:
        until = time.process_time() + 0.2
        while time.process_time() < until:
            pass

    monkeypatch.setattr(in_time, "MOST_TIMES", 100)
    monkeypatch.setattr(people, "register_of", register_of)
    assert decisions_in_time(pipeline, 0.1, while_working=True).unknown_because is None
    assert decisions_in_time(pipeline, 0.1).unknown_because is not None


def test_a_process_is_told_with_the_command_that_ends_it() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        while state_of(process.pid) != "S":  # until the system has read its program from a disk
            pass
        assert what_ends(process.pid) == f"kill -9 {process.pid} ends process {process.pid}"
        process.send_signal(19)
        while not is_stopped(process.pid):
            pass
        assert f"kill -CONT {process.pid} has it go on" in what_ends(process.pid)
    finally:
        process.kill()
        process.wait()
    assert state_of(process.pid) == ""
