"""The timeline: what it says of when bytes came is never later than they did."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from photon.logs.files import LogFile, TrackedFile
from photon.process.clock import MICROSECONDS
from photon.process.errors import FormatTooNew
from photon.state.timeline import FOLDER, UNKNOWN_US, EpochTimeline, Timeline, read_timeline

NOON_US = 1_767_607_200_000_000
SECOND = MICROSECONDS
DAY_US = 86_400 * SECOND
Files = dict[int, TrackedFile]


def files(**sizes: int) -> Files:
    """Log files that nothing was read of, by number (`f1=100`)."""
    found = {}
    for name, size in sizes.items():
        number = int(name[1:])
        file = LogFile(number, "foreign", f"{name}.csv", number, False, b"", 0, 0, b"")
        found[number] = TrackedFile(file, 0, b"", False, size, 0, None)
    return found


def timeline(folder: Path, known: Files | None = None) -> Timeline:
    return Timeline(folder, "e1", known or {}, 3 * DAY_US)


def look(writer: Timeline, files: Files, now_us: int) -> None:
    """A look that sees all that came until then, as each does in a folder of this machine."""
    writer.looked(files, now_us, now_us)


def epoch_timeline(folder: Path) -> EpochTimeline:
    return read_timeline(folder)["e1"]


def came_after(folder: Path, number: int, *offsets: int) -> list[int]:
    """Look up when lines at these offsets came, in seconds since noon; UNKNOWN_US: nobody knows."""
    found = epoch_timeline(folder).came_after(np.full(len(offsets), number), np.array(offsets))
    return [us if us == UNKNOWN_US else (us - NOON_US) // SECOND for us in found.tolist()]


def test_a_line_came_after_the_last_look_that_did_not_see_it(tmp_path: Path) -> None:
    writer = timeline(tmp_path)
    look(writer, files(f1=100), NOON_US)
    look(writer, files(f1=100), NOON_US + 7 * SECOND)
    look(writer, files(f1=250, f2=10), NOON_US + 8 * SECOND)
    assert came_after(tmp_path, 1, 100, 249) == [7, 7]
    assert came_after(tmp_path, 2, 0) == [7]


def test_a_line_came_after_the_last_listing_that_did_not_find_it_began(tmp_path: Path) -> None:
    writer = timeline(tmp_path)
    writer.looked(files(f1=100), NOON_US + 7 * SECOND, NOON_US + 3 * SECOND)
    writer.looked(files(f1=100, f2=10), NOON_US + 8 * SECOND, NOON_US + 4 * SECOND)
    writer.looked(files(f1=100, f2=20), NOON_US + 9 * SECOND, NOON_US + 4 * SECOND)
    assert came_after(tmp_path, 2, 0, 10) == [3, 4]
    assert epoch_timeline(tmp_path).last_us == NOON_US + 4 * SECOND


def test_nobody_knows_when_bytes_came_that_the_first_look_of_a_process_finds(tmp_path: Path) -> None:
    look(timeline(tmp_path), files(f1=100), NOON_US)
    look(timeline(tmp_path, files(f1=100)), files(f1=300), NOON_US + 60 * SECOND)
    assert came_after(tmp_path, 1, 50, 200) == [UNKNOWN_US, UNKNOWN_US]


def test_what_an_earlier_process_has_seen_stays_known(tmp_path: Path) -> None:
    first = timeline(tmp_path)
    for second, size in enumerate((0, 100, 200, 300)):
        look(first, files(f1=size), NOON_US + second * SECOND)
    look(timeline(tmp_path, files(f1=100)), files(f1=400), NOON_US + 60 * SECOND)
    assert came_after(tmp_path, 1, 50, 150, 250, 350) == [0, 1, 2, UNKNOWN_US]


def test_what_a_file_got_while_it_was_away_may_have_come_at_any_time(tmp_path: Path) -> None:
    writer = timeline(tmp_path)
    look(writer, files(f1=100), NOON_US)
    away = {1: replace(files(f1=100)[1], state="gone")}
    look(writer, away, NOON_US + 5 * SECOND)  # type: ignore[arg-type]
    look(writer, files(f1=250), NOON_US + 10 * SECOND)
    assert came_after(tmp_path, 1, 200) == [UNKNOWN_US]


def test_looks_that_follow_quickly_make_one_line_that_knows_less(tmp_path: Path) -> None:
    writer = timeline(tmp_path)
    look(writer, files(), NOON_US)
    for tenth in range(1, 100):
        look(writer, files(f1=10 * tenth), NOON_US + tenth * SECOND // 10)
    lines = sum(path.read_text().count("\n") for path in (tmp_path / FOLDER).iterdir())
    assert lines == 10
    at_1_1_seconds = epoch_timeline(tmp_path).came_after(np.array([1]), np.array([105]))
    assert at_1_1_seconds.tolist() == [NOON_US + SECOND // 10]


def test_a_batch_without_a_line_counts_as_readable_with_the_next_one(tmp_path: Path) -> None:
    writer = timeline(tmp_path)
    for batch, second in ((1, 0), (2, 5), (4, 9)):
        writer.committed(batch, NOON_US + second * SECOND)
    writer.flush(NOON_US + 10 * SECOND)
    found = epoch_timeline(tmp_path)
    assert found.readable(np.array([1, 2, 3, 5])).tolist() == [
        NOON_US,
        NOON_US + 5 * SECOND,
        NOON_US + 9 * SECOND,
        UNKNOWN_US,
    ]
    assert found.first_batch_since(NOON_US + 5 * SECOND) == 2
    assert found.first_batch_since(NOON_US + 6 * SECOND) == 3


def test_what_is_unread_at_the_end_of_a_file_came_after_the_last_look_that_is_noted(tmp_path: Path) -> None:
    writer = timeline(tmp_path)
    look(writer, files(f1=100), NOON_US)
    look(writer, files(f1=100, f2=5), NOON_US + 30 * SECOND)
    assert epoch_timeline(tmp_path).first_unread_us(1, 100) == NOON_US + 30 * SECOND
    assert epoch_timeline(tmp_path).first_unread_us(1, 50) == UNKNOWN_US  # nobody knows when it came


def test_nobody_knows_when_that_came_which_a_process_finds_unread_at_its_start(tmp_path: Path) -> None:
    known = {1: replace(files(f1=100)[1], offset_bytes=40)}
    writer = timeline(tmp_path, known)
    for second in (0, 5):
        look(writer, known, NOON_US + second * SECOND)
        writer.committed(1, NOON_US + second * SECOND)
    assert epoch_timeline(tmp_path).first_unread_us(1, 40) == UNKNOWN_US


def test_a_folder_that_takes_no_line_stops_nobody_and_makes_nothing_known(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FOLDER).write_text("no folder")
    writer = timeline(tmp_path)
    for second in range(4):
        look(writer, files(f1=100 + second), NOON_US + second * 2 * SECOND)
        writer.committed(second, NOON_US + second * 2 * SECOND)
    assert len(caplog.messages) == 1
    (tmp_path / FOLDER).unlink()
    look(writer, files(f1=200), NOON_US + 60 * SECOND)
    assert came_after(tmp_path, 1, 100, 150) == [UNKNOWN_US, UNKNOWN_US]


def test_half_a_line_of_a_killed_process_is_passed_over(tmp_path: Path) -> None:
    look(timeline(tmp_path), files(f1=100), NOON_US)
    (path,) = (tmp_path / FOLDER).iterdir()
    path.write_text(path.read_text() + '{"format":1,"epo')
    assert epoch_timeline(tmp_path).ends[1].tolist() == [100]


def test_old_hours_are_removed(tmp_path: Path) -> None:
    look(timeline(tmp_path), files(f1=100), NOON_US)
    look(timeline(tmp_path), files(f1=200), NOON_US + 5 * DAY_US)
    (path,) = (tmp_path / FOLDER).iterdir()
    assert path.name == "20260110T10.jsonl"


def test_a_timeline_of_a_newer_photon_is_refused(tmp_path: Path) -> None:
    look(timeline(tmp_path), files(f1=100), NOON_US)
    (path,) = (tmp_path / FOLDER).iterdir()
    path.write_text(path.read_text().replace('"format":1', '"format":2'))
    with pytest.raises(FormatTooNew):
        read_timeline(tmp_path)


@pytest.mark.parametrize("seed", range(20))
def test_no_byte_is_said_to_have_come_later_than_it_did(tmp_path: Path, seed: int) -> None:
    """Processes come and go, files grow at any moment and are away at times."""
    rng, listings = random.Random(seed), random.Random(seed)
    print(f"seed {seed}")
    sizes, away = {1: 0, 2: 0}, set[int]()
    came: dict[int, list[int]] = {1: [], 2: []}
    now_us, stored = NOON_US, dict[int, int]()
    writer = timeline(tmp_path)
    for _ in range(1_000):
        now_us += rng.randrange(1, 2 * SECOND)
        number = rng.choice([1, 2])
        match rng.randrange(10):
            case 0:
                read = {
                    n: replace(t, offset_bytes=rng.randint(0, stored.get(n, 0)))
                    for n, t in _now(sizes, away).items()
                }
                writer = timeline(tmp_path, read)
            case 1:
                away ^= {number}
            case 2 | 3 | 4:
                more = rng.randrange(1, 5)
                sizes[number] += more
                came[number] += [now_us] * more
            case _:
                writer.looked(_now(sizes, away), now_us, now_us - listings.choice([0, 1, 3]) * SECOND)
                stored = dict(sizes)
    found = epoch_timeline(tmp_path)
    known = 0
    for number, times_us in came.items():
        said = found.came_after(np.full(len(times_us), number), np.arange(len(times_us)))
        assert (said <= np.array(times_us)).all()
        known += int((said != UNKNOWN_US).sum())
    assert known > 0


def _now(sizes: dict[int, int], away: set[int]) -> Files:
    found = files(**{f"f{number}": size for number, size in sizes.items() if size})
    return {n: replace(t, state="gone" if n in away else "open") for n, t in found.items()}
