"""`photon status`: what it tells of datacenters that never ran, are damaged, on hold or broken."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from photon.dispatcher.shift import people
from photon.pipeline.file import load_pipeline
from photon.process.clock import SystemClock
from photon.registry.errors import RegistryUnavailable
from photon.registry.register import Members, Register
from photon.verification.report import DatacenterReport, Finding, VerificationReport
from photon.verification.stored_reports import append
from tests.support.commands import photon
from tests.support.pipelines import PIPELINE


def test_the_status_of_a_pipeline_that_never_ran_says_how_to_start_it(pipeline_file: Path) -> None:
    done = photon("status", pipeline_file, "--json")
    assert done.exit_code == 0
    status = json.loads(done.stdout)
    assert set(status) == {"east", "west", "all datacenters"}
    assert status["all datacenters"]["needs_somebody"] is True
    assert status["all datacenters"]["overall"].startswith("2 of 2 datacenters need somebody")
    assert any("photon join" in problem for problem in status["east"]["problems"])
    assert status["east"]["running_process"] is None


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "json"])
def test_a_damaged_state_is_told_with_its_remedy_and_the_other_datacenters_as_usual(
    pipeline_file: Path, options: list[str]
) -> None:
    damaged = pipeline_file.parent / "state" / "west" / "dispatcher.sqlite"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(random.Random(7).randbytes(40_000))
    done = photon("status", pipeline_file, *options)
    assert done.exit_code == 3
    if options:
        told = json.loads(done.stdout)
        assert told.keys() == {"east", "west", "all datacenters"}
        assert told["east"]["running_process"] is None
        west = told["west"]["error"]
    else:
        assert "east has never run: start it with photon join" in done.stdout
        (west,) = (line for line in done.stdout.splitlines() if line.startswith("west"))
    assert f"{damaged} is damaged" in west
    assert "move it away" in west


def test_the_status_tells_who_is_on_hold_and_goes_on_where_the_registry_does_not_answer(
    pipeline_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register = Register("searches", "", Members(1, ("a",)), on_hold=("east",), given_up=("west",))
    monkeypatch.setattr(people, "register_of", lambda _: register)
    said = photon("status", pipeline_file).stdout
    assert f"east is ON HOLD; resume it with photon resume {pipeline_file} east" in said
    assert "west is RETIRED" in said
    assert "NEEDS YOU" not in said
    monkeypatch.undo()
    nowhere = "registry: {deadline: 200ms, endpoints: [{url: 'http://127.0.0.1:9'}]}\n"
    pipeline_file.write_text(PIPELINE + nowhere)
    done = photon("status", pipeline_file)
    assert done.exit_code == 0
    assert "who is on hold or retired is NOT KNOWN" in done.stdout
    assert "east has never run" in done.stdout


def test_a_check_of_the_status_ends_with_1_if_somebody_is_needed_and_with_0_if_all_is_well(
    pipeline_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = photon("status", pipeline_file, "--check")
    assert (done.exit_code, done.stdout.split(":")[0]) == (1, "2 of 2 datacenters need somebody")
    assert photon("status", pipeline_file).exit_code == 0
    register = Register("searches", "", Members(1, ("a",)), on_hold=("east",), given_up=("west",))
    monkeypatch.setattr(people, "register_of", lambda _: register)
    done = photon("status", pipeline_file, "--check", "--json")
    assert (done.exit_code, json.loads(done.stdout)["east"]["needs_somebody"]) == (0, [])


def test_a_check_of_the_status_fails_where_the_registry_does_not_answer(
    pipeline_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(_: object) -> None:
        raise RegistryUnavailable("nobody answers")

    monkeypatch.setattr(people, "register_of", silent)
    done = photon("status", pipeline_file, "--check")
    assert (done.exit_code, done.stdout.split(":")[0]) == (1, "The registry needs somebody")
    assert "who is on hold or retired is NOT KNOWN: nobody answers" in done.stdout


def test_a_check_of_the_status_fails_while_the_newest_verification_says_that_rows_are_missing(
    pipeline_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register = Register("searches", "", Members(1, ("a",)), on_hold=("east", "west"))
    monkeypatch.setattr(people, "register_of", lambda _: register)
    loaded = load_pipeline(pipeline_file)

    def verified(at_us: int, *findings: Finding) -> None:
        report = VerificationReport({"east": DatacenterReport(findings=findings)}, rows=0)
        append(loaded, report, at_us, "test", 1.0)

    verified(1_000_000, Finding("missing", 3))
    done = photon("status", pipeline_file, "--check")
    assert done.exit_code == 1
    first, *others = done.stdout.splitlines()
    assert first.endswith("needs somebody: east breaks a promise, by its newest verification (3 missing)")
    (todo,) = (line for line in others if "NEEDS YOU: verified at 1970-01-01" in line)
    assert f"What to do: photon recover {pipeline_file}" in todo
    assert f"Then photon verify {pipeline_file} --record" in todo
    verified(SystemClock().now_us())
    done = photon("status", pipeline_file, "--check")
    assert (done.exit_code, done.stdout.split(":")[0]) == (0, "All is well")
