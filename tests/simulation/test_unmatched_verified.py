"""Verification of primaries from raw logs: each id is matched, unmatched, open, or missing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from photon.cli.verify import report_text
from photon.state.unmatched import DOCUMENT
from photon.storage.columns import TableName
from photon.storage.tables import OutputTable
from photon.verification.report import DatacenterReport, VerificationReport
from tests.simulation.reading import asking
from tests.simulation.unmatched_stories import DAY_US, HOUR_US, UnmatchedWorld
from tests.simulation.world import NOON_US
from tests.spark.both_engines import verify_alone


@pytest.fixture
def world(tmp_path: Path) -> UnmatchedWorld:
    """q1 is matched, q2 to q4 are written, q5 is not due."""
    return looked_at(UnmatchedWorld(tmp_path))


def looked_at(world: UnmatchedWorld) -> UnmatchedWorld:
    world.queries("q1", "q2", "q3", "q4")
    world.clicks(("a", "q1"))
    world.queries("q5", at_us=NOON_US + DAY_US)
    world.go_on(DAY_US + HOUR_US)
    world.look()
    return world


def verified(world: UnmatchedWorld, datacenters: Sequence[str] = (), **options: Any) -> VerificationReport:
    with asking(world):
        return verify_alone(world.pipeline, datacenters or list(world.pipeline.datacenters), **options)


def told(report: DatacenterReport) -> tuple[dict[str, int], dict[str, list[str]]]:
    """The terms that are not 0, and the primaries of each finding."""
    names = {one.kind: [example.event_id for example in one.examples] for one in report.findings}
    return {term: count for term, count in report.primaries.items() if count}, dict(names)


def of_east(world: UnmatchedWorld, **options: Any) -> tuple[dict[str, int], dict[str, list[str]]]:
    return told(verified(world, **options).datacenters["east"])


def table(world: UnmatchedWorld, name: TableName = "unmatched") -> DeltaTable:
    return OutputTable(world.pipeline.datacenters["east"].lake, name).load()


SOUND = {"primaries": 6, "matched": 2, "unmatched": 3, "open": 1}


def test_each_primary_id_of_the_owner_s_logs_is_in_one_term(world: UnmatchedWorld) -> None:
    report = verified(world)
    assert told(report.datacenters["east"]) == (SOUND, {})
    says = "east: 6 primary ids = 2 matched + 3 unmatched + 1 open + 0 missing; 0 lines are no record"
    assert says in report_text(report, "p.yaml").splitlines()
    assert report.as_dict()["east"]["primaries"] == {**SOUND, "missing": 0, "dead_letter_lines": 0}


def test_without_the_key_nothing_is_said_of_primaries(tmp_path: Path) -> None:
    world = UnmatchedWorld(tmp_path, more="")
    world.queries("q1")
    world.join()
    assert verified(world).datacenters["east"].primaries == {}


def test_a_line_that_is_no_record_is_counted_by_line(world: UnmatchedWorld) -> None:
    world.log("east", "queries", {"query": "q7"}, "no record at all\n")
    world.join()
    assert of_east(world) == ({**SOUND, "dead_letter_lines": 2}, {})


def test_a_primary_whose_row_is_gone_is_missing_until_a_run_looks_at_all(world: UnmatchedWorld) -> None:
    table(world).delete("primary_id = 'q2'")
    terms, findings = of_east(world)
    assert terms == {**SOUND, "unmatched": 2, "missing": 1}
    assert findings == {"primary_missing": ["q2"]}
    world.look(anew=True)
    assert of_east(world) == (SOUND, {})


def test_before_the_first_run_all_that_nothing_matched_is_open(tmp_path: Path) -> None:
    world = UnmatchedWorld(tmp_path)
    world.queries("q1", "q2")
    world.go_on(DAY_US + HOUR_US)
    assert of_east(world) == ({}, {})  # nobody writes them yet
    looked_at(world)
    (Path(world.pipeline.datacenters["east"].lake) / DOCUMENT).unlink()
    table(world).delete("primary_id = 'q2'")
    terms, findings = of_east(world)
    assert (terms["open"], findings) == (2, {})


def test_a_primary_with_two_rows_is_named_with_both(world: UnmatchedWorld) -> None:
    again = table(world).to_pyarrow_table(filters=[("primary_id", "=", "q2")])
    write_deltalake(table(world), again, mode="append")
    report = verified(world).datacenters["east"]
    assert told(report) == (SOUND, {"unmatched_twice": ["q2"]})
    (example,) = report.findings[0].examples
    assert (example.where.count("east: run 1, occurrence"), example.detail) == (2, "2 rows")


def test_a_row_at_whose_place_is_another_primary_is_found(world: UnmatchedWorld) -> None:
    table(world).update(predicate="primary_id = 'q2'", updates={"primary_id": "'q8'"})
    terms, findings = of_east(world)
    assert terms == {**SOUND, "unmatched": 2, "missing": 1}
    assert findings == {"primary_missing": ["q2"], "unmatched_without_primary": ["q8"]}


def test_rows_whose_log_went_are_no_finding(world: UnmatchedWorld) -> None:
    for file in (world.folder / "logs" / "east" / "queries").iterdir():
        file.unlink()
    terms, findings = of_east(world)
    assert (terms, "unmatched_without_primary" in findings) == ({}, False)


def test_what_a_later_release_says_to_have_lost_its_rows_is_open(world: UnmatchedWorld) -> None:
    """What others took holds a run back, until a verification behind it finds nothing wrong (E11)."""
    table(world, "joined_events").delete("_event_id = 'a'")
    world.clicks(("b", "q3"))
    world.join()
    terms, findings = of_east(world)
    assert (terms["open"], "primary_missing" in findings) == (2, False)
    world.look()
    terms, findings = of_east(world)
    assert (terms["unmatched"], terms["open"], "primary_missing" in findings) == (2, 2, False)


def test_who_does_not_write_them_has_no_identity(tmp_path: Path) -> None:
    world = UnmatchedWorld(tmp_path, ("east", "west"))
    world.queries("q1", "q2", datacenter="west")
    looked_at(world)
    report = verified(world)
    assert [bool(one.primaries) for one in report.datacenters.values()] == [True, False]
    assert verified(world, datacenters=["west"]).datacenters["west"].primaries == {}


def test_kept_results_say_the_same_as_all_logs(world: UnmatchedWorld) -> None:
    assert of_east(world, keep=True) == (SOUND, {})
    world.queries("q6", at_us=NOON_US + DAY_US)
    world.clicks(("b", "q3"))
    world.join()
    after = {**SOUND, "primaries": 7, "matched": 3, "unmatched": 2, "open": 2}
    report = verified(world)
    assert report.datacenters["east"].records_read < report.datacenters["east"].foreign
    assert told(report.datacenters["east"]) == of_east(world, anew=True) == (after, {})
