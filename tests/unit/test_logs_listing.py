"""Listings of a bucket find objects: the bucket is a list in memory, and the test moves the clock."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from photon.dispatcher.dispatcher import rest_of
from photon.logs.discovery import FoundFile
from photon.logs.on_s3 import listing
from photon.logs.on_s3.listing import REST_PER_PAGE, ListedWatch
from photon.storage.s3 import StoredObject
from tests.support.shares import a_share

PAGE = 5  # objects
FOLDERS = 4  # listed at each look
HOUR_SECONDS = 3_600


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

    def rest(self, seconds: float = REST_PER_PAGE) -> None:
        """Let so much time go by; at least so that the next page is due."""
        self.now_seconds += seconds

    def watch(self, pattern: str = "**/*.log") -> ListedWatch:
        return ListedWatch(self, found_object, pattern, FOLDERS, lambda: self.now_seconds)


def found_object(listed: StoredObject) -> FoundFile:
    return FoundFile(listed.name, len(listed.name), listed.size_bytes, listed.modified_us, False)


def paths(watch: ListedWatch, whole: bool = False) -> list[str]:
    return [file.path for file in watch.scan(whole).files]


def idle(bucket: Bucket, watch: ListedWatch, seconds: float = 600) -> None:
    """Look until nothing new was found for so long."""
    until_seconds = bucket.now_seconds + seconds
    while bucket.now_seconds < until_seconds:
        watch.scan()
        bucket.rest(0.1)


def test_names_that_sort_behind_the_last_of_their_folder_are_found_at_the_next_look() -> None:
    bucket = Bucket([f"{folder}/{number}.log" for folder in "abc" for number in (1, 2)])
    watch = bucket.watch()
    watch.scan()
    bucket.names += ["c/3.log"]
    bucket.rest(1)
    assert "c/3.log" in paths(watch)
    bucket.names += ["c/4.log", "d/1.log"]
    bucket.rest(1)
    bucket.asked.clear()
    seen = watch.scan()
    assert {"c/4.log", "d/1.log"} <= {file.path for file in seen.files}
    assert not seen.is_whole
    assert all(after for _, after in bucket.asked)


def test_names_in_order_are_found_within_five_seconds_by_one_request_where_nothing_is_new() -> None:
    """Broken variants: each look lists; or an idle log is looked at as seldom as for names in no order."""
    bucket = Bucket([f"{folder}/{number:03}.log" for folder in "abcd" for number in range(3 * PAGE)])
    for poll_seconds in (0.1, 1.0, 2.0):
        watch = bucket.watch()
        idle(bucket, watch)
        bucket.asked.clear()
        for _ in range(round(60 / poll_seconds)):
            watch.scan()
            bucket.rest(poll_seconds)
        fronts = [one for one in bucket.asked if one == ("", bucket.names[-1])]
        assert 11 <= len(fronts) <= 19, "some of the time goes by in the pages of a full look"
        assert not [folder for folder, _ in bucket.asked if folder], "ends of folders that do not grow"
        bucket.names.append(f"{bucket.names[-1]}0.log")
        # The listing takes a second, and a page of a full look before it may.
        until_seconds = bucket.now_seconds + 5 + 2
        while bucket.names[-1] not in paths(watch):
            bucket.rest(poll_seconds)
        assert bucket.now_seconds <= until_seconds


@pytest.mark.parametrize("look_seconds", a_share([0.01, 0.05, 0.2], 1))
@pytest.mark.parametrize("poll_seconds", [0.1, 0.5, 1.0, 1.7])
def test_an_idle_dispatcher_s_looks_list_no_sooner_than_is_due(
    look_seconds: float, poll_seconds: float
) -> None:
    """Broken variant: a rest of its own length, and the look before lists: a fifth more with one a second."""
    bucket = Bucket([f"{number:03}.log" for number in range(PAGE + 1)])
    watch = bucket.watch()
    idle(bucket, watch)
    bucket.asked.clear()
    until_seconds = bucket.now_seconds + HOUR_SECONDS
    while bucket.now_seconds < until_seconds:
        due_seconds = watch.scan().due_in_seconds
        bucket.rest(look_seconds + rest_of(look_seconds, poll_seconds, due_seconds))
    fronts = [one for one in bucket.asked if one == ("", bucket.names[-1])]
    assert HOUR_SECONDS / 5 <= len(fronts) <= 1.05 * HOUR_SECONDS / listing.MOST_PAUSE_SECONDS


def test_names_in_no_order_are_found_within_three_minutes_where_nothing_is_new() -> None:
    bucket = Bucket([f"{number:03}.log" for number in range(100, 100 + 10 * PAGE)])
    watch = bucket.watch()
    idle(bucket, watch)
    bucket.names.append("099.log")
    until_seconds, bucket.pages = bucket.now_seconds + 180, 0
    while "099.log" not in paths(watch):
        bucket.rest(0.1)
    assert bucket.now_seconds < until_seconds
    assert bucket.pages <= 20


def test_whoever_looks_seldom_sees_all_each_time() -> None:
    bucket = Bucket([f"{number:03}.log" for number in range(100, 100 + 10 * PAGE)])
    watch = bucket.watch()
    watch.scan()
    bucket.names.append("099.log")
    bucket.rest(300)
    assert "099.log" in paths(watch)


def test_a_full_look_begins_at_once_where_something_is_new_and_its_pages_take_a_tenth_of_the_time() -> None:
    bucket = Bucket([f"{number:03}.log" for number in range(10 * PAGE - 1)])
    watch = bucket.watch()
    idle(bucket, watch)
    bucket.names.append("999.log")
    bucket.pages, until_seconds, whole = 0, bucket.now_seconds + 120, 0
    while bucket.now_seconds < until_seconds:
        whole += watch.scan().is_whole
        bucket.rest(0.1)
    assert whole == 1
    assert bucket.pages in range(10, 14)


def test_a_log_of_one_page_is_looked_at_as_a_whole_each_time_and_by_no_other_request() -> None:
    bucket = Bucket(["a/1.log", "b/1.log", "c/1.log"])
    watch = bucket.watch()
    idle(bucket, watch)
    bucket.asked.clear()
    bucket.names.append("a/0.log")
    bucket.rest(5)
    seen = watch.scan()
    assert (seen.is_whole, seen.began_scans_ago, "a/0.log" in paths(watch)) == (True, 0, True)
    assert bucket.asked == [("", "")]


def test_objects_of_others_neither_hide_the_last_name_of_a_log_nor_make_it_busy() -> None:
    """Broken variant: `zz.tmp` is the last name, and whatever the log gets is in no order."""
    bucket = Bucket([f"clicks-{number:03}.log" for number in range(2 * PAGE)] + ["queries-1.log", "zz.tmp"])
    watch = bucket.watch("clicks-*.log")
    idle(bucket, watch)
    bucket.asked.clear()
    for number in range(50):
        bucket.names.append(f"queries-{number + 2}.log")
        watch.scan()
        bucket.rest(0.1)
    assert len(bucket.asked) <= 4
    bucket.names.append("clicks-999.log")
    bucket.rest(5)
    assert "clicks-999.log" in paths(watch)


def test_what_a_listing_keeps_does_not_grow_with_objects_of_others_or_with_those_that_went() -> None:
    """Broken variants: all that is below the prefix is kept; folders of days that are over are."""

    def kept_bytes(days: int, strangers: int) -> int:
        bucket = Bucket([f"x/{number:05}.tmp" for number in range(strangers)])
        watch = bucket.watch()
        tracemalloc.start()
        watch.scan()
        for day in range(days):
            bucket.names = [name for name in bucket.names if name > f"d/{day - 1:03}"]
            bucket.names.append(f"d/{day:03}/1.log")
            assert bucket.names[-1] in paths(watch, whole=True)
            bucket.asked.clear()
        bucket.names = []
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return kept

    few_bytes = kept_bytes(days=20, strangers=0)
    assert kept_bytes(days=100, strangers=0) < few_bytes + 5_000
    assert kept_bytes(days=20, strangers=300) < few_bytes + 8_000, "in free lists"


def test_the_folder_of_the_next_day_is_found_by_the_end_of_the_one_before() -> None:
    bucket = Bucket([f"host={host}/day=29/{number}.log" for host in "abc" for number in range(PAGE)])
    watch = bucket.watch()
    watch.scan()
    bucket.names.append("host=a/day=29/9.log")
    while bucket.names[-1] not in paths(watch):
        bucket.rest(1)
    bucket.names.append("host=a/day=30/0.log")
    bucket.rest(1)
    assert "host=a/day=30/0.log" in paths(watch)


def test_a_full_look_says_with_which_scan_it_began() -> None:
    """Broken variant: the one that ends it. What came to its first page meanwhile is taken for seen."""
    bucket = Bucket([f"{number:03}.log" for number in range(3 * PAGE - 1)])
    watch = bucket.watch()
    assert watch.scan().began_scans_ago == 1, "its first page is older than its last one"
    scans = 0
    while not (seen := watch.scan()).is_whole:
        scans += bool(watch._next_after)
        bucket.rest()
    assert seen.began_scans_ago == 2


def test_an_object_that_went_is_missed_when_a_round_ends() -> None:
    bucket = Bucket([f"{number:03}.log" for number in range(2 * PAGE - 1)])
    watch = bucket.watch()
    watch.scan()
    bucket.names.remove("001.log")
    bucket.rest()
    assert "001.log" in paths(watch)
    bucket.rest()
    while not (seen := watch.scan()).is_whole:
        bucket.rest()
    assert "001.log" not in [file.path for file in seen.files]


def test_what_comes_behind_a_round_that_is_under_way_is_not_taken_for_gone() -> None:
    bucket = Bucket([f"{number:03}.log" for number in range(2 * PAGE - 1)])
    watch = bucket.watch()
    watch.scan()
    bucket.rest()
    watch.scan()
    bucket.names += ["a/new.log"]
    for _ in range(4):
        bucket.rest()
        assert "a/new.log" in paths(watch)


def test_a_bucket_that_does_not_answer_is_a_problem_and_what_was_seen_is_known_after_it() -> None:
    bucket = Bucket(["a.log"])
    watch = bucket.watch()
    watch.scan()
    bucket.rest()
    bucket.is_away = True
    seen = watch.scan()
    assert [(problem.path, problem.reason) for problem in seen.problems] == [
        (".", "the logs folder cannot be read: s3://logs: nobody answers")
    ]
    assert not seen.is_whole
    bucket.is_away = False
    bucket.rest()
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
    bucket.names += [f"host-{number}/2.log" for number in range(9)]
    while len(paths(watch)) < 18:
        bucket.rest()
    turns = []
    for _ in range(4):
        bucket.names.append(f"host-8/{len(bucket.names)}.log")
        bucket.rest(1)
        bucket.asked.clear()
        watch.scan()
        turns.append({folder for folder, _ in bucket.asked if folder})
    assert all(len(turn) <= FOLDERS for turn in turns)
    assert set.union(*turns) >= {f"host-{number}" for number in range(8)}


def test_an_object_that_was_told_of_is_asked_for_by_its_name() -> None:
    """Broken variant: one that is known is not, and another object under its key is found by a full look."""
    bucket = Bucket([f"a/5-{number}.log" for number in range(2 * PAGE - 1)])
    watch = bucket.watch()
    idle(bucket, watch)
    watch.scan(told=[])
    bucket.names += ["a/4.log", "b/1.txt"]
    bucket.asked.clear()
    seen = watch.scan(told=["a/4.log", "a/4.log", "b/1.txt", "went.log", "a/5-0.log"])
    assert "a/4.log" in [file.path for file in seen.files]
    assert sorted(bucket.named) == ["a/4.log", "a/5-0.log", "went.log"]
    assert ("", "") in bucket.asked, "a full look begins, since something is new"


def test_what_nobody_told_of_is_found_by_a_listing_of_now_and_then() -> None:
    """Broken variant: whoever tells is trusted, and a notice that is lost loses the events of its object."""
    bucket = Bucket([f"a/5-{number}.log" for number in range(2 * PAGE - 1)])
    watch = bucket.watch()
    idle(bucket, watch)
    watch.scan(told=[])
    bucket.names.append("a/6.log")
    assert "a/6.log" not in [file.path for file in watch.scan(told=[]).files]
    bucket.rest(listing.MOST_PAUSE_SECONDS)
    assert "a/6.log" in [file.path for file in watch.scan(told=[]).files]


def test_of_more_objects_than_a_look_asks_for_the_others_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MOST_ASKED", 3)
    bucket = Bucket(["a/1.log"])
    watch = bucket.watch()
    idle(bucket, watch)
    told = [f"a/2-{number}.log" for number in range(9)]
    bucket.names += told
    bucket.named.clear()
    assert len(watch.scan(told=told).files) > 4
    assert sorted(bucket.named) == told[:3]
    while len(watch.scan(told=[]).files) < 10:
        bucket.rest()


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
