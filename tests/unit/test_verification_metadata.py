"""A verification as Dagster shows it: which finding breaks which promise, and what is said of it."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from photon.assets.reports import copies_check
from photon.assets.verification import CHECKS, MOST_SHOWN_CHARACTERS, check_result, report_metadata
from photon.cli.verify import report_text
from photon.verification.report import (
    MEANINGS,
    DatacenterReport,
    Example,
    Finding,
    FindingKind,
    Unverified,
    VerificationReport,
    VerifiedEarlier,
)

FILE = Path("p.yaml")
BY_NAME = {check.name: check for check in CHECKS}
EAST = DatacenterReport(classes={"joined": 1_200, "joined_elsewhere": 3}, rows=1_200)


def report_with(*findings: Finding) -> VerificationReport:
    west = DatacenterReport(classes={"joined": 3, "missing": 2}, findings=findings, rows=3)
    return VerificationReport({"east": EAST, "west": west}, rows=1_203)


def test_every_violation_breaks_exactly_one_promise_and_a_mere_finding_none() -> None:
    checked = Counter(kind for check in CHECKS for kind in check.kinds)
    assert checked == {kind: 1 for kind, meaning in MEANINGS.items() if meaning.violation}


def test_a_violation_is_shown_with_where_it_is_and_what_to_do() -> None:
    report = report_with(Finding("missing", 2, (Example("e1", "1:0", "nobody has it"),)))
    result = check_result(BY_NAME["nothing_missing"], report, FILE)
    metadata, summary = result.metadata, str(result.description)
    assert not result.passed
    assert metadata["count"].value == 2
    assert "|west|missing|`e1`|1:0|nobody has it|" in str(metadata["examples"].value)
    assert MEANINGS["missing"].remedy.replace("PIPELINE", "p.yaml") in str(metadata["what_to_do"].value)
    assert summary.startswith("west: 2 records that should be joined")
    assert MEANINGS["missing"].remedy.replace("PIPELINE", "p.yaml") in summary


def test_other_promises_hold_all_the_same() -> None:
    report = report_with(Finding("missing", 2))
    assert BY_NAME["nothing_twice"].violations(report) == []
    result = check_result(BY_NAME["nothing_twice"], report, FILE)
    assert (result.passed, result.description) == (True, "Holds in east, west.")
    assert set(result.metadata) == {"count"}


@pytest.mark.parametrize("kind", [kind for kind, meaning in MEANINGS.items() if not meaning.violation])
def test_a_finding_that_breaks_no_promise_is_a_note(kind: FindingKind) -> None:
    report = report_with(Finding(kind, 5))
    assert not any(check.violations(report) for check in CHECKS)
    assert f"west: 5 {MEANINGS[kind].says}" in str(report_metadata(report, 1.0, FILE)["notes"].value)


def test_the_equations_stand_side_by_side() -> None:
    lines = str(report_metadata(report_with(), 1.0, FILE)["equations"].value).splitlines()  # type: ignore[union-attr]
    assert lines[0] == "||east|west|"
    assert lines[2] == "|foreign|1,203|5|"
    assert lines[3] == "|= joined|1,200|3|"
    assert lines[-2:] == ["|+ missing|0|2|", "|rows|1,200|3|"]


def test_counts_are_numbers_that_dagster_can_plot() -> None:
    metadata = report_metadata(report_with(Finding("missing", 2)), 12.34, FILE)
    assert (metadata["east_joined"], metadata["west_missing"]) == (1_200, 2)
    assert "east_filtered" not in metadata, "the table has all classes, and few are plotted"
    assert (metadata["violations"], metadata["rows"]) == (2, 1_203)
    assert metadata["seconds"] == 12.3


def test_bytes_that_could_not_be_read_again_are_told() -> None:
    gone = [Unverified("a.csv", "foreign", 70, "gone"), Unverified("b.csv", "primary", 30, "gone")]
    report = VerificationReport({"east": DatacenterReport(unverified=gone)}, rows=0)
    assert report_metadata(report, 1.0, FILE)["unverified_bytes"] == 100


def test_bytes_that_went_after_they_were_verified_are_told_apart() -> None:
    earlier = DatacenterReport(verified_earlier=VerifiedEarlier(2, 90, "a.csv"))
    metadata = report_metadata(VerificationReport({"east": earlier, "west": earlier}, rows=0), 1.0, FILE)
    assert metadata["verified_earlier_bytes"] == 180
    assert metadata["unverified_bytes"] == 0


def test_what_events_say_can_neither_break_the_table_nor_fill_the_storage() -> None:
    wild = Example("a|b`c\nd", "1:0", "x" * 10_000)
    metadata = check_result(
        BY_NAME["nothing_missing"], report_with(Finding("missing", 1, (wild,))), FILE
    ).metadata
    (_, _, row) = str(metadata["examples"].value).splitlines()
    assert "|`a\\|b'c d`|" in row
    assert len(row) < MOST_SHOWN_CHARACTERS + 100


def both_have(*of: Finding) -> VerificationReport:
    """A report in which each datacenter tells of the same records."""
    return VerificationReport({name: DatacenterReport(findings=of) for name in ("east", "west")}, rows=0)


@pytest.mark.parametrize(
    ("finding", "events"),
    [
        (Finding("missing", 295), 295),
        (Finding("missing", 2, (Example("e1", "1:0"), Example("e2", "1:9"))), 2),
        (Finding("missing", 7), 7),
        (Finding("table_gone", 1), 2),
    ],
)
def test_an_event_that_each_datacenter_tells_of_counts_once(finding: Finding, events: int) -> None:
    metadata = check_result(BY_NAME["nothing_missing"], both_have(finding), FILE).metadata or {}
    assert metadata["count"].value == events


def test_events_that_one_datacenter_alone_tells_of_count_too() -> None:
    east, west = (Finding("missing", 1, (Example(name, "1:0"),)) for name in ("e1", "e2"))
    report = VerificationReport(
        {"east": DatacenterReport(findings=(east,)), "west": DatacenterReport(findings=(west,))}, rows=0
    )
    metadata = check_result(BY_NAME["nothing_missing"], report, FILE).metadata or {}
    assert metadata["count"].value == 2


SAYS = MEANINGS["missing"].says


@pytest.mark.parametrize(
    ("east", "west", "said"),
    [
        (["e1", "e2"], ["e2", "e1"], f"east, west: 2 {SAYS}"),
        (["e1", "e2"], ["e2"], f"east 2, west 1, 2 in all: {SAYS}"),
        (["e1", "e2"], ["e3"], f"east: 2 {SAYS}; west: 1 {SAYS}"),
    ],
)
def test_what_both_datacenters_tell_of_the_same_events_is_said_once(
    east: list[str], west: list[str], said: str
) -> None:
    reports = {
        name: DatacenterReport(
            findings=(Finding("missing", len(ids), tuple(Example(one, "1:0") for one in ids)),)
        )
        for name, ids in (("east", east), ("west", west))
    }
    result = check_result(BY_NAME["nothing_missing"], VerificationReport(reports, rows=0), FILE)
    assert str(result.description).startswith(f"{said}. What to do: ")


@pytest.mark.parametrize("kind", [kind for kind, meaning in MEANINGS.items() if "PIPELINE" in meaning.remedy])
def test_a_remedy_names_the_pipeline_file_wherever_it_is_shown(kind: FindingKind, tmp_path: Path) -> None:
    file, report = tmp_path / "my clicks.yaml", both_have(Finding(kind, 3))
    texts = [report_text(report, file), json.dumps(report.typed(file))]
    texts += [str(check_result(check, report, file).description) for check in CHECKS]
    texts.append(str(copies_check(report, [], file).description))
    assert not [text for text in texts if "PIPELINE" in text]
    assert "-d DATACENTER --day" not in texts[0]
    assert f"'{file}'" in texts[0]


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        ("different_values", "row of 2026-04-01, batch 1, occurrence 1:0"),
        ("row_without_event", "row of 2026-04-01, batch 3, occurrence 2:64 (a.jsonl at byte 64)"),
        (
            "duplicate_rows",
            "east: row of 2026-04-01, batch 1, occurrence 1:0; west: row of 2026-04-02, batch 1",
        ),
    ],
)
def test_the_remedy_of_a_row_names_its_day(kind: FindingKind, where: str, tmp_path: Path) -> None:
    finding = Finding(
        kind, 2, (Example("e0", "row of no day, batch 1, occurrence 1:0"), Example("e1", where))
    )
    report = both_have(finding)
    file = tmp_path / "p.yaml"
    checks = "".join(str(check_result(check, report, file).description) for check in CHECKS)
    metadata = "".join(str(check_result(check, report, file).metadata) for check in CHECKS)
    for text in (report_text(report, file), json.dumps(report.typed(file)), checks, metadata):
        for name in ("east", "west"):
            assert f"photon backfill {file} -d {name} --day 2026-04-01 --rebuild" in text
        assert not re.search(r"\b(PIPELINE|DATACENTER|DAY|REBUILD|TRACE)\b", text)


def test_a_remedy_of_rows_without_a_day_has_no_command_that_can_not_be_typed() -> None:
    doubled = Finding("duplicate_rows", 1, (Example("e 0", "row of no day, batch 1"),))
    text = report_text(both_have(doubled), FILE)
    assert "a rebuild of the days of its rows" in text
    assert "photon trace p.yaml 'e 0' shows both rows" in text


def test_the_notes_of_a_verification_have_commands_that_can_be_typed() -> None:
    kinds = [kind for kind, meaning in MEANINGS.items() if not meaning.violation]
    notes = str(report_metadata(both_have(*(Finding(kind, 1) for kind in kinds)), 1.0, FILE)["notes"].value)
    assert "photon recover p.yaml: they are looked for again" in notes
    assert "PIPELINE" not in notes
