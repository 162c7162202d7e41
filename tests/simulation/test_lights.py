"""Status, checks and metrics say the same of real joins, whether they ran once or go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from photon.dispatcher.dispatcher import Mode
from photon.dispatcher.shift.people import Decisions
from photon.health.facts import look
from photon.health.headline import headline
from photon.health.judge import judge
from photon.health.memory import Memory
from photon.health.metrics.serving import PipelineCollector
from photon.health.overall import overall
from photon.health.status import DatacenterStatus, status_of
from photon.health.verdict import Level, Verdict, worst
from tests.simulation.world import World
from tests.support.shares import a_share

HOUR_SECONDS = 3_600


def status_and_verdicts(world: World) -> tuple[str, dict[str, Verdict]]:
    """The first line of `photon status`, and the verdicts that it goes by."""
    one = status_of(world.pipeline, "east", world.clock, Decisions())
    return overall({"east": one}, ()), {promise: worst(found) for promise, found in one.verdicts.items()}


def level_everywhere(world: World, promise: str) -> Level:
    """The level that status, a watcher's check and a metric agree on."""
    found = look(world.pipeline, "east", world.clock.now_us(), decisions=Decisions())
    watched = worst(judge(found, Memory(), world.pipeline)[0][promise])
    measured = PipelineCollector(world.pipeline, world.clock, ["east"]).statuses()["east"]
    assert isinstance(measured, DatacenterStatus)
    metric = worst(measured.verdicts[promise]).level
    first, verdicts = status_and_verdicts(world)
    assert verdicts[promise].level == watched.level == metric
    assert first.startswith("All is well") is (metric == "ok"), first
    return metric


def read(world: World, good: int, dead: int = 0, unmet: int = 0, mode: Mode = "complete") -> None:
    """Have a join read so many clicks of each kind more; a second of them is another file."""
    number = len(list((world.folder / "logs" / "east" / "clicks").iterdir()))
    file, ids = f"{number}.jsonl", [f"{number}-{each}" for each in range(good)]
    world.queries(*ids, file=file)
    world.clicks(*((each, each) for each in ids), file=file)
    world.clicks(*((f"u{number}-{each}", "nowhere") for each in range(unmet)), file=file)
    world.log("east", "clicks", *["no event\n"] * dead, file=file)
    world.join(mode=mode)


@pytest.mark.parametrize("mode", a_share(["complete", "until_idle"], 0, of=2))
@pytest.mark.parametrize(
    ("good", "dead", "level"),
    [
        (100, 0, "ok"),
        (80, 20, "error"),
        (40, 60, "error"),
        (10, 90, "error"),
        (0, 100, "error"),
        (800, 1_200, "error"),
        (1, 2, "warn"),
        (0, 1, "warn"),
    ],
)
def test_a_join_that_ran_once_is_judged_by_what_it_has_read(
    tmp_path: Path, mode: Mode, good: int, dead: int, level: Level
) -> None:
    world = World(tmp_path)
    world.queries("one")
    read(world, good, dead, mode=mode)
    assert level_everywhere(world, "dead_letters") == level


def test_half_a_line_and_events_without_their_primary_are_no_work_that_nobody_does(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.queries("q1")
    world.clicks(("c1", "q1"), ("c2", "not yet"))
    world.join()
    world.log("east", "clicks", '{"click": "c3"')
    world.clock.advance(2 * HOUR_SECONDS)
    assert level_everywhere(world, "works") == "ok"
    assert status_and_verdicts(world)[0] == "All is well: east is at half a line"
    world.log("east", "clicks", ', "query": "q1", "at": 1}\n')
    first, verdicts = status_and_verdicts(world)
    assert (verdicts["works"].level, first.endswith("east is not running")) == ("warn", True)


def test_primaries_that_come_late_mend_what_was_bad(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.queries("one")
    read(world, 0, unmet=100)
    assert level_everywhere(world, "unjoinable") == "error"
    world.queries("nowhere")
    world.join()
    assert level_everywhere(world, "unjoinable") == "ok"
    read(world, 0, unmet=0)
    world.clicks(*((f"v{each}", "never") for each in range(50)), file="late.jsonl")
    world.join(mode="complete")
    assert level_everywhere(world, "unjoinable") == "warn", "50 of 150, and none of them was mended"


def test_a_lake_that_is_gone_is_told_by_every_light(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.events("c1")
    world.join()
    assert level_everywhere(world, "works") == "ok"
    lake = world.pipeline.datacenters["east"].lake
    assert isinstance(lake, Path)
    lake.rename(tmp_path / "not mounted")
    assert level_everywhere(world, "works") == "warn"  # at one look
    assert status_and_verdicts(world)[0].endswith("east can't use its lake")


def test_a_state_that_is_gone_beside_a_lake_is_no_datacenter_that_never_ran(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.events("c1")
    world.join()
    world.state().rename(tmp_path / "moved away")
    first, verdicts = status_and_verdicts(world)
    assert first == "1 of 1 datacenter needs somebody: east has lost its state"
    assert str(world.state()) in verdicts["works"].remedy
    one = status_of(world.pipeline, "east", world.clock, Decisions())
    said = headline(one, "p.yaml")
    assert said.startswith("east has no state, and its lake has rows: put the state folder back")


def test_records_of_which_none_has_a_key_are_no_promise_kept(tmp_path: Path) -> None:
    """Broken variant: each is skipped, nothing is joined, and all is well."""
    world = World(tmp_path)
    world.queries("q1")
    world.clicks(*((f"c{n}", None) for n in range(100)))
    world.join()
    assert level_everywhere(world, "unjoinable") == "error"
    first, verdicts = status_and_verdicts(world)
    assert first.endswith("east joins nothing, for no foreign record has a key")
    assert "the newest lines have click, query, at" in verdicts["unjoinable"].says


def test_a_data_file_that_is_gone_is_told_before_any_verification(tmp_path: Path) -> None:
    world = World(tmp_path)
    read(world, 3)
    (file,) = (world.pipeline.datacenters["east"].lake / "joined_events").glob("_event_date=*/*.parquet")  # type: ignore[union-attr]
    file.unlink()
    assert level_everywhere(world, "works") == "error"
    first, verdicts = status_and_verdicts(world)
    assert first.endswith("east lacks data files of its tables")
    assert "1 data file is gone that version" in verdicts["works"].says
    assert f"such as {file}; put them back from a copy of the lake" in verdicts["works"].says
