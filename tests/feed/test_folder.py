"""A fed folder: files of inserts, and a marker behind them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from photon.feed.cursor_file import CursorFile
from photon.feed.folder import FedFolder
from photon.feed.marker import ASIDE, MARKER
from photon.feed.sink import SinkUnavailable
from photon.feed.step import FeedStopped, Step
from photon.pipeline.location import Location
from photon.process.faults import DISK_FAULT_POINTS, FOLLOW_FAULT_POINTS, watched
from photon.storage.json_lines import lines
from photon.storage.store import store_of
from tests.feed.made_steps import FED, release, row, step

STEPS = [step(1, after=None), step(2, []), step(3, [row(3, at) for at in range(5)]), step(4)]


@contextmanager
def fed(folder: Location) -> Iterator[FedFolder]:
    with closing(FedFolder(folder, FED)) as found:
        yield found


def files(folder: Location) -> dict[str, bytes]:
    store = store_of(folder)
    return {name: store.read(name) for name in sorted(store.names())}


def marker(folder: Location) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(store_of(folder / ASIDE).read(MARKER))
    return found


def lines_of(wanted: Step) -> bytes:
    return b"".join(lines(page) for page in wanted.pages())


def test_each_release_with_rows_becomes_a_file_and_the_marker_goes_on_with_every_one(
    folder: Location,
) -> None:
    with fed(folder) as sink:
        assert sink.cursor() is None
        assert sink.deliver(STEPS[:2]) == release(2)
        assert marker(folder)["files"] == 1
        assert sink.deliver(STEPS[2:]) == release(4)
    assert files(folder) == {
        f"{one.release.number:012d}.jsonl": lines_of(one) for one in STEPS if one.inserts
    }
    said = marker(folder)
    assert (said["name"], said["files"], said["last_file"]) == ("clicks", 3, "000000000004.jsonl")
    with fed(folder) as sink:
        assert sink.cursor() == release(4)


def test_a_step_that_does_not_follow_on_the_marker_is_not_taken(folder: Location) -> None:
    with fed(folder) as sink:
        assert sink.deliver([STEPS[0], step(4)]) == release(1)
    assert list(files(folder)) == ["000000000001.jsonl"]


def test_what_a_release_takes_back_is_counted_and_its_inserts_are_written(folder: Location) -> None:
    gone = {"_release": 3, "_change_type": "delete", "_datacenter": "west"}
    changes = [
        row(1, 0, "delete", _release=3),
        row(2, 0, "update_preimage", _release=3),
        row(2, 0, "update_postimage", _release=3),
        gone,
        row(3),
    ]
    with fed(folder) as sink:
        sink.deliver(
            [step(1), step(2), step(3, changes, lakes_gone=["west"]), step(4, [row(3, 0, "delete")])]
        )
    assert files(folder)["000000000003.jsonl"] == lines_of(step(3, [row(3)]))
    assert "000000000004.jsonl" not in files(folder)
    assert marker(folder)["taken_back"] == {"deletes": 2, "updates": 1, "lakes_gone": ["west"]}


def test_a_folder_that_begins_behind_a_release_says_which_rows_it_never_gets(folder: Location) -> None:
    with fed(folder) as sink:
        sink.deliver([step(7, [], after=None), step(8)])
    assert marker(folder)["begins_behind"] == {"east": [1, 7]}
    assert list(files(folder)) == ["000000000008.jsonl"]


def test_a_file_that_is_there_behind_a_crash_is_put_on_disk_again(tmp_path: Path) -> None:
    """The process may have died before the folder was synced, and the marker must not be first."""
    synced: list[object] = []
    with fed(tmp_path) as sink:
        (tmp_path / "000000000001.jsonl").write_bytes(lines_of(step(1)))
        with watched(lambda point, place: synced.append(place) if point == "disk.after_sync" else None):
            sink.deliver([step(1)])
    assert synced[0] == tmp_path


def test_a_folder_with_files_and_no_marker_is_not_begun(folder: Location) -> None:
    with fed(folder) as sink:
        sink.deliver([step(1)])
        store_of(folder / ASIDE).remove(MARKER)
        with pytest.raises(FeedStopped, match=r"000000000001\.jsonl and no \.photon/feed\.json"):
            sink.deliver([step(5, after=None)])


def test_a_log_is_not_replaced(tmp_path: Path) -> None:
    with fed(tmp_path) as sink, pytest.raises(FeedStopped, match="nothing can be replaced"):
        sink.replace(step(9, after=None))


def test_a_folder_that_can_not_be_written_leaves_open_whether_it_has_the_step(tmp_path: Path) -> None:
    folder = tmp_path / "fed"
    with fed(folder) as sink:
        (folder / ASIDE / "lock").unlink()
        (folder / ASIDE).rmdir()
        (folder / ASIDE).write_text("a file is in the way")
        with pytest.raises(SinkUnavailable, match="can't be used"):
            sink.deliver([step(1)])


def test_a_marker_never_goes_back(tmp_path: Path) -> None:
    """A follower on another machine, which no lock of this one keeps away, is further on."""
    there = CursorFile(tmp_path / ASIDE, MARKER, FED)

    def be_first(point: str, _: object) -> None:
        if point == "follow.after_rows":
            there.put(release(5), files=9)

    with fed(tmp_path) as sink:
        sink.deliver([step(1)])
        with watched(be_first):
            assert sink.deliver([step(2), step(3)]) == release(5)
    assert marker(tmp_path)["files"] == 9


class Killed(Exception):
    pass


def killed_at(passing: int) -> Callable[[str, object], None]:
    """Have the process end at that passing of a fault point of the disk or the follower."""
    seen = 0

    def watch(point: str, _: object) -> None:
        nonlocal seen
        seen += point in (*DISK_FAULT_POINTS, *FOLLOW_FAULT_POINTS)
        if seen == passing:
            seen += 1
            raise Killed(point)

    return watch


def test_killed_anywhere_it_has_the_same_bytes_in_the_end(tmp_path: Path) -> None:
    with fed(tmp_path / "whole") as sink:
        sink.deliver(STEPS)
    for passing in range(1, 500):
        folder = tmp_path / f"killed at {passing}"
        try:
            with watched(killed_at(passing)), fed(folder) as sink:
                sink.deliver(STEPS)
        except Killed:
            with fed(folder) as sink:
                last = sink.cursor()
                sink.deliver([one for one in STEPS if last is None or one.release.number > last.number])
        else:
            break
        assert files(folder) == files(tmp_path / "whole")
        assert marker(folder) == marker(tmp_path / "whole")
        assert {path.name for path in (folder / ASIDE).iterdir()} == {MARKER, "lock"}
    assert passing > 40


def test_a_file_is_on_disk_under_its_name_before_the_marker_says_so(tmp_path: Path) -> None:
    events: list[str] = []

    def note(point: str, place: object) -> None:
        if (point == "disk.after_sync" and tmp_path in Path(str(place)).parents) or place == tmp_path:
            events.append(Path(str(place)).name.split(".")[0] or Path(str(place)).name)

    with fed(tmp_path) as sink:
        sink.deliver([step(1)])
        with watched(note):
            sink.deliver([step(2)])
    assert events.index("000000000002") < events.index(tmp_path.name) < events.index("feed")
