"""Random histories of files that can be read late; and rules of D11 left out, which they or a story find."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from photon.dispatcher import dispatcher
from photon.dispatcher.log_reader import LogReader
from photon.dispatcher.planning import due_retries
from photon.logs.discovery import _Scanner
from photon.logs.files import Side
from photon.logs.tailing.contents import Contents
from photon.logs.tailing.unread_finder import UnreadFinder
from photon.logs.unread_files import UnreadFile
from photon.state.completeness.publishing import Publisher
from tests.simulation import unread_stories as stories
from tests.simulation.catching import caught_by_story, search
from tests.simulation.random_steps import run_by_hand
from tests.simulation.world import World

SEEDS = range(3)


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_can_be_read_late_is_joined_once_and_nothing_is_given_up_before(
    tmp_path: Path, seed: int
) -> None:
    assert stories.a_history(tmp_path, seed) is None


def _unread(self: LogReader, side: Side | None = None, *, only: Side) -> tuple[UnreadFile, ...]:
    entries = self.entries[only] if side in (None, only) else ()
    return tuple(one for one in entries if one.holds(self._acknowledged))


def _unread_primaries(self: LogReader, side: Side | None = None) -> tuple[UnreadFile, ...]:
    return _unread(self, side, only="primary")


def _unread_foreign(self: LogReader, side: Side | None = None) -> tuple[UnreadFile, ...]:
    return _unread(self, side, only="foreign")


def _due_by_the_clock(waiting, now_us, most, watermark_us, retry):  # type: ignore[no-untyped-def]
    return due_retries(waiting, now_us, most, 2**62, retry)


@pytest.mark.parametrize(
    ("way", "owner", "name", "broken", "because", "first"),  # near the seed that notices it
    [
        ("link", _Scanner, "_miss", lambda *_: None, "is not there", 0),  # a link to nothing is nothing
        ("beside", Contents, "is_copy_so_far", lambda *_: True, "is not there", 25),  # a copy by its name
        ("half", LogReader, "unread", _unread_foreign, "given up", 4),  # primary logs hold nothing
        ("half", LogReader, "unread", _unread_primaries, "is not there", 11),  # foreign logs hold nothing
    ],
    ids=["links", "copies", "primary", "foreign"],
)
def test_a_broken_hold_is_caught_by_a_history(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    owner: object,
    name: str,
    broken: Callable[..., object],
    because: str,
    first: int,
) -> None:
    monkeypatch.setattr(owner, name, broken)
    history = partial(stories.a_history, tmp_path, ways=("plain", way))
    search(history, range(first, 60), because, "a history")


STORIES = [
    stories.an_acknowledged_file_that_grows_holds_again,
    stories.what_grew_between_the_look_and_the_acknowledgement_holds,
    stories.a_disk_that_is_away_takes_no_entry_with_it,
    stories.a_bad_file_that_a_good_one_pushes_on_keeps_its_time,
    stories.no_click_is_given_up_by_a_watermark_of_before,
    stories.an_end_that_was_said_is_taken_back,
]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_story(tmp_path: Path, story: Callable[[World], None]) -> None:
    story(World(tmp_path, more=stories.SOON))


@pytest.mark.parametrize(
    ("story", "owner", "name", "broken", "because"),
    [
        (STORIES[0], UnreadFile, "identity", property(lambda one: (one.side, one.path, 0, 0, 0)), "since"),
        (STORIES[1], UnreadFile, "identity", property(lambda one: (one.side, one.path, 0, 0, 0)), "told of"),
        (STORIES[2], UnreadFinder, "_is_shown", lambda *_: True, "counts as gone"),
        (STORIES[3], UnreadFile, "is_same", lambda *_: False, "another one"),
        (STORIES[4], dispatcher, "due_retries", _due_by_the_clock, "given up"),
        (STORIES[5], Publisher, "note_unread", lambda *_: None, "called complete"),
    ],
    ids=["by path", "what is there now", "empty mount", "path before inode", "due", "end"],
)
def test_a_broken_entry_is_caught_by_a_story(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    story: Callable[[World], None],
    owner: object,
    name: str,
    broken: object,
    because: str,
) -> None:
    monkeypatch.setattr(owner, name, broken)
    caught_by_story(partial(story, World(tmp_path, more=stories.SOON)), because)


if __name__ == "__main__":
    run_by_hand(stories.a_history)
