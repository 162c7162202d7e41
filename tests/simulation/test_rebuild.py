"""Rows are made again in place (protocol E3): nothing is lost, nothing is doubled, whatever comes between."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, WriterProperties, write_deltalake

from photon.process.faults import BACKFILL_FAULT_POINTS
from photon.upkeep.backfill import places_today
from photon.upkeep.backfill.messages import Remade
from photon.upkeep.backfill.progress import BackfillRunning, only_one
from photon.upkeep.backfill.rebuild import FILE_SECONDS, CannotRebuild
from photon.upkeep.backfill.remaking import _Remaking
from photon.upkeep.backfill.removed_rows import removed_rows
from photon.verification.days import Window
from tests.simulation.rebuilding import (
    DAY,
    HereProgram,
    all_removed,
    rebuild,
    rebuild_with_a_crash,
    set_adapter,
)
from tests.simulation.world import World
from tests.support.shares import a_share

LOUD = """
from photon.adapters import per_event

@per_event
def adapter(foreign, primary):
    return {"click": foreign["click"], "loud": primary["text"].upper()}
"""
WITHOUT_C3 = """
from photon.adapters import per_event

@per_event
def adapter(foreign, primary):
    if foreign["click"] == "c3":
        return None
    if foreign["click"] == "c4":
        raise ValueError("c4 is too much")
    return {"click": foreign["click"], "text": primary["text"]}
"""
CLICKS = [(f"c{n}", f"q{n % 3}") for n in range(8)]


def joined_world(folder: Path, datacenters: tuple[str, ...] = ("east",), batches: int = 4) -> World:
    """Eight clicks joined in some batches, so that the table has as many files."""
    folder.mkdir(exist_ok=True)
    world = World(folder, datacenters)
    for name in datacenters:
        world.queries("q0", "q1", "q2", datacenter=name)
    step = len(CLICKS) // batches
    for at in range(0, len(CLICKS), step):
        for name in datacenters:
            world.clicks(*CLICKS[at : at + step], datacenter=name)
        world.join()
    assert len(world.rows()) == len(CLICKS)
    return world


def by_id(world: World) -> dict[str, dict[str, Any]]:
    rows = world.rows()
    found = {row["_event_id"]: row for row in rows}
    assert len(found) == len(rows), "an event has two rows"
    return found


def table(world: World, datacenter: str = "east") -> DeltaTable:
    return DeltaTable(str(world.pipeline.datacenters[datacenter].lake / "joined_events"))


def test_with_an_unchanged_adapter_the_rows_are_equal_and_no_file_is_replaced(tmp_path: Path) -> None:
    world = joined_world(tmp_path)
    before, version = by_id(world), table(world).version()
    done = rebuild(world)
    assert (done.tally.rows, done.tally.same, done.commits) == (8, 8, 0)
    assert by_id(world) == before
    assert table(world).version() == version


def test_with_another_adapter_the_same_ids_get_its_values(tmp_path: Path) -> None:
    world = joined_world(tmp_path)
    before = by_id(world)
    set_adapter(world, "loud_one", LOUD)
    done = rebuild(world)
    assert (done.tally.replaced, done.tally.same) == (8, 0)
    after = by_id(world)
    assert {row["loud"] for row in after.values()} == {"TEXT OF Q0", "TEXT OF Q1", "TEXT OF Q2"}
    for event_id, row in after.items():
        own = {name: value for name, value in row.items() if name.startswith("_")}
        assert own == {name: before[event_id][name] for name in own}


def test_a_dry_run_says_what_would_be_replaced_and_changes_nothing(tmp_path: Path) -> None:
    world = joined_world(tmp_path)
    set_adapter(world, "loud_two", LOUD)
    before, version = by_id(world), table(world).version()
    assert rebuild(world, dry_run=True).tally == rebuild(world, dry_run=True).tally
    assert (by_id(world), table(world).version()) == (before, version)
    assert rebuild(world).tally.replaced == 8


def test_rows_outside_the_window_stay_as_they_are(tmp_path: Path) -> None:
    world = joined_world(tmp_path)
    world.clock.advance(86_400)
    world.clicks(("tomorrow", "q0"), ("today", "q0"), at_us=DAY.end_us)
    world.join()
    set_adapter(world, "loud_three", LOUD)
    rebuild(world)
    assert by_id(world)["tomorrow"]["loud"] is None
    assert rebuild(world, window=Window(DAY.end_us, DAY.end_us + 1)).tally.replaced == 2
    assert by_id(world)["tomorrow"]["loud"] == "TEXT OF Q0"


@pytest.mark.parametrize("folder", ["plain", "a[1]", "x^2|y"])  # names that delta-rs's own writer panics at
def test_a_filtered_row_goes_with_a_record_and_one_that_fails_stays(tmp_path: Path, folder: str) -> None:
    world = joined_world(tmp_path / folder)
    before = by_id(world)
    set_adapter(world, "without_c3", WITHOUT_C3)
    done = rebuild(world)
    assert done.tally.dropped == {"filtered": 1}
    assert done.tally.kept == {"adapter fails": 1}
    (example,) = done.examples
    assert example.event_id == "c4"
    assert "c4 is too much" in example.why
    after = by_id(world)
    assert before.keys() - after.keys() == {"c3"}
    assert after["c4"] == {**before["c4"], "text": None}
    (record,) = removed_rows(world.pipeline.datacenters["east"].lake, "c3").to_pylist()
    assert {n: record[n] for n in ("why", "_event_id", "_occurrence")} == {
        "why": "filtered",
        "_event_id": "c3",
        "_occurrence": before["c3"]["_occurrence"],
    }


def test_a_row_whose_log_is_gone_or_holds_another_record_stays_and_is_told(tmp_path: Path) -> None:
    world = joined_world(tmp_path)
    before = by_id(world)
    set_adapter(world, "loud_four", LOUD)
    path = world.folder / "logs/east/clicks/a.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"c5"', b'"x5"'))
    done = rebuild(world)
    assert done.tally.kept == {"foreign record gone": 1}
    assert by_id(world)["c5"]["primary_text"] == before["c5"]["primary_text"]
    path.unlink()
    assert rebuild(world).tally.kept == {"foreign record gone": 8}
    assert len(by_id(world)) == 8


def test_an_altered_row_is_right_again(tmp_path: Path) -> None:
    world = joined_world(tmp_path)
    before = by_id(world)
    table(world).update({"primary_text": "'forged'"}, predicate="_event_id = 'c2'")
    assert by_id(world)["c2"]["primary_text"] == "forged"
    assert rebuild(world).tally.replaced == 1
    assert by_id(world) == before


def test_of_doubled_rows_one_is_left(tmp_path: Path) -> None:
    world = joined_world(tmp_path)
    before = by_id(world)
    rows = table(world).to_pyarrow_table()
    write_deltalake(table(world), rows.slice(1, 2), mode="append")
    write_deltalake(table(world), rows.slice(1, 1), mode="append")
    assert len(world.rows()) == 11
    assert rebuild(world).tally.dropped == {"second row": 3}
    assert by_id(world) == before
    assert set(all_removed(world.pipeline, "east")["why"].to_pylist()) == {"second row"}


def test_of_rows_in_two_datacenters_that_of_the_registrys_holder_is_left(tmp_path: Path) -> None:
    world = joined_world(tmp_path, ("east", "west"))
    world.join("west")
    before = by_id(world)
    stolen = table(world).to_pyarrow_table().slice(0, 2)
    write_deltalake(table(world, "west"), stolen, mode="append", schema_mode="merge")
    assert rebuild(world, "east").tally.dropped == {}
    assert rebuild(world, "west").tally.dropped == {"second row": 2}
    assert by_id(world) == before


# -- big files


def one_file(world: World, group_rows: int) -> None:
    """Have all rows in one file, as a compaction leaves it."""
    rows = table(world).to_pyarrow_table()
    properties = WriterProperties(max_row_group_size=group_rows)
    write_deltalake(table(world), rows, mode="overwrite", writer_properties=properties)
    assert len(table(world).file_uris()) == 1


@pytest.mark.parametrize("group_rows", [8, 3, 1])
def test_of_a_file_that_is_too_big_for_a_task_all_rows_stay_where_one_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group_rows: int
) -> None:
    world = joined_world(tmp_path)
    before = by_id(world)
    one_file(world, group_rows)
    most = [0]
    result = _Remaking.result

    def counting(made: _Remaking) -> Remade:
        most.append(made.rows.num_rows)
        return result(made)

    monkeypatch.setattr(_Remaking, "result", counting)
    folder = Path(table(world).table_uri.removeprefix("file://"))
    files = {path.name for path in folder.rglob("*.parquet")}
    assert rebuild(world, piece_rows=3).tally.same == 8
    assert {path.name for path in folder.rglob("*.parquet")} == files, "it leaves files that nobody needs"
    table(world).update({"primary_text": "'forged'"}, predicate="_event_id = 'c6'")
    one_file(world, group_rows)
    done = rebuild(world, piece_rows=3)
    assert (done.tally.replaced, done.tally.same) == (1, 7)
    assert by_id(world) == before
    assert max(most) <= 3, "a task holds more rows than it may"


# -- rows of earlier epochs


def two_files_in_another_order(folder: Path) -> World:
    """Two events with their primaries in files of their own, which a new epoch meets the other way round."""
    world = World(folder)
    for number, file in enumerate(("b.jsonl", "a.jsonl")):
        world.queries(f"q{number}", file=file)
        world.clicks((f"c{number}", f"q{number}"), file=file)
        world.join()
    before, places = numbers_of_files(world), {row["_occurrence"] for row in world.rows()}
    shutil.rmtree(world.state())
    for path in (world.folder / "logs/east").rglob("b.jsonl"):
        os.utime(path, ns=(path.stat().st_mtime_ns + 10**10,) * 2)
    world.join()
    assert before["clicks/b.jsonl"] == numbers_of_files(world)["clicks/a.jsonl"]
    assert {row["_occurrence"] for row in world.rows()} == places
    return world


def numbers_of_files(world: World) -> dict[str, int]:
    with closing(world.read_state()) as state:
        return {tracked.file.path: number for number, tracked in state.files().items()}


def test_rows_of_an_earlier_epoch_are_made_again_of_their_own_records(tmp_path: Path) -> None:
    world = two_files_in_another_order(tmp_path)
    before = by_id(world)
    set_adapter(world, "loud_earlier", LOUD)
    done = rebuild(world)
    assert (done.tally.replaced, done.tally.kept) == (2, {})
    after = by_id(world)
    assert {name: row["loud"] for name, row in after.items()} == {"c0": "TEXT OF Q0", "c1": "TEXT OF Q1"}
    for event_id, row in after.items():
        own = {name: value for name, value in row.items() if name.startswith("_")}
        assert own == {name: before[event_id][name] for name in own}


def test_a_row_of_an_earlier_epoch_whose_record_is_in_no_log_stays_and_is_told(tmp_path: Path) -> None:
    world = two_files_in_another_order(tmp_path)
    before = by_id(world)
    set_adapter(world, "loud_gone", LOUD)
    path = world.folder / "logs/east/clicks/a.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"c1"', b'"x1"'))
    done = rebuild(world)
    assert (done.tally.replaced, done.tally.kept) == (1, {"earlier epoch": 1})
    assert by_id(world)["c1"]["primary_text"] == before["c1"]["primary_text"]


def test_rows_whose_files_would_take_too_long_to_be_found_stay_and_are_told_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places_today, "MOST_READ", 1)
    world = two_files_in_another_order(tmp_path)
    set_adapter(world, "loud_many", LOUD)
    done = rebuild(world)
    assert done.tally.replaced == 1, "the file of most records is found in any case"
    assert done.tally.kept == {"too many log files: rebuild fewer hours at once": 1}
    assert sum("too many" in one.why for one in done.examples) == 1


# -- beside live joins


def test_rows_that_are_appended_meanwhile_are_neither_lost_nor_doubled(tmp_path: Path) -> None:
    world = joined_world(tmp_path)

    def live() -> None:
        world.clicks(("live", "q1"))
        world.join()

    set_adapter(world, "loud_five", LOUD)
    rebuild(world, program=HereProgram([live]))
    rows = by_id(world)
    assert rows.keys() == {*dict(CLICKS), "live"}
    assert all(row["loud"] for row in rows.values())


@pytest.mark.parametrize("page_rows", [3, 100])
@pytest.mark.parametrize("somebody", ["delete", "compact"])
def test_files_that_somebody_replaces_meanwhile_are_read_from_a_new_snapshot(
    tmp_path: Path, somebody: str, page_rows: int
) -> None:
    world = joined_world(tmp_path)

    def meanwhile() -> None:
        if somebody == "delete":
            table(world).delete("_event_id = 'c1'")
        else:
            table(world).optimize.compact()

    set_adapter(world, f"loud_{somebody}_{page_rows}", LOUD)
    rebuild(world, program=HereProgram([meanwhile]), page_rows=page_rows)
    gone = {"c1"} if somebody == "delete" else set()
    rows = by_id(world)
    assert rows.keys() == dict(CLICKS).keys() - gone
    assert all(row["loud"] for row in rows.values())


def test_the_dispatcher_of_an_open_plan_reads_its_rows_back_after_a_rebuild(tmp_path: Path) -> None:
    world = joined_world(tmp_path)
    world.clicks(("last", "q2"))
    assert world.join_with_a_crash("commit.after_main")
    set_adapter(world, "loud_open", LOUD)
    assert rebuild(world).tally.replaced == 9
    result = world.join()
    assert result.counts.of("joined") == 9
    assert by_id(world).keys() == {*dict(CLICKS), "last"}
    world.clicks(("next", "q2"))
    world.join()
    assert by_id(world).keys() == {*dict(CLICKS), "last", "next"}


def test_an_event_that_a_rebuild_filters_before_its_batch_is_completed_is_filtered(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.events("c3", "c5", query="q0")
    assert world.join_with_a_crash("commit.after_main")
    set_adapter(world, "without_open", WITHOUT_C3)
    assert rebuild(world).tally.dropped == {"filtered": 1}
    counts = world.join().counts
    assert (counts.of("joined"), counts.of("filtered")) == (1, 1)
    assert by_id(world).keys() == {"c5"}


def test_the_estimate_of_a_plan_grows_with_its_files_and_not_with_rows_alone(tmp_path: Path) -> None:
    world = joined_world(tmp_path)
    before = rebuild(world, dry_run=True).plan
    for n in range(12):
        world.clicks((f"one{n}", "q1"))
        world.join()
    after = rebuild(world, dry_run=True).plan
    assert after.files == before.files + 12
    assert after.estimated_seconds - before.estimated_seconds >= 12 * FILE_SECONDS / 2


# -- killed, and two at once


@pytest.mark.parametrize("point", BACKFILL_FAULT_POINTS)
@pytest.mark.parametrize("passing", a_share([1, 2], 0, of=2))
def test_a_rebuild_that_is_killed_goes_on_and_no_row_is_lost_or_doubled(
    tmp_path: Path, point: str, passing: int
) -> None:
    world = joined_world(tmp_path)
    set_adapter(world, f"killed_{point.replace('.', '_')}_{passing}", WITHOUT_C3)
    crashed = rebuild_with_a_crash(world, f"{point}:{passing}")
    assert crashed == (passing == 1 or point != "rebuild.before_end")
    by_id(world)
    program = HereProgram()
    done = rebuild(world, program=program)
    assert done.went_on == crashed
    rows = by_id(world)
    assert rows.keys() == dict(CLICKS).keys() - {"c3"}
    assert all(row["text"] for event_id, row in rows.items() if event_id != "c4")
    assert all_removed(world.pipeline, "east")["_event_id"].to_pylist() == ["c3"]
    if crashed:
        assert (done.tally.rows, done.tally.replaced) == (8, 6)
        assert done.tally.dropped == {"filtered": 1}
    if point == "rebuild.before_end" and crashed:
        assert program.pieces == 0, "what was done is done again"


def test_a_dry_run_of_other_days_leaves_a_killed_rebuild_as_it_is(tmp_path: Path) -> None:
    world = joined_world(tmp_path)
    set_adapter(world, "killed_then_dry", LOUD)
    assert rebuild_with_a_crash(world, "rebuild.before_end:1")
    day_before = Window(DAY.start_us - (DAY.end_us - DAY.start_us), DAY.start_us)
    rebuild(world, dry_run=True, window=day_before)
    program = HereProgram()
    assert rebuild(world, program=program).went_on
    assert program.pieces == 0, "what was done is done again"


def test_a_dry_run_is_nothing_that_a_rebuild_goes_on_with(tmp_path: Path) -> None:
    world = joined_world(tmp_path)
    set_adapter(world, "dry_then_real", LOUD)
    rebuild(world, dry_run=True)
    assert not rebuild(world).went_on


def test_only_one_process_rebuilds_a_table(tmp_path: Path) -> None:
    world = joined_world(tmp_path)
    with only_one(world.state(), "east"), pytest.raises(BackfillRunning, match="process"):
        rebuild(world)
    rebuild(world)


def test_without_a_table_there_is_nothing_to_rebuild(tmp_path: Path) -> None:
    with pytest.raises(CannotRebuild, match="join first"):
        rebuild(World(tmp_path))
