import json
import shutil
from dataclasses import replace

import pytest
from click.testing import CliRunner

from photon import read
from photon.cli.main import main
from photon.cli.trace import trace_text
from photon.pipeline.event_key import EventKey
from photon.registry.consensus.register import EpochRecord
from photon.registry.interface import Claim
from photon.tokens import Occurrence, PlanKey
from photon.tracing.log_search import may_contain
from photon.tracing.report import DatacenterTrace, LogRecord, RegistryAnswer, Trace
from tests.simulation.world import World


@pytest.fixture
def world(tmp_path):
    return World(tmp_path, ("east", "west"))


def traced(world, event_id, **more):
    return world.trace(event_id, **more)


def test_a_joined_event_says_where_when_and_from_what(world):
    for name in ("east", "west"):
        world.queries("q1", datacenter=name)
        world.clicks(("c1", "q1"), datacenter=name)
    world.join("east")
    found = traced(world, "c1")
    (row,) = found.datacenters["east"].rows
    holder = found.registry[0]
    assert holder.datacenter == "east"
    assert holder.token.endswith(row["_occurrence"])
    assert found.verdict.startswith(
        f"Joined by datacenter east in batch {row['_batch']} of epoch {row['_epoch']}"
    )
    assert [record.was_read for record in found.datacenters["west"].records] == [False]


def test_a_waiting_event_says_for_what_it_waits_and_since_when(world):
    world.clicks(("c1", "q1"))
    world.join("east")
    found = traced(world, "c1")
    (waiting,) = found.datacenters["east"].waiting
    assert (waiting.reason, waiting.status) == ("primary", "open")
    assert "east: it waits (primary)" in found.verdict
    assert "No primary event with its key q1 is in this datacenter's logs." in found.verdict


def test_a_primary_that_came_but_was_not_read_yet_is_named(world):
    world.clicks(("c1", "q1"))
    world.join("east")
    world.queries("q1")
    assert "Its primary event is in queries/a.jsonl at offset 0 (not yet read)" in traced(world, "c1").verdict


def test_an_unjoinable_event_is_given_up_until_the_next_start(world):
    world.clicks(("c1", "q1"))
    world.join("east", "complete")
    found = traced(world, "c1")
    assert found.datacenters["east"].unjoined[0]["key"] == "q1"
    assert "east: given up as unjoinable" in found.verdict
    assert "given up until the next start" in trace_text(found)


def test_a_line_that_is_no_event_is_found_by_the_id_in_it(world):
    world.log("east", "clicks", '{"click": "c1", "query"\n')
    world.join("east")
    assert "east: it is a dead letter: " in traced(world, "c1").verdict


def test_an_event_without_a_key_was_skipped(world):
    world.clicks(("c1", None))
    world.join("east")
    assert "east: it was read and skipped: it has no key." in traced(world, "c1").verdict


def test_every_record_of_an_event_is_found_in_every_file(world):
    world.queries("q1")
    world.clicks(("c1", "q1"), ("c2", "q1"), ("c1", "q1"))
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


def test_an_id_that_nobody_knows_is_unknown(world):
    world.join("east")
    world.join("west")
    found = traced(world, "nobody")
    assert found.verdict.startswith(
        "Unknown: no table, no waiting list, no log and no registry knows this id."
    )


def test_without_the_logs_an_unknown_id_may_still_be_in_them(world):
    world.clicks(("c1", "q1"))
    found = traced(world, "c1", search_logs=False)
    assert "The logs were not searched." in found.verdict


def test_a_registered_event_without_a_row_is_told_with_its_holder(world):
    token = PlanKey("west", "e9", 4, "p").token(Occurrence(1, 0))
    world.registry.commit([Claim(EventKey("c1"), token)])
    assert f"registered by {token}, but there is no row" in traced(world, "c1").verdict


def test_without_the_registry_the_rest_is_shown_and_the_missing_part_is_named(world):
    world.queries("q1")
    world.clicks(("c1", "q1"))
    world.join("east")
    world.store.fail("down")
    found = traced(world, "c1")
    assert found.verdict.startswith("Joined by datacenter east")
    assert any("registry" in problem for problem in found.problems)


def test_a_datacenter_whose_lake_is_missing_is_named(world):
    world.queries("q1")
    world.clicks(("c1", "q1"))
    world.join("east")
    world.join("west")
    shutil.rmtree(world.pipeline.datacenters["west"].lake)
    found = traced(world, "c1")
    assert found.verdict.startswith("Joined by datacenter east")
    assert any("datacenter west: no table joined_events" in problem for problem in found.problems)


def test_the_json_form_holds_the_verdict_and_all_that_it_rests_on(world):
    world.clicks(("c1", "q1"))
    world.join("east")
    values = json.loads(json.dumps(traced(world, "c1").as_dict(), default=str))
    assert values["datacenters"]["east"]["waiting"][0]["reason"] == "primary"
    assert values["verdict"].startswith("Not joined.")


def test_the_command_refuses_a_pipeline_file_that_is_not_there(tmp_path):
    result = CliRunner().invoke(main, ["trace", str(tmp_path / "none.yaml"), "c1"])
    assert result.exit_code == 2


# -- the verdict alone


def row(batch):
    values = {"_batch": batch, "_epoch": "e", "_occurrence": "1:0", "_primary_occurrence": "2:0"}
    return {**values, "_plan": "p", "_joined_at": "noon", "_event_time": None, "file": f"{batch}.parquet"}


def test_two_rows_of_one_event_are_told_as_what_must_not_be():
    both = {"east": DatacenterTrace(rows=[row(1)]), "west": DatacenterTrace(rows=[row(2)])}
    assert Trace("c1", True, datacenters=both).verdict.startswith("A violation: joined 2 times, ")


def test_two_events_of_one_id_with_different_times_may_both_be_joined():
    answers = [RegistryAnswer("held", 1, "east"), RegistryAnswer("held", 2, "east")]
    both = {"east": DatacenterTrace(rows=[row(1), row(2)])}
    found = Trace("c1", True, registry=answers, datacenters=both)
    assert "2 events of different times have this id" in found.verdict


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
    only = read.joined(world.pipeline, retired=()).to_table(filter=read.ds.field("click") == "c2")
    assert only["primary_text"].to_pylist() == ["text of q2"]


def test_readers_do_not_see_rows_of_retired_epochs(world):
    world.queries("q1")
    world.clicks(("c1", "q1"))
    world.join("east")
    (epoch,) = {row["_epoch"] for row in world.rows()}
    assert read.joined(world.pipeline, retired=[epoch]).to_table().num_rows == 0


def test_readers_do_not_see_rows_of_a_datacenter_that_was_given_up(world, monkeypatch):
    world.queries("q1")
    world.clicks(("c1", "q1"))
    world.join("east")
    monkeypatch.setattr(read, "find_registry", lambda pipeline: world.address)
    monkeypatch.setattr(read, "open_registry", lambda address: world.registry)
    assert read.joined(world.pipeline).to_table().num_rows == 1
    # Of the epoch that has the row there is no record any more.
    given_up = {"later": EpochRecord("east", "retired", "table", 1)}
    world.registry.register.change(lambda register: replace(register, epochs=given_up))
    assert read.joined(world.pipeline).to_table().num_rows == 0


def test_before_the_first_join_there_are_no_rows(world):
    assert read.joined(world.pipeline, retired=()).to_table().num_rows == 0
