"""What verification decides: the class of a record, and what the registry's answer means."""

from __future__ import annotations

import pytest

from photon.registry.interface import BeyondHorizon, Free, Holder, Joined, LookupOutcome, TooOld
from photon.tokens import Occurrence, PlanKey
from photon.verification.classes import (
    EpochStatus,
    Evidence,
    MissingEvent,
    RegistryEntry,
    RegistryStatus,
    RejoinResult,
    class_of,
    class_table,
    classify,
    registry_entry,
    undecided_evidence,
)
from photon.verification.report import DatacenterReport, Finding, VerificationReport

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
            assert outcome == ("dead_letters" if bits & BAD_LINE else "joined"), Evidence(bits)


def test_only_a_record_that_is_in_no_table_but_that_of_what_is_too_old_is_undecided() -> None:
    assert undecided_evidence() == [0, TOO_OLD]
    assert len(class_table()) == 2 * max(Evidence)


# -- what the registry's answer means


def held_by(datacenter: str, epoch: str, batch: int) -> Joined:
    return Joined(Holder(datacenter, PlanKey(datacenter, epoch, batch, "p").token(Occurrence(1, 0))))


EPOCHS = {
    "e1": EpochStatus("east", "live", table_version=5),
    "lost": EpochStatus("west", "revoked", table_version=2**53),
}
CLEARED = Joined(Holder("east", None))


@pytest.mark.parametrize(
    ("answer", "status", "holder"),
    [
        (Free(), "free", ""),
        (TooOld(), "too old", ""),
        (BeyondHorizon(), "beyond horizon", ""),
        # a batch beyond the table's version may be committed since; one that the table has brings no row
        (held_by("east", "e1", 6), "in flight", "datacenter east, batch 6 of its live epoch e1"),
        (held_by("east", "e1", 5), "held without a row", "datacenter east, batch 5 of its live epoch e1"),
        # no batch of a lost epoch is in flight
        (held_by("west", "lost", 10**9), "held without a row", "of its revoked epoch lost"),
        (held_by("west", "who", 1), "held without a row", "of its unknown epoch who"),
        (CLEARED, "cleared without a row", "datacenter east, cleared"),
    ],
)
def test_an_answer_for_an_id_without_a_row_is_interpreted_with_its_holder(
    answer: LookupOutcome, status: RegistryStatus, holder: str
) -> None:
    found = registry_entry(answer, EPOCHS)
    assert found.status == status
    assert holder in found.holder
    assert bool(holder) == bool(found.holder)


def test_an_id_that_was_joined_and_cleared_while_a_verification_ran_is_in_flight() -> None:
    assert registry_entry(CLEARED, EPOCHS, joined_since=True).status == "in flight"


# -- records that no table has

JOINS, DROPS, NO_PRIMARY = RejoinResult("joins"), RejoinResult("drops"), RejoinResult("no primary")
FAILS = RejoinResult("fails", "ValueError: no")
WITHOUT_ROW = "registered without a row: west"
ROW_GONE = "joined, and its row is gone: west"
NOBODY = "its primary is in the logs and nobody has registered it"
BEYOND = "its time lies beyond the registry's horizon, and it neither waits nor is recorded"


@pytest.mark.parametrize(
    ("rejoin", "status", "alone", "waits_somewhere"),
    [
        # a violation is given by its words; `alone`: nobody waits for it
        (JOINS, "free", NOBODY, "pending"),
        (JOINS, "too old", "too_old", "too_old"),
        (JOINS, "beyond horizon", BEYOND, BEYOND),
        (JOINS, "in flight", "pending", "pending"),
        (JOINS, "held without a row", WITHOUT_ROW, "pending"),
        (JOINS, "cleared without a row", ROW_GONE, "pending"),
        (DROPS, "free", "filtered", "filtered"),
        (DROPS, "too old", "too_old", "too_old"),  # asked first, for it was recorded as that
        (DROPS, "beyond horizon", "filtered", "filtered"),
        (DROPS, "in flight", "filtered", "filtered"),
        (DROPS, "held without a row", "filtered", "filtered"),
        (DROPS, "cleared without a row", "filtered", "filtered"),
        (FAILS, "free", f"{NOBODY}; the adapter now fails on it: ValueError: no", "pending"),
        (FAILS, "too old", "too_old", "too_old"),
        (FAILS, "beyond horizon", BEYOND, BEYOND),
        (FAILS, "in flight", "pending", "pending"),
        (FAILS, "held without a row", WITHOUT_ROW, "pending"),
        (FAILS, "cleared without a row", ROW_GONE, "pending"),
        (NO_PRIMARY, "free", "unjoinable", "unjoinable"),
        (NO_PRIMARY, "too old", "too_old", "too_old"),
        (NO_PRIMARY, "beyond horizon", "unjoinable", "unjoinable"),
        (NO_PRIMARY, "in flight", "pending", "pending"),
        (NO_PRIMARY, "held without a row", WITHOUT_ROW, "pending"),  # the primary was there once
        (NO_PRIMARY, "cleared without a row", ROW_GONE, "pending"),
    ],
)
def test_a_record_that_no_table_has_is_classified_by_a_join_and_the_registry(
    rejoin: RejoinResult, status: RegistryStatus, alone: str, waits_somewhere: str
) -> None:
    holder = "west" if status.endswith("without a row") else ""

    def outcome(waits: bool) -> str:
        found = classify(rejoin, RegistryEntry(status, holder), waits)
        if not isinstance(found, MissingEvent):
            return found
        assert (found.kind == "missing_and_cleared") == (status == "cleared without a row")
        return found.why

    assert (outcome(waits=False), outcome(waits=True)) == (alone, waits_somewhere)


@pytest.mark.parametrize(
    ("evidence", "answer", "outcome"),
    [(TOO_OLD, TooOld(), "too_old"), (TOO_OLD, Free(), None)],
    ids=["the registry agrees", "the registry says otherwise"],
)
def test_a_record_of_being_too_old_hides_no_missing_event(
    evidence: Evidence, answer: LookupOutcome, outcome: str | None
) -> None:
    assert class_of(evidence) is None, "so that the registry is asked"
    found = classify(JOINS, registry_entry(answer, EPOCHS), waits_somewhere=False)
    assert (None if isinstance(found, MissingEvent) else found) == outcome


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
