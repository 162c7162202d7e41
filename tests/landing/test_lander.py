"""What a lander writes, from where it goes on, and what its marker says."""

from __future__ import annotations

import base64
import errno
from pathlib import Path

import pytest

from photon.landing.lander import Lander, TopicRefused
from photon.landing.marker import ASIDE, MARKER
from photon.landing.partition import Partition
from photon.landing.partition_file import LandedAlready
from tests.landing.landing_world import BOOT, NAME, LandingWorld, value_of
from tests.landing.simulated_topic import SimulatedTopic
from tests.support.one_thread import AtOnce


@pytest.fixture
def world(tmp_path: Path) -> LandingWorld:
    return LandingWorld(tmp_path)


def send(world: LandingWorld, *numbers: int, partition: int = 0) -> None:
    for number in numbers:
        world.broker.send(partition, value_of(number))


def is_at_end(world: LandingWorld, partition: int = 0) -> bool:
    return world.marker.partitions[partition].at_end is not None


# -- lines


def test_each_message_is_a_line_in_the_order_of_its_partition(world: LandingWorld) -> None:
    send(world, 1, 2, 3)
    world.land()
    assert world.lines() == [value_of(1), value_of(2), value_of(3)]
    assert world.marker.partitions[0].next_offset == 3


def test_a_value_over_several_lines_becomes_one_line(world: LandingWorld) -> None:
    world.broker.send(0, b'{\r\n  "click_id": "a\\nb"\n}')
    world.land()
    assert world.lines() == [b'{    "click_id": "a\\nb" }']


@pytest.mark.parametrize("value", [b"", b"[1]", b"17", b'{"a": ', b"\xff\x00", b'{"a": 1} {"b": 2}'])
def test_a_value_that_is_no_object_is_landed_as_bytes_and_counted(world: LandingWorld, value: bytes) -> None:
    world.broker.send(0, value)
    world.land()
    assert world.lines() == [b'{"_bytes": "%s"}' % base64.b64encode(value)]
    assert (world.marker.odd, world.marker.messages) == (1, 0)


def test_a_tombstone_makes_no_line_and_is_counted(world: LandingWorld) -> None:
    world.broker.send(0, None)
    send(world, 2)
    world.land()
    assert world.lines() == [value_of(2)]
    assert world.marker.tombstones == 1


def test_messages_of_an_aborted_transaction_are_not_landed(world: LandingWorld) -> None:
    world.broker.send(0, value_of(1), transaction=7)
    world.broker.settle(7, "aborted")
    send(world, 2)
    world.land()
    assert world.lines() == [value_of(2)]


# -- the end


def test_a_partition_is_at_its_end_as_of_before_it_was_asked(world: LandingWorld) -> None:
    send(world, 1)
    asked_us: list[int] = []

    def note(what: str) -> None:
        if what == "offsets":
            asked_us.append(world.clock.now_us())
            world.clock.advance(0.2)

    world.before_answer = note
    world.land()
    at_end = world.marker.partitions[0].at_end
    assert at_end is not None
    assert at_end.as_of_us in asked_us


def test_a_message_begins_the_silence_of_its_partition_anew(world: LandingWorld) -> None:
    lander = world.land(seconds=30)
    before = world.marker.partitions[0].at_end
    send(world, 1)
    world.land(lander)
    after = world.marker.partitions[0].at_end
    assert before is not None
    assert after is not None
    assert before.quiet_us > 20_000_000 > after.quiet_us


def test_a_clock_that_is_set_begins_all_silence_anew(world: LandingWorld) -> None:
    lander = world.land(seconds=30)
    world.clock.set_back(3600)
    world.land(lander)
    at_end = world.marker.partitions[0].at_end
    assert at_end is not None
    assert at_end.quiet_us < 6_000_000


def test_a_partition_with_an_open_transaction_is_not_at_its_end(world: LandingWorld) -> None:
    send(world, 1)
    world.broker.send(0, value_of(2), transaction=7)
    lander = world.land()
    assert not is_at_end(world)
    world.broker.settle(7, "committed")
    world.land(lander)
    assert is_at_end(world)
    assert world.lines() == [value_of(1), value_of(2)]


def test_nothing_is_at_its_end_while_the_broker_is_silent(world: LandingWorld) -> None:
    lander = world.land()
    as_of = world.marker.partitions[0].at_end
    world.broker.is_silent = True
    world.land(lander, seconds=60)
    assert world.marker.partitions[0].at_end == as_of


def test_a_partition_that_is_added_is_landed_from_its_beginning(world: LandingWorld) -> None:
    lander = world.land()
    world.broker.add_partition(1)
    send(world, 8, partition=1)
    world.land(lander)
    assert world.lines(1) == [value_of(8)]


# -- going on


def test_the_next_lander_goes_on_behind_the_last_message(world: LandingWorld) -> None:
    send(world, 1, 2)
    world.land()
    send(world, 3)
    world.land()
    assert world.lines() == [value_of(1), value_of(2), value_of(3)]


def test_lines_that_no_marker_tells_of_are_not_landed_twice(world: LandingWorld) -> None:
    send(world, 1)
    lander = world.land()
    send(world, 2, 3)
    lander.step()  # written, and the marker of this second was put before
    assert world.marker.partitions[0].next_offset == 1
    assert world.lines() == [value_of(1), value_of(2), value_of(3)]
    world.land()
    assert world.lines() == [value_of(1), value_of(2), value_of(3)]


@pytest.mark.parametrize("kept_bytes", [0, 1, 10, 19, 20, 25])
def test_a_line_that_was_written_in_part_is_ended(world: LandingWorld, kept_bytes: int) -> None:
    send(world, 1)
    lander = world.land()
    size_bytes = len(world.text())
    send(world, 2, 3)
    lander.step()
    path = world.folder / str(world.marker.partitions[0].file)
    path.write_bytes(path.read_bytes()[: size_bytes + kept_bytes])
    world.land()
    assert world.lines() == [value_of(1), value_of(2), value_of(3)]


def test_other_bytes_behind_the_marker_stay_and_end_with_a_line(world: LandingWorld) -> None:
    send(world, 1)
    world.land()
    path = world.folder / str(world.marker.partitions[0].file)
    path.write_bytes(path.read_bytes() + b"torn \x00")
    send(world, 2)
    world.land()
    assert world.lines() == [value_of(1), b"torn \x00", value_of(2)]


def test_without_its_marker_the_newest_file_is_compared_from_the_beginning(world: LandingWorld) -> None:
    send(world, 1, 2)
    world.land()
    (world.folder / ASIDE / MARKER).unlink()
    send(world, 3)
    world.land()
    assert world.lines() == [value_of(1), value_of(2), value_of(3)]


def test_a_file_that_was_cut_is_filled_again(world: LandingWorld) -> None:
    send(world, 1, 2, 3)
    world.land()
    path = world.folder / str(world.marker.partitions[0].file)
    path.write_bytes(path.read_bytes()[:25])
    world.land()
    assert world.lines() == [value_of(1), value_of(2), value_of(3)]


def test_a_current_file_that_somebody_removed_is_landed_again(world: LandingWorld) -> None:
    send(world, 1)
    lander = world.land()
    (world.folder / str(world.marker.partitions[0].file)).unlink()
    send(world, 2)
    world.land(lander)
    assert world.lines() == [value_of(1), value_of(2)]


def test_a_file_that_is_removed_while_the_broker_is_silent_is_landed_again_later(world: LandingWorld) -> None:
    send(world, 1)
    lander = world.land()
    (world.folder / str(world.marker.partitions[0].file)).unlink()
    world.broker.is_silent = True
    world.land(lander)
    world.broker.is_silent = False
    world.land(lander)
    assert world.lines() == [value_of(1)]


def test_what_the_broker_has_no_more_of_a_removed_file_is_told_and_stops_nothing(world: LandingWorld) -> None:
    send(world, 1, 2)
    world.land()
    (world.folder / str(world.marker.partitions[0].file)).unlink()
    world.broker.remove_before(0, 1)
    world.land()
    assert world.lines() == [value_of(2)]
    assert [(loss.kind, loss.from_offset, loss.to_offset) for loss in world.marker.losses] == [
        ("removed", 0, 1)
    ]
    assert world.marker.open_losses == ()


def test_marks_of_transactions_of_a_later_leader_are_no_loss(world: LandingWorld) -> None:
    send(world, 1)
    world.land()
    world.broker.elect(0)
    world.broker.send(0, value_of(2), transaction=7)
    world.broker.settle(7, "aborted")
    world.land()
    world.land()
    send(world, 3)
    world.land()
    assert world.marker.losses == ()
    assert world.lines() == [value_of(1), value_of(3)]


# -- losses


def test_messages_that_retention_removed_first_stop_their_partition(world: LandingWorld) -> None:
    send(world, 1)
    lander = world.land()
    send(world, 2, 3, 4)
    world.broker.remove_before(0, 3)
    world.land(lander)
    [loss] = world.marker.open_losses
    assert (loss.kind, loss.from_offset, loss.to_offset) == ("retention", 1, 3)
    assert world.lines() == [value_of(1)]
    assert not is_at_end(world)


def test_a_loss_that_is_acknowledged_lets_its_partition_go_on(world: LandingWorld) -> None:
    send(world, 1)
    lander = world.land()
    send(world, 2, 3, 4)
    world.broker.remove_before(0, 3)
    world.land(lander)
    world.acknowledge()
    world.land(lander)
    assert world.lines() == [value_of(1), value_of(4)]
    assert world.marker.open_losses == ()
    assert len(world.marker.losses) == 1


def test_messages_that_a_new_leader_has_in_the_place_of_lost_ones_are_landed(world: LandingWorld) -> None:
    send(world, 1, 2, 3)
    lander = world.land()
    world.broker.elect(0, kept=1)
    send(world, 12, 13, 14, 15)
    world.land()
    [loss] = world.marker.open_losses
    assert (loss.kind, loss.from_offset, loss.to_offset) == ("truncated", 1, 3)
    world.acknowledge()
    lander = world.land()
    world.land(lander)
    assert world.lines()[3:] == [value_of(12), value_of(13), value_of(14), value_of(15)]


def test_a_line_of_another_leader_in_the_place_of_a_tombstone_is_landed(world: LandingWorld) -> None:
    send(world, 1)
    world.broker.send(0, None)
    world.land()
    world.broker.elect(0, kept=1)
    send(world, 12)
    world.land()
    assert world.lines() == [value_of(1), value_of(12)]


def test_what_retention_takes_until_a_loss_is_acknowledged_is_in_the_loss(world: LandingWorld) -> None:
    send(world, 1)
    lander = world.land()
    send(world, 2, 3, 4)
    world.broker.remove_before(0, 2)
    world.land(lander)
    world.broker.remove_before(0, 3)
    world.acknowledge()
    world.land(lander)
    [loss] = world.marker.losses
    assert (loss.from_offset, loss.to_offset) == (1, 3)


def test_a_broker_that_was_put_back_from_a_copy_is_known_by_the_last_line(world: LandingWorld) -> None:
    send(world, 1, 2)
    world.land()
    del world.broker.partitions[0].records[1:]
    send(world, 12, 13, 14)
    world.land()
    assert [loss.kind for loss in world.marker.open_losses] == ["other content"]
    world.acknowledge()
    world.land()
    assert {value_of(12), value_of(13), value_of(14)} <= set(world.lines())


def test_a_topic_that_is_made_again_stops_all_partitions(tmp_path: Path) -> None:
    world = LandingWorld(tmp_path, partitions=2)
    send(world, 1, 2)
    lander = world.land()
    world.broker.make_again([0, 1])
    send(world, 11, 12, 13)
    world.land(lander)
    assert [loss.kind for loss in world.marker.open_losses] == ["another topic"] * 2
    world.acknowledge()
    world.land(lander)
    assert {value_of(1), value_of(2), value_of(11), value_of(12), value_of(13)} <= set(world.lines())


@pytest.mark.parametrize("is_anew", [False, True])
def test_a_loss_of_a_partition_that_is_no_more_ends_once_it_is_acknowledged(
    tmp_path: Path, is_anew: bool
) -> None:
    world = LandingWorld(tmp_path, partitions=2)
    send(world, 1, 2)
    lander = world.land()
    world.broker.make_again([0])
    send(world, 11)
    world.land(lander)
    world.acknowledge()
    for _ in range(2):
        world.land(None if is_anew else lander)
    assert world.marker.open_losses == ()
    assert value_of(11) in world.lines()


@pytest.mark.parametrize("messages", [1, 2, 3])
def test_a_topic_that_was_made_again_while_nobody_looked_is_known_by_its_id(
    world: LandingWorld, messages: int
) -> None:
    send(world, 1, 2)
    world.land()
    world.broker.make_again([0])
    send(world, *range(11, 11 + messages))
    world.land()
    assert [loss.kind for loss in world.marker.open_losses] == ["another topic"]
    assert world.lines() == [value_of(1), value_of(2)]
    world.acknowledge()
    world.land()
    world.land()
    assert world.lines() == [value_of(n) for n in (1, 2, *range(11, 11 + messages))]


# -- what is refused


def test_a_second_process_can_not_write_a_landed_file(world: LandingWorld) -> None:
    send(world, 1)
    world.land()
    with pytest.raises(LandedAlready, match="another process writes to it"):
        Lander(SimulatedTopic(world.broker), NAME, world.folder, world.clock, AtOnce(), BOOT).begin()


def test_a_compacted_topic_is_refused(world: LandingWorld) -> None:
    world.broker.is_compacted = True
    with pytest.raises(TopicRefused, match=r"cleanup\.policy=delete"):
        world.lander()


def test_a_topic_of_a_schema_registry_is_refused_after_a_hundred_messages(world: LandingWorld) -> None:
    for number in range(300):
        world.broker.send(0, b"\x00\x00\x00\x00\x07" + value_of(number))
    with pytest.raises(TopicRefused, match="Avro"):
        world.land()
    assert len(world.lines()) <= 100


def test_a_folder_of_another_topic_is_refused(world: LandingWorld) -> None:
    world.land()
    with pytest.raises(TopicRefused, match="another folder"):
        Lander(SimulatedTopic(world.broker), "views", world.folder, world.clock, AtOnce(), BOOT).begin()


def test_files_of_many_partitions_are_on_disk_before_the_marker_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, synced = LandingWorld(tmp_path, partitions=40), set[int]()
    sync = Partition.sync
    monkeypatch.setattr(Partition, "sync", lambda one: (sync(one), synced.add(one.number)))
    for number in range(40):
        world.broker.send(number, value_of(number))
    world.land()
    assert synced == set(range(40))
    assert [world.lines(number) for number in range(40)] == [[value_of(number)] for number in range(40)]
    assert all(one.file_bytes == len(world.text(n)) for n, one in world.marker.partitions.items())


def test_one_of_many_files_that_somebody_removed_is_landed_again(tmp_path: Path) -> None:
    world = LandingWorld(tmp_path, partitions=40)
    for number in range(40):
        world.broker.send(number, value_of(number))
    lander = world.land()
    (file,) = (world.folder / "7").glob("*.jsonl")
    file.unlink()
    world.land(lander)
    assert world.lines(7) == [value_of(7)]


def test_a_full_disk_at_one_of_many_files_ends_no_lander(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, sync, is_full = LandingWorld(tmp_path, partitions=40), Partition.sync, [True]

    def full_at_7(one: Partition) -> None:
        if one.number == 7 and is_full:
            raise OSError(errno.ENOSPC, "no room")
        sync(one)

    lander = world.lander()
    monkeypatch.setattr(Partition, "sync", full_at_7)
    for number in range(40):
        world.broker.send(number, value_of(number))
    world.land(lander)
    assert world.marker.messages == 0
    is_full.clear()
    world.land(lander)
    assert world.marker.messages == 40
