"""A rebuild without one of its rules (protocol E3): a story finds each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from photon.storage import replacing
from photon.upkeep.backfill import rebuild, remaking, strays
from photon.upkeep.backfill.plan import Piece
from photon.upkeep.backfill.remaking import _Remaking
from tests.simulation import test_rebuild as stories
from tests.simulation import test_rebuild_altered as altered
from tests.simulation.catching import caught_by_story

Patch = pytest.MonkeyPatch


class AllThere(dict[str, int]):
    """A table's files, as somebody sees them who does not look whether they are there."""

    def keys(self) -> Any:
        class Everything:
            def __ge__(self, other: object) -> bool:
                return True

            def isdisjoint(self, other: object) -> bool:
                return True

        return Everything()

    def __missing__(self, path: str) -> int:
        return 1


def caught(story: Callable[..., None], folder: Path, because: str, *more: Any) -> None:
    caught_by_story(partial(story, folder, *more), because)


def test_files_that_somebody_has_compacted_are_replaced_all_the_same(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    files_of = replacing.data_files
    monkeypatch.setattr(replacing, "data_files", lambda handle: AllThere(files_of(handle)))
    story = stories.test_files_that_somebody_replaces_meanwhile_are_read_from_a_new_snapshot
    caught(story, tmp_path, "an event has two rows", "compact", 100)


def test_all_rows_of_the_window_are_replaced_at_the_end(tmp_path: Path, monkeypatch: Patch) -> None:
    """Not those that were read: what came meanwhile goes too."""
    put = rebuild.replace_files

    def replace_all(table: Any, gone: Any, *more: Any) -> None:
        put(table, set(replacing.data_files(table.load())), *more)

    monkeypatch.setattr(rebuild, "replace_files", replace_all)
    story = stories.test_rows_that_are_appended_meanwhile_are_neither_lost_nor_doubled
    caught(story, tmp_path, "Extra items in the right set")


def test_a_row_that_can_not_be_made_again_goes(tmp_path: Path, monkeypatch: Patch) -> None:
    def let_go(self: _Remaking, why: str, rows: Any, tell: bool = True) -> None:
        self.kept[why] = rows
        self.gone["skipped"] = np.append(self.gone.get("skipped", rows[:0]), rows)

    monkeypatch.setattr(_Remaking, "_keep", let_go)
    story = stories.test_a_filtered_row_goes_with_a_record_and_one_that_fails_stays
    caught(story, tmp_path, "assert", "plain")


def test_the_record_at_a_rows_place_is_taken_for_its_own(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(remaking, "are", lambda texts, expected: np.ones(len(texts), bool))
    story = stories.test_a_row_whose_log_is_gone_or_holds_another_record_stays_and_is_told
    caught(story, tmp_path, "foreign record gone")


def test_files_of_an_earlier_epoch_are_taken_by_their_numbers(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(remaking, "todays_numbers", lambda epochs, numbers, *more: numbers)
    monkeypatch.setattr(remaking, "are", lambda texts, expected: np.ones(len(texts), bool))
    story = stories.test_rows_of_an_earlier_epoch_are_made_again_of_their_own_records
    caught(story, tmp_path, r"== \(2, {}\)")


def test_a_slice_of_a_file_that_is_not_touched_is_left_out(tmp_path: Path, monkeypatch: Patch) -> None:
    cut = rebuild.pieces_of

    def as_if_whole(files: Any, piece_rows: int, doubled: Any) -> list[Piece]:
        return [replace(piece, partial=()) for piece in cut(files, piece_rows, doubled)]

    monkeypatch.setattr(rebuild, "pieces_of", as_if_whole)
    story = stories.test_of_a_file_that_is_too_big_for_a_task_all_rows_stay_where_one_differs
    caught(story, tmp_path, "c6", monkeypatch, 1)


def test_a_row_without_its_record_stays_whosever_token_it_has(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(strays, "fate_of", lambda *_: "stays")
    story = altered.test_a_row_with_another_id_goes_and_its_event_is_joined_again
    caught(story, tmp_path, "Extra items", (stories.rebuild, altered.recover_all))


def test_a_row_without_its_record_goes_whatever_the_registry_says(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(strays, "fate_of", lambda *_: "goes")
    story = altered.test_a_row_stays_where_the_log_was_altered_and_not_the_row
    caught(story, tmp_path, "foreign record gone", "c6")


def test_a_row_keeps_the_time_that_somebody_wrote(tmp_path: Path, monkeypatch: Patch) -> None:
    put = _Remaking._put

    def all_but_times(self: _Remaking, name: str, *more: Any) -> None:
        if name != "_event_time":
            put(self, name, *more)

    monkeypatch.setattr(_Remaking, "_put", all_but_times)
    story = altered.test_a_row_with_another_time_is_as_it_was_after_a_rebuild_of_the_day_that_it_names
    caught(story, tmp_path, "assert 0 == 1", altered.OTHER_DAY)


def test_a_primary_is_never_looked_for_by_its_key(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(remaking, "occurrences_of", lambda keys, *_: pa.nulls(len(keys), pa.string()))
    story = altered.test_a_row_whose_own_records_can_be_found_is_as_it_was
    caught(story, tmp_path, r"\(0, ", "_primary_occurrence", "'9:0'")
