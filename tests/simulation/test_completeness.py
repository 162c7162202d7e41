"""Whole datacenters say how complete their rows are, in line with the records that wait."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from photon.dispatcher.completion import Results
from photon.dispatcher.landed_logs import NO_FILE
from photon.dispatcher.observing import CompletenessWatch
from photon.join.messages import JoinResult
from photon.logs.unread_files import UnreadFile
from photon.process.clock import MICROSECONDS
from photon.process.errors import FormatTooNew
from photon.process.faults import watched
from photon.read import watermark
from photon.state.completeness.arrivals import MINUTE_US
from photon.state.completeness.published import DOCUMENT, published
from photon.storage import store
from tests.simulation.world import NOON_US, World

SECOND = MICROSECONDS


def said(world: World, datacenter: str = "east") -> Any:
    found = published(world.pipeline.datacenters[datacenter].lake)
    assert found is not None
    return found[0]


def at(time_us: int) -> datetime:
    return datetime.fromtimestamp(time_us / MICROSECONDS, UTC)


def test_rows_are_complete_up_to_the_latest_click_when_all_are_joined(world: World) -> None:
    world.queries("q")
    world.clicks(("c1", "q"), at_us=NOON_US - 9 * SECOND)
    world.clicks(("c2", "q"), at_us=NOON_US - 5 * SECOND)
    world.join()
    assert watermark(world.pipeline, retired=()).complete_up_to == at(NOON_US - 5 * SECOND)


def test_a_click_whose_query_is_not_there_yet_holds_the_time_back_until_it_is_joined(world: World) -> None:
    world.queries("q")
    world.clicks(("c1", "later"), at_us=NOON_US - 9 * SECOND)
    world.clicks(("c2", "q"), at_us=NOON_US - 5 * SECOND)
    world.join()
    assert (said(world).complete_up_to_us, said(world).waiting) == (NOON_US - 9 * SECOND, 1)
    world.queries("later")
    world.join()
    assert (said(world).complete_up_to_us, said(world).waiting) == (NOON_US - 5 * SECOND, 0)


def test_clicks_that_were_given_up_hold_back_nothing(world: World) -> None:
    world.queries("q")
    world.clicks(("c1", "never"), at_us=NOON_US - 9 * SECOND)
    world.clicks(("c2", "q"), at_us=NOON_US - 5 * SECOND)
    world.join(mode="complete")
    assert said(world).complete_up_to_us == NOON_US - 5 * SECOND


def test_a_wild_time_does_not_move_it(world: World) -> None:  # C6
    world.queries("q")
    world.clicks(("c1", "q"), at_us=NOON_US)
    world.clicks(("c2", "q"), at_us=NOON_US + 100 * 365 * 86_400 * SECOND)
    world.join()
    found = published(world.pipeline.datacenters["east"].lake)
    assert found is not None
    assert (found[0].complete_up_to_us, found[1].records) == (NOON_US, {NOON_US // MINUTE_US: 1})


def test_nothing_is_said_while_a_plan_that_died_is_to_be_done(world: World) -> None:
    world.events("c1", query="q")
    assert world.join_with_a_crash("batch.after_run")
    state = world.read_state()
    watch = CompletenessWatch(world.pipeline, "east", state)
    watch.completed(Results(join=[JoinResult(came={NOON_US // MINUTE_US: 1})]))
    foreign = [each for each in state.files().values() if each.file.side == "foreign"]
    view = world.reader().view
    watch.tend(foreign, NOON_US, True, view, settled=lambda read_us, before_us: read_us, ends=True)
    assert published(world.pipeline.datacenters["east"].lake) is None
    world.join()
    assert said(world).complete_up_to_us == NOON_US


def test_a_silence_that_goes_on_is_said_without_a_batch(world: World) -> None:
    world.events("c1", query="q")
    world.join()
    watch = CompletenessWatch(world.pipeline, "east", world.read_state())
    for minutes, expected in ((0, None), (10, NOON_US + 600 * SECOND)):
        now_us = NOON_US + minutes * 60 * SECOND
        silent = [replace(NO_FILE, grown_us=now_us, max_time_us=now_us)]
        said_now = watch.tend(silent, now_us, False, world.reader().view, settled=lambda read_us, _: read_us)
        assert (said_now and said_now.read_up_to_us) == expected


def test_a_silent_log_beside_a_file_that_is_not_read_makes_no_news(world: World) -> None:
    world.events("c1", query="q")
    world.join()
    watch = CompletenessWatch(world.pipeline, "east", world.read_state())
    bad, said = UnreadFile("foreign", "a.log", "file", 7, 100, 5, 5, b"head", "no", 1), list[bool]()
    for minutes in range(4):
        now_us = NOON_US + minutes * 60 * SECOND
        silent = [replace(NO_FILE, grown_us=now_us, max_time_us=now_us)]
        view, settled = world.reader().view, lambda read_us, _: read_us
        said.append(watch.tend(silent, now_us, False, view, settled, unread=[bad]) is not None)
    assert said == [True, False, False, False]  # that a file is not read is news once


def test_a_new_epoch_says_only_what_it_has_read_itself(world: World) -> None:
    world.queries("q")
    world.clicks(("c1", "q"), at_us=NOON_US - SECOND)
    world.join()
    first = said(world)
    for file in world.state().glob("*.sqlite*"):
        file.unlink()
    world.clicks(("c2", "q"))
    world.join()
    assert said(world).epoch != first.epoch
    assert (said(world).complete_up_to_us, said(world).came) == (NOON_US, 2)


def test_the_union_is_as_complete_as_the_best_of_its_datacenters(tmp_path: Path) -> None:
    world = World(tmp_path, ("east", "west"))
    for datacenter in ("east", "west"):
        world.queries("q", datacenter=datacenter)
        world.clicks(("c1", "q"), datacenter=datacenter, at_us=NOON_US - 9 * SECOND)
    world.join("east")
    world.join("west")
    world.clicks(("c2", "q"), datacenter="west")
    world.join("west")
    world.clock.sleep(10)
    world.join("west")  # west takes over the events that it had left to east
    now = watermark(world.pipeline, retired=())
    assert set(now.datacenters) == {"east", "west"}
    assert now.complete_up_to == at(NOON_US)
    assert watermark(world.pipeline, retired=("west",)).complete_up_to == at(NOON_US - 9 * SECOND)


def test_a_lake_that_takes_no_document_stops_no_join(world: World) -> None:
    def is_full(point: str, place: object) -> None:
        if point == "disk.before_write" and DOCUMENT in str(place):
            raise OSError("no space left")

    world.events("c", query="q")
    with watched(is_full):
        world.join()
    assert world.joined_ids() == ["c"]
    world.clicks(("d", "q"))
    world.join()
    assert said(world).complete_up_to_us == NOON_US


def test_a_document_that_is_damaged_is_written_anew(world: World) -> None:
    world.events("c", query="q")
    world.join()
    lake = world.pipeline.datacenters["east"].lake
    store.store_of(lake).put(DOCUMENT, lambda sink: sink.write(b"{") and None)
    world.clicks(("d", "q"))
    world.join()
    assert said(world).complete_up_to_us == NOON_US


def test_a_document_of_a_newer_photon_is_refused(world: World) -> None:
    world.events("c", query="q")
    world.join()
    path = Path(str(world.pipeline.datacenters["east"].lake)) / DOCUMENT
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))
    with pytest.raises(FormatTooNew):
        watermark(world.pipeline, retired=())
