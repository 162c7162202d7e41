"""What the live page tells of records and of one event, of datacenters that have joined them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from photon.page import event
from photon.page.records import OTHER_REASONS, RecordsOf, records_of, together, with_others
from photon.process.clock import MICROSECONDS
from tests.simulation import failing_adapter
from tests.simulation.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, ("east", "west"), f"adapter: {failing_adapter.NAME}:join")


def records(world: World, hours: int = 1) -> dict[str, Any]:
    """What the page is told now."""
    found = {
        name: records_of(world.pipeline, name, hours, world.clock) for name in world.pipeline.datacenters
    }
    return together(found, hours, world.clock.now_us())


def moments(world: World, event_id: str, lane: str = "east") -> list[tuple[str, str]]:
    """The kinds and sentences of an event's lane."""
    told = event.told(world.trace(event_id))
    (found,) = (one["moments"] for one in told["lanes"] if one["name"] == lane)
    return [(one["kind"], one["says"]) for one in found]


def test_dead_letters_are_counted_by_reason_at_the_step_of_their_batch(world: World) -> None:
    world.events("c1")
    world.log("east", "clicks", "no json\n", "neither\n")
    world.join()
    at_us = world.clock.now_us()
    world.clock.advance(600)
    told = records(world)["dead_letters"]
    (reason,) = told["reasons"]
    assert reason["count"] == 2
    (step,) = (number for number, count in enumerate(reason["counts"]) if count)
    assert told["at_us"][step] <= at_us < told["at_us"][step] + told["step_seconds"] * MICROSECONDS


def test_dead_letters_of_before_the_hours_are_left_out(world: World) -> None:
    world.events("c1")
    world.log("east", "clicks", "no json\n")
    world.join()
    world.clock.advance(3 * 3_600)
    world.events("c2")
    world.join()
    assert records(world, 1)["dead_letters"]["reasons"] == []
    assert [one["count"] for one in records(world, 6)["dead_letters"]["reasons"]] == [1]


def test_a_sample_is_the_text_of_the_line_with_its_place(world: World) -> None:
    world.events("c1")
    line = '<script>alert("x")</script> \x1b[31m ' + "x" * 1_000 + "\n"
    world.log("east", "clicks", line)
    world.join()
    (sample,) = records(world)["dead_letters"]["reasons"][0]["samples"]
    assert sample["line"].startswith('<script>alert("x")</script> \\x1b[31m xxx')
    assert len(sample["line"]) == 300
    assert (sample["datacenter"], sample["side"], sample["file"]) == ("east", "foreign", "clicks/a.jsonl")
    content = (world.folder / "logs/east/clicks/a.jsonl").read_text()
    assert content[sample["offset_bytes"] :].startswith("<script>")


def test_rare_reasons_are_told_as_one() -> None:
    counts = {f"reason {number}": [number, 1] for number in range(30)}
    found = with_others(counts)
    assert len(found) == 20
    assert list(found)[-1] == OTHER_REASONS
    assert sum(map(sum, found.values())) == sum(map(sum, counts.values()))
    assert next(iter(found)) == "reason 29"


def test_rare_reasons_of_one_datacenter_join_those_of_all() -> None:
    many = {(0, f"reason {number}"): 5 for number in range(25)}
    found = together({"east": RecordsOf(letters=Counter({**many, (0, OTHER_REASONS): 7}))}, 1, 0)[
        "dead_letters"
    ]
    assert [one["count"] for one in found["reasons"]] == [5] * 19 + [6 * 5 + 7]


def test_a_conflicting_record_names_both_places(world: World) -> None:
    world.events("c1")
    world.log("east", "clicks", {"click": "c1", "query": "q1", "at": world.clock.now_us(), "more": 1})
    world.join()
    (told,) = records(world)["conflicting"]
    assert (told["datacenter"], told["event_id"]) == ("east", "c1")
    assert "of clicks/a.jsonl; joined: byte 0 of clicks/a.jsonl; differs in more" in told["says"]


def test_what_waits_says_why_since_when_and_what_is_next(world: World) -> None:
    world.events("c0")
    world.clicks(("c1", "q9"), ("c2", "q9"))
    since_us = world.clock.now_us()
    world.join()
    (told,) = records(world)["waiting"]
    assert (told["datacenter"], told["reason"], told["count"]) == ("east", "primary", 2)
    assert told["why"] == "for a primary event that is in no log yet"
    assert since_us <= told["oldest_first_seen_us"] <= world.clock.now_us()
    assert told["next_due_us"] > told["oldest_first_seen_us"]
    assert sorted(told["samples"]) == ["c1", "c2"]


def test_what_was_given_up_is_due_never_and_waits_for_nobody(world: World) -> None:
    world.clicks(("c1", "q9"))
    world.join(mode="complete")
    assert records(world)["waiting"] == []
    assert records(world)["classes"]["east"]["unjoinable"] == 1


def test_a_datacenter_that_never_joined_is_a_problem_and_keeps_no_other_back(world: World) -> None:
    world.events("c1")
    world.join()
    told = records(world)
    assert told["problems"] == ["west: it has not joined yet"]
    assert told["classes"]["east"]["joined"] == 1


def test_without_the_lake_what_the_state_knows_is_told(world: World) -> None:
    world.events("c1")
    world.clicks(("c2", "q9"))
    world.log("east", "clicks", "no json\n")
    world.join()
    lake = world.pipeline.datacenters["east"].lake
    assert isinstance(lake, Path)
    for entry in (lake / "dead_letters" / "_delta_log").iterdir():
        entry.write_bytes(b"spoilt")
    told = records(world)
    assert told["classes"]["east"]["dead_letters"] == 1
    assert [one["count"] for one in told["waiting"]] == [1]
    assert any("dead_letters" in problem for problem in told["problems"])


def test_a_joined_event_was_logged_joined_and_claimed(world: World) -> None:
    world.events("c1")
    world.join()
    kinds = [kind for kind, _ in moments(world, "c1")]
    assert sorted(kinds) == ["joined", "logged", "logged", "readable"]
    assert ("logged", "byte 0 of clicks/a.jsonl, key q1, read") in moments(world, "c1")
    assert [kind for kind, _ in moments(world, "c1", "registry")] == ["claimed"]
    assert moments(world, "c1", "west") == []


def test_an_event_that_waits_says_why_and_until_when(world: World) -> None:
    world.events("c0")
    world.clicks(("c1", "q9"))
    world.join()
    (waits,) = (says for kind, says in moments(world, "c1") if kind == "waits")
    assert waits.startswith("for a primary event that is in no log yet, looked for ")
    assert ", due again " in waits


def test_a_dead_letter_has_its_reason_and_batch(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failing_adapter, "fails_on", {"c1"})
    world.events("c1")
    world.join()
    (letter,) = (says for kind, says in moments(world, "c1") if kind == "dead letter")
    assert "KeyError" in letter
    assert ", in batch 1 of epoch " in letter


def test_moments_without_a_time_come_last() -> None:
    moments = [{"at_us": None}, {"at_us": 7}, {"at_us": -5}, {"at_us": None}]
    assert [one["at_us"] for one in event.in_order(moments)] == [-5, 7, None, None]
