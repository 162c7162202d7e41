"""Records that wait for their primaries: woken, given up, and bounded."""

from __future__ import annotations

from pathlib import Path

import pytest

from photon.dispatcher.retrying import Callbacks
from photon.health.status import status_of
from photon.process.clock import MICROSECONDS
from tests.simulation import waiting_stories
from tests.simulation.world import NOON_US, World, assert_counts


def test_an_event_waits_for_its_primary_and_joins_when_it_comes(world: World) -> None:
    world.clicks(("c1", "q1"), ("c2", "q2"))
    world.queries("q2")
    counts = world.join().counts
    assert_counts(counts, joined=1, pending=1)
    world.queries("q1")
    counts = world.join().counts
    assert world.joined_ids() == ["c1", "c2"]
    assert counts.of("pending") == 0


def test_a_primary_that_comes_wakes_the_event_that_waits_long_before_its_backoff_ends(world: World) -> None:
    world.clicks(("c1", "q1"))
    for _ in range(8):
        world.join()
        world.clock.advance(120)
    (row,) = world.read_state().waiting.of_event("c1")
    assert row.due_us - world.clock.now_us() < 0
    world.join()
    (row,) = world.read_state().waiting.of_event("c1")
    assert row.due_us - world.clock.now_us() > 10 * MICROSECONDS
    asked_us = world.clock.now_us()
    world.queries("q1")
    world.join()
    assert world.joined_ids() == ["c1"]
    assert world.clock.now_us() - asked_us < 10 * MICROSECONDS


def test_an_event_is_unjoinable_once_its_time_is_up_and_primary_logs_have_gone_on(tmp_path: Path) -> None:
    world = World(tmp_path, more="retry: {unjoinable_after: 10m, allowed_lateness: 1m}")
    world.clicks(("orphan", "never"), ("late", "later"))
    for _ in range(12):
        world.clock.advance(60)
        world.join()
    assert world.join().counts.of("pending") == 2, "primary logs were silent"
    world.queries("q1", at_us=NOON_US + 5 * 60 * MICROSECONDS)
    world.queries("later", at_us=NOON_US)
    world.join()
    world.clock.advance(150)  # waits are at most an eighth of those ten minutes
    counts = world.join().counts
    assert_counts(counts, joined=1, pending=0, unjoinable=1)


def test_an_event_of_last_year_waits_for_its_primary(world: World) -> None:  # C5
    waiting_stories.an_event_of_last_year_waits_for_its_primary(world)


def test_an_event_given_up_in_a_complete_run_is_looked_for_again_by_a_later_one(world: World) -> None:
    world.clicks(("c1", "q1"))
    assert world.join(mode="complete").counts.of("unjoinable") == 1
    world.queries("q1")
    counts = world.join(mode="complete").counts
    assert world.joined_ids() == ["c1"]
    assert_counts(counts, foreign=1, joined=1, unjoinable=0)


def test_an_event_is_recorded_as_unjoined_once_however_often_it_is_given_up(world: World) -> None:
    world.clicks(("c1", "q1"))
    for _ in range(3):
        assert world.join(mode="complete").counts.of("unjoinable") == 1
    assert len(world.rows("unjoined")) == 1


def test_waiting_records_survive_the_loss_of_their_log(world: World) -> None:
    world.clicks(("c1", "q1"))
    world.join()
    (world.folder / "logs" / "east" / "clicks" / "a.jsonl").unlink()
    world.queries("q1")
    world.join()
    assert world.joined_ids() == ["c1"]


def test_foreign_logs_pause_at_the_bound_of_waiting_records_and_nothing_is_dropped(tmp_path: Path) -> None:
    world = World(tmp_path, more="limits: {pending_events: 5, batch_foreign: 120B}")
    world.clicks(*((f"c{n}", f"q{n}") for n in range(40)))

    stops = iter([False] * 200 + [True] * 1_000)
    counts = world.join(mode="stop", callbacks=Callbacks(should_stop=lambda: next(stops))).counts
    assert 5 <= counts.of("pending") <= 8
    world.queries(*(f"q{n}" for n in range(40)))
    world.join()
    assert len(world.joined_ids()) == 40


def test_an_event_ahead_of_the_clock_waits_and_is_a_dead_letter_once_its_time_is_up(world: World) -> None:
    world.queries("q1")
    next_year_us = NOON_US + 365 * 86_400 * MICROSECONDS
    world.clicks(("now", "q1"))
    world.clicks(("wild", "q1"), at_us=next_year_us)
    assert_counts(world.join().counts, joined=1, pending=1)
    world.clock.advance(world.pipeline.retry.unjoinable_after.total_seconds())
    counts = world.join().counts
    assert_counts(counts, joined=1, pending=0, dead_letters=1)
    (letter,) = world.rows("dead_letters")
    assert letter["event_id"] == "wild"
    assert "ahead of the clock" in letter["reason"]


def test_the_status_says_what_waits_since_when_and_which_logs_may_go(world: World) -> None:
    world.clicks(("c1", "q1"))
    world.queries("q2", at_us=NOON_US - MICROSECONDS)
    world.join()
    world.clock.advance(2 * 24 * 3600)
    world.clicks(("c2", "q0"), file="b.jsonl")
    world.join()
    status = status_of(world.pipeline, "east", world.clock)
    assert status.waiting == {"primary": 2}
    assert status.waiting_by_age == {"within a minute": 1, "before that": 1}
    assert status.foreign.safe_to_delete == ()  # an event of the file waits
    assert status.primary.safe_to_delete == ("queries/a.jsonl",)
    world.queries("q0", "q1", file="b.jsonl")
    world.join()
    assert status_of(world.pipeline, "east", world.clock).foreign.safe_to_delete == ("clicks/a.jsonl",)


@pytest.mark.parametrize("starts_again", [False, True])
def test_what_waits_is_looked_at_when_the_clock_is_set_back(tmp_path: Path, starts_again: bool) -> None:
    world = World(tmp_path, ("east", "west"))
    ids = [f"c{number}" for number in range(20)]
    world.queries("q")
    # Later clicks would lie ahead of the clock that is set back.
    two_hours_ago_us = NOON_US - 7_200 * MICROSECONDS
    world.clicks(*((each, "q") for each in ids), at_us=two_hours_ago_us)
    done: list[object] = []

    def after_a_batch(report: object) -> None:
        if not done:
            world.clock.set_back(3600)
        done.append(report)

    if starts_again:
        world.join(callbacks=Callbacks(lambda: bool(done), after_a_batch))
        assert world.joined_ids() != sorted(ids), "none is left to its home"
    world.join(callbacks=Callbacks(on_batch=after_a_batch))
    assert world.joined_ids() == sorted(ids)
    assert world.clock.elapsed_us() < 60 * MICROSECONDS


def test_what_waits_is_looked_at_though_all_logs_have_grown_since_the_clock_was_set_back(
    tmp_path: Path,
) -> None:
    """A start looks at all logs before anything else, and notes by the clock of now when they grew."""
    world = World(tmp_path, ("east", "west"))
    ids = [f"c{number}" for number in range(20)]
    hours_ago_us = NOON_US - 7_200 * MICROSECONDS
    world.queries("q")
    world.clicks(*((each, "q") for each in ids), at_us=hours_ago_us)
    done: list[object] = []
    world.join(callbacks=Callbacks(lambda: bool(done), done.append))
    assert world.joined_ids() != sorted(ids), "none is left to its home"
    world.clock.set_back(3600)
    world.queries("q2")
    world.clicks(("d", "q2"), at_us=hours_ago_us)
    began_us = world.clock.elapsed_us()
    world.join()
    assert world.joined_ids() == sorted([*ids, "d"])
    assert world.clock.elapsed_us() - began_us < 60 * MICROSECONDS
