"""A file that is there and not read is told wherever somebody asks how a datacenter is (D11)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from unittest import mock

import pytest
from click.testing import CliRunner

from photon.cli.acknowledge import acknowledge
from photon.cli.releases import lines_of
from photon.dispatcher.retrying import Callbacks
from photon.health.headline import headline, sentences
from photon.health.metrics.families import families
from photon.health.status import DatacenterStatus, status_of
from photon.process.clock import MICROSECONDS
from photon.releases.copies import latest
from photon.releases.sql import release_row
from photon.state.losses import plan_acknowledgement
from photon.state.points import recent_points
from photon.state.timeline import EpochTimeline
from photon.state.view import open_view
from photon.upkeep.gc import plan_gc
from photon.verification.availability.minutes import read_until_us
from photon.verification.days import DAY_US, Window, is_closed, watermark_of
from photon.verification.report import DatacenterReport
from photon.verification.stored_reports import StoredReport
from tests.simulation.reading import asking
from tests.simulation.unread_stories import folder_of
from tests.simulation.unread_stories import lines_of as log_lines_of
from tests.simulation.world import NOON_US, World
from tests.spark.both_engines import verify_alone

NAME = "b.jsonl.gz"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """One event is joined, and ids are kept for a day."""
    world = World(tmp_path, more="registry: {keep_days: 1}")
    world.events("c1")
    world.join()
    return world


def hide(world: World, kind: str) -> tuple[Path, bytes]:
    """Log another record in half a gzip file, and look; where it is, and all of it."""
    whole = gzip.compress(log_lines_of(kind, ("c2", "q2")), mtime=0)
    place = folder_of(world, kind) / NAME
    place.write_bytes(whole[:-1])
    world.clock.advance(3_600)
    world.join()
    return place, whole


def verified(world: World) -> DatacenterReport:
    with asking(world):
        return verify_alone(world.pipeline, ["east"]).datacenters["east"]


def status_now(world: World) -> DatacenterStatus:
    return status_of(world.pipeline, "east", world.clock)


@pytest.mark.parametrize("kind", ["queries", "clicks"])
def test_verification_says_that_it_is_not_verified_until_it_is_read(world: World, kind: str) -> None:
    place, whole = hide(world, kind)
    (one,) = verified(world).unverified
    assert (one.path, one.bytes) == (f"{kind}/{NAME}", len(whole) - 1)
    place.write_bytes(whole)
    world.join()
    assert verified(world).unverified == ()


def test_ids_are_not_collected_while_a_foreign_file_is_not_read(world: World) -> None:
    """Broken variant: its events would be joined a second time, or never, when it is read."""
    place, whole = hide(world, "clicks")

    def why_not() -> str:
        report = StoredReport(NOON_US, "run", 1.0, verified(world).as_dict())
        reports = {"east": report}
        with mock.patch("photon.upkeep.gc.newest", return_value=reports):
            return plan_gc(world.pipeline, world.reader(), world.clock).expected.because

    assert NAME in why_not()
    place.write_bytes(whole)
    world.join()
    assert NAME not in why_not()


def test_json_and_metrics_count_it_and_name_it(world: World) -> None:
    _, whole = hide(world, "clicks")
    told = json.loads(json.dumps(status_now(world).as_dict()))
    assert (told["unread_file_count"], told["unread_file_bytes"]) == (1, len(whole) - 1)
    (named,) = told["unread_files"]
    assert (named["path"], named["side"], named["kind"]) == (f"clicks/{NAME}", "foreign", "file")
    assert "ends early" in named["reason"]
    found = {one.name: one.samples[0].value for one in families({"east": status_now(world)}) if one.samples}
    assert (found["photon_unread_files"], found["photon_unread_file_bytes"]) == (1, len(whole) - 1)
    of_join = world.join().as_dict()
    assert (of_join["unread_file_count"], of_join["unread_file_bytes"]) == (1, len(whole) - 1)


def test_releases_say_so_while_it_lasts(world: World) -> None:
    place, whole = hide(world, "clicks")
    release = latest(world.pipeline.datacenters["east"].lake)
    assert release is not None
    assert any("east has not read 1 file of its logs" in line for line in lines_of(release))
    assert release_row(release)["unread_files"] == 1
    place.write_bytes(whole)
    world.clock.advance(60)
    world.join(mode="complete")
    release = latest(world.pipeline.datacenters["east"].lake)
    assert release is not None
    assert (release.unread_sentences(), release_row(release)["unread_files"]) == ([], 0)


def test_points_have_a_gauge_of_it(world: World) -> None:
    hide(world, "clicks")
    ends_us = world.clock.now_us() + 30 * MICROSECONDS
    world.join(mode="stop", callbacks=Callbacks(should_stop=lambda: world.clock.now_us() >= ends_us))
    assert recent_points(world.state())["unread_files"].to_pylist()[-1] == 1


def test_availability_counts_nothing_as_read_that_came_since(world: World) -> None:
    """Broken variant: minutes count as good whose events are in a file that nobody reads."""
    place, whole = hide(world, "clicks")

    def until_us() -> int:
        with open_view(world.state()) as state:
            assert state is not None
            now_us = world.clock.now_us()
            return read_until_us(world.pipeline, "east", state, EpochTimeline(), now_us)

    seen_us = world.clock.now_us()
    world.clock.advance(3_600)
    assert until_us() <= seen_us
    place.write_bytes(whole)
    world.join()
    assert until_us() == world.clock.now_us()


@pytest.mark.parametrize(("kind", "closed"), [("queries", False), ("clicks", True)])
def test_a_day_is_closed_only_where_all_primary_files_are_read(world: World, kind: str, closed: bool) -> None:
    world.queries("later", at_us=NOON_US + 2 * DAY_US)
    world.clock.advance(3 * DAY_US / MICROSECONDS)
    world.join(mode="complete")
    day = Window(NOON_US // DAY_US * DAY_US, (NOON_US // DAY_US + 1) * DAY_US)
    assert is_closed(day, watermark_of(world.pipeline, "east"))
    (folder_of(world, kind) / NAME).write_bytes(gzip.compress(b"x")[:-1])  # no join has seen it
    assert is_closed(day, watermark_of(world.pipeline, "east")) is closed


def test_who_acknowledges_it_is_told_how_long_it_can_be_joined_when_it_is_read(world: World) -> None:
    hide(world, "clicks")
    told = CliRunner().invoke(acknowledge, [str(world.folder / "pipeline.yaml"), "east", "--dry-run"])
    assert NAME in told.output
    assert "join as long as the registry keeps the ids of their time (registry.keep_days)" in told.output


def test_status_names_files_that_are_called_nearly_as_those_of_a_log(world: World) -> None:
    for name in ("a.jsonl.bz2", "b.JSONL"):
        (folder_of(world, "clicks") / name).write_bytes(b"1")
    (said,) = [one for one in sentences(status_now(world)) if "does not match" in one]
    assert "clicks/a.jsonl.bz2, clicks/b.JSONL: nobody reads them" in said
    assert not status_now(world).problems


@pytest.mark.parametrize("mode", ["until_idle", "complete"])
@pytest.mark.parametrize("kind", ["queries", "clicks"])
def test_what_is_acknowledged_is_red_no_more_and_nobody_waits_for_it(
    world: World, kind: str, mode: str
) -> None:
    place, whole = hide(world, kind)
    link = place.with_name("link.jsonl")
    link.symlink_to("/nowhere")
    world.join()
    status = status_now(world)
    assert "2 log files are not read" in status.verdicts["logs"][0].says
    assert "all that can be read of its logs was read" in headline(status, "pipeline.yaml")
    plan_acknowledgement(world.state(), world.clock.now_us()).apply()
    world.join(mode=mode)
    status = status_now(world)
    assert (status.verdicts["logs"][0].level, status.facts.activity) == ("ok", "at rest")
    told = status.as_dict()
    assert (told["given_up_file_count"], told["given_up_file_bytes"]) == (2, len(whole) - 1)
    (said,) = [one for one in sentences(status) if "which people know of" in one]
    assert said.startswith("2 log files (")
    place.write_bytes(whole)  # then it is another file
    assert status_now(world).facts.activity == "not running"
