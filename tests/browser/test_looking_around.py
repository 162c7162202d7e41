"""A newcomer looks around in the UI while two datacenters join, and finds the graph and shifts' reports."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.live_platform import PIPELINE, LivePlatform
from tests.browser.pages import AssetPage, GroupPage, seen

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1_800)]

HAS_LINES = "c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(value => value > 0)"


def test_the_graph_goes_from_the_logs_to_joined_events_and_on_to_days_and_report(page: Page) -> None:
    graph = GroupPage(page, PIPELINE).open()
    graph.expect_assets("primary_log", "foreign_log")
    graph.expect_assets("joined_events", "dead_letters", "unjoined", "too_old")
    graph.expect_assets("daily_joins", "verification_report", "health")


def test_upkeep_of_the_registry_is_a_group_of_its_own(page: Page) -> None:
    GroupPage(page, f"{PIPELINE}__upkeep").open().expect_assets("registry_state")
    expect(seen(page, "daily_joins", exact=True)).to_have_count(0)


def test_a_shifts_report_shows_classes_that_add_up(page: Page, platform: LivePlatform) -> None:
    asset = AssetPage(page, "joined_events", PIPELINE).open("Partitions")
    asset.choose_partition("east")
    equation = asset.metadata("equation")
    expect(equation).to_contain_text("joined")
    foreign, *classes = (int(n.replace(",", "")) for n in re.findall(r"[\d,]+\d|\d", equation.inner_text()))
    assert foreign == sum(classes) > 0
    expect(asset.metadata("east_complete_up_to")).to_contain_text("UTC")
    assert asset.number("east_joined") <= platform.rows_of_clicks("east").total()


def test_the_reports_of_shifts_are_plotted(page: Page) -> None:
    asset = AssetPage(page, "joined_events", PIPELINE).open()
    asset.show_plots()
    expect(page.get_by_text("east_joined_per_second")).to_be_visible()
    expect(asset.plots().first).to_be_visible()
    assert asset.plots().first.evaluate(HAS_LINES)
