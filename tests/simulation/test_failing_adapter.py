"""An adapter that fails on most pairs stops the shift, with the batch open (protocol A21)."""

from __future__ import annotations

from datetime import time
from pathlib import Path

import pytest

from photon.dispatcher.completion import AdapterFails
from photon.process.errors import ADAPTER_FAILED
from tests.simulation import adapter_stories as stories
from tests.simulation import failing_adapter
from tests.simulation.adapter_stories import clicks, is_joined_once_mended, is_refused, log_clicks
from tests.simulation.world import World, assert_counts

Patch = pytest.MonkeyPatch


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path, more=f"adapter: {failing_adapter.NAME}:join")
    world.queries("q1")
    return world


def test_what_an_adapter_fails_on_is_joined_once_it_is_mended(tmp_path: Path, monkeypatch: Patch) -> None:
    world = World(tmp_path, more=f"adapter: {failing_adapter.NAME}:join")
    stories.what_the_adapter_fails_on_is_joined_once_it_is_mended(world, monkeypatch)


def test_what_small_tasks_stored_is_joined_once_the_adapter_is_mended(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    world = World(tmp_path, more=f"adapter: {failing_adapter.NAME}:join")
    stories.what_small_tasks_stored_is_joined_once_the_adapter_is_mended(world, monkeypatch)


def test_the_message_has_the_first_error_and_what_to_do(world: World, monkeypatch: Patch) -> None:
    log_clicks(world, clicks(100))
    monkeypatch.setattr(failing_adapter, "fails_on", clicks(100))
    message = is_refused(world)
    assert "datacenter east: adapter tests.simulation.failing_adapter:join" in message
    assert "combine failed on 100 of 100 pairs, the first time with adapter: KeyError: 'position'" in message
    assert "mend the adapter, and the next start joins it" in message
    assert AdapterFails.exit_status == ADAPTER_FAILED


@pytest.mark.parametrize(("pairs", "fail"), [(99, 99), (100, 50)])
def test_fewer_pairs_and_a_smaller_share_are_dead_letters(
    world: World, monkeypatch: Patch, pairs: int, fail: int
) -> None:
    names = clicks(pairs)
    log_clicks(world, names)
    monkeypatch.setattr(failing_adapter, "fails_on", names[:fail])
    counts = world.join().counts
    assert_counts(counts, joined=pairs - fail, dead_letters=fail)


def test_small_batches_in_a_row_are_too_many_together(tmp_path: Path, monkeypatch: Patch) -> None:
    more = f"adapter: {failing_adapter.NAME}:join\nlimits: {{batch_foreign: 2KiB}}"
    world = World(tmp_path, more=more)
    world.queries("q1")
    log_clicks(world, clicks(1000))
    monkeypatch.setattr(failing_adapter, "fails_on", clicks(1000))
    with pytest.raises(AdapterFails):
        world.join()
    assert 0 < len(world.rows("dead_letters")) < 100


def test_small_batches_in_a_row_are_too_many_together_whoever_ran_them(
    world: World, monkeypatch: Patch
) -> None:
    some, others = clicks(60, "a"), clicks(60, "b")
    monkeypatch.setattr(failing_adapter, "fails_on", some + others)
    log_clicks(world, some, "a")
    assert world.join().counts.of("dead_letters") == 60
    log_clicks(world, others, "b")
    for _ in range(2):
        with pytest.raises(AdapterFails, match="failed on 120 of 120 pairs"):
            world.join()
    monkeypatch.setattr(failing_adapter, "fails_on", ())
    world.join()
    assert world.joined_ids() == sorted(others)


def test_a_batch_that_goes_well_begins_the_count_anew(world: World, monkeypatch: Patch) -> None:
    some, good, others = clicks(60, "a"), clicks(2, "b"), clicks(60, "c")
    monkeypatch.setattr(failing_adapter, "fails_on", some + others)
    for names in (some, good, others):
        log_clicks(world, names, names[0][0])
        counts = world.join().counts
    assert_counts(counts, joined=2, dead_letters=120)


def test_one_task_on_which_the_adapter_fails_stops_a_batch_of_many_that_are_right(
    world: World, monkeypatch: Patch
) -> None:
    bad, good = clicks(100, "a"), clicks(500, "b")
    monkeypatch.setattr("photon.dispatcher.task_splitter.TASK_BYTES", 1)
    monkeypatch.setattr("photon.join.tasks.LocalRunner.workers", 2)
    log_clicks(world, bad, "a")
    log_clicks(world, good, "b")
    monkeypatch.setattr(failing_adapter, "fails_on", bad)
    assert "failed on 100 of 100 pairs" in is_refused(world)
    is_joined_once_mended(world, monkeypatch, bad + good)


def test_a_column_of_another_type_than_the_table_s_stops_the_shift_too(
    world: World, monkeypatch: Patch
) -> None:
    log_clicks(world, ["first"])
    world.join()
    names = clicks(100)
    log_clicks(world, names, "b")
    monkeypatch.setattr(failing_adapter, "text_on", names)
    with pytest.raises(AdapterFails, match="on 100 of 100 pairs, the first time with adapter: ArrowInvalid"):
        world.join()
    assert (world.joined_ids(), world.rows("dead_letters")) == (["first"], [])
    monkeypatch.setattr(failing_adapter, "text_on", ())
    is_joined_once_mended(world, monkeypatch, ["first", *names])


def test_an_adapter_that_cannot_say_what_it_passes_over_stops_the_shift_too(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    world = World(tmp_path, more=f"adapter: {failing_adapter.NAME}:Skips")
    world.queries("q1")
    log_clicks(world, clicks(100))
    monkeypatch.setattr(failing_adapter, "fails_on", clicks(100))
    assert "its skip failed on 100 of 100 events" in is_refused(world)
    is_joined_once_mended(world, monkeypatch, clicks(100))


def test_a_value_that_no_table_holds_is_a_dead_letter_and_the_rest_is_joined(
    world: World, monkeypatch: Patch
) -> None:
    log_clicks(world, clicks(3))
    monkeypatch.setattr(failing_adapter, "value_of", {"a1": time(12)})
    world.join()
    assert world.joined_ids() == ["a0", "a2"]
    (letter,) = world.rows("dead_letters")
    assert "column 'value': a table holds no time64[us]; return a number or text" in letter["reason"]


def test_a_column_whose_first_lists_are_empty_takes_the_items_that_come_later(
    world: World, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(failing_adapter, "value_of", {"a0": [], "a1": [7], "a2": []})
    for name in clicks(3):
        log_clicks(world, [name])
        world.join()
    rows = {row["_event_id"]: row for row in world.rows()}
    assert rows.pop("a0")["value"] is None
    assert {name: row["value"] for name, row in rows.items()} == {"a1": [7], "a2": []}
