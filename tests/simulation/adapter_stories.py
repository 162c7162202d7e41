"""Histories of an adapter that fails on most of what it is asked (protocol A21), told step by step.

Tests tell them of the product, and `test_broken_batches` of a product without the rule.
"""

from __future__ import annotations

import pytest

from photon.dispatcher.completion import AdapterFails
from photon.join.tasks import LocalRunner
from tests.simulation import failing_adapter
from tests.simulation.world import World

Patch = pytest.MonkeyPatch


def clicks(count: int, file: str = "a") -> list[str]:
    """Names of clicks that are logged in one file."""
    return [f"{file}{number}" for number in range(count)]


def log_clicks(world: World, names: list[str], file: str = "a") -> None:
    world.clicks(*((name, "q1") for name in names), file=f"{file}.jsonl")


def what_the_adapter_fails_on_is_joined_once_it_is_mended(world: World, monkeypatch: Patch) -> None:
    """Every start ends with the error, however many there are, and nothing is claimed before."""
    names = clicks(100)
    world.queries("q1")
    log_clicks(world, names)
    monkeypatch.setattr(failing_adapter, "fails_on", names[:60])
    for _ in range(5):
        is_refused(world)
        assert not world.holders(*names), "an id is claimed"
    is_joined_once_mended(world, monkeypatch, names)


def what_small_tasks_stored_is_joined_once_the_adapter_is_mended(world: World, monkeypatch: Patch) -> None:
    """Each of two tasks has too few pairs to know, and stores rows of those that the adapter combines."""
    monkeypatch.setattr("photon.dispatcher.task_splitter.TASK_BYTES", 1)
    some, others = clicks(60, "a"), clicks(60, "b")
    world.queries("q1")
    log_clicks(world, some, "a")
    log_clicks(world, others, "b")
    monkeypatch.setattr(failing_adapter, "fails_on", some[:36] + others[:36])
    runner = LocalRunner(world.clock)
    runner.workers = 2
    for _ in range(3):
        is_refused(world, runner)
    is_joined_once_mended(world, monkeypatch, some + others)


def is_refused(world: World, runner: LocalRunner | None = None) -> str:
    """The join ends with the adapter's error and leaves nothing in the tables."""
    try:
        world.join(runner=runner)
    except AdapterFails as error:
        assert (world.rows(), world.rows("dead_letters")) == ([], []), "a table has something of the batch"
        return str(error)
    raise AssertionError(f"the join goes on and leaves {len(world.rows('dead_letters'))} dead letters")


def is_joined_once_mended(world: World, monkeypatch: Patch, names: list[str]) -> None:
    monkeypatch.setattr(failing_adapter, "fails_on", ())
    counts = world.join().counts
    assert world.joined_ids() == sorted(names), "an event is not joined once"
    assert (counts.of("joined"), counts.foreign, counts.adds_up) == (len(names), len(names), True)
