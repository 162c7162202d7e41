"""The state database: what is stored reads back, and a view of it is of one moment."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from photon.dispatcher.lifecycle import Attempts
from photon.dispatcher.plan import Advance, Plan, PlanContent
from photon.dispatcher.state import Completion, DispatcherState
from photon.dispatcher.state_schema import STATE_FORMAT
from photon.dispatcher.state_view import StateView, open_view, read_offsets, view_state
from photon.dispatcher.waiting import WaitingRow
from photon.logs.files import ByteRange, LogFile, TrackedFile
from photon.tokens import PlanKey
from tests.simulation.old_state import make_it_of_0_1_0

NEW = TrackedFile(LogFile(3, "foreign", "a.csv", 77, True, b"a,b", 4, 20, b"h"), 4, b"", False, 90, 5, None)
GONE = replace(NEW, file=replace(NEW.file, number=4), inside_oversized=True, max_time_us=8, state="gone")
ROW = WaitingRow(3, 4, "c1", 7, 1_000, 2, 10, 500, "primary", "spool-1", 0)
GIVEN_UP = ROW._replace(offset_bytes=30, event_id="c2", key_hash=8, status="unjoinable")


@pytest.fixture
def state(tmp_path: Path) -> Iterator[DispatcherState]:
    state = DispatcherState(tmp_path)
    state.begin_epoch("searches", "east", "e1", 1, follows=False)
    yield state
    state.close()


def plan(batch: int, content: PlanContent, *advances: Advance) -> Plan:
    return Plan(PlanKey("east", "e1", batch, "p"), content, advances)


def complete(state: DispatcherState, batch: int, completion: Completion, *advances: Advance) -> None:
    state.store_plan(plan(batch, PlanContent(), *advances))
    state.complete(plan(batch, PlanContent(), *advances), completion)


def test_the_tables_have_the_fields_of_the_records_in_their_order(state: DispatcherState) -> None:
    with closing(sqlite3.connect(state.path)) as db:
        columns = {
            table: [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
            for table in ("files", "waiting")
        }
    of_file = [f.name for f in fields(LogFile)] + [f.name for f in fields(TrackedFile)][1:]
    assert columns == {"files": of_file, "waiting": list(WaitingRow._fields)}


def test_a_state_of_photon_0_1_0_gets_what_it_lacks_and_its_open_plan_was_attempted(tmp_path: Path) -> None:
    with closing(DispatcherState(tmp_path)) as state:
        state.begin_epoch("searches", "east", "e1", 1, follows=False)
        state.store_plan(plan(1, PlanContent()))
    make_it_of_0_1_0(tmp_path)
    for _ in range(2):
        with closing(DispatcherState(tmp_path)) as state:
            assert state.open_plan() == plan(1, PlanContent())
            assert state.attempts() == Attempts(begun=1, under_way=True)
            assert state.meta("format") == str(STATE_FORMAT)


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


@pytest.mark.parametrize("few", [0, 20_000])
def test_a_waiting_record_is_due_at_its_time_or_when_its_primary_comes(
    state: DispatcherState, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr("photon.dispatcher.state.FEW_HASHES", few)
    complete(state, 1, Completion(waiting=[ROW]))
    assert (state.due(499, 9), state.due(500, 9)) == ([], [ROW])
    for others in ([9], [5, 6], [], [8, 2**64 - 1]):
        state.wake([np.array(others, np.uint64)], 20)
    assert state.due(20, 9) == []
    state.wake([np.array([5, 6], np.uint64), np.array([6, 7, 8], np.uint64)], 20)
    assert state.due(20, 9) == [ROW._replace(due_us=20)]


def test_a_record_that_was_given_up_waits_again_when_its_primary_comes(state: DispatcherState) -> None:
    complete(state, 1, Completion({"unjoinable": 1}, waiting=[GIVEN_UP]))
    assert (state.count_waiting(), state.counts().of("unjoinable")) == (0, 1)
    state.wake([np.array([8], np.uint64)], 20)
    assert state.due(20, 9) == [GIVEN_UP._replace(due_us=20, status="open")]
    assert (state.counts().of("pending"), state.counts().of("unjoinable")) == (1, 0)


def test_requeued_work_holds_its_retries_until_it_is_taken_up(state: DispatcherState) -> None:
    complete(state, 1, Completion(waiting=[ROW]))
    content = PlanContent(retries=(ROW.ref(final=False),))
    complete(state, 2, Completion(requeue=[content]))
    ((requeue_id, requeued),) = state.requeued()
    assert requeued == content
    assert (state.due(500, 9), state.waiting_by_reason()) == ([], {"requeued": 1})
    with closing(sqlite3.connect(state.path)) as db, db:
        db.execute("UPDATE waiting SET status = 'held'")  # as Photon 0.1.0 stored it
    assert (state.due(500, 9), state.waiting_by_reason()) == ([], {"requeued": 1})
    again = replace(plan(3, content), requeue_id=requeue_id)
    state.store_plan(again)
    state.complete(again, Completion(gone=[ROW.occurrence]))
    assert (state.requeued(), state.count_waiting()) == ([], 0)


def test_a_view_is_of_one_moment(state: DispatcherState) -> None:
    complete(state, 1, Completion({"foreign": 1}, waiting=[ROW]))
    with open_view(state.folder) as earlier:
        assert earlier is not None
        complete(state, 2, Completion(gone=[ROW.occurrence]))
        assert (earlier.completed, earlier.count_waiting()) == (1, 1)
    assert view_state(state.folder, 0).completed == 2


def test_offsets_come_with_what_waits_and_what_was_given_up(state: DispatcherState) -> None:
    state.put_files([NEW])
    complete(state, 1, Completion(waiting=[ROW, GIVEN_UP]))
    offsets = read_offsets(state.folder)
    assert (offsets.epoch, offsets.completed) == ("e1", 1)
    assert [(read.file.number, read.offset_bytes) for read in offsets.of("foreign")] == [(3, 4)]
    assert offsets.waiting.to_pylist() == [
        {"file": 3, "offset": 4, "event_id": "c1", "given_up": False},
        {"file": 3, "offset": 30, "event_id": "c2", "given_up": True},
    ]


def test_where_nothing_was_ever_read_a_view_is_empty_and_offsets_say_so(tmp_path: Path) -> None:
    assert view_state(tmp_path, 0) == StateView()
    assert "no state" in read_offsets(tmp_path).problem
