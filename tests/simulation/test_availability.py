"""Availability of whole shifts: when events were joinable and readable, judged from rows and timeline."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake

from photon.dispatcher.retrying import Callbacks
from photon.process.clock import MICROSECONDS
from photon.storage.tables import OutputTable
from photon.verification.availability.budget import MINUTE_US, Minute
from photon.verification.availability.minutes import judge
from photon.verification.availability.slow_events import slowest_events
from photon.verification.availability.stored import stored_minutes
from photon.verification.report import Case, DatacenterReport, Finding
from tests.simulation.world import NOON_US, World

START_US = -(-NOON_US // MINUTE_US) * MINUTE_US  # the first whole minute begins
SECOND = MICROSECONDS


class Live:
    """A shift that goes on while a test writes logs: each look finds the lines that are due."""

    def __init__(self, world: World, datacenter: str = "east") -> None:
        self.world, self.datacenter = world, datacenter
        self.until_us = START_US
        self.due: list[tuple[int, str, tuple[str, str | None]]] = []

    def query(self, second: float, name: str) -> None:
        self.due.append((START_US + round(second * SECOND), "query", (name, None)))

    def click(self, second: float, name: str, query: str) -> None:
        self.due.append((START_US + round(second * SECOND), "click", (name, query)))

    def run(self, until_second: float) -> None:
        """Run a shift until then; each event has the time at which it is written."""
        world, until_us = self.world, START_US + round(until_second * SECOND)
        self.due.sort()

        def has_ended() -> bool:
            now_us = world.clock.now_us()
            while self.due and self.due[0][0] <= now_us:
                at_us, kind, (name, query) = self.due.pop(0)
                if kind == "query":
                    world.queries(name, at_us=at_us, datacenter=self.datacenter)
                else:
                    world.clicks((name, query), at_us=at_us, datacenter=self.datacenter)
            return now_us >= until_us

        world.join(self.datacenter, "stop", Callbacks(should_stop=has_ended))


def make(folder: Path, more: str = "", datacenters: tuple[str, ...] = ("east",)) -> World:
    """A world whose clock is at the beginning of a minute, and whose logs have a line."""
    world = World(folder, datacenters, more)
    world.clock.advance((START_US - 2 * SECOND - NOON_US) / SECOND)
    for name in datacenters:
        world.queries("first", datacenter=name, at_us=START_US - 2 * SECOND)
        world.clicks(("of first", "first"), datacenter=name, at_us=START_US - 2 * SECOND)
    return world


def judged(world: World, report: DatacenterReport | None = None, name: str = "east") -> list[Minute]:
    return judge(world.pipeline, name, report, world.clock.now_us(), "a run")


def counts(minutes: list[Minute]) -> list[tuple[int, int, int]]:
    """Count each minute's events: joinable, readable in time, and without a row."""
    return [(each.joinable, each.readable, each.without_row) for each in minutes]


def test_events_that_are_joined_at_once_are_readable_in_time(tmp_path: Path) -> None:
    live = Live(make(tmp_path))
    for second in (10, 20, 70):
        live.query(second, f"q{second}")
        live.click(second + 1, f"c{second}", f"q{second}")
    live.run(130)
    minutes = judged(live.world)
    assert counts(minutes) == [(2, 2, 0), (1, 1, 0)]
    assert [each.by_commit for each in minutes] == [2, 1]


def test_an_outage_of_the_dispatcher_counts_from_the_events_own_time(tmp_path: Path) -> None:
    world = make(tmp_path)
    Live(world).run(5)
    world.queries("q", at_us=START_US + 10 * SECOND)
    world.clicks(("c", "q"), at_us=START_US + 20 * SECOND)
    world.clock.advance(70)
    Live(world).run(130)
    minutes = judged(world)
    assert counts(minutes) == [(1, 0, 0), (0, 0, 0)]
    assert minutes[0].slowest_us >= 55 * SECOND


def test_a_minute_is_not_judged_while_logs_wait_that_were_there_before_it_ended(tmp_path: Path) -> None:
    world = make(tmp_path)
    Live(world).run(65)
    assert len(judged(world)) == 1
    world.queries("q", at_us=START_US + 70 * SECOND)
    world.clock.advance(600)
    assert judged(world) == []
    Live(world).run(700)
    assert counts(judged(world)) == [(0, 0, 0)] * 10


def test_half_a_line_that_stays_holds_up_nothing(tmp_path: Path) -> None:
    world = make(tmp_path)
    Live(world).run(5)
    with (tmp_path / "logs/east/clicks/a.jsonl").open("a") as file:
        file.write('{"click": "half')
    world.clock.advance(70)
    Live(world).run(130)
    assert len(judged(world)) == 2


def test_a_second_judgement_adds_no_minute_twice(tmp_path: Path) -> None:
    live = Live(make(tmp_path))
    live.query(10, "q")
    live.click(11, "c", "q")
    live.run(70)
    first = judged(live.world)
    assert judged(live.world) == []
    live.run(130)
    assert [each.at_us for each in judged(live.world)] == [START_US + MINUTE_US]
    assert stored_minutes(live.world.pipeline, "east")[START_US] == first[0]


def test_of_two_judgements_at_once_the_first_one_counts(tmp_path: Path) -> None:
    live = Live(make(tmp_path))
    live.query(10, "q")
    live.click(11, "c", "q")
    live.run(70)
    first = judged(live.world)
    module = "photon.verification.availability.minutes"
    nothing_yet = {"stored_minutes": lambda *_: {}, "rows_since": lambda *_: iter(())}
    with mock.patch.multiple(module, **nothing_yet):
        second = judge(live.world.pipeline, "east", None, live.world.clock.now_us() + SECOND, "another")
    assert second != first
    assert list(stored_minutes(live.world.pipeline, "east").values()) == first


def world_with_a_held_and_a_free_event(folder: Path) -> World:
    """East has read both a minute ago; west holds one of them, and has not closed it."""
    world = make(folder, datacenters=("east", "west"))
    world.registered_elsewhere("held", is_closed=False)
    live = Live(world)
    live.query(10, "q")
    live.click(11, "held", "q")
    live.click(12, "free", "q")
    live.run(70)
    return world


def test_an_event_that_another_datacenter_holds_is_not_readable(tmp_path: Path) -> None:
    world = world_with_a_held_and_a_free_event(tmp_path)
    assert counts(judged(world)) == [(2, 1, 1)]
    slow, quick = slowest_events(world.pipeline, "east", START_US, 5)
    assert slow.event_id == "held"
    assert "has no row" in str(slow)
    assert quick.event_id == "free"


def test_an_event_that_waits_though_another_datacenter_has_its_row_counts_there(tmp_path: Path) -> None:
    world = world_with_a_held_and_a_free_event(tmp_path)
    tables = {
        name: OutputTable(place.lake, "joined_events") for name, place in world.pipeline.datacenters.items()
    }
    rows = tables["east"].load().to_pyarrow_table()
    row = rows.filter(pc.equal(rows["_event_id"], "free"))
    row = row.set_column(row.schema.get_field_index("_event_id"), "_event_id", pa.array(["held"]))
    tables["west"].create(world.pipeline.name, "west")
    write_deltalake(tables["west"].load(), row, mode="append", schema_mode="merge")
    assert counts(judged(world)) == [(1, 1, 0)]


def test_an_event_that_verification_finds_missing_is_not_readable(tmp_path: Path) -> None:
    world = make(tmp_path)
    live = Live(world)
    live.query(10, "q")
    live.click(11, "c", "q")
    live.run(70)
    (row,) = [row for row in world.rows() if row["_event_id"] == "c"]
    world.table().load().delete("_event_id = 'c'")
    case = Case("c", row["_occurrence"], 0, "east")
    found = (Finding("missing", 1, cases=(case,)),)
    report = DatacenterReport(findings=found, epoch=row["_epoch"])
    assert counts(judged(world, report)) == [(1, 0, 1)]


def test_the_slowest_events_of_a_minute_are_named_with_file_and_offset(tmp_path: Path) -> None:
    world = make(tmp_path)
    Live(world).run(5)
    world.queries("q", at_us=START_US + 8 * SECOND)
    offset = (tmp_path / "logs/east/clicks/a.jsonl").stat().st_size
    world.clicks(("slow", "q"), ("slower", "q"), at_us=START_US + 10 * SECOND)
    world.clock.advance(20)
    Live(world).run(70)
    first, *others = slowest_events(world.pipeline, "east", START_US, 2)
    assert {first.event_id, *(each.event_id for each in others)} == {"slow", "slower"}
    assert first.path == "clicks/a.jsonl"
    assert offset in (first.offset_bytes, others[0].offset_bytes)
    assert (first.primary_path, first.primary_offset_bytes > 0) == ("queries/a.jsonl", True)
    line = (tmp_path / "logs/east" / first.path).read_bytes()[first.offset_bytes :].split(b"\n")[0]
    assert first.event_id.encode() in line


@pytest.mark.parametrize("batches", [1, 100_000])
def test_how_many_rows_are_read_at_once_changes_nothing(
    tmp_path: Path, batches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("photon.verification.availability.minutes.ROWS_AT_ONCE", batches)
    live = Live(make(tmp_path))
    for second in (10, 20, 30):
        live.query(second, f"q{second}")
        live.click(second + 1, f"c{second}", f"q{second}")
    live.run(70)
    assert counts(judged(live.world)) == [(3, 3, 0)]


def test_an_event_whose_primary_lies_beyond_the_lookup_window_is_not_without_its_row(tmp_path: Path) -> None:
    """Broken variant: any primary of its id, which it never joins."""
    live = Live(make(tmp_path, "retry: {lookup_window: 1m}"))
    live.query(5, "q")
    live.click(10, "near", "q")
    live.click(100, "orphan", "q")
    live.run(250)
    minutes = judged(live.world)
    assert sum(each.joinable for each in minutes) == sum(each.readable for each in minutes) == 1
    assert sum(each.without_row for each in minutes) == 0
