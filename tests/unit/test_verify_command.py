"""`photon verify` without Spark: what it prints and how it ends, for a report that is given."""

import json
import re
from dataclasses import replace

import pytest

from photon.pipeline.file import load_pipeline
from photon.verification.report import (
    DatacenterReport,
    Example,
    Finding,
    Unverified,
    VerificationReport,
    VerifiedEarlier,
)
from photon.verification.stored_reports import newest
from tests.simulation.world import World
from tests.support.commands import photon

SOUND = VerificationReport(
    {"east": DatacenterReport({"joined": 1_200, "skipped": 3}, rows=1_200)}, rows=1_200
)
BROKEN = VerificationReport(
    {
        "east": DatacenterReport(
            {"joined": 9, "missing": 2},
            findings=(Finding("missing", 2, (Example("c1", "1:0", "nobody has registered it"),)),),
            unverified=(Unverified("clicks/a.jsonl", "foreign", 77, "the file is not there"),),
            verified_earlier=VerifiedEarlier(12, 3_456, "clicks/old.jsonl"),
            rows=9,
        ),
        "west": DatacenterReport({"joined_elsewhere": 11}),
    },
    rows=9,
)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run the command, whose program returns `report`."""
    world = World(tmp_path, ("east", "west"))

    def run(report, *options):
        monkeypatch.setattr("photon.jobs.verification.verify", lambda pipeline, names, say, **options: report)
        return photon("verify", world.pipeline.file, *options)

    return run


def test_what_was_told_before_is_told_as_that_and_by_who_has_to_act(run):
    found = Finding("missing", 3, (Example("c1", "1:0", "why"),), new=1, acting={"west": 3})
    own = replace(found, new=0, examples=(Example("c1", "2:0", "why"),))
    reports = {
        "east": DatacenterReport({"missing": 3}, findings=(found,)),
        "west": DatacenterReport({"missing": 3}, findings=(own,)),
    }
    printed = run(VerificationReport(reports, rows=0)).stdout
    assert "east: VIOLATION missing: 3 (1 new) records" in printed
    assert "    west has to act: see there\nwest: VIOLATION missing: 3 (told before) records" in printed
    assert printed.count("what to do") == 1
    # A report of one datacenter alone has all its texts in full.
    alone = run(VerificationReport({"east": reports["east"]}, rows=0)).stdout
    assert "    to act: west (3)\n    c1 at 1:0: why\n" in alone


def test_a_state_that_cannot_be_read_ends_with_status_3(run):
    unread = DatacenterReport(notes=("cannot open the state",), state_is_unreadable=True)
    result = run(VerificationReport({**SOUND.datacenters, "west": unread}, rows=1_200))
    assert result.exit_code == 3
    assert "NOTHING IS VERIFIED of west" in result.stdout
    assert "no promise is broken" not in result.stdout


def test_a_sound_join_ends_with_status_0(run):
    result = run(SOUND)
    assert result.exit_code == 0
    assert "no promise is broken" in result.stdout


def test_a_violation_ends_with_status_1_and_says_what_to_do(run):
    result = run(BROKEN)
    assert result.exit_code == 1
    assert "east: VIOLATION missing: 2 records" in result.stdout
    assert "c1 at 1:0: nobody has registered it" in result.stdout
    assert "and 1 more" in result.stdout
    assert re.search(r"what to do: photon recover \S+pipeline\S*\.yaml: ", result.stdout)
    assert "PIPELINE" not in result.stdout


def test_log_files_that_could_not_be_verified_are_named(run):
    text = run(BROKEN).stdout
    assert "NOT VERIFIED 77 bytes of the foreign log clicks/a.jsonl: the file is not there" in text


def test_log_files_that_went_after_they_were_verified_are_counted_apart(run):
    text = run(BROKEN).stdout
    assert (
        "east: 12 foreign logs (3,456 bytes) can't be read again, and had been verified before, such as"
        " clicks/old.jsonl" in text
    )
    assert text.count("can't be read again") == 1
    assert json.loads(run(BROKEN, "--json").stdout)["east"]["verified_earlier"]["files"] == 12


def test_the_equation_is_printed_side_by_side(run):
    lines = run(BROKEN).stdout.splitlines()
    assert lines[0].split() == ["east", "west"]
    assert ["foreign", "11", "11"] in [line.split() for line in lines]
    assert ["+", "missing", "2", "0"] in [line.split() for line in lines]


def test_json_is_one_object_by_datacenter_with_rows_and_ok(run):
    result = run(BROKEN, "--json")
    values = json.loads(result.stdout)
    assert (values["rows"], values["ok"]) == (9, False)
    assert values["east"]["foreign"] == 11
    assert values["east"]["violations"][0]["kind"] == "missing"
    assert result.exit_code == 1


def test_an_unknown_datacenter_is_wrong_usage(run):
    result = run(SOUND, "--datacenter", "north")
    assert result.exit_code == 2
    assert "expected one of: east, west" in result.stderr


def test_a_report_is_stored_only_if_that_is_asked_for(run, tmp_path):
    pipeline = load_pipeline(tmp_path / "pipeline.yaml")
    run(SOUND)
    assert newest(pipeline, ["east"]) == {}
    run(SOUND, "--record")
    stored = newest(pipeline, ["east"])["east"]
    assert stored.run == "photon verify"
    assert 0 <= stored.seconds < 3_600


def test_a_retired_datacenter_is_told_in_one_line(run):
    printed = run(VerificationReport({"east": DatacenterReport()}, rows=0, retired=("west",))).stdout
    assert "west is retired, and never joins again" in printed
    nothing = run(VerificationReport({}, rows=0, retired=("east", "west"))).stdout
    assert "promise" not in nothing
    assert "rows" not in nothing
