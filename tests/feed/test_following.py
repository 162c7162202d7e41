"""A follower goes on where its sink says, waits for what may come, and ends where nobody can go on."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from photon.feed.following import LISTED_EVERY_SECONDS, Follower, Start, together
from photon.feed.sink import SinkUnavailable
from photon.feed.step import CursorTooOld, FeedStopped, Step
from photon.releases import copies
from photon.releases.finding import NoRelease, ReleaseUnreadable
from photon.releases.release import Note, Release
from tests.feed.made_steps import step
from tests.feed.replay import Event, apply
from tests.feed.test_changed_rows import noted, without
from tests.releases.lakes import Lakes, new_lakes
from tests.support.manual_clock import ManualClock


@dataclass
class Memory:
    """A sink that holds rows in memory."""

    takes_changes: bool = True
    is_log: bool = False
    is_table: bool = False
    has: set[Event] = field(default_factory=set)
    last: Release | None = None
    numbers: list[int] = field(default_factory=list)

    def cursor(self) -> Release | None:
        return self.last

    def deliver(self, steps: Sequence[Step]) -> Release | None:
        for one in steps:
            if one.after != self.last:
                break
            apply(one, self.has)
            self.last = one.release
            self.numbers.append(one.release.number)
        return self.last

    def replace(self, step: Step) -> None:
        self.has.clear()
        self.last = None
        self.deliver([step])


class Later(ManualClock):
    """A clock whose sleeps are counted, and in which something happens while somebody sleeps."""

    def __init__(self, now_us: int, happens: Sequence[Callable[[], object]] = ()) -> None:
        super().__init__(now_us)
        self.happens, self.slept = list(happens), list[float]()

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        super().sleep(seconds)
        if self.happens:
            self.happens.pop(0)()


class Ended(Exception):
    """The test has seen enough."""


def end() -> None:
    raise Ended


@pytest.fixture
def here(tmp_path: Path) -> Lakes:
    """Releases 1 to 3, with two rows more each."""
    return new_lakes(tmp_path / "lakes", tmp_path).go_on("east", "east", "east")


def follower(lakes: Lakes, sink: Memory, start: Start = "oldest", *happens: Callable[[], object]) -> Follower:
    now_us = lakes.made[-1].release.made_us if lakes.made else 0
    return Follower(lakes.pipeline, sink, start, Later(now_us, happens))


def events(sink: Memory) -> set[tuple[str, int]]:
    return {(event, value) for _, event, value in sink.has}


# -- where it begins


@pytest.mark.parametrize(
    ("start", "numbers", "rows"),
    [("oldest", [1, 2, 3], 6), ("newest", [3], 6), ("now", [3], 0), (2, [2, 3], 2)],
)
def test_it_begins_where_it_is_told(here: Lakes, start: Start, numbers: list[int], rows: int) -> None:
    sink = Memory()
    follower(here, sink, start).run(once=True)
    assert sink.numbers == numbers
    assert len(sink.has) == rows


def test_it_begins_with_a_release_that_is_still_kept_when_its_rows_are_read(here: Lakes) -> None:
    sink = Memory()
    keep = here.pipeline.releases.keep
    clock = Later(here.made[1].release.made_us + round((keep - timedelta(hours=1)).total_seconds() * 1e6))
    Follower(here.pipeline, sink, "oldest", clock).run(once=True)
    assert sink.numbers == [3]


@pytest.mark.parametrize(("takes_changes", "numbers"), [(False, [4, 5]), (True, [1, 2, 3, 4, 5])])
def test_it_begins_behind_a_rebuild_that_would_end_it(
    here: Lakes, takes_changes: bool, numbers: list[int]
) -> None:
    here.rebuild("east", drops=True)
    here.release()
    here.go_on("west")
    sink = Memory(takes_changes=takes_changes)
    follower(here, sink).run(once=True)
    assert sink.numbers == numbers
    assert events(sink) == here.made[-1].joined


def test_it_begins_behind_a_lake_that_was_put_back(here: Lakes) -> None:
    noted(here, Note("lake put back", "east", "it was put back"))
    here.go_on("west")
    sink = Memory()
    follower(here, sink).run(once=True)
    assert sink.numbers == [4, 5]


def test_it_begins_behind_a_lake_that_is_gone(here: Lakes) -> None:
    here.append("west")
    without(here, "east", lakes_gone=("east",))
    shutil.rmtree(Path(here.lake("east")))
    sink = Memory()
    follower(here, sink).run(once=True)
    assert (sink.numbers, len(sink.has)) == ([4], 2)


def test_it_begins_behind_releases_that_no_lake_has_any_more(here: Lakes) -> None:
    for name in ("east", "west"):
        (Path(here.lake(name)) / copies.FOLDER / f"{2:012d}.json").unlink()
    sink = Memory()
    follower(here, sink).run(once=True)
    assert sink.numbers == [3]


def test_where_a_sink_has_a_cursor_it_goes_on_there(here: Lakes) -> None:
    sink = Memory()
    follower(here, sink).run(once=True)
    here.append("west")
    here.release()
    follower(here, sink, "now").run(once=True)
    assert sink.numbers == [1, 2, 3, 4]
    assert events(sink) == here.made[-1].joined


def test_without_a_release_it_waits_and_with_once_it_ends(tmp_path: Path) -> None:
    lakes, sink = new_lakes(tmp_path / "lakes", tmp_path), Memory()
    with pytest.raises(NoRelease):
        follower(lakes, sink).run(once=True)
    with pytest.raises(Ended):
        follower(lakes, sink, "oldest", lambda: lakes.release(), end).run()
    assert sink.numbers == [1]


def test_a_number_that_is_not_there_is_not_waited_for(here: Lakes) -> None:
    with pytest.raises(NoRelease, match="no release number 9"):
        follower(here, Memory(), 9).run()


# -- how it goes on


def test_each_release_is_delivered_soon_after_it_is_made(here: Lakes) -> None:
    sink, found = Memory(), list[int]()

    def made() -> None:
        here.append("west")
        here.release()

    at_work = follower(here, sink, "oldest", made, lambda: found.append(len(sink.numbers)), end)
    with pytest.raises(Ended):
        at_work.run()
    assert found == [4]
    assert isinstance(at_work.clock, Later)
    assert at_work.clock.slept == [2.0] * 3  # releases.every: 30s


def test_all_names_are_listed_now_and_then(here: Lakes) -> None:
    """A refill goes on with a greater number than the next one."""
    sink, asked = Memory(), list[int]()

    class Asked(Memory):
        def cursor(self) -> Release | None:
            asked.append(len(clock.slept))
            return super().cursor()

    sink = Asked()
    clock = Later(here.made[-1].release.made_us, [lambda: None] * 11 + [end])
    with pytest.raises(Ended):
        Follower(here.pipeline, sink, "oldest", clock).run()
    assert asked[-2:] == [LISTED_EVERY_SECONDS / 2, LISTED_EVERY_SECONDS]


def test_a_lake_that_is_away_is_told_once_and_waited_for_longer_and_longer(here: Lakes) -> None:
    table = Path(here.table("east").folder)
    away, sink = table.with_name("away"), Memory()
    table.rename(away)
    with pytest.raises(ReleaseUnreadable):
        follower(here, sink, 1).run(once=True)
    assert sink.numbers == [1]
    at_work = follower(here, sink, 1, lambda: None, lambda: None, lambda: away.rename(table), end)
    said = list[logging.LogRecord]()
    handler = logging.Handler(logging.WARNING)
    handler.emit = said.append  # type: ignore[method-assign]
    logging.getLogger("photon.feed.following").addHandler(handler)
    try:
        with pytest.raises(Ended):
            at_work.run()
    finally:
        logging.getLogger("photon.feed.following").removeHandler(handler)
    assert sink.numbers == [1, 2, 3]
    assert isinstance(at_work.clock, Later)
    assert at_work.clock.slept[:3] == [1.0, 2.0, 4.0]
    assert ["datacenter east" in record.getMessage() for record in said] == [True]


def test_a_sink_that_does_not_answer_is_asked_again(here: Lakes) -> None:
    class Away(Memory):
        tries = 0

        def deliver(self, steps: Sequence[Step]) -> Release | None:
            self.tries += 1
            if self.tries == 2:
                raise SinkUnavailable("no route to host")
            return super().deliver(steps)

    sink = Away()
    with pytest.raises(Ended):
        follower(here, sink, 1, lambda: None, end).run()
    assert sink.numbers == [1, 2, 3]


def test_of_two_followers_the_second_goes_on_behind_the_first(here: Lakes) -> None:
    class Shared(Memory):
        def deliver(self, steps: Sequence[Step]) -> Release | None:
            if len(self.numbers) == 1:
                super().deliver(steps[:1])  # another follower is faster
            return super().deliver(steps)

    sink = Shared()
    follower(here, sink).run(once=True)
    assert sink.numbers == [1, 2, 3]
    assert events(sink) == here.made[-1].joined


def test_small_steps_go_to_the_sink_together_and_those_before_an_error_too() -> None:
    def found() -> Sequence[Step]:
        yield from (step(number) for number in range(1, 6))  # type: ignore[misc]
        raise FeedStopped("here")

    groups = together(found(), most_rows=2)
    assert [[one.release.number for one in next(groups)] for _ in range(3)] == [[1, 2], [3, 4], [5]]
    with pytest.raises(FeedStopped, match="here"):
        next(groups)


# -- where it ends


def test_without_changes_it_ends_before_a_release_that_takes_something_back(here: Lakes) -> None:
    sink = Memory(takes_changes=False)
    follower(here, sink).run(once=True)
    here.rebuild("east", drops=True)
    here.release()
    with pytest.raises(
        FeedStopped, match=r"release 4 takes back \d rows?.*: --changes delivers such rows too, --resync all"
    ):
        follower(here, sink).run()
    assert sink.numbers == [1, 2, 3]
    sink.takes_changes = True
    follower(here, sink).run(once=True)
    assert events(sink) == here.made[-1].joined


def test_a_resync_puts_the_newest_release_in_the_place_of_all(here: Lakes) -> None:
    sink = Memory(takes_changes=False)
    follower(here, sink).run(once=True)
    here.rebuild("east", drops=True)
    here.release()
    at_work = follower(here, sink)
    at_work.resync()
    at_work.run(once=True)
    assert sink.numbers == [1, 2, 3, 4]
    assert events(sink) == here.made[-1].joined


def test_behind_what_is_kept_it_ends_with_the_remedy(here: Lakes) -> None:
    sink = Memory(last=here.made[0].release)
    here.forget_before(3)
    at_work = Follower(here.pipeline, sink, "oldest", Later(here.made[-1].release.made_us + 10**12))
    with pytest.raises(CursorTooOld, match=r"photon follow .*pipeline.yaml --resync"):
        at_work.run()


def test_a_cursor_is_enough_where_its_release_is_not_kept(here: Lakes) -> None:
    sink = Memory(last=here.made[0].release)
    here.forget_before(2)
    follower(here, sink).run(once=True)
    assert sink.numbers == [2, 3]


def test_where_a_lake_is_lost_others_are_followed_on(here: Lakes) -> None:
    sink = Memory()
    follower(here, sink).run(once=True)
    shutil.rmtree(Path(here.table("west").folder).parent / "joined_events")
    here.append("east")
    made = here.made[-1].release
    assert made.number == 3
    follower(here, sink).run(once=True)
    assert sink.numbers == [1, 2, 3]
