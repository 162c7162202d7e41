import shutil
from dataclasses import replace

import numpy as np
import pyarrow.dataset as ds
import pytest

from photon import read
from photon.cli.trace import trace_text
from photon.registry.appending import append
from photon.registry.entry import Claimant, Claims, Entry, Epoch, LedgerId
from photon.registry.generations import raise_boundary
from photon.tracing.log_search import may_contain
from photon.tracing.report import DatacenterTrace, LogRecord, SearchedFile, SearchedLog, Trace
from tests.simulation.reading import asking
from tests.simulation.world import NOON_US, World, hashed
from tests.support.commands import photon


@pytest.fixture
def world(tmp_path):
    return World(tmp_path, ("east", "west"))


def traced(world, event_id, **more):
    return world.trace(event_id, **more)


def test_a_joined_event_says_where_when_and_from_what(world):
    world.everywhere("c1")
    world.join("east")
    found = traced(world, "c1")
    (row,) = found.datacenters["east"].rows
    holder = found.registry
    assert (holder.id_status, holder.holder_state, holder.batch) == ("joined", "live", row["_batch"])
    assert holder.holder == f"east:{row['_epoch']}:{row['_batch']}#{row['_plan']}"
    assert (holder.occurrence, holder.time_us) == (row["_occurrence"], NOON_US)
    shown = trace_text(found)
    assert f"registry: joined by {holder.holder}, whose epoch is live" in shown
    assert f"position {holder.position} of ledger {holder.ledger}, for the record 1:0" in shown
    assert found.verdict.startswith(
        f"Joined by datacenter east in batch {row['_batch']} of epoch {row['_epoch']}"
    )
    assert [record.was_read for record in found.datacenters["west"].records] == [False]


def test_a_primary_that_came_but_was_not_read_yet_is_named(world):
    world.clicks(("c1", "q1"))
    world.join("east")
    world.queries("q1")
    assert "Its primary event is in queries/a.jsonl at offset 0 (not yet read)" in traced(world, "c1").verdict


def test_an_unjoinable_event_is_given_up_until_its_primary_is_read(world):
    world.clicks(("c1", "q1"))
    world.join("east", "complete")
    found = traced(world, "c1")
    assert found.datacenters["east"].unjoined[0]["key"] == "q1"
    assert "east: given up as unjoinable" in found.verdict
    assert "given up until its primary is read" in trace_text(found)


def test_a_line_that_is_no_event_is_found_by_the_id_in_it(world):
    world.log("east", "clicks", '{"click": "c1", "query"\n')
    world.join("east")
    assert "east: it is a dead letter: " in traced(world, "c1").verdict


def test_an_event_without_a_key_was_skipped(world):
    world.clicks(("c1", None))
    world.join("east")
    assert "east: it was read and skipped: it has no key." in traced(world, "c1").verdict


def test_every_record_of_an_event_is_found_in_every_file(world):
    world.events("c1", "c2", "c1")
    world.clicks(("c1", "q1"), file="b.jsonl")
    world.join("east")
    found = traced(world, "c1")
    paths = [record.path for record in found.datacenters["east"].records]
    assert paths == ["clicks/a.jsonl", "clicks/a.jsonl", "clicks/b.jsonl"]
    assert "Datacenter east has 3 records of it: all but one are duplicates." in found.verdict


def test_records_that_came_after_gc_are_told_from_duplicates():
    row = dict.fromkeys(("_batch", "_epoch", "_occurrence", "_primary_occurrence", "_joined_at"), "")
    records = [LogRecord("clicks/a.jsonl", 1, offset, 0, "q1", True) for offset in range(4)]
    found = Trace("c1", True, datacenters={"east": DatacenterTrace([row], too_old=[{}], records=records)})
    assert "4 records of it: one that was joined, 1 too old" in found.verdict
    assert "2 duplicates" in found.verdict


def test_without_the_logs_an_unknown_id_may_still_be_in_them(world):
    world.clicks(("c1", "q1"))
    found = traced(world, "c1", search_logs=False)
    assert "The logs were not searched." in found.verdict


def test_a_joined_event_without_a_row_is_told_with_its_holder(world):
    world.table("west").create("p", "west")
    holder = world.registered_elsewhere("c1")
    assert f"The registry says it is joined by {holder}, but there is no row" in traced(world, "c1").verdict


def test_plans_that_claimed_the_event_too_late_are_told(world):
    world.registered_elsewhere("c1")
    place = np.zeros(1, np.uint32), np.zeros(1, np.int64)
    late = Claims(Claimant(Epoch("east", 1), 1, "late"), hashed("c1"), np.array([NOON_US]), *place)
    registry, ledgers = world.reader(), range(world.ledgers.register.generations[0].ledgers)
    for number in ledgers:  # any of them may have the id
        append(registry.view, registry.positions, {LedgerId(0, number): lambda state: Entry(claims=late)})
    found = traced(world, "c1")
    assert found.registry.also_claimed == ("east:1:1#late",)
    assert "too late     east:1:1#late" in trace_text(found)


def test_the_boundary_is_told_and_an_event_below_it_is_too_old(world):
    registry = world.reader()
    raise_boundary(registry.view, registry.positions, NOON_US)
    world.clicks(("c1", "q1"), at_us=NOON_US - 1)
    found = traced(world, "c1")
    assert (found.registry.id_status, found.registry.boundary_us) == ("too old", NOON_US)
    assert "earlier events are too old" in trace_text(found)


def test_without_the_registry_the_rest_is_shown_and_the_missing_part_is_named(world):
    world.events("c1")
    world.join("east")
    world.ledgers.is_away = True
    found = traced(world, "c1")
    assert found.verdict.startswith("Joined by datacenter east")
    assert any("registry" in problem for problem in found.problems)


def test_a_datacenter_whose_lake_is_missing_is_named(world):
    world.events("c1")
    world.join("east")
    world.join("west")
    shutil.rmtree(world.pipeline.datacenters["west"].lake)
    found = traced(world, "c1")
    assert found.verdict.startswith("Joined by datacenter east")
    assert any("datacenter west: no table joined_events" in problem for problem in found.problems)


def test_the_command_refuses_a_pipeline_file_that_is_not_there(tmp_path):
    result = photon("trace", tmp_path / "none.yaml", "c1")
    assert result.exit_code == 2


# -- the verdict alone


def row(batch):
    values = {"_batch": batch, "_epoch": "e", "_occurrence": "1:0", "_primary_occurrence": "2:0"}
    return {**values, "_plan": "p", "_joined_at": "noon", "_event_time": None, "file": f"{batch}.parquet"}


def test_two_rows_of_one_event_are_told_as_what_must_not_be():
    both = {"east": DatacenterTrace(rows=[row(1)]), "west": DatacenterTrace(rows=[row(2)])}
    assert Trace("c1", True, datacenters=both).verdict.startswith("A violation: joined 2 times, ")


def test_a_log_of_many_files_is_told_by_its_latest_ones_and_the_count_of_the_others():
    latest = SearchedFile("clicks/b.jsonl", 900, 800, NOON_US)
    log = SearchedLog("foreign", 5, 2_000, 1_500, NOON_US, (latest,))
    lines = trace_text(Trace("c1", True, datacenters={"east": DatacenterTrace(searched=[log])})).splitlines()
    assert [line.split() for line in lines if "more" in line] == [["and", "4", "more", "files"]]


# -- looking into bytes


@pytest.mark.parametrize(
    ("event_id", "data", "may_be"),
    [
        ("c1", b'{"click": "c1"}', True),
        ("c1", b'{"click": "c2"}', False),
        ("c1", rb'{"click": "\u0063\u0031"}', True),
        ('say "c1"', b"anything", True),
    ],
)
def test_bytes_are_passed_over_only_where_the_id_can_not_be(world, event_id, data, may_be):
    assert may_contain(data, [event_id], world.pipeline.foreign) is may_be


# -- reading what was joined


def test_readers_see_the_union_of_all_datacenters_and_can_filter_by_any_column(world):
    for name in ("east", "west"):
        world.queries("q1", "q2", datacenter=name)
    world.clicks(("c1", "q1"), datacenter="east")
    world.clicks(("c2", "q2"), datacenter="west")
    world.join("east")
    world.join("west")
    rows = read.joined(world.pipeline, retired=()).to_table()
    assert sorted(rows["_event_id"].to_pylist()) == ["c1", "c2"]
    only = read.joined(world.pipeline, retired=()).to_table(filter=ds.field("click") == "c2")
    assert only["primary_text"].to_pylist() == ["text of q2"]


def test_readers_do_not_see_rows_of_datacenters_that_they_leave_out(world):
    for name in ("east", "west"):  # both datacenters' epochs have the same number
        world.events(f"of {name}", datacenter=name)
        world.join(name)
    rows = read.joined(world.pipeline, retired=["east"]).to_table()
    assert rows["_event_id"].to_pylist() == ["of west"]


@pytest.mark.parametrize(("gone", "rows"), [((), 1), (("east",), 0)])
def test_readers_do_not_see_rows_of_a_datacenter_whose_lake_was_given_up(world, gone, rows):
    world.events("c1")
    world.join("east")
    world.reader().change(lambda register: replace(register, given_up=("east",), lakes_gone=gone))
    with asking(world):
        assert read.joined(world.pipeline).to_table().num_rows == rows


def test_before_the_first_join_there_are_no_rows(world):
    assert read.joined(world.pipeline, retired=()).to_table().num_rows == 0
