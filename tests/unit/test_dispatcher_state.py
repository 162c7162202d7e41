"""The state database: what is stored reads back, and a view of it is of one moment."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from photon.dispatcher.planning import due_retries
from photon.logs.files import ByteRange, LogFile, TrackedFile
from photon.pipeline.sections import Retry
from photon.state.database import ASKED_AT_ONCE, StateUnavailable
from photon.state.dispatcher_state import Completion, DispatcherState
from photon.state.lifecycle import Attempts
from photon.state.plan import Advance, Plan, PlanContent
from photon.state.view import StateView, open_view, read_offsets, view_state
from photon.state.waiting.reasons import CODE_OF, NEVER_US, PRIMARY, UNJOINABLE
from photon.state.waiting.retries import Retries
from photon.state.waiting.segments import RECORD_COLUMNS, WaitingSegment, write_segment
from photon.state.waiting.states import PAGE_ROWS
from photon.state.waiting.waiting_list import WaitingList
from photon.storage.tokens import Occurrence, PlanKey, new_id

NEW = TrackedFile(LogFile(3, "foreign", "a.csv", 77, True, b"a,b", 4, 20, b"h"), 4, b"", False, 90, 5, None)
GONE = replace(NEW, file=replace(NEW.file, number=4), inside_oversized=True, max_time_us=8, state="gone")


def record(
    offset: int, event_id: str = "c1", key_hash: int = 7, due_us: int = 0, reason: int = PRIMARY
) -> dict[str, object]:
    kept = {"_file": 3, "_offset": offset, "_raw": b"{}", "_id": event_id, "_key": "q1", "_time_us": 1_000}
    times = {"first_seen_us": 10, "primary_time_us": 1_000, "due_us": due_us}
    return {**kept, **times, "attempts": 2, "recorded": False, "key_hash": key_hash, "reason": reason}


def segment(state: DispatcherState, *records: dict[str, object]) -> WaitingSegment:
    table = pa.Table.from_pylist(list(records), RECORD_COLUMNS)
    return write_segment(state.waiting.folder, new_id(), table)


def retries(state: DispatcherState, now_us: int, most: int = 10**6) -> tuple[Retries, ...]:
    return due_retries(state.waiting, now_us, most, None, Retry())


def due(state: DispatcherState, now_us: int, most: int = 10**6) -> list[int]:
    """The offsets of the records that are due."""
    return [place for each in retries(state, now_us, most) for place in each.offsets_bytes.to_pylist()]


@pytest.fixture
def state(tmp_path: Path) -> Iterator[DispatcherState]:
    state = DispatcherState(tmp_path)
    state.begin_epoch("searches", "east", "e1", 1, follows=False)
    yield state
    state.close()


def plan(batch: int, content: PlanContent, *advances: Advance) -> Plan:
    return Plan(PlanKey("east", "e1", batch, "p"), content, advances)


def complete(
    state: DispatcherState, batch: int, completion: Completion, content: PlanContent | None = None
) -> None:
    state.store_plan(plan(batch, content or PlanContent()))
    state.complete(plan(batch, content or PlanContent()), completion)


def test_the_table_of_files_has_the_fields_of_the_records_in_their_order(state: DispatcherState) -> None:
    with closing(sqlite3.connect(state.path)) as db:
        columns = [row[1] for row in db.execute("PRAGMA table_info(files)")]
    assert columns == [f.name for f in fields(LogFile)] + [f.name for f in fields(TrackedFile)][1:]


def test_attempts_read_back_as_they_were_noted(state: DispatcherState) -> None:
    state.store_plan(plan(1, PlanContent()))
    assert state.attempts() == Attempts()
    attempts = Attempts(begun=3, under_way=False, died=1, timed_out=1)
    state.note_attempts(attempts)
    assert state.attempts() == attempts


def test_files_read_back_as_they_were_stored(state: DispatcherState) -> None:
    state.put_files([NEW, GONE], lost_bytes=60)
    assert state.files() == {3: NEW, 4: GONE}
    assert state.counts().lost_bytes == 60


def test_a_stored_plan_is_open_until_it_is_completed(state: DispatcherState) -> None:
    state.put_files([NEW])
    read = Advance(3, 50, b"tail", True)
    stored = plan(1, PlanContent(foreign=(ByteRange(3, 4, 50, 1, 2),)), read)
    state.store_plan(stored)
    assert state.open_plan() == stored
    state.complete(stored, Completion({"foreign": 2, "joined": 2}, max_time_us={3: 9}, watermark_us=6))
    assert state.open_plan() is None
    assert (state.completed, state.watermark_us) == (1, 6)
    after = replace(NEW, offset_bytes=50, tail_hash=b"tail", inside_oversized=True, max_time_us=9)
    assert state.files() == {3: after}
    assert state.counts().adds_up


def test_a_waiting_record_is_due_at_its_time_or_when_its_primary_comes(state: DispatcherState) -> None:
    complete(state, 1, Completion(waiting=[segment(state, record(4, key_hash=7, due_us=500))]))
    assert (state.waiting.count_due(499), state.waiting.count_due(500)) == (0, 1)
    for others in ([9], [5, 6], [], [8, 2**64 - 1]):
        complete(state, state.completed + 1, Completion(new_hashes=[np.array(others, np.uint64)]))
    assert due(state, 20) == []
    new = [np.array([5, 6], np.uint64), np.array([6, 7, 8], np.uint64)]
    complete(state, state.completed + 1, Completion(new_hashes=new))
    assert due(state, 20) == [4]


def test_a_record_that_was_given_up_waits_again_when_its_primary_comes(state: DispatcherState) -> None:
    given_up = [record(at, key_hash=at, reason=UNJOINABLE, due_us=NEVER_US) for at in (30, 40)]
    complete(state, 1, Completion({"unjoinable": 2}, waiting=[segment(state, *given_up)]))
    assert (state.waiting.count(), state.counts().of("unjoinable")) == (0, 2)
    complete(state, 2, Completion(new_hashes=[np.array([30], np.uint64)]))
    assert due(state, 20) == [30]
    assert (state.counts().of("pending"), state.counts().of("unjoinable")) == (1, 1)


def test_a_primary_wakes_none_of_those_that_wait_for_something_else(state: DispatcherState) -> None:
    home = record(4, key_hash=7, reason=CODE_OF["home"], due_us=500)
    complete(state, 1, Completion(waiting=[segment(state, home)]))
    complete(state, 2, Completion(new_hashes=[np.array([7], np.uint64)]))
    assert due(state, 20) == []


def test_requeued_work_holds_its_retries_until_it_is_taken_up(state: DispatcherState) -> None:
    complete(state, 1, Completion(waiting=[segment(state, record(4, due_us=500))]))
    content = PlanContent(retries=retries(state, 500))
    complete(state, 2, Completion(requeue=[content]), content=content)
    ((requeue_id, requeued),) = state.requeued()
    assert requeued == content
    assert (due(state, 500), state.waiting.by_reason()) == ([], {"requeued": 1})
    again = replace(plan(3, content), requeue_id=requeue_id)
    state.store_plan(again)
    state.complete(again, Completion())
    assert (state.requeued(), state.waiting.count(), state.waiting.names) == ([], 0, set())


def test_contested_records_that_are_decided_are_gone_and_those_that_are_free_are_due(
    state: DispatcherState,
) -> None:
    contested = [record(offset, reason=CODE_OF["contested"], due_us=500) for offset in (4, 8, 12)]
    completion = Completion(
        waiting=[segment(state, *contested)], ended={Occurrence(3, 4)}, released={Occurrence(3, 8)}
    )
    complete(state, 1, completion)
    assert (due(state, 20), state.counts().of("pending")) == ([8], 2)


def test_a_transaction_that_fails_leaves_the_waiting_records_as_they_are_stored(
    state: DispatcherState, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete(state, 1, Completion(waiting=[segment(state, record(4, due_us=500))]))
    content = PlanContent(retries=retries(state, 500))
    state.store_plan(plan(2, content))
    monkeypatch.setattr(WaitingList, "store", fail)
    with pytest.raises(StateUnavailable):
        state.complete(plan(2, content), Completion())
    monkeypatch.undo()
    assert due(state, 500) == [4]
    state.complete(plan(2, content), Completion())
    assert state.waiting.count() == 0


def fail(waiting: WaitingList) -> None:
    raise sqlite3.OperationalError("disk full")


def test_what_became_of_records_reads_back_over_many_pages(state: DispatcherState) -> None:
    count = 3 * PAGE_ROWS + 5
    complete(state, 1, Completion(waiting=[segment(state, *many(count))]))
    content = PlanContent(retries=retries(state, 2 * PAGE_ROWS + 2))
    complete(state, 2, Completion(), content=content)
    complete(state, 3, Completion(new_hashes=[np.array([count - 1], np.uint64)]))
    before = state.waiting.tally
    state.waiting.forget()
    assert (state.waiting.tally == before).all()
    assert due(state, 2 * PAGE_ROWS + 4) == [2 * PAGE_ROWS + 3, 2 * PAGE_ROWS + 4, count - 1]
    assert state.waiting.count() == state.counts().of("pending") == PAGE_ROWS + 2
    assert not state.waiting.recount()


def many(count: int) -> list[dict[str, object]]:
    return [record(n, key_hash=n, due_us=n) for n in range(count)]


def test_woken_records_come_first_then_the_longest_due_of_all_segments(state: DispatcherState) -> None:
    first, second = many(6)[::2], many(6)[1::2]
    complete(state, 1, Completion(waiting=[segment(state, *first), segment(state, *second)]))
    complete(state, 2, Completion(new_hashes=[np.array([5], np.uint64)]))
    assert sorted(due(state, 4, most=3)) == [0, 1, 5]
    assert due(state, 4, most=0) == []


def test_a_complete_run_makes_all_due_that_wait_for_primaries_or_the_clock(state: DispatcherState) -> None:
    reasons = [CODE_OF[name] for name in ("primary", "home", "clock")]
    records = [record(offset, reason=reason, due_us=500) for offset, reason in enumerate(reasons)]
    complete(state, 1, Completion(waiting=[segment(state, *records)]))
    state.make_all_due(("primary", "clock"))
    assert sorted(due(state, 20)) == [0, 2]


def test_of_many_events_those_are_found_that_an_earlier_epoch_joined(state: DispatcherState) -> None:
    """More than a query asks for, with characters that end a text elsewhere."""
    joined = [f"e{number}\0'" for number in range(2 * ASKED_AT_ONCE + 1)]
    complete(state, 1, Completion(inherited=joined))
    assert state.inherited_among({*joined, "other", "e1"}) == set(joined)
    assert state.inherited_among(()) == set()


def test_records_that_were_ordered_are_found_by_their_places(state: DispatcherState) -> None:
    state.take_order(segment(state, record(1)), [], {Occurrence(3, 30), Occurrence(3, 40)}, {})
    assert state.ordered_at([Occurrence(3, 30), Occurrence(30, 3)]) == {Occurrence(3, 30): 0}
    assert state.ordered_at([]) == {}


def test_a_view_is_of_one_moment(state: DispatcherState) -> None:
    complete(state, 1, Completion({"foreign": 1}, waiting=[segment(state, record(4, due_us=500))]))
    with open_view(state.folder) as earlier:
        assert earlier is not None
        complete(state, 2, Completion(), content=PlanContent(retries=retries(state, 500)))
        assert (earlier.completed, earlier.waiting.count(), earlier.waiting.count_due(500)) == (1, 1, 1)
    assert view_state(state.folder, 0).completed == 2


def test_offsets_come_with_what_waits_and_what_was_given_up(state: DispatcherState) -> None:
    state.put_files([NEW])
    given_up = record(30, "c2", reason=UNJOINABLE, due_us=NEVER_US)
    complete(state, 1, Completion(waiting=[segment(state, record(4)), segment(state, given_up)]))
    offsets = read_offsets(state.folder)
    assert (offsets.epoch, offsets.completed) == ("e1", 1)
    assert [(read.file.number, read.offset_bytes) for read in offsets.of("foreign")] == [(3, 4)]
    assert offsets.waiting.sort_by("offset").to_pylist() == [
        {"file": 3, "offset": 4, "event_id": "c1", "given_up": False},
        {"file": 3, "offset": 30, "event_id": "c2", "given_up": True},
    ]


def test_many_waiting_records_are_read_a_part_at_a_time_and_take_no_memory(
    state: DispatcherState, monkeypatch: pytest.MonkeyPatch
) -> None:
    infos = [segment(state, *(record(place + at) for at in range(3))) for place in (10, 20)]
    complete(state, 1, Completion(waiting=infos))
    few = read_offsets(state.folder).waiting
    monkeypatch.setattr("photon.state.waiting.waiting_view.MOST_IN_MEMORY", 2)
    before_bytes = pa.total_allocated_bytes()
    many = read_offsets(state.folder).waiting
    assert pa.total_allocated_bytes() == before_bytes
    assert many.to_pylist() == few.to_pylist()
    assert max(len(batch) for batch in many.to_batches()) == 2


def test_where_nothing_was_ever_read_a_view_is_empty_and_offsets_say_so(tmp_path: Path) -> None:
    assert view_state(tmp_path, 0) == StateView()
    assert "no state" in read_offsets(tmp_path).problem
