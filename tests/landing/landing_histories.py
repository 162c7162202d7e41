"""Random histories of a lander of a topic, its broker and its disk, and what must hold in each.

`python -m tests.landing.landing_histories FROM TO` runs many seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from photon.landing.lander import Lander
from photon.landing.lines import line_of
from photon.landing.marker import ASIDE, MARKER, Loss, Marker, read_marker
from photon.landing.topic import BrokerSilent
from photon.process.faults import LAND_FAULT_POINTS
from tests.landing.histories import History, main
from tests.landing.landing_world import LandingWorld, value_of


@dataclass
class Sent:
    """A message, when it was sent, and to which topic of the name."""

    topic_id: str
    partition: int
    offset: int
    value: bytes | None
    at_us: int
    transaction: int | None


class TopicHistory(History):
    """One seed."""

    points = (*LAND_FAULT_POINTS, "disk.before_write", "disk.before_sync", "disk.after_sync")
    world: LandingWorld

    def __init__(self, seed: int, folder: Path) -> None:
        super().__init__(seed, folder)
        self.sent: list[Sent] = []
        self.values: list[bytes | None] = []  # all that were ever sent
        self.lander: Lander | None = None
        self.seen: dict[Path, bytes] = {}
        self.told: dict[str, Loss] = {}  # also by markers that were removed
        self.rewritten: set[tuple[str, int]] = set()  # partitions that lost messages
        self.was_put_back = False
        self.begun: dict[tuple[str, int], int] = {}  # from which offset, by topic and partition
        self.transactions = 0

    def _world(self, disk: Path) -> LandingWorld:
        return LandingWorld(disk, partitions=self.chance.choice((1, 2, 3)))

    def _actions(self) -> dict[Callable[[], None], int]:
        return {
            self._send: 20,
            self._send_in_transaction: 6,
            self._settle: 6,
            self._step: 30,
            self._crash: 8,
            self._cut_power: 3,
            self._remove_old: 2,
            self._add_partition: 1,
            self._make_again: 1,
            self._elect: 2,
            self._toggle_silence: 3,
            self._fill_disk: 2,
            self._mend_disk: 6,
            self._acknowledge: 4,
            self._copy: 2,
            self._put_back: 1,
            self._remove_read: 1,
            self._pass_time: 6,
        }

    # -- the broker

    def _send(self, transaction: int | None = None) -> None:
        broker, number = self.world.broker, self.chance.choice(sorted(self.world.broker.partitions))
        for _ in range(self.chance.randint(1, 4)):
            kinds = (value_of(len(self.values)), value_of(len(self.values)), None, b"%d" % len(self.values))
            value = self.chance.choice(kinds)
            offset = broker.send(number, value, transaction)
            self.values.append(value)
            now_us = self.world.clock.now_us()
            self.sent.append(Sent(broker.topic_id, number, offset, value, now_us, transaction))

    def _send_in_transaction(self) -> None:
        self.transactions += self.chance.random() < 0.5 or not self.transactions
        state = self.world.broker.transactions.get(self.transactions, "open")
        if state == "open":
            self._send(self.transactions)

    def _settle(self) -> None:
        broker = self.world.broker
        for transaction in [n for n, state in broker.transactions.items() if state == "open"]:
            broker.settle(transaction, self.chance.choice(("committed", "committed", "aborted")))

    def _remove_old(self) -> None:
        number = self.chance.choice(sorted(self.world.broker.partitions))
        log = self.world.broker.partitions[number]
        if (self.world.broker.topic_id, number) in self.rewritten:
            return  # K5, open: retention beyond where another leader's log begins to differ
        self.world.broker.remove_before(number, self.chance.randint(log.start, log.end))

    def _add_partition(self) -> None:
        self.world.broker.add_partition(len(self.world.broker.partitions))

    def _make_again(self) -> None:
        self._settle()
        self.transactions += 1
        self.world.broker.make_again(range(self.chance.choice((1, 2, 3))))

    def _toggle_silence(self) -> None:
        self.world.broker.is_silent = not self.world.broker.is_silent

    # -- the lander

    def _step(self) -> None:
        try:
            if self.lander is None:
                self._excuse()
                self.lander = self.world.lander()
            self.lander.step()
        except (OSError, BrokerSilent):
            self._kill()  # the process ends
        self.world.clock.advance(self.chance.choice((0.1, 0.5, 1.0, 3.0)))

    def _excuse(self) -> None:
        """A folder without a marker is begun with the first messages that the broker has then."""
        if read_marker(self.world.folder) is None:
            broker = self.world.broker
            for number, log_there in broker.partitions.items():
                self.begun[broker.topic_id, number] = log_there.start

    def _kill(self) -> None:
        self.world.kill()
        self.lander = None

    def _elect(self) -> None:
        """Another leader, who may lack the newest messages."""
        number = self.chance.choice(sorted(self.world.broker.partitions))
        log_there = self.world.broker.partitions[number]
        kept = self.chance.choice((None, self.chance.randint(log_there.start, log_there.end)))
        self.world.broker.elect(number, kept)
        if kept is not None:
            self.rewritten.add((self.world.broker.topic_id, number))
            topic_id = self.world.broker.topic_id
            self.sent = [
                one
                for one in self.sent
                if (one.topic_id, one.partition) != (topic_id, number) or one.offset < kept
            ]

    def _cut_power(self) -> None:
        self._kill()
        self.disk.cut_power(chance=self.chance)
        self.disk.sync_all()
        self._expect_on_disk()
        self.seen = {path: data for path, data in self._files().items()}

    def _expect_on_disk(self) -> None:
        """What the marker says of a file outlasts a power cut."""
        marker = read_marker(self.world.folder)
        for landed in () if marker is None or self.was_put_back else marker.partitions.values():
            path = self.world.folder / str(landed.file)
            if landed.file is not None and (not path.exists() or path.stat().st_size < landed.file_bytes):
                self._fail(f"{landed.file} has lost bytes that the marker calls landed")

    def _acknowledge(self) -> None:
        with suppress(OSError):  # the disk is full
            if read_marker(self.world.folder) is not None:
                self.world.acknowledge()

    def _pass_time(self) -> None:
        self.world.clock.advance(self.chance.choice((5, 30, 400)))

    # -- the disk

    def _put_back(self) -> None:
        if self._put_back_a_copy(self.world.clock.elapsed_us()):
            self.seen, self.was_put_back = self._files(), True

    def _remove_read(self) -> None:
        """Somebody removes the marker, as when a folder is tidied."""
        with suppress(FileNotFoundError):
            (self.world.folder / ASIDE / MARKER).unlink()

    # -- what must hold

    def _files(self) -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in self.world.folder.glob("*/*.jsonl")}

    def _look(self) -> None:
        files = self._files()
        for path, before in self.seen.items():
            if not files.get(path, b"").startswith(before):
                self._fail(f"{path.name} has other bytes where joins have read")
        self.seen = files
        marker = read_marker(self.world.folder)
        if marker is not None:
            self.told.update({loss.name: loss for loss in marker.losses})
            self._expect_ends(marker, files)

    def _expect_ends(self, marker: Marker, files: dict[Path, bytes]) -> None:
        """All that was in a partition as of the moment that is called its end is in its files."""
        for number, landed in marker.partitions.items():
            if landed.at_end is None:
                continue
            there = _lines_of(files, number)
            for one in self.sent:
                is_before = one.topic_id == landed.topic_id and one.at_us < landed.at_end.as_of_us
                if one.partition == number and is_before and self._awaits(one, marker, there):
                    self._fail(f"partition {number} is called at its end without offset {one.offset}")

    def _awaits(self, one: Sent, marker: Marker, there: set[bytes]) -> bool:
        """Whether a message may come to its file yet."""
        state = "committed" if one.transaction is None else self._state_of(one)
        is_before = one.offset < self.begun.get((one.topic_id, one.partition), 0)
        if one.value is None or is_before or state == "aborted" or _is_lost(one, self.told.values()):
            return False
        return line_of(one.value).text.rstrip(b"\n") not in there

    def _state_of(self, one: Sent) -> str:
        return self.world.broker.transactions.get(int(one.transaction or 0), "aborted")

    def _end(self) -> None:
        self.world.broker.is_silent = False
        self._settle()
        for _ in range(3):
            self._excuse()
            self.lander = self.world.land()
            self.world.acknowledge()
            self.world.land(self.lander, seconds=20)
            self._look()

    def _expect_all(self) -> None:
        marker, files = self.world.marker, self._files()
        for one in self.sent:
            if one.topic_id != self.world.broker.topic_id:
                continue  # it is lost with its topic, if it was not landed, which the marker tells
            if self._awaits(one, marker, _lines_of(files, one.partition)):
                self._fail(f"offset {one.offset} of partition {one.partition} is in no file, and not told")
        if not self.was_put_back:
            self._expect_no_other_lines(files)

    def _expect_no_other_lines(self, files: dict[Path, bytes]) -> None:
        values = {line_of(value).text.rstrip(b"\n") for value in self.values if value is not None}
        for path, data in files.items():
            for line in data.splitlines():
                if line not in values and not any(value.startswith(line) for value in values):
                    self._fail(f"{path.name} has a line of no message: {line[:60]!r}")


def _lines_of(files: dict[Path, bytes], partition: int) -> set[bytes]:
    return {
        line
        for path, data in files.items()
        if path.parent.name == str(partition)
        for line in data.split(b"\n")
    }


def _is_lost(one: Sent, told: Collection[Loss]) -> bool:
    """Whether a marker has told that the message is lost."""
    return any(
        loss.partition == one.partition
        and loss.kind != "another topic"  # whose messages are those of the topic before
        and loss.from_offset <= one.offset
        and (loss.to_offset is None or one.offset < loss.to_offset)
        for loss in told
    )


if __name__ == "__main__":
    main(TopicHistory)
