"""Histories of batches that go wrong without a rule, told step by step.

Tests tell them of the product, and `test_broken_batches` of a product without the rule.
"""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from photon.adapters import ROW_COLUMNS
from photon.dispatcher.completion import Superseded
from photon.dispatcher.retrying import Callbacks
from photon.join.messages import BatchRunner
from photon.process.faults import arm
from photon.registry.lookups import claimant_of
from photon.state.waiting import segments
from photon.state.waiting.segments import RECORD_COLUMNS, RECORDS
from photon.storage.candidate_files import write_candidates
from photon.storage.tables import app_id
from tests.simulation.runners import PoisonedRunner
from tests.simulation.world import NOON_US, World, assert_counts
from tests.support.crashes import SimulatedCrash, at, raise_simulated_crash


class StateCopies:
    """Copies of a datacenter's state folder, by name."""

    def __init__(self, world: World) -> None:
        self._world = world

    def _of(self, name: str) -> Path:
        return self._world.folder / f"state-{name}"

    def keep(self, name: str) -> None:
        shutil.copytree(self._world.state(), self._of(name))

    def put_back(self, name: str) -> None:
        shutil.rmtree(self._world.state())
        shutil.copytree(self._of(name), self._world.state())
        self._world.forget()


def a_batch_that_another_plan_commits_ends_the_process(world: World) -> None:
    """A15: while a copy of the state runs batch N, the other one commits its own batch N."""
    world.events("c1")
    ended = ""
    with at("commit.before_main", lambda: _commit_as_another_plan(world)):
        try:
            world.join()
        except Superseded as error:
            ended = str(error)
    assert "another copy of its state is in use" in ended, "two copies go on under one name"
    epoch = _epoch_of(world)
    world.join()
    assert _epoch_of(world) != epoch
    assert world.joined_ids() == ["c1"]


# -- rows first (A14)


def what_is_claimed_is_joined_though_its_log_is_gone(world: World, gone: str, point: str) -> None:
    """A14: the process dies with ids claimed, and the log loses their bytes before the next start."""
    world.queries("q1")
    world.clicks(("c1", "q1"), ("c2", "q1"), ("orphan", "never"))
    assert world.join_with_a_crash(point)
    log = world.folder / "logs" / "east" / gone / "a.jsonl"
    log.unlink() if gone == "queries" else log.write_text("")
    counts = world.join().counts
    assert world.joined_ids() == ["c1", "c2"], "an id is claimed and has no row"
    assert counts.of("joined") == 2
    nothing_uncommitted_is_left(world)


def what_an_abandoned_plan_claimed_is_free_though_its_log_is_gone(world: World, runner: BatchRunner) -> None:
    """A7: an id is claimed when the process dies, and the next one's worker, and the log's bytes go."""
    world.events("poison")
    assert world.join_with_a_crash("claim.after")
    world.join(runner=runner)
    assert world.holder("poison") is None, "an id is claimed and has no row"
    nothing_uncommitted_is_left(world)


def _claim_late(world: World) -> None:
    with closing(world.read_state()) as state:
        plan = state.open_plan()
    assert plan is not None
    lake = world.pipeline.datacenters["east"].lake
    own = {
        "_datacenter": "east",
        "_epoch": plan.key.epoch,
        "_batch": plan.key.batch,
        "_plan": plan.key.plan_id,
    }
    late = own | {"_occurrence": "9:0", "_event_id": "late", "_event_time": NOON_US}
    write_candidates(lake, plan.key, 0, pa.Table.from_pylist([late], ROW_COLUMNS))
    world.claim(claimant_of(plan.key), "late")
    raise_simulated_crash()


def nothing_uncommitted_is_left(world: World) -> None:
    """Each Parquet file of the rows is in the table."""
    table = world.table()
    names = {uri.rsplit("/", 1)[-1] for uri in table.load().file_uris()}
    assert {path.name for path in table.folder.glob("_event_date=*/*.parquet")} == names


# -- attempts count (A17)

MOST_STARTS = 20


def a_record_that_never_lets_its_batch_end_is_a_dead_letter(world: World, runner: PoisonedRunner) -> None:
    """A17: the process that runs a batch dies of one record, or its task hangs, at every attempt."""
    world.events(*(f"c{n}" for n in range(5)), "poison")
    starts = 0
    while runner.deaths <= MOST_STARTS and starts <= MOST_STARTS and not world.rows("dead_letters"):
        starts += 1
        try:
            stop = Callbacks(should_stop=lambda: runner.deaths > MOST_STARTS)
            world.join(mode="complete", runner=runner, callbacks=stop)
        except SimulatedCrash:
            world.forget()
    assert world.rows("dead_letters"), "one record is run again and again"
    world.join(mode="complete", runner=runner)
    assert world.joined_ids() == [f"c{n}" for n in range(5)]
    (letter,) = world.rows("dead_letters")
    assert letter["event_id"] == "poison"
    assert "did not return" in letter["reason"]


# -- side tables (A12)


def dead_letters_that_only_the_second_run_finds_are_recorded(world: World) -> None:
    """A12: a primary log is away while a batch is run, and back when it is run again."""
    world.queries("q1")
    world.log("east", "queries", "no event\n")
    world.log("east", "clicks", "{broken\n")
    log = world.folder / "logs" / "east" / "queries" / "a.jsonl"
    content = log.read_bytes()

    def take_away() -> None:  # a file that is held open outlives its name, and not its bytes
        log.write_bytes(b"")
        arm("commit.before_main", raise_simulated_crash)

    arm("plan.after_store", take_away)
    try:
        world.join()
    except SimulatedCrash:
        world.forget()
    log.write_bytes(content)
    counts = world.join().counts
    recorded = sorted(bytes(row["raw"]) for row in world.rows("dead_letters"))
    assert recorded == [b"no event", b"{broken"], "a dead letter is not recorded once"
    assert_counts(counts, dead_letters=1, primary_dead_letters=1)


# -- a bad waiting segment (A19)

Harm = Literal["gone", "cut short", "of other records", "with flipped bits"]


def records_of_a_bad_segment_are_found_again(world: World, harm: Harm, suffix: str) -> None:
    """A19: two records wait in a segment. One of its files is harmed, and then their primaries come."""
    world.clicks(("c1", "q1"), ("c2", "q2"))
    world.join()
    harm_waiting(world, harm, suffix)
    world.queries("q1", "q2")
    join_unless_it_waits_for_ever(world)
    assert world.joined_ids() == ["c1", "c2"], "a bad waiting segment stops the datacenter"
    with closing(world.read_state()) as state:
        assert_counts(state.counts(), joined=2, pending=0, lost=0)


def join_unless_it_waits_for_ever(world: World) -> None:
    """Join; give up after a while of waiting, in simulated time."""
    began_us, an_hour_us = world.clock.now_us(), 3_600_000_000
    world.join(callbacks=Callbacks(should_stop=lambda: world.clock.now_us() > began_us + an_hour_us))


def harm_waiting(world: World, harm: Harm, suffix: str) -> None:
    """Do harm to each file of waiting records with this suffix."""
    for path in (world.state() / segments.FOLDER).glob(f"*{suffix}"):
        data = path.read_bytes()
        match harm:
            case "gone":
                path.unlink()
            case "cut short":
                path.write_bytes(data[: len(data) // 2])
            case "with flipped bits":
                path.write_bytes(data[:40] + bytes(255 - byte for byte in data[40:60]) + data[60:])
            case "of other records":
                other = pa.Table.from_pylist([{"_file": 7, "_offset": 7}], RECORD_COLUMNS)
                if suffix == RECORDS:
                    pq.write_table(other, path)
                else:
                    with pa.ipc.new_file(path, other.schema) as writer:
                        writer.write_table(other)


def _epoch_of(world: World) -> str | None:
    with closing(world.read_state()) as state:
        return state.epoch


def _commit_as_another_plan(world: World) -> None:
    with closing(world.read_state()) as state:
        plan = state.open_plan()
    assert plan is not None
    table = world.table()
    batch = plan.key.batch
    table.commit([], app_id("east", plan.key.epoch), batch, batch - 1, "another plan")
