"""One landed folder, the broker behind it, and landers that live and die."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from photon.landing.lander import Lander
from photon.landing.marker import Marker, acknowledge, read_marker
from tests.landing.simulated_topic import SimulatedBroker, SimulatedTopic
from tests.support.manual_clock import ManualClock
from tests.support.one_thread import AtOnce

NAME, BOOT = "clicks", "boot-1"
NOON_US = 1_767_607_200_000_000


def value_of(number: int) -> bytes:
    """A value that no other message has."""
    return b'{"click_id": "c%d"}' % number


class LandingWorld:
    """A topic that is landed into a folder."""

    def __init__(self, folder: Path, partitions: int = 1) -> None:
        self.folder = folder / NAME
        self.clock = ManualClock(NOON_US)
        self.broker = SimulatedBroker()
        for number in range(1, partitions):
            self.broker.add_partition(number)
        self.before_answer: Callable[[str], None] = lambda _: None
        self.running: Lander | None = None

    def lander(self) -> Lander:
        """Start a lander, as a process that was started anew does."""
        self.kill()
        topic = SimulatedTopic(self.broker, lambda what: self.before_answer(what))
        self.running = lander = Lander(topic, NAME, self.folder, self.clock, AtOnce(), BOOT)
        lander.begin()
        return lander

    def kill(self) -> None:
        """End the lander, as kill -9 does: its files are written no more."""
        if self.running is not None:
            self.running.close()
        self.running = None

    def land(self, lander: Lander | None = None, seconds: float = 5.0) -> Lander:
        """Have a lander run for so long, a new one if none is given."""
        lander = lander or self.lander()
        until_us = self.clock.elapsed_us() + round(seconds * 1_000_000)
        while self.clock.elapsed_us() < until_us:
            lander.step()
            self.clock.advance(0.5)
        lander.mark(at_once=True)
        return lander

    @property
    def marker(self) -> Marker:
        """What the marker says now."""
        marker = read_marker(self.folder)
        assert marker is not None, "there is a marker"
        return marker

    def text(self, partition: int = 0) -> bytes:
        """The content of a partition's files, one behind the other."""
        files = sorted((self.folder / str(partition)).glob("*.jsonl"))
        return b"".join(file.read_bytes() for file in files)

    def lines(self, partition: int = 0) -> list[bytes]:
        """The lines of a partition's files."""
        return self.text(partition).splitlines()

    def acknowledge(self) -> None:
        """Acknowledge all losses that the marker names."""
        acknowledge(self.folder, [loss.name for loss in self.marker.losses])
