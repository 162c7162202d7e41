"""The watcher: who is dead is told, whoever should run it, and told once."""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from dagster import (
    AssetCheckEvaluation,
    AssetCheckKey,
    AssetCheckSeverity,
    AssetMaterialization,
    AssetSelection,
    DagsterInstance,
    Definitions,
    MetadataValue,
    build_sensor_context,
    define_asset_job,
)
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.definitions.sensor_definition import SensorExecutionData
from dagster._core.loader import LoadingContextForTest
from dagster._core.remote_origin import InProcessCodeLocationOrigin, RemoteRepositoryOrigin
from dagster._core.scheduler.instigation import InstigatorState, InstigatorStatus, SensorInstigatorData
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster_shared.record import replace

from photon.assets.health import evaluation, health_checks, health_key
from photon.cli.main import main
from photon.dispatcher.shift.run import prepare, run_shift
from photon.health.at_work import LOST_SECONDS
from photon.health.facts import SILENT_SECONDS
from photon.health.judge import ENDED_BY_A_HOLD, PROMISES
from photon.health.memory import FRESH_SECONDS, ToldVerdict
from photon.health.verdict import Verdict
from photon.logs.files import LogFile, TrackedFile
from photon.orchestration.watcher import watcher_sensor
from photon.state.database import STATE_FILE
from photon.state.dispatcher_state import DispatcherState
from tests.orchestration.location import Location

# Nobody has verified anything yet, and that nobody runs it is sure only after a while.
JUDGED = PROMISES.keys() - {"verified", "works"}

ERROR, WARN = AssetCheckSeverity.ERROR, AssetCheckSeverity.WARN


def tick(location: Location, cursor: str | None = None) -> SensorExecutionData:
    """A tick, whose evaluations are stored as Dagster's daemon does it."""
    context = build_sensor_context(location.instance, cursor, definitions=location.defs)
    done = watcher_sensor(location.served, location.clock).evaluate_tick(context)
    for event in done.asset_events:
        location.instance.report_runless_asset_event(event)
    return done


def told(tick: SensorExecutionData) -> dict[str, AssetCheckEvaluation]:
    """Return a tick's evaluations by the names of their checks."""
    evaluations = [event for event in tick.asset_events if isinstance(event, AssetCheckEvaluation)]
    assert len(evaluations) == len(tick.asset_events)
    return {one.check_name: one for one in evaluations}


def test_what_is_told_of_a_dead_datacenter_still_counts_when_another_one_has_reported(
    location: Location,
) -> None:
    first = tick(location)
    location.clock.advance(60)
    check = told(tick(location, first.cursor))["east__works"]
    location.instance.report_runless_asset_event(
        AssetMaterialization(location.served.asset_key("joined_events"), partition="west")
    )
    instance, key = location.instance, check.asset_check_key
    record = instance.event_log_storage.get_latest_asset_check_execution_by_key([key])[key]
    counts = record.targets_latest_materialization(LoadingContextForTest(instance))
    assert asyncio.run(counts), "the UI would say: not evaluated"


def test_the_first_look_evaluates_each_check_of_each_datacenter(location: Location) -> None:
    names = {f"{name}__{promise}" for name in ("east", "west") for promise in JUDGED}
    assert told(tick(location)).keys() == names


def test_each_result_has_its_section_of_the_runbook_with_commands_as_they_are_typed(
    location: Location,
) -> None:
    first = tick(location)
    location.clock.advance(60)
    second = tick(location, first.cursor)
    found = {
        name: str(one.metadata["runbook"].value) for name, one in {**told(first), **told(second)}.items()
    }
    assert f"photon acknowledge {location.file} west --dry-run" in found["west__nothing_lost"]
    assert "clicks__west__sensor" in found["west__works"]
    assert all(text.startswith("- **") for text in found.values())
    assert not [name for name, text in found.items() if "PIPELINE" in text or "](" in text]
    red = told(second)["east__works"]
    assert "look whether its sensor is on" in str(red.metadata["what_to_do"].value)
    assert str(by_hand(location, "east__logs").metadata["runbook"].value) == found["east__logs"]


def test_a_team_that_reads_the_runbook_elsewhere_gets_links_to_it(tmp_path: Path) -> None:
    location = Location(tmp_path, more="links: {runbook: 'https://wiki/runbook#top'}\n")
    found = evaluation(location.served, "east", "lag", Verdict("ok", "east keeps up"))
    assert found.metadata["runbook"] == MetadataValue.url("https://wiki/runbook#lag")


def test_each_result_has_the_numbers_that_it_goes_by_and_their_thresholds(location: Location) -> None:
    found = {name: one.metadata for name, one in told(tick(location)).items()}
    assert found["east__lag"]["behind_seconds"].value == 0.0
    assert found["east__lag"]["thresholds"].value == "behind_seconds: a warning from 60, an error from 600"
    assert found["west__nothing_lost"]["thresholds"].value == (
        "lost_bytes: an error from 1; lost_records: an error from 1; may_be_lost_bytes: a warning from 1"
    )
    plotted = {
        name for name, one in found.items() if any(isinstance(m.value, int | float) for m in one.values())
    }
    assert plotted == set(found)


def test_what_is_well_is_told_again_each_hour_with_the_numbers_of_then(location: Location) -> None:
    first = tick(location)
    location.clock.advance(3_500)
    second = tick(location, first.cursor)
    assert "east__clock" not in told(second)
    location.clock.advance(100)
    assert "east__clock" in told(tick(location, second.cursor))


def test_a_datacenter_that_nobody_runs_is_red_within_a_minute_and_green_once_it_is_run(
    location: Location,
) -> None:
    ticks = [tick(location)]
    for _ in range(5):
        location.clock.advance(10)
        ticks.append(tick(location, ticks[-1].cursor))
    (red,) = [told(one)["east__works"] for one in ticks if "east__works" in told(one)]
    assert (red.passed, red.severity) == (False, ERROR)
    assert "nobody has run it for" in (red.description or "")
    prepare(location.pipeline)
    for name in ("east", "west"):
        run_shift(location.pipeline, name, "until_idle")
    again = told(tick(location, ticks[-1].cursor))
    assert [again[f"{name}__works"].passed for name in ("east", "west")] == [True, True]


def test_a_process_that_hangs_is_told_and_so_is_its_next_heartbeat(location: Location) -> None:
    with location.holder("a run of another Dagster"):
        first = tick(location)
        location.clock.advance(SILENT_SECONDS / 2)
        silent = tick(location, first.cursor)
        location.clock.advance(10 * SILENT_SECONDS)  # the lock's file has the machine's own time
        doubtful = tick(location, silent.cursor)
        location.clock.advance(10)
        hangs = tick(location, doubtful.cursor)
        now_us = location.clock.now_us()
        os.utime(location.state() / "lock", ns=(now_us * 1_000, now_us * 1_000))
        works = tick(location, hangs.cursor)
    assert not (told(silent) | told(doubtful)).keys() & {"east__works"}
    assert "no sign of life" in (told(hangs)["east__works"].description or "")
    assert told(works)["east__works"].passed


def test_what_goes_on_is_told_again_only_after_a_while(location: Location) -> None:
    looks = [tick(location)]
    for seconds in (60, 10, 280, 10):
        location.clock.advance(seconds)
        looks.append(tick(location, looks[-1].cursor))
    assert [bool(told(look)) for look in looks[1:]] == [True, False, False, True]


def by_hand(location: Location, check: str) -> AssetCheckEvaluation:
    """Evaluate a check of east now, as a person does."""
    keys = [AssetCheckKey(health_key(location.served), check)]
    now = define_asset_job("now", AssetSelection.checks(*keys))
    checks = health_checks(location.served, "east")
    job = Definitions(asset_checks=[checks], jobs=[now]).resolve_job_def("now")
    (found,) = job.execute_in_process(instance=location.instance).get_asset_check_evaluations()
    return found


def leave(instance: DagsterInstance, sensor: str, cursor: str | None) -> None:
    """Store a sensor's cursor as Dagster's daemon does after its tick."""
    place = InProcessCodeLocationOrigin(LoadableTargetOrigin(python_file="defs.py"), "here")
    origin = RemoteRepositoryOrigin(place, "__repository__").get_instigator_origin(sensor)
    data = SensorInstigatorData(cursor=cursor)
    state = InstigatorState(origin, InstigatorType.SENSOR, InstigatorStatus.DECLARED_IN_CODE, data)
    instance.add_instigator_state(state)


def test_a_check_that_people_have_evaluated_says_what_the_watcher_says(location: Location) -> None:
    prepare(location.pipeline)
    run_shift(location.pipeline, "east", "until_idle")
    alone = by_hand(location, "east__dead_letters")
    assert "by this look alone: its watcher has not looked at it yet (sensor clicks__watcher)" in str(
        alone.description
    )
    leave(location.instance, "clicks__watcher", tick(location).cursor)
    clicks = next((location.folder / "logs" / "east" / "clicks").iterdir())
    with clicks.open("ab") as file:
        file.write(b"no event\n" * 120)
    run_shift(location.pipeline, "east", "until_idle")
    found = by_hand(location, "east__dead_letters")
    assert (found.passed, found.severity) == (False, ERROR)
    assert "120 of all 140 foreign records are dead letters" in str(found.description)
    assert "by this look alone" not in str(found.description)


def test_a_check_that_somebody_has_evaluated_otherwise_says_again_what_the_watcher_sees(
    location: Location,
) -> None:
    first = tick(location)
    location.instance.report_runless_asset_event(replace(told(first)["east__clock"], passed=False))
    second = tick(location, first.cursor)
    assert {name: one.passed for name, one in told(second).items()} == {"east__clock": True}
    assert not told(tick(location, second.cursor))


def test_a_datacenter_that_cannot_be_looked_at_is_red_and_the_other_is_judged(location: Location) -> None:
    location.state().parent.mkdir(parents=True)
    location.state().touch()
    first = tick(location)
    assert "east can't be looked at: NotADirectoryError" in (first.skip_message or "")
    assert told(first).keys() == {f"west__{promise}" for promise in JUDGED}
    location.clock.advance(30)
    second = tick(location, first.cursor)
    works = told(second)["east__works"]
    assert (works.passed, works.severity) == (False, ERROR)
    location.state().unlink()
    location.clock.advance(10)
    assert "east__lag" in told(tick(location, second.cursor))


def test_a_look_that_fails_once_is_no_news(location: Location) -> None:
    first = tick(location)
    location.state().parent.mkdir(parents=True, exist_ok=True)
    location.state().touch()
    location.clock.advance(10)
    second = tick(location, first.cursor)
    assert not told(second)
    location.clock.advance(40)
    works = told(tick(location, second.cursor))["east__works"]
    assert (works.passed, works.severity) == (False, ERROR)


def launch(location: Location, name: str, **config: object) -> bool:
    """Launch the job that a remedy names."""
    op = location.served.job_name(name)
    job = location.defs.resolve_job_def(op)
    return job.execute_in_process({"ops": {op: {"config": config}}}, location.instance).success


@pytest.mark.server
@pytest.mark.slow
def test_a_datacenter_that_is_dead_for_good_is_red_until_the_job_that_its_check_names_retires_it(
    location: Location,
) -> None:
    prepare(location.pipeline)
    for name in ("east", "west"):
        run_shift(location.pipeline, name, "until_idle")
    logs = location.folder / "logs" / "west"
    log = next(logs.glob("clicks/**/*.jsonl"))
    shutil.copy(log, log.with_name("more.jsonl"))
    looks = [tick(location)]
    for _ in range(round(LOST_SECONDS / FRESH_SECONDS)):
        location.clock.advance(FRESH_SECONDS)
        looks.append(tick(location, looks[-1].cursor))
    dead = told(looks[-1])["west__works"]
    assert (dead.passed, dead.severity) == (False, ERROR)
    assert "photon retire" in str(dead.description)
    assert launch(location, "retirement", datacenter="west", dry_run=True)
    looks.append(tick(location, looks[-1].cursor))
    assert "west__works" not in told(looks[-1]), "the first run was a dry one"
    assert launch(location, "retirement", datacenter="west")
    looks.append(tick(location, looks[-1].cursor))
    after = told(looks[-1])["west__works"]
    assert (after.passed, after.description) == (True, "west is retired, as people have decided.")
    shutil.rmtree(logs)  # west's logs went with its machine
    location.clock.advance(2 * 86_400)
    later = told(tick(location, looks[-1].cursor))
    assert [name for name, one in later.items() if name.startswith("west__") and not one.passed] == []


def lose_a_log(location: Location) -> None:
    """Have a log of east go away before any of it is read."""
    log = LogFile(1, "foreign", "clicks/gone.log", 7, False, b"", 0, 20, b"h")
    with closing(DispatcherState(location.state())) as state:
        state.begin_epoch("clicks", "east", "1", location.clock.now_us(), follows=False)
        state.put_files([TrackedFile(log, 0, b"", False, 2048, 5, None, "gone")], lost_bytes=2048)


def test_a_log_that_went_away_unread_is_red_until_a_person_acknowledges_it(location: Location) -> None:
    lose_a_log(location)
    looks = [tick(location)]
    for _ in range(3):
        location.clock.advance(3 * 3_600)
        looks.append(tick(location, looks[-1].cursor))
    found = [told(look)["east__nothing_lost"] for look in looks]
    assert [(one.passed, one.severity) for one in found] == [(False, ERROR)] * 4
    assert "photon acknowledge" in str(found[-1].description)
    assert launch(location, "acknowledgement", datacenter="east", dry_run=True)
    location.clock.advance(301)
    assert not told(tick(location, looks[-1].cursor))["east__nothing_lost"].passed, "it was a dry run"
    assert launch(location, "acknowledgement", datacenter="east")
    assert told(tick(location, looks[-1].cursor))["east__nothing_lost"].passed


def test_a_state_that_cannot_be_read_is_told_once_and_turns_no_red_check_green(location: Location) -> None:
    lose_a_log(location)
    first = tick(location)
    database = location.state() / STATE_FILE
    kept = database.read_bytes()
    database.write_bytes(b"this is no database, " * 100)
    doubtful = tick(location, first.cursor)
    assert not [name for name in told(doubtful) if name.startswith("east__")]
    location.clock.advance(30)
    spoilt = tick(location, doubtful.cursor)
    assert not told(first)["east__nothing_lost"].passed
    assert [name for name in told(spoilt) if name.startswith("east__")] == ["east__works"]
    assert "is damaged" in str(told(spoilt)["east__works"].description)
    keys = [AssetCheckKey(health_key(location.served), f"east__{name}") for name in ("works", "nothing_lost")]
    now = define_asset_job("now", AssetSelection.checks(*keys))
    checks = health_checks(location.served, "east")
    done = (
        Definitions(asset_checks=[checks], jobs=[now])
        .resolve_job_def("now")
        .execute_in_process(instance=location.instance)
    )
    assert not done.get_asset_check_evaluations(), "one look by hand turns neither green nor red"
    database.write_bytes(kept)
    back = told(tick(location, spoilt.cursor))
    assert not back["east__nothing_lost"].passed, "it is red still, and the run has left it without a result"


def test_what_was_wrong_and_can_not_be_judged_any_more_is_red_no_longer(location: Location) -> None:
    """Before a first verification the trouble alone has a verdict."""
    prepare(location.pipeline)
    run_shift(location.pipeline, "east", "until_idle")
    reports = Path(str(location.pipeline.datacenters["east"].lake)) / "verification_reports"
    (reports / "_delta_log").mkdir(parents=True)
    (reports / "_delta_log" / f"{0:020}.json").write_text("no commit")
    last, said = None, []
    for _ in range(3):
        last = tick(location, last and last.cursor)
        said.append(told(last).get("east__verified"))
        location.clock.advance(30)
        if len(said) == 2:
            shutil.rmtree(reports)
    assert [one and one.passed for one in said] == [None, False, True]
    assert "east__verified" not in told(tick(location, last and last.cursor)), "once"


def test_a_hold_is_told_at_the_next_look_and_so_is_its_end(location: Location) -> None:
    prepare(location.pipeline)
    run_shift(location.pipeline, "east", "until_idle")
    last = tick(location)
    checks = {f"east__{promise}" for promise in ENDED_BY_A_HOLD}
    for command, is_held in (("hold", True), ("resume", False)):
        done = CliRunner().invoke(main, [command, str(location.file), "east"])
        assert done.exit_code == 0, done.output
        location.clock.advance(60)
        last = tick(location, last.cursor)
        said = {check: told(last)[check] for check in checks}
        assert all(one.passed for one in said.values())
        assert {"east is on hold" in str(one.description) for one in said.values()} == {is_held}
    assert not told(tick(location, last.cursor)), "what goes on is told once"


def test_words_that_flap_are_stored_once_a_minute_at_most_and_numbers_are_no_words() -> None:
    again_us, second_us = 300 * 10**6, 10**6
    told_, stored = ToldVerdict.after(None, Verdict("warn", "east is 1 min behind"), 0), 0
    for second in range(1, 241):
        says = f"east waits for {second} s: {'the lake' if second % 2 else 'the registry'}"
        verdict = Verdict("warn", says)
        if told_.is_news(verdict, second * second_us, again_us):
            told_, stored = ToldVerdict.after(told_, verdict, second * second_us), stored + 1
    assert stored in range(4, 6)
    last = ToldVerdict.after(None, Verdict("warn", "east is 59 s behind; 1.5 MiB are unread"), 0)
    assert not last.is_news(Verdict("warn", "east is 2 min behind; 20 bytes are unread"), second_us, again_us)
