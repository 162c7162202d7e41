"""Reports of verification that are stored: what comes back, which is the newest, what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from photon.pipeline.file import Pipeline, load_pipeline
from photon.pipeline.location import Location
from photon.process.clock import SystemClock
from photon.process.errors import FormatTooNew
from photon.process.faults import arm, disarm
from photon.storage import append_table
from photon.storage.append_table import FORMAT_PROPERTY, AppendTable, compact_report_table
from photon.storage.delta import LakeUnavailable
from photon.storage.mended_letters import MendedLetter, add_mended, mended_letters
from photon.storage.tokens import Occurrence
from photon.storage.verified_files import VERIFIED_FILES, read_verified_offsets
from photon.upkeep.compact import plan_compaction
from photon.verification.report import (
    TERMS,
    DatacenterReport,
    Example,
    Finding,
    Unverified,
    VerificationReport,
)
from photon.verification.stored_reports import (
    MOST_UNVERIFIED_STORED,
    REPORTS,
    append,
    newest,
)
from tests.support.crashes import SimulatedCrash, raise_simulated_crash
from tests.support.faulty_disk import FaultyDisk
from tests.support.manual_clock import ManualClock
from tests.support.pipelines import PIPELINE

AT_US = 1_767_607_200_123_456
SOUND = DatacenterReport(classes={"joined": 7, "pending": 2}, rows=7)
BROKEN = DatacenterReport(
    classes={"joined": 6, "missing": 3},
    findings=[Finding("missing", 3, (Example("e1", "1:0", "why"),)), Finding("unjoinable_but_joinable", 5)],
    rows=6,
)


def store(pipeline: Pipeline, at_us: int = AT_US, **reports: DatacenterReport) -> None:
    append(pipeline, VerificationReport(reports, rows=13), at_us, "a run", 12.5)


def columns(pipeline: Pipeline, datacenter: str) -> dict[str, Any]:
    """The columns of the only report that is stored."""
    with REPORTS.reading(pipeline, datacenter) as rows:
        assert rows is not None
        (row,) = rows.to_table().drop_columns(["at"]).to_pylist()
    return row


def test_a_report_comes_back_as_it_was_stored(pipeline: Pipeline) -> None:
    store(pipeline, east=SOUND)
    found = newest(pipeline, ["east"])["east"]
    assert (found.at_us, found.run, found.seconds) == (AT_US, "a run", 12.5)
    assert found.equation == SOUND.equation()
    assert found.report == SOUND.as_dict()
    assert found.ok
    assert found.adds_up


@pytest.mark.parametrize("folder", ["a[b", "logs]", "x^2", "either|or", "{a} [b] 50%"])
def test_reports_are_stored_and_compacted_whatever_the_folder_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """Delta-rs panics at names that a URL's host can't have, if it writes the rows itself."""
    monkeypatch.setattr(append_table, "LEAST_FILES", 2)
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "pipeline.yaml").write_text(PIPELINE)
    pipeline = load_pipeline(tmp_path / folder / "pipeline.yaml")
    for number in range(3):
        sound = replace(SOUND, epoch="e", newly_verified_offsets={7: 100 + number})
        store(pipeline, at_us=AT_US + number, east=sound)
    place = REPORTS.folder(pipeline, "east")
    assert compact_report_table(place) == (3, 1, 0)
    assert newest(pipeline, ["east"])["east"].at_us == AT_US + 2
    assert read_verified_offsets(pipeline, "east", "e") == {7: 102}


def test_the_newest_of_many_reports_is_found_also_within_a_millisecond(pipeline: Pipeline) -> None:
    for later_us, report in ((5, BROKEN), (9, SOUND), (0, BROKEN), (7, BROKEN)):
        store(pipeline, AT_US + later_us, east=report)
    found = newest(pipeline, ["east"])["east"]
    assert (found.at_us, found.ok) == (AT_US + 9, True)


def test_cases_of_violations_are_counted_and_mere_findings_are_not(pipeline: Pipeline) -> None:
    store(pipeline, west=BROKEN)
    found = newest(pipeline, ["west"])["west"]
    assert not found.ok
    assert columns(pipeline, "west")["violations"] == 3
    assert found.report["violations"][0]["examples"][0]["event_id"] == "e1"


@pytest.mark.parametrize("report", [SOUND, BROKEN], ids=["sound", "broken"])
def test_the_columns_of_a_stored_report_say_the_same(pipeline: Pipeline, report: DatacenterReport) -> None:
    store(pipeline, east=report)
    row, found = columns(pipeline, "east"), newest(pipeline, ["east"])["east"]
    assert {term: row[term] for term in TERMS} == found.equation == report.equation()
    assert (row["run"], row["seconds"], row["rows"]) == ("a run", 12.5, report.rows)
    assert row["ok"] == found.ok == (report is SOUND)


def test_a_datacenter_that_was_never_verified_is_left_out(pipeline: Pipeline) -> None:
    store(pipeline, east=SOUND)
    assert list(newest(pipeline, ["east", "west"])) == ["east"]


def test_a_stored_report_names_no_more_files_than_its_limit(pipeline: Pipeline) -> None:
    gone = [Unverified(f"q{n}.csv", "primary", 1, "gone") for n in range(MOST_UNVERIFIED_STORED + 1)]
    store(pipeline, east=DatacenterReport(unverified=gone))
    assert len(newest(pipeline, ["east"])["east"].report["unverified"]) == MOST_UNVERIFIED_STORED


def test_what_a_stored_report_says_of_foreign_logs_does_not_fall_to_that_limit(pipeline: Pipeline) -> None:
    gone = [Unverified(f"q{n}.csv", "primary", 1, "gone") for n in range(MOST_UNVERIFIED_STORED)]
    gone.append(Unverified("c.csv", "foreign", 1, "gone"))
    store(pipeline, east=DatacenterReport(unverified=gone))
    assert newest(pipeline, ["east"])["east"].report["unverified"][0]["path"] == "c.csv"


# -- how far logs were verified


def test_with_a_report_that_finds_no_promise_broken_it_is_stored_how_far_logs_were_verified(
    pipeline: Pipeline,
) -> None:
    store(pipeline, east=DatacenterReport(epoch="e1", newly_verified_offsets={3: 70}))
    assert read_verified_offsets(pipeline, "east", "e1") == {3: 70}


def test_where_a_promise_is_broken_no_log_counts_as_verified(pipeline: Pipeline) -> None:
    broken = replace(BROKEN, epoch="w1", newly_verified_offsets={3: 70})
    store(pipeline, east=DatacenterReport(epoch="e1", newly_verified_offsets={3: 50}), west=broken)
    assert read_verified_offsets(pipeline, "west", "w1") == {}
    assert read_verified_offsets(pipeline, "east", "e1") == {3: 50}


def test_one_that_dies_before_its_report_is_stored_has_said_how_far_logs_were_verified(
    pipeline: Pipeline,
) -> None:
    arm("verify.after_files", raise_simulated_crash)
    try:
        with pytest.raises(SimulatedCrash):
            store(pipeline, east=DatacenterReport(epoch="e1", newly_verified_offsets={3: 70}))
    finally:
        disarm()
    assert newest(pipeline, ["east"]) == {}
    assert read_verified_offsets(pipeline, "east", "e1") == {3: 70}


def test_a_mended_letter_outlasts_a_power_cut(pipeline: Pipeline, tmp_path: Path) -> None:
    disk, place = FaultyDisk(tmp_path), Occurrence.parse("1:7")
    with disk.in_use():
        add_mended(pipeline, "east", [MendedLetter("e1", place, "c1", batch=4)], AT_US)
    disk.cut_power()
    assert mended_letters(pipeline, "east", "e1").keys() == {place}


# -- what is refused


@pytest.mark.parametrize("table", [REPORTS, VERIFIED_FILES], ids=lambda table: table.name)
def test_a_table_of_a_newer_format_is_refused_by_name(pipeline: Pipeline, table: AppendTable) -> None:
    report = DatacenterReport(epoch="e1", newly_verified_offsets={3: 70})
    store(pipeline, east=report)
    folder = table.folder(pipeline, "east")
    DeltaTable(str(folder)).alter.set_table_properties({FORMAT_PROPERTY: "2"}, raise_if_not_exists=False)

    def read() -> None:
        newest(pipeline, ["east"])
        read_verified_offsets(pipeline, "east", "e1")

    for act in (read, lambda: store(pipeline, east=report)):
        with pytest.raises(FormatTooNew, match=rf"{table.name} has format 2.*knows up to 1"):
            act()


def test_a_lake_that_cannot_be_written_is_named(pipeline: Pipeline) -> None:
    lake = pipeline.datacenters["east"].lake
    lake.parent.mkdir(parents=True)
    lake.write_text("no folder")
    with pytest.raises(LakeUnavailable, match=r"cannot add rows to .*east"):
        store(pipeline, east=SOUND)


# -- many of them


@pytest.fixture
def many(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    monkeypatch.setattr(append_table, "LEAST_FILES", 4)
    for number in range(4):
        one = replace(SOUND, rows=number, epoch="e", newly_verified_offsets={1: number, 2: 7})
        store(pipeline, AT_US + number, east=one)
    return pipeline


def test_many_small_reports_become_one_file_and_are_read_as_before(many: Pipeline) -> None:
    before = newest(many, ["east"])
    for table in (REPORTS, VERIFIED_FILES):
        assert compact_report_table(table.folder(many, "east")) == (4, 1, 0)
        assert compact_report_table(table.folder(many, "east")) == (1, 1, 0)
    assert newest(many, ["east"]) == before
    assert sorted(_rows(many)) == [0, 1, 2, 3]
    assert read_verified_offsets(many, "east", "e") == {1: 3, 2: 7}


def test_a_few_reports_stay_as_they_are(many: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append_table, "LEAST_FILES", 5)
    assert compact_report_table(REPORTS.folder(many, "east")) == (4, 4, 0)


def test_a_pass_over_a_datacenters_tables_takes_those_of_reports_too(many: Pipeline) -> None:
    done = plan_compaction(many, "east", SystemClock()).apply()
    assert {name: (one.files_before, one.files_after) for name, one in done.items()} == {
        "verification_reports": (4, 1),
        "verified_files": (4, 1),
    }


def test_a_report_that_is_added_while_others_are_compacted_stays(
    many: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = append_table.open_table

    def add_meanwhile(folder: Location) -> DeltaTable:
        table = real(folder)
        monkeypatch.setattr(append_table, "open_table", real)
        store(many, AT_US + 99, east=replace(SOUND, rows=99))
        return table

    monkeypatch.setattr(append_table, "open_table", add_meanwhile)
    compact_report_table(REPORTS.folder(many, "east"))
    assert newest(many, ["east"])["east"].report["rows"] == 99
    assert REPORTS.latest(many, "east")["rows"].to_pylist() == [99]
    assert sorted(_rows(many)) == [0, 1, 2, 3, 99]


def _rows(pipeline: Pipeline) -> list[int]:
    with REPORTS.reading(pipeline, "east") as dataset:
        assert dataset is not None
        return list(dataset.to_table(columns=["rows"])["rows"].to_pylist())


def test_a_pass_cleans_the_logs_of_reports_and_what_they_say_stays(many: Pipeline) -> None:
    """Broken variant: entries stay for 30 days, of points 43,200, and each commit lists them."""
    for number in range(20):
        store(many, AT_US + 10 + number, east=SOUND)
    log = REPORTS.folder(many, "east") / "_delta_log"
    assert isinstance(log, Path)
    clock = ManualClock(SystemClock().now_us() + 86_400 * 1_000_000)
    expected = plan_compaction(many, "east", clock).expected["verification_reports"]
    done = plan_compaction(many, "east", clock).apply()["verification_reports"]
    assert done.log_files_removed >= expected.log_files_removed >= 20
    assert len(list(log.glob("*.json"))) <= 5
    assert newest(many, ["east"])["east"].at_us == AT_US + 29
    store(many, AT_US + 1_000_000, east=SOUND)
    assert newest(many, ["east"])["east"].at_us == AT_US + 1_000_000
    assert len(_rows(many)) == 25
