"""The processes of `photon join`: which are started again, when, and how often."""

from __future__ import annotations

import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from photon.cli import children as children_module
from photon.cli.children import (
    RESTARTS,
    RESTARTS_WITHIN_SECONDS,
    Children,
    EndedProcess,
    is_accident,
    pause_before_restart,
)
from photon.process.errors import ADAPTER_FAILED, DEFECT, NOT_DONE, NOT_MEANT, WRONG_USAGE
from photon.process.faults import CRASH_AT

DIES = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
# Ends well from the second start on.
DIES_ONCE = f"""
import sys
from pathlib import Path
if not Path(sys.argv[1]).exists():
    Path(sys.argv[1]).touch()
    {DIES}
print("joined")
"""
ENDS_WHEN_ASKED = """
import signal, sys
from pathlib import Path
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
Path(sys.argv[1]).touch()
signal.pause()
"""
LISTENS_LATE = """
import signal, sys, time
time.sleep(0.3)
signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
time.sleep(60)
"""


def python(code: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", code, *map(str, arguments)]


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children_module, "FIRST_PAUSE_SECONDS", 0.001)


@pytest.mark.parametrize("returncode", [-signal.SIGKILL, -signal.SIGSEGV, DEFECT])
def test_a_signal_that_nobody_asks_to_stop_with_and_a_defect_are_accidents(returncode: int) -> None:
    assert is_accident(returncode)


@pytest.mark.parametrize(
    "returncode",
    [0, 1, WRONG_USAGE, NOT_DONE, ADAPTER_FAILED, 130, 143, -signal.SIGINT, -signal.SIGTERM],
)
def test_an_end_that_a_user_can_mend_or_asked_for_is_no_accident(returncode: int) -> None:
    assert not is_accident(returncode)


def test_pauses_grow_and_end_with_the_last_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    pauses = [pause_before_restart([0.0] * accidents, 0.0) for accidents in range(1, RESTARTS + 2)]
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, None]


def test_accidents_of_long_ago_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    accidents = [0.0] * RESTARTS + [RESTARTS_WITHIN_SECONDS]
    assert pause_before_restart(accidents, RESTARTS_WITHIN_SECONDS) == 1.0


def test_a_process_that_is_killed_is_started_again_and_says_so_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    children = Children({"east": python(DIES_ONCE, tmp_path / "died"), "west": python("print('here')")})
    assert children.wait() == {"east": EndedProcess(0, "joined\n"), "west": EndedProcess(0, "here\n")}
    assert capfd.readouterr().err == (
        "photon: datacenter east ended by SIGKILL: starting it again in 0.001 s\n"
    )


def test_a_process_that_is_killed_again_and_again_stays_down(capfd: pytest.CaptureFixture[str]) -> None:
    assert Children({"east": python(DIES)}).wait() == {"east": EndedProcess(-signal.SIGKILL, "")}
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == RESTARTS + 1
    assert lines[-1] == (
        "photon: datacenter east ended by SIGKILL, for the 6th time within 10 minutes: not started again"
    )


def test_accidents_of_long_ago_are_not_among_those_that_are_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    starts = tmp_path / "starts"

    def clock() -> float:
        is_later = starts.exists() and len(starts.read_text()) > 2
        return time.monotonic() + RESTARTS_WITHIN_SECONDS * is_later

    note = f"import sys\nwith open(sys.argv[1], 'a') as file: file.write('x')\n{DIES}"
    Children({"east": python(note, starts)}, clock).wait()
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 2 + RESTARTS + 1
    assert "for the 6th time within 10 minutes: not started again" in lines[-1]


def test_a_process_that_ends_for_a_reason_is_left_at_that(capfd: pytest.CaptureFixture[str]) -> None:
    assert Children({"east": python("raise SystemExit(3)")}).wait() == {"east": EndedProcess(3, "")}
    assert capfd.readouterr().err == "photon: datacenter east ended with status 3\n"


def test_a_process_that_died_at_the_fault_point_of_its_environment_goes_on_when_it_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(CRASH_AT, f"plan.before_store:2 {tmp_path / 'died'}")
    passes = (
        "from photon.process.faults import fault_point\nfor _ in range(3): fault_point('plan.before_store')\n"
    )
    assert Children({"east": python(passes + "print('passed')")}).wait() == {
        "east": EndedProcess(0, "passed\n")
    }
    assert "ended by SIGKILL" in capfd.readouterr().err
    assert (tmp_path / "died").exists()


def test_none_is_started_again_once_a_stop_is_requested(capfd: pytest.CaptureFixture[str]) -> None:
    children = Children({"east": python(DIES), "west": python(DIES)})
    children.pass_on(signal.SIGTERM)
    ended = children.wait()
    assert {each.returncode for each in ended.values()} <= {-signal.SIGKILL, -signal.SIGTERM}
    assert "starting it again" not in capfd.readouterr().err


def test_a_signal_reaches_all_that_run(tmp_path: Path) -> None:
    # Files say that the children listen: reading what they print while they print it may lose it.
    ready = {name: tmp_path / name for name in ("east", "west")}
    children = Children({name: python(ENDS_WHEN_ASKED, path) for name, path in ready.items()})

    def ask() -> None:
        while not all(path.exists() for path in ready.values()):
            time.sleep(0.01)
        children.pass_on(signal.SIGTERM)

    threading.Thread(target=ask, daemon=True).start()
    assert children.wait() == {"east": EndedProcess(0, ""), "west": EndedProcess(0, "")}


def test_a_signal_that_comes_before_a_child_listens_is_not_lost_and_does_not_end_it():
    children = Children({"east": python(LISTENS_LATE)})
    children.pass_on(signal.SIGINT)
    assert children.wait() == {"east": EndedProcess(0, "")}


@pytest.mark.parametrize("status", [NOT_MEANT, NOT_DONE])
def test_what_a_process_printed_is_kept_though_its_join_lacks_something(status: int) -> None:
    told = python(f"print('counts'); raise SystemExit({status})")
    assert Children({"east": told}).wait() == {"east": EndedProcess(status, "counts\n")}
