"""`photon availability` and the sentences of other commands, of a datacenter that was down for a while."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from dagster import AssetCheckSeverity

from examples.demo.traffic import Traffic
from photon.assets.reports import availability_check, availability_metadata
from photon.pipeline.file import load_pipeline
from photon.pipeline.sections import Availability
from photon.verification.availability.budget import MINUTE_US, Minute
from photon.verification.availability.report import AvailabilityReport, judge_all, report_of
from tests.simulation.test_availability import SECOND, START_US, Live, make
from tests.simulation.world import World
from tests.support.commands import photon

FIRST_MINUTE = "2023-11-14T22:14"  # the minute that begins at `START_US`


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    made = make(tmp_path_factory.mktemp("availability"), datacenters=("east", "west"))
    Live(made).run(5)
    made.queries("q", at_us=START_US + 10 * SECOND)
    made.clicks(("slow", "q"), at_us=START_US + 20 * SECOND)
    made.clock.advance(70)
    Live(made).run(130)
    judge_all(made.pipeline, {"east": None, "west": None}, made.clock.now_us(), "a run")
    return made


def run(world: World, *arguments: str) -> Result:
    command, *options = arguments
    return photon(command, world.pipeline.file, *options)


def test_it_says_how_many_minutes_were_bad_and_names_the_latest(world: World) -> None:
    said = run(world, "availability").output
    assert "availability of east: 1 bad minute in 28 days, of 403 allowed" in said
    assert "availability of west: no minute was judged yet" in said
    assert "availability of all datacenters: 1 bad minute" in said
    assert f"{FIRST_MINUTE.replace('T', ' ')} UTC: 1 of 1 event not readable in time" in said


def test_a_bad_minute_leads_to_its_slowest_event_and_the_place_of_its_line(world: World) -> None:
    said = run(world, "availability", "--minute", FIRST_MINUTE).output
    (line,) = [line for line in said.splitlines() if "slow took" in line]
    assert "clicks/a.jsonl at byte" in line
    assert "primary event queries/a.jsonl at byte" in line
    assert "west: no event became joinable" in said


def test_as_json_it_gives_numbers(world: World) -> None:
    value = json.loads(run(world, "availability", "--json").output)
    assert value["budgets"]["all datacenters"]["bad"] == 1
    assert value["budgets"]["west"] is None
    of_minute = run(world, "availability", "--minute", FIRST_MINUTE, "-d", "east", "--json")
    (event,) = json.loads(of_minute.output)["east"]
    assert event["event_id"] == "slow"


def test_what_is_no_minute_is_refused(world: World) -> None:
    result = run(world, "availability", "--minute", "yesterday")
    assert result.exit_code == 2
    assert "expected a minute such as 2026-01-31T10:42" in result.output


def test_status_says_it_in_a_sentence(world: World) -> None:
    assert "availability of all datacenters: 1 bad minute" in run(world, "status").output


def test_a_lake_that_cannot_be_read_is_named_and_the_others_are_told(tmp_path: Path) -> None:
    world = make(tmp_path, datacenters=("east", "west"))
    Live(world).run(70)
    lake = world.pipeline.datacenters["west"].lake
    (lake / "availability_minutes" / "_delta_log").mkdir(parents=True)
    (lake / "availability_minutes" / "_delta_log" / f"{0:020d}.json").write_text("{")
    report = judge_all(world.pipeline, {"east": None}, world.clock.now_us(), "a run")
    assert report.newly_judged == 1
    assert list(report.problems) == ["west"]
    assert any("west: NOT KNOWN: cannot read" in line for line in report.sentences())


def test_of_a_lake_that_is_away_no_minute_is_known(tmp_path: Path) -> None:
    world = make(tmp_path)
    Live(world).run(70)
    world.pipeline.datacenters["east"].lake.rename(tmp_path / "away")
    (sentence, *_) = report_of(world.pipeline).sentences()
    assert "east: NOT KNOWN: there is no table" in sentence
    assert "put it back" in sentence


# -- under Dagster


def report(bad: int) -> AvailabilityReport:
    """Report on a day with so many bad minutes."""
    minutes = [Minute(START_US + at * MINUTE_US, 10, 9 if at < bad else 10) for at in range(24 * 60)]
    return AvailabilityReport(Availability(), {"east": {each.at_us: each for each in minutes}})


def test_the_budget_is_in_numbers_that_dagster_plots(world: World) -> None:
    metadata = availability_metadata(report_of(world.pipeline))
    assert (metadata["bad_minutes"], metadata["bad_minutes_left"]) == (1, 402)
    assert "slow" not in str(metadata["availability"])


def test_there_is_a_picture_small_enough_to_be_stored_each_hour() -> None:
    picture = availability_metadata(report(30))["availability_picture"].value  # type: ignore[union-attr]
    assert str(picture).startswith("![events that were late](data:image/png;base64,")
    assert len(str(picture)) < 20_000


@pytest.mark.parametrize(
    ("bad", "passed", "severity"),
    [(5, True, None), (41, False, AssetCheckSeverity.WARN), (404, False, AssetCheckSeverity.ERROR)],
)
def test_the_check_warns_when_the_budget_burns_and_fails_when_it_is_used_up(
    bad: int, passed: bool, severity: AssetCheckSeverity | None, tmp_path: Path
) -> None:
    pipeline = load_pipeline(Traffic(1).write_pipeline(tmp_path))
    check = availability_check(report(bad), pipeline)
    if not passed:
        assert f"photon availability {pipeline.file} --minute " in str(check.description)
    assert check.passed is passed
    assert passed or check.severity is severity


def test_without_a_minute_there_is_nothing_to_warn_of(tmp_path: Path) -> None:
    nothing = AvailabilityReport(Availability(), {"east": {}})
    assert availability_check(nothing, load_pipeline(Traffic(1).write_pipeline(tmp_path))).passed
    assert set(availability_metadata(nothing)) == {"availability", "minutes_judged"}
