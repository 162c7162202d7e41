"""Reports of verification that are stored: what comes back, which is the newest, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from photon.output import LakeUnavailable
from photon.pipeline import Pipeline, load_pipeline
from photon.verification_report import DatacenterReport, Example, Finding, Unverified, VerificationReport
from photon.verification_table import (
    FORMAT_PROPERTY,
    MOST_UNVERIFIED_STORED,
    ReportsTooNew,
    append,
    folder_of,
    newest,
)

PIPELINE = """
name: clicks
datacenters: {east: {logs: logs/east}, west: {logs: logs/west}}
primary: {files: "q*.csv", format: csv, id: id, time: at}
foreign: {files: "c*.csv", format: csv, id: id, key: key, time: at}
"""
AT_US = 1_767_607_200_123_456
SOUND = DatacenterReport(classes={"joined": 7, "pending": 2}, rows=7)
BROKEN = DatacenterReport(
    classes={"joined": 6, "missing": 3},
    findings=[Finding("missing", 3, (Example("e1", "1:0", "why"),)), Finding("same_id_two_times", 5)],
    rows=6,
)


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    return load_pipeline(tmp_path / "pipeline.yaml")


def store(pipeline: Pipeline, at_us: int = AT_US, **reports: DatacenterReport) -> None:
    append(pipeline, VerificationReport(reports, rows=13), at_us, "a run", 12.5)


def test_a_report_comes_back_as_it_was_stored(pipeline: Pipeline) -> None:
    store(pipeline, east=SOUND)
    found = newest(pipeline, ["east"])["east"]
    assert (found.at_us, found.run, found.seconds, found.rows) == (AT_US, "a run", 12.5, 7)
    assert found.equation == SOUND.equation()
    assert found.report == SOUND.as_dict()
    assert found.ok
    assert found.adds_up


def test_cases_of_violations_are_counted_and_mere_findings_are_not(pipeline: Pipeline) -> None:
    store(pipeline, west=BROKEN)
    found = newest(pipeline, ["west"])["west"]
    assert not found.ok
    assert found.violations == 3
    assert found.report["violations"][0]["examples"][0]["event_id"] == "e1"


def test_each_datacenter_has_its_own_table(pipeline: Pipeline) -> None:
    store(pipeline, east=SOUND, west=BROKEN)
    assert {name: report.ok for name, report in newest(pipeline, ["east", "west"]).items()} == {
        "east": True,
        "west": False,
    }


def test_the_newest_is_that_of_the_latest_time_in_whatever_order_they_were_stored(
    pipeline: Pipeline,
) -> None:
    store(pipeline, AT_US, east=SOUND)
    store(pipeline, AT_US - 1, east=BROKEN)
    assert newest(pipeline, ["east"])["east"].ok


def test_a_datacenter_that_was_never_verified_is_left_out(pipeline: Pipeline) -> None:
    store(pipeline, east=SOUND)
    assert list(newest(pipeline, ["east", "west"])) == ["east"]


def test_a_stored_report_names_no_more_files_than_its_limit(pipeline: Pipeline) -> None:
    gone = [Unverified(f"q{n}.csv", "primary", 1, "gone") for n in range(MOST_UNVERIFIED_STORED + 1)]
    store(pipeline, east=DatacenterReport(unverified=gone))
    assert len(newest(pipeline, ["east"])["east"].report["unverified"]) == MOST_UNVERIFIED_STORED


def test_a_table_of_a_newer_format_is_refused_by_name(pipeline: Pipeline) -> None:
    store(pipeline, east=SOUND)
    folder = folder_of(pipeline, "east")
    DeltaTable(str(folder)).alter.set_table_properties({FORMAT_PROPERTY: "2"}, raise_if_not_exists=False)
    for act in (lambda: newest(pipeline, ["east"]), lambda: store(pipeline, east=SOUND)):
        with pytest.raises(ReportsTooNew, match=r"verification_reports has format 2.*knows 1"):
            act()


def test_a_lake_that_cannot_be_written_is_named(pipeline: Pipeline) -> None:
    lake = pipeline.datacenters["east"].lake
    lake.parent.mkdir(parents=True)
    lake.write_text("no folder")
    with pytest.raises(LakeUnavailable, match=r"cannot store a report in .*east"):
        store(pipeline, east=SOUND)
