"""The dispatcher's pure decisions: backoff, home, giving up, budgets, halving, watermark, contested ids."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from photon.dispatcher.completion import (
    CannotEnd,
    DeadlineExceeded,
    IndexLost,
    OwnHold,
    collect_results,
    resolve,
    watermark_of,
    watermark_us,
)
from photon.dispatcher.fed_log import fed_watermark_us
from photon.dispatcher.observing import HomeWatch
from photon.dispatcher.planning import (
    CATCH_UP_EVENTS,
    LEAST_FOREIGN_BYTES,
    MIN_ATTEMPTS,
    PRIMARY_BYTES_PER_FOREIGN,
    budget,
    foreign_share_bytes,
    halves,
    may_be_given_up,
    paced,
    primary_budget_bytes,
    split,
)
from photon.dispatcher.startup import why_new_epoch
from photon.dispatcher.task_splitter import spread
from photon.feed.marker import Marker
from photon.join.messages import (
    DamagedWaiting,
    Failed,
    IndexDamaged,
    JoinResult,
    TaskOutcome,
    TimedOut,
    Unavailable,
)
from photon.logs.files import ByteRange, LogFile, TrackedFile
from photon.pipeline.sections import Limits, Retry
from photon.process.errors import FormatTooNew
from photon.registry.entry import Claimant, Epoch
from photon.registry.register import Generation, Members, Register
from photon.state.outcomes import Counts, HeldRecord
from photon.state.plan import (
    PLAN_FORMAT,
    Advance,
    Lineage,
    Origin,
    Plan,
    PlanContent,
    advances_from_json,
    advances_to_json,
    content_from_json,
    content_to_json,
)
from photon.state.waiting import retries as retrying
from photon.state.waiting.reasons import backoff_us, together_us
from photon.state.waiting.retries import Retries
from photon.state.waiting.segments import WaitingDamaged
from photon.storage.delta import LakeUnavailable
from photon.storage.tables import NOT_BEGUN, LastCommit
from photon.storage.tokens import Occurrence, PlanKey
from tests.feed.made_steps import release
from tests.unit.join_world import home_of

SECOND = 1_000_000
HOUR = 3600 * SECOND
RETRY = Retry()

MEBIBYTE = 2**20


def a_range(number: int, lines: int = 10) -> ByteRange:
    return ByteRange(number, 0, 1_000, 7, lines)


def some_retries(*offsets: int, segment: str = "segment") -> Retries:
    return Retries.of(segment, offsets, [1] * len(offsets), offsets, [False] * len(offsets))


# -- backoff and giving up


def test_backoff_doubles_from_the_first_delay_up_to_the_longest() -> None:
    attempts, seconds = np.array([1, 2, 5, 20, 500]), np.array([0.25, 0.5, 4.0, 3600.0, 3600.0])
    waits = backoff_us(attempts, RETRY, np.random.default_rng(1)) / SECOND
    assert (waits >= 0.75 * seconds).all()
    assert (waits <= 1.25 * seconds).all()


def test_backoff_has_jitter_so_that_records_do_not_come_back_together() -> None:
    waits = backoff_us(np.full(50, 3), RETRY, np.random.default_rng(1))
    assert len(np.unique(waits)) > 40


def test_an_event_is_looked_for_often_enough_to_be_given_up_in_time() -> None:
    soon = Retry(unjoinable_after=timedelta(minutes=8))
    waits = backoff_us(np.array([500]), soon, np.random.default_rng(1))
    assert waits[0] <= 1.25 * 60 * SECOND


@pytest.mark.parametrize("wait_us", [1, SECOND, 9 * SECOND, 100 * SECOND, HOUR, 24 * HOUR])
def test_records_are_due_a_little_later_than_their_wait(wait_us: int) -> None:
    (due_us,) = together_us(10 * HOUR + 7, np.array([wait_us]))
    assert 0 <= due_us - (10 * HOUR + 7 + wait_us) <= wait_us / 8


def test_records_that_wait_long_are_due_together() -> None:
    waits_us = backoff_us(np.full(100_000, 500), RETRY, np.random.default_rng(1))
    assert len(np.unique(together_us(10 * HOUR, waits_us))) < 12


class Waited(NamedTuple):
    """Facts that decide whether an event is given up."""

    attempts: int = MIN_ATTEMPTS
    first_seen_us: int = 0
    primary_time_us: int = 10 * HOUR

    def may_be_given_up(self, now_us: int, watermark_us: int | None) -> bool:
        (given_up,) = may_be_given_up(*(np.array([each]) for each in self), now_us, watermark_us, RETRY)
        return bool(given_up)


WAITED_LONG = Waited()
DAY_LATER = 24 * HOUR
WATERMARK = 10 * HOUR + 60 * SECOND


def test_an_event_is_given_up_when_tried_often_seen_long_ago_and_passed_by_the_watermark() -> None:
    assert WAITED_LONG.may_be_given_up(DAY_LATER, WATERMARK)


@pytest.mark.parametrize(
    ("row", "now_us", "watermark"),
    [
        (WAITED_LONG._replace(attempts=MIN_ATTEMPTS - 1), DAY_LATER, WATERMARK),
        (WAITED_LONG._replace(first_seen_us=1), DAY_LATER, WATERMARK),
        (WAITED_LONG, DAY_LATER, WATERMARK - 1),
        (WAITED_LONG, DAY_LATER, None),
    ],
    ids=["tried too seldom", "seen too recently", "primary logs are behind", "primary logs are silent"],
)
def test_an_event_is_not_given_up_while_one_condition_is_missing(
    row: Waited, now_us: int, watermark: int | None
) -> None:
    assert not row.may_be_given_up(now_us, watermark)


def test_an_event_of_last_year_is_judged_by_when_it_was_first_seen() -> None:
    of_last_year = WAITED_LONG._replace(first_seen_us=365 * 24 * HOUR, primary_time_us=0)
    half_a_minute_later = of_last_year.first_seen_us + 30 * SECOND
    assert not of_last_year.may_be_given_up(half_a_minute_later, half_a_minute_later)


# -- home


def register(*generations: Generation) -> Register:
    return Register("p", "settings", Members(1, ("a",)), generations=generations)


def test_homes_are_spread_about_evenly() -> None:
    two = register(Generation(2, ("east", "west")))
    homes = Counter(home_of(f"e{number}", two) for number in range(10_000))
    assert 4_700 < homes["east"] < 5_300


def test_the_newest_generation_says_whose_home_an_event_is() -> None:
    moved = (Generation(1, ("east",)), Generation(1, ("west",)), Generation(1))
    assert [home_of("e", register(*moved[:many])) for many in (1, 2, 3)] == ["east", "west", ""]


def test_a_datacenter_that_registers_nothing_for_a_while_is_unresponsive() -> None:
    watch = HomeWatch({"west": 100 * SECOND, "north": 129 * SECOND, "south": 125 * SECOND})
    assert watch.unresponsive(130 * SECOND) == {"west"}


def test_a_datacenter_that_leaves_many_events_to_the_others_is_unresponsive_until_it_registers_one() -> None:
    watch = HomeWatch.begin(["west", "north"], 0)
    watch.note((), {"west": 15}, SECOND)
    watch.note(["west"], {"west": 15}, SECOND)  # a slow one: some were taken over, and some it has registered
    watch.note((), {"west": 19, "north": 2}, SECOND)
    assert watch.unresponsive(SECOND) == frozenset()
    watch.note((), {"west": 1}, SECOND)
    assert watch.unresponsive(SECOND) == {"west"}
    watch.note(["west"], {}, SECOND)
    assert watch.unresponsive(SECOND) == frozenset()


# -- budgets, halves, spreading


def test_a_batch_of_primary_logs_grows_with_what_waits_within_its_bounds() -> None:
    limits = Limits(batch_foreign_bytes=200 * MEBIBYTE // PRIMARY_BYTES_PER_FOREIGN)
    waiting = (1, 10 * MEBIBYTE, 400 * MEBIBYTE, 10_000 * MEBIBYTE)
    assert [primary_budget_bytes(limits, each) // MEBIBYTE for each in waiting] == [64, 64, 100, 200]
    small = Limits(batch_foreign_bytes=MEBIBYTE // PRIMARY_BYTES_PER_FOREIGN)
    assert primary_budget_bytes(small, 10_000 * MEBIBYTE) == MEBIBYTE


def test_foreign_logs_are_read_as_far_as_primary_ones_that_are_behind() -> None:
    assert foreign_share_bytes(64, primary_backlog=64, foreign_backlog=1_000) == 1_000
    share_bytes = foreign_share_bytes(64 * MEBIBYTE, 640 * MEBIBYTE, foreign_backlog=100 * MEBIBYTE)
    assert share_bytes == 10 * MEBIBYTE


def test_a_few_foreign_events_come_through_however_far_primary_logs_are_behind() -> None:
    assert foreign_share_bytes(MEBIBYTE, 10**6 * MEBIBYTE, foreign_backlog=1_000) == LEAST_FOREIGN_BYTES


def test_who_is_behind_another_datacenter_takes_small_batches_unless_inputs_are_complete() -> None:
    limits = Limits(batch_events=2 * CATCH_UP_EVENTS)
    assert paced(limits, is_behind_others=False, is_complete=False) == limits
    assert paced(limits, is_behind_others=True, is_complete=True) == limits
    small = paced(limits, is_behind_others=True, is_complete=False)
    assert small.batch_events == CATCH_UP_EVENTS
    assert small.batch_foreign_bytes < limits.batch_foreign_bytes
    assert paced(Limits(batch_events=5), is_behind_others=True, is_complete=False).batch_events == 5


def test_retries_take_at_most_half_of_a_batch_while_logs_are_read() -> None:
    _, retries = budget(Limits(batch_events=100), due_retries=90, waiting=90)
    assert retries == 50


def test_foreign_logs_pause_when_the_store_of_waiting_records_is_full() -> None:
    foreign_bytes, retries = budget(Limits(pending_events=10, batch_events=100), due_retries=10, waiting=10)
    assert (foreign_bytes, retries) == (0, 10)


def test_halves_hold_every_item_once() -> None:
    content = PlanContent(
        primary=(a_range(1), a_range(2)),
        foreign=(a_range(3),),
        retries=(some_retries(0, 1, 2), some_retries(7, segment="other")),
    )
    first, second = halves(content)
    assert first.primary + second.primary == content.primary
    assert first.foreign + second.foreign == content.foreign
    assert first.retries == ()
    assert second.retries == content.retries
    again, rest = halves(PlanContent(retries=content.retries))
    assert again.retries == (some_retries(0, 1),)
    assert rest.retries == (some_retries(2), some_retries(7, segment="other"))
    assert retrying.part(content.retries, 2, 4) == rest.retries


def test_one_item_can_not_be_halved() -> None:
    content = PlanContent(retries=(some_retries(1),))
    assert halves(content) == [content]


@pytest.mark.parametrize("seed", range(20))
def test_work_is_spread_over_tasks_evenly_and_completely(seed: int) -> None:
    rng = random.Random(seed)
    weights = [rng.randrange(1, 100) for _ in range(rng.randrange(0, 40))]
    groups = spread(weights, 4)
    assert sorted(index for group in groups for index in group) == list(range(len(weights)))
    assert all(groups)
    if weights:
        heaviest = max(sum(weights[i] for i in group) for group in groups)
        assert heaviest <= sum(weights) / len(groups) + max(weights)


# -- stored forms


def test_a_plan_reads_back_as_it_was_stored() -> None:
    lineage = Lineage((Origin(7, "p"),), "died", is_one_record=True)
    content = PlanContent((a_range(1),), (a_range(2),), (some_retries(3, 4),), final=True, lineage=lineage)
    assert content_from_json(content_to_json(content)) == content
    advances = (Advance(1, 1_000, b"\x00\xff", True),)
    assert advances_from_json(advances_to_json(advances)) == advances


def test_a_plan_of_a_newer_photon_is_refused() -> None:
    newer = json.dumps(json.loads(content_to_json(PlanContent())) | {"format": PLAN_FORMAT + 1})
    with pytest.raises(FormatTooNew, match="newer Photon"):
        content_from_json(newer)


def test_each_piece_of_a_plan_knows_all_plans_that_had_it_and_why_the_last_one_was_abandoned() -> None:
    first = Plan(PlanKey("east", "e", 1, "p"), PlanContent(retries=(some_retries(1, 2),)), ())
    one, other = split(first, "the worker died", {}, Path())
    assert one.lineage == other.lineage == Lineage((Origin(1, "p"),), "the worker died")
    second = Plan(PlanKey("east", "e", 2, "q"), one, ())
    (alone,) = split(second, "again", {}, Path())
    assert alone.lineage == Lineage((Origin(1, "p"), Origin(2, "q")), "again", is_one_record=True)
    assert alone.lineage.quarantine == "it kept its batch from ending: again"


def test_counts_add_up_only_if_every_record_is_in_one_class() -> None:
    assert Counts(foreign=3, classes={"joined": 2, "pending": 1}).adds_up
    assert not Counts(foreign=4, classes={"joined": 2, "pending": 1}).adds_up


# -- start (protocol A13)


@pytest.mark.parametrize(
    ("completed", "open_batch", "table_version"),
    [(7, 8, 7), (7, None, 7), (7, 8, 8)],
    ids=["a plan is open", "no plan is open", "a batch is committed and not completed"],
)
def test_a_state_that_agrees_with_its_table_goes_on(
    completed: int, open_batch: int | None, table_version: int
) -> None:
    plan = None if open_batch is None else LastCommit(open_batch, "p")
    assert why_new_epoch("e", LastCommit(completed), plan, LastCommit(table_version), live=True) is None


@pytest.mark.parametrize(
    ("completed", "open_batch", "table_version", "live"),
    [(7, None, 9, True), (7, 8, 9, True), (9, None, 7, True), (7, None, 8, True), (7, None, 7, False)],
    ids=["older copy", "older copy with a plan", "older table", "no such plan", "over"],
)
def test_any_other_state_begins_a_new_epoch(
    completed: int, open_batch: int | None, table_version: int, live: bool
) -> None:
    plan = None if open_batch is None else LastCommit(open_batch, "p")
    assert why_new_epoch("e", LastCommit(completed), plan, LastCommit(table_version), live) is not None


def test_a_table_without_the_batch_0_of_an_epoch_begins_a_new_one() -> None:
    why = why_new_epoch("e", LastCommit(0), None, NOT_BEGUN, live=True)
    assert why == "the table knows nothing of epoch e, which had begun there: the lake was put back"


@pytest.mark.parametrize("batch", [7, 8])
def test_a_batch_that_another_plan_committed_begins_a_new_epoch(batch: int) -> None:
    completed, plan = LastCommit(7, "done"), LastCommit(8, "open")
    why = why_new_epoch("e", completed, plan, LastCommit(batch, "theirs"), live=True)
    assert why is not None
    assert f"the table at batch {batch} (plan theirs)" in why


@pytest.mark.parametrize("plan_id", ["open", None], ids=["named", "of Photon 0.1.0"])
def test_a_batch_that_the_open_plan_may_have_committed_begins_none(plan_id: str | None) -> None:
    table = LastCommit(8, plan_id)
    assert why_new_epoch("e", LastCommit(7, "done"), LastCommit(8, "open"), table, live=True) is None


# -- watermark


def a_file(max_time_us: int | None, grown_us: int = 100, unread_bytes: int = 0) -> TrackedFile:
    file = LogFile(1, "primary", "f", 1, False, b"", 0, 10, b"h")
    return TrackedFile(file, 10, b"", False, 10 + unread_bytes, grown_us, max_time_us)


@pytest.mark.parametrize(
    ("files", "previous_us", "watermark"),
    [
        ([a_file(50), a_file(30)], None, 30),
        ([a_file(50), a_file(30, grown_us=80)], None, 50),
        ([a_file(50), a_file(30, grown_us=80, unread_bytes=1)], None, 30),
        ([a_file(50, grown_us=0)], 40, 40),
        ([a_file(50), a_file(None, unread_bytes=1)], 20, 20),
        ([a_file(50), a_file(None)], 20, 50),
        ([a_file(30)], 40, 40),
        ([a_file(50), a_file(106)], 20, 50),
        ([a_file(105)], 20, 105),
        ([a_file(50), a_file(106, unread_bytes=1)], 20, 20),
        ([a_file(50)], 106, 50),
        ([a_file(106)], 20, 20),
    ],
    ids=[
        "the least of the growing files",
        "an idle file does not hold it",
        "an idle file with unread bytes holds it",
        "it stays while primary logs are silent",
        "a file of which no event is read yet holds it",
        "a file that was read to its end and has no time says nothing",
        "it never goes back",
        "a time far ahead of the clock says nothing",
        "a time a little ahead of the clock counts",
        "a file with a wild time and unread bytes holds it",
        "a wild watermark of an earlier version is given up",
        "wild times alone leave it where it is",
    ],
)
def test_the_watermark(files: list[TrackedFile], previous_us: int | None, watermark: int) -> None:
    assert watermark_us(files, 100, 10, previous_us, clock_tolerance_us=5) == watermark


def a_marker(complete_up_to_us: int | None = 50, last_file: str | None = "2") -> Marker:
    return Marker(Path("first.yaml"), "first", release(1, complete_up_to_us), 2, last_file, {}, {})


def fed_file(name: str, unread_bytes: int = 0) -> TrackedFile:
    found = a_file(999, unread_bytes=unread_bytes)
    return replace(found, file=replace(found.file, path=f"clicks/{name}"))


@pytest.mark.parametrize(
    ("marker", "files", "watermark"),
    [
        (a_marker(), [fed_file("1"), fed_file("2")], 50),
        (a_marker(), [fed_file("1"), fed_file("2"), fed_file("3", unread_bytes=1)], 50),
        (a_marker(), [fed_file("1", unread_bytes=1), fed_file("2")], 20),
        (a_marker(), [replace(fed_file("1", unread_bytes=1), state="gone"), fed_file("2")], 20),
        (a_marker(), [fed_file("1")], 20),
        (a_marker(), [fed_file("2")], 50),
        (a_marker(last_file=None), [], 50),
        (a_marker(complete_up_to_us=None), [fed_file("2")], 20),
        (a_marker(complete_up_to_us=10), [fed_file("2")], 20),
        (a_marker(complete_up_to_us=106), [fed_file("2")], 20),
        (None, [fed_file("2")], 20),
    ],
    ids=[
        "what the marker says",
        "files behind the marker do not matter",
        "not while one that it names is not read",
        "nor while one is gone unread",
        "nor while its last one is not known",
        "files that were removed after they were read are not missed",
        "a feed without rows yet is complete all the same",
        "a pipeline that is complete up to no time says nothing",
        "it never goes back",
        "a time far ahead of the clock says nothing",
        "without a marker it stays",
    ],
)
def test_the_watermark_of_a_fed_log(
    marker: Marker | None, files: list[TrackedFile], watermark: int
) -> None:  # G6
    assert fed_watermark_us(marker, files, 100, 20, clock_tolerance_us=5) == watermark


def test_the_watermark_of_a_fed_log_stays_while_some_of_it_is_to_be_read_again() -> None:
    fed = SimpleNamespace(marker=a_marker())
    reader: Any = SimpleNamespace(
        fed=fed, unread=lambda _: (), has_looked=True, awaited_of=lambda _, __: [fed_file("2")]
    )
    assert [watermark_of(reader, None, 100, 20, has_requeued) for has_requeued in (True, False)] == [20, 50]


# -- events that were claimed here before (protocol A8)

PLAN = Claimant(Epoch("east", 2), 3, "p")
BEFORE = Claimant(Epoch("east", 1), 9, "p")


def met(occurrence: Occurrence, event_id: str = "x", holder: Claimant | None = PLAN) -> HeldRecord:
    return HeldRecord(event_id, occurrence, holder)


@pytest.mark.parametrize(
    ("record", "outcome"), [(Occurrence(1, 5), "joined"), (Occurrence(2, 9), "duplicates")]
)
@pytest.mark.parametrize("is_join", [False, True])
def test_a_record_is_joined_by_its_own_row_and_a_duplicate_by_another_ones(
    record: Occurrence, outcome: str, is_join: bool
) -> None:
    resolved = resolve([met(record)], {"x": OwnHold(PLAN, Occurrence(1, 5), is_join)}, set())
    assert resolved.counts == {outcome: 1}
    assert resolved.ended == {record}
    assert [one.joined for one in resolved.duplicates] == [Occurrence(1, 5)] * (outcome == "duplicates")


def test_a_join_without_a_row_is_to_be_freed() -> None:
    resolved = resolve([met(Occurrence(1, 5))], {"x": OwnHold(PLAN, None, is_join=True)}, set())
    assert resolved.to_free == {"x": PLAN}
    assert not resolved.ended
    assert not resolved.counts


def test_a_hold_without_a_row_that_is_not_closed_is_left_to_its_close() -> None:
    resolved = resolve([met(Occurrence(1, 5))], {"x": OwnHold(PLAN, None, is_join=False)}, set())
    assert not resolved.to_free
    assert not resolved.ended
    assert not resolved.released


def test_a_record_whose_event_nobody_holds_any_more_is_due_at_once() -> None:
    assert resolve([met(Occurrence(1, 5))], {}, set()).released == {Occurrence(1, 5)}


@pytest.mark.parametrize("is_forgotten", [False, True])  # the registry may forget ids below the boundary
def test_the_first_record_that_meets_an_earlier_epochs_row_is_joined_and_the_next_a_duplicate(
    is_forgotten: bool,
) -> None:
    holder = None if is_forgotten else BEFORE
    holds = {} if is_forgotten else {"x": OwnHold(BEFORE, Occurrence(1, 5), True, is_own_epoch=False)}
    first, again = met(Occurrence(7, 0), holder=holder), met(Occurrence(7, 90), holder=holder)
    resolved = resolve([again, first], holds, set())
    assert resolved.counts == {"joined": 1, "duplicates": 1}
    assert resolved.not_compared == 1
    later = resolve([again], holds, resolved.inherited)
    assert later.counts == {"duplicates": 1}


def test_events_of_earlier_epochs_are_told_apart() -> None:
    some = [
        met(Occurrence(1, offset), event_id, None) for event_id, offset in (("a", 90), ("a", 5), ("b", 7))
    ]
    assert resolve(some, {}, set()).counts == {"joined": 2, "duplicates": 1}


# -- the results of a batch


def test_what_is_unavailable_may_have_caused_the_rest_and_is_told_first() -> None:
    full_disk = Unavailable("state", "no space left")
    caused = [
        IndexDamaged("the segment is not there"),
        DamagedWaiting(("segment",)),
        TimedOut(""),
        Failed(""),
    ]
    with pytest.raises(LakeUnavailable, match="state: no space left"):
        collect_results([*caused, full_disk])


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (IndexDamaged("cut short"), IndexLost),
        (DamagedWaiting(("segment",)), WaitingDamaged),
        (TimedOut("5 s"), DeadlineExceeded),
        (Failed("raised"), CannotEnd),
    ],
)
def test_each_outcome_that_keeps_a_batch_from_ending_has_an_error_of_its_own(
    outcome: TaskOutcome, error: type[Exception]
) -> None:
    with pytest.raises(error):
        collect_results([JoinResult(), outcome])
