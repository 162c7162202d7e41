"""A shift's points: in its state each ten seconds, in its lake each minute, and no join waits for them."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from photon.dispatcher.retrying import Callbacks, StoppedWaiting
from photon.dispatcher.shift import points as recording
from photon.dispatcher.shift.points import PointsRecorder
from photon.process.machine import Machine
from photon.state import points as recent_points
from photon.state.points import FINAL_CLASSES, POINTS, RECENT_FILE, RecentPoints
from photon.state.points import recent_points as read_recent
from photon.storage.append_table import AppendTable
from tests.simulation.world import NOON_US, World
from tests.support.manual_clock import ManualClock

SECOND = 1_000_000


def in_lake(world: World, first_us: int = 0, end_us: int = 2 * NOON_US) -> list[dict[str, Any]]:
    """All rows that the lake of east has, with times in microseconds."""
    return rows_of(POINTS.between(world.pipeline, "east", first_us, end_us))


def in_state(world: World) -> list[dict[str, Any]]:
    """All lines that the state of east has, as rows."""
    return rows_of(read_recent(world.state()))


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of a table of points, with times in microseconds."""
    for name in ("at", "complete_up_to"):
        times = table[name].cast(pa.int64())
        table = table.set_column(table.schema.get_field_index(name), name, times)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def run_for(world: World, seconds: float) -> None:
    """Have east join for so long."""
    ends_us = world.clock.now_us() + round(seconds * SECOND)
    world.join(mode="stop", callbacks=Callbacks(should_stop=lambda: world.clock.now_us() >= ends_us))


def seconds_of(rows: list[dict[str, Any]]) -> list[int]:
    """When each point was made, in whole seconds since noon."""
    return [round((row["at"] - NOON_US) / SECOND) for row in rows]


def test_a_shift_of_a_few_seconds_leaves_one_point(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.events("c1", "c2")
    world.clicks(("c1", "q1"), ("c3", "nowhere"))
    world.join()
    (row,) = in_lake(world)
    assert row == in_state(world)[0]
    found = {name: row[name] for name in ("batches", "foreign", *FINAL_CLASSES, "pending", "unread_bytes")}
    expected = dict.fromkeys(found, 0) | {"batches": 1, "foreign": 4, "joined": 2, "duplicates": 1}
    assert found == expected | {"pending": 1}
    assert (row["activity"], row["waits_for"], row["epoch"], row["mark"]) == ("live", "", "1", None)
    assert row["complete_up_to"] == NOON_US
    assert row["p50_seconds"] is not None
    assert row["lag_seconds"] is not None


def test_a_shift_with_nothing_to_do_adds_a_point_each_minute(tmp_path: Path) -> None:
    world = World(tmp_path)
    run_for(world, 150)
    assert seconds_of(in_lake(world)) == [60, 120, 150]
    assert seconds_of(in_state(world)) == [*range(10, 160, 10)]
    assert [row["seconds"] for row in in_state(world)] == pytest.approx([10.0] * 15, abs=2.5)
    assert {row["p50_seconds"] for row in in_lake(world)} == {None}


def test_points_of_two_shifts_follow_each_other(tmp_path: Path) -> None:
    world = World(tmp_path)
    for _ in range(2):
        run_for(world, 30)
    assert seconds_of(in_lake(world)) == [30, 60]
    assert len(in_state(world)) == 6


def test_a_lake_that_takes_no_point_stops_no_join_and_has_all_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path)
    world.events("c1")
    in_the_way = POINTS.folder(world.pipeline, "east")
    assert isinstance(in_the_way, Path)
    in_the_way.parent.mkdir(parents=True)
    in_the_way.write_text("no folder")
    ends_us = NOON_US + 310 * SECOND

    def should_stop() -> bool:
        if in_the_way.is_file() and world.clock.now_us() >= NOON_US + 200 * SECOND:
            in_the_way.unlink()
        return world.clock.now_us() >= ends_us

    world.join(mode="stop", callbacks=Callbacks(should_stop))
    assert world.joined_ids() == ["c1"]
    assert seconds_of(in_lake(world)) == [60, 120, 180, 240, 300, 310]
    assert sum("lack its latest points" in each for each in caplog.messages) == 1


class Hanging(Machine):
    """A machine whose threads beside get no answer from the lake."""

    def ask(self, name: str, question: Any) -> Future[Any]:
        """Never answer."""
        return Future()


def test_a_lake_that_hangs_keeps_no_shift_from_ending(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    world.join()
    monkeypatch.setattr(recording, "END_SECONDS", 0.0)
    recorder = PointsRecorder(world.pipeline, "east", Hanging(ManualClock(NOON_US)))
    recorder._is_its_lake = True
    recorder.mark("hold", "planned work")
    recorder.close()
    assert "its lake does not answer" in caplog.text


def test_a_shift_that_waits_says_for_what(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.events("c1")
    world.join()
    world.ledgers.go_away()
    returns_us = NOON_US + 70 * SECOND

    def should_stop() -> bool:
        if world.clock.now_us() >= returns_us:
            world.ledgers.come_back()
        return world.clock.now_us() >= returns_us + 30 * SECOND

    world.join(mode="stop", callbacks=Callbacks(should_stop))
    waited = [row for row in in_state(world) if row["activity"] == "waiting"]
    assert 70 <= sum(row["seconds"] for row in waited) < 83  # the wait between two tries is drawn
    assert all("registry" in row["waits_for"] for row in waited)
    assert [row["activity"] for row in in_lake(world)] == ["live", "waiting", "waiting", "live"]


def test_what_is_logged_while_a_shift_waits_counts_as_unread(tmp_path: Path) -> None:
    """Broken variant: the size of before the wait, as nobody reads logs in it."""
    world = World(tmp_path)
    world.events("c1")
    deeds = {
        5: world.ledgers.go_away,
        6: lambda: world.events("c2"),
        22: lambda: world.events("c3"),
        36: world.ledgers.come_back,
    }

    def should_stop() -> bool:
        passed = (world.clock.now_us() - NOON_US) / SECOND
        for at in [at for at in deeds if at <= passed]:
            deeds.pop(at)()
        return passed >= 60

    world.join(mode="stop", callbacks=Callbacks(should_stop))
    unread = [row["unread_bytes"] for row in in_state(world) if row["activity"] == "waiting"]
    assert 0 < unread[0] < max(unread)
    assert in_state(world)[-1]["unread_bytes"] == 0


def test_a_point_begins_with_a_wait_and_after_it(tmp_path: Path) -> None:
    """Broken variant: a wait that begins with the point in which it began, up to a minute early."""
    world, clock = World(tmp_path), ManualClock(NOON_US)
    world.state().mkdir(parents=True)
    recorder = PointsRecorder(world.pipeline, "east", Machine(clock))
    told = recorder.recording(Callbacks())
    for before_seconds, waited_seconds in ((4, 3), (0.3, 0.2)):  # the second one is too short for a point
        clock.advance(before_seconds)
        told.on_wait("the registry is away")
        clock.advance(waited_seconds)
        told.on_resume("the registry is away", waited_seconds)
    recorder.close()
    spans = [(row["activity"], row["seconds"]) for row in in_state(world)]
    assert spans == [("live", 4.0), ("waiting", 3.0), ("live", 0.5)]


def test_nothing_is_written_to_a_lake_that_a_shift_has_not_begun_with(tmp_path: Path) -> None:
    """It may be another pipeline's, or an empty folder where its disk belongs."""
    world = World(tmp_path)
    world.ledgers.go_away()
    with pytest.raises(StoppedWaiting):
        run_for(world, 70)
    assert not world.pipeline.datacenters["east"].lake.exists()
    assert [row["activity"] for row in in_state(world)] == ["waiting"] * 7


def test_points_are_read_of_a_range_of_times_and_other_files_are_not_opened(tmp_path: Path) -> None:
    world = World(tmp_path)
    for at_us in (10_001_999, 20_000_000, 30_000_000):
        POINTS.append(world.pipeline, "east", [{"at": at_us, "joined": at_us}])
    folder = POINTS.folder(world.pipeline, "east")
    assert isinstance(folder, Path)
    last = next(
        one for one in folder.glob("*.parquet") if pq.read_table(one)["joined"][0].as_py() == 30_000_000
    )
    last.unlink()
    found = POINTS.between(world.pipeline, "east", 10_001_999, 30_000_000, ["at", "joined"])
    assert (found.column_names, found["joined"].to_pylist()) == (["at", "joined"], [10_001_999, 20_000_000])
    assert POINTS.between(world.pipeline, "east", 10_002_000, 20_000_000).num_rows == 0


def test_a_column_that_came_later_is_null_in_rows_that_were_there(tmp_path: Path) -> None:
    world = World(tmp_path)
    earlier = AppendTable("points", pa.schema([("at", pa.timestamp("us", "UTC")), ("joined", pa.int64())]))
    earlier.append(world.pipeline, "east", [{"at": 1, "joined": 5}])
    POINTS.append(world.pipeline, "east", [{"at": 2, "joined": 6, "unread_files": 1}])
    rows = POINTS.between(world.pipeline, "east", 0, 3).to_pylist()
    assert [(row["joined"], row["unread_files"]) for row in rows] == [(5, None), (6, 1)]


def test_recent_points_pass_over_half_a_line(tmp_path: Path) -> None:
    RecentPoints(tmp_path).add({"at": 1, "joined": 5})
    with (tmp_path / RECENT_FILE).open("a") as file:
        file.write('{"at": 2, "joi')
    assert read_recent(tmp_path)["joined"].to_pylist() == [5]
    RecentPoints(tmp_path).add({"at": 3, "joined": 7})
    assert read_recent(tmp_path)["joined"].to_pylist() == [5, 7]


@pytest.mark.parametrize(
    "line",
    ['"joined": "x"', f'"joined": {10**30}', '"says": 5', f'"says": {"[" * 20_000}'],
    ids=["text", "huge", "number", "deep"],
)
def test_recent_points_pass_over_a_line_of_another_form(tmp_path: Path, line: str) -> None:
    file = RecentPoints(tmp_path)
    file.add({"at": NOON_US, "joined": 1})
    (tmp_path / RECENT_FILE).open("a").write(f'{{"at": {NOON_US}, {line}}}\n')
    RecentPoints(tmp_path).add({"at": NOON_US + 1, "joined": 2})
    assert read_recent(tmp_path)["joined"].to_pylist() == [1, 2]


def test_the_file_of_recent_points_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_points, "RECENT_LINES", 60)
    points, most = RecentPoints(tmp_path), 0
    for number in range(3 * 60):
        points.add({"at": number})
        most = max(most, len((tmp_path / RECENT_FILE).read_text().splitlines()))
        assert len(read_recent(tmp_path)) >= min(number + 1, 60)
    assert most <= 2 * 60


def test_a_state_folder_that_takes_nothing_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    points = RecentPoints(tmp_path / "state")
    points.add({"at": 1})
    points.add({"at": 2})
    assert len(caplog.messages) == 1
    (tmp_path / "state").mkdir()
    points.add({"at": 3})
    assert len(read_recent(tmp_path / "state")) == 3
