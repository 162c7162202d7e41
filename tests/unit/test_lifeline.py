"""Processes that end with the one that starts them: real ones, whose parent is killed at many moments."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from photon.process.lifeline import is_gone
from tests.e2e.process_marks import MARK, marked, soon
from tests.support.shares import a_share

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the kernel kills nobody")

DATACENTERS = """
import sys
from photon.cli.children import Children
sleeps = [sys.executable, "-c", "import time; time.sleep(60)"]
Children({"east": sleeps, "west": sleeps}).wait()
"""
POOL = """
import os, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from photon.process.lifeline import end_with
if __name__ == "__main__":
    pool = ProcessPoolExecutor(
        2, mp_context=get_context("spawn"), initializer=end_with, initargs=(os.getpid(),)
    )
    list(pool.map(time.sleep, [0.1] * 2))
    print("both work", flush=True)
    time.sleep(60)
"""
BINDS_LATE = (
    "import sys; from photon.process.lifeline import end_with; end_with(int(sys.argv[1])); print('lives')"
)
OF_A_THREAD = """
import subprocess, sys, threading, time
from pathlib import Path
from photon.process.lifeline import bound_to_this_thread
started = []
def start():
    started.append(subprocess.Popen(bound_to_this_thread(["sleep", "60"])))
    while Path(f"/proc/{started[0].pid}/comm").read_text() != "sleep\\n":
        time.sleep(0.01)
thread = threading.Thread(target=start)
thread.start()
thread.join()
print(started[0].wait(), flush=True)
"""


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[str]:
    name = str(tmp_path)
    yield name
    for left in marked(name):
        left.kill()


def parent(mark: str, *words: str) -> subprocess.Popen[str]:
    environment = {**os.environ, MARK: mark}
    return subprocess.Popen([sys.executable, *words], env=environment, stdout=subprocess.PIPE, text=True)


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


MOMENTS = [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987]


@pytest.mark.parametrize("milliseconds", a_share(MOMENTS, 0))
def test_datacenters_end_with_the_command_whenever_it_is_killed(mark: str, milliseconds: int) -> None:
    command = parent(mark, "-c", DATACENTERS)
    while not psutil.Process(command.pid).children():
        assert command.poll() is None
    time.sleep(milliseconds / 1_000)  # the moment is what this test is about
    kill(command)
    assert soon(lambda: not marked(mark))


def test_workers_of_a_pool_end_with_the_process_that_has_it(mark: str, tmp_path: Path) -> None:
    program = tmp_path / "pool.py"
    program.write_text(POOL)
    process = parent(mark, str(program))
    assert process.stdout is not None
    assert process.stdout.readline() == "both work\n"
    assert len(marked(mark)) >= 3
    kill(process)
    assert soon(lambda: not marked(mark))


def test_a_process_whose_parent_died_before_it_asked_ends_at_once() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    late = subprocess.run(
        [sys.executable, "-c", BINDS_LATE, str(gone.pid)], capture_output=True, text=True, check=False
    )
    assert (late.returncode, late.stdout) == (-signal.SIGKILL, "")


def test_a_process_whose_parent_lives_goes_on() -> None:
    late = subprocess.run(
        [sys.executable, "-c", BINDS_LATE, str(os.getpid())], capture_output=True, text=True, check=False
    )
    assert (late.returncode, late.stdout) == (0, "lives\n")


def test_the_kernel_goes_by_the_thread_that_starts_a_process(mark: str) -> None:
    said, _ = parent(mark, "-c", OF_A_THREAD).communicate(timeout=30)
    assert said == f"{-signal.SIGKILL}\n"


def test_init_is_not_taken_for_the_parent_of_a_process_that_looks_late() -> None:
    assert not is_gone(os.getppid())
    assert is_gone(os.getppid() + 1)
