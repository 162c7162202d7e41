"""Notes say how far each log was verified: some reports count, and logs that are gone are judged by them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from photon.logs.files import LogFile, TrackedFile
from photon.pipeline.file import Pipeline
from photon.state.view import ReadOffsets
from photon.storage.verified_files import read_verified_offsets, store_verified_offsets
from photon.verification.report import Unverified, VerifiedEarlier
from photon.verification.scope import Scope
from photon.verification.stored_reports import (
    is_fully_verified,
    newly_verified_offsets,
    summarize_unreadable,
)
from tests.support.memory_ledgers import MemoryLedgers, memory_registry

HEADER_BYTES = 10


def file(number: int, read_up_to: int) -> TrackedFile:
    log_file = LogFile(number, "foreign", f"c{number}.csv", 7, False, b"id,key,at", HEADER_BYTES, 20, b"hash")
    return TrackedFile(log_file, read_up_to, b"tail", False, read_up_to, 0, None)


def gone(tracked: TrackedFile) -> TrackedFile:
    return replace(tracked, state="gone")


def lost(number: int, size_bytes: int) -> Unverified:
    return Unverified(f"c{number}.csv", "foreign", size_bytes, "the file is not there")


# -- what counts


def test_a_file_all_of_whose_records_are_in_a_final_class_is_verified_as_far_as_it_was_read() -> None:
    assert newly_verified_offsets([file(1, 100)], first_undecided={}, unreadable=set(), before={}) == {1: 100}


def test_what_is_behind_a_record_that_waits_does_not_count() -> None:
    assert newly_verified_offsets([file(1, 100)], first_undecided={1: 60}, unreadable=set(), before={}) == {
        1: 60
    }


def test_a_file_whose_first_record_waits_is_not_verified_at_all() -> None:
    assert newly_verified_offsets([file(1, 100)], {1: HEADER_BYTES}, unreadable=set(), before={}) == {}


def test_a_file_of_which_nothing_was_read_is_not_remembered() -> None:
    assert newly_verified_offsets([file(1, HEADER_BYTES)], {}, unreadable=set(), before={}) == {}


def test_a_file_that_could_not_be_read_again_is_not_verified_any_further() -> None:
    assert newly_verified_offsets([file(1, 100), file(2, 100)], {}, unreadable={1}, before={1: 50}) == {
        2: 100
    }


@pytest.mark.parametrize("now", [100, 60], ids=["as far as before", "less far, for a record waits again"])
def test_only_what_was_verified_further_than_before_is_to_be_remembered(now: int) -> None:
    assert newly_verified_offsets([file(1, 100), file(2, 100)], {1: now}, set(), before={1: 100}) == {2: 100}


# -- what it says of a log that is gone


@pytest.mark.parametrize(
    ("verified", "was"),
    [({1: 100}, True), ({1: 99}, False), ({2: 100}, False), ({}, False)],
    ids=["all of it", "all but a byte", "another file", "nothing"],
)
def test_a_file_was_verified_if_it_was_as_far_as_it_was_read(verified: dict[int, int], was: bool) -> None:
    assert is_fully_verified(file(1, 100), verified) == was


def test_of_lost_files_those_that_were_read_further_are_told_with_the_bytes_that_nobody_verified() -> None:
    files = {number: file(number, 100) for number in (1, 2, 3)}
    unverified, earlier = summarize_unreadable(
        {n: lost(n, 90) for n in files}, files, verified={1: 100, 2: 40}
    )
    assert [(one.path, one.bytes) for one in unverified] == [("c2.csv", 60), ("c3.csv", 90)]
    assert earlier == VerifiedEarlier(1, 90, "c1.csv")


def test_a_file_that_is_lost_from_some_byte_on_is_told_with_those_bytes() -> None:
    unverified, _ = summarize_unreadable({1: lost(1, 30)}, {1: file(1, 100)}, verified={})
    assert [one.bytes for one in unverified] == [30]


def test_a_verification_looks_again_for_every_file_but_those_that_the_join_misses_and_that_were_verified(
    pipeline: Pipeline,
) -> None:
    there, missed, read_further = file(1, 100), gone(file(2, 100)), gone(file(3, 100))
    read = ReadOffsets("e1", files={one.file.number: one for one in (there, missed, read_further)})
    registry = memory_registry(MemoryLedgers())
    verified = {"east": {1: 100, 2: 100, 3: 99}}
    view = registry.snapshot()
    scope = Scope(pipeline, ["east"], registry.register, view, {"east": read}, tables={}, verified=verified)
    looked_for = {stretch.tracked.file.number for stretch in scope.stretches("east", "foreign")}
    assert looked_for == {1, 3}
    assert scope.gone_and_verified("east") == [missed]


# -- what is remembered


def test_it_comes_back_by_number(pipeline: Pipeline) -> None:
    store_verified_offsets(pipeline, "east", "e1", {1: 100, 2: 2**40}, at_us=5)
    assert read_verified_offsets(pipeline, "east", "e1") == {1: 100, 2: 2**40}


def test_without_a_verification_nothing_is_known(pipeline: Pipeline) -> None:
    assert read_verified_offsets(pipeline, "east", "e1") == {}


def test_another_epoch_and_another_datacenter_know_nothing_of_it(pipeline: Pipeline) -> None:
    store_verified_offsets(pipeline, "east", "e1", {1: 100}, at_us=5)
    assert read_verified_offsets(pipeline, "east", "e2") == {}
    assert read_verified_offsets(pipeline, "west", "e1") == {}


def test_of_two_verifications_at_once_the_one_that_saw_more_counts_in_whatever_order_they_end(
    pipeline: Pipeline,
) -> None:
    for verified in ({1: 100}, {1: 70, 2: 30}):
        store_verified_offsets(pipeline, "east", "e1", verified, at_us=5)
    assert read_verified_offsets(pipeline, "east", "e1") == {1: 100, 2: 30}


def test_where_nothing_is_new_nothing_is_written(pipeline: Pipeline) -> None:
    store_verified_offsets(pipeline, "east", "e1", {}, at_us=5)
    assert not (pipeline.datacenters["east"].lake / "verified_files").exists()
