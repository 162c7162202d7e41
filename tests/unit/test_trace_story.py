"""The whole story of an event, and what to do where it has no row."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, get_args

import pytest

from photon.cli.trace import trace_text
from photon.registry.epochs import begin_epoch
from photon.tracing.advice import what_to_do
from photon.tracing.report import (
    WHY_REMOVED,
    DatacenterTrace,
    HolderState,
    LogRecord,
    RegistryAnswer,
    Trace,
    TracedWait,
)
from photon.tracing.table_rows import missing_table
from photon.upkeep.backfill.messages import Gone
from photon.upkeep.dead_letters.open_letters import plan_recovery_of_letters
from photon.upkeep.retire import plan_retire
from tests.simulation import failing_adapter
from tests.simulation.mending_stories import mend, world_with_a_bad_line
from tests.simulation.rebuilding import rebuild
from tests.simulation.recovery_stories import HOME, a_row_is_removed
from tests.simulation.verifying import recover_all
from tests.simulation.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, ("east", "west"), f"adapter: {failing_adapter.NAME}:join")


# -- what is asked


def test_a_joined_event_needs_nothing_and_says_when_its_batch_was_committed(world: World) -> None:
    world.events("c1")
    world.join()
    found = world.trace("c1")
    (row,) = found.datacenters["east"].rows
    since = datetime.now(UTC) - row["committed_at"]
    assert timedelta() <= since < timedelta(minutes=5)
    assert f"committed_at {row['committed_at']:%Y-%m-%d %H:%M:%S}" in trace_text(found)
    assert found.what_to_do == ""


def test_a_row_is_found_after_a_delete_which_writes_other_types(world: World) -> None:
    world.events("c1", "c2")
    world.join()
    world.table().load().delete("_event_id = 'c2'")
    assert world.trace("c1").verdict.startswith("Joined by datacenter east")


def test_an_id_that_nobody_knows_says_how_far_was_looked(world: World) -> None:
    world.events("c1")
    world.join()
    world.clicks(("c2", "q1"))
    found = world.trace("nobody")
    assert found.datacenters["east"].batch
    file = world.folder / "logs/east/clicks/a.jsonl"
    size_bytes, read_bytes = file.stat().st_size, len(file.read_bytes().splitlines(True)[0])
    assert (
        f"The foreign log of east was searched to its end: 1 file with {size_bytes:,} bytes, of which "
        f"{read_bytes:,} are read up to batch {found.datacenters['east'].batch}, and was seen to grow "
        "last at "
    ) in found.verdict
    assert "The foreign log of west has no file." in found.verdict
    (searched,) = found.datacenters["east"].searched
    assert [(f.path, f.searched_bytes, f.read_bytes) for f in searched.last] == [
        ("clicks/a.jsonl", size_bytes, read_bytes)
    ]
    assert f"clicks/a.jsonl to byte {size_bytes:,}, read to {read_bytes:,}" in trace_text(found)
    assert "Check the id" in found.what_to_do


def test_an_event_that_was_given_up_is_joined_by_a_start_that_reads_its_primary(world: World) -> None:
    world.clicks(("c1", "q1"))
    world.join(mode="complete")
    world.queries("q1")
    found = world.trace("c1")
    assert f"If east does not run: photon join {world.pipeline.file} -d east." in found.what_to_do
    assert "photon recover" not in found.what_to_do
    world.join()
    assert world.trace("c1").verdict.startswith("Joined by datacenter east")


def test_a_datacenter_that_never_joined_lacks_nothing_and_is_to_be_started(world: World) -> None:
    """Broken variant: its table is not there, so that it is to be retired as one whose lake is gone."""
    world.clicks(("c1", "q1"), datacenter="west")
    world.join("east")
    found = world.trace("c1")
    assert "not yet read, for this datacenter has never joined." in found.verdict
    assert found.what_to_do == f"Have datacenter west read it: photon join {world.pipeline.file} -d west."
    assert found.problems == []
    assert "west (has never joined):" in trace_text(found)
    assert "read to 0, seen by no join yet" in trace_text(found)


@pytest.mark.parametrize("has_joined", [None, False])
def test_nobody_is_to_retire_a_datacenter_that_may_never_have_joined(
    world: World, has_joined: bool | None
) -> None:
    remedy = missing_table(world.pipeline, "west", "joined_events", has_joined).remedy
    assert "--lake-is-gone" not in remedy
    assert f"photon join {world.pipeline.file} -d west" in remedy


def test_a_waiting_event_says_why_in_words_and_that_nothing_is_to_be_done(world: World) -> None:
    world.clicks(("c1", "q1"))
    world.join()
    found = world.trace("c1")
    assert "it waits (primary) for a primary event that is in no log yet, looked for " in found.verdict
    assert found.what_to_do.startswith("Nothing, until its primary event is logged")
    assert "(primary) for a primary event" in trace_text(found)


def test_what_another_datacenter_holds_says_how_it_stands(world: World) -> None:
    world.events("c1", "c2")
    world.table("west").create("p", "west")
    world.registered_elsewhere("c1", is_closed=False)
    found = world.trace("c1")
    assert "epoch 1 of datacenter west is live, and has not closed batch 1" in found.verdict
    begin_epoch(world.reader(), "west", 0, "table")
    assert "epoch 1 of datacenter west is over, and has not closed batch 1" in world.trace("c1").verdict


def test_what_another_datacenter_has_closed_lacks_its_row(world: World) -> None:
    world.events("c1")
    world.table("west").create("p", "west")
    world.registered_elsewhere("c1")
    assert "it was joined, and its row is gone" in world.trace("c1").verdict


def test_a_work_order_is_told_until_it_is_taken_up(tmp_path: Path) -> None:
    world = world_with_a_bad_line(World(tmp_path))
    mend(world)
    found = world.trace("c1")
    (order,) = found.datacenters["east"].orders
    assert order.is_mended
    assert "Let datacenter east take up its work order" in found.what_to_do
    assert "ordered      " in trace_text(found)
    world.join()
    assert world.trace("c1").datacenters["east"].orders == []


def test_a_mended_line_is_told_and_its_dead_letter_counts_no_more(tmp_path: Path) -> None:
    world = world_with_a_bad_line(World(tmp_path))
    before = world.trace("c1")
    assert before.verdict.startswith("Not joined. east: it is a dead letter")
    assert f"photon dead-letters {world.pipeline.file} -d east --mend" in before.what_to_do
    mend(world)
    world.join()
    found = world.trace("c1").datacenters["east"]
    assert [row["taken_up_after"] for row in found.dead_letters] == [1]
    assert '"position": 7, "at"' in found.mended[0]["line"]
    assert found.counting_letters == []


@pytest.mark.parametrize("other", ["c", "1", "-c1", "osition"])
def test_a_dead_letter_is_no_other_events_though_its_line_has_the_letters_of_the_id(
    tmp_path: Path, other: str
) -> None:
    world = world_with_a_bad_line(World(tmp_path))
    assert world.trace(other).datacenters["east"].dead_letters == []


def test_what_an_adapter_drops_is_told_and_needs_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failing_adapter, "drops", ["c1"])
    world.events("c1")
    world.join()
    found = world.trace("c1")
    assert "it was read and is in no table: the adapter drops it." in found.verdict
    assert found.what_to_do.startswith("Nothing: the adapter drops it.")


def test_a_letter_that_was_dropped_at_the_second_look_is_told_as_dropped(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failing_adapter, "fails_on", ["c1"])
    world.events("c1")
    world.join()
    assert "--dead-letters." in world.trace("c1").what_to_do
    monkeypatch.setattr(failing_adapter, "fails_on", [])
    monkeypatch.setattr(failing_adapter, "drops", ["c1"])
    plan_recovery_of_letters(world.pipeline, "east").apply()
    world.join()
    assert "the adapter drops it" in world.trace("c1").verdict


def test_a_removed_row_says_what_to_do_and_it_helps(world: World) -> None:
    world.events("c1")
    world.join()
    a_row_is_removed(world)
    found = world.trace("c1")
    assert "it was joined, and its row is gone" in found.verdict
    assert found.what_to_do == (
        f"Have its row made again: photon recover {world.pipeline.file}, where datacenter east runs."
    )


def test_an_order_that_can_not_be_read_does_not_keep_the_rest_from_being_told(world: World) -> None:
    world.clicks(("c1", "q1"))
    world.join()
    (world.state() / "orders").mkdir()
    (world.state() / "orders/0000000009-x.json").write_text("{")
    found = world.trace("c1")
    assert found.datacenters["east"].waiting
    assert (world.state() / "orders/0000000009-x.json").exists()


def test_the_json_form_has_the_whole_story(world: World) -> None:
    world.clicks(("c1", "q1"))
    world.join()
    value = json.loads(json.dumps(world.trace("c1").as_dict(), default=str))
    assert value["what_to_do"]
    east = value["datacenters"]["east"]
    assert {"waiting", "orders", "mended", "searched", "batch", "watermark_us"} <= east.keys()


def test_a_datacenter_that_is_silent_is_named_with_its_remedy(tmp_path: Path) -> None:
    world = World(tmp_path, ("east", "west"), HOME)
    world.everywhere("c1")
    assert world.join_with_a_crash("claim.after", "west")
    world.pipeline.datacenters["west"].lake.rename(world.folder / "aside")
    world.join("east")
    found = world.trace("c1")
    assert found.registry is not None
    assert found.registry.holder_state == "silent"
    assert f"photon retire {world.pipeline.file} west" in found.what_to_do


def test_a_row_that_a_rebuild_removed_says_when_and_why(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.events("c1")
    world.join()
    monkeypatch.setattr(failing_adapter, "drops", ["c1"])
    rebuild(world)
    found = world.trace("c1")
    assert "east: a rebuild took its row out at " in found.verdict
    assert ": the adapter dropped the pair." in found.verdict
    assert found.what_to_do.startswith("Nothing: the adapter decided so. If it should not, mend the adapter")
    assert "removed      at 20" in trace_text(found)


# -- datacenters that people have stopped


def test_rows_of_a_datacenter_that_is_retired_with_its_lake_gone_do_not_count(world: World) -> None:
    world.everywhere("c1")
    world.join("west")
    lake = world.pipeline.datacenters["west"].lake
    lake.rename(world.folder / "aside")
    shutil.rmtree(world.state("west"))
    plan_retire(world.pipeline, world.reader(), "west", lake_is_gone=True).apply()
    assert not [problem for problem in world.trace("c1").problems if "west" in problem]
    (world.folder / "aside").rename(lake)
    found = world.trace("c1")
    assert found.verdict.startswith("Not joined.")
    assert "west: it has a row that does not count" in found.verdict
    assert found.what_to_do == f"Have datacenter east read it: photon join {world.pipeline.file} -d east."
    assert "west (retired, its lake is gone; its rows don't count):" in trace_text(found)
    world.join("east")
    assert world.trace("c1").verdict.startswith("Joined by datacenter east")


def test_what_was_joined_in_a_lake_that_is_gone_is_joined_by_another(world: World) -> None:
    world.everywhere("c1")
    world.join("west")
    world.join("east")
    shutil.rmtree(world.pipeline.datacenters["west"].lake)
    shutil.rmtree(world.state("west"))
    plan_retire(world.pipeline, world.reader(), "west", lake_is_gone=True).apply()
    found = world.trace("c1")
    assert found.registry is not None
    assert found.registry.id_status == "free"
    assert f"photon recover {world.pipeline.file} -d east" in found.what_to_do
    recover_all(world)
    world.join("east")
    assert world.trace("c1").verdict.startswith("Joined by datacenter east")


def test_a_retired_datacenter_is_not_asked_to_run(world: World) -> None:
    world.everywhere("c1")
    world.join("west")
    world.clicks(("late", "q1"), datacenter="west")
    plan_retire(world.pipeline, world.reader(), "west").apply()
    assert world.trace("c1").verdict.startswith("Joined by datacenter west"), "its rows stay"
    assert world.trace("late").what_to_do == (
        "Put its log file below the logs folder of a datacenter that runs: west is retired."
    )


def test_a_datacenter_on_hold_is_to_be_resumed_first(world: World) -> None:
    world.clicks(("c1", "q1"))
    world.join()
    world.reader().change(lambda register: replace(register, on_hold=("east",)))
    assert f"photon resume {world.pipeline.file} east" in world.trace("c1").what_to_do


# -- what to do, alone

RECORD = LogRecord("clicks/a.jsonl", 1, 0, 0, "q1", True)
UNREAD = LogRecord("queries/a.jsonl", 2, 0, 0, None, False)


def story(one: DatacenterTrace, holder_state: HolderState = "", is_joined: bool = False) -> Trace:
    status: Literal["joined", "held"] = "joined" if is_joined else "held"
    held = RegistryAnswer(status, None, "west", "1", 4, "p", "0-0", 7, holder_state=holder_state)
    registry = held if holder_state else RegistryAnswer("free")
    return Trace("c1", True, registry, {"east": one}, pipeline="p.yaml")


def waiting(reason: str, status: str = "open") -> DatacenterTrace:
    return DatacenterTrace(waiting=[TracedWait("1:0", reason, status, 1, 0, 0)])


def letter(event_id: str | None) -> DatacenterTrace:
    return DatacenterTrace(dead_letters=[{"reason": "x", "event_id": event_id}])


@pytest.mark.parametrize(
    ("found", "command"),
    [
        (story(waiting("held"), "silent"), "photon retire p.yaml west"),
        (story(waiting("held"), "on hold"), "photon resume p.yaml west"),
        (story(waiting("held"), "live"), "photon join p.yaml -d west"),
        (story(waiting("held"), "over"), "Let the other datacenters run"),
        (story(waiting("held"), "retired"), "Let the other datacenters run"),
        (story(DatacenterTrace(), "lake gone", True), "by a datacenter that has its log: photon recover"),
        (story(waiting("home")), "photon join p.yaml -d east"),
        (story(waiting("clock")), "foreign.time_unit"),
        (story(waiting("unjoinable", "unjoinable")), "photon recover p.yaml -d east"),
        (
            story(replace(waiting("unjoinable", "unjoinable"), primaries=[UNREAD])),
            "does not run: photon join p.yaml -d east",
        ),
        (Trace("c1", False, datacenters={"east": DatacenterTrace(unjoined=[{}])}), "leave out --no-logs"),
        (story(DatacenterTrace(lost=["1:0"])), "photon join p.yaml -d east"),
        (
            story(DatacenterTrace(dead_letters=[{"reason": "x", "event_id": None}])),
            "photon dead-letters p.yaml",
        ),
        (story(DatacenterTrace(dead_letters=[{"reason": "x", "event_id": "c1"}])), "--dead-letters"),
        (story(DatacenterTrace(too_old=[{}])), "Nothing can be done"),
        (story(DatacenterTrace(unjoined=[{}], primaries=[RECORD])), "photon recover p.yaml -d east"),
        (story(DatacenterTrace(records=[LogRecord("a", 1, 0, 0, "q", False)])), "photon join p.yaml -d east"),
        (story(DatacenterTrace(records=[LogRecord("a", 1, 0, 0, None, True)])), "Nothing: without a key"),
        (story(DatacenterTrace(records=[RECORD])), "photon recover p.yaml -d east"),
        (story(DatacenterTrace(records=[RECORD]), "live", True), "where datacenter west runs"),
        (story(DatacenterTrace(), "live", True), "photon recover p.yaml, where datacenter west runs"),
        (Trace("c1", False, pipeline="p.yaml"), "leave out --no-logs"),
        (Trace("c1", True, pipeline="p.yaml"), "photon status p.yaml"),
        (Trace("c1", True, RegistryAnswer("too old")), "ids of its age are forgotten"),
    ],
)
def test_what_to_do_has_its_command(found: Trace, command: str) -> None:
    assert command in what_to_do(found)


def test_there_are_words_for_every_reason_why_a_rebuild_takes_a_row_out() -> None:
    assert WHY_REMOVED.keys() == set(get_args(Gone))
