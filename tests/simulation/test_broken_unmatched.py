"""Leave out the rules of unmatched primaries (protocol U) one by one, and a story finds each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from photon.event_store.segments import Places
from photon.releases.release import Release
from photon.state.unmatched import UnmatchedProgress
from photon.storage.tables import OutputTable
from photon.unmatched import deciding, lakes, looking, run
from photon.unmatched.deciding import Due, Selection
from photon.unmatched.lakes import Lakes
from tests.simulation import unmatched_stories as stories
from tests.simulation.catching import caught_by_story
from tests.simulation.unmatched_stories import HOUR_US, UnmatchedWorld
from tests.support.shares import one_a_rule

Patch = pytest.MonkeyPatch


def nothing_left_out(patch: Patch) -> None:
    patch.setattr(Lakes, "written", lambda self: iter(()))


def not_fenced(patch: Patch) -> None:
    patch.setattr(Lakes, "fence", lambda *_: None)


def any_version(patch: Patch) -> None:
    class Behind(OutputTable):
        def commit(self, files: Any, app: str, *of_run: Any) -> None:
            super().commit(files, app, self.version_of(app) + 1, None, of_run[-1])

    patch.setattr(Lakes, "own", property(lambda self: Behind(self.places[self.owner], "unmatched")))


def by_the_clock_alone(patch: Patch) -> None:
    def due(sight: deciding.UnmatchedSight) -> Due:
        return Due((sight.now_us - sight.after_us) // HOUR_US * HOUR_US, "the clock")

    patch.setattr(run, "due", due)


def positions_of_any_epoch(patch: Patch) -> None:
    why_all = run.why_all

    def of_this_one(before: UnmatchedProgress | None, epoch: int, version: int, *known: Any) -> str:
        of_epoch = None if before is None else replace(before, epoch=epoch, run=version)
        return why_all(of_epoch, epoch, version, *known)

    patch.setattr(run, "why_all", of_this_one)


def late_ones_ignored(patch: Patch) -> None:
    def by_time(window: Selection, places: Places) -> Any:
        is_later = places.times_us >= (-(2**63) if window.from_us is None else window.from_us)
        return window.are_due(places.files, places.times_us) & is_later

    patch.setattr(Selection, "among", by_time)


def not_yet_indexed_counts_as_read(patch: Patch) -> None:
    positions_of = run.positions_of
    patch.setattr(run, "positions_of", lambda files, _, unreadable: positions_of(files, (), unreadable))


def unread_counts_as_read(patch: Patch) -> None:
    positions_of = run.positions_of
    patch.setattr(run, "positions_of", lambda files, ranges, _: positions_of(files, ranges, ()))


def rows_stay(patch: Patch) -> None:
    why_all = run.why_all
    patch.setattr(run, "why_all", lambda *known: why_all(*known[:4], 0, *known[5:]))


def any_run_counts(patch: Patch) -> None:
    def of(release: Release, datacenter: str) -> int | None:
        return release.parts[datacenter].unmatched_up_to_us

    patch.setattr(Release, "unmatched_up_to_us_of", of)


def a_folder_is_a_lake(patch: Patch) -> None:
    known_tables = lakes.known_tables

    def those_there(register: Any) -> dict[str, str]:
        return {name: one for name, one in known_tables(register).items() if name not in register.given_up}

    patch.setattr(lakes, "known_tables", those_there)
    patch.setattr(looking, "named_in", lambda *_: iter(()))
    patch.setattr(run, "earlier_rows_end_us", lambda *_: None)


ONE, TWO = ["east"], ["east", "west"]
TWICE, MISSING = "unmatched twice", "in neither table"
VARIANTS: list[tuple[str, Callable[[Patch], None], Callable[[UnmatchedWorld], None], list[str], str]] = [
    ("U1", not_fenced, stories.an_owner_that_stood_still_commits_after_its_retirement, TWO, TWICE),
    ("U2", nothing_left_out, stories.a_new_epoch_goes_on_where_the_old_one_was, ONE, TWICE),
    ("U2", nothing_left_out, stories.a_second_copy_comes_when_the_first_one_s_log_is_deleted, ONE, TWICE),
    ("U2", any_version, stories.two_runs_meet, ONE, TWICE),
    ("U3", by_the_clock_alone, stories.a_foreign_event_is_read_late, ONE, "before its time"),
    ("U4", positions_of_any_epoch, stories.a_new_epoch_has_other_numbers_of_files, ONE, MISSING),
    ("U4", late_ones_ignored, stories.a_primary_comes_late, ONE, MISSING),
    ("U4", not_yet_indexed_counts_as_read, stories.a_range_is_indexed_after_it_counts_as_read, ONE, MISSING),
    ("U4", rows_stay, stories.rows_leave_with_their_lake, TWO, MISSING),
    ("U5", unread_counts_as_read, stories.a_line_can_not_be_read_for_a_while, ONE, MISSING),
    ("U6", a_folder_is_a_lake, stories.a_lake_is_not_mounted, TWO, TWICE),
    ("U8", any_run_counts, stories.rows_leave_with_their_lake, TWO, "a run of before rows left counts"),
]


@pytest.mark.parametrize(("rule", "leave_out", "story", "datacenters", "because"), one_a_rule(VARIANTS))
def test_without_the_rule_a_primary_is_there_twice_too_soon_or_never(
    tmp_path: Path,
    monkeypatch: Patch,
    rule: str,
    leave_out: Callable[[Patch], None],
    story: Callable[[UnmatchedWorld], None],
    datacenters: list[str],
    because: str,
) -> None:
    leave_out(monkeypatch)
    caught_by_story(partial(story, UnmatchedWorld(tmp_path, datacenters)), because)
