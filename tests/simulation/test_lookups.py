"""Which events are looked up in the registry before they are committed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from photon.dispatcher.retrying import BatchReport, Callbacks
from photon.join.home import home_of
from photon.join.messages import BatchTasks, TaskOutcome
from photon.join.tasks import LocalRunner
from photon.ledger.errors import RegistryUnavailable
from photon.pipeline.event_key import EventKey
from photon.registry.interface import Claim, LookupOutcome, Outcomes
from photon.registry.quorum.proposer import QuorumRegistry
from tests.simulation.test_too_old import DAY_US, run_gc
from tests.simulation.world import NOON_US, World, counts_of

HOMES = {
    home: [f"c{n}" for n in range(40) if home_of(f"c{n}", ["east", "west"]) == home]
    for home in ("east", "west")
}


class LookUps:
    """The ids that were looked up, by batch."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.of_batch: list[set[str]] = []
        right = QuorumRegistry.lookup

        def lookup(registry: QuorumRegistry, keys: Sequence[EventKey]) -> Outcomes[LookupOutcome]:
            self.of_batch[-1] |= {key.id for key in keys}
            return right(registry, keys)

        monkeypatch.setattr(QuorumRegistry, "lookup", lookup)
        look_ups = self

        class Runner(LocalRunner):
            def run(self, batch: BatchTasks) -> list[TaskOutcome]:
                look_ups.of_batch.append(set())
                return super().run(batch)

        self.runner = Runner(world.registry, world.clock)


def after_each_batch(*works: Callable[[], None]) -> Callbacks:
    """Do one work after each batch that had records, as long as there are any."""
    left = list(works)

    def go_on(_: BatchReport) -> None:
        if left:
            left.pop(0)()

    return Callbacks(on_batch=go_on)


def test_fresh_events_are_looked_up_until_a_batch_has_shown_that_nobody_has_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_ups = LookUps(world, monkeypatch)
    world.queries("q1")
    world.clicks(("c1", "q1"))
    world.join(callbacks=after_each_batch(lambda: world.clicks(("c2", "q1"))), runner=look_ups.runner)
    assert look_ups.of_batch == [{"c1"}, set()]
    assert world.joined_ids() == ["c1", "c2"]


def test_fresh_events_are_looked_up_again_once_one_of_them_was_somebody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, ["east", "west"], "home: {takeover_delay: 1h, quiet_after: 1h}")
    first, second, third, fourth = HOMES["east"][:4]
    look_ups = LookUps(world, monkeypatch)
    world.queries("q1")

    def west_takes_the_second() -> None:
        world.registered_elsewhere(second)
        world.clicks((second, "q1"))

    world.clicks((first, "q1"))
    callbacks = after_each_batch(
        west_takes_the_second, lambda: world.clicks((third, "q1")), lambda: world.clicks((fourth, "q1"))
    )
    counts = world.join(callbacks=callbacks, runner=look_ups.runner).counts
    assert look_ups.of_batch == [{first}, set(), {third}, set()]
    assert counts.of("joined_elsewhere") == 1
    assert world.joined_ids() == sorted([first, third, fourth])


def test_events_that_waited_are_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, ["east", "west"], "home: {takeover_delay: 1s, quiet_after: 1h}")
    look_ups = LookUps(world, monkeypatch)
    world.queries("q1")
    of_west = HOMES["west"][0]
    world.clicks((HOMES["east"][0], "q1"))
    world.join(callbacks=after_each_batch(lambda: world.clicks((of_west, "q1"))), runner=look_ups.runner)
    assert of_west in set().union(*look_ups.of_batch[1:])


def test_a_batch_that_ran_before_looks_up_what_it_may_have_registered(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_ups = LookUps(world, monkeypatch)
    right = QuorumRegistry.commit
    lost: list[str] = []

    def lose_an_answer(registry: QuorumRegistry, claims: Sequence[Claim]) -> object:
        outcomes = right(registry, claims)
        if claims[0].key.id == "c2" and not lost:
            lost.append("c2")
            raise RegistryUnavailable("the answer was lost")
        return outcomes

    monkeypatch.setattr(QuorumRegistry, "commit", lose_an_answer)
    world.queries("q1")
    world.clicks(("c1", "q1"))
    world.join(callbacks=after_each_batch(lambda: world.clicks(("c2", "q1"))), runner=look_ups.runner)
    assert look_ups.of_batch == [{"c1"}, set(), {"c2"}]
    assert world.joined_ids() == ["c1", "c2"]


def test_a_batch_that_was_left_open_shows_nothing_of_what_others_did_since(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.queries("q1")
    world.clicks(("c1", "q1"))
    world.join_with_a_crash("task.after_register")
    world.clicks(("c2", "q1"))
    look_ups = LookUps(world, monkeypatch)
    world.join(runner=look_ups.runner)
    assert look_ups.of_batch == [{"c1"}, {"c2"}]


def test_a_batch_without_fresh_events_shows_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    look_ups = LookUps(world, monkeypatch)
    world.queries("q1")
    world.join(callbacks=after_each_batch(lambda: world.clicks(("c1", "q1"))), runner=look_ups.runner)
    assert look_ups.of_batch == [set(), {"c1"}]


def test_the_last_chance_of_an_event_is_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    more = "home: {takeover_delay: 1h, quiet_after: 1h}\nlimits: {batch_foreign: 1KiB}"
    world = World(tmp_path, ["east", "west"], more)
    *free, held = HOMES["east"]
    look_ups = LookUps(world, monkeypatch)
    world.queries("q1")
    padded = ({"click": i, "query": "q1", "at": NOON_US, "padding": "x" * 500} for i in free)
    world.log("east", "clicks", *padded)
    world.clicks((held, "only in the west"))
    world.registered_elsewhere(held)
    counts = world.join(mode="complete", runner=look_ups.runner).counts
    assert len(look_ups.of_batch) > 2
    assert counts_of(counts, "joined_elsewhere", "unjoinable") == {"joined_elsewhere": 1, "unjoinable": 0}


def test_a_new_epoch_finds_what_it_joined_before_the_boundary(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.queries("q1", at_us=NOON_US - 2 * DAY_US)
    world.clicks(("c1", "q1"), at_us=NOON_US - 2 * DAY_US)
    world.join()
    run_gc(world)
    shutil.rmtree(world.state())
    world.forget()
    first, hidden = tmp_path / "logs/east/clicks/a.jsonl", tmp_path / "hidden"
    first.rename(hidden)
    world.queries("q2")
    world.clicks(("c2", "q2"), file="b.jsonl")
    counts = world.join(callbacks=after_each_batch(lambda: hidden.rename(first))).counts
    assert counts_of(counts, "joined", "too_old") == {"joined": 2, "too_old": 0}


def test_a_datacenter_that_is_behind_does_not_wait_for_what_a_home_has_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, ["east", "west"], "home: {takeover_delay: 1h, quiet_after: 1h}")
    look_ups = LookUps(world, monkeypatch)
    world.queries("q1")
    *joined, free = HOMES["west"]
    for event_id in joined:
        world.registered_elsewhere(event_id)
    world.clicks(*((event_id, "q1") for event_id in HOMES["west"]))
    counts = world.join(callbacks=stop_after_one_batch(), runner=look_ups.runner).counts
    assert look_ups.of_batch[0] == set(HOMES["west"])
    assert counts_of(counts, "joined_elsewhere", "pending") == {"joined_elsewhere": len(joined), "pending": 1}
    assert world.read_state().waiting.of_event(free)[0].reason == "home"


def stop_after_one_batch() -> Callbacks:
    batches: list[BatchReport] = []
    return Callbacks(should_stop=lambda: bool(batches), on_batch=batches.append)


def test_a_backlog_that_another_datacenter_has_joined_is_taken_in_small_batches(tmp_path: Path) -> None:
    more = "home: {takeover_delay: 1h, quiet_after: 1h}\nlimits: {catch_up_events: 2}"
    world = World(tmp_path, ["east", "west"], more)
    world.queries("q1")
    for number, click in enumerate(HOMES["east"][:8]):
        world.registered_elsewhere(click)
        world.clicks((click, "q1"), file=f"{number}.jsonl")
    read: list[int] = []
    callbacks = Callbacks(on_batch=lambda report: read.append(report.counts["foreign"]))
    world.join(callbacks=callbacks)
    assert [foreign for foreign in read if foreign] == [2, 2, 2, 2]
