"""While something is down: what the UI shows, what a person does. In the end each click has one row."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page

from tests.browser.live_platform import PIPELINE, LivePlatform
from tests.browser.pages import AssetPage, RunPage, SensorPage

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("platform"), pytest.mark.timeout(1_800)]


def test_a_shift_that_is_terminated_ends_as_canceled_and_its_sensor_starts_another(
    page: Page, platform: LivePlatform
) -> None:
    run = RunPage(page, platform.run_of("west")).open()
    run.terminate()
    run.expect_state("Canceled")
    platform.wait(lambda: platform.run_of("west") != run.run, "another run of west")
    RunPage(page, platform.run_of("west")).open().expect_state("Started")
    platform.wait_until_each_click_has_its_row()


def test_a_datacenter_that_is_dead_is_red_until_its_sensor_is_on_again(
    page: Page, platform: LivePlatform
) -> None:
    sensor = SensorPage(page, f"{PIPELINE}__west__sensor").open()
    sensor.switch(on=False)
    killed = platform.run_of("west")
    platform.kill("west")
    health = AssetPage(page, "health", PIPELINE)
    west = health.open("Checks").check("west__works")
    west.expect_result("Failed", "look whether its sensor is on")
    west.expect_red()
    health.check("east__works").expect_result("Passed", "east works")
    platform.wait_until_each_click_has_its_row()  # east joins what was west's
    assert platform.run_of("west") == killed

    sensor.open().switch(on=True)
    health.open("Checks").check("west__works").expect_result("Passed", "west works")
    RunPage(page, killed).open().expect_state("Failure")
    platform.wait_until_each_click_has_its_row()


def test_a_registry_that_stands_still_is_told_when_that_begins_and_when_it_is_over(
    page: Page, platform: LivePlatform
) -> None:
    run = RunPage(page, platform.run_of("east")).open()
    run.filter_events("registry")
    with platform.registry_stands_still():
        run.expect_event(re.compile(r"waits: .*registry"))  # whichever call has met it first
        health = AssetPage(page, "health", PIPELINE)
        waiting = health.open("Checks").check("east__waiting")
        waiting.expect_result("Failed", "joins nothing", "registry", "[Show Markdown]")
        health.check("east__works").expect_result("Passed")
    run.open().filter_events("registry")
    run.expect_event(re.compile(r"goes on: since .* it has waited: .*registry"))
    health.open("Checks").check("east__waiting").expect_result("Passed")
    platform.wait_until_each_click_has_its_row()
