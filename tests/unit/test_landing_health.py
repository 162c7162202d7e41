"""How far topics are landed, as status, the live page and metrics tell it, and when somebody is needed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from photon.dispatcher.shift.lease import DatacenterLock, Lease
from photon.health.headline import sentences
from photon.health.landed_source import AS_SAID, judge_landing
from photon.health.landing import MOST_PARTS, LandingSeen, look_at_landing
from photon.health.metrics.landing_families import landing_families
from photon.landing.marker import Landed, Loss, Marker, landing_lease, put_marker, put_waiting
from photon.page.now import told
from photon.pipeline.file import Pipeline, load_pipeline
from tests.unit.test_headline import NOW_US, status

SECOND = 1_000_000
LOSS = Loss("l1", 1, "retention", 5, 9, NOW_US)
PIPELINE = """\
name: ad_clicks
datacenters:
  east: {logs: logs, land: [{kafka: {servers: "k:9092", topic: clicks}, into: clicks}]}
primary: {files: "queries/*/*.jsonl", format: jsonl, id: query_id, time: at}
foreign: {files: "clicks/*/*.jsonl", format: jsonl, id: click_id, key: query_id, time: at}
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    return load_pipeline(tmp_path / "pipeline.yaml")


def landed(end: int | None = 100, at: int = 100, reached_s: int | None = 2) -> Landed:
    """A partition of which so many offsets are landed; at its end so many seconds ago."""
    reached_us = None if reached_s is None else NOW_US - reached_s * SECOND
    return Landed("a1", at, at, end_offset=end, reached_us=reached_us)


def seen(
    *partitions: Landed, age_s: int = 1, problem: str = "", losses: tuple[Loss, ...] = ()
) -> LandingSeen:
    said_us = NOW_US - age_s * SECOND
    marker = Marker("clicks", "boot", said_us, dict(enumerate(partitions)), tuple(losses), problem)
    return LandingSeen("clicks", "clicks", marker, looked_us=NOW_US)


def metrics(one: LandingSeen) -> dict[tuple[str, ...], float]:
    facts = replace(status().facts, landing=(one,))
    found = landing_families({"east": replace(status(), facts=facts)})
    return {
        (each.name.removeprefix("photon_landing_"), *list(each.labels.values())[1:]): each.value
        for metric in found
        for each in metric.samples
    }


def test_a_topic_at_its_end_is_not_behind() -> None:
    assert seen(landed()).sentence() == "lands topic clicks (1 partition): 0 offsets wait"
    assert seen(landed()).behind_us == 0


def test_a_topic_is_as_far_behind_as_its_last_partition_since_it_was_at_its_end() -> None:
    one = seen(landed(at=40, reached_s=90), landed(at=99, reached_s=5))
    assert one.sentence() == (
        "lands topic clicks (2 partitions): 61 offsets wait, 90 s behind; most in 0 (60), 1 (1)"
    )


def test_what_nobody_says_any_more_is_behind_though_nothing_waited() -> None:
    assert seen(landed(reached_s=601), age_s=600).behind_us == 601 * SECOND


def test_a_partition_that_never_was_at_its_end_is_behind_for_nobody_knows_how_long() -> None:
    one = seen(landed(at=40, reached_s=None))
    assert (one.lag, one.behind_us) == (60, None)
    assert one.sentence() == "lands topic clicks (1 partition): 60 offsets wait"


def test_an_end_that_is_not_known_is_told() -> None:
    assert seen(landed(), landed(end=None, reached_s=None)).sentence() == (
        "lands topic clicks (2 partitions): nobody knows how many messages wait; "
        "the end of 1 partition is not known"
    )


def test_a_topic_of_hundreds_of_partitions_has_one_line_that_names_the_worst() -> None:
    said = seen(*(landed(at=n % 100) for n in range(300))).sentence()
    assert "lands topic clicks (300 partitions)" in said
    assert "most in 0 (100), 100 (100), 200 (100)" in said
    assert len(said) < 200


def test_a_partition_that_stands_and_the_reason_why_nothing_is_landed_are_told() -> None:
    said = seen(landed(), problem="the broker does not answer", losses=(LOSS,)).sentence()
    assert "1 partition stands still until the loss is acknowledged; the broker does not answer" in said


def test_status_and_the_page_tell_the_same_of_a_topic() -> None:
    one = seen(landed(at=40, reached_s=90))
    of_east = replace(status(), facts=replace(status().facts, landing=(one,)))
    assert one.sentence() in sentences(of_east)
    assert told(of_east, "pipeline.yaml", lambda _: [])["landing"] == [one.sentence()]
    assert of_east.as_dict()["landing"][0]["behind_seconds"] == 90


def test_metrics_tell_lag_losses_and_silence() -> None:
    found = metrics(seen(landed(at=40, reached_s=90), landed(), age_s=7, losses=(LOSS,)))
    assert found == {
        ("lag_messages", "clicks", "0"): 60,
        ("lag_messages", "clicks", "1"): 0,
        ("behind_seconds", "clicks"): 90,
        ("open_losses", "clicks"): 1,
        ("silent_seconds", "clicks"): 7,
    }


def test_metrics_of_many_partitions_stay_few() -> None:
    found = metrics(seen(*(landed(at=99) for _ in range(500))))
    assert len(found) == MOST_PARTS + 1 + 3
    assert found["lag_messages", "clicks", "others"] == 500 - MOST_PARTS


def test_a_number_that_nobody_knows_is_no_sample() -> None:
    assert set(metrics(seen(landed(end=None, reached_s=None)))) == {
        ("open_losses", "clicks"),
        ("silent_seconds", "clicks"),
    }


def test_a_loss_is_an_error_whose_remedy_is_a_command(pipeline: Pipeline) -> None:
    verdict = judge_landing("east", seen(landed(), losses=(LOSS,)), pipeline)
    assert verdict is not None
    assert verdict.level == "error"
    assert f"photon acknowledge {pipeline.typed} east" in verdict.remedy
    assert "ad_clicks__acknowledgement" in verdict.remedy


def test_what_a_process_waits_for_is_told_in_place_of_that_nobody_lands(pipeline: Pipeline) -> None:
    logs = pipeline.datacenters["east"].logs
    assert isinstance(logs, Path)

    def said(after_s: int = 0) -> tuple[str, str]:
        now_us = NOW_US + after_s * SECOND
        verdict = judge_landing("east", look_at_landing(pipeline, "east", now_us)[0], pipeline)
        assert verdict is not None
        return verdict.text, verdict.remedy

    put_waiting(logs / "clicks", "the broker has no topic clicks: make it", NOW_US)
    assert said()[0].startswith("east waits for topic clicks: the broker has no topic clicks: make it.")
    assert said()[1] == AS_SAID
    put_marker(logs / "clicks", Marker("clicks", "boot", NOW_US - 3600 * SECOND))
    assert "clicks was not landed for 60 min: the broker has no topic clicks: make it. What" in said()[0]
    assert f"photon land {pipeline.typed} -d east" in said(3600)[1], "that process may have died since"


def test_what_starts_landing_is_its_command_or_the_sensor_that_had_it_last(pipeline: Pipeline) -> None:
    def remedy() -> str:
        verdict = judge_landing("east", look_at_landing(pipeline, "east", NOW_US)[0], pipeline)
        assert verdict is not None
        return verdict.remedy + verdict.text

    logs = pipeline.datacenters["east"].logs
    assert isinstance(logs, Path)
    put_marker(logs / "clicks", Marker("clicks", "boot", 0))
    assert f"photon land {pipeline.typed} -d east" in remedy()
    lock = DatacenterLock(landing_lease(pipeline, "east"), "east", Lease.of_this_process("run", 1, None))
    assert "Dagster's sensor of the landing of east has to be on" in remedy()
    lock.tell_end(ended_by="topic clicks is compacted")
    lock.release(2)
    assert "its last shift ended: topic clicks is compacted" in remedy()
