"""A tick decides about a datacenter's shifts: a table of what it finds, and the decision."""

from __future__ import annotations

import socket
from dataclasses import dataclass, replace

import pytest
from dagster import DagsterRunStatus

from photon.dispatcher.shift.growth import Growth, LogSize
from photon.dispatcher.shift.lease import LEASE_SECONDS, START_SECONDS, Lease, LeaseStatus
from photon.orchestration.shift_decision import (
    LEAD_SECONDS,
    QUICK_SECONDS,
    RUN_END_SECONDS,
    ActiveRun,
    PastRun,
    Snapshot,
    decide,
)
from photon.pipeline.sections import Shift
from photon.state.view import StateView

SECOND = 1_000_000
NOW_US = 1_700_000_000 * SECOND
RUN, NEXT = "11111111-run", "22222222-run"
SHIFT = Shift()

LOGS = Growth(
    primary=LogSize(3, 1000, 100),
    foreign=LogSize(2, 500, 0),
    signature="as it is now",
)
NO_LOGS = replace(LOGS, primary=LogSize(0, 0, 0), foreign=LogSize(0, 0, 0), problems=("logs: not there",))
DUE = StateView(due=3)


def ago_us(seconds: float) -> int:
    return NOW_US - round(seconds * SECOND)


def lease(run: str = RUN, began_s_ago: float = 600, **more: object) -> Lease:
    begun = Lease(4711, socket.gethostname(), run, ago_us(began_s_ago), NOW_US + 1200 * SECOND)
    return replace(begun, **more)  # type: ignore[arg-type]


def held(of: Lease | None = None, beat_s_ago: float = 1, successor: int | None = None) -> LeaseStatus:
    return LeaseStatus(of or lease(), True, ago_us(beat_s_ago), successor)


def left(of: Lease | None = None, successor: int | None = None) -> LeaseStatus:
    return LeaseStatus(of or lease(), False, ago_us(30), successor)


def run(
    run_id: str = RUN, status: DagsterRunStatus = DagsterRunStatus.STARTED, since_s_ago: float = 600
) -> ActiveRun:
    return ActiveRun(run_id, status, ago_us(since_s_ago))


def joined(s_ago: float) -> Growth:
    """Logs of a datacenter whose latest batch ended so long ago."""
    return replace(LOGS, state=StateView(ended_us=ago_us(s_ago)))


def failed(seconds: float, ended_s_ago: float) -> PastRun:
    return PastRun(True, ago_us(ended_s_ago + seconds), ago_us(ended_s_ago))


def found(
    status: LeaseStatus,
    *runs: ActiveRun,
    growth: Growth = LOGS,
    past: tuple[PastRun, ...] = (),
    ours: bool = True,
    second_tick: bool = False,
) -> Snapshot:
    """Return what a tick finds; a `second_tick` finds the same heartbeat as the tick before."""
    return Snapshot(NOW_US, growth, status, runs, past, ours, status.beat_us if second_tick else None)


@dataclass(frozen=True)
class Expected:
    """Part of the reason, the runs that are failed, whether the process is killed, or looked at once more."""

    launch: bool
    reason: str
    fail: tuple[str, ...] = ()
    kill: bool = False
    unresponsive: bool = False


def launch(reason: str, *fail: str, hung: bool = False) -> Expected:
    return Expected(True, reason, fail, kill=hung, unresponsive=hung)


def wait(reason: str, *fail: str, unresponsive: bool = False) -> Expected:
    return Expected(False, reason, fail, unresponsive=unresponsive)


NEVER_RUN = LeaseStatus()
NEXT_STARTS = run(NEXT, DagsterRunStatus.STARTING, 3)
IDLE = left(lease(released_us=NOW_US, idle_seen=LOGS.signature))
LONG_SILENT = LEASE_SECONDS + 1
ENDING = lease(ends_us=NOW_US + LEAD_SECONDS * SECOND)
ENDING_LATER = replace(ENDING, ends_us=NOW_US + (LEAD_SECONDS + 1) * SECOND)
LET_GO = lease(idle_seen=LOGS.signature, released_us=ago_us(RUN_END_SECONDS))
LET_GO_EARLIER = replace(LET_GO, released_us=ago_us(RUN_END_SECONDS) - 1)
OF_A_COMMAND = lease("", ends_us=None)

DECISIONS = {
    # is there something to do?
    "a datacenter that never ran is started": (found(NEVER_RUN), launch("was never run")),
    "without log files nothing is started, and the reason says where they were looked for": (
        found(NEVER_RUN, growth=NO_LOGS),
        wait("logs: not there"),
    ),
    "grown logs start a shift": (
        found(left(lease(released_us=NOW_US, idle_seen="as it was"))),
        launch("the logs have grown"),
    ),
    "logs as the last shift left them start none": (found(IDLE), wait("nothing new")),
    "due records start a shift though no log has grown": (
        found(IDLE, growth=replace(LOGS, state=DUE)),
        launch("3 events are due"),
    ),
    "due records are taken up though their logs are gone": (
        found(left(), growth=replace(NO_LOGS, state=DUE)),
        launch("is gone"),
    ),
    "a shift that left before all was done is followed": (
        found(left(lease(released_us=NOW_US))),
        launch("left before all was done"),
    ),
    # while somebody runs it
    "a live shift is left alone": (found(held(), run()), wait(f"run {RUN[:8]}, process 4711")),
    "a run that has just been launched is waited for": (
        found(NEVER_RUN, run(status=DagsterRunStatus.STARTING, since_s_ago=5)),
        wait("is starting"),
    ),
    "a join by hand is left alone and named": (
        found(held(OF_A_COMMAND), ours=False),
        wait("a join by command, process 4711"),
    ),
    "a lock whose lease cannot be read is left alone": (
        found(LeaseStatus(None, True, NOW_US)),
        wait("its lease can't be read"),
    ),
    "a run that let go does not hold up its successor": (
        found(left(lease(released_us=ago_us(1), idle_seen="as it was")), run()),
        launch("the logs have grown"),
    ),
    # relief
    "a successor is launched before the time of the shift is over": (
        found(held(ENDING), run()),
        launch("nearly over"),
    ),
    "but not earlier": (found(held(ENDING_LATER), run()), wait(f"for {LEAD_SECONDS + 1} s more")),
    "there is one successor: not another while it starts": (
        found(held(ENDING), run(), NEXT_STARTS),
        wait("is starting"),
    ),
    "there is one successor: not another while it waits in line": (
        found(held(ENDING, successor=815), run()),
        wait("process 815 waits in line"),
    ),
    "a run may wait in line for as long as it likes": (
        found(held(successor=815), run(), run(NEXT, since_s_ago=3600)),
        wait("process 4711"),
    ),
    # the dead
    "a shift whose process is gone is failed and followed in the same tick": (
        found(left(), run()),
        launch("the process 4711 of this shift is gone", RUN),
    ),
    "the successor in line goes on for a dead shift": (
        found(left(successor=815), run(), run(NEXT, since_s_ago=20)),
        wait("process 815 waits in line", RUN),
    ),
    "a shift that let go has some time to end its run": (found(left(LET_GO), run()), wait("nothing new")),
    "after that it is failed": (found(left(LET_GO_EARLIER), run()), wait("nothing new", RUN)),
    "a run that never took over has some time to do so": (
        found(NEVER_RUN, run(since_s_ago=START_SECONDS)),
        wait("is started"),
    ),
    "after that it is failed and followed": (
        found(NEVER_RUN, run(since_s_ago=START_SECONDS + 1)),
        launch("neither ran its datacenter", RUN),
    ),
    "a run in a queue is never failed": (
        found(NEVER_RUN, run(status=DagsterRunStatus.QUEUED, since_s_ago=86_400)),
        wait("is queued"),
    ),
    "a run that was relieved has time to end from then on": (
        found(held(lease(began_s_ago=30)), run(), run(NEXT, since_s_ago=3600)),
        wait("process 4711"),
    ),
    "after that, too, it is failed": (
        found(held(lease(began_s_ago=START_SECONDS + 1)), run(), run(NEXT, since_s_ago=3600)),
        wait("process 4711", NEXT),
    ),
    # the hung
    "a shift without heartbeat is not killed at the first tick": (
        found(held(beat_s_ago=LONG_SILENT), run()),
        wait("once more", unresponsive=True),
    ),
    "at the second tick it is killed, failed and followed": (
        found(held(beat_s_ago=LONG_SILENT), run(), second_tick=True),
        launch("no sign of life", RUN, hung=True),
    ),
    "a shift is not killed before its lease is over": (
        found(held(beat_s_ago=LEASE_SECONDS), run(), second_tick=True),
        wait("process 4711"),
    ),
    "a hung process is killed though Dagster has forgotten that its run was on": (
        found(held(beat_s_ago=60), second_tick=True),
        launch("the process 4711 of the last shift is gone", hung=True),
    ),
    **{
        f"the hung process of {whose} is never killed, at the {'second' if second else 'first'} tick": (
            found(held(of, beat_s_ago=3600), ours=ours, second_tick=second),
            wait("no sign of life"),
        )
        for whose, of, ours in (
            ("a command", OF_A_COMMAND, False),
            ("a run of another Dagster", lease(), False),
            ("another machine", lease(host="another.example"), True),
            ("a holder that has not written its own lease yet", lease(released_us=ago_us(1)), True),
        )
        for second in (False, True)
    },
    # failures one after another
    "a failed shift is followed at once": (found(left(), past=(failed(5, 0),)), launch("is gone")),
    **{
        f"{failures} shifts that failed at once are followed after {seconds} s: {waited} s later": (
            found(left(), past=(failed(5, waited),) * failures),
            wait(f"the last {failures} shifts failed at once") if waited < seconds else launch("is gone"),
        )
        for failures, seconds in ((2, 5), (3, 10), (4, 20), (30, 300))
        for waited in (seconds - 1, seconds)
    },
    "a shift that ran for a while is followed at once, whatever came before": (
        found(left(), past=(failed(QUICK_SECONDS, 0), failed(1, 100), failed(1, 102))),
        launch("is gone"),
    ),
    "shifts that are killed soon after a batch of theirs ended are followed at once": (
        found(left(), run(since_s_ago=40), growth=joined(1), past=(failed(40, 41), failed(40, 82))),
        launch("is gone", RUN),
    ),
    "only shifts since the last one that joined count, and one of them is no reason to wait": (
        found(left(), growth=joined(20), past=(failed(5, 1), failed(40, 19), failed(5, 60))),
        launch("is gone"),
    ),
    "two of them are": (
        found(left(), growth=joined(20), past=(failed(5, 1), failed(5, 9), failed(40, 19))),
        wait("the last 2 shifts failed at once"),
    ),
    "successors that fail as soon as they begin wait, though the shift before them joins": (
        found(held(ENDING), run(), growth=joined(0), past=(failed(5, 1), failed(5, 9))),
        wait("the last 2 shifts failed at once"),
    ),
    "shifts that are killed as soon as they begin are followed at growing distance": (
        found(left(), run(since_s_ago=8), past=(failed(8, 9),)),
        wait("the last 2 shifts failed at once", RUN),
    ),
}


@pytest.mark.parametrize(("snapshot", "expected"), DECISIONS.values(), ids=DECISIONS.keys())
def test_a_tick_decides(snapshot: Snapshot, expected: Expected) -> None:
    decision = decide(snapshot, SHIFT)
    status = snapshot.lease_status
    assert expected.reason in decision.reason
    assert (decision.launch, tuple(run.run_id for run in decision.fail)) == (expected.launch, expected.fail)
    assert decision.kill == (status.lease if expected.kill else None)
    assert decision.unresponsive_since_us == (status.beat_us if expected.unresponsive else None)


@pytest.mark.parametrize(("seconds", "launches"), [(10, True), (11, False)])
def test_a_short_shift_gets_its_successor_at_half_its_time(seconds: int, launches: bool) -> None:
    short = Shift.model_validate({"length": "20s"})
    ending = held(lease(ends_us=NOW_US + seconds * SECOND))
    assert decide(found(ending, run()), short).launch is launches
