"""Whatever becomes of a demo, no process of it is left: real processes, and some refuse to go."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from examples.demo import process_tree
from examples.demo.process_tree import (
    DRAIN_SECONDS,
    GUARD,
    KILL_SECONDS,
    TERMINATE_SECONDS,
    Marked,
    ProcessTree,
    Program,
)
from tests.e2e.process_marks import marked, soon

SLEEP = "import time; time.sleep(600)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
# Leaves its parent and its session, as daemons do.
DAEMON = "import os, time; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); time.sleep(600)"
# Ignored before there are others: who is asked to end too early would obey.
FAMILY = f"""
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", {SLEEP!r}])
subprocess.Popen([sys.executable, "-c", {DAEMON!r}]).wait()
time.sleep(600)
"""
# Tests may run with signals ignored or blocked, as in a shell's background job, and their processes
# inherit that.
DEMO = """
import signal, sys, time
signal.pthread_sigmask(signal.SIG_SETMASK, [])
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
from dataclasses import replace
from pathlib import Path
from examples.demo.process_tree import ProcessTree, Program
with ProcessTree() as tree:
    tree.start(Program("child", (sys.executable, "-c", sys.argv[1]), Path("."), Path(sys.argv[2])))
    time.sleep(600)
"""
# Holds a datacenter's lock until it is asked to stop, and takes its time to write down that it was.
SHIFT = """
import signal, sys, time
from dataclasses import replace
from pathlib import Path
from photon.dispatcher.shift.lease import DatacenterLock, Lease
lock = DatacenterLock(Path(sys.argv[1]), "east", Lease.of_this_process("", 0, None))
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
while not asked:
    time.sleep(0.05)
time.sleep(1)
Path(sys.argv[2]).write_text("drained")
"""


def program(tmp_path: Path, code: str, *arguments: object) -> Program:
    command = (sys.executable, "-c", code, *map(str, arguments))
    return Program("child", command, tmp_path, tmp_path / "child.log")


def test_nothing_outlives_the_tree_that_started_it(tmp_path: Path, mark: str) -> None:
    with ProcessTree() as tree:
        tree.start(program(tmp_path, SLEEP))
        assert soon(lambda: len(marked(mark)) == 2)  # the guard and the child
    assert marked(mark) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_killed_demo_leaves_nobody_not_even_who_ignores_sigterm_or_became_a_daemon(
    tmp_path: Path, mark: str, number: int
) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-c", DEMO, FAMILY, str(tmp_path / "log")], stderr=subprocess.DEVNULL
    )
    assert soon(lambda: len(marked(mark)) == 5), "demo, guard, child, stubborn one, daemon"
    demo.send_signal(number)
    demo.wait(6 * (DRAIN_SECONDS + TERMINATE_SECONDS + KILL_SECONDS))
    assert soon(lambda: marked(mark) == [])


def test_a_hurried_tree_waits_for_nobody(tmp_path: Path, mark: str) -> None:
    tree = ProcessTree()
    tree.start(program(tmp_path, STUBBORN))
    assert soon(lambda: len(marked(mark)) == 2)
    began = time.monotonic()
    tree.hurry()
    tree.close()
    assert time.monotonic() - began < TERMINATE_SECONDS
    assert marked(mark) == []


def test_a_shift_ends_its_batch_before_dagster_is_ended(tmp_path: Path, mark: str) -> None:
    state, drained = tmp_path / "state", tmp_path / "drained"
    with ProcessTree([state]) as tree:
        tree.start(program(tmp_path, SHIFT, state, drained))
        assert soon(lambda: (state / "lock").exists() and (state / "lock").read_text() != "")
    assert drained.read_text() == "drained"


def test_a_process_that_ends_by_itself_is_reported_with_its_status(tmp_path: Path, mark: str) -> None:
    with ProcessTree() as tree:
        tree.start(program(tmp_path, "raise SystemExit(7)"))
        assert soon(lambda: tree.ended() == {"child": 7})


def test_what_cannot_be_started_is_an_error_that_names_it(tmp_path: Path, mark: str) -> None:
    with ProcessTree() as tree, pytest.raises(FileNotFoundError, match="no-such-program"):
        tree.start(Program("child", ("no-such-program",), tmp_path, tmp_path / "log"))
    assert marked(mark) == []


def test_a_killed_guard_is_noticed_and_everything_is_ended(tmp_path: Path, mark: str) -> None:
    with ProcessTree() as tree:
        tree.start(program(tmp_path, "import time; time.sleep(600)"))
        assert soon(lambda: len(marked(mark)) == 2)  # the guard and the child
        children = psutil.Process(os.getpid()).children()
        (guard,) = (child for child in children if process_tree.__file__ in child.cmdline())
        guard.kill()
        assert soon(lambda: tree.ended().get(GUARD) == -signal.SIGKILL)
        assert len(marked(mark)) == 1
    assert marked(mark) == []


def test_a_process_that_becomes_other_programs_all_the_time_is_found(tmp_path: Path, mark: str) -> None:
    restless = (
        "import os, sys; os.execv(sys.executable, [sys.executable, '-S', '-c', sys.argv[1], sys.argv[1]])"
    )
    with ProcessTree() as tree:
        tree.start(program(tmp_path, restless, restless))
        assert soon(lambda: len(marked(mark)) == 2)
    assert marked(mark) == []


def test_what_a_program_that_ends_first_has_started_is_not_asked_to_end_with_it(
    tmp_path: Path, mark: str
) -> None:
    with ProcessTree() as tree:
        tree.start(replace(program(tmp_path, FAMILY), ends_first=True))
        assert soon(lambda: len(marked(mark)) == 4), "guard, child, stubborn one, daemon"
        assert [p.ppid() for p in Marked(tree.mark, ()).ending_first()] == [os.getpid()]
    assert marked(mark) == []
