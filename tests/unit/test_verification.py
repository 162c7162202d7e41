"""Verification decides on the class of a record, by evidence and by the registry's answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from photon.registry.lookups import Hold
from photon.state.view import ReadOffsets
from photon.storage.columns import TABLE_COLUMNS
from photon.verification.classes import (
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
        # one piece of evidence alone
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
        # an event with a row in both datacenters is joined in each
        (JOINED | ROW_HERE | ROW_ELSEWHERE, "joined"),
        # another record of an event with a row here is a duplicate even if there is one elsewhere
        (ROW_HERE | ROW_ELSEWHERE, "duplicates"),
        # a record that still waits though its event got a row elsewhere
        (PENDING | ROW_ELSEWHERE, "joined_elsewhere"),
        # an event given up once and looked for again
        (UNJOINED | PENDING, "pending"),
        # a dead letter of a joined event is no duplicate
        (DEAD_LETTER | ROW_HERE, "dead_letters"),
        # a dead letter that is looked at again is none until that has ended
        (DEAD_LETTER | PENDING, "pending"),
        (BAD_LINE | DEAD_LETTER | PENDING, "pending"),
        # a record that the join called too old stays so, whatever became of its event
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
NOBODY, HELD, JOINED_EVENT, TOO_OLD_ID = (
    Hold.NOBODY,
    Hold.ELSEWHERE,
    Hold.JOINED_ELSEWHERE,
    Hold.TOO_OLD,
)
FREE = "its primary is in the logs and nobody has registered it"
ROW_GONE = "joined, and its row is gone: datacenter east"


@pytest.mark.parametrize(
    ("rejoin", "hold", "alone", "waits_somewhere"),
    [
        # a missing event is given by its reason; `alone`: no other datacenter waits for it
        (JOINS, NOBODY, FREE, "pending"),
        (JOINS, TOO_OLD_ID, "too_old", "too_old"),
        (JOINS, HELD, "pending", "pending"),  # the holder's batch may still bring a row
        (JOINS, JOINED_EVENT, ROW_GONE, "pending"),
        # nobody claims what the adapter drops, whatever the ledgers say
        (DROPS, NOBODY, "filtered", "filtered"),
        (DROPS, TOO_OLD_ID, "too_old", "too_old"),  # asked first, for it was recorded as that
        (DROPS, HELD, "filtered", "filtered"),
        (DROPS, JOINED_EVENT, "filtered", "filtered"),
        (FAILS, NOBODY, f"{FREE}; the adapter now fails on it: ValueError: no", "pending"),
        (FAILS, TOO_OLD_ID, "too_old", "too_old"),
        (FAILS, HELD, "pending", "pending"),
        (FAILS, JOINED_EVENT, ROW_GONE, "pending"),
        (NO_PRIMARY, NOBODY, "unjoinable", "unjoinable"),
        (NO_PRIMARY, TOO_OLD_ID, "too_old", "too_old"),
        (NO_PRIMARY, HELD, "pending", "pending"),
        (NO_PRIMARY, JOINED_EVENT, ROW_GONE, "pending"),  # the primary was there once
    ],
)
def test_a_record_that_no_table_has_is_classified_by_a_join_and_the_ledgers(
    rejoin: RejoinResult, hold: Hold, alone: str, waits_somewhere: str
) -> None:
    holder = "east" if hold in (HELD, JOINED_EVENT) else None
    for waits, expected in ((False, alone), (True, waits_somewhere)):
        found = classify(rejoin, hold, holder, waits)
        if isinstance(found, MissingEvent):
            assert (found.why, found.holder) == (expected, holder)
        else:
            assert found == expected


@pytest.mark.parametrize(("hold", "is_missing"), [(TOO_OLD_ID, False), (NOBODY, True), (JOINED_EVENT, True)])
def test_a_record_of_being_too_old_hides_no_missing_event(hold: Hold, is_missing: bool) -> None:
    assert class_of(TOO_OLD) is None, "so that the ledgers are asked"
    found = classify(JOINS, hold)
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
        ("unjoinable_but_joinable", True),  # the primary came after all
        ("unjoinable_but_joinable_when_complete", False),  # the primary had been read before
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
    ("epochs", "version", "kinds"),
    [({"east": 1}, None, ["table_gone"]), ({"east": 1}, 0, []), ({"west": 1}, None, []), ({}, None, [])],
)
def test_a_table_that_is_gone_breaks_a_promise_if_its_datacenter_has_begun_to_join(
    tmp_path: Path, epochs: dict[str, int], version: int | None, kinds: list[str]
) -> None:
    world = World(tmp_path)
    table = TableSnapshot(tmp_path / "lake", TABLE_COLUMNS["joined_events"], version)
    reader, tables = world.reader(), {("east", "joined_events"): table}
    register = replace(reader.register, epochs=epochs)
    scope = Scope(world.pipeline, ["east"], register, reader.snapshot(), {}, tables, {})
    findings = scope.findings("east")
    assert [finding.kind for finding in findings] == kinds
    assert bool(DatacenterReport(findings=findings).violations) is bool(kinds)


@pytest.mark.parametrize(
    ("epochs", "is_so"),
    [({"east": 1, "west": 1}, False), ({"east": 2, "west": 1}, True), ({"east": 1, "north": 1}, True)],
    ids=["first epochs", "a second epoch", "a datacenter without a state"],
)
def test_rows_may_be_of_an_epoch_that_numbers_files_otherwise(
    tmp_path: Path, epochs: dict[str, int], is_so: bool
) -> None:
    world = World(tmp_path)
    reader, read = world.reader(), {name: ReadOffsets(epoch="1") for name in ("east", "west")}
    register = replace(reader.register, epochs=epochs)
    scope = Scope(world.pipeline, ["east"], register, reader.snapshot(), read, {}, {})
    assert scope.has_earlier_epochs is is_so
