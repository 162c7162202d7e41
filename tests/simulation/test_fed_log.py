"""A primary log that is fed: what waits is given up once the pipeline before is complete beyond it (G6)."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from photon.dispatcher.fed_log import S3_PAUSE_US, FedLog
from photon.feed.folder import FedFolder
from photon.feed.marker import ASIDE, MARKER
from photon.pipeline.location import Location
from tests.feed.made_steps import FED, step
from tests.simulation.feed_stories import MINUTE_US, FedWorld, a_file_that_the_marker_names_is_awaited
from tests.simulation.world import NOON_US


@pytest.fixture
def fed(tmp_path: Path) -> FedWorld:
    return FedWorld(tmp_path)


def test_an_event_is_given_up_once_the_first_pipeline_is_complete_beyond_it(fed: FedWorld) -> None:
    fed.conversions(c="k", orphan="never")
    fed.feed("k", complete_up_to_us=NOON_US + MINUTE_US - 1)  # `allowed_lateness` is a minute
    fed.expect(joined=1, pending=1, unjoinable=0)
    fed.feed(complete_up_to_us=NOON_US + MINUTE_US)
    fed.expect(joined=1, pending=0, unjoinable=1)


def test_later_times_in_its_files_move_nothing(fed: FedWorld) -> None:
    fed.conversions(orphan="never")
    fed.feed("k", complete_up_to_us=None)
    fed.expect(pending=1)


def test_without_a_marker_events_wait(fed: FedWorld) -> None:
    fed.conversions(c="k", orphan="never")
    fed.expect(pending=2)
    fed.feed("k", complete_up_to_us=2 * NOON_US)
    fed.expect(joined=1, pending=1)  # a time far ahead of the clock is none (C6)
    (fed.clicks / ASIDE / MARKER).write_text("{")
    fed.expect(joined=1, pending=1)


def test_a_file_that_the_marker_names_is_awaited(fed: FedWorld) -> None:
    a_file_that_the_marker_names_is_awaited(fed)


def test_where_the_first_pipeline_is_set_back_the_watermark_stands_still(fed: FedWorld) -> None:
    fed.conversions(first="never")
    fed.feed("k", complete_up_to_us=NOON_US + 10 * MINUTE_US)
    fed.expect(unjoinable=1)
    fed.feed("l", complete_up_to_us=NOON_US - MINUTE_US)
    fed.expect(unjoinable=1)
    with fed.world.state_of("east") as state:
        assert state.watermark_us == NOON_US + 10 * MINUTE_US


def test_a_marker_counts_from_the_first_listing_that_began_after_it_was_read(folder: Location) -> None:
    log = FedLog(folder)
    log.read(now_us=100)
    log.listed(at_us=100)
    assert log.marker is None
    with closing(FedFolder(folder, FED)) as sink:
        sink.deliver([step(1, after=None, complete_up_to_us=7)])
        log.read(now_us=S3_PAUSE_US + 100)
        log.listed(at_us=S3_PAUSE_US + 99)
        assert log.marker is None
        sink.deliver([step(2)])
        log.read(now_us=2 * S3_PAUSE_US + 100)  # the first one awaits its listing
        log.listed(at_us=2 * S3_PAUSE_US + 100)
    assert log.marker is not None
    assert (log.marker.release.number, log.marker.release.complete_up_to_us) == (1, 7)
    assert log.marker.last_file == "000000000001.jsonl"
