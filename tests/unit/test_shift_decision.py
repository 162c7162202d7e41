"""What to do about a datacenter's shifts, from facts alone."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest
from dagster import DagsterRunStatus

from orchestration.shift_decision import (
    LEAD_SECONDS,
    MOST_BACKOFF_SECONDS,
    QUICK_SECONDS,
    RUN_END_SECONDS,
    Decision,
    PastRun,
    Run,
    Snapshot,
    decide,
)
from photon.dispatcher.state_view import StateView
from photon.pipeline.file import Shift
from photon.shift.growth import Growth, LogSize
from photon.shift.lease import Lease, LeaseStatus

SECOND = 1_000_000
NOW_US = 1_700_000_000 * SECOND
RUN, NEXT = "11111111-run", "22222222-run"
SHIFT = Shift()
START_SECONDS = SHIFT.start_timeout.total_seconds()
LEASE_US = round(SHIFT.lease_duration.total_seconds() * SECOND)

LOGS = Growth(
    primary=LogSize(3, 1000, 100),
    foreign=LogSize(2, 500, 0),
    signature="as it is now",
)
NO_LOGS = replace(LOGS, primary=LogSize(0, 0, 0), foreign=LogSize(0, 0, 0), problems=("logs: not there",))


def lease(run: str = RUN, began_s: float = -600, **more: object) -> Lease:
    begun = Lease(4711, socket.gethostname(), run, NOW_US + round(began_s * SECOND), NOW_US + 1200 * SECOND)
    return replace(begun, **more)  # type: ignore[arg-type]


def held(of: Lease | None = None, beat_s: float = -1, successor: int | None = None) -> LeaseStatus:
    return LeaseStatus(of or lease(), True, NOW_US + round(beat_s * SECOND), successor)


def left(of: Lease | None = None, successor: int | None = None) -> LeaseStatus:
    return LeaseStatus(of or lease(), False, NOW_US - 30 * SECOND, successor)


def run(run_id: str = RUN, status: DagsterRunStatus = DagsterRunStatus.STARTED, since_s: float = -600) -> Run:
    return Run(run_id, status, NOW_US + round(since_s * SECOND))


def failed(seconds: float, ended_s: float) -> PastRun:
    ended_us = NOW_US + round(ended_s * SECOND)
    return PastRun(True, ended_us - round(seconds * SECOND), ended_us)


def decision(
    status: LeaseStatus,
    *runs: Run,
    growth: Growth = LOGS,
    past: tuple[PastRun, ...] = (),
    knows: bool = True,
) -> Decision:
    return decide(Snapshot(NOW_US, growth, status, runs, past, knows), SHIFT)


def second_look(status: LeaseStatus, *runs: Run, knows: bool = True) -> Decision:
    """The decision of a look that finds the same sign of life as the one before it."""
    return decide(Snapshot(NOW_US, LOGS, status, runs, (), knows, status.beat_us), SHIFT)


# -- whether there is something to do


def test_a_datacenter_that_never_ran_is_started() -> None:
    assert decision(LeaseStatus()).launch


def test_without_log_files_nothing_is_started_and_the_reason_says_where_they_were_looked_for() -> None:
    found = decision(LeaseStatus(), growth=NO_LOGS)
    assert not found.launch
    assert "logs: not there" in found.reason


def test_grown_logs_start_a_shift() -> None:
    assert decision(left(lease(released_us=NOW_US, idle_seen="as it was"))).launch


def test_logs_as_the_last_shift_left_them_start_none() -> None:
    found = decision(left(lease(released_us=NOW_US, idle_seen=LOGS.signature)))
    assert not found.launch
    assert "nothing new" in found.reason


def test_due_records_start_a_shift_though_no_log_has_grown() -> None:
    idle = left(lease(released_us=NOW_US, idle_seen=LOGS.signature))
    assert decision(idle, growth=replace(LOGS, state=StateView(due=3))).launch


def test_due_records_are_taken_up_though_their_logs_are_gone() -> None:
    assert decision(left(), growth=replace(NO_LOGS, state=StateView(due=3))).launch


def test_a_shift_that_left_before_all_was_done_is_followed() -> None:
    assert decision(left(lease(released_us=NOW_US))).launch


# -- while somebody runs it


def test_a_live_shift_is_left_alone() -> None:
    found = decision(held(), run())
    assert found == Decision(False, found.reason)
    assert RUN[:8] in found.reason


def test_a_run_that_has_just_been_launched_is_waited_for() -> None:
    found = decision(LeaseStatus(), run(status=DagsterRunStatus.STARTING, since_s=-5))
    assert (found.launch, found.fail) == (False, ())


def test_a_join_by_hand_is_left_alone_and_named() -> None:
    found = decision(held(lease("", ends_us=None)), knows=False)
    assert not found.launch
    assert "`photon join`, process 4711" in found.reason


def test_a_lock_whose_lease_cannot_be_read_is_left_alone() -> None:
    assert not decision(LeaseStatus(None, True, NOW_US)).launch


def test_a_run_that_let_go_does_not_hold_up_its_successor() -> None:
    found = decision(left(lease(released_us=NOW_US - SECOND, idle_seen="as it was")), run())
    assert (found.launch, found.fail) == (True, ())


# -- relief


def test_a_successor_is_launched_before_the_time_of_the_shift_is_over() -> None:
    ends_us = NOW_US + round(LEAD_SECONDS * SECOND)
    assert decision(held(lease(ends_us=ends_us)), run()).launch
    assert not decision(held(lease(ends_us=ends_us + SECOND)), run()).launch


def test_a_short_shift_gets_its_successor_at_half_its_time() -> None:
    short = Shift.model_validate({"length": "20s"})
    for left_s, launches in ((10, True), (11, False)):
        facts = Snapshot(NOW_US, LOGS, held(lease(ends_us=NOW_US + left_s * SECOND)), (run(),))
        assert decide(facts, short).launch is launches


def test_there_is_one_successor() -> None:
    ending = lease(ends_us=NOW_US)
    assert not decision(held(ending), run(), run(NEXT, DagsterRunStatus.STARTING, -3)).launch
    assert not decision(held(ending, successor=815), run()).launch


def test_a_run_may_wait_successor_for_as_long_as_it_likes() -> None:
    assert decision(held(successor=815), run(), run(NEXT, since_s=-3600)).fail == ()


# -- the dead


def test_a_shift_whose_process_is_gone_is_marked_and_followed_in_the_same_tick() -> None:
    found = decision(left(), run())
    assert [(lost.run_id, found.launch) for lost in found.fail] == [(RUN, True)]
    assert "process 4711" in found.fail[0].reason
    assert "gone" in found.fail[0].reason


def test_the_successor_successor_goes_on_for_a_dead_shift() -> None:
    found = decision(left(successor=815), run(), run(NEXT, since_s=-20))
    assert ([lost.run_id for lost in found.fail], found.launch) == ([RUN], False)


def test_a_shift_that_let_go_has_some_time_to_end_its_run() -> None:
    idle = lease(idle_seen=LOGS.signature, released_us=NOW_US - RUN_END_SECONDS * SECOND)
    assert decision(left(idle), run()).fail == ()
    assert decision(left(replace(idle, released_us=(idle.released_us or 0) - 1)), run()).fail


def test_a_run_that_never_took_over_is_lost_after_a_while() -> None:
    assert not decision(LeaseStatus(), run(since_s=-START_SECONDS)).fail
    found = decision(LeaseStatus(), run(since_s=-START_SECONDS - 1))
    assert ([lost.run_id for lost in found.fail], found.launch) == ([RUN], True)


def test_a_run_in_a_queue_is_never_lost() -> None:
    found = decision(LeaseStatus(), run(status=DagsterRunStatus.QUEUED, since_s=-86_400))
    assert (found.launch, found.fail) == (False, ())


def test_a_run_that_was_relieved_has_time_to_end_from_then_on() -> None:
    relieved = run(NEXT, since_s=-3600)
    assert decision(held(lease(began_s=-30)), run(), relieved).fail == ()
    assert decision(held(lease(began_s=-START_SECONDS - 1)), run(), relieved).fail


# -- the hung


def test_a_shift_without_sign_of_life_is_killed_marked_and_followed() -> None:
    found = second_look(held(beat_s=-LEASE_US / SECOND - 1), run())
    assert (found.kill, [lost.run_id for lost in found.fail], found.launch) == (lease(), [RUN], True)


def test_a_shift_is_not_killed_at_the_first_look() -> None:
    status = held(beat_s=-LEASE_US / SECOND - 1)
    found = decision(status, run())
    assert (found.kill, found.fail, found.launch) == (None, (), False)
    assert (found.unresponsive_since_us, "once more" in found.reason) == (status.beat_us, True)


def test_a_shift_is_not_killed_before_its_lease_is_over() -> None:
    found = second_look(held(beat_s=-LEASE_US / SECOND), run())
    assert (found.kill, found.unresponsive_since_us) == (None, None)


def test_a_hung_process_is_killed_though_dagster_has_forgotten_that_its_run_was_on() -> None:
    found = second_look(held(beat_s=-60))
    assert (found.kill, found.fail, found.launch) == (lease(), (), True)


@pytest.mark.parametrize(
    ("of", "knows"),
    [
        (lease("", ends_us=None), False),  # a command
        (lease(), False),  # a run of another Dagster
        (lease(host="another.example"), True),
        (lease(released_us=NOW_US - SECOND), True),  # the next holder has not written its own lease yet
    ],
)
def test_a_process_that_is_not_ours_is_never_killed(of: Lease, knows: bool) -> None:
    found = decision(held(of, beat_s=-3600), knows=knows)
    assert (found.kill, found.launch) == (None, False)
    assert "no sign of life" in found.reason


# -- failures one after another


def test_a_failed_shift_is_followed_at_once() -> None:
    assert decision(left(), past=(failed(5, ended_s=0),)).launch


@pytest.mark.parametrize(("failures", "distance_seconds"), [(2, 5), (3, 10), (4, 20), (30, 300)])
def test_shifts_that_fail_at_once_are_followed_at_growing_distance(
    failures: int, distance_seconds: int
) -> None:
    assert distance_seconds <= MOST_BACKOFF_SECONDS
    early = tuple(failed(5, 1 - distance_seconds) for _ in range(failures))
    late = tuple(failed(5, -distance_seconds) for _ in range(failures))
    assert not decision(left(), past=early).launch
    assert decision(left(), past=late).launch


def test_a_shift_that_ran_for_a_while_is_followed_at_once_whatever_came_before() -> None:
    past = (failed(QUICK_SECONDS, 0), failed(1, -100), failed(1, -102))
    assert decision(left(), past=past).launch


def test_shifts_that_are_killed_as_soon_as_they_begin_are_followed_at_growing_distance() -> None:
    found = decision(left(), run(since_s=-8), past=(failed(8, -9),))
    assert ([lost.run_id for lost in found.fail], found.launch) == ([RUN], False)
    assert "the last 2 shifts failed at once" in found.reason
