"""One function decides who is at work: `photon status`, metrics and the verdict `works` agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from examples.demo.traffic import Traffic
from photon.dispatcher.shift.growth import LIVE_BYTES
from photon.health.facts import Activity
from photon.health.memory import Memory
from photon.pipeline.file import load_pipeline
from tests.support.verdicts import found_in
from tests.unit.test_headline import ON_HOLD, RETIRED, status

IDLE = {"is_run": False}
PLANNED = {"state": {"has_open_plan": True}}
HALF_A_LINE = {"half_lines": ("a.log",)}


@pytest.mark.parametrize(
    ("seen", "activity"),
    [
        ({}, "live"),
        ({"unread": (LIVE_BYTES, 1)}, "catching up"),
        ({"waits_for": "the registry", "unread": (LIVE_BYTES, 1)}, "waiting"),
        ({"failed_tries": 2, "unread": (LIVE_BYTES, 1)}, "catching up"),
        ({"failed_tries": 3, "unread": (LIVE_BYTES, 1)}, "failing"),
        ({"failed_tries": 3, "waits_for": "the registry"}, "waiting"),
        ({"failed_tries": 3, "silent_seconds": 31.0}, "silent"),
        ({**IDLE, "failed_tries": 3}, "at rest"),
        ({"silent_seconds": 31.0, "waits_for": "the registry"}, "silent"),
        ({"facts": {"is_stopped": True}}, "silent"),
        ({"facts": {"is_fenced": True}, "silent_seconds": 31.0}, "fenced"),
        ({**IDLE, **PLANNED}, "not running"),
        ({**IDLE, "unread": (0, 1), "silent_seconds": 9_999.0}, "not running"),
        ({**IDLE, **PLANNED, "unread": (0, 1), "facts": HALF_A_LINE}, "not running"),
        ({**IDLE, "unread": (0, 1), "facts": HALF_A_LINE}, "at half a line"),
        (IDLE, "at rest"),
        ({**IDLE, "state": {"epoch": None}}, "new"),
        ({"state": {"epoch": None}}, "live"),  # the datacenter's first join has just begun
        ({"facts": ON_HOLD, "silent_seconds": 31.0}, "on hold"),
        ({**IDLE, "facts": RETIRED}, "retired"),
    ],
)
def test_the_facts_say_who_is_at_work(seen: dict[str, Any], activity: Activity) -> None:
    assert status(**seen).facts.activity == activity


@pytest.mark.parametrize(("seconds", "is_silent"), [(12, False), (29, False), (31, True), (500, True)])
def test_words_numbers_and_the_verdict_say_alike_whether_a_process_is_silent(
    tmp_path: Path, seconds: int, is_silent: bool
) -> None:
    pipeline = load_pipeline(Traffic(1).write_pipeline(tmp_path, more="recovery: {silent_after: 2m}\n"))
    found = status(silent_seconds=seconds).facts
    works = found_in(found, Memory.of_one_look(found), pipeline)["works"]
    assert (works.in_short == "is silent") == is_silent
    assert (found.activity == "silent") == is_silent
    assert found.is_joining != is_silent


def test_a_process_that_is_fenced_and_hangs_is_an_error(tmp_path: Path) -> None:
    pipeline = load_pipeline(Traffic(1).write_pipeline(tmp_path))
    found = status(silent_seconds=100, facts={"is_fenced": True}).facts
    works = found_in(found, Memory().after(found), pipeline)["works"]
    assert (works.level, works.in_short) == ("error", "is silent")
