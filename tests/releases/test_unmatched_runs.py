"""A release shows of the table `unmatched` the rows of runs that have left their document, no others."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from photon import read
from photon.cli.releases import described, lines_of
from photon.process.errors import FormatTooNew
from photon.releases.finding import NoRelease, ReleaseUnreadable
from photon.releases.making import Counted, ReleaseSight, next_release
from photon.releases.parts import LakeCounter
from photon.releases.release import CleanVerification, Part, Place, Release, decode_release, encode_release
from photon.releases.unmatched_runs import with_last_run
from photon.state.unmatched import DOCUMENT, UnmatchedProgress
from photon.storage.tables import FENCE_VERSION
from tests.releases import lakes
from tests.releases.lakes import MIDNIGHT, Lakes, new_lakes

HOUR = timedelta(hours=1)
PART = Part(Place(5, 9), "table", 10, 7)


@pytest.fixture
def here(tmp_path: Path) -> Lakes:
    return new_lakes(tmp_path / "lakes", tmp_path).go_on("east", "west")


def run(number: int, epoch: int = 5, up_to_us: int = 100) -> UnmatchedProgress:
    return UnmatchedProgress("east", epoch, number, "p", up_to_us, None, 1, 0)


def counted(before: Part | None, last: UnmatchedProgress | None, version: int = 0, part: Part = PART) -> Part:
    return with_last_run(part, before, "east", last, version)[0]


def us(after_midnight: timedelta) -> int:
    return round((MIDNIGHT + after_midnight).timestamp() * 1e6)


def lost(before: Part | None, last: UnmatchedProgress | None, version: int = 0) -> str:
    return with_last_run(PART, before, "east", last, version)[1]


def shown(lakes: Lakes, number: int) -> set[str]:
    return set(read.unmatched(lakes.pipeline, release=number).to_table()["primary_id"].to_pylist())


# -- the part of a release


@pytest.mark.parametrize(
    ("last", "version", "expected"),
    [
        (run(3), 4, 3),  # the fourth has left no document: it may not be on disk
        (run(3), FENCE_VERSION + 4, 4),  # the fence has synced it, and nobody adds to it
        (run(3, epoch=4), 1, 0),
        (run(1, epoch=6), FENCE_VERSION + 4, 4),
    ],
)
def test_the_document_says_which_runs_count_until_their_epoch_is_fenced(
    last: UnmatchedProgress, version: int, expected: int
) -> None:
    assert counted(None, last, version).place_in("unmatched") == Place(5, expected)


def test_without_runs_a_part_is_as_ever() -> None:
    assert counted(None, None) == counted(PART, None) == PART


def test_an_epoch_that_reads_all_logs_again_says_how_far_its_own_runs_came() -> None:
    before = counted(None, run(7, epoch=4, up_to_us=900))
    assert counted(before, run(1, up_to_us=50)).unmatched_up_to_us == 50


def test_runs_that_are_gone_are_told_and_their_time_goes_back() -> None:
    before = counted(None, run(7, up_to_us=900))
    assert lost(before, run(3)).startswith("unmatched.json is of epoch 5, run 3, and was of epoch 5, run 7")
    assert lost(before, None).startswith("unmatched.json is gone, and was of epoch 5, run 7")
    assert counted(before, run(3)).unmatched_up_to_us == 100
    gone = counted(before, None)
    assert (gone.unmatched_up_to_us, lost(gone, None), lost(before, run(8))) == (None, "", "")


def test_a_run_is_news_for_readers_and_so_is_its_time() -> None:
    parts = {"east": counted(None, run(3))}
    last = Release(8, 900, "east", parts)

    def then(part: Part) -> Release | None:
        return next_release(ReleaseSight("east", last, {"east": Counted(part)}), 1_000)

    assert then(counted(PART, run(3))) is None
    assert then(counted(PART, run(4))) is not None
    later = then(counted(PART, run(3, up_to_us=101)))
    assert later is not None
    assert later.unmatched_up_to_us == 101


def test_a_list_of_releases_says_how_far_they_go() -> None:
    release = Release(8, 900, "east", {"east": counted(None, run(3, up_to_us=3_600_000_000))})
    assert lines_of(release)[1:] == ["  unmatched primaries are there up to 1970-01-01 01:00:00 UTC"]
    assert described([release])[0]["unmatched_up_to"] == "1970-01-01T01:00:00.000000+00:00"
    assert len(lines_of(Release(8, 900, "east", {"east": PART}))) == 1


def test_when_rows_left_a_run_counts_that_went_by_a_release_without_them() -> None:
    last = Release(8, 900, "east", {"east": counted(None, run(3, up_to_us=90))})
    assert last.unmatched_up_to_us == 90

    def then(last: Release | None, done: UnmatchedProgress, lost: str = "", verified: int = -1) -> Release:
        part = Counted(counted(None, done), lost=lost)
        made = next_release(
            ReleaseSight("east", last, {"east": part}, verified=CleanVerification(verified)), 1_000
        )
        assert made is not None
        return made

    left = then(last, run(3, up_to_us=90), lost="an older copy")
    assert (left.rows_left_with, left.unmatched_up_to_us) == (9, None)
    sound = then(left, run(3, up_to_us=90), verified=9)
    assert (sound.set_back, sound.unmatched_up_to_us) == (None, None)
    again = then(sound, replace(run(3, up_to_us=90), release=10))
    assert (again.rows_left_with, again.unmatched_up_to_us) == (9, 90)


def test_a_release_with_unmatched_primaries_is_not_misread_by_older_versions() -> None:
    release = Release(8, 900, "east", {"east": counted(None, run(3)), "west": PART})
    assert json.loads(encode_release(release))["format"] == 3
    assert decode_release(encode_release(release)) == release


# -- rows of lakes


def count(lakes: Lakes, counter: LakeCounter, before: Part | None = None) -> Counted:
    return counter.count(before, lakes.last["east"])


def test_a_counter_sees_a_run_behind_which_no_batch_came(here: Lakes) -> None:
    counter = LakeCounter("east", here.lake("east"))
    assert "unmatched" not in count(here, counter).part.side_batches
    here.look_for_unmatched("east", ["a"], HOUR)
    part = count(here, counter).part
    assert (part.side_batches["unmatched"], part.unmatched_up_to_us) == (1, us(HOUR))
    here.look_for_unmatched("east", ["b"], 2 * HOUR, is_killed=True)
    assert count(here, counter, part).part.side_batches["unmatched"] == 1


def test_a_document_that_was_put_back_is_a_note_and_the_joined_rows_stay(here: Lakes) -> None:
    here.look_for_unmatched("east", ["a"], HOUR)
    older = (Path(here.lake("east")) / DOCUMENT).read_bytes()
    here.look_for_unmatched("east", ["b"], 2 * HOUR)
    counter = LakeCounter("east", here.lake("east"))
    before = count(here, counter).part
    (Path(here.lake("east")) / DOCUMENT).write_bytes(older)
    found = count(here, counter, before)
    assert [note.change for note in found.notes] == ["unmatched put back"]
    assert (found.lost, found.part.rows, found.part.side_batches["unmatched"]) == ("", before.rows, 1)


@pytest.mark.parametrize("damaged", ["", "[]", '{"format": 1}'])
def test_a_damaged_document_says_nothing(here: Lakes, damaged: str) -> None:
    (Path(here.lake("east")) / DOCUMENT).write_text(damaged)
    assert count(here, LakeCounter("east", here.lake("east"))).part.unmatched_up_to_us is None


def test_a_newer_versions_document_is_not_guessed_at(here: Lakes) -> None:
    (Path(here.lake("east")) / DOCUMENT).write_text('{"format": 2}')
    with pytest.raises(FormatTooNew):
        count(here, LakeCounter("east", here.lake("east")))


def test_a_release_shows_the_rows_of_its_runs_and_of_earlier_epochs(here: Lakes) -> None:
    here.release()
    here.look_for_unmatched("east", ["a"], HOUR)
    here.release()
    here.look_for_unmatched("east", ["b"], 2 * HOUR, is_killed=True)
    here.release()
    here.begin_epoch("east")
    here.look_for_unmatched("east", ["c"], HOUR)
    here.release()
    assert [shown(here, number) for number in (3, 4, 5, 6)] == [set(), {"a"}, {"a"}, {"a", "b", "c"}]
    assert read.unmatched(here.pipeline).watermark.unmatched_up_to == MIDNIGHT + HOUR


def test_without_the_rule_a_release_shows_rows_that_a_power_cut_takes_back(
    here: Lakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def by_the_table(
        part: Part, before: Part | None, name: str, last: UnmatchedProgress | None, version: int
    ) -> tuple[Part, str]:
        newest = None if last is None else replace(last, run=version)
        return with_last_run(part, before, name, newest, version)

    monkeypatch.setattr(lakes, "with_last_run", by_the_table)
    with pytest.raises(AssertionError):
        test_a_release_shows_the_rows_of_its_runs_and_of_earlier_epochs(here)


def test_a_primary_that_was_joined_later_is_withdrawn_from_newer_releases_alone(here: Lakes) -> None:
    """q4 and q5 are the primaries of the next batch."""
    here.look_for_unmatched("east", ["q4", "q9"], HOUR)
    here.release()
    here.go_on("west")
    assert (shown(here, 3), shown(here, 4)) == ({"q4", "q9"}, {"q9"})
    for number in (3, 4):
        by_sql = read.duckdb(here.pipeline, number).execute("SELECT primary_id FROM unmatched").fetchall()
        assert {one for (one,) in by_sql} == shown(here, number)


def test_a_table_of_unmatched_primaries_that_is_gone_is_named(here: Lakes) -> None:
    here.look_for_unmatched("east", ["a"], HOUR)
    here.release()
    shutil.rmtree(Path(here.lake("east")) / "unmatched")
    with pytest.raises(ReleaseUnreadable, match=r"datacenter east: .*unmatched"):
        read.unmatched(here.pipeline)


def test_release_0_is_a_number(here: Lakes) -> None:
    with pytest.raises(NoRelease, match="number 0"):
        read.unmatched(here.pipeline, release=0)
