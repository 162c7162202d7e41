"""A status tells of unmatched primaries, and which logs may go because of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from photon.dispatcher.shift.deletable_files import LookedForUnmatched
from photon.dispatcher.shift.people import Decisions
from photon.health.unmatched import UnmatchedSeen, look_at_unmatched, looked_for_unmatched
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Unmatched
from photon.releases.release import Part, Place, Release
from photon.state.unmatched import UnmatchedProgress, publish
from photon.state.view import StateView


def test_while_nobody_can_say_who_writes_unmatched_primaries_no_primary_file_goes(pipeline: Pipeline):
    part = Part(Place(1, 1), "t", 0, 1, unmatched_up_to_us=90, unmatched_read_us=80)
    release = Release(1, 1, "east", {"east": part})
    there = pipeline.model_copy(update={"unmatched": Unmatched()})

    def looked(owner: str, seen: UnmatchedSeen | None = None) -> LookedForUnmatched | None:
        return looked_for_unmatched(there, Decisions(unmatched_owner=owner), release, seen, "5")

    last = UnmatchedProgress("east", 5, 1, "p", 90, None, 1, 0, {1: 100})
    assert looked_for_unmatched(pipeline, Decisions(), release, None, "5") is None
    assert looked("") == LookedForUnmatched()
    assert looked("west") == LookedForUnmatched()  # a new owner has not looked yet
    assert looked_for_unmatched(there, Decisions(unmatched_owner="east"), release, None, "5") == (
        LookedForUnmatched(90, None, 80)
    )
    assert looked("east", UnmatchedSeen(last)) == LookedForUnmatched(90, {1: 100})
    assert looked("east", UnmatchedSeen(replace(last, epoch=4))) == LookedForUnmatched(90, {})


def test_the_owner_says_how_far_unmatched_primaries_are_written(tmp_path: Path, pipeline: Pipeline):
    there, east = pipeline.model_copy(update={"unmatched": Unmatched()}), Decisions(unmatched_owner="east")
    lake = pipeline.datacenters["east"].lake
    Path(lake).mkdir(parents=True, exist_ok=True)

    def told() -> str:
        seen = look_at_unmatched(there, "east", east, StateView(), 0)
        assert seen is not None
        return seen.sentence()

    assert look_at_unmatched(pipeline, "east", east, StateView(), 0) is None
    assert look_at_unmatched(there, "west", east, StateView(), 0) is None
    assert told() == "unmatched primaries are written up to no event time yet"
    publish(lake, UnmatchedProgress("east", 5, 1, "p", 0, None, 1, 0, held_back="east waits"))
    assert (
        told() == "unmatched primaries are written up to 1970-01-01 00:00:00 UTC; no more for now: east waits"
    )
    (Path(lake) / "unmatched.json").write_text("{}")
    assert "is damaged, and the next run writes another one" in told()
