"""The metrics of a pipeline: what they say of a datacenter, and that whoever asks gets them."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path
from typing import NoReturn

import pytest
from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from photon.dispatcher.shift.measured import ShiftMeasures
from photon.dispatcher.shift.people import Decisions
from photon.health.facts import PastVerification
from photon.health.metrics.families import budget_families, families
from photon.health.metrics.landing_families import landing_families
from photon.health.metrics.serving import PipelineCollector, page_of, serving
from photon.health.metrics.shift_families import shift_families
from photon.health.stages import Orders, PlannedWork, Stages
from photon.health.status import DatacenterStatus, LogStatus
from photon.health.unmatched import UnmatchedSeen
from photon.health.verdict import Verdict
from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS, SystemClock
from photon.process.errors import FormatTooNew, WrongUsage
from photon.process.measures import Measures
from photon.registry.errors import RegistryMismatch
from photon.state.completeness.estimate import Completeness
from photon.state.losses import Losses
from photon.state.outcomes import Counts
from photon.state.unmatched import UnmatchedProgress
from photon.storage.delta import LakeUnavailable
from photon.verification.availability.budget import Budget
from tests.simulation.world import World
from tests.support.commands import photon
from tests.unit.test_headline import NOW_US, ON_HOLD, status

SAID = Completeness("e", 1, 0, 5 * MICROSECONDS, 5 * MICROSECONDS, 5 * MICROSECONDS, 0.999, 0, 100, 3)
UNMATCHED = UnmatchedSeen(UnmatchedProgress("east", 1, 1, "p", 7 * MICROSECONDS, None, 1, 0))
JOINED = Counts(classes={"joined": 9})  # type: ignore[arg-type]
MAYBE = Losses({1: 60}, may_be_lost={1: 60, 4: 0})
Samples = dict[tuple[str, ...], float]  # keys: the metric's name and the values of its labels


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def samples(metrics: list[Metric]) -> Samples:
    return {(one.name, *one.labels.values()): one.value for metric in metrics for one in metric.samples}


def of(one: DatacenterStatus | Exception) -> Samples:
    return samples(families({"east": one}))


@pytest.mark.parametrize(
    ("name", "value", "changes"),
    [
        (("photon_up", "east"), 1, {}),
        (("photon_up", "east"), 0, {"is_run": False}),
        (("photon_up", "east"), 0, {"silent_seconds": 31}),
        (("photon_up", "east"), 0, {"facts": {"is_fenced": True}}),
        (("photon_unavailable", "east"), 1, {"waits_for": "lake: no space"}),
        (("photon_decided", "east", "on hold"), 1, {"facts": ON_HOLD}),
        (("photon_decided", "east", "retired"), 0, {"facts": ON_HOLD}),
        (("photon_problems", "east"), 2, {"broken": [Verdict("warn", "a"), Verdict("error", "b")]}),
        (("photon_check_level", "east", "works"), 0, {}),
        (("photon_check_level", "east", "broken"), 1, {"broken": [Verdict("ok", "a"), Verdict("warn", "b")]}),
        (("photon_completeness_records", "east", "late"), 3, {"completeness": SAID}),
        (("photon_completeness_records", "east", "in_time"), 97, {"completeness": SAID}),
        (("photon_complete_up_to_timestamp_seconds", "east"), 5, {"completeness": SAID}),
        (("photon_unmatched_up_to_timestamp_seconds", "east"), 7, {"facts": {"unmatched": UNMATCHED}}),
        (
            ("photon_foreign_records_total", "east", "joined"),
            9,
            {"state": {"counts": JOINED}},
        ),
        (("photon_open_loss_bytes", "east"), 75, {"facts": {"lost": Losses({1: 60}, 15)}}),
        (("photon_open_loss_records", "east"), 2, {"facts": {"lost": Losses(records=2)}}),
        (("photon_may_be_lost_files", "east"), 2, {"facts": {"lost": MAYBE}}),
        (("photon_may_be_lost_bytes", "east"), 60, {"facts": {"lost": MAYBE}}),
        (("photon_open_loss_bytes", "east"), 0, {"state": {"counts": Counts(lost_bytes=75)}}),
        (("photon_waiting_records", "east", "primary"), 5, {"waiting": {"primary": 5}}),
        (("photon_log_backlog_bytes", "east", "foreign"), 12, {"foreign": LogStatus(1, 0, 100, 12)}),
        (("photon_batches_total", "east"), 4, {"state": {"completed": 4}}),
        (("photon_batch_attempt", "east"), 3, {"stages": Stages(PlannedWork(plans=1, attempt=3))}),
        (("photon_work_orders", "east", "waiting"), 2, {"stages": Stages(orders=Orders(waiting=2))}),
    ],
)
def test_a_metric_says_what_the_status_says(
    name: tuple[str, ...], value: float, changes: dict[str, object]
) -> None:
    assert of(status(**changes))[name] == value


def test_a_datacenter_that_can_not_be_read_has_no_other_numbers() -> None:
    assert of(OSError("gone")) == {("photon_readable", "east"): 0}


def test_a_number_that_nobody_knows_is_no_sample() -> None:
    names = {name for name, *_ in of(status())}
    assert not names & {"photon_verified_timestamp_seconds", "photon_complete_up_to_timestamp_seconds"}


def test_the_page_is_openmetrics_with_every_datacenter(pipeline: Pipeline) -> None:
    found = samples(list(text_string_to_metric_families(page_of(pipeline, SystemClock()))))
    assert found["photon_readable", "east"] == found["photon_readable", "west"] == 1
    assert found["photon_up", "west"] == 0


def test_whoever_asks_the_server_gets_the_numbers_of_then(pipeline: Pipeline) -> None:
    logs = pipeline.datacenters["east"].logs
    assert isinstance(logs, Path)
    with serving(pipeline, SystemClock(), "127.0.0.1", 0) as port:
        url = f"http://127.0.0.1:{port}/metrics"
        before = urllib.request.urlopen(url, timeout=30).read().decode()
        for log in (pipeline.primary, pipeline.foreign):
            file = logs / log.files.replace("**/", "").replace("*", "a")
            file.parent.mkdir(parents=True)
            file.touch()
        after = urllib.request.urlopen(url, timeout=30).read().decode()
    assert 'photon_check_level{check="logs",datacenter="east"} 1.0' in before
    assert 'photon_check_level{check="logs",datacenter="east"} 0.0' in after, "its logs are there"


def test_what_a_verification_found_is_told_by_its_kinds() -> None:
    noted = [{"kind": "ambiguous", "count": 2}]
    broken = PastVerification(
        5 * MICROSECONDS, {"violations": [{"kind": "missing", "count": 3}], "findings": noted}
    )
    found = of(status(facts={"verified": broken}))
    assert found["photon_verified_timestamp_seconds", "east"] == 5
    assert found["photon_verified_cases", "east", "missing"] == 3
    assert found["photon_verified_cases", "east", "duplicate_rows"] == 0
    assert found["photon_verified_notes", "east", "ambiguous"] == 2
    assert found["photon_verified_notes", "east", "conflicting"] == 0


def test_an_error_budget_is_told_by_its_minutes() -> None:
    budget = Budget(until_us=0, judged=900, bad=7, allowed=403, events=10, late_events=1, burning=((1, 0.5),))
    found = samples(list(budget_families({"east": budget})))
    assert found["photon_error_budget_minutes", "east", "bad"] == 7
    assert found["photon_error_budget_minutes", "east", "allowed"] == 403
    assert found["photon_error_budget_burning", "east"] == 1


def test_what_is_judged_goes_by_earlier_looks(world: World) -> None:
    world.clicks(("c", "q"))
    collector = PipelineCollector(world.pipeline, world.clock, ["east"])
    levels = []
    for seconds in (0, 29, 1):
        world.clock.advance(seconds)
        levels.append(samples(list(collector.collect()))["photon_check_level", "east", "works"])
    assert levels == [1, 1, 2], "nobody is at work, and since when is remembered"


def test_a_lake_that_can_not_be_read_leaves_the_checks(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_away(*_: object) -> NoReturn:
        raise LakeUnavailable("cannot read")

    monkeypatch.setattr("photon.health.metrics.serving.stored_minutes", is_away)
    monkeypatch.setattr("photon.health.facts.newest_verification", is_away)
    found = samples(list(text_string_to_metric_families(page_of(pipeline, SystemClock()))))
    assert found["photon_check_level", "verified", "east"] == 1
    assert not [name for name, *_ in found if name.startswith("photon_error_budget")]


def test_a_report_of_a_newer_photon_is_a_warning(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_newer(*_: object) -> NoReturn:
        raise FormatTooNew("verification_reports", 9, 1)

    monkeypatch.setattr("photon.health.facts.newest_verification", is_newer)
    found = samples(list(text_string_to_metric_families(page_of(pipeline, SystemClock()))))
    assert found["photon_readable", "east"] == 1
    assert found["photon_check_level", "verified", "east"] == 1


def test_a_port_that_is_taken_is_named(pipeline: Pipeline) -> None:
    with serving(pipeline, SystemClock(), "127.0.0.1", 0) as port:
        told = f"127.0.0.1:{port} can't be listened at"
        with pytest.raises(WrongUsage, match=told), serving(pipeline, SystemClock(), "127.0.0.1", port):
            pass


def test_a_file_that_lacks_a_datacenter_is_a_number_and_not_an_error(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuses(_: Pipeline) -> Decisions:
        raise RegistryMismatch("the file lacks datacenter north")

    monkeypatch.setattr("photon.health.metrics.serving.decisions_in_time", refuses)
    found = samples(list(text_string_to_metric_families(page_of(pipeline, SystemClock()))))
    assert found == {("photon_readable", "east"): 0, ("photon_readable", "west"): 0}
    assert "lacks datacenter north" in caplog.text


def test_one_datacenter_alone_may_be_asked_for(pipeline: Pipeline) -> None:
    done = photon("metrics", pipeline.file, "-d", "west")
    assert 'photon_readable{datacenter="west"}' in done.stdout
    assert "east" not in done.stdout


def test_the_metrics_that_the_operations_guide_names_are_there_with_their_labels() -> None:
    page = (Path(__file__).parents[2] / "docs/operations/watching.md").read_text()
    (section,) = re.findall(r"^## Metrics\n(.*?)^## ", page, flags=re.DOTALL | re.MULTILINE)
    named = set(re.findall(r"`(photon_\w+(?:\{[\w,]+\})?)`", section))
    measured = ShiftMeasures("e", NOW_US, Measures())
    every = [
        *families({"east": status()}),
        *budget_families({}),
        *landing_families({}),
        *shift_families({"east": measured}),
    ]
    assert len(named) > 10
    assert sorted(named - {_as_named(metric) for metric in every}) == []
    assert [metric.name for metric in every if not metric.documentation.strip()] == []


def _as_named(metric: Metric) -> str:
    labels = ",".join(label for label in metric._labelnames if label != "datacenter")  # type: ignore[attr-defined]
    total = "_total" if metric.type == "counter" else ""
    return f"{metric.name}{total}{{{labels}}}" if labels else f"{metric.name}{total}"


def test_the_command_prints_them_once(pipeline: Pipeline) -> None:
    done = photon("metrics", pipeline.file)
    assert done.exit_code == 0, done.output
    assert done.stdout.endswith("# EOF\n")
