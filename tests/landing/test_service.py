"""The service that lands sources: a folder is one process's, and what it lets go the next one takes up."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from photon.landing.marker import ASIDE, why_waiting
from photon.landing.service import LOCK, Landing
from photon.landing.topic import TopicGone
from photon.landing.topics import TopicToLand
from photon.process.clock import SystemClock
from photon.process.operating_system import held_alone
from tests.landing.landing_world import NAME, value_of
from tests.landing.simulated_topic import SimulatedBroker, SimulatedTopic


def test_a_complete_landing_takes_up_a_folder_that_another_process_lets_go(tmp_path: Path) -> None:
    broker = SimulatedBroker()
    broker.send(0, value_of(1))
    landing = Landing([TopicToLand(NAME, tmp_path, lambda: SimulatedTopic(broker))], complete=True)
    with ThreadPoolExecutor(1) as threads:
        with held_alone(tmp_path / ASIDE / LOCK):
            future = threads.submit(landing.run)
            landing.stopped.wait(0.1)  # it finds the lock held, or begins a moment later
            assert not future.done()
        assert future.result() == []
    assert [file.read_bytes() for file in tmp_path.glob("0/*.jsonl")] == [value_of(1) + b"\n"]


def test_a_pause_ends_soon_after_a_signal() -> None:
    asked = list[int]()
    landing = Landing([], stop_requested=lambda: bool(asked.append(1)) or len(asked) > 2)
    landing.stopped.wait = lambda seconds: seconds > 1  # type: ignore[assignment, method-assign]
    landing.pause(3_600)
    assert len(asked) == 3


def test_a_process_that_waits_for_its_topic_says_so_until_it_begins(tmp_path: Path) -> None:
    broker, said = SimulatedBroker(), list[str]()
    now_us = SystemClock().now_us

    def made_later(what: str) -> None:
        if what != "take" and (not said or not said[-1]):
            said.append(why_waiting(tmp_path, now_us()))
            raise TopicGone(f"the broker has no topic {NAME}")

    broker.send(0, value_of(1))
    topic = TopicToLand(NAME, tmp_path, lambda: SimulatedTopic(broker, made_later))
    landing = Landing([topic])
    landing.stop_requested = lambda: bool(list(tmp_path.glob("0/*.jsonl")))
    landing.run()
    assert said == ["", f"the broker has no topic {NAME}: make it, or mend its name (topic:)"]
    assert why_waiting(tmp_path, now_us()) == ""
