"""Verbs that die on their way, as processes of their own, are run again: nothing is lost or joined twice."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from photon.dispatcher.recovery.orders import waiting_orders
from photon.pipeline.file import load_pipeline
from photon.process.faults import GC_FAULT_POINTS, ORDER_FAULT_POINTS
from photon.registry.opening import close_registries, read_register
from tests.e2e.gc_world import DAY_US, World
from tests.e2e.outages.commands import DONE, KILLED, command
from tests.e2e.photon_process import joined_rows, photon, photon_json
from tests.support.local_servers import local_server
from tests.support.shares import a_share

pytestmark = [pytest.mark.server, pytest.mark.slow]

# -- gc

MANY = 400  # events whose claims fill a generation of the command (`outages.commands`)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with local_server(tmp_path_factory.mktemp("dynamodb")) as started:
        yield started


@pytest.fixture
def old(tmp_path: Path, url: str) -> Iterator[World]:
    """Events of 40 days ago that are joined and verified, of which ids are kept for 30 days."""
    world = World(tmp_path, url)
    world.write_events(world.now_us - 40 * DAY_US + MANY, MANY, "many")
    world.join()
    world.verified(until_us=world.now_us)
    close_registries()
    yield world
    close_registries()


# Tests of one process die at all of these points (tests/simulation: test_gc, test_recovery).
@pytest.mark.parametrize("point", a_share(GC_FAULT_POINTS, 1))
def test_a_gc_that_is_killed_is_run_again_and_what_it_dropped_is_not_joined_again(
    old: World, tmp_path: Path, point: str
) -> None:
    before = old.rows()
    assert command(tmp_path, ("registry", "gc", old.file), point) == KILLED
    assert command(tmp_path, ("registry", "gc", old.file)) == DONE
    assert read_register(old.pipeline).generations[0].is_dropped
    old.write_events(old.now_us - 40 * DAY_US + MANY, MANY, "logged again")
    old.write_young_events()
    counts = old.join()
    assert set(old.rows().values()) == {1}
    assert counts["joined"] == len(old.rows()) > len(before)


# -- fill

DAY, AT_US, EVENTS = "2026-01-05", 1_767_607_200_000_000, 30
LOST = ["c3", "c7", "c29"]
PIPELINE = """
name: fills
datacenters: {east: {logs: logs/east}}
primary: {files: "queries/*.jsonl", format: jsonl, id: query, time: at, time_unit: us}
foreign: {files: "clicks/*.jsonl", format: jsonl, id: click, key: query, time: at, time_unit: us}
"""
COMPLETE = ("--complete", "--engine", "local")


@pytest.fixture
def lacking(tmp_path: Path) -> Path:
    """A datacenter that has joined, and of whose rows three are gone; the pipeline file."""
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE)
    for side, record in (("queries", {"query": "q"}), ("clicks", {"query": "q", "click": "c"})):
        folder = tmp_path / "logs" / "east" / side
        folder.mkdir(parents=True)
        ids = ({key: f"{id_}{n}" for key, id_ in record.items()} for n in range(EVENTS))
        lines = (json.dumps(each | {"at": AT_US + n}) for n, each in enumerate(ids))
        (folder / "a.jsonl").write_text("".join(f"{line}\n" for line in lines))
    photon("join", file, *COMPLETE)
    table = load_pipeline(file).datacenters["east"].lake / "joined_events"
    DeltaTable(str(table)).delete(f"_event_id in ({', '.join(map(repr, LOST))})")
    return file


def assert_whole(file: Path) -> None:
    ids = Counter(joined_rows(file)["_event_id"].to_pylist())
    assert ids == Counter(f"c{n}" for n in range(EVENTS))
    assert photon_json("verify", file)["ok"]
    assert waiting_orders(load_pipeline(file).datacenters["east"].state) == []


@pytest.mark.parametrize("point", a_share([*ORDER_FAULT_POINTS[:2], "lake.after_load:2"], 2))
def test_a_fill_that_is_killed_is_run_again_and_each_event_has_one_row(lacking: Path, point: str) -> None:
    fill = ("backfill", lacking, "-d", "east", "--day", DAY)
    assert photon(*fill, status=None, crash_at=point).returncode == -9
    photon(*fill)
    photon("join", lacking, *COMPLETE)
    assert_whole(lacking)


@pytest.mark.parametrize(
    "point", a_share(["order.after_segment", "order.after_taken", "commit.after_main"], 1)
)
def test_a_join_that_is_killed_over_what_a_fill_has_ordered_joins_it_once(lacking: Path, point: str) -> None:
    photon("backfill", lacking, "-d", "east", "--day", DAY)
    assert photon("join", lacking, *COMPLETE, status=None, crash_at=point).returncode == -9
    photon("join", lacking, *COMPLETE)
    assert_whole(lacking)
