"""The decision on the next release: what is new, what it says, and what never goes back."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from photon.registry.entry import FOR_EVER
from photon.releases import making
from photon.releases.making import Counted, ReleaseSight, Said, lost_from_us, next_release
from photon.releases.release import Change, CleanVerification, Note, Part, Place, Release, SetBack, Statement

NOW_US = 1_000


def part(batch: int = 5, epoch: int = 1, rows: int = 10, said_us: int | None = None, **others: Any) -> Part:
    statement = None if said_us is None else Statement(said_us, said_us)
    return Part(Place(epoch, batch), "table", rows, 7, first_us=3, statement=statement, **others)


EAST, WEST = part(said_us=50), part(2, said_us=60)
LAST = Release(8, 900, "west", {"east": EAST, "west": WEST})


def sight(east: Part = EAST, last: Release | None = LAST, **more: object) -> ReleaseSight:
    return replace(ReleaseSight("east", last, {"east": Counted(replace(east, statement=None))}), **more)


def made(one: ReleaseSight, now_us: int = NOW_US) -> Release:
    release = next_release(one, now_us)
    assert release is not None
    return release


def test_nothing_new_makes_no_release() -> None:
    assert next_release(sight(), NOW_US) is None


def test_more_rows_make_a_release_with_the_next_number() -> None:
    release = made(sight(part(6, rows=12)))
    assert (release.number, release.by, release.made_us) == (9, "east", NOW_US)
    assert (release.parts["east"].rows, release.parts["west"]) == (12, WEST)


def test_batches_that_bring_no_row_note_or_completeness_make_no_release() -> None:
    said_again = Said(EAST.statement or Statement(), Place(1, 7), {})
    assert next_release(sight(part(7), said=(said_again,)), NOW_US) is None
    assert made(sight(part(7), said=(said(70, batch=7),))).complete_up_to_us == 70
    assert made(sight(part(0, epoch=2))).cut["east"] == Place(2, 0)


def test_rows_of_side_tables_make_a_release_once_their_batch_is_in_the_cut() -> None:
    last = replace(LAST, parts={"east": part(side_batches={"unjoined": 7}), "west": WEST})
    assert next_release(sight(part(side_batches={"unjoined": 8}), last), NOW_US) is None
    assert made(sight(part(7, side_batches={"unjoined": 7}), last)).cut["east"] == Place(1, 7)


def test_a_release_is_never_older_than_the_one_before() -> None:
    assert made(sight(part(6, rows=11)), now_us=100).made_us == LAST.made_us + 1


def test_the_first_release_begins_with_0() -> None:
    assert made(sight(last=None)).number == 0


def test_a_cut_never_goes_back() -> None:
    west = {"west": Counted(part(3, rows=11))}
    release = made(sight(part(4, rows=8), counted={"east": Counted(part(4, rows=8)), **west}))
    assert release.cut == {"east": Place(1, 5), "west": Place(1, 3)}
    assert release.parts["east"].rows == EAST.rows


def test_without_the_rule_a_late_count_takes_rows_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        making, "_parts", lambda last, counted: {name: one.part for name, one in counted.items()}
    )
    with pytest.raises(AssertionError):
        test_a_cut_never_goes_back()


def said(us: int, batch: int = 5, **seen: Place) -> Said:
    return Said(Statement(us, us), Place(1, batch), seen)


@pytest.mark.parametrize(
    ("one", "counts"),
    [
        (said(70), True),
        (said(70, west=Place(1, 2)), True),
        (said(70, batch=6), False),
        (said(70, west=Place(1, 3)), False),
        (said(70, west=Place(1, FOR_EVER)), False),
        (said(70, north=Place(1, 1)), False),
    ],
)
def test_a_statement_counts_once_the_cut_has_all_rows_that_it_speaks_of(one: Said, counts: bool) -> None:
    release = next_release(sight(said=(one,)), NOW_US)
    assert (release is not None and release.complete_up_to_us == 70) == counts


def test_an_epoch_that_is_over_is_whole_once_its_lake_was_counted() -> None:
    counted = {"east": Counted(EAST), "west": Counted(part(2))}
    release = made(sight(counted=counted, said=(said(70, west=Place(1, FOR_EVER)),)))
    assert release.complete_up_to_us == 70


def test_a_statement_speaks_of_no_row_of_a_lake_that_is_gone() -> None:
    release = made(sight(said=(said(70, west=Place(1, 9)),), lakes_gone=frozenset({"west"})))
    assert release.parts["east"].statement == Statement(70, 70)


def test_a_statement_that_says_less_takes_none_back() -> None:
    assert made(sight(part(6, rows=11), said=(said(20, batch=6),))).parts["east"].statement == EAST.statement


def test_without_the_rule_completeness_is_said_of_rows_beyond_the_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def always(said: Said, sight: ReleaseSight, cut: object, gone: Collection[str]) -> bool:
        return True

    monkeypatch.setattr(making, "is_covered", always)
    with pytest.raises(AssertionError):
        test_a_statement_counts_once_the_cut_has_all_rows_that_it_speaks_of(said(70, batch=6), False)


def test_a_lake_that_is_gone_has_no_part_any_more_and_sets_completeness_back() -> None:
    release = made(sight(lakes_gone=frozenset({"west"})))
    assert (list(release.parts), release.lakes_gone) == (["east"], ("west",))
    says = "its lake is gone, and 10 rows with it; completeness goes back to 1970-01-01, the first day of "
    assert release.notes == (Note("retired", "west", f"{says}the rows that left (files tell days alone)"),)
    assert release.set_back == SetBack(3, 9, ("east",), "the lake of datacenter west is gone")
    assert release.complete_up_to_us == 3


def test_rows_that_left_with_unknown_times_leave_nothing_complete_and_the_note_says_so() -> None:
    last = replace(LAST, parts={"east": EAST, "west": replace(WEST, first_us=None)})
    release = made(sight(last=last, lakes_gone=frozenset({"west"})))
    assert release.complete_up_to_us is None
    assert "nothing counts as complete for now" in release.notes[0].says


def test_without_the_rule_rows_that_are_gone_count_as_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "_set_back", lambda *_: None)
    with pytest.raises(AssertionError):
        test_a_lake_that_is_gone_has_no_part_any_more_and_sets_completeness_back()


def test_a_lake_that_is_gone_comes_back_in_no_release_of_who_does_not_know_yet() -> None:
    last = replace(LAST, parts={"east": EAST}, lakes_gone=("west",))
    release = made(sight(last=last, counted={"east": Counted(part(6, rows=11)), "west": Counted(part(3))}))
    assert list(release.parts) == ["east"]


def test_a_lake_that_was_put_back_has_fewer_rows_and_says_so() -> None:
    older = Counted(part(3, rows=4), lost="the table is older than it was")
    release = made(sight(counted={"east": older}))
    assert (release.parts["east"].rows, release.cut["east"]) == (4, Place(1, 3))
    assert [note.change for note in release.notes] == ["lake put back"]
    assert release.notes[0].says.startswith("the table is older than it was; completeness goes back to ")
    assert release.set_back is not None


def test_what_a_lake_that_was_put_back_lacks_begins_where_releases_have_added_it() -> None:
    releases = [replace(LAST, number=n, parts={"east": part(n, new_from_us=100 - n)}) for n in range(1, 6)]
    kept = {release.number: release for release in releases}
    assert lost_from_us("east", Place(1, 3), releases[-1], kept) == 95
    assert lost_from_us("east", Place(1, 3), releases[-1], {5: releases[-1]}) is None
    older = Counted(part(3, rows=4), lost="the table is older than it was", lost_from_us=95)
    release = made(sight(counted={"east": older}))
    assert release.set_back is not None
    assert release.set_back.to_us == 95


AWAITED = replace(LAST, set_back=SetBack(3, 8, ("east", "west"), "the lake of north is gone"))


def test_who_has_verified_since_rows_left_is_believed_again() -> None:
    release = made(sight(last=AWAITED, verified=CleanVerification(8)))
    assert release.set_back == replace(AWAITED.set_back, awaits=("west",))
    assert release.complete_up_to_us == 50


def test_who_has_ordered_what_is_missing_is_believed_by_what_it_says_after_that() -> None:
    ordered = CleanVerification(8, Place(1, 6))
    early = sight(part(6, rows=11), AWAITED, said=(said(90, batch=6),), verified=ordered)
    assert made(early).set_back == AWAITED.set_back
    both = (said(90, batch=6), said(20, batch=7))
    release = made(replace(early, said=both, counted={"east": Counted(part(7))}))
    assert release.set_back == replace(AWAITED.set_back, awaits=("west",))
    assert release.parts["east"].statement == Statement(20, 20), "the greater one spoke of rows that had left"
    later = replace(early, last=release, said=both, counted={"east": Counted(part(8, rows=12))})
    assert made(later).parts["east"].statement == Statement(20, 20)


@pytest.mark.parametrize(
    ("change", "has_left"),
    [("changed by others", True), ("rebuilt", True), ("side rows changed by others", False)],
)
def test_a_release_says_with_which_one_rows_may_have_left(change: Change, has_left: bool) -> None:
    noted = Counted(part(6), (Note(change, "east", "so"),))
    assert made(sight(counted={"east": noted})).rows_left_with == (9 if has_left else 0)
    assert made(sight(part(6, rows=12), replace(LAST, rows_left_with=7))).rows_left_with == 7


def test_a_verification_of_before_rows_left_is_none() -> None:
    assert next_release(sight(last=AWAITED, verified=CleanVerification(7)), NOW_US) is None


def test_the_last_one_that_has_verified_ends_a_set_back() -> None:
    last = replace(AWAITED, set_back=replace(AWAITED.set_back, awaits=("east",)))
    assert made(sight(last=last, verified=CleanVerification(8))).set_back is None


def test_a_second_loss_is_to_be_verified_by_all_again() -> None:
    last = replace(AWAITED, set_back=replace(AWAITED.set_back, to_us=2, awaits=("east",)))
    release = made(sight(last=last, lakes_gone=frozenset({"west"})))
    why = "the lake of north is gone; the lake of datacenter west is gone"
    assert release.set_back == SetBack(2, 9, ("east",), why)


def test_what_others_have_changed_makes_a_release_that_says_so() -> None:
    note = Note("changed by others", "east", "DELETE in version 9")
    release = made(sight(counted={"east": Counted(EAST, (note,))}))
    assert release.notes == (note,)
