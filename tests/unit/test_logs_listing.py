"""Which listings of a bucket find which objects, by a list of them in memory and a clock by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from photon.logs.discovery import FoundFile
from photon.logs.listing import REST_PER_LISTING, ListedWatch
from photon.storage.s3 import StoredObject


@dataclass
class Bucket:
    """Objects by name; a whole listing takes a second."""

    names: list[str] = field(default_factory=list)
    now_seconds: float = 100.0
    asked: list[tuple[str, str]] = field(default_factory=list)
    is_away: bool = False

    def objects(self, below: str = "", after: str = "") -> Iterator[StoredObject]:
        if self.is_away:
            raise OSError("s3://logs: nobody answers")
        self.asked.append((below, after))
        if not after:
            self.now_seconds += 1
        for name in sorted(self.names):
            if name > after and (not below or name.startswith(below.strip("/") + "/")):
                yield StoredObject(name, 5, f"etag of {name}", self.names.index(name))

    def watch(self, pattern: str = "**/*.log") -> ListedWatch:
        return ListedWatch(self.objects, found_object, pattern, lambda: self.now_seconds)


def found_object(listed: StoredObject) -> FoundFile:
    return FoundFile(listed.name, len(listed.name), listed.size_bytes, listed.modified_us, False)


def paths(watch: ListedWatch, whole: bool = False) -> list[str]:
    return [file.path for file in watch.scan(whole).files]


def test_names_that_sort_behind_the_last_of_their_folder_are_found_without_a_whole_listing() -> None:
    bucket = Bucket(["a/1.log", "b/1.log", "c/1.log"])
    watch = bucket.watch()
    assert paths(watch) == ["a/1.log", "b/1.log", "c/1.log"]
    bucket.names += ["a/2.log", "d/1.log"]
    bucket.asked.clear()
    seen = watch.scan()
    assert [file.path for file in seen.files] == ["a/1.log", "a/2.log", "b/1.log", "c/1.log", "d/1.log"]
    assert not seen.is_whole
    assert all(after for _, after in bucket.asked)


def test_a_name_that_sorts_before_is_found_by_the_next_whole_listing() -> None:
    bucket = Bucket(["a/5.log"])
    watch = bucket.watch()
    watch.scan()
    bucket.names.append("a/4.log")
    assert paths(watch) == ["a/5.log"]
    bucket.now_seconds += REST_PER_LISTING
    assert paths(watch) == ["a/4.log", "a/5.log"]


def test_whole_listings_take_a_tenth_of_the_time() -> None:
    bucket = Bucket([f"{number}.log" for number in range(9)])
    watch, until = bucket.watch(), bucket.now_seconds + 1_000
    while bucket.now_seconds < until:
        watch.scan()
        bucket.now_seconds += 0.1
    assert sum(not after for _, after in bucket.asked) in range(95, 105)


def test_an_object_that_went_is_missed_by_a_whole_listing_alone() -> None:
    bucket = Bucket(["a.log", "b.log"])
    watch = bucket.watch()
    watch.scan()
    bucket.names.remove("a.log")
    assert paths(watch) == ["a.log", "b.log"]
    assert paths(watch, whole=True) == ["b.log"]


def test_a_bucket_that_does_not_answer_is_a_problem_and_then_listed_as_a_whole() -> None:
    bucket = Bucket(["a.log"])
    watch = bucket.watch()
    watch.scan()
    bucket.is_away = True
    seen = watch.scan()
    assert [(problem.path, problem.reason) for problem in seen.problems] == [
        (".", "the logs folder cannot be read: s3://logs: nobody answers")
    ]
    bucket.is_away = False
    assert watch.scan().is_whole


def test_only_what_is_below_the_tame_part_of_the_pattern_is_listed() -> None:
    bucket = Bucket(["clicks/1.log", "queries/1.log"])
    assert paths(bucket.watch("clicks/**/*.log")) == ["clicks/1.log"]
    assert bucket.asked == [("clicks/", "")]
