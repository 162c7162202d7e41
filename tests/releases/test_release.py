"""A release as it is said and stored."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from photon.process.errors import FormatTooNew
from photon.releases.release import (
    NOTHING,
    Note,
    Part,
    Place,
    Release,
    SetBack,
    Statement,
    covers,
    decode_release,
    encode_release,
)

SECOND_US = 1_000_000
EAST = Part(
    Place(2, 7),
    "table-of-east",
    rows=40,
    version=12,
    rebuilt=1,
    side_batches={"unjoined": 5},
    first_us=3 * SECOND_US,
    new_from_us=80 * SECOND_US,
    statement=Statement(90 * SECOND_US, 95 * SECOND_US),
)
WEST = Part(Place(1, 3), "table-of-west", 7, 4, statement=Statement(100 * SECOND_US, None))
BOTH = Release(5, 1, "east", {"east": EAST, "west": WEST}, (Note("rebuilt", "east", "a day was made again"),))


@pytest.mark.parametrize(
    "release", [BOTH, replace(BOTH, set_back=SetBack(None, 3, ("east",), "a lake is gone"))]
)
def test_a_release_is_read_as_it_was_stored(release: Release) -> None:
    assert decode_release(encode_release(release)) == release


def test_a_release_of_a_newer_photon_is_refused_and_never_misread() -> None:
    with pytest.raises(FormatTooNew, match="release 5"):
        decode_release(encode_release(BOTH).replace(b'"format": 3', b'"format": 4'), "release 5")


def test_a_release_that_was_stored_before_side_rows_were_counted_is_read() -> None:
    stored = json.loads(encode_release(BOTH)) | {"format": 1}
    for part in stored["parts"].values():
        del part["side_rows"], part["unmatched_up_to_us"]
    assert decode_release(json.dumps(stored).encode()) == BOTH


def test_a_place_lies_before_all_batches_of_later_epochs() -> None:
    places = [NOTHING, Place(1, 1), Place(1, 2), Place(2, 0), Place(2, 1)]
    assert sorted(places, reverse=True) == places[::-1]


def test_a_cut_covers_another_where_it_is_as_far_in_every_datacenter() -> None:
    cut = {"east": Place(2, 7), "west": Place(1, 3)}
    assert all(covers(cut, other) for other in ({}, cut, {"east": Place(1, 9)}))
    assert not covers(cut, {"east": Place(2, 8)})
    assert not covers(cut, {"north": Place(1, 1)})


def test_a_release_is_complete_up_to_the_latest_time_that_a_datacenter_says() -> None:
    assert (BOTH.complete_up_to_us, BOTH.mostly_up_to_us) == (100 * SECOND_US, 95 * SECOND_US)


@pytest.mark.parametrize(("to_us", "complete_us"), [(40 * SECOND_US, 40 * SECOND_US), (None, None)])
def test_rows_that_have_left_set_completeness_back(to_us: int | None, complete_us: int | None) -> None:
    release = replace(BOTH, set_back=SetBack(to_us, 1, ("east", "west"), "the lake of north is gone"))
    assert release.complete_up_to_us == complete_us
    assert release.mostly_up_to_us == complete_us


def test_a_datacenter_that_has_verified_since_rows_left_is_believed_again() -> None:
    release = replace(BOTH, set_back=SetBack(40 * SECOND_US, 1, ("west",), "the lake of north is gone"))
    assert release.complete_up_to_us == 90 * SECOND_US
