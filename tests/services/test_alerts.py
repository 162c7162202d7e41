"""Alerts by themselves: promtool plays made-up series to each rule, and says whether it fires."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.services.prometheus import SETTINGS, rules
from tests.support.programs import needed

pytestmark = pytest.mark.services

STORIES = Path(__file__).with_name("alerts.yml")


def promtool(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([needed("promtool"), *words], capture_output=True, text=True, check=False)


def test_the_settings_and_alerts_are_what_prometheus_takes() -> None:
    checked = promtool("check", "config", SETTINGS / "prometheus.yml")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_each_alert_fires_where_it_must_and_is_quiet_beside_that() -> None:
    played = promtool("test", "rules", STORIES)
    assert played.returncode == 0, played.stdout + played.stderr


def test_each_alert_has_a_story_in_which_it_fires_and_a_moment_in_which_it_does_not() -> None:
    told = {True: set[str](), False: set[str]()}
    for story in yaml.safe_load(STORIES.read_text())["tests"]:
        for case in story["alert_rule_test"]:
            told[bool(case["exp_alerts"])].add(case["alertname"])
    every = {rule["alert"] for rule in rules()}
    assert told == {True: every, False: every}
