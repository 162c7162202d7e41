"""Rows of reports that nobody asks for any more (protocol D14): which they are, and how they leave."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from photon.pipeline.file import Pipeline, load_pipeline
from photon.pipeline.location import Location
from photon.storage import append_table
from photon.storage.append_table import AppendTable, compact_report_table
from photon.storage.leaving_rows import LEAST_SHARE, Rule
from photon.storage.verified_files import VERIFIED_FILES, read_verified_offsets, store_verified_offsets
from photon.upkeep.unasked_rows import DAY_US, HISTORY_DAYS, OF_FILES_DAYS, KnownFiles, rules
from photon.verification.log_copies.comparing import COMPARED, COPIES, copy_of
from photon.verification.log_copies.lacks import COMPARED_DAYS, HOUR_US, CopyKnowledge
from photon.verification.stored_reports import REPORTS
from tests.support.pipelines import PIPELINE

NOW_US = 1_767_607_200_123_456
LONG_AGO_US = NOW_US - (OF_FILES_DAYS + 1) * DAY_US
KNOWN = KnownFiles(epoch=3, numbers={7, 8})


def staying(table: AppendTable, rows: list[dict[str, Any]], known: KnownFiles | None = KNOWN) -> list[int]:
    """The places of the rows that stay."""
    rule = rules(known, NOW_US)[table.name]
    stays = rule.stays(pa.Table.from_pylist(rows, table.columns).select(list(rule.columns)))
    return [place for place, stay in enumerate(stays.tolist()) if stay]


def verified(file: int, offset: int, epoch: int = 3, at_us: int = LONG_AGO_US) -> dict[str, Any]:
    return {"epoch": str(epoch), "file": file, "offset_bytes": offset, "at": at_us}


def test_of_each_file_the_furthest_row_stays() -> None:
    """Broken variant: the latest one stays, which a slower verification has stored."""
    rows = [verified(7, 10), verified(7, 90), verified(8, 5), verified(7, 90, at_us=NOW_US), verified(7, 50)]
    assert staying(VERIFIED_FILES, rows) == [2, 3]


def test_rows_of_files_that_the_state_has_forgotten_stay_for_a_copy_of_it() -> None:
    rows = [verified(6, 10), verified(5, 10, at_us=NOW_US - (OF_FILES_DAYS - 1) * DAY_US), verified(8, 10)]
    assert staying(VERIFIED_FILES, rows) == [1, 2]


def test_rows_of_earlier_epochs_leave_and_those_of_later_ones_stay() -> None:
    """An older copy of the state may be there for a while, and the right one after it."""
    rows = [verified(7, 10, epoch=2), verified(6, 10, epoch=4), verified(7, 10, epoch=4)]
    assert staying(VERIFIED_FILES, rows) == [1, 2]


def test_without_a_state_no_row_of_a_file_leaves() -> None:
    assert not {"verified_files", "log_copies"} & rules(None, NOW_US).keys()


def test_people_mended_lines_and_removed_rows_for_ever() -> None:
    assert not {"mended_letters", "removed_rows"} & rules(KNOWN, NOW_US).keys()


def test_history_is_kept_as_long_as_the_page_can_show_it() -> None:
    times_us = [NOW_US - HISTORY_DAYS * DAY_US + later_us for later_us in (-1, 0, 1)]
    assert staying(REPORTS, [{"at": at_us} for at_us in times_us]) == [1, 2]


def test_the_newest_report_stays_however_old_it_is() -> None:
    """Broken variant: it leaves, and the datacenter counts as never verified."""
    assert staying(REPORTS, [{"at": at_us} for at_us in (5, 9, 9, 1)]) == [1, 2]


def test_verdicts_stay_while_their_hours_are_compared() -> None:
    hours = (0, -COMPARED_DAYS * 24, -COMPARED_DAYS * 24 - 1)
    rows = [{"hour_us": NOW_US + hour * HOUR_US, "at": LONG_AGO_US} for hour in hours]
    assert staying(COMPARED, rows) == [0, 1]


# -- readings of the logs' copies, which add up


class Readings:
    """Random readings of files that grow, are altered, and are forgotten."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.now_us = chance, NOW_US
        self.rows: list[dict[str, Any]] = []
        self.sizes = dict.fromkeys(range(1, 5), 0)
        self._reached: dict[int, int] = {}
        self._number = 0

    def add(self) -> list[dict[str, Any]]:
        """One reading more, now and then another one at once, days after the last."""
        self.now_us += self.chance.randrange(1, 20) * DAY_US
        if len(self.sizes) < 6 and self.chance.random() < 0.5:
            self.sizes[max(self.sizes) + 1] = 0
        if len(self.sizes) > 2 and self.chance.random() < 0.4:
            del self.sizes[self.chance.choice(sorted(self.sizes)[:-1])]
        parts = []
        for file in self.sizes:
            if self.chance.random() < 0.3:
                self._reached.pop(file, None)  # it was altered
                self.sizes[file] = self.chance.randrange(1, 100)
            elif self.chance.random() < 0.5:
                self.sizes[file] += self.chance.randrange(1, 100)
            if (start := self._reached.get(file, 0)) < self.sizes[file]:
                parts.append({"file": file, "start": start, "end": self.sizes[file]})
        self._reached |= {part["file"]: part["end"] for part in parts}
        self._number += 1
        one = self._row(parts, self.now_us)
        return [one, {**one, "at": self.now_us + 1}] if self.chance.random() < 0.2 else [one]

    def _row(self, parts: list[dict[str, int]], at_us: int) -> dict[str, Any]:
        days = (0, 0, 10, 27, 28, 29, 60)
        hours_us = [self.now_us // HOUR_US * HOUR_US - self.chance.choice(days) * DAY_US for _ in parts]
        zero = dict.fromkeys(("low", "high", "first_offset", "last_offset"), 0)
        digests = [
            {"side": "foreign", "file": part["file"], "hour_us": hour_us, "events": part["end"], **zero}
            for part, hour_us in zip(parts, hours_us, strict=True)
        ]
        return {
            **{"epoch": "3", "number": self._number, "at": at_us, "parts": parts, "digests": digests},
            **{"read_until_us": self._number, "foreign_unknown_until_us": self._number // 3},
            "primary_unknown_until_us": 0,
        }


def asked_of(rows: list[dict[str, Any]], known: KnownFiles, now_us: int) -> tuple[Any, ...]:
    """What a comparison takes from the rows."""
    copy: CopyKnowledge = copy_of("east", pa.Table.from_pylist(rows, COPIES.columns), now_us)
    digests = sorted((each.file, each.hour_us, each.events) for each in copy.digests)
    of_files = [
        {file: of[file] for file in known.numbers if file in of} for of in (copy.reached, copy.digested_us)
    ]
    return digests, of_files, copy.unknown_until_us, copy.readings, copy.read_until_us


@pytest.mark.parametrize("seed", range(20))
def test_readings_that_left_are_missed_by_no_comparison(seed: int) -> None:
    """Broken variants: also one leaves that digests a file anew; the last part of a known file."""
    readings, all_rows, rows = Readings(random.Random(seed)), [], []
    for _ in range(25):
        new = readings.add()
        all_rows, rows = all_rows + new, rows + new
        known = KnownFiles(3, readings.sizes.keys())
        rule = rules(known, readings.now_us)["log_copies"]
        stays = rule.stays(pa.Table.from_pylist(rows, COPIES.columns))
        rows = [row for row, stay in zip(rows, stays.tolist(), strict=True) if stay]
        assert asked_of(rows, known, readings.now_us) == asked_of(all_rows, known, readings.now_us)
    assert len(rows) < len(all_rows)


def test_the_last_reading_stays_however_old_it_is() -> None:
    """Broken variant: it leaves, and with it what is known of logs that went before."""
    read: dict[str, Any] = {"epoch": "3", "at": LONG_AGO_US, "parts": [], "digests": []}
    assert staying(COPIES, [{**read, "number": number} for number in (1, 3, 2)]) == [1]


# -- how rows leave a table


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    monkeypatch.setattr(append_table, "LEAST_FILES", 4)
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    pipeline = load_pipeline(tmp_path / "pipeline.yaml")
    for number in range(4):
        store_verified_offsets(pipeline, "east", "3", {7: number, 8: number}, NOW_US + number)
    return pipeline


def compact(pipeline: Pipeline, rule: Rule | None = None) -> None:
    rule = rules(KNOWN, NOW_US)["verified_files"] if rule is None else rule
    compact_report_table(VERIFIED_FILES.folder(pipeline, "east"), rule)


def rows_of(pipeline: Pipeline) -> list[tuple[int, int]]:
    with VERIFIED_FILES.reading(pipeline, "east") as dataset:
        assert dataset is not None
        return sorted((row["file"], row["offset_bytes"]) for row in dataset.to_table().to_pylist())


def test_compaction_leaves_them_out(pipeline: Pipeline) -> None:
    compact(pipeline)
    assert rows_of(pipeline) == [(7, 3), (8, 3)]
    assert read_verified_offsets(pipeline, "east", "3") == {7: 3, 8: 3}
    assert VERIFIED_FILES.latest(pipeline, "east").num_rows == 2


def test_for_a_few_rows_no_file_is_written_anew(pipeline: Pipeline) -> None:
    store_verified_offsets(pipeline, "east", "2", {n: 1 for n in range(100)}, NOW_US)
    compact(pipeline, Rule(("file",), lambda rows: rows["file"].to_numpy() > int(108 * LEAST_SHARE) - 8))
    assert len(rows_of(pipeline)) == 108
    compact_report_table(VERIFIED_FILES.folder(pipeline, "east"))
    assert DeltaTable(str(VERIFIED_FILES.folder(pipeline, "east"))).version() == 6


def test_rows_that_are_added_meanwhile_stay_and_the_next_pass_takes_the_others_out(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken variant: the commit is tried again on a later version."""
    real: Callable[[Location], DeltaTable] = append_table.open_table

    def add_meanwhile(folder: Location) -> DeltaTable:
        table = real(folder)
        monkeypatch.setattr(append_table, "open_table", real)
        store_verified_offsets(pipeline, "east", "3", {7: 99}, NOW_US)
        return table

    monkeypatch.setattr(append_table, "open_table", add_meanwhile)
    compact(pipeline)
    assert len(rows_of(pipeline)) == 9
    for number in range(4):
        store_verified_offsets(pipeline, "east", "3", {8: 10 + number}, NOW_US)
    compact(pipeline)
    assert rows_of(pipeline) == [(7, 99), (8, 13)]


def test_a_commit_whose_answer_was_lost_keeps_its_files(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken variant: the files of a commit that failed go, and nobody can read the table any more."""
    real = DeltaTable.create_write_transaction

    def lose_the_answer(table: DeltaTable, *arguments: Any, **named: Any) -> None:
        real(table, *arguments, **named)
        raise CommitFailedError("version 4 is there")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", lose_the_answer)
    compact(pipeline)
    assert rows_of(pipeline) == [(7, 3), (8, 3)]
