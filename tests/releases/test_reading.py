"""A release reads the same while its tables go on; what can't be read is said, and never read differently."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.dataset as ds
import pytest

from photon import read
from photon.pipeline.location import Location
from photon.process import faults
from photon.process.errors import WrongUsage
from photon.releases import copies, datasets
from photon.releases.finding import NoRelease, ReleaseUnreadable
from photon.releases.reading import open_release
from photon.storage import replacing
from photon.storage.data_files import DataFiles
from photon.storage.delta import open_table
from photon.storage.tables import fence_epoch
from photon.storage.vacuum import KeptFiles
from photon.upkeep import compact as compacting
from tests.releases.lakes import LATER, Lakes, joined_in, new_lakes
from tests.support.crashes import SimulatedCrash, raise_simulated_crash


def with_a_release(folder: Location, tmp_path: Path) -> Lakes:
    """Lakes with a release of three batches of east and two of west."""
    made = new_lakes(folder, tmp_path)
    for name in ("east", "west", "east", "west", "east"):
        made.append(name)
    made.release()
    return made


@pytest.fixture
def here(tmp_path: Path) -> Lakes:
    return with_a_release(tmp_path / "lakes", tmp_path)


def reads_as_it_was(lakes: Lakes, number: int = 1) -> bool:
    [made] = [one for one in lakes.made if one.release.number == number]
    return joined_in(lakes, number) == made.joined


# -- tables go on


def test_batches_that_come_later_are_not_in_it(here: Lakes) -> None:
    here.append("east")
    assert reads_as_it_was(here)
    assert len(read.joined(here.pipeline, retired=[]).to_table()) == len(here.made[0].joined) + 2


def test_compaction_vacuum_and_the_archive_of_the_log_change_nothing_in_it(here: Lakes) -> None:
    for _ in range(3):
        here.append("east")
    assert here.compact("east") > 0
    assert reads_as_it_was(here)
    here.append("east")
    here.compact("east", later=LATER)
    here.compact("east", later=2 * LATER)
    assert reads_as_it_was(here)


def test_a_file_that_was_compacted_across_the_cut_shows_only_the_rows_before_it(here: Lakes) -> None:
    made = here.release(lags=1)
    for _ in range(3):
        here.append("east")
    here.compact("east")
    [east, _] = open_release(here.pipeline, made.release.number).tables("joined_events")
    assert east.partial
    assert reads_as_it_was(here, made.release.number)


def test_a_rebuild_and_another_one_of_its_rows_are_undone_for_older_releases(here: Lakes) -> None:
    here.rebuild("east")
    here.release()
    here.rebuild("east", drops=True)
    here.rebuild("west")
    here.release()
    assert all(reads_as_it_was(here, number) for number in (1, 2, 3))
    assert len({one.joined for one in here.made}) == 3


def test_upkeep_after_rebuilds_leaves_what_older_releases_need(here: Lakes) -> None:
    for drops in (False, True, False):
        here.rebuild("east", drops)
        here.append("east")
        here.compact("east", later=LATER)
        here.release()
    here.compact("east", later=2 * LATER)
    assert all(reads_as_it_was(here, one.release.number) for one in here.made)


def test_a_rebuild_of_which_nothing_is_left_is_undone_too(here: Lakes) -> None:
    for _ in range(4):
        here.rebuild("east", drops=True)
    here.release()
    assert reads_as_it_was(here, 1)
    assert reads_as_it_was(here, 2)


def test_a_rebuild_that_was_killed_and_ran_again_is_undone_once(here: Lakes) -> None:
    faults.arm("rebuild.after_listed", raise_simulated_crash)
    with pytest.raises(SimulatedCrash):
        here.rebuild("east", drops=True)
    faults.disarm()
    assert reads_as_it_was(here)
    here.compact("east")
    here.rebuild("east", drops=True)
    here.release()
    here.compact("east", later=LATER)
    assert reads_as_it_was(here, 1)
    assert reads_as_it_was(here, 2)


def test_lists_and_replaced_files_go_once_no_release_needs_them(here: Lakes) -> None:
    here.rebuild("east")
    here.release()
    here.compact("east", later=LATER)
    assert len(lists(here)) == 1
    here.forget_before(2)
    files = list(Path(here.table("east").folder).rglob("*.parquet"))
    here.compact("east", later=LATER)
    assert lists(here) == []
    here.compact("east", later=LATER)
    assert len(list(Path(here.table("east").folder).rglob("*.parquet"))) < len(files)
    assert reads_as_it_was(here, 2)


def lists(lakes: Lakes) -> list[Path]:
    return sorted(Path(lakes.lake("east")).glob("releases/replaced/*.json"))


def test_a_new_epoch_and_late_side_rows_of_an_old_one_change_nothing(here: Lakes) -> None:
    here.begin_epoch("east")
    here.append("east")
    here.release()
    assert reads_as_it_was(here, 1)
    assert reads_as_it_was(here, 2)


@pytest.mark.server
def test_on_s3_a_release_reads_the_same_after_batches_a_rebuild_and_upkeep(
    on_s3: Location, tmp_path: Path
) -> None:
    lakes = with_a_release(on_s3, tmp_path)
    lakes.rebuild("east")
    lakes.append("east")
    lakes.release()
    lakes.compact("east", later=LATER)
    assert reads_as_it_was(lakes, 1)
    assert reads_as_it_was(lakes, 2)


# -- what can't be read


def test_an_older_lake_that_was_put_back_is_named(here: Lakes, tmp_path: Path) -> None:
    east = Path(here.lake("east"))
    shutil.copytree(east, tmp_path / "copy")
    here.append("east")
    here.release()
    shutil.rmtree(east)
    shutil.copytree(tmp_path / "copy", east)
    with pytest.raises(
        ReleaseUnreadable, match=r"datacenter east: .*batch 3 of epoch 1, and must have 4.*photon join"
    ):
        read.joined(here.pipeline, release="latest")
    assert reads_as_it_was(here, 1)
    fence_epoch(here.lake("east"), "east", "1")  # east's next start does that
    with pytest.raises(ReleaseUnreadable, match="batch 3 of epoch 1, and must have 4"):
        read.joined(here.pipeline, release=2)


def test_a_lake_that_is_lost_is_named_with_what_to_type(here: Lakes) -> None:
    shutil.rmtree(here.lake("west"))  # type: ignore[arg-type]
    with pytest.raises(
        ReleaseUnreadable, match=r"datacenter west: .*photon retire .*pipeline.yaml west --lake-is-gone"
    ):
        read.joined(here.pipeline, release="latest")


def test_a_path_that_leads_out_of_a_table_is_named_and_nobody_is_told_to_give_its_lake_up(
    here: Lakes,
) -> None:
    folder = Path(here.table("east").folder)
    entry = max((folder / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in entry.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["path"] = "../../secret"
    entry.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    with pytest.raises(ReleaseUnreadable, match="leads out of this folder") as told:
        read.joined(here.pipeline, release="latest").to_table()
    assert "photon retire" not in str(told.value)


def test_another_table_in_the_place_of_a_lake_s_is_not_read(here: Lakes, tmp_path: Path) -> None:
    shutil.rmtree(Path(here.lake("west")) / "joined_events")
    here.table("west").create("clicks", "west")
    with pytest.raises(ReleaseUnreadable, match="has no table joined_events with the id"):
        read.joined(here.pipeline, release=1)


def test_a_datacenter_that_was_renamed_is_found_by_its_table(here: Lakes) -> None:
    file = here.pipeline.file
    file.write_text(file.read_text().replace("  west:", "  north:"))
    found = read.joined(file, release=1).to_table()
    assert len(found) == len(here.made[0].joined)


def test_rows_that_somebody_deleted_make_older_releases_unreadable_and_the_next_one_not(here: Lakes) -> None:
    open_table(here.table("east").folder).delete("_event_id = 'e0'")
    with pytest.raises(
        ReleaseUnreadable, match=r"5 rows up to epoch 1, batch 3, and must have 6 .*others made DELETE"
    ):
        read.joined(here.pipeline, release=1)
    here.rows["east"] = [row for row in here.rows["east"] if row.event != "e0"]
    here.release()
    assert reads_as_it_was(here, 2)


def test_an_unreadable_release_names_the_newest_one_that_can_be_read_or_the_join_that_makes_it(
    here: Lakes,
) -> None:
    open_table(here.table("east").folder).delete("_event_id = 'e0'")
    with pytest.raises(ReleaseUnreadable, match=r"a join makes it: photon join .*pipeline.yaml -d east"):
        read.joined(here.pipeline, release=1)
    here.release()
    with pytest.raises(ReleaseUnreadable, match=r"; release 2 has what is there now: read that one$"):
        read.joined(here.pipeline, release=1)
    open_table(here.table("east").folder).delete("_event_id = 'e1'")
    with pytest.raises(ReleaseUnreadable, match="a join makes it"):
        read.joined(here.pipeline, release=1)


def test_files_that_people_rewrote_read_the_same(here: Lakes) -> None:
    open_table(here.table("east").folder).optimize.compact()
    here.append("east")
    assert reads_as_it_was(here)


def test_files_of_a_rebuild_that_people_rewrote_make_older_releases_unreadable(here: Lakes) -> None:
    here.rebuild("east")
    here.release()
    open_table(here.table("east").folder).optimize.compact()
    with pytest.raises(ReleaseUnreadable, match=r"which rows of .* rebuild 1 has replaced .*OPTIMIZE"):
        read.joined(here.pipeline, release=1)
    assert reads_as_it_was(here, 2)


def test_a_replaced_file_that_is_gone_is_named_before_any_row_is_given(here: Lakes) -> None:
    before = {file.path for file in DataFiles(here.table("east").load()).all()}
    here.rebuild("east")
    after = {file.path for file in DataFiles(here.table("east").load()).all()}
    for path in before - after:
        (Path(here.table("east").folder) / path).unlink()
    with pytest.raises(ReleaseUnreadable, match="which a rebuild replaced, is gone"):
        read.joined(here.pipeline, release=1)


def test_two_contents_of_one_number_are_refused(here: Lakes) -> None:
    release = here.made[0].release
    single = next(Path(here.lake("west")).glob("releases/0*.json"))
    single.write_bytes(single.read_bytes().replace(b'"by": "east"', b'"by": "west"'))
    assert copies.latest(here.lake("west")) != release
    with pytest.raises(ReleaseUnreadable, match="another release under this number"):
        read.joined(here.pipeline, release=1)


def test_a_damaged_list_or_copy_is_named(here: Lakes) -> None:
    here.rebuild("east")
    lists(here)[0].write_bytes(b"{")
    with pytest.raises(ReleaseUnreadable, match=r"a list of replaced files, is damaged: put it back"):
        read.joined(here.pipeline, release=1)
    next(Path(here.lake("west")).glob("releases/0*.json")).write_bytes(b"{}")
    with pytest.raises(ReleaseUnreadable, match=r"datacenter west: .*one of the copies is damaged"):
        read.joined(here.pipeline, release="latest")


def test_a_copy_that_is_packed_while_it_is_looked_for_is_found(
    here: Lakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, asked = copies.as_of, list[Location]()

    def just_packed(lake: Location, time_us: int) -> object:
        asked.append(lake)
        if len(asked) == 1:
            raise FileNotFoundError("000000000001.json")
        return answers(lake, time_us)

    monkeypatch.setattr(copies, "as_of", just_packed)
    assert read.joined(here.pipeline, as_of=datetime.now(UTC)).release == here.made[0].release


# -- broken variants


def test_a_vacuum_that_forgets_kept_releases_is_noticed(here: Lakes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compacting, "kept_for_readers", lambda *_: KeptFiles())
    here.rebuild("east")
    here.release()
    here.compact("east", later=LATER)
    here.compact("east", later=2 * LATER)
    with pytest.raises(ReleaseUnreadable, match="is gone"):
        reads_as_it_was(here, 1)


def test_a_rebuild_that_forgets_the_replaced_files_is_noticed(
    here: Lakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replacing, "_listed", lambda *_: "forgotten")
    here.rebuild("east")
    here.release()
    with pytest.raises(ReleaseUnreadable, match="nobody can tell which rows"):
        reads_as_it_was(here, 1)


def test_a_compaction_that_rewrites_what_a_rebuild_brought_is_noticed(
    here: Lakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.rebuild("east")
    here.append("east")
    here.release()
    monkeypatch.setattr(compacting, "replacements_of", lambda *_: [])
    here.compact("east")
    with pytest.raises(ReleaseUnreadable, match="nobody can tell which rows"):
        reads_as_it_was(here, 1)


# -- which release


def test_the_newest_release_of_any_lake_is_the_latest_and_older_ones_are_found_by_time(here: Lakes) -> None:
    here.append("west")
    second = here.release(into=["west"])
    assert read.joined(here.pipeline, release="latest").release == second.release
    assert read.joined(here.pipeline, as_of=here.made[0].release.made_at).release == here.made[0].release
    assert read.joined(here.pipeline, as_of=datetime.now(UTC) + timedelta(days=1)).release == second.release
    assert [one.number for one in read.releases(here.pipeline)] == [1, 2]


def test_a_release_that_is_not_there_is_told_with_those_that_are(here: Lakes) -> None:
    with pytest.raises(NoRelease, match=r"no release number 7; kept are 1, made .*photon releases"):
        read.joined(here.pipeline, release=7)
    with pytest.raises(NoRelease, match="that was made by 2020-01-01"):
        read.joined(here.pipeline, as_of=datetime(2020, 1, 1, tzinfo=UTC))


def test_before_the_first_release_a_reader_is_told_how_one_is_made(tmp_path: Path) -> None:
    empty = new_lakes(tmp_path / "lakes", tmp_path)
    with pytest.raises(NoRelease, match=r"photon join .*pipeline\.yaml"):
        read.joined(empty.pipeline, release="latest")


def test_a_release_and_a_time_together_are_refused(here: Lakes) -> None:
    with pytest.raises(WrongUsage, match="expected one of them"):
        read.joined(here.pipeline, release=1, as_of=datetime.now(UTC))


@pytest.mark.parametrize("wrong", ["newest", "0", True, 1.0])
def test_what_is_no_number_of_a_release_is_not_taken_for_the_newest(here: Lakes, wrong: Any) -> None:
    with pytest.raises(WrongUsage, match="expected a number, or 'latest'"):
        read.joined(here.pipeline, release=wrong)
    with pytest.raises(WrongUsage, match="expected a number, or 'latest'"):
        read.duckdb(here.pipeline, wrong)


def test_a_text_is_no_time_of_a_release(here: Lakes) -> None:
    with pytest.raises(WrongUsage, match="expected a datetime"):
        read.joined(here.pipeline, as_of="2026-03-01T00:00")  # type: ignore[arg-type]


def test_where_a_maker_s_copies_are_gone_no_older_release_is_taken_for_the_latest(here: Lakes) -> None:
    maker = here.made[-1].release.by
    here.append(maker)
    here.release(into=[maker])
    shutil.rmtree(Path(here.lake(maker)) / copies.FOLDER)
    with pytest.raises(ReleaseUnreadable, match=f"datacenter {maker}: .*a newer one may be missing"):
        read.joined(here.pipeline, release="latest")


def test_while_a_lake_does_not_answer_no_older_release_is_taken_for_the_latest(
    here: Lakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: Callable[[Location], object] = copies.latest

    def away(lake: Location) -> object:
        if lake == here.lake("east"):
            raise OSError("no route to host")
        return answers(lake)

    monkeypatch.setattr(copies, "latest", away)
    with pytest.raises(ReleaseUnreadable, match=r"datacenter east: .*no route to host"):
        read.joined(here.pipeline, release="latest")


# -- rows


def test_filters_and_columns_are_pushed_down_and_days_pruned(here: Lakes) -> None:
    rows = read.joined(here.pipeline, release=1)
    of_day = rows.filter(ds.field("_event_date") == datetime(2026, 3, 1).date())
    assert of_day.count_rows() * 2 == rows.count_rows() == len(here.made[0].joined)
    assert of_day.release == here.made[0].release


def test_no_filter_is_left_where_a_cut_lies_within_a_compacted_file(here: Lakes) -> None:
    """A filter would read its columns from all files."""
    made = here.release(lags=1)
    for _ in range(3):
        here.append("east")
    here.compact("east")
    found = read.joined(here.pipeline, release=made.release.number)
    assert found._scan_options == {}
    assert reads_as_it_was(here, made.release.number)


def test_large_groups_across_the_cut_are_not_held_in_memory(
    here: Lakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = here.release(lags=1)
    open_table(here.table("east").folder).optimize.compact()
    monkeypatch.setattr(datasets, "MOST_IN_MEMORY_ROWS", 0)
    assert reads_as_it_was(here, made.release.number)


def test_duckdb_reads_the_same_rows_of_the_dataset(here: Lakes) -> None:
    here.release(lags=1)
    here.append("east")
    here.compact("east")
    rows = read.joined(here.pipeline, release=1)
    assert duckdb.sql("SELECT count(*) FROM rows").fetchall() == [(rows.count_rows(),)]
