"""What verification decides: the class of a record, and what the registry's answer means."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from photon.registry.consensus.register import EpochState
from photon.registry.interface import BeyondHorizon, Free, Holder, Joined, LookupOutcome, TooOld
from photon.storage.columns import TABLE_COLUMNS
from photon.tokens import Occurrence, PlanKey
from photon.verification.classes import (
    EpochStatus,
    Evidence,
    MissingEvent,
    RejoinResult,
    class_of,
    class_table,
    classify,
    undecided_evidence,
)
from photon.verification.report import DatacenterReport, Finding, VerificationReport
from photon.verification.scope import Scope, TableSnapshot
from photon.verification.tasks import differences
from tests.simulation.world import World

BAD_LINE, SKIPPED, DEAD_LETTER = Evidence.BAD_LINE, Evidence.SKIPPED, Evidence.DEAD_LETTER
JOINED, ROW_HERE, ROW_ELSEWHERE = Evidence.JOINED, Evidence.ROW_HERE, Evidence.ROW_ELSEWHERE
PENDING, UNJOINED, GIVEN_UP, TOO_OLD = (
    Evidence.PENDING,
    Evidence.UNJOINED,
    Evidence.GIVEN_UP,
    Evidence.TOO_OLD,
)

# -- classes from evidence


@pytest.mark.parametrize(
    ("evidence", "outcome"),
    [
        # one alone
        (BAD_LINE, "dead_letters"),
        (DEAD_LETTER, "dead_letters"),
        (SKIPPED, "skipped"),
        (JOINED, "joined"),
        (ROW_HERE, "duplicates"),
        (ROW_ELSEWHERE, "joined_elsewhere"),
        (PENDING, "pending"),
        (UNJOINED, "unjoinable"),
        (GIVEN_UP, "unjoinable"),
        (TOO_OLD, None),  # recorded, but is it so? The registry is asked
        (Evidence(0), None),
        # a row of both datacenters is joined in each
        (JOINED | ROW_HERE | ROW_ELSEWHERE, "joined"),
        # another record of an event with a row here is a duplicate even if there is one elsewhere
        (ROW_HERE | ROW_ELSEWHERE, "duplicates"),
        # a record that still waits though its event got a row elsewhere
        (PENDING | ROW_ELSEWHERE, "joined_elsewhere"),
        # an event given up once and looked for again
        (UNJOINED | PENDING, "pending"),
        # a dead letter of a joined event is no duplicate
        (DEAD_LETTER | ROW_HERE, "dead_letters"),
        # one that is looked at again is none until that has ended
        (DEAD_LETTER | PENDING, "pending"),
        (BAD_LINE | DEAD_LETTER | PENDING, "pending"),
        # what the join answered as too old stays so, whatever became of its event
        (TOO_OLD | ROW_HERE, "too_old"),
        (TOO_OLD | ROW_ELSEWHERE, "too_old"),
        (TOO_OLD | UNJOINED, "too_old"),
        (TOO_OLD | GIVEN_UP, "too_old"),
        # but not a record with a row or a dead letter of its own, or one that is looked for again
        (TOO_OLD | JOINED, "joined"),
        (TOO_OLD | DEAD_LETTER, "dead_letters"),
        (TOO_OLD | PENDING, "pending"),
    ],
    ids=str,
)
def test_evidence_decides_on_the_class(evidence: Evidence, outcome: str | None) -> None:
    assert class_of(evidence) == outcome


def test_no_other_evidence_hides_a_row_that_was_made_of_a_record() -> None:
    for bits, outcome in enumerate(class_table()):
        if bits & JOINED:
            is_bad = bits & BAD_LINE and not bits & PENDING
            assert outcome == ("dead_letters" if is_bad else "joined"), Evidence(bits)


def test_only_a_record_that_is_in_no_table_but_that_of_what_is_too_old_is_undecided() -> None:
    assert undecided_evidence() == [0, TOO_OLD]
    assert len(class_table()) == 2 * max(Evidence)


# -- records that no table has

JOINS, DROPS, NO_PRIMARY = RejoinResult("joins"), RejoinResult("drops"), RejoinResult("no primary")
FAILS = RejoinResult("fails", "ValueError: no")
EPOCHS = {
    "e1": EpochStatus("east", "live", table_version=5),
    "lost": EpochStatus("west", "revoked", table_version=2**53),
}


def held_by(datacenter: str, epoch: str, batch: int) -> Joined:
    return Joined(Holder(datacenter, PlanKey(datacenter, epoch, batch, "p").token(Occurrence(1, 0))))


FREE, TOO_OLD_ID, FAR_AHEAD = Free(), TooOld(), BeyondHorizon()
IN_FLIGHT = held_by("east", "e1", 6)  # may have been committed since the table was read
HELD = held_by("east", "e1", 5)  # the table has this batch, without a row
REVOKED = held_by("west", "lost", 10**9)  # no batch of a lost epoch is in flight
UNKNOWN = held_by("west", "who", 1)
CLEARED = Joined(Holder("east", None))

NOBODY = "its primary is in the logs and nobody has registered it"
BEYOND = "its time lies beyond the registry's horizon, and it neither waits nor is recorded"
WITHOUT_ROW = "registered without a row: datacenter"
HELD_BY_EAST = f"{WITHOUT_ROW} east, batch 5 of its live epoch e1, token "
HELD_BY_LOST = f"{WITHOUT_ROW} west, batch {10**9} of its revoked epoch lost, token "
HELD_BY_UNKNOWN = f"{WITHOUT_ROW} west, batch 1 of its unknown epoch who, token "
ROW_GONE = "joined, and its row is gone: datacenter east, cleared"


@pytest.mark.parametrize(
    ("rejoin", "answer", "alone", "waits_somewhere"),
    [
        # a missing event is given by the words of why; `alone`: no other datacenter waits for it
        (JOINS, FREE, NOBODY, "pending"),
        (JOINS, TOO_OLD_ID, "too_old", "too_old"),
        (JOINS, FAR_AHEAD, BEYOND, BEYOND),
        (JOINS, IN_FLIGHT, "pending", "pending"),
        (JOINS, HELD, HELD_BY_EAST, "pending"),
        (JOINS, REVOKED, HELD_BY_LOST, "pending"),
        (JOINS, UNKNOWN, HELD_BY_UNKNOWN, "pending"),
        (JOINS, CLEARED, ROW_GONE, "pending"),
        # what the adapter drops was never registered, whatever the registry says
        (DROPS, FREE, "filtered", "filtered"),
        (DROPS, TOO_OLD_ID, "too_old", "too_old"),  # asked first, for it was recorded as that
        (DROPS, FAR_AHEAD, "filtered", "filtered"),
        (DROPS, IN_FLIGHT, "filtered", "filtered"),
        (DROPS, HELD, "filtered", "filtered"),
        (DROPS, CLEARED, "filtered", "filtered"),
        (FAILS, FREE, f"{NOBODY}; the adapter now fails on it: ValueError: no", "pending"),
        (FAILS, TOO_OLD_ID, "too_old", "too_old"),
        (FAILS, FAR_AHEAD, BEYOND, BEYOND),
        (FAILS, IN_FLIGHT, "pending", "pending"),
        (FAILS, HELD, HELD_BY_EAST, "pending"),
        (FAILS, CLEARED, ROW_GONE, "pending"),
        (NO_PRIMARY, FREE, "unjoinable", "unjoinable"),
        (NO_PRIMARY, TOO_OLD_ID, "too_old", "too_old"),
        (NO_PRIMARY, FAR_AHEAD, "unjoinable", "unjoinable"),
        (NO_PRIMARY, IN_FLIGHT, "pending", "pending"),
        # its primary was there once
        (NO_PRIMARY, HELD, HELD_BY_EAST, "pending"),
        (NO_PRIMARY, CLEARED, ROW_GONE, "pending"),
    ],
)
def test_a_record_that_no_table_has_is_classified_by_a_join_and_the_registry(
    rejoin: RejoinResult, answer: LookupOutcome, alone: str, waits_somewhere: str
) -> None:
    for waits, expected in ((False, alone), (True, waits_somewhere)):
        found = classify(rejoin, answer, EPOCHS, waits)
        if isinstance(found, MissingEvent):
            assert found.why == expected or (expected.endswith("token ") and found.why.startswith(expected))
            assert (found.kind == "missing_and_cleared") == (answer == CLEARED)
        else:
            assert found == expected


def test_an_id_that_was_joined_and_cleared_while_a_verification_ran_is_in_flight() -> None:
    assert classify(JOINS, CLEARED, EPOCHS, joined_since=True) == "pending"


@pytest.mark.parametrize(
    ("answer", "is_missing"),
    [(TOO_OLD_ID, False), (FREE, True), (HELD, True), (CLEARED, True)],
)
def test_a_record_of_being_too_old_hides_no_missing_event(answer: LookupOutcome, is_missing: bool) -> None:
    assert class_of(TOO_OLD) is None, "so that the registry is asked"
    found = classify(JOINS, answer, EPOCHS)
    assert isinstance(found, MissingEvent) == is_missing
    assert is_missing or found == "too_old"


# -- the report


def test_the_equation_adds_up_with_what_is_missing() -> None:
    report = DatacenterReport(classes={"joined": 5, "skipped": 2, "missing": 1})
    equation = report.equation()
    assert equation.pop("foreign") == sum(equation.values()) == 8


@pytest.mark.parametrize(
    ("kind", "is_ok"),
    [
        ("duplicate_rows", False),
        ("unjoinable_but_joinable", True),  # its primary came after all
        ("unjoinable_but_joinable_when_complete", False),  # its primary had been read before
    ],
)
def test_one_violation_in_one_datacenter_breaks_the_promise_and_a_mere_finding_does_not(
    kind: str, is_ok: bool
) -> None:
    found = DatacenterReport(findings=(Finding(kind, 3),))  # type: ignore[arg-type]
    report = VerificationReport({"east": DatacenterReport(), "west": found}, rows=2)
    assert report.ok == is_ok
    west = report.as_dict()["west"]
    assert [one["count"] for one in west["findings"]] == ([3] if is_ok else [])
    assert [one["count"] for one in west["violations"]] == ([] if is_ok else [3])


# -- values of rows


def test_a_list_without_items_may_be_null_in_a_row_that_is_older_than_its_columns_type() -> None:
    stored = pa.table({"v": pa.array([None, None, [1]], pa.list_(pa.int64()))})
    fresh = pa.table({"v": pa.array([[], [2], []], pa.list_(pa.int64()))})
    found = differences(fresh, stored)
    assert found == ["", "v is None, a join now gives [2]", "v is [1], a join now gives []"]


# -- before any record is read


@pytest.mark.parametrize(
    ("epoch", "version", "kinds"),
    [("live", None, ["table_gone"]), ("live", 0, []), ("retired", None, []), (None, None, [])],
)
def test_a_table_that_is_gone_breaks_a_promise_if_its_datacenter_has_begun_to_join(
    tmp_path: Path, epoch: EpochState | None, version: int | None, kinds: list[str]
) -> None:
    world = World(tmp_path)
    table = TableSnapshot(tmp_path / "lake", TABLE_COLUMNS["joined_events"], version)
    epochs = {"e": EpochStatus("east", epoch, 0)} if epoch is not None else {}
    scope = Scope(world.pipeline, ["east"], world.address, {}, {("east", "joined_events"): table}, epochs, {})
    findings = scope.findings("east")
    assert [finding.kind for finding in findings] == kinds
    assert bool(DatacenterReport(findings=findings).violations) is bool(kinds)
