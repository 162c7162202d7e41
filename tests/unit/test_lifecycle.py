"""The life of a plan: each state and what follows, and how often it is attempted (protocol A17)."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from photon.state.lifecycle import (
    FINAL,
    TRANSITIONS,
    Attempts,
    Event,
    Life,
    PlanState,
    after,
    attempts_from_json,
    attempts_to_json,
    found_open,
    new_life,
)

ARCHITECTURE = Path(__file__).parents[2] / "ARCHITECTURE.md"


def told(life: Life, *events: Event) -> Life:
    for event in events:
        life = after(life, event, "the reason")
    return life


def test_the_document_has_each_transition_and_no_other() -> None:
    table = ARCHITECTURE.read_text().partition("| state | what is done | what comes of it |")[2]
    rows = [line.split("|")[1:4] for line in table.split("\n\n")[0].splitlines() if line.startswith("| `")]
    documented = {
        (PlanState[state.strip(" `")], Event[event.strip()]): PlanState[follows.strip()]
        for state, _, events in rows
        for event, follows in (one.strip(" `").split(" -> ") for one in events.split(","))
    }
    assert documented == TRANSITIONS


def test_each_state_is_reached_from_the_first_and_leads_to_an_end() -> None:
    reached = {PlanState.READY}
    while more := {to for (state, _), to in TRANSITIONS.items() if state in reached} - reached:
        reached |= more
    doomed = {PlanState.DOOMED}
    assert reached | doomed == set(PlanState)
    assert {state for state, _ in TRANSITIONS} == set(PlanState) - FINAL


def test_a_plan_whose_tasks_end_is_attempted_once() -> None:
    life = told(new_life(is_piece=False), Event.ENDED)
    assert (life.state, life.attempts.begun) == (PlanState.COMPLETED, 1)


def test_a_plan_that_an_adapter_stops_at_every_start_has_lost_no_attempt() -> None:
    life = new_life(is_piece=False)
    for _ in range(10):
        life = told(life, Event.ADAPTER_FAILED)
        assert (life.state, life.attempts.died, life.attempts.under_way) == (PlanState.HALTED, 0, False)
        life = told(found_open(life.attempts, is_piece=False, died=True), Event.NOT_COMMITTED)
    assert life.state is PlanState.READY


def test_attempts_that_wait_for_registry_or_lake_are_none() -> None:
    life = new_life(is_piece=False)
    for _ in range(100):
        life = told(life, Event.UNAVAILABLE, Event.WAITED, Event.NOT_COMMITTED)
    assert life.state is PlanState.READY
    assert (life.attempts.begun, life.attempts.died, life.attempts.timed_out) == (101, 0, 0)


def time_out(life: Life) -> Life:
    return told(life, Event.TIMED_OUT, Event.WAITED, Event.NOT_COMMITTED)


def die(life: Life) -> Life:
    return told(found_open(life.attempts, life.is_piece, died=True), Event.NOT_COMMITTED)


def lose_session(life: Life) -> Life:
    return told(life, Event.RUNNER_DIED, Event.WAITED, Event.NOT_COMMITTED)


@pytest.mark.parametrize("lose", list(product([time_out, die, lose_session], repeat=3)))
def test_a_plan_is_abandoned_after_three_attempts_that_did_not_return(lose) -> None:  # type: ignore[no-untyped-def]
    life = new_life(is_piece=False)
    for one in lose[:2]:
        life = one(life)
        assert life.state is PlanState.READY
    life = lose[2](life)
    assert life.state is PlanState.DOOMED
    assert "attempts that did not return: 3" in (life.doom or "")


def test_a_piece_of_an_abandoned_plan_may_time_out_once_and_die_twice() -> None:
    piece = new_life(is_piece=True)
    assert time_out(piece).state is PlanState.DOOMED
    assert die(piece).state is PlanState.READY
    assert die(die(piece)).state is PlanState.DOOMED


def test_what_fails_is_abandoned_at_once_and_stays_so_while_the_lake_is_away() -> None:
    life = told(new_life(is_piece=False), Event.FAILED)
    assert (life.state, life.doom) == (PlanState.DOOMED, "the reason")
    again = told(life, Event.UNAVAILABLE, Event.WAITED, Event.NOT_COMMITTED)
    assert (again.state, again.doom) == (PlanState.DOOMED, "the reason")
    assert again.attempts == life.attempts


def test_a_plan_that_was_committed_is_read_back_however_often_it_was_attempted() -> None:
    attempts = Attempts(begun=9, under_way=True, died=8)
    assert told(found_open(attempts, False, died=True), Event.HAS_COMMITTED).state is PlanState.COMMITTED


def test_work_that_was_committed_and_comes_again_has_lost_as_many_attempts() -> None:
    """Else a record that kills its process right after each commit would do so for ever."""
    attempts = Attempts()
    for died in (1, 2):
        life = told(found_open(attempts, False, died=True), Event.HAS_COMMITTED)
        assert life.doom is None
        attempts = new_life(False, life.attempts.again()).attempts
        assert (attempts.begun, attempts.under_way, attempts.died) == (1, True, died)
    assert told(found_open(attempts, False, died=True), Event.HAS_COMMITTED).doom


def test_a_plan_that_its_own_process_finds_open_has_not_died() -> None:
    assert found_open(Attempts(), False, died=False).attempts.died == 0


def test_a_stop_leaves_the_plan_open_and_its_attempt_counts_for_nothing() -> None:
    life = told(new_life(is_piece=False), Event.UNAVAILABLE, Event.STOPPED)
    assert life.state is PlanState.LEFT_OPEN
    assert found_open(life.attempts, False, died=True).attempts.died == 0


def test_a_batch_of_another_plan_ends_the_process() -> None:
    assert told(found_open(Attempts(), False, True), Event.BY_ANOTHER).state is PlanState.SUPERSEDED


def test_attempts_read_back_as_they_were_stored() -> None:
    attempts = Attempts(4, False, 1, 2)
    assert attempts_from_json(attempts_to_json(attempts)) == attempts
    assert attempts_from_json("{}") == Attempts(), "of Photon 0.1.0"
