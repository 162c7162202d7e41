"""The second pipeline's look at the first: is its fed log what the first one says, and does it go on?"""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from photon.feed.folder import FedFolder
from photon.feed.marker import ASIDE, MARKER
from photon.feed.sink import Fed
from photon.feed.steps import nothing_of, snapshot, steps
from photon.health.feed import judge_feed, look_at_feed
from photon.logs.files import LogFile, TrackedFile
from photon.pipeline.file import Pipeline, load_pipeline
from photon.process.clock import MICROSECONDS, SystemClock
from photon.verification.fed_rows import FedRows, compare
from tests.releases.lakes import new_lakes

SECOND = """
name: second
datacenters: {here: {logs: logs}}
primary: {files: "clicks/*.jsonl", format: jsonl, id: _event_id, time: _event_time, watermark: feed}
foreign: {files: "c/*.jsonl", format: jsonl, id: id, key: click, time: at}
"""


class Chain:
    """Two pipelines: the first has lakes, the second only the log that it is fed."""

    def __init__(self, folder: Path) -> None:
        self.lakes = new_lakes(folder / "lakes", folder)
        self.folder = folder / "logs" / "clicks"
        (folder / "second.yaml").write_text(SECOND)
        self.second: Pipeline = load_pipeline(folder / "second.yaml")

    def follow(self, begins_with_rows: bool = True) -> None:
        pipeline = self.lakes.pipeline
        with closing(FedFolder(self.folder, Fed(pipeline.file, pipeline.name))) as sink:
            if (last := sink.cursor()) is None:
                last = self.lakes.made[0].release
                sink.deliver([(snapshot(pipeline, last) if begins_with_rows else nothing_of(last))])
            for one in steps(pipeline, last, SystemClock(), inserts_only=True):
                sink.deliver([one])

    def compared(self) -> FedRows:
        return compare(self.folder, [], most=10)

    def found(self) -> dict[str, int]:
        return {finding.kind: finding.count for finding in self.compared().findings}


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    """Three releases with rows of both datacenters, and all of them fed."""
    found = Chain(tmp_path)
    found.lakes.append("east")
    found.lakes.release()
    found.lakes.go_on("west", "east")
    found.follow()
    return found


def test_a_fed_log_has_each_row_of_its_release_once(chain: Chain) -> None:
    assert chain.found() == {}
    assert chain.compared().note == "its fed log has 6 rows, compared with release 3 of pipeline clicks"
    chain.lakes.go_on("west")  # not delivered yet
    assert chain.found() == {}


def test_rows_from_before_its_beginning_are_none_that_it_lacks(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    chain.lakes.append("east")
    chain.lakes.release()
    chain.lakes.go_on("west", "east")
    chain.follow(begins_with_rows=False)
    assert chain.found() == {}
    assert chain.compared().note.startswith("its fed log has 4 rows")


def test_rows_that_a_rebuild_took_back_are_nobodys_fault(chain: Chain) -> None:
    chain.lakes.rebuild("east", drops=True)
    chain.lakes.release()
    chain.follow()
    assert chain.found() == {}
    assert "were taken back since" in chain.compared().note


def test_altered_lines_are_found_by_what_they_lack_and_have_too_often(chain: Chain) -> None:
    last = chain.folder / "000000000003.jsonl"
    first_line, second_line = last.read_text().splitlines(keepends=True)
    last.write_text(first_line + first_line + second_line.replace('"_plan":"', '"_plan":"x'))
    assert chain.found() == {"feed_lacks_rows": 1, "feed_rows_twice": 1, "feed_rows_of_nobody": 1}
    assert [one.event_id for one in chain.compared().examples["feed_rows_twice"]] == ["e4"]


def test_files_of_other_names_count_as_a_join_reads_them_too(chain: Chain) -> None:
    shutil.copy(chain.folder / "000000000002.jsonl", chain.folder / "a copy.jsonl")
    assert chain.found() == {"feed_rows_twice": 2}


def test_a_long_log_is_left_to_people(chain: Chain) -> None:
    found = compare(chain.folder, [], most=10, most_bytes=100)
    assert (found.findings, "compares" in found.note and "at most" in found.note) == ([], True)


def test_a_file_that_is_not_there_and_was_never_read_is_lacking(chain: Chain) -> None:
    (chain.folder / "000000000002.jsonl").unlink()
    assert chain.found() == {"feed_lacks_files": 1}


def test_where_files_were_removed_once_they_were_read_nothing_is_compared(chain: Chain) -> None:
    gone = chain.folder / "000000000002.jsonl"
    size_bytes = gone.stat().st_size
    gone.unlink()
    file = LogFile(1, "primary", f"clicks/{gone.name}", 1, False, b"", 0, 10, b"h")
    read = TrackedFile(file, size_bytes, b"", False, size_bytes, 0, None, "gone")
    found = compare(chain.folder, [read], most=10)
    assert (found.findings, "1 file of" in found.note) == ([], True)
    unread = replace(read, offset_bytes=0)
    assert [one.kind for one in compare(chain.folder, [unread], most=10).findings] == ["feed_lacks_files"]


def test_what_can_not_be_compared_is_said(chain: Chain) -> None:
    shutil.rmtree(chain.lakes.pipeline.datacenters["west"].lake)  # type: ignore[arg-type]
    assert chain.found() == {}
    assert chain.compared().note.startswith("its fed log is not compared: release 3 can't be read")
    (chain.folder / ASIDE / MARKER).unlink()
    assert chain.compared().note == f"its fed log is not compared: {chain.folder} has no marker yet"


def test_a_feed_that_stands_still_needs_somebody(chain: Chain) -> None:
    def verdict(after: timedelta) -> str:
        now_us = SystemClock().now_us() + round(after.total_seconds() * MICROSECONDS)
        found = judge_feed("here", look_at_feed(chain.second, "here"), now_us, chain.second)
        return "" if found is None else f"{found.level}: {found.text}"

    assert verdict(timedelta(days=9)) == ""
    chain.lakes.go_on("west", "east")
    assert verdict(timedelta(seconds=30)) == ""
    assert verdict(timedelta(minutes=5)).startswith(
        "warn: here waits for the feed of pipeline clicks: its marker is at release 3, 5 is the newest"
    )
    assert f"photon follow {chain.lakes.pipeline.file} --to {chain.folder}" in verdict(timedelta(hours=1))
    chain.follow()
    assert verdict(timedelta(days=9)) == ""
    (chain.folder / ASIDE / MARKER).unlink()
    assert "here waits for its feed" in verdict(timedelta(0))
