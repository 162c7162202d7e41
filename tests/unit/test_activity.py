"""Who is at work is decided once: the words of `photon status`, metrics and the verdict `works` agree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestration.demo.traffic import Traffic
from photon.dispatcher.shift.growth import LIVE_BYTES
from photon.dispatcher.shift.lease import LeaseStatus
from photon.health.activity import Activity, Facts, activity_of, facts_of
from photon.health.memory import Memory
from photon.health.metrics.families import is_up
from photon.health.verdicts import judge
from photon.pipeline.file import load_pipeline
from photon.process.clock import MICROSECONDS
from tests.unit import test_headline, test_health
from tests.unit.test_headline import status
from tests.unit.test_health import SEEN, vitals

LIVE = Facts(
    decision=None,
    has_state=True,
    is_run=True,
    silent_seconds=2.0,
    is_stopped=False,
    is_fenced=False,
    waits_for="",
    has_work=True,
    only_half_lines=False,
    unread_bytes=0,
)
IDLE = {"is_run": False, "has_work": False}


@pytest.mark.parametrize(
    ("seen", "activity"),
    [
        ({}, "live"),
        ({"unread_bytes": LIVE_BYTES + 1}, "catching up"),
        ({"waits_for": "the registry", "unread_bytes": LIVE_BYTES + 1}, "waiting"),
        ({"silent_seconds": 31.0, "waits_for": "the registry"}, "silent"),
        ({"is_stopped": True}, "silent"),
        ({"is_fenced": True, "silent_seconds": 31.0}, "fenced"),
        ({"is_run": False}, "not running"),
        ({"is_run": False, "silent_seconds": 9_999.0}, "not running"),
        ({"is_run": False, "only_half_lines": True}, "not running"),  # a plan is open
        ({**IDLE, "only_half_lines": True}, "at half a line"),
        (IDLE, "at rest"),
        ({"is_run": False, "has_state": False}, "new"),
        ({"has_state": False}, "live"),  # its first join has just begun
        ({"decision": "on hold", "silent_seconds": 31.0}, "on hold"),
        ({"decision": "retired", "is_run": False}, "retired"),
    ],
)
def test_the_facts_say_who_is_at_work(seen: dict[str, Any], activity: Activity) -> None:
    assert activity_of(replace(LIVE, **seen)) == activity


@pytest.mark.parametrize(("seconds", "is_silent"), [(12, False), (29, False), (31, True), (500, True)])
def test_words_numbers_and_the_verdict_say_alike_whether_a_process_is_silent(
    tmp_path: Path, seconds: int, is_silent: bool
) -> None:
    pipeline = load_pipeline(Traffic(1).write_pipeline(tmp_path, more="recovery: {silent_after: 2m}\n"))
    held = LeaseStatus(SEEN, is_locked=True, beat_us=test_health.NOW_US)
    found = vitals(seconds, lease=held)
    works = judge("east", found, Memory.of_one_look(found, pipeline), pipeline)["works"]
    later_us = test_headline.NOW_US + seconds * MICROSECONDS
    assert (works.in_short == "is silent") == is_silent
    assert (activity_of(facts_of(status(), later_us)) == "silent") == is_silent
    assert is_up(status(), later_us) != is_silent


def test_a_process_that_is_fenced_and_hangs_is_an_error(tmp_path: Path) -> None:
    pipeline = load_pipeline(Traffic(1).write_pipeline(tmp_path))
    held = LeaseStatus(SEEN, is_locked=True, beat_us=test_health.NOW_US)
    found = vitals(100, lease=held, is_fenced=True)
    works = judge("east", found, Memory().after(found, pipeline), pipeline)["works"]
    assert (works.level, works.in_short) == ("error", "is silent")
