"""How far a landed log is read: by its marker, and never by the silence of its files.

Protocol K7 and K10.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from photon.dispatcher.completion import watermark_us
from photon.dispatcher.landed_logs import LandedLogs, Moment, awaited_of_landed, awaited_of_objects
from photon.landing.marker import AtEnd, Landed, LastLine, Marker, put_marker
from photon.landing.objects.marker import ObjectsMarker
from photon.landing.objects.marker import put_marker as put_objects_marker
from photon.logs.files import LogFile, TrackedFile
from photon.state.completeness.estimate import read_up_to_us
from tests.support.manual_clock import ManualClock

SECOND = 1_000_000
NOW_US, IDLE_US = 1_767_607_200 * SECOND, 300 * SECOND
MOMENT = Moment(NOW_US, 5_000 * SECOND, "boot")
EARLIER_US = NOW_US - 7_200 * SECOND
NAME = "0/000001_00000000000000000000_a1.jsonl"


def at_end(age_s: int = 2, quiet_s: int = 400) -> AtEnd:
    return AtEnd(NOW_US - age_s * SECOND, MOMENT.elapsed_us - age_s * SECOND, quiet_s * SECOND)


def landed(end: AtEnd | None, file: str | None = NAME) -> Landed:
    return Landed("a1", 9, 9, 0, file, 100 if file else 0, LastLine(8, 80) if file else None, 9, 9, end)


def marker(*partitions: Landed) -> Marker:
    return Marker("clicks", "boot", NOW_US, dict(enumerate(partitions)))


def tracked(path: str = f"clicks/{NAME}", time_us: int | None = EARLIER_US, unread: int = 0) -> TrackedFile:
    file = LogFile(1, "foreign", path, 1, False, b"", 0, 0, b"")
    return TrackedFile(file, 100, b"", False, 100 + unread, NOW_US - 9_000 * SECOND, time_us)


def read(said: Marker | None, *files: TrackedFile, moment: Moment = MOMENT) -> int | None:
    """Up to when the log is read, before which it was read up to 1."""
    awaited = list(awaited_of_landed(said, "clicks", files, moment, IDLE_US))
    found = read_up_to_us(awaited, moment.now_us, IDLE_US, 1)
    assert found == watermark_us(awaited, moment.now_us, IDLE_US, 1)
    return found


def test_a_quiet_partition_is_read_up_to_when_it_was_at_its_end() -> None:
    assert read(marker(landed(at_end())), tracked()) == NOW_US - 2 * SECOND


def test_a_quiet_partition_without_a_file_is_read_up_to_then_too() -> None:
    assert read(marker(landed(at_end(), file=None))) == NOW_US - 2 * SECOND


def test_a_partition_that_is_not_at_its_end_grows_however_old_its_file_is() -> None:
    assert read(marker(landed(None)), tracked()) == EARLIER_US


def test_a_partition_that_was_at_its_end_for_a_moment_grows() -> None:
    assert read(marker(landed(at_end(quiet_s=200))), tracked()) == EARLIER_US


def test_a_partition_that_may_have_messages_in_no_file_holds_the_log() -> None:
    assert read(marker(landed(at_end()), landed(None, file=None)), tracked()) == 1


def test_a_file_that_no_look_has_found_holds_the_log() -> None:
    assert read(marker(landed(at_end()))) == 1


def test_a_file_that_is_not_read_to_its_end_holds_its_quiet_partition() -> None:
    assert read(marker(landed(at_end())), tracked(unread=5)) == EARLIER_US
    shorter = replace(tracked(), offset_bytes=90, size_bytes=90)  # an older copy was put back
    assert read(marker(landed(at_end())), shorter) == EARLIER_US


def test_without_a_marker_the_log_stays_where_it_is() -> None:
    assert read(None, tracked()) == 1


@pytest.mark.parametrize("age_s", [11, 3_600])
def test_a_lander_that_died_makes_nothing_complete(age_s: int) -> None:
    assert read(marker(landed(at_end(age_s=age_s))), tracked()) == EARLIER_US


def test_a_marker_of_before_the_machine_started_says_nothing() -> None:
    assert read(marker(landed(at_end())), tracked(), moment=replace(MOMENT, boot="next")) == EARLIER_US


def test_a_clock_that_was_set_back_makes_no_old_marker_fresh() -> None:
    died = marker(landed(at_end(age_s=3_600)))
    assert read(died, tracked(), moment=replace(MOMENT, now_us=NOW_US - 3_598 * SECOND)) == EARLIER_US


def test_an_end_of_the_future_says_nothing() -> None:
    assert read(marker(landed(at_end(age_s=-60))), tracked()) == EARLIER_US


def test_files_that_were_ended_count_as_those_of_other_logs() -> None:
    ended = tracked("clicks/0/000000_00000000000000000000_a1.jsonl", unread=7)
    assert read(marker(landed(at_end())), tracked(time_us=NOW_US), ended) == EARLIER_US


def test_a_marker_is_read_anew_at_each_look(tmp_path: Path) -> None:
    logs = LandedLogs(tmp_path, {"clicks": "foreign"}, IDLE_US, ManualClock(NOW_US), "boot")
    assert logs.awaited("primary", [], NOW_US) == []
    assert [one.unread_bytes for one in logs.awaited("foreign", [], NOW_US)] == [1]
    put_marker(tmp_path / "clicks", marker(landed(AtEnd(NOW_US, 0, IDLE_US), file=None)))
    logs.read()
    assert [one.max_time_us for one in logs.awaited("foreign", [], NOW_US)] == [NOW_US]


# -- objects

SOURCE = "s3://bucket/clicks/*.parquet"
AT_REST = ObjectsMarker(SOURCE, "boot", NOW_US, "look-1", at_end=at_end())
FILE = "clicks/a.parquet@1.jsonl"


def read_objects(
    before: ObjectsMarker | None, after: ObjectsMarker | None, *files: TrackedFile, moment: Moment = MOMENT
) -> int | None:
    """Up to when a log of objects is read, before which it was read up to 1."""
    awaited = list(awaited_of_objects(before, after, SOURCE, files, moment, IDLE_US))
    found = read_up_to_us(awaited, moment.now_us, IDLE_US, 1)
    assert found == watermark_us(awaited, moment.now_us, IDLE_US, 1)
    return found


def test_objects_that_are_all_landed_and_quiet_are_read_up_to_when_they_were_listed() -> None:
    assert read_objects(AT_REST, AT_REST, tracked(FILE)) == NOW_US - 2 * SECOND
    assert read_objects(AT_REST, AT_REST) == NOW_US - 2 * SECOND


def test_objects_that_came_lately_are_read_up_to_the_latest_time_in_their_files() -> None:
    lately = replace(AT_REST, at_end=at_end(quiet_s=20))
    earlier = replace(tracked("clicks/b.parquet@1.jsonl"), max_time_us=EARLIER_US - 5)
    assert read_objects(lately, lately, tracked(FILE), earlier) == EARLIER_US
    still_growing = replace(earlier, grown_us=NOW_US)
    assert read_objects(lately, lately, tracked(FILE), still_growing) == EARLIER_US - 5
    assert read_objects(AT_REST, AT_REST, tracked(FILE), replace(earlier, size_bytes=105)) == EARLIER_US - 5


HELD: dict[str, tuple[ObjectsMarker | None, ObjectsMarker | None]] = {
    "nobody landed any": (None, None),
    "the marker came meanwhile": (None, AT_REST),
    "an object waits": (AT_REST, replace(AT_REST, waiting=1)),
    "an object waited when the files were listed": (replace(AT_REST, waiting=1), AT_REST),
    "objects got their files meanwhile": (AT_REST, replace(AT_REST, look="look-2")),
    "an object can't be landed": (AT_REST, replace(AT_REST, failed_count=1)),
    "no listing ended": (AT_REST, replace(AT_REST, at_end=None)),
    "another source is landed": (AT_REST, replace(AT_REST, objects="s3://other/*")),
    "the lander died": (AT_REST, replace(AT_REST, at_end=at_end(age_s=601))),
    "the machine started anew": (AT_REST, replace(AT_REST, boot="next")),
    "the end is of the future": (AT_REST, replace(AT_REST, at_end=at_end(age_s=-60))),
}


@pytest.mark.parametrize("why", HELD)
def test_a_log_of_objects_stays_where_it_is_while(why: str) -> None:
    assert read_objects(*HELD[why], tracked(FILE)) == 1


def test_markers_of_objects_are_read_before_and_behind_each_listing(tmp_path: Path) -> None:
    logs = LandedLogs(
        tmp_path, {"clicks": "foreign"}, IDLE_US, ManualClock(NOW_US), "boot", {"clicks": SOURCE}
    )
    said = replace(AT_REST, at_end=AtEnd(NOW_US, 0, IDLE_US))
    put_objects_marker(tmp_path / "clicks", said)
    logs.read()
    put_objects_marker(tmp_path / "clicks", replace(said, look="look-2"))
    logs.read_again()
    assert [one.unread_bytes for one in logs.awaited("foreign", [], NOW_US)] == [1]
    logs.read()
    logs.read_again()
    assert [one.max_time_us for one in logs.awaited("foreign", [], NOW_US)] == [NOW_US]
