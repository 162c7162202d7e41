"""Logs on this machine and on S3 keep the same promises, objects some more (`photon.logs.folders`)."""

from __future__ import annotations

import gzip
import time
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import boto3
import numpy as np
import pytest

from infra.servers.minio import MinioServer
from photon.logs.files import ByteRange, TrackedFile
from photon.logs.folders import log_folder
from photon.logs.on_s3 import objects
from photon.logs.ranges import RangeGone, read_at, read_pieces, read_range, read_stretches, stretches_of
from photon.logs.scattered import read_stretches_in_order
from photon.logs.source import LogsUnavailable
from photon.logs.tailing.retry_times import FIRST_PAUSE_US, MOST_FAILURES, MOST_PAUSE_US
from photon.logs.tailing.tail import LISTED_ONLY, LogTail
from photon.logs.unread_files import UnreadFile
from photon.pipeline.location import Location, S3Folder
from photon.pipeline.sections import Limits, PrimaryLog, Tailing
from photon.storage import s3
from photon.storage.odd_keys import is_odd
from photon.storage.s3 import S3Store
from tests.faulty_s3 import FaultyS3
from tests.unit.tailing_world import World

LINE_LIMIT_BYTES = 2**20


class Logs(World):
    """A folder of logs of either kind and somebody who follows it."""

    def __init__(self, location: Location, files: str = "**/*.log") -> None:
        self.location = location
        super().__init__(location, files, "jsonl", Limits())  # type: ignore[arg-type]

    def restart(self) -> None:
        log = PrimaryLog(files=self.log.files, format=self.log.format, id="id", time="t")
        self.tail = LogTail(self.location, "primary", log, self.limits, Tailing())

    def write(self, name: str, data: bytes) -> None:
        if isinstance(self.location, Path):
            super().write(name, data)
            return

        def write(sink: BinaryIO) -> None:
            sink.write(data)

        store = S3Store(self.location)
        store.remove(name)
        store.create(name, write)

    def remove(self, name: str) -> None:
        if isinstance(self.location, Path):
            (self.location / name).unlink()
        else:
            S3Store(self.location).remove(name)

    def cuts(self, budget: int = 10**9) -> dict[int, ByteRange]:
        """Look, and cut the next range of each file."""
        cuts = {number: self.tail.cut(self.tracked[number], budget) for number in self.look().backlog_bytes}
        self.tracked.update({number: cut[1] for number, cut in cuts.items() if cut is not None})
        return {number: cut[0] for number, cut in cuts.items() if cut is not None}

    def known(self, number: int = 1) -> TrackedFile:
        return self.tracked[number]


@pytest.fixture
def logs(folder: Location) -> Logs:
    """An empty folder of logs."""
    if isinstance(folder, Path):
        folder.mkdir()
    return Logs(folder)


@pytest.fixture
def bucket(on_s3: S3Folder) -> Logs:
    """The same on S3."""
    return Logs(on_s3)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.log", ["a.log"]),
        ("**/*.log", ["a.log", "one/b.log", "one/two/c.log", "one/z.log.gz"]),
        ("one/**/*.log", ["one/b.log", "one/two/c.log", "one/z.log.gz"]),
        ("*/*.log", ["one/b.log", "one/z.log.gz"]),
        ("**/two/[a-c].log", ["one/two/c.log"]),
        ("one/.hidden", ["one/.hidden"]),
        ("nowhere/*", []),
    ],
)
def test_a_pattern_finds_the_same_files(logs: Logs, pattern: str, expected: list[str]) -> None:
    for name in ("a.log", "one/b.log", "one/two/c.log", "one/z.log.gz", "one/.hidden", ".d/e.log", "onetwo"):
        logs.write(name, b"{}\n")
    seen = log_folder(logs.location).watch(pattern).scan(whole=True)
    assert ([file.path for file in seen.files], seen.problems) == (expected, ())


def test_new_files_are_read_once_and_known_after_a_restart(logs: Logs) -> None:
    logs.write("a/1.log", b'{"n": 1}\n{"n": 2}\n')
    logs.write("a/2.log", b'{"n": 3}\n')
    assert logs.read() == {1: b'{"n": 1}\n{"n": 2}\n', 2: b'{"n": 3}\n'}
    logs.write("b/1.log", b'{"n": 4}\n')
    logs.restart()
    assert logs.read() == {3: b'{"n": 4}\n'}
    assert logs.read() == {}


def test_a_file_that_went_unread_vanishes_at_the_second_look(logs: Logs) -> None:
    logs.write("a.log", b'{"n": 1}\n')
    logs.write("b.log", b'{"n": 2}\n')
    logs.look()
    logs.remove("a.log")
    logs.look(final=False)
    vanished = [*logs.look(final=True).vanished, *logs.last_seen.vanished]
    assert {(one.file.path, one.state, one.unread_bytes) for one in vanished} == {("a.log", "gone", 9)}


@pytest.mark.parametrize("lines", [3, 60_000])  # read at once, and in parts
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_ranges_pieces_and_scattered_lines_have_the_bytes_that_were_written(
    logs: Logs, lines: int, ending: str
) -> None:
    data = b"".join(b'{"number": %d, "text": "%064d"}\n' % (number, number) for number in range(lines))
    logs.write("a.log" + ending, gzip.compress(data) if ending else data)
    read = b""
    while cuts := logs.cuts(budget=10**6):
        read += read_range(logs.location, logs.known().file, cuts[1])
    assert read == data
    pieces = [
        piece
        for stretch in stretches_of(logs.known(), 2**21)
        for _, piece in read_pieces(logs.location, stretch, 2**20, LINE_LIMIT_BYTES)
    ]
    assert b"".join(pieces) == data
    places = [(0, 5), (7, 30), (len(data) // 2, len(data) // 2 + 100), (len(data) - 4, len(data))]
    expected = [data[start:end] for start, end in places]
    assert read_stretches(logs.location, logs.known().file, places) == expected
    files = {1: logs.known().file}
    found = read_stretches_in_order(logs.location, files, np.ones(len(places), np.int64), places)
    assert found == expected


def test_bytes_that_are_not_there_are_gone(logs: Logs) -> None:
    logs.write("a.log", b'{"n": 1}\n')
    logs.look()
    with pytest.raises(RangeGone, match="truncated"):
        read_at(logs.location, logs.known().file, 0, 10)
    logs.remove("a.log")
    objects._beginnings.clear()
    with pytest.raises(RangeGone, match="not there"):
        read_at(logs.location, logs.known().file, 0, 9)
    found = read_stretches_in_order(logs.location, {1: logs.known().file}, np.ones(1, np.int64), [(0, 9)])
    assert found == [None]


def test_the_newest_object_is_not_taken_for_the_one_that_was_planned(bucket: Logs) -> None:
    """Broken variant: by the key alone the range would be read, with other events in it."""
    bucket.write("a.log", b'{"n": 1}\n')
    planned = bucket.cuts()[1]
    bucket.write("a.log", b'{"n": 7}\n{"n": 8}\n')
    objects._beginnings.clear()
    with pytest.raises(RangeGone):
        read_range(bucket.location, bucket.known().file, planned)


def test_an_object_put_again_under_its_key_is_a_new_file_and_the_rest_of_the_old_one_counts_as_lost(
    bucket: Logs,
) -> None:
    bucket.write("a.log", b'{"n": 1}\n{"n": 2}\n')
    bucket.cuts(budget=9)
    bucket.write("a.log", b'{"n": 1}\n{"n": 2}\n{"n": 3}\n')
    assert bucket.look(final=True).backlog_bytes == {2: 27}
    assert [(one.file.number, one.state, one.unread_bytes) for one in bucket.last_seen.vanished] == [
        (1, "replaced", 9)
    ]


def test_an_object_that_is_put_again_with_the_same_bytes_is_the_file_that_it_was(bucket: Logs) -> None:
    bucket.write("a.log", b'{"n": 1}\n')
    assert bucket.read() == {1: b'{"n": 1}\n'}
    bucket.write("a.log", b'{"n": 1}\n')
    bucket.restart()
    assert bucket.read() == {}


def test_an_object_that_went_and_is_put_back_unchanged_has_lost_nothing(bucket: Logs) -> None:
    bucket.write("a.log", b'{"n": 1}\n')
    bucket.read()
    bucket.remove("a.log")
    bucket.look(final=True)
    time.sleep(1.1)  # a store has the times of objects in seconds
    bucket.write("a.log", b'{"n": 1}\n')
    assert bucket.read() == {}
    assert (bucket.known().state, bucket.known().end_unknown) == ("open", False)


def test_the_last_line_of_an_object_needs_no_newline(bucket: Logs) -> None:
    bucket.write("a.log", b'{"n": 1}\n{"n": 2}')
    bucket.write("b.log", b'{"n": 3}')
    assert bucket.read() == {1: b'{"n": 1}\n{"n": 2}', 2: b'{"n": 3}'}


def put_by_key(folder: S3Folder, name: str, data: bytes) -> None:
    """Put an object under any key, as other programs do."""
    client = boto3.client("s3", endpoint_url=folder.endpoint_url)
    client.put_object(Bucket=folder.bucket, Key=f"{folder.key}/{name}", Body=data)


def test_objects_of_any_key_that_the_store_takes_are_read_once(bucket: Logs) -> None:
    """Broken variant: one key that obstore refuses fails the listing of all."""
    plain = ["100%.log", "a b.log", "a%20b.log", "a+b.log", "a?#&=.log", "[a].log", "ü漢.log", "x..log"]
    refused = ["tab\there.log", "z/new\nline.log", "z/a\x01.log"]
    for number, name in enumerate(plain):
        bucket.write(name, b'{"n": %d}\n' % number)
    assert sorted(bucket.read().values()) == [b'{"n": %d}\n' % number for number in range(len(plain))]
    assert isinstance(bucket.location, S3Folder)
    for number, name in enumerate(refused):
        put_by_key(bucket.location, name, b'{"new": %d}\n' % number)
    assert all(is_odd(name) for name in refused)
    bucket.restart()
    assert sorted(bucket.read().values()) == [b'{"new": %d}\n' % number for number in range(len(refused))]
    bucket.restart()
    assert bucket.read() == {}
    assert bucket.last_seen.problems == ()


def test_a_key_that_ends_with_a_slash_is_a_problem_of_its_own(bucket: Logs) -> None:
    assert isinstance(bucket.location, S3Folder)
    put_by_key(bucket.location, "folder/", b"")
    put_by_key(bucket.location, "a.log/", b'{"n": 1}\n')
    bucket.write("b.log", b'{"n": 2}\n')
    assert bucket.read() == {1: b'{"n": 2}\n'}
    assert [(problem.path, problem.reason) for problem in bucket.last_seen.problems] == [
        ("a.log", LISTED_ONLY)
    ]


@pytest.mark.parametrize("name", ["a//b", "/b", "a/", "a/../b", "./b", "..", "t\tb", "n\nb", "a\x7f"])
def test_keys_that_obstore_refuses_are_known(name: str) -> None:
    assert is_odd(name)


@pytest.mark.parametrize("name", ["a", "a/b.log", "..x", "a/.b", "x..", "...", "a b%20+.log", "ü/漢"])
def test_other_keys_are_not_odd(name: str) -> None:
    assert not is_odd(name)


def test_logs_that_can_not_be_asked_for_are_not_gone(
    minio: MinioServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken variant: taken for gone, the bytes of a plan would be counted as lost in an outage."""
    with MinioServer(tmp_path / "other", ["logs"]) as server:
        logs = Logs(S3Folder("logs", "east", server.url))
        logs.write("a.log", b'{"n": 1}\n')
        planned = logs.cuts()[1]
        bucket_of_another_name = S3Folder("no-such-bucket", "east", server.url)
        objects._beginnings.clear()
        with pytest.raises(LogsUnavailable, match="NoSuchBucket"):
            read_range(bucket_of_another_name, logs.known().file, planned)
        monkeypatch.setattr(s3, "RETRIES", 0)
        s3.forget_clients()
        server.kill()
        with pytest.raises(LogsUnavailable, match=f"at {server.url}"):
            read_range(logs.location, logs.known().file, planned)
        with pytest.raises(LogsUnavailable):
            read_stretches_in_order(logs.location, {1: logs.known().file}, np.ones(1, np.int64), [(0, 9)])
        assert logs.look(final=True).vanished == ()
        assert [problem.path for problem in logs.last_seen.problems] == ["."]
        # So a complete run does not end, and gives up no event whose primary is in these logs.
        assert (logs.last_seen.is_away, logs.last_seen.checks_pending) == (True, True)
        assert log_folder(logs.location).why_not_there() is not None


def unread_of(logs: Logs) -> tuple[UnreadFile, ...]:
    """The objects that the last look has not read."""
    seen_files = logs.last_seen.seen_files
    assert seen_files is not None
    return seen_files.unread


def is_of_a_bad_object(method: str, path: str) -> bool:
    return "bad" in path and "list-type" not in path


@pytest.fixture
def unreliable(faulty: FaultyS3, on_s3: S3Folder) -> Logs:
    """A folder on S3 behind a way that may fail."""
    return Logs(replace(on_s3, endpoint_url=faulty.url))


def test_objects_are_known_again_without_a_request_for_each(unreliable: Logs, faulty: FaultyS3) -> None:
    for number in range(20):
        unreliable.write(f"{number}.log", b'{"n": %d}\n' % number)
    assert len(unreliable.read()) == 20
    unreliable.restart()
    faulty.meet("busy", among=lambda method, path: "list-type" not in path)
    assert unreliable.look().changed == {}
    assert faulty.met["busy"] == 0


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_an_object_that_can_not_be_read_holds_up_no_other_and_is_read_when_it_can_be(
    unreliable: Logs, faulty: FaultyS3, ending: str
) -> None:
    content = gzip.compress(b'{"n": 1}\n') if ending else b'{"n": 1}\n'
    unreliable.write(f"bad.log{ending}", content)
    unreliable.write("good.log", b'{"n": 2}\n')
    faulty.meet("busy", among=is_of_a_bad_object)
    assert unreliable.read() == {1: b'{"n": 2}\n'}
    assert [(problem.path, "SlowDown" in problem.reason) for problem in unreliable.last_seen.problems] == [
        (f"bad.log{ending}", True)
    ]
    assert not unreliable.last_seen.is_away
    met = faulty.met["busy"]
    unreliable.look()
    assert faulty.met["busy"] == met, "it is asked for again after a pause"
    faulty.mend()
    unreliable.now_us += FIRST_PAUSE_US
    assert unreliable.read() == {2: b'{"n": 1}\n'}
    assert unreliable.last_seen.problems == ()


def test_an_object_that_is_not_given_any_more_holds_up_no_other(unreliable: Logs, faulty: FaultyS3) -> None:
    unreliable.write("bad.log", b'{"n": 1}\n')
    unreliable.write("good.log", b'{"n": 2}\n')
    unreliable.look()
    objects._beginnings.clear()
    faulty.meet("busy", among=is_of_a_bad_object)
    assert unreliable.read() == {2: b'{"n": 2}\n'}
    assert unreliable.look().backlog_bytes == {}
    assert [(one.path, one.size_bytes) for one in unread_of(unreliable)] == [("bad.log", 0)]
    faulty.mend()
    unreliable.now_us += FIRST_PAUSE_US
    assert unreliable.read() == {1: b'{"n": 1}\n'}


def test_complete_inputs_have_all_objects_that_are_listed(unreliable: Logs, faulty: FaultyS3) -> None:
    """Broken variant: events whose primaries it has would be given up."""
    unreliable.write("bad.log", b'{"n": 1}\n')
    unreliable.write("good.log", b'{"n": 2}\n')
    faulty.meet("busy", among=is_of_a_bad_object)
    assert unreliable.read(final=True) == {1: b'{"n": 2}\n'}
    (one,) = unread_of(unreliable)
    assert (one.path, one.is_awaited(one.since_us)) == ("bad.log", True)
    faulty.mend()
    unreliable.now_us += FIRST_PAUSE_US
    assert unreliable.read(final=True) == {2: b'{"n": 1}\n'}
    assert unread_of(unreliable) == ()


def test_where_many_objects_can_not_be_read_some_are_tried_at_each_look_and_the_others_are_read(
    unreliable: Logs, faulty: FaultyS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken variant: 17 such objects would stop a datacenter."""
    for number in range(MOST_FAILURES + 1):
        unreliable.write(f"{number}-bad.log", b'{"n": 1}\n')
    unreliable.write("good.log", b'{"n": 2}\n')
    faulty.meet("busy", among=is_of_a_bad_object)
    with monkeypatch.context() as while_busy:
        while_busy.setattr(s3, "RETRIES", 0)
        s3.forget_clients()
        found: dict[int, bytes] = {}
        while not found:
            found = unreliable.read()
        assert not unreliable.last_seen.is_away
        assert len(unread_of(unreliable)) == MOST_FAILURES + 1
    s3.forget_clients()  # a connection that broke may be tried again from here on
    faulty.mend()
    unreliable.now_us += MOST_PAUSE_US
    assert len(unreliable.look().changed) == MOST_FAILURES + 1
    assert unread_of(unreliable) == ()
