"""Random histories of logs with files that can be read late, and stories of cases that they meet seldom.

Each click has a primary event that is written before it, perhaps in a file that can't be read yet. So none
may ever be unjoinable, and in the end each is joined, once.
"""

from __future__ import annotations

import gzip
import json
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from photon.dispatcher.log_reader import LogReader, opened_logs
from photon.dispatcher.shift.deletable_files import deletable
from photon.logs.unread_files import UnreadFile
from photon.process.clock import MICROSECONDS
from photon.state.completeness.published import last_said
from photon.state.losses import plan_acknowledgement
from photon.state.view import StateView, view_state
from tests.simulation.world import NOON_US, World

SOON = "retry: {unjoinable_after: 1s, allowed_lateness: 1us}\ntailing: {links_lead_out: true}"
STEPS = 8
WAYS = ("plain", "plain", "half", "sum", "link", "beside")  # in which a log is written


def folder_of(world: World, kind: str) -> Path:
    """Where the logs of a kind are."""
    logs = world.pipeline.datacenters["east"].logs
    assert isinstance(logs, Path)
    folder = logs / kind
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def lines_of(kind: str, *records: tuple[str, str]) -> bytes:
    """Clicks of an id and a query, or queries, as JSON lines."""
    if kind == "queries":
        said = [{"query": query, "at": NOON_US, "text": query} for _, query in records]
    else:
        said = [{"click": click, "query": query, "at": NOON_US} for click, query in records]
    return b"".join(json.dumps(each).encode() + b"\n" for each in said)


def view_of(world: World) -> StateView:
    """The state of east."""
    return view_state(world.state(), world.clock.now_us())


def reader_of(world: World) -> LogReader:
    """Its logs, by a look from outside."""
    return opened_logs(world.pipeline, "east", view_of(world), world.clock.now_us())


def unread_of(world: World) -> tuple[UnreadFile, ...]:
    """Its files that hold back what they may change."""
    return reader_of(world).unread()


def may_be_deleted(world: World) -> Sequence[str]:
    """Its logs of which joins need no more."""
    reader, now_us = reader_of(world), world.clock.now_us()
    said = last_said(world.pipeline.datacenters["east"].lake)
    found = deletable(reader.files.values(), (), said, now_us, 0, unread=reader.unread())
    return [one.file.path for one in found]


@dataclass
class History:
    """One history, by its seed."""

    world: World
    rng: random.Random
    ways: Sequence[str] = WAYS
    hidden: dict[Path, Callable[[], object]] = field(default_factory=dict)  # what makes each readable
    queries: list[str] = field(default_factory=list)
    clicks: int = 0
    files: int = 0

    def run(self) -> None:
        """Take random steps, and then let all be read."""
        for _ in range(STEPS):
            self.rng.choice((self.write, self.write, self.mend, self.rename, self.join))()
        while self.hidden:
            self.mend()
        self.join("complete")
        counts = self.world.join(mode="complete").counts
        joined = self.world.joined_ids()
        assert (counts.of("joined"), joined) == (self.clicks, sorted(set(joined))), "a click is not joined"
        assert unread_of(self.world) == (), "something holds for ever"

    def write(self) -> None:
        """Write a file of primaries, and one of clicks on any that were written; either may be hidden."""
        self.queries += [f"q{len(self.queries)}", f"q{len(self.queries) + 1}"]
        self.put("queries", lines_of("queries", *(("", each) for each in self.queries[-2:])))
        clicks = [(f"c{self.clicks + n}", self.rng.choice(self.queries)) for n in range(2)]
        self.clicks += 2
        self.put("clicks", lines_of("clicks", *clicks))

    def put(self, kind: str, data: bytes) -> None:
        """Write a file plainly, or as half a gzip file, one with a wrong sum, or a link to what is away."""
        self.files += 1
        plain = folder_of(self.world, kind) / f"{self.files}.jsonl"
        how = self.rng.choice(self.ways)
        whole = gzip.compress(data, mtime=0)
        place = plain.with_name(plain.name + ".gz")
        if how == "plain":
            plain.write_bytes(data)
        elif how == "link":
            disk = self.world.folder / f"disk-{self.files}"
            plain.symlink_to(disk)
            self.hidden[plain] = lambda: disk.write_bytes(data)
        else:
            if how == "beside":  # the plain file of its name is another log
                others = sorted(p for p in plain.parent.glob("*.jsonl") if p.exists())
                place = self.rng.choice(others or [plain]).with_suffix(".jsonl.gz")
                place = place if not place.exists() else plain.with_name(plain.name + ".gz")
            bad = whole[:-1] if how != "sum" else whole[:-8] + b"\0\0\0\0" + whole[-4:]
            place.write_bytes(bad)
            self.hidden[place] = Mending(place, whole)

    def mend(self) -> None:
        """Let one file be read."""
        if self.hidden:
            place = self.rng.choice(sorted(self.hidden))
            self.hidden.pop(place)()

    def rename(self) -> None:
        """Give a file that can't be read another name."""
        gzips = [place for place in sorted(self.hidden) if place.suffix == ".gz"]
        if gzips:
            old = self.rng.choice(gzips)
            self.files += 1
            new = old.with_name(f"{self.files}.jsonl.gz")
            os.replace(old, new)
            mending = self.hidden.pop(old)
            assert isinstance(mending, Mending)
            self.hidden[new] = Mending(new, mending.whole)

    def join(self, mode: str | None = None) -> None:
        """Join, perhaps in a new process, and look at all that is said."""
        if self.rng.random() < 0.3:
            self.world.forget()
        counts = self.world.join(mode=mode or self.rng.choice(("until_idle", "complete"))).counts
        assert not counts.of("unjoinable"), "a click was given up whose primary is there"
        if self.hidden:
            assert unread_of(self.world), "a file that is not read is not there"
            assert not may_be_deleted(self.world), "a log may be deleted that an unread file may need"
            said = last_said(self.world.pipeline.datacenters["east"].lake)
            assert said is None or not said.is_final, "the logs are called complete"
        self.world.clock.advance(self.rng.choice((0, 2, 3_600)))


@dataclass
class Mending:
    """Writes the whole of a gzip file in its place."""

    place: Path
    whole: bytes

    def __call__(self) -> None:
        self.place.write_bytes(self.whole)


def a_history(folder: Path, seed: int, ways: Sequence[str] = WAYS) -> str | None:
    """What goes against the rule with this seed; None: nothing does."""
    (folder / str(seed)).mkdir()
    world = World(folder / str(seed), more=SOON)
    try:
        History(world, random.Random(seed), ways).run()
    except AssertionError as error:
        return str(error).splitlines()[0]
    return None


def an_acknowledged_file_that_grows_holds_again(world: World) -> None:
    """Acknowledge half a file, and write more of it."""
    whole = gzip.compress(lines_of("clicks", ("c1", "q1")), mtime=0)
    place = folder_of(world, "clicks") / "b.jsonl.gz"
    place.write_bytes(whole[:20])
    world.join()
    plan_acknowledgement(world.state(), world.clock.now_us()).apply()
    assert unread_of(world) == ()
    place.write_bytes(whole[:30])
    world.join()
    assert unread_of(world), "what changed since is taken as acknowledged"


def what_grew_between_the_look_and_the_acknowledgement_holds(world: World) -> None:
    """Name half a file, have it grow, and only then acknowledge what was named."""
    place = folder_of(world, "clicks") / "b.jsonl.gz"
    whole = gzip.compress(lines_of("clicks", ("c1", "q1")), mtime=0)
    place.write_bytes(whole[:20])
    world.join()
    named = plan_acknowledgement(world.state(), world.clock.now_us())
    place.write_bytes(whole[:30])
    world.join()
    named.apply()
    assert unread_of(world), "what nobody was told of is acknowledged"


def a_disk_that_is_away_takes_no_entry_with_it(world: World) -> None:
    """Show an empty folder in the place of one with an unread file, again and again."""
    world.events("c0")
    folder = folder_of(world, "clicks")
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(lines_of("clicks", ("c1", "q1")))[:20])
    world.join()
    folder.rename(world.folder / "away")
    folder.mkdir()
    for _ in range(3):
        world.join()
    assert unread_of(world), "a file on a disk that is away counts as gone"


def a_bad_file_that_a_good_one_pushes_on_keeps_its_time(world: World) -> None:
    """Rotate a file that can't be read, with a good one behind it."""
    folder = folder_of(world, "clicks")
    bad = folder / "a.1.jsonl.gz"
    bad.write_bytes(gzip.compress(lines_of("clicks", ("c1", "q1")))[:20])
    world.join()
    (before,) = unread_of(world)
    world.clock.advance(60)
    bad.rename(folder / "a.2.jsonl.gz")
    bad.write_bytes(gzip.compress(lines_of("clicks", ("c2", "q1"))))
    world.join()
    (after,) = unread_of(world)
    assert after.since_us == before.since_us, "a bad file that was renamed is another one"


def no_click_is_given_up_by_a_watermark_of_before(world: World) -> None:
    """Log primaries of later times beside half a file, with clicks that need it."""
    whole = gzip.compress(lines_of("queries", ("", "q1")), mtime=0)
    (folder_of(world, "queries") / "b.jsonl.gz").write_bytes(whole[:-1])
    world.clicks(("c1", "q1"))
    for minute in range(8):
        world.queries(f"other{minute}", at_us=NOON_US + minute * 60 * MICROSECONDS)
        counts = world.join().counts
        assert not counts.of("unjoinable"), "a click was given up whose primary is there"
        world.clock.advance(3_600)


def an_end_that_was_said_is_taken_back(world: World) -> None:
    """Call the logs complete, and then show half a file."""
    world.events("c1")
    world.join(mode="complete")
    whole = gzip.compress(lines_of("clicks", ("c2", "q1")), mtime=0)
    (folder_of(world, "clicks") / "b.jsonl.gz").write_bytes(whole[:-1])
    world.join(mode="complete")
    said = last_said(world.pipeline.datacenters["east"].lake)
    assert said is not None
    assert not said.is_final, "the logs are called complete"
