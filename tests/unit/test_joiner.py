"""A join task: what it proposes, and what it says of records by who holds their events."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from photon.process.clock import CLOCK_TOLERANCE_US, MICROSECONDS
from photon.registry.entry import Claimant, Epoch
from photon.registry.lookups import Hold, claimant_of
from photon.state.outcomes import HeldRecord
from photon.storage.candidate_files import list_of
from tests.unit.join_world import NOON_US, OTHER_PLAN, PLAN, WEST, JoinWorld, claimed, ids_at_home

DAY_US = 24 * 3600 * MICROSECONDS


@pytest.fixture
def world(tmp_path: Path) -> JoinWorld:
    world = JoinWorld(tmp_path)
    world.queries("q1", "q2", "q3")
    return world


ONE, TWO, THREE = ids_at_home("east", 3)
THEIRS, *_ = ids_at_home("west", 1)


# -- what nobody holds


def test_what_is_free_and_found_has_a_stored_row_and_a_claim(world: JoinWorld) -> None:
    world.clicks((ONE, "q1"), (TWO, "q2"))
    result = world.run()
    assert {row["_event_id"] for row in world.rows(result)} == {ONE, TWO}
    assert claimed(result.claims, ONE, TWO)
    assert result.classes == {"joined": 2}


def test_a_claim_has_its_plan_the_time_of_the_event_and_the_place_of_its_record(world: JoinWorld) -> None:
    world.clicks((ONE, "q1"), at_us=NOON_US - 5)
    world.clicks((TWO, "q2"), file="b.jsonl")
    claims = world.run().claims
    assert claims is not None
    assert claims.claimant == Claimant(Epoch("east", 1), 7, "this")
    places = [(one.file_number, one.offset_bytes) for name in (ONE, TWO) for one in world.places[name]]
    assert sorted(zip(claims.files.tolist(), claims.offsets_bytes.tolist(), strict=True)) == sorted(places)
    assert sorted(claims.times_us.tolist()) == [NOON_US - 5, NOON_US]


def test_a_time_that_is_in_the_id_is_the_event_s(tmp_path: Path) -> None:
    world = JoinWorld(tmp_path)
    document = world.pipeline.foreign.model_copy(update={"id_codec": "server_process_time"})
    world.context = replace(world.context, pipeline=world.pipeline.model_copy(update={"foreign": document}))
    world.queries("q1")
    world.clicks((f"10.0.0.1:7:{NOON_US - 9}", "q1"), ("no time", "q1"))
    claims = world.run(unresponsive_datacenters=frozenset({"west"})).claims
    assert claims is not None
    assert sorted(claims.times_us.tolist()) == [NOON_US - 9, NOON_US]


def test_a_claim_costs_less_than_fifty_bytes_on_its_way(world: JoinWorld) -> None:
    names = ids_at_home("east", 1000)
    world.clicks(*((name, "q1") for name in names))
    assert len(pickle.dumps(world.run().claims)) < 50 * len(names)


def test_a_run_of_the_same_task_claims_the_same_in_the_same_order(world: JoinWorld) -> None:
    names = ids_at_home("east", 50)
    world.clicks(*((name, "q1") for name in names), *((name, "q2") for name in names[::3]))
    first, second = world.run().claims, world.run().claims
    assert first is not None
    assert second is not None
    assert first.hashes.tolist() == second.hashes.tolist()
    assert first.offsets_bytes.tolist() == second.offsets_bytes.tolist()


def test_what_has_no_primary_is_not_claimed(world: JoinWorld) -> None:
    world.clicks((ONE, "q1"), (TWO, "q9"))
    result = world.run()
    assert claimed(result.claims, ONE)
    assert world.waiting(result) == {"primary": 1}


def test_a_task_without_a_row_claims_nothing(world: JoinWorld) -> None:
    world.clicks((ONE, "q9"))
    result = world.run()
    assert result.claims is None
    assert result.files == ()


def test_of_two_records_of_one_event_the_first_by_time_is_claimed(world: JoinWorld) -> None:
    world.clicks((ONE, "q1"), at_us=NOON_US)
    world.clicks((ONE, "q2"), at_us=NOON_US - 1)
    result = world.run()
    assert [row["_occurrence"] for row in world.rows(result)] == [str(world.places[ONE][1])]
    assert result.classes == {"joined": 1, "duplicates": 1}


def test_records_of_one_id_at_two_times_are_one_event(world: JoinWorld) -> None:
    world.clicks((ONE, "q1"), at_us=NOON_US - DAY_US)
    world.clicks((ONE, "q1"), at_us=NOON_US)
    assert world.run().classes == {"joined": 1, "duplicates": 1}


def test_the_next_record_of_an_event_has_its_turn_where_the_first_has_no_primary(world: JoinWorld) -> None:
    world.clicks((ONE, "q9"), (ONE, "q1"))
    result = world.run()
    assert [row["_occurrence"] for row in world.rows(result)] == [str(world.places[ONE][1])]
    assert claimed(result.claims, ONE)


# -- what others hold


def test_what_another_datacenter_has_closed_is_joined_elsewhere(world: JoinWorld) -> None:
    world.clicks((ONE, "q1"), (TWO, "q2"))
    world.hold(ONE, Hold.JOINED_ELSEWHERE, WEST)
    result = world.run()
    assert result.classes == {"joined": 1, "joined_elsewhere": 1}
    assert claimed(result.claims, TWO)
    assert result.registered_elsewhere == {"west"}
    assert result.fresh_were_free is False


def test_what_another_datacenter_holds_waits_and_is_counted_by_its_epoch(world: JoinWorld) -> None:
    world.clicks((ONE, "q1"), (ONE, "q2"), (TWO, "q1"))
    world.hold(ONE, Hold.ELSEWHERE, WEST)
    result = world.run()
    assert result.held == {WEST.epoch: 2}
    assert world.waiting(result) == {"held": 2}
    assert claimed(result.claims, TWO)


def test_what_another_plan_of_this_datacenter_holds_is_for_the_table_to_say(world: JoinWorld) -> None:
    world.clicks((ONE, "q1"), (ONE, "q9"))
    world.hold(ONE, Hold.HERE, OTHER_PLAN)
    result = world.run()
    both = [HeldRecord(ONE, place, OTHER_PLAN) for place in world.places[ONE]]
    assert list(result.registered_here) == both
    assert world.waiting(result) == {"contested": 2}
    assert result.classes == {}


def test_who_holds_an_event_is_asked_before_it_is_left_to_its_home(world: JoinWorld) -> None:
    world.clicks((THEIRS, "q1"))
    world.hold(THEIRS, Hold.JOINED_ELSEWHERE, WEST)
    assert world.run().classes == {"joined_elsewhere": 1}


def test_an_ordered_event_that_a_given_up_datacenter_has_joined_is_to_be_freed(world: JoinWorld) -> None:
    world.clicks((ONE, "q1"))
    world.hold(ONE, Hold.ELSEWHERE, WEST)
    waiting = world.run()
    world.hold(ONE, Hold.JOINED_ELSEWHERE, WEST)
    task = world.again(waiting)
    assert world.run(task, given_up=frozenset({"west"})).classes == {"joined_elsewhere": 1}
    ordered = world.again(waiting, reason="ordered")
    result = world.run(ordered, given_up=frozenset({"west"}))
    assert result.to_free == (HeldRecord(ONE, world.places[ONE][0], WEST),)
    assert result.held == {}  # nobody is there to wait for
    assert world.waiting(result) == {"ordered": 1}
    assert world.run(ordered, given_up=frozenset()).classes == {"joined_elsewhere": 1}


# -- homes


def test_a_fresh_event_is_left_to_its_home(world: JoinWorld) -> None:
    world.clicks((THEIRS, "q1"), (ONE, "q1"))
    result = world.run()
    assert claimed(result.claims, ONE)
    assert world.waiting(result) == {"home": 1}


def test_what_an_unresponsive_home_should_join_is_joined_at_once(world: JoinWorld) -> None:
    world.clicks((THEIRS, "q1"))
    assert claimed(world.run(unresponsive_datacenters=frozenset({"west"})).claims, THEIRS)


def test_an_event_of_a_ledger_without_a_home_is_everybodys(world: JoinWorld) -> None:
    (generation,) = world.held.register.generations
    world.held.register = replace(world.held.register, generations=(replace(generation, homes=()),))
    world.clicks((THEIRS, "q1"))
    assert claimed(world.run().claims, THEIRS)


def test_an_event_of_a_home_that_the_pipeline_does_not_have_is_everybodys(world: JoinWorld) -> None:
    (generation,) = world.held.register.generations
    homes = ("north", "north")
    world.held.register = replace(world.held.register, generations=(replace(generation, homes=homes),))
    world.clicks((THEIRS, "q1"))
    assert claimed(world.run().claims, THEIRS)


def test_what_was_left_to_its_home_and_is_joined_here_is_counted(world: JoinWorld) -> None:
    world.clicks((THEIRS, "q1"))
    task = world.again(world.run())
    result = world.run(task)
    assert claimed(result.claims, THEIRS)
    assert result.taken_over == {"west": 1}


def test_fresh_events_of_the_own_half_were_free(world: JoinWorld) -> None:
    world.clicks((ONE, "q1"), (THEIRS, "q1"))
    assert world.run().fresh_were_free is True


def test_without_such_events_there_is_no_news_of_them(world: JoinWorld) -> None:
    world.clicks((THEIRS, "q1"))
    assert world.run().fresh_were_free is None


# -- time


def test_what_nobody_holds_below_the_boundary_is_too_old(world: JoinWorld) -> None:
    world.held.boundary_us = NOON_US - DAY_US
    world.clicks((ONE, "q1"), at_us=NOON_US - 2 * DAY_US)
    result = world.run()
    assert result.classes == {"too_old": 1}
    assert result.claims is None


def test_a_younger_record_of_an_event_that_is_too_old_joins(world: JoinWorld) -> None:
    world.held.boundary_us = NOON_US - DAY_US
    world.clicks((ONE, "q1"), at_us=NOON_US - 2 * DAY_US)
    world.clicks((ONE, "q1"))
    result = world.run()
    assert [row["_occurrence"] for row in world.rows(result)] == [str(world.places[ONE][1])]
    assert result.classes == {"joined": 1, "duplicates": 1}


def test_a_record_ahead_of_the_clock_waits_for_it(world: JoinWorld) -> None:
    world.clicks((ONE, "q1"), at_us=NOON_US + DAY_US)
    result = world.run()
    assert world.waiting(result) == {"clock": 1}
    assert result.claims is None


def test_it_is_joined_when_its_time_has_come(world: JoinWorld) -> None:
    world.clicks((ONE, "q1"), at_us=NOON_US + DAY_US // 2)
    task = world.again(world.run())
    world.clock.advance(seconds=DAY_US // 2 // MICROSECONDS)
    assert claimed(world.run(task).claims, ONE)


def test_it_is_a_dead_letter_when_it_has_waited_for_too_long(world: JoinWorld) -> None:
    world.clicks((ONE, "q1"), at_us=NOON_US + 1000 * DAY_US)
    task = world.again(world.run())
    world.clock.advance(seconds=world.pipeline.retry.unjoinable_after.total_seconds())
    result = world.run(task)
    assert result.classes == {"dead_letters": 1}


def test_within_the_tolerance_nobody_waits_for_the_clock(world: JoinWorld) -> None:
    world.clicks((ONE, "q1"), at_us=NOON_US + CLOCK_TOLERANCE_US)
    assert claimed(world.run().claims, ONE)


def test_another_record_of_an_event_ahead_of_the_clock_joins(world: JoinWorld) -> None:
    world.clicks((ONE, "q1"), at_us=NOON_US + DAY_US)
    world.clicks((ONE, "q2"), at_us=NOON_US + 1)
    result = world.run()
    assert [row["_occurrence"] for row in world.rows(result)] == [str(world.places[ONE][1])]


# -- further runs of the same plan


def test_stored_rows_that_the_plan_holds_are_rows_though_their_log_is_gone(world: JoinWorld) -> None:
    world.clicks((ONE, "q1"), (TWO, "q2"))
    first = world.run()
    world.win(first)
    (world.logs / "clicks" / "a.jsonl").unlink()
    world.clock.advance(seconds=1)  # a row that is made anew gets another time
    second = world.run()
    assert claimed(second.claims, ONE, TWO)
    assert world.rows(second) == world.rows(first)
    assert second.classes == {"joined": 2}


def test_stored_rows_of_events_that_nobody_holds_are_proposed_again(world: JoinWorld) -> None:
    world.clicks((ONE, "q1"))
    first = world.run()
    (world.logs / "clicks" / "a.jsonl").unlink()
    second = world.run()
    assert claimed(second.claims, ONE)
    lists = {list_of(file) for file in (*first.files, *second.files)}
    assert set(second.unneeded_files) == {file.path for file in first.files} | lists


@pytest.mark.parametrize(
    ("hold", "reason"), [(Hold.ELSEWHERE, "held"), (Hold.HERE, "contested"), (Hold.JOINED_ELSEWHERE, None)]
)
def test_a_stored_row_of_an_event_that_others_hold_is_no_row(
    world: JoinWorld, hold: Hold, reason: str | None
) -> None:
    world.clicks((ONE, "q1"), (TWO, "q2"))
    world.run()
    world.hold(ONE, hold, OTHER_PLAN if hold is Hold.HERE else WEST)
    result = world.run()
    assert [row["_event_id"] for row in world.rows(result)] == [TWO]
    assert claimed(result.claims, TWO)
    assert world.waiting(result) == ({reason: 1} if reason else {})


def test_a_stored_row_of_an_event_that_is_too_old_by_now_is_no_row(world: JoinWorld) -> None:
    world.clicks((ONE, "q1"))
    world.run()
    world.held.boundary_us = NOON_US + 1
    result = world.run()
    assert result.classes == {"too_old": 1}
    assert result.claims is None


def test_what_a_run_has_stored_is_not_left_to_its_home_by_the_next(world: JoinWorld) -> None:
    world.clicks((THEIRS, "q1"))
    world.run(unresponsive_datacenters=frozenset({"west"}))
    assert claimed(world.run(unresponsive_datacenters=frozenset()).claims, THEIRS)


def test_the_record_at_the_place_of_the_hold_leads(world: JoinWorld) -> None:
    world.clicks((ONE, "q9"), (ONE, "q2"), at_us=NOON_US)
    first = world.run()
    assert [row["_occurrence"] for row in world.rows(first)] == [str(world.places[ONE][1])]
    world.win(first)
    world.queries("q9")
    second = world.run()
    assert [row["_occurrence"] for row in world.rows(second)] == [str(world.places[ONE][1])]
    assert second.classes == {"joined": 1, "duplicates": 1}


def test_what_another_task_of_the_plan_holds_is_for_the_table_to_say(world: JoinWorld) -> None:
    one = world.clicks((ONE, "q1"))
    world.win(world.run(one))
    world.task = replace(world.task, ranges=(), number=1)
    other = world.clicks((ONE, "q2"), (TWO, "q2"), file="b.jsonl")
    result = world.run(other)
    at, other_at = world.places[ONE]
    assert result.registered_here == (HeldRecord(ONE, other_at, claimant_of(PLAN), at),)
    assert claimed(result.claims, TWO)
    assert world.waiting(result) == {"contested": 1}


def test_both_tasks_have_a_stored_row_and_the_one_at_the_place_of_the_hold_counts(world: JoinWorld) -> None:
    one = world.clicks((ONE, "q1"))
    first = world.run(one)
    world.task = replace(world.task, ranges=(), number=1)
    other = world.clicks((ONE, "q2"), file="b.jsonl")
    world.run(other)
    world.win(first)
    assert world.run(other).claims is None
    assert claimed(world.run(one).claims, ONE)


def test_a_hold_without_a_row_that_can_be_made_is_claimed_no_more(world: JoinWorld) -> None:
    world.clicks((ONE, "q9"))
    world.hold(ONE, Hold.THIS_PLAN, claimant_of(PLAN), world.places[ONE][0])
    result = world.run()
    assert result.claims is None
    assert world.waiting(result) == {"primary": 1}


def test_a_row_that_can_be_made_is_made_where_the_stored_one_is_gone(world: JoinWorld) -> None:
    world.clicks((ONE, "q1"))
    world.hold(ONE, Hold.THIS_PLAN, claimant_of(PLAN), world.places[ONE][0])
    assert claimed(world.run().claims, ONE)


# -- what is asked


def test_one_lookup_is_enough_for_an_event_of_many_records(world: JoinWorld) -> None:
    world.clicks(*[(ONE, "q1")] * 20, (TWO, "q1"))
    world.run()
    assert world.held.asked == 2
