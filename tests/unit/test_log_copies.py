"""Copies of the logs compared: which hours, what a short copy is told, and what is kept of a reading."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from photon.event_store.hashing import hash_ids
from photon.logs.ranges import Stretch
from photon.state.view import read_offsets
from photon.verification.log_copies.comparing import compare_copies
from photon.verification.log_copies.lacks import (
    COMPARED_DAYS,
    HOUR_US,
    CopyKnowledge,
    FileDigest,
    Hour,
    Lack,
    by_file,
    short_copy,
    suspicions,
)
from photon.verification.log_copies.tasks import FilePart, digest_parts, digests_of, ids_of_parts
from photon.verification.report import DatacenterReport, Finding, VerificationReport
from tests.simulation.world import NOON_US, World
from tests.support.shares import a_share

AT_US = NOON_US // HOUR_US * HOUR_US
LATER_US = AT_US + 3 * HOUR_US
QUARTER_US = HOUR_US // 4


def digest(*ids: str, hour: int = 0, file: int = 1) -> FileDigest:
    hashes = hash_ids(list(ids))
    low, high = (int((hashes >> np.uint64(shift) & np.uint64(0xFFFFFFFF)).sum()) for shift in (0, 32))
    return FileDigest("foreign", file, AT_US + hour * HOUR_US, len(ids), low, high, 0, 90)


def copy(name: str, *digests: FileDigest, until_us: int = LATER_US, unknown_us: int = 0) -> CopyKnowledge:
    return CopyKnowledge(name, until_us, digests=digests, unknown_until_us={"foreign": unknown_us})


def suspected(*copies: CopyKnowledge, now_us: int = LATER_US) -> list[tuple[int, tuple[str, ...]]]:
    """The hours that are suspected, counted from the first, each with the datacenters."""
    found = suspicions(copies, QUARTER_US, now_us)
    return [((each.hour[1] - AT_US) // HOUR_US, each.datacenters) for each in found]


def test_files_that_are_split_and_ordered_otherwise_are_the_same_copy() -> None:
    east = copy("east", digest("a", "b", "c"))
    west = copy("west", digest("c", file=7), digest("b", "a", file=9))
    assert suspected(east, west) == []


@pytest.mark.parametrize("ids", [("a", "b"), ("a", "b", "d"), ("a", "b", "c", "c"), ()])
def test_an_hour_with_other_events_is_suspected(ids: tuple[str, ...]) -> None:
    west = [digest(*ids)] if ids else []
    assert suspected(copy("east", digest("a", "b", "c")), copy("west", *west)) == [(0, ("east", "west"))]


@pytest.mark.parametrize(
    ("until_us", "is_compared"),
    [(AT_US + HOUR_US + QUARTER_US, True), (AT_US + HOUR_US + QUARTER_US - 1, False)],
)
def test_an_hour_is_compared_once_a_copy_has_all_that_came_a_while_after_it(
    until_us: int, is_compared: bool
) -> None:
    found = suspected(copy("east", digest("a")), copy("west", until_us=until_us))
    assert bool(found) is is_compared


def test_a_datacenter_that_is_down_does_not_keep_the_others_from_being_compared() -> None:
    down = copy("north", until_us=AT_US)
    assert suspected(copy("east", digest("a")), copy("west"), down) == [(0, ("east", "west"))]


def test_hours_of_which_logs_went_before_they_were_digested_are_not_compared() -> None:
    east = copy("east", digest("a"), digest("b", hour=1))
    west = copy("west", unknown_us=AT_US + 1)
    assert suspected(east, west) == [(1, ("east", "west"))]


@pytest.mark.parametrize(("hours", "is_compared"), [(0, True), (1, False)])
def test_hours_long_before_the_latest_one_are_not_looked_at_again(hours: int, is_compared: bool) -> None:
    latest = digest("b", hour=COMPARED_DAYS * 24 + hours)
    until_us = latest.hour_us + 3 * HOUR_US
    east = copy("east", digest("a"), latest, until_us=until_us)
    found = suspected(east, copy("west", latest, until_us=until_us), now_us=until_us)
    assert bool(found) is is_compared


def test_old_logs_are_compared_whatever_the_clock_says_now() -> None:
    now_us = AT_US + 10 * COMPARED_DAYS * 24 * HOUR_US
    copies = (copy("east", digest("a"), until_us=now_us), copy("west", until_us=now_us))
    assert suspected(*copies, now_us=now_us) == [(0, ("east", "west"))]


def test_a_wild_time_in_the_future_keeps_no_hour_from_being_compared() -> None:
    wild = digest("w", hour=10**6)
    assert suspected(copy("east", digest("a"), wild), copy("west")) == [(0, ("east", "west"))]


def lack(path: str, events: int, first: int, last: int, hour: int = 0) -> Lack:
    at_us = AT_US + hour * HOUR_US
    names = f"e{first}", f"e{last}"
    return Lack("west", "east", "foreign", at_us, path, events, first, last, at_us, at_us + 1, *names)


def test_what_is_lacking_of_a_file_over_several_hours_is_one_case() -> None:
    lacks = [lack("a", 2, 500, 700, hour=1), lack("b", 9, 0, 40), lack("a", 3, 100, 400)]
    b, a = by_file(lacks)
    assert (b.path, b.events) == ("b", 9)
    assert (a.path, a.events, a.first_offset, a.last_offset) == ("a", 5, 100, 700)
    assert (a.first_event, a.last_event, a.last_us) == ("e100", "e700", AT_US + HOUR_US + 1)


def test_a_file_that_the_copy_has_not_at_all_is_told_so() -> None:
    finding = short_copy([lack("a", 2, 0, 90), lack("b", 1, 0, 0)], {"b": 700}, most=10)
    assert finding is not None
    assert finding.count == 2
    has_not, is_short = finding.examples
    assert has_not.detail.endswith("the copy of west has no file of this name")
    assert is_short.detail.endswith("the copy of west has a file of this name that ends at byte 700")


def test_a_copy_that_lacks_nothing_is_no_finding() -> None:
    assert short_copy([], {}, most=10) is None


# -- what is read, and what is kept


class PlainReading:
    """Digests and ids as Spark's tasks read them, in this process."""

    def __init__(self, world: World) -> None:
        self.world, self.bytes = world, 0

    def digests(self, parts: Sequence[FilePart]) -> tuple[list[tuple[str, FileDigest]], set[tuple[str, int]]]:
        self.bytes += sum(part.stretch.length_bytes for part in parts)
        return digests_of(
            row for part in digest_parts(parts, self.world.pipeline) for row in part.to_pylist()
        )

    def lacks(
        self,
        parts: Sequence[FilePart],
        expected: Mapping[Hour, Collection[str]],
        paths: Mapping[tuple[str, int], str],
    ) -> tuple[list[Lack], set[tuple[str, int]]]:
        rows = [row for part in ids_of_parts(parts, self.world.pipeline) for row in part.to_pylist()]
        holders: dict[tuple[Hour, str], dict[str, dict[str, Any]]] = defaultdict(dict)
        for row in rows:
            if not row["lost"]:
                holders[(row["side"], row["hour_us"]), row["event"]].setdefault(row["datacenter"], row)
        found = [
            Lack(
                short, at["datacenter"], *hour, paths[at["datacenter"], at["file"]], 1, at["offset"],
                at["offset"], at["time_us"], at["time_us"], event, event,
            )
            for (hour, event), held in holders.items()
            for short in set(expected.get(hour, ())) - held.keys()
            for at in [min(held.values(), key=lambda row: (row["datacenter"], row["file"], row["offset"]))]
        ]  # fmt: skip
        return found, {(row["datacenter"], row["file"]) for row in rows if row["lost"]}


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path, ("east", "west"))
    for name in ("east", "west"):
        made.events("c", query="q", datacenter=name)
        made.join(name)
    made.clock.advance(7_200)
    return made


def read_bytes(world: World, keep: bool = True) -> int:
    """Compare the copies, and return how many bytes that reads."""
    reading = PlainReading(world)
    found = compare_copies(world.pipeline, ["east", "west"], reading, world.clock.now_us(), keep)
    assert (found.lacks, found.problems) == ((), ())
    return reading.bytes


def test_each_byte_of_a_log_is_digested_once(world: World) -> None:
    whole = read_bytes(world)
    assert whole == read_bytes(world, keep=False) + whole
    for name in ("east", "west"):
        world.clicks(("d", "q"), datacenter=name, at_us=world.clock.now_us())
        world.join(name)
    assert 0 < read_bytes(world) < whole
    assert read_bytes(world) == 0


def test_what_is_not_kept_is_read_again(world: World) -> None:
    assert read_bytes(world, keep=False) == read_bytes(world, keep=False) > 0


def test_two_comparisons_at_once_count_an_event_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "photon.verification.log_copies.comparing._stored_copy"
    for later_us in (0, 1):  # neither knows what the other one keeps of east
        with monkeypatch.context() as patched:
            patched.setattr(module, lambda pipeline, name, *_: CopyKnowledge(name))
            now_us = world.clock.now_us() + later_us
            compare_copies(world.pipeline, ["east"], PlainReading(world), now_us, keep=True)
    read_bytes(world)  # compares west too: were east's events counted twice, an hour would differ


def test_a_log_that_is_gone_before_it_was_digested_leaves_its_time_unknown(world: World) -> None:
    (tracked,) = read_offsets(world.state("west")).of("foreign")
    (world.folder / "logs/west/clicks/a.jsonl").unlink()
    stretch = Stretch(tracked, 0, tracked.offset_bytes)
    (lost,) = digest_parts([FilePart("west", stretch)], world.pipeline)
    assert lost.to_pylist()[0]["lost"]
    (no_ids,) = ids_of_parts([FilePart("west", stretch, (AT_US,))], world.pipeline)
    assert no_ids.to_pylist()[0]["lost"]
    read_bytes(world)  # east has events that west's digests lack, and that is no finding


def test_only_the_wanted_hours_of_a_part_are_read(world: World) -> None:
    (tracked,) = read_offsets(world.state("east")).of("foreign")
    part = FilePart("east", Stretch(tracked, 0, tracked.offset_bytes))
    hour: Hour = ("foreign", AT_US)
    for hours, expected in (((hour[1],), ["c"]), ((hour[1] + HOUR_US,), [])):
        wanted = FilePart("east", part.stretch, hours)
        found = [row for batch in ids_of_parts([wanted], world.pipeline) for row in batch.to_pylist()]
        assert [row["event"] for row in found] == expected


# -- a copy that is cut short after it was compared


def long_logs(folder: Path) -> World:
    """Clicks of two hours in one file of each datacenter, compared and found alike."""
    world = World(folder, ("east", "west"))
    for name in ("east", "west"):
        world.queries("q", datacenter=name)
        for number in range(6):
            at_us = NOON_US + number // 3 * HOUR_US
            world.clicks((f"c{number}", "q"), datacenter=name, at_us=at_us)
        world.join(name)
    world.clock.advance(4 * 3_600)
    assert told(world) is None
    return world


def told(world: World, datacenter: str = "west") -> Finding | None:
    """Compare, keep the results, and return the finding for one datacenter; no other one gets any."""
    for name in ("east", "west"):
        world.join(name)
        world.join(name)  # a dispatcher looks twice before it takes a file for another one
    names = ["east", "west"]
    found = compare_copies(world.pipeline, names, PlainReading(world), world.clock.now_us(), keep=True)
    assert not found.problems
    report = found.added_to(VerificationReport({name: DatacenterReport() for name in names}, 0), 10)
    findings = [(name, one) for name, each in report.datacenters.items() for one in each.findings]
    assert {name for name, _ in findings} <= {datacenter}
    return findings[0][1] if findings else None


def clicks_of(world: World, datacenter: str) -> Path:
    return world.folder / f"logs/{datacenter}/clicks/a.jsonl"


def test_a_copy_that_is_cut_short_after_it_was_compared_is_told_once_until_it_is_restored(
    tmp_path: Path,
) -> None:
    world = long_logs(tmp_path)
    log = clicks_of(world, "west")
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:3]))
    first = told(world)
    assert first is not None, "nobody told that west's copy was cut short"
    (example,) = first.examples
    assert (first.number(), first.acting, example.event_id) == ("1", {"west": 1}, "c3")
    cut_bytes = len(b"".join(lines[:3]))
    assert example.where.startswith(f"foreign log clicks/a.jsonl of east, bytes {cut_bytes} to ")
    assert example.detail.endswith(f"the copy of west has a file of this name that ends at byte {cut_bytes}")
    told_us = world.clock.now_us()
    world.clock.advance(60)
    again = told(world)
    assert again is not None
    assert (again.number(), again.examples[0].known_us) == ("1 (told before)", told_us)
    log.write_bytes(clicks_of(world, "east").read_bytes())  # the text says so: the other one's copy
    assert told(world) is None
    assert world.joined_ids() == [f"c{number}" for number in range(6)]


@pytest.mark.parametrize("damaged", a_share([0, 30, 59], 1))
def test_a_line_that_is_damaged_in_its_place_is_told_though_it_was_compared(
    tmp_path: Path, damaged: int
) -> None:
    world = World(tmp_path, ("east", "west"))
    for name in ("east", "west"):
        world.events(*(f"c{number}" for number in range(60)), query="q", datacenter=name)
        world.join(name)
    world.clock.advance(4 * 3_600)
    assert told(world) is None
    log = clicks_of(world, "west")
    lines = log.read_bytes().splitlines(keepends=True)
    lines[damaged] = b"#" * (len(lines[damaged]) - 1) + b"\n"
    log.write_bytes(b"".join(lines))
    world.clock.advance(60)
    finding = told(world)
    assert finding is not None, "nobody told that a line was damaged"
    assert (finding.number(), finding.examples[0].event_id) == ("1", f"c{damaged}")
    world.clock.advance(60)
    log.write_bytes(clicks_of(world, "east").read_bytes())
    assert told(world) is None
    assert world.joined_ids() == sorted(f"c{number}" for number in range(60))


def test_a_copy_that_is_split_otherwise_is_whole_after_what_the_text_says(tmp_path: Path) -> None:
    world = World(tmp_path, ("east", "west"))
    for name in ("east", "west"):
        world.queries("q", datacenter=name)
    for number in range(6):
        world.clicks((f"c{number}", "q"), datacenter="east")
        if number not in (
            2,
            3,
        ):  # west has later ones in a file of the same name, and earlier ones in another
            world.clicks((f"c{number}", "q"), datacenter="west", file="a.jsonl" if number > 3 else "b.jsonl")
    world.join("east")
    world.join("west")
    world.clock.advance(4 * 3_600)
    finding = told(world)
    assert finding is not None
    (example,) = finding.examples
    lines = clicks_of(world, "east").read_bytes().splitlines(keepends=True)
    first, last = len(b"".join(lines[:2])), len(b"".join(lines[:3]))
    assert example.where == f"foreign log clicks/a.jsonl of east, bytes {first} to {last}"
    assert "into a new file of this one's logs" in finding.meaning.remedy
    named = clicks_of(world, "east").read_bytes()[first : last + len(lines[3])]
    clicks_of(world, "west").with_name("restored.jsonl").write_bytes(named)
    assert told(world) is None
    assert world.joined_ids() == [f"c{number}" for number in range(6)]


def test_a_log_that_was_copied_elsewhere_and_truncated_lacks_nothing(tmp_path: Path) -> None:
    world = long_logs(tmp_path)
    world.clicks(*((f"later{n}", "q") for n in range(99)), at_us=NOON_US + 3 * HOUR_US)
    log = clicks_of(world, "west")
    log.write_bytes(b"")
    world.clicks(*((f"later{n}", "q") for n in range(99)), datacenter="west", at_us=NOON_US + 3 * HOUR_US)
    assert told(world) is None
