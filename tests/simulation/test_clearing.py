"""Clearing from the output (protocol B6): what is cleared, and that nobody is let in twice because of it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from photon.upkeep.clear import PROGRESS_FILE, Clearing, Progress, clear_output, clearable, is_of_row

from photon import faults
from photon.errors import FormatTooNew
from photon.faults import CLEARING_FAULT_POINTS
from photon.ledger.errors import RegistryUnavailable
from photon.pipeline.event_key import EventKey
from photon.registry.consensus.register import EpochRecord, with_epoch_state
from photon.registry.interface import Claim, Holder, Joined, Lost, Won
from photon.state.database import StateUnavailable
from photon.testing.crashes import SimulatedCrash, raise_simulated_crash
from photon.testing.faulty_store import FaultyStore
from photon.testing.memory_registry import memory_registry
from photon.tokens import Token
from tests.simulation.world import NOON_US, World, counts_of

CLEARED = Joined(Holder("east", None))


def holder(world: World, event_id: str) -> object:
    (found,) = world.registry.lookup([EventKey(event_id)])
    return found


def join_some(world: World, *clicks: str) -> None:
    world.queries(*(f"q-{click}" for click in clicks))
    world.clicks(*((click, f"q-{click}") for click in clicks))
    world.join()


def clear(world: World, datacenter: str = "east", everything: bool = False) -> Clearing:
    return clear_output(world.pipeline, datacenter, world.registry, everything)


# -- what is cleared


def test_ids_that_are_in_the_output_keep_their_owner_and_lose_their_token(world: World) -> None:
    join_some(world, "c1", "c2")
    done = clear(world)
    assert (done.rows, done.ids) == (2, 2)
    assert [holder(world, click) for click in ("c1", "c2")] == [CLEARED, CLEARED]


def test_the_rows_of_many_small_files_are_looked_at_together(world: World) -> None:
    for number in range(5):
        join_some(world, f"a{number}", f"b{number}")
    said: list[str] = []
    done = clear_output(world.pipeline, "east", world.registry, say=said.append)
    assert (done.rows, done.ids) == (10, 10)
    assert said == ["datacenter east: all of 10 rows; 10 ids cleared"]


def test_the_bytes_of_values_before_and_after_are_those_that_are_stored(world: World) -> None:
    join_some(world, "c1", "c2")

    def stored_bytes() -> int:
        values = [
            stored.value for key, stored in world.store.items.items() if key.p not in ("register", "marks")
        ]
        return sum(len(value) for value in values if value is not None)

    before = stored_bytes()
    done = clear(world)
    assert (done.bytes_before, done.bytes_after) == (before, stored_bytes())


def test_an_id_without_a_row_is_not_cleared(world: World) -> None:
    join_some(world, "c1")
    in_flight = f"east:{world.read_state().epoch}:2#p:1:0"
    assert world.registry.commit([Claim(EventKey("in flight"), in_flight)]) == [Won()]
    clear(world)
    assert holder(world, "in flight") == Joined(Holder("east", in_flight))


def test_an_id_whose_row_is_written_and_not_committed_is_not_cleared(world: World) -> None:
    world.queries("q1")
    world.clicks(("c1", "q1"))
    assert world.join_with_a_crash("commit.before_main")
    assert clear(world) == Clearing()
    world.join()
    assert world.joined_ids() == ["c1"]


def test_a_clearing_that_does_not_wait_for_the_row_loses_the_event(world: World) -> None:
    world.queries("q1")
    world.clicks(("c1", "q1"))
    assert world.join_with_a_crash("commit.before_main")
    ((token,),) = world.registry.tokens_anywhere([EventKey("c1")])
    world.registry.clear([Claim(EventKey("c1"), token)])
    world.join()
    assert world.joined_ids() == [], "so clearing has to go by rows"


def test_a_pass_looks_only_at_rows_that_were_committed_since_the_last_one(world: World) -> None:
    join_some(world, "c1", "c2")
    clear(world)
    join_some(world, "c3")
    assert clear(world).rows == 1
    assert clear(world) == Clearing()


def test_with_all_every_row_is_looked_at_again_and_nothing_changes(world: World) -> None:
    join_some(world, "c1", "c2")
    clear(world)
    assert clear(world, everything=True) == Clearing(rows=2)


def test_each_datacenter_clears_what_it_has_joined(tmp_path: Path) -> None:
    world = World(tmp_path, ("east", "west"), more="home: {takeover_delay: 0s}")
    for datacenter in ("east", "west"):
        world.queries("q1", datacenter=datacenter)
    world.clicks(("c1", "q1"), datacenter="west")
    world.join("west")
    assert clear(world, "east") == Clearing()
    assert clear(world, "west").ids == 1
    assert holder(world, "c1") == Joined(Holder("west", None))


def test_pages_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("photon.upkeep.clear.PAGE_ROWS", 2)
    world = World(tmp_path)
    join_some(world, *(f"c{number}" for number in range(7)))
    pages: list[str] = []
    clear_output(world.pipeline, "east", world.registry, say=pages.append)
    assert [text.partition(", ")[0] for text in pages] == [
        "datacenter east: 28 % of 7 rows; 2 ids cleared",
        "datacenter east: 57 % of 7 rows; 4 ids cleared",
        "datacenter east: 85 % of 7 rows; 6 ids cleared",
        "datacenter east: all of 7 rows; 7 ids cleared",
    ]


def test_rows_that_an_earlier_pass_has_looked_at_are_not_told_of_again(world: World) -> None:
    join_some(world, "c1", "c2")
    clear(world)
    join_some(world, "c3")
    said: list[str] = []
    clear_output(world.pipeline, "east", world.registry, say=said.append)
    assert said == ["datacenter east: all of 1 rows; 1 ids cleared"]


def test_where_the_time_is_part_of_the_identity_the_row_has_it(tmp_path: Path) -> None:
    world = World(tmp_path)
    timed = world.pipeline.foreign.model_copy(update={"time_in_id": True})
    world.use(world.pipeline.model_copy(update={"foreign": timed}))
    world.registry = memory_registry(clock=world.clock, horizon_us=NOON_US * 2)
    join_some(world, "c1")
    assert clear(world).ids == 1
    assert world.registry.lookup([EventKey("c1", NOON_US)]) == [CLEARED]


def test_ids_of_a_retired_epoch_keep_their_tokens_for_they_may_have_to_be_released(world: World) -> None:
    join_some(world, "c1")
    epoch = world.read_state().epoch
    assert epoch is not None
    world.registry.register.change(lambda now: with_epoch_state(now, epoch, "retired", NOON_US))
    assert clear(world) == Clearing()
    assert world.registry.tokens_anywhere([EventKey("c1")]) != [frozenset()]


def test_rows_of_live_and_revoked_epochs_count() -> None:
    epochs = {
        state: EpochRecord("east", state, "table", 0)  # type: ignore[arg-type]
        for state in ("live", "revoked", "retired")
    }
    assert clearable("east", epochs) == ["live", "revoked"]
    assert clearable("west", epochs) == []


@pytest.mark.parametrize(
    "other",
    [
        "west:e:4#p:1:90",
        "east:f:4#p:1:90",
        "east:e:5#p:1:90",
        "east:e:4#p:2:90",
        "east:e:4#p:1:91",
        "east:e:4#q:1:90",
    ],
)
def test_only_the_token_of_the_very_row_is_its_own(other: str) -> None:
    assert is_of_row("east:e:4#p:1:90", "east", "e", 4, "p", "1:90")
    assert not is_of_row(other, "east", "e", 4, "p", "1:90")


def test_a_row_of_photon_0_1_0_does_not_say_of_which_plan_it_is() -> None:
    assert is_of_row("east:e:4#p:1:90", "east", "e", 4, None, "1:90")


# -- what goes wrong in between


@pytest.mark.parametrize("point", CLEARING_FAULT_POINTS)
def test_a_crash_anywhere_is_harmless_and_the_next_pass_ends_the_work(world: World, point: str) -> None:
    join_some(world, "c1", "c2")
    faults.arm(point, raise_simulated_crash)
    with pytest.raises(SimulatedCrash):
        clear(world)
    assert clear(world).rows == 2
    assert holder(world, "c2") == CLEARED


def test_a_registry_that_does_not_answer_leaves_the_rest_for_the_next_pass(world: World) -> None:
    join_some(world, "c1")
    world.store.fail("down")
    with pytest.raises(RegistryUnavailable):
        clear(world)
    world.store.mend()
    assert clear(world).ids == 1


def test_an_endpoint_that_was_down_keeps_its_tokens_until_all_rows_are_looked_at(world: World) -> None:
    stores = [FaultyStore(world.clock) for _ in range(3)]
    world.registry = memory_registry(*stores, clock=world.clock, settings=world.pipeline.registry)
    join_some(world, "c1")
    stores[2].fail("down")
    assert clear(world).ids == 1
    stores[2].mend()
    world.clock.advance(10)
    world.registry.lookup([EventKey("probe")])

    def tokens() -> int:
        values = [stored.value for store in stores for stored in store.items.values()]
        return sum(value.startswith("T:") for value in values if value is not None)

    assert tokens() == 1
    assert clear(world) == Clearing()
    assert clear(world, everything=True).ids == 1
    assert tokens() == 0


def test_progress_never_goes_back_and_a_lost_file_begins_anew(tmp_path: Path) -> None:
    progress = Progress(tmp_path)
    progress.advance("e", 7)
    progress.advance("e", 5)
    assert Progress(tmp_path).cleared_to("e") == 7
    (tmp_path / PROGRESS_FILE).unlink()
    assert Progress(tmp_path).cleared_to("e") == 0


def test_progress_that_can_not_be_stored_is_told_and_leaves_nothing_behind(tmp_path: Path) -> None:
    progress = Progress(tmp_path)
    (tmp_path / PROGRESS_FILE).mkdir()  # what is new can't take its place
    with pytest.raises(StateUnavailable, match="make room"):
        progress.advance("e", 7)
    assert [path.name for path in tmp_path.iterdir()] == [PROGRESS_FILE]


def test_progress_of_a_newer_version_and_a_spoilt_one_are_refused(tmp_path: Path) -> None:
    path = tmp_path / PROGRESS_FILE
    path.write_text(json.dumps({"format": 2, "cleared_to": {}}))
    with pytest.raises(FormatTooNew, match="newer Photon"):
        Progress(tmp_path)
    path.write_text("{half")
    with pytest.raises(StateUnavailable, match="remove it"):
        Progress(tmp_path)


# -- a retry after clearing is never let in twice


@pytest.mark.parametrize(
    "point",
    ["commit.after_main", "release.before", "release.after", "complete.before_transaction"],
)
def test_a_plan_that_is_run_again_after_its_ids_were_cleared_writes_nothing_and_counts_them_as_joined(
    world: World, point: str
) -> None:
    world.queries("q1", "q2")
    world.clicks(("c1", "q1"), ("c2", "q2"), ("c1", "q1"), ("orphan", "never"))
    assert world.join_with_a_crash(point)
    assert clear(world).ids == 2
    counts = world.join(mode="complete").counts
    assert world.joined_ids() == ["c1", "c2"]
    assert counts.adds_up
    assert counts_of(counts, "foreign", "joined", "duplicates", "unjoinable") == {
        "foreign": 4,
        "joined": 2,
        "duplicates": 1,
        "unjoinable": 1,
    }


def test_after_a_lost_state_cleared_events_count_as_joined_once_and_their_repetitions_as_duplicates(
    world: World,
) -> None:
    join_some(world, "c1", "c2")
    world.clicks(("c1", "q-c1"))
    before = world.join(mode="complete").counts
    clear(world)
    shutil.rmtree(world.state())
    counts = world.join(mode="complete").counts
    # Nobody knows any more which of both records of c1 joined, so neither is compared with it.
    assert counts == replace(before, not_compared=1)
    assert world.joined_ids() == ["c1", "c2"]
    # Met again they are duplicates, and so is what the new epoch has joined and cleared itself.
    join_some(world, "c3")
    assert clear(world).ids == 1
    world.clicks(("c1", "q-c1"), ("c3", "q-c3"), file="b.jsonl")
    later = world.join(mode="complete").counts
    assert counts_of(later, "joined", "duplicates") == {"joined": 3, "duplicates": 3}
    assert later.adds_up


def test_of_an_older_lake_put_back_cleared_events_without_a_row_are_missing_and_none_counts_as_joined(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    join_some(world, "c1")
    lake, copy = world.pipeline.datacenters["east"].lake, world.folder / "copy"
    shutil.copytree(lake, copy)
    join_some(world, "c2", "c3")
    world.clicks(("c2", "q-c2"))
    assert clear(world).ids == 3
    shutil.rmtree(lake)
    shutil.copytree(copy, lake)
    counts = world.join(mode="complete").counts
    assert world.joined_ids() == ["c1"]
    assert counts_of(counts, "foreign", "joined", "missing") == {"foreign": 4, "joined": 1, "missing": 3}
    assert counts.adds_up
    assert "3 records of events that were joined, and whose rows are gone" in caplog.text


def test_a_crash_does_not_count_inherited_events_twice(world: World) -> None:
    join_some(world, "c1", "c2")
    before = world.join(mode="complete").counts
    clear(world)
    shutil.rmtree(world.state())
    assert world.join_with_a_crash("complete.before_transaction", mode="complete")
    assert world.join(mode="complete").counts == before


def test_the_very_token_that_was_cleared_does_not_win_again(world: World) -> None:
    join_some(world, "c1")
    ((token,),) = world.registry.tokens_anywhere([EventKey("c1")])
    clear(world)
    assert world.registry.commit([Claim(EventKey("c1"), token)]) == [Lost(Holder("east", None))]


def test_a_record_that_comes_again_after_clearing_is_a_duplicate(world: World) -> None:
    join_some(world, "c1")
    clear(world)
    world.clicks(("c1", "q-c1"), file="b.jsonl")
    counts = world.join().counts
    assert world.joined_ids() == ["c1"]
    assert counts_of(counts, "joined", "duplicates") == {"joined": 1, "duplicates": 1}


def test_another_datacenter_counts_a_cleared_id_as_joined_elsewhere(tmp_path: Path) -> None:
    world = World(tmp_path, ("east", "west"), more="home: {takeover_delay: 0s}")
    for datacenter in ("east", "west"):
        world.queries("q1", datacenter=datacenter)
        world.clicks(("c1", "q1"), datacenter=datacenter)
    world.join("east", mode="complete")
    clear(world)
    counts = world.join("west", mode="complete").counts
    assert counts_of(counts, "joined", "joined_elsewhere") == {"joined": 0, "joined_elsewhere": 1}


def test_a_release_of_a_lost_epochs_token_leaves_what_is_cleared_to_its_owner(world: World) -> None:
    join_some(world, "c1")
    ((token,),) = world.registry.tokens_anywhere([EventKey("c1")])
    clear(world)
    world.registry.register.revoke_epoch(Token.parse(token).plan.epoch, NOON_US)
    assert world.registry.release([Claim(EventKey("c1"), token)]) == [Lost(Holder("east", None))]
    assert world.registry.commit([Claim(EventKey("c1"), "west:e:1#p:1:0")]) == [Lost(Holder("east", None))]


def test_what_was_released_before_does_not_keep_its_successor_from_being_cleared(world: World) -> None:
    world.registry.commit([Claim(EventKey("c1"), "west:e:1#p:1:0")])
    world.registry.release([Claim(EventKey("c1"), "west:e:1#p:1:0")])
    join_some(world, "c1")
    assert clear(world).ids == 1
    assert world.registry.commit([Claim(EventKey("c1"), "west:e:1#p:1:0")]) != [Won()]


def test_a_trace_says_whose_a_cleared_id_is(world: World) -> None:
    join_some(world, "c1")
    clear(world)
    found = world.trace("c1")
    assert found.verdict.startswith("Joined by datacenter east")
    assert [(answer.datacenter, answer.token) for answer in found.registry] == [("east", None)]
