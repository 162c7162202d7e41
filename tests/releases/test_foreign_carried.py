"""Releases carry what others did to a table, until a verification that began with them finds it well."""

from __future__ import annotations

from dataclasses import replace

import pytest

from photon.cli.releases import described, lines_of
from photon.releases import making
from photon.releases.making import Counted, ReleaseSight, next_release
from photon.releases.release import Part, Place, Release, Statement, decode_release, encode_release
from photon.storage.changes import Commit
from photon.storage.foreign_commits import ForeignCommits

NEW = ForeignCommits("joined_events", "took", 1, "DELETE", 9, 9, 1_000)
EAST = Part(
    Place(1, 5), "table", 10, 7, statement=Statement(50, 50), looked={"joined_events": Commit(9, "d")}
)
LAST = Release(8, 1, "east", {"east": EAST}, elapsed_us=1)


def made(part: Part, last: Release = LAST, verified: int = -1) -> Release | None:
    counted = {"east": Counted(replace(part, statement=None), verified=verified)}
    return next_release(ReleaseSight("east", last, counted), 2)


@pytest.fixture
def carried() -> Release:
    release = made(replace(EAST, foreign=(NEW,)))
    assert release is not None
    return release


def test_what_others_did_makes_a_release_that_sets_completeness_back(carried: Release) -> None:
    assert carried.parts["east"].foreign == (replace(NEW, release=9),)
    assert carried.complete_up_to_us is None
    assert decode_release(encode_release(carried)) == carried


def test_the_next_release_carries_it(carried: Release) -> None:
    release = made(replace(carried.parts["east"], rows=11), carried)
    assert release is not None
    assert release.parts["east"].foreign == carried.parts["east"].foreign


def test_it_stays_while_the_lake_can_not_be_read(carried: Release) -> None:
    west = Counted(replace(EAST, table_id="west"))
    release = next_release(ReleaseSight("west", carried, {"west": west}), 3)
    assert release is not None
    assert release.parts["east"].foreign == carried.parts["east"].foreign


def test_a_verification_that_began_with_it_and_found_nothing_wrong_ends_it(carried: Release) -> None:
    release = made(carried.parts["east"], carried, verified=9)
    assert release is not None
    assert release.parts["east"].foreign == ()


def test_a_verification_of_before_ends_nothing(carried: Release) -> None:
    assert made(carried.parts["east"], carried, verified=8) is None


def test_without_the_rule_a_verification_of_before_ends_it(
    carried: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "open_after", lambda *_: ())
    release = made(carried.parts["east"], carried, verified=8)
    assert release is not None
    assert release.parts["east"].foreign == ()


def test_commits_without_rows_make_a_release_before_they_are_too_many_to_look_at() -> None:
    assert made(replace(EAST, looked={"joined_events": Commit(10, "d")})) is None
    assert made(replace(EAST, looked={"joined_events": Commit(501, "d")})) is not None


def test_each_release_that_carries_it_says_so(carried: Release) -> None:
    release = made(replace(carried.parts["east"], rows=11), carried)
    assert release is not None
    for one in (carried, release):
        (said,) = one.foreign_sentences()
        assert said.startswith("east: joined_events: rows were taken by others: DELETE in version 9")
        assert any(said in line for line in lines_of(one))
        assert described([one])[0]["changed_by_others"] == [said]
