"""Listings of a bucket find objects: the bucket is a list in memory, and the test moves the clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from photon.logs.discovery import FoundFile
from photon.logs.on_s3 import listing
from photon.logs.on_s3.listing import REST_PER_PAGE, ListedWatch
from photon.storage.s3 import StoredObject

PAGE = 5  # objects
FOLDERS = 4  # listed at each look


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "LISTED_AT_ONCE", PAGE)


@dataclass
class Bucket:
    """Objects by name; a page of them takes a second, and nothing else takes time."""

    names: list[str] = field(default_factory=list)
    now_seconds: float = 100.0
    asked: list[tuple[str, str]] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    pages: int = 0
    is_away: bool = False

    def objects(self, below: str = "", after: str = "") -> Iterator[StoredObject]:
        if self.is_away:
            raise OSError("s3://logs: nobody answers")
        self.asked.append((below, after))
        listed = [
            n for n in sorted(self.names) if n > after and n.startswith(below and f"{below.strip('/')}/")
        ]
        if listed:
            self.pages, self.now_seconds = self.pages + 1, self.now_seconds + 1
        for name in listed:
            yield self.stored(name)

    def object(self, name: str) -> StoredObject | None:
        self.named.append(name)
        return self.stored(name) if name in self.names else None

    def stored(self, name: str) -> StoredObject:
        return StoredObject(name, 5, f"etag of {name}", self.names.index(name))

    def rest(self) -> None:
        """Let so much time go by that the next page is due."""
        self.now_seconds += REST_PER_PAGE

    def watch(self, pattern: str = "**/*.log") -> ListedWatch:
        return ListedWatch(self, found_object, pattern, FOLDERS, lambda: self.now_seconds)


def found_object(listed: StoredObject) -> FoundFile:
    return FoundFile(listed.name, len(listed.name), listed.size_bytes, listed.modified_us, False)


def paths(watch: ListedWatch, whole: bool = False) -> list[str]:
    return [file.path for file in watch.scan(whole).files]


def test_names_that_sort_behind_the_last_of_their_folder_are_found_at_the_next_look() -> None:
    bucket = Bucket(["a/1.log", "b/1.log", "c/1.log"])
    watch = bucket.watch()
    assert paths(watch) == ["a/1.log", "b/1.log", "c/1.log"]
    bucket.names += ["a/2.log", "d/1.log"]
    bucket.asked.clear()
    seen = watch.scan()
    assert [file.path for file in seen.files] == ["a/1.log", "a/2.log", "b/1.log", "c/1.log", "d/1.log"]
    assert not seen.is_whole
    assert all(after for _, after in bucket.asked)


def test_a_name_that_sorts_before_is_found_by_the_next_round() -> None:
    bucket = Bucket([f"a/5-{number}.log" for number in range(2 * PAGE - 1)])
    watch = bucket.watch()
    watch.scan()
    bucket.names.append("a/4.log")
    assert "a/4.log" not in paths(watch)
    bucket.rest()
    assert "a/4.log" in paths(watch)


def test_a_look_lists_a_page_and_pages_take_a_tenth_of_the_time() -> None:
    bucket = Bucket([f"{number:03}.log" for number in range(10 * PAGE - 1)])
    watch = bucket.watch()
    watch.scan()
    bucket.pages, until = 0, bucket.now_seconds + 1_000
    whole = 0
    while bucket.now_seconds < until:
        before = bucket.pages
        whole += watch.scan().is_whole
        assert bucket.pages <= before + 1
        bucket.now_seconds += 0.1
    assert bucket.pages in range(90, 105)
    assert whole in (9, 10), "a round is ten pages"


def test_an_object_that_went_is_missed_when_a_round_ends() -> None:
    bucket = Bucket([f"{number:03}.log" for number in range(2 * PAGE - 1)])
    watch = bucket.watch()
    watch.scan()
    bucket.names.remove("001.log")
    bucket.rest()
    assert "001.log" in paths(watch)
    bucket.rest()
    seen = watch.scan()
    assert seen.is_whole
    assert "001.log" not in [file.path for file in seen.files]


def test_what_comes_behind_a_round_that_is_under_way_is_not_taken_for_gone() -> None:
    bucket = Bucket([f"{number:03}.log" for number in range(2 * PAGE - 1)])
    watch = bucket.watch()
    watch.scan()
    bucket.rest()
    watch.scan()
    bucket.names += ["a/new.log"]
    bucket.names.sort()
    for _ in range(4):
        assert "a/new.log" in paths(watch)
        bucket.rest()


def test_a_bucket_that_does_not_answer_is_a_problem_and_what_was_seen_is_known_after_it() -> None:
    bucket = Bucket(["a.log"])
    watch = bucket.watch()
    watch.scan()
    bucket.is_away = True
    seen = watch.scan()
    assert [(problem.path, problem.reason) for problem in seen.problems] == [
        (".", "the logs folder cannot be read: s3://logs: nobody answers")
    ]
    assert not seen.is_whole
    bucket.is_away = False
    assert paths(watch) == ["a.log"]


def test_only_what_is_below_the_tame_part_of_the_pattern_is_listed() -> None:
    bucket = Bucket(["clicks/1.log", "queries/1.log"])
    assert paths(bucket.watch("clicks/**/*.log")) == ["clicks/1.log"]
    assert bucket.asked == [("clicks/", "")]


def test_ends_of_more_folders_than_a_look_lists_have_their_turn_beside_those_that_grew_last() -> None:
    """Broken variant: those that grew last alone, and a folder that grows seldom waits for a round."""
    bucket = Bucket([f"host-{number}/1.log" for number in range(9)])
    watch = bucket.watch()
    watch.scan()
    turns = []
    for _ in range(4):
        bucket.names.append(f"host-8/{len(bucket.names)}.log")
        bucket.asked.clear()
        watch.scan()
        turns.append({folder for folder, _ in bucket.asked if folder})
    assert all(len(turn) <= FOLDERS for turn in turns)
    assert set.union(*turns) >= {f"host-{number}" for number in range(8)}


def test_an_object_that_was_told_of_is_asked_for_by_its_name_and_nothing_is_listed() -> None:
    bucket = Bucket([f"a/5-{number}.log" for number in range(2 * PAGE - 1)])
    watch = bucket.watch()
    watch.scan(told=[])
    watch.scan(told=[])  # ends
    bucket.names += ["a/4.log", "b/1.txt"]
    bucket.asked.clear()
    seen = watch.scan(told=["a/4.log", "a/4.log", "b/1.txt", "went.log", "a/5-0.log"])
    assert "a/4.log" in [file.path for file in seen.files]
    assert (bucket.asked, sorted(bucket.named)) == ([], ["a/4.log", "went.log"])


def test_what_nobody_told_of_is_found_by_a_listing_of_now_and_then() -> None:
    """Broken variant: whoever tells is trusted, and a notice that is lost loses the events of its object."""
    bucket = Bucket(["a/1.log", "a/0.log"])
    watch = bucket.watch()
    watch.scan(told=[])
    watch.scan(told=[])
    bucket.names.append("a/2.log")
    assert "a/2.log" not in [file.path for file in watch.scan(told=[]).files]
    bucket.now_seconds += listing.ENDS_EVERY_SECONDS
    assert "a/2.log" in [file.path for file in watch.scan(told=[]).files]
    bucket.names.append("a/1.5.log")
    bucket.now_seconds += 2 * REST_PER_PAGE
    assert "a/1.5.log" in [file.path for file in watch.scan(told=[]).files]


def test_more_objects_than_a_look_asks_for_are_found_by_the_ends_of_their_folders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listing, "MOST_ASKED", 3)
    bucket = Bucket(["a/1.log"])
    watch = bucket.watch()
    watch.scan(told=[])
    watch.scan(told=[])
    told = [f"a/2-{number}.log" for number in range(9)]
    bucket.names += told
    bucket.asked.clear()
    bucket.named.clear()
    assert len(watch.scan(told=told).files) == 10
    assert sorted(bucket.named) == told[:3]


def test_a_round_that_ends_says_how_long_ago_it_began() -> None:
    bucket = Bucket([f"{number:03}.log" for number in range(3 * PAGE - 1)])
    watch = bucket.watch()
    watch.scan()
    began_seconds = bucket.now_seconds + REST_PER_PAGE
    while True:
        bucket.rest()
        seen = watch.scan()
        if seen.is_whole:
            break
    assert seen.took_seconds == bucket.now_seconds - began_seconds > 2 * REST_PER_PAGE
