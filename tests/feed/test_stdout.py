"""Lines on standard output, and the cursor beside them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from photon.feed.cursor_file import CursorFile, FollowedAlready, locked
from photon.feed.sink import Fed, SinkUnavailable
from photon.feed.stdout import StandardOutput
from photon.feed.step import FeedStopped, Step
from photon.process.errors import FormatTooNew
from photon.process.faults import watched
from photon.storage.json_lines import lines
from tests.feed.made_steps import FED, POSITION, release, row, step


@contextmanager
def appending(folder: Path, fed: Fed = FED) -> Iterator[StandardOutput]:
    """The sink of `photon follow --cursor cursor.json >> feed.jsonl`."""
    with (folder / "feed.jsonl").open("ab") as out:
        yield StandardOutput(out, CursorFile(folder, "cursor.json", fed))


def written(folder: Path) -> bytes:
    return (folder / "feed.jsonl").read_bytes()


def lines_of(*steps: Step) -> bytes:
    return b"".join(lines(page) for each in steps for page in each.pages())


def test_steps_become_lines_in_order_and_the_cursor_is_behind_them(tmp_path: Path) -> None:
    steps = [step(1, [row(1, at) for at in range(5)]), step(2, []), step(3)]
    with appending(tmp_path) as sink:
        assert sink.cursor() is None
        assert sink.deliver(steps) == release(3)
    with appending(tmp_path) as sink:
        assert sink.cursor() == release(3)
    assert written(tmp_path) == lines_of(*steps)


def test_a_step_that_does_not_follow_on_the_cursor_is_not_taken(tmp_path: Path) -> None:
    with appending(tmp_path) as sink:
        assert sink.deliver([step(1), step(3)]) == release(1)
    assert written(tmp_path) == lines_of(step(1))


def test_without_a_cursor_file_the_cursor_ends_with_the_process(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        sink = StandardOutput(out, None)
        sink.deliver([step(1)])
        assert sink.cursor() == release(1)
        assert StandardOutput(out, None).cursor() is None


def test_a_snapshot_takes_the_place_of_what_came_before(tmp_path: Path) -> None:
    with appending(tmp_path) as sink:
        sink.deliver([step(1)])
        sink.replace(step(9, after=None))
        assert sink.deliver([step(10)]) == release(10)
    assert written(tmp_path) == lines_of(step(1), step(9), step(10))


class Killed(Exception):
    pass


def test_lines_of_a_step_come_again_where_the_process_dies_before_its_cursor(tmp_path: Path) -> None:
    def die(point: str, _: object) -> None:
        if point == "follow.after_rows":
            raise Killed

    with pytest.raises(Killed), watched(die), appending(tmp_path) as sink:
        sink.deliver([step(1)])
    with appending(tmp_path) as sink:
        sink.deliver([step(1)])
    assert written(tmp_path) == lines_of(step(1)) * 2


def test_lines_are_on_disk_before_the_cursor_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    sync = os.fsync

    def note(file: int) -> None:
        events.append(Path(f"/proc/self/fd/{file}").resolve().name)
        sync(file)

    monkeypatch.setattr("os.fsync", note)
    with appending(tmp_path) as sink:
        sink.deliver([step(1)])
    assert events[0] == "feed.jsonl"
    assert events[1].startswith("cursor.json")


def test_half_a_line_of_a_killed_process_is_left_by_itself(tmp_path: Path) -> None:
    (tmp_path / "feed.jsonl").write_bytes(b'{"_release":1,"_chan')
    with appending(tmp_path) as sink:
        sink.deliver([step(1)])
    assert written(tmp_path) == b'{"_release":1,"_chan\n' + lines_of(step(1))


def test_a_cursor_of_another_pipeline_or_table_is_refused(tmp_path: Path) -> None:
    with appending(tmp_path) as sink:
        sink.deliver([step(1)])
    for other in (Fed(FED.pipeline, "views"), Fed(FED.pipeline, "clicks", "unjoined")):
        with appending(tmp_path, other) as sink, pytest.raises(FeedStopped, match="joined rows of clicks"):
            sink.cursor()


def test_a_file_that_is_no_cursor_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cursor.json").write_text("{}")
    with appending(tmp_path) as sink, pytest.raises(FeedStopped, match=r"cursor\.json: expected a cursor"):
        sink.cursor()


def test_a_cursor_of_a_newer_photon_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cursor.json").write_text(json.dumps({"format": 99}))
    with appending(tmp_path) as sink, pytest.raises(FormatTooNew):
        sink.cursor()


def test_a_cursor_that_can_not_be_written_leaves_open_whether_the_step_was_taken(tmp_path: Path) -> None:
    (tmp_path / "a file").touch()
    with (tmp_path / "out").open("wb") as out:
        sink = StandardOutput(out, CursorFile(tmp_path / "a file", "cursor.json", FED))
        with pytest.raises(SinkUnavailable, match=r"cursor\.json"):
            sink.deliver([step(1)])


def test_of_two_followers_with_one_cursor_the_second_is_refused_with_the_first_ones_process(
    tmp_path: Path,
) -> None:
    lock = tmp_path / "cursor.json.lock"
    with locked(lock), pytest.raises(FollowedAlready, match=str(os.getpid())), locked(lock):
        pass
    with locked(lock):
        pass


def test_arrow_is_a_stream_for_all_steps_with_the_same_columns(tmp_path: Path) -> None:
    wider = pa.schema([*POSITION, ("country", pa.string())])
    steps = [step(1), step(2, []), step(3), step(4, [row(4, country="dk")], others=wider)]
    with (tmp_path / "out").open("wb") as out, closing(StandardOutput(out, None, form="arrow")) as sink:
        sink.deliver(steps)
    found: list[pa.Table] = []
    with (tmp_path / "out").open("rb") as file:
        while file.peek(1):
            found.append(pa.ipc.open_stream(file).read_all())
    assert [one["_release"].to_pylist() for one in found] == [[1, 3], [4]]
    assert found[1]["country"].to_pylist() == ["dk"]


def test_a_step_is_in_a_stream_of_arrow_before_the_next_one_comes(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out, closing(StandardOutput(out, None, form="arrow")) as sink:
        sink.deliver([step(1)])
        stream = pa.ipc.open_stream((tmp_path / "out").read_bytes())
        assert stream.read_next_batch()["_release"].to_pylist() == [1]
