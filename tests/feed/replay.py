"""The rows that a follower of the feed has: those that were given, without those that were taken back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from photon import read
from photon.feed.step import Step
from photon.feed.steps import snapshot, steps
from photon.process.clock import SystemClock
from photon.releases.release import Release
from tests.releases.lakes import Lakes, Shown

Event = tuple[str, str, int]  # datacenter, event, value


def replayed(lakes: Lakes, first: Release) -> dict[int, Shown]:
    """The rows that somebody has who began with all rows of a release, behind each step."""
    has, found = set[Event](), dict[int, Shown]()
    beginning = snapshot(lakes.pipeline, first)
    for step in (beginning, *steps(lakes.pipeline, first, SystemClock())):
        apply(step, has)
        found[step.release.number] = frozenset((event, value) for _, event, value in has)
    return found


def apply(step: Step, has: set[Event]) -> None:
    """Do what a step says. Each row is there when it goes, and is not when it comes; all are in order."""
    counts = {"insert": 0, "delete": 0, "update_preimage": 0, "update_postimage": 0}
    taken = list[dict[str, Any]]()
    for page in step.pages():
        assert page.schema.equals(step.schema)
        taken += page.to_pylist()
    assert [row["_release"] for row in taken] == [step.release.number] * len(taken)
    assert taken == sorted(taken, key=order)
    for row in sorted(taken, key=lambda row: row["_change_type"] in ("insert", "update_postimage")):
        if row["_event_id"] is None:
            has -= {event for event in has if event[0] == row["_datacenter"]}
            continue
        counts[row["_change_type"]] += 1
        event = (row["_datacenter"], row["_event_id"], row.get("value"))
        if row["_change_type"] in ("insert", "update_postimage"):
            assert event not in has
            has.add(event)
        else:
            has.remove(event)
    assert (counts["insert"], counts["delete"]) == (step.inserts, step.deletes)
    assert counts["update_preimage"] == counts["update_postimage"] == step.updates
    assert step.is_insert_only == ({row["_change_type"] for row in taken} <= {"insert"})


def order(row: dict[str, Any]) -> tuple[object, ...]:
    if row["_epoch"] is None:
        return (row["_datacenter"],)
    numbers = (int(row["_epoch"]), row["_batch"], *map(int, row["_occurrence"].split(":")))
    return (row["_datacenter"], *numbers, row["_change_type"] in ("update_postimage", "insert"))


def changes(lakes: Lakes, after: int, up_to: int | None = None) -> list[tuple[int, str, str]]:
    """The changes as numbers of releases, types and events."""
    found = read.changes(lakes.pipeline, after=after, up_to="latest" if up_to is None else up_to).to_table()
    return list(zip(*columns(found, "_release", "_change_type", "_event_id"), strict=True))


def columns(table: pa.Table, *names: str) -> Iterable[list[Any]]:
    return [table[name].to_pylist() for name in names]
