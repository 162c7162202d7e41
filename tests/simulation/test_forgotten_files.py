"""The state forgets log files that are gone, read, and named by nothing (protocol D13)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from photon.dispatcher.retrying import Callbacks
from photon.logs.forgotten_files import FORGET_FILES_AFTER_DAYS
from photon.process.clock import MICROSECONDS
from photon.state.losses import acknowledge
from photon.state.view import view_state
from photon.storage import append_table
from photon.storage.verified_files import read_verified_offsets, store_verified_offsets
from photon.upkeep.compact import plan_compaction
from photon.upkeep.dead_letters.mending import FORGOTTEN, plan_mending
from photon.upkeep.recovery import RecoveryPlan
from photon.upkeep.unasked_rows import OF_FILES_DAYS
from photon.verification.report import DatacenterReport
from tests.simulation.reading import asking
from tests.simulation.rebuilding import rebuild
from tests.simulation.world import World, assert_counts
from tests.spark.both_engines import verify_alone

DAY_SECONDS = 86_400
HOUR_SECONDS = 3_600


def path_of(world: World, path: str) -> Path:
    return world.folder / "logs" / "east" / path


def known(world: World) -> dict[str, int]:
    """The numbers of the files that the state knows, by path."""
    with closing(world.read_state()) as state:
        return {one.file.path: number for number, one in state.files().items()}


def pass_days(world: World, days: float = FORGET_FILES_AFTER_DAYS + 1) -> None:
    """Look each half day: what is gone is missed by two looks, and then for days."""
    for _ in range(round(2 * days)):
        world.clock.advance(DAY_SECONDS / 2)
        world.join()


def older(world: World) -> None:
    """Join a click of `old.jsonl`, and an hour later one of `new.jsonl`."""
    world.queries("q0", file="old.jsonl")
    world.clicks(("c0", "q0"), file="old.jsonl")
    world.join()
    world.clock.advance(HOUR_SECONDS)
    world.queries("q1", file="new.jsonl")
    world.clicks(("c1", "q1"), file="new.jsonl")
    world.join()


def remove(world: World, *names: str) -> None:
    for name in names or ("queries/old.jsonl", "clicks/old.jsonl"):
        path_of(world, name).unlink()


def verified(world: World) -> DatacenterReport:
    with asking(world):
        return verify_alone(world.pipeline, ["east"]).datacenters["east"]


def test_files_that_are_gone_for_days_are_forgotten_and_no_number_is_given_twice(world: World) -> None:
    """Broken variant: the last file of a log is forgotten too."""
    older(world)
    numbers = known(world)
    remove(world)
    pass_days(world)
    assert set(known(world)) == {"queries/new.jsonl", "clicks/new.jsonl"}
    world.queries("q2", file="a.jsonl")
    world.clicks(("c2", "q2"), file="a.jsonl")
    world.join()
    remove(world, "queries/new.jsonl", "clicks/new.jsonl")
    pass_days(world)
    assert set(known(world)) == {"queries/a.jsonl", "clicks/a.jsonl"}
    assert min(known(world).values()) > max(numbers.values())
    assert world.joined_ids() == ["c0", "c1", "c2"]


def test_a_file_is_known_until_it_was_gone_for_days(world: World) -> None:
    older(world)
    remove(world)
    pass_days(world, FORGET_FILES_AFTER_DAYS)
    assert len(known(world)) == 4
    pass_days(world, 1)
    assert len(known(world)) == 2


def test_the_time_counts_anew_for_a_file_that_was_back(world: World) -> None:
    older(world)
    content = path_of(world, "clicks/old.jsonl").read_bytes()
    remove(world)
    pass_days(world, FORGET_FILES_AFTER_DAYS - 1)
    path_of(world, "clicks/old.jsonl").write_bytes(content)
    pass_days(world, 1)
    remove(world, "clicks/old.jsonl")
    pass_days(world, FORGET_FILES_AFTER_DAYS - 0.5)
    assert set(known(world)) == {"clicks/old.jsonl", "clicks/new.jsonl", "queries/new.jsonl"}


def leaves_a_folder_empty(world: World) -> None:
    remove(world, "queries/old.jsonl", "clicks/old.jsonl", "queries/new.jsonl", "clicks/new.jsonl")


def is_unread(world: World) -> None:
    with path_of(world, "clicks/old.jsonl").open("a") as file:
        file.write('{"click": "half')
    world.join()
    remove(world)


def has_a_waiting_record(world: World) -> None:
    world.clicks(("waits", "later"), file="old.jsonl")
    world.join()
    remove(world, "clicks/old.jsonl")


def ends_unknown(world: World) -> None:
    world.clicks(("late", "q1"), file="old.jsonl")
    world.join()
    remove(world, "clicks/old.jsonl")


def is_not_verified(world: World) -> None:
    registry = world.pipeline.registry.model_copy(update={"keep_days": 90})
    world.pipeline = world.pipeline.model_copy(update={"registry": registry})
    remove(world, "clicks/old.jsonl")


@pytest.mark.parametrize(
    "story", [leaves_a_folder_empty, is_unread, has_a_waiting_record, ends_unknown, is_not_verified]
)
def test_a_file_is_not_forgotten_that(world: World, story: Callable[[World], None]) -> None:
    older(world)
    story(world)
    pass_days(world)
    assert "clicks/old.jsonl" in known(world)


def test_a_verified_file_is_forgotten_while_gc_drops_ids(world: World) -> None:
    older(world)
    number = known(world)["clicks/old.jsonl"]
    is_not_verified(world)
    store_verified_offsets(world.pipeline, "east", "1", {number: 10**6}, world.clock.now_us())
    pass_days(world)
    assert "clicks/old.jsonl" not in known(world)


def test_what_was_forgotten_before_gc_dropped_ids_holds_it_back(world: World) -> None:
    older(world)
    remove(world)
    pass_days(world)
    assert not [file for file in verified(world).unverified if file.side == "foreign"]
    is_kept = world.pipeline.registry.model_copy(update={"keep_days": 90})
    world.pipeline = world.pipeline.model_copy(update={"registry": is_kept})
    paths = [file.path for file in verified(world).unverified if file.side == "foreign"]
    assert paths == ["1 forgotten file"]


def test_an_unknown_end_that_a_person_acknowledged_is_forgotten(world: World) -> None:
    older(world)
    ends_unknown(world)
    pass_days(world)
    with closing(world.read_state()) as state:
        assert state.files()[known(world)["clicks/old.jsonl"]].end_unknown, "so that the test shows nothing"
    acknowledge(world.state(), view_state(world.state(), world.clock.now_us()))
    pass_days(world, 0.5)
    assert "clicks/old.jsonl" not in known(world)


def test_a_forgotten_file_that_comes_back_joins_nothing_twice(world: World) -> None:
    older(world)
    kept = {name: path_of(world, name).read_bytes() for name in ("queries/old.jsonl", "clicks/old.jsonl")}
    remove(world)
    pass_days(world)
    for name, content in kept.items():
        path_of(world, name).write_bytes(content)
    result = world.join()
    assert_counts(result.counts, joined=2, duplicates=1, foreign=3)
    assert world.joined_ids() == ["c0", "c1"]
    assert not verified(world).violations


def test_rows_that_name_forgotten_files_break_no_promise(world: World) -> None:
    """Broken variant: their files are taken for files that were never there."""
    older(world)
    remove(world)
    pass_days(world)
    report = verified(world)
    assert not report.violations
    assert (report.rows, report.rows_not_compared) == (2, 1)
    assert any("without some primary logs" in note for note in report.notes)


def test_a_row_whose_primary_alone_is_forgotten_is_not_compared(world: World) -> None:
    world.queries("q0", file="old.jsonl")
    world.clicks(("c0", "q0"))
    world.join()
    world.clock.advance(HOUR_SECONDS)
    world.queries("q1", file="new.jsonl")
    world.clicks(("c1", "q1"))
    world.join()
    remove(world, "queries/old.jsonl")
    pass_days(world)
    assert set(known(world)) == {"queries/new.jsonl", "clicks/a.jsonl"}
    report = verified(world)
    assert not report.violations
    assert report.rows_not_compared == 1


def test_a_rebuild_keeps_the_rows_of_forgotten_files(world: World) -> None:
    """Broken variant: their places are taken for places where no record is."""
    older(world)
    before = world.rows()
    remove(world)
    pass_days(world)
    assert rebuild(world).tally.kept == {"foreign record gone": 1}
    assert world.rows() == before


def test_a_number_that_was_never_given_is_no_forgotten_file(world: World) -> None:
    older(world)
    remove(world)
    pass_days(world)
    with closing(world.read_state()) as state:
        files = state.files()
    assert max(files) == 4
    assert len(files) == 2


def test_a_letter_of_a_forgotten_file_is_not_mended(world: World) -> None:
    world.log("east", "clicks", '{"click": ', file="old.jsonl")
    older(world)
    remove(world)
    pass_days(world)
    good = b'{"click": "x", "query": "q1", "at": 1}'
    plan = plan_mending(world.pipeline, "east", lambda line, reason: good)
    assert [line.problem for line in plan.expected.lines] == [f"still no record: {FORGOTTEN}"]


def test_recovery_of_an_event_of_a_forgotten_file_comes_to_nothing(world: World) -> None:
    older(world)
    before = verified(world)
    remove(world)
    pass_days(world)
    reports = {"east": {**before.as_dict(), "epoch": "1"}}
    with asking(world):
        RecoveryPlan(world.pipeline, reports).apply()
    assert_counts(world.join().counts, joined=2)


def test_files_of_folders_of_days_are_forgotten_with_their_folder(world: World) -> None:
    """A folder that is empty may be a disk's that is not mounted."""
    pipeline = world.pipeline
    sides = {side: getattr(pipeline, side) for side in ("primary", "foreign")}
    sides["foreign"] = sides["foreign"].model_copy(update={"files": "clicks/**/*.jsonl"})
    world.pipeline = pipeline.model_copy(update=sides)
    world.queries("q1")
    for day in ("1", "2", "3"):
        path_of(world, f"clicks/{day}").mkdir()
        world.clicks((f"c{day}", "q1"), file=f"{day}/a.jsonl")
        world.join()
        world.clock.advance(HOUR_SECONDS)
    shutil.rmtree(path_of(world, "clicks/1"))
    remove(world, "clicks/2/a.jsonl")
    pass_days(world)
    assert set(known(world)) == {"queries/a.jsonl", "clicks/2/a.jsonl", "clicks/3/a.jsonl"}


def test_a_clock_that_was_far_ahead_keeps_no_file_for_ever(world: World) -> None:
    older(world)
    remove(world)
    world.clock.advance(4_000 * DAY_SECONDS)
    world.join()
    world.join()
    world.clock.set_back(4_000 * DAY_SECONDS)
    pass_days(world, FORGET_FILES_AFTER_DAYS + 2)
    assert len(known(world)) == 2


def test_a_process_that_runs_on_forgets_once_an_hour(world: World) -> None:
    older(world)
    remove(world)
    seconds = FORGET_FILES_AFTER_DAYS * DAY_SECONDS + 2 * HOUR_SECONDS
    until_us = world.clock.now_us() + seconds * MICROSECONDS
    seldom = world.pipeline.tailing.model_copy(update={"poll_interval": timedelta(minutes=10)})
    world.pipeline = world.pipeline.model_copy(update={"tailing": seldom})
    world.join(mode="stop", callbacks=Callbacks(lambda: world.clock.now_us() >= until_us))
    assert set(known(world)) == {"queries/new.jsonl", "clicks/new.jsonl"}


def test_what_was_verified_of_a_forgotten_file_leaves_its_table_weeks_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(append_table, "LEAST_FILES", 1)
    older(world)
    old, new = (known(world)[path] for path in ("clicks/old.jsonl", "clicks/new.jsonl"))
    store_verified_offsets(world.pipeline, "east", "1", {old: 10, new: 10}, world.clock.now_us())
    remove(world)
    pass_days(world)
    for days, numbers in ((0, {old, new}), (OF_FILES_DAYS, {new})):
        world.clock.advance(days * DAY_SECONDS)
        plan_compaction(world.pipeline, "east", world.clock).apply()
        assert read_verified_offsets(world.pipeline, "east", "1").keys() == numbers
