"""What people are told to do is what helps: nothing starts twice, and nobody ends what lives."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from photon.dispatcher.shift.lease import DatacenterLock, Lease, LeaseStatus, lease_status_of
from photon.dispatcher.shift.people import how_to_start
from photon.health.at_work import LOST_SECONDS
from photon.health.headline import headline, sentences
from photon.health.judge import all_verdicts
from photon.health.lakes import Tables, look_at_tables, put_back
from photon.health.memory import Memory
from photon.health.status import DatacenterStatus, LogStatus, status_of
from photon.pipeline.file import Pipeline, load_pipeline
from photon.process.clock import MICROSECONDS, SystemClock
from photon.releases.finding import none_yet
from photon.state.starting import what_starts, what_starts_any
from photon.storage.tables import OutputTable
from photon.tracing.advice import what_to_do
from photon.tracing.report import DatacenterTrace, LogRecord, RegistryAnswer, Trace
from photon.tracing.table_rows import missing_table
from tests.support.commands import photon
from tests.support.verdicts import found_in
from tests.unit.test_health import SEEN, WORK, facts

SENSOR = "Dagster's sensor of east, which has to be on"
DAY_US = 86_400 * MICROSECONDS


@pytest.fixture
def pipeline(pipeline_file: Path) -> Pipeline:
    return load_pipeline(pipeline_file)


def was_run_by_dagster(pipeline: Pipeline, datacenter: str = "east") -> None:
    state = pipeline.datacenters[datacenter].state
    DatacenterLock(state, datacenter, replace(SEEN, run="run-1")).release(now_us=1)


def test_whoever_ran_it_last_starts_it(pipeline: Pipeline) -> None:
    command = f"photon join {pipeline.typed}"
    assert what_starts(pipeline, "east") == f"{command} -d east"
    assert what_starts_any(pipeline) == command
    was_run_by_dagster(pipeline)
    assert what_starts(pipeline, "east") == SENSOR
    assert what_starts(pipeline, "west") == f"{command} -d west"
    assert what_starts_any(pipeline) == "Dagster's sensors, which have to be on"
    (pipeline.datacenters["east"].state / "lock").write_text("torn {")
    assert what_starts(pipeline, "east") == f"{command} -d east"


def test_after_a_resume_nobody_is_told_to_type_what_dagster_does(pipeline: Pipeline) -> None:
    assert photon("registry", "init", pipeline.file).exit_code == 0
    photon("hold", pipeline.file, "east")
    assert (
        f"start it with photon join {pipeline.typed} -d east"
        in photon("resume", pipeline.file, "east").output
    )
    was_run_by_dagster(pipeline)
    photon("hold", pipeline.file, "east")
    said = photon("resume", pipeline.file, "east").output
    assert f"datacenter east may run again: start it with {SENSOR}" in said
    assert "photon join" not in said


def test_no_advice_tells_to_start_by_a_command_what_dagster_starts(pipeline: Pipeline) -> None:
    was_run_by_dagster(pipeline)
    said = [
        how_to_start(pipeline, "east", ()),
        put_back(pipeline, "east", Tables(last_batch=2, completed=3)),
        none_yet(pipeline),
        missing_table(pipeline, "east", "joined_events", has_joined=False).remedy,
        missing_table(pipeline, "east", "unjoined", has_joined=True).remedy,
    ]
    for look in (
        facts(60, lease=LeaseStatus(replace(SEEN, run="run-1", idle_seen="other"))),
        facts(60, lease=LeaseStatus(replace(SEEN, run="run-1", refused="the registry is older"))),
        facts(60, lease=LeaseStatus(replace(SEEN, run="run-1"), True), is_fenced=True),
        facts(60, lease=LeaseStatus(replace(SEEN, run="run-1"), True), is_stopped=True),
    ):
        memory = Memory.of_one_look(look)
        found = all_verdicts(look, memory, pipeline)
        said += [each.text for of_one in found.values() for each in of_one]
        said.append(
            headline(DatacenterStatus(look, found, LogStatus(0, 0, 0, 0), LogStatus(0, 0, 0, 0)), "p")
        )
    assert [one for one in said if "photon join" in one] == []
    assert sum("sensor" in one for one in said) >= 8


@pytest.mark.parametrize("holder", ["silent", "live", ""])
def test_a_trace_sends_people_to_the_sensor(holder: str) -> None:
    record = LogRecord("c.log", 1, 0, 1, "k", was_read=bool(holder))
    found = Trace("c1", True, datacenters={"east": DatacenterTrace(records=[record], started_by=SENSOR)})
    if holder:
        found.registry = RegistryAnswer("held", datacenter="east", holder_state=holder)  # type: ignore[arg-type]
    assert SENSOR in what_to_do(found)
    assert "photon join" not in what_to_do(found)


@pytest.mark.parametrize(
    "look",
    [
        facts(60, **WORK),  # slow to start, or restarted just now
        facts(60, lease=LeaseStatus(SEEN, is_locked=True, beat_us=facts().now_us)),
        facts(
            60, lease=LeaseStatus(SEEN, True, facts().now_us), is_stopped=True, what_ends_it="kill -CONT 7"
        ),
    ],
    ids=["not running", "silent elsewhere", "stopped"],
)
def test_nobody_is_to_retire_what_is_slow_or_lives(pipeline: Pipeline, look: object) -> None:
    memory = Memory.of_one_look(look)  # type: ignore[arg-type]
    said = found_in(look, memory, pipeline)["works"]  # type: ignore[arg-type]
    assert said.level != "ok"
    assert "photon retire" not in said.text


def test_what_nobody_has_run_for_long_may_be_lost_for_good(pipeline: Pipeline) -> None:
    look = facts(LOST_SECONDS + 1, **WORK)
    memory = Memory(still_since_us=facts(0).now_us)
    assert "if it is lost for good: photon retire" in found_in(look, memory, pipeline)["works"].remedy


def test_logs_that_can_not_be_read_are_no_reason_to_retire_a_datacenter(pipeline: Pipeline) -> None:
    look = facts()
    look = replace(look, growth=replace(look.growth, problems=("loop: a link leads to itself",)))
    said = found_in(look, Memory(), pipeline)["logs"].text
    assert "loop: a link leads to itself" in said
    assert "photon retire" not in said


def test_a_process_whose_clock_is_a_day_behind_is_not_silent(pipeline: Pipeline) -> None:
    """The kernel knows when its heartbeat came, whatever time it writes."""
    state, clock = pipeline.datacenters["east"].state, SystemClock()
    lock = DatacenterLock(state, "east", Lease.of_this_process("", clock.now_us(), None))
    lock.beat(clock.now_us() - DAY_US)
    assert lease_status_of(state).is_live(clock.now_us(), lease_seconds=10)
    found = status_of(pipeline, "east", clock)
    assert not found.facts.is_silent
    assert "kill -9" not in json.dumps(found.problems)
    lock.release(clock.now_us())


def test_what_is_well_claims_no_more_than_its_threshold(pipeline: Pipeline) -> None:
    """While its registry is away, 19 MiB of its logs are unread: it has not read nearly all of them."""
    waits = replace(SEEN, waits_for="the registry", waits_since_us=facts().now_us)
    look = facts(20, 19 * 2**20, LeaseStatus(waits, True, facts(20).now_us))
    found = found_in(look, Memory(), pipeline)
    assert found["backlog"].says == "less than 1.0 GiB of east's logs is unread"
    assert found["lag"].says == "east is less than 60 s behind its logs"
    assert found["works"].says == "east: its process lives, and waits"
    assert found["clock"].says == "east: no event is 5 s ahead of this machine's clock"


def test_a_verification_that_never_ran_is_told_and_counts_as_no_promise_kept(pipeline: Pipeline) -> None:
    look = facts(state={"begun_us": facts().now_us})
    found = all_verdicts(look, Memory(), pipeline)
    told = DatacenterStatus(look, found, LogStatus(0, 0, 0, 0), LogStatus(0, 0, 0, 0))
    assert "verified" not in found
    assert told.unjudged.keys() == {"verified"}
    assert [one for one in sentences(told) if "was never verified" in one]


def test_a_registry_of_another_pipeline_of_the_same_name_is_thought_of(pipeline: Pipeline) -> None:
    """Its lakes are as they were, or yet to be made: nobody is to retire another pipeline's datacenter."""
    place = pipeline.datacenters["east"]
    place.lake.mkdir(parents=True)  # type: ignore[union-attr]
    (told,) = look_at_tables(pipeline, "east", False, "another's", None).problems
    assert "if `registry` leads to that of another pipeline of the same name, mend it" in told
    assert "retire" not in told.replace(str(place.lake), "")
    OutputTable(place.lake, "joined_events").create(pipeline.name, "east")
    (told,) = look_at_tables(pipeline, "east", True, "another's", None).problems
    assert "is not the one that the registry knows of datacenter east (id another's)" in told
    assert "if `registry` leads to that of another pipeline of the same name, mend it" in told
