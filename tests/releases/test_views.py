"""Side views of a release: each event once, none that is joined, no letter that was looked at again."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from photon import read
from photon.process.errors import WrongUsage
from photon.releases import copies
from photon.releases.views import dead_letters_of, unjoined_of
from photon.storage.columns import DEAD_LETTER_COLUMNS, UNJOINED_COLUMNS
from photon.storage.delta import LakeUnavailable
from photon.storage.mended_letters import MENDED_LETTERS, MendedLetter, add_mended
from photon.storage.output_files import write_rows
from photon.storage.tables import OutputTable, app_id
from photon.storage.tokens import Occurrence
from tests.releases.lakes import MIDNIGHT, Lakes, Place, new_lakes, stamp

NOTHING = pa.array([], pa.string())


def given_up(
    event: str | None, datacenter: str = "east", at_seconds: int | None = 0, **stamps: Any
) -> dict[str, Any]:
    row = {"_datacenter": datacenter, "_epoch": "1", "_batch": 1, "_occurrence": "1:0", "event_id": event}
    time = None if at_seconds is None else MIDNIGHT + timedelta(seconds=at_seconds)
    return row | {"event_time": time} | stamps


def unjoined(*rows: dict[str, Any], joined: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    table = pa.Table.from_pylist(list(rows), UNJOINED_COLUMNS)
    return list(unjoined_of(table, pa.array(joined, pa.string())).to_pylist())


def test_an_event_that_two_datacenters_gave_up_is_shown_by_the_first_of_them() -> None:
    [row] = unjoined(given_up("a", "west"), given_up("a", "east"))
    assert row["_datacenter"] == "east"


def test_the_earlier_time_comes_first_and_no_time_last() -> None:
    [row] = unjoined(given_up("a", "east", None), given_up("a", "north", 7), given_up("a", "west", 5))
    assert row["_datacenter"] == "west"


def test_epochs_are_numbers_and_not_text() -> None:
    [row] = unjoined(given_up("a", _epoch="10"), given_up("a", _epoch="9"))
    assert row["_epoch"] == "9"


def test_what_has_a_joined_row_is_not_unjoined() -> None:
    rows = unjoined(given_up("a"), given_up("b"), joined=("b", "c"))
    assert [row["event_id"] for row in rows] == ["a"]


# -- dead letters


def letter(event: str | None, occurrence: str = "1:0", **stamps: Any) -> dict[str, Any]:
    row = {"_datacenter": "east", "_epoch": "1", "_batch": 1, "_occurrence": occurrence, "event_id": event}
    return row | {"side": "foreign", "path": "c.csv", "reason": "bad"} | stamps


def letters(
    *rows: dict[str, Any], mended: tuple[tuple[str, int, str], ...] = (), joined: tuple[str, ...] = ()
) -> list[str]:
    """Epoch and place of each letter that is shown."""
    table = pa.Table.from_pylist(list(rows), DEAD_LETTER_COLUMNS)
    names = ("_epoch", "_batch", "_occurrence")
    again = pa.Table.from_pylist(
        [dict(zip(names, each, strict=True)) for each in mended],
        pa.schema([MENDED_LETTERS.columns.field(name) for name in names]),
    )
    found = dead_letters_of(table, again, pa.array(joined, pa.string())).to_pylist()
    return [f"{row['_epoch']}/{row['_batch']}/{row['_occurrence']}" for row in found]


def test_the_newest_letter_of_an_event_counts_over_all_epochs() -> None:
    assert letters(letter("a", _epoch="9", _batch=5), letter("a", _epoch="10")) == ["10/1/1:0"]


def test_a_line_that_is_no_event_is_known_by_its_place() -> None:
    rows = [
        letter(None, "1:7"),
        letter(None, "4:7", _epoch="2"),
        letter(None, "1:9"),
        letter(None, "1:7", path="d.csv"),
    ]
    assert sorted(letters(*rows)) == ["1/1/1:7", "1/1/1:9", "2/1/4:7"]


def test_an_event_of_each_side_has_a_letter_of_its_own() -> None:
    assert len(letters(letter("a"), letter("a", "2:0", side="primary"))) == 2


def test_a_letter_that_was_taken_up_goes_and_comes_back_if_it_fails_again() -> None:
    assert letters(letter("a"), mended=(("1", 1, "1:0"),)) == []
    assert letters(letter("a"), letter("a", _batch=3), mended=(("1", 2, "1:0"),)) == ["1/3/1:0"]
    assert letters(letter("a", _epoch="1"), letter("a", _epoch="2"), mended=(("2", 4, "1:0"),)) == []


def test_an_event_that_joined_is_no_dead_letter_but_a_primary_one_of_its_name_is() -> None:
    rows = [letter("a"), letter("a", "2:0", side="primary")]
    assert letters(*rows, joined=("a",)) == ["1/1/2:0"]


# -- in releases


@pytest.fixture
def lakes(tmp_path: Path) -> Lakes:
    return new_lakes(tmp_path / "lakes", tmp_path)


def ids(rows: read.Rows) -> list[str]:
    return sorted(rows.to_table()["event_id"].to_pylist())


def test_a_release_shows_what_was_given_up_by_then_and_not_what_joined_by_then(lakes: Lakes) -> None:
    lakes.give_up("east", ["e0", "x1"])
    lakes.give_up("west", ["x1", "x2"])
    lakes.append("west")  # brings west's batch, whose rows are e0 and e1
    first = lakes.release(lags=0).release.number
    lakes.append("east")
    lakes.give_up("east", ["x3"])
    second = lakes.release().release.number
    assert ids(read.unjoined(lakes.pipeline, release=first)) == ["x1", "x2"]  # east's batch is not closed
    assert ids(read.unjoined(lakes.pipeline, release=second)) == ["x1", "x2"]
    lakes.append("east")
    assert ids(read.unjoined(lakes.pipeline, release=lakes.release().release.number)) == ["x1", "x2", "x3"]
    assert ids(read.unjoined(lakes.pipeline, release=first)) == ["x1", "x2"]


def test_a_file_that_goes_away_before_it_is_read_is_named(lakes: Lakes) -> None:
    lakes.give_up("east", ["x1"])
    lakes.append("east")
    number = lakes.release().release.number
    for file in Path(lakes.lake("east") / "unjoined").rglob("*.parquet"):
        file.unlink()
    with pytest.raises(LakeUnavailable, match=r"cannot read rows: .*unjoined.*\.parquet"):
        read.unjoined(lakes.pipeline, release=number)


def add_letter(lakes: Lakes, event: str) -> None:
    place = Place(1, lakes.last["east"].batch + 1)
    row = stamp("east", place) | {"_occurrence": "1:5", "event_id": event, "side": "foreign", "path": "c.csv"}
    table = OutputTable(lakes.lake("east"), "dead_letters")
    file = write_rows(lakes.lake("east"), "dead_letters", 1, pa.Table.from_pylist([row], DEAD_LETTER_COLUMNS))
    table.commit([file], app_id("east", "1", "dead_letters"), place.batch, None)
    lakes.append("east")


def test_a_letter_stays_in_the_releases_that_were_made_before_it_was_taken_up(lakes: Lakes) -> None:
    add_letter(lakes, "bad")
    first = lakes.release().release.number
    mended = MendedLetter("1", Occurrence(1, 5), "bad", batch=lakes.last["east"].batch)
    add_mended(lakes.pipeline, "east", [mended], now_us=1)
    assert ids(read.dead_letters(lakes.pipeline, "east", release=first)) == ["bad"]
    lakes.append("east")
    second = lakes.release().release.number
    assert ids(read.dead_letters(lakes.pipeline, "east", release=second)) == []
    assert ids(read.dead_letters(lakes.pipeline, "east", release=first)) == ["bad"]


def test_rows_of_side_views_say_of_which_release_they_are(lakes: Lakes) -> None:
    add_letter(lakes, "bad")
    made = lakes.release().release
    assert read.dead_letters(lakes.pipeline, "east", release="latest").release == made
    assert read.unjoined(lakes.pipeline, as_of=made.made_at).release == made


def test_a_datacenter_that_is_not_in_the_file_is_told(lakes: Lakes) -> None:
    with pytest.raises(WrongUsage, match="no datacenter 'south'; expected one of east, west"):
        read.dead_letters(lakes.pipeline, "south")


def test_a_datacenter_that_is_not_in_a_release_has_no_letters_there(lakes: Lakes) -> None:
    made = lakes.release(into=[]).release
    alone = replace(made, parts={"east": made.parts["east"]}, lakes_gone=("west",))
    copies.put(lakes.lake("east"), [alone])
    assert read.dead_letters(lakes.pipeline, "west", release="latest").to_table().num_rows == 0
