"""The on-call drill: rows are gone from the lake, a check says so and what to do, and clicks repair it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from playwright.sync_api import Page, expect

from tests.browser.live_platform import PIPELINE, LivePlatform
from tests.browser.pages import AssetPage, BackfillDialog, BackfillsPage

pytestmark = [
    pytest.mark.browser,
    pytest.mark.long,  # tests of the asset, of the page and of days hold each of its steps
    pytest.mark.xdist_group("platform"),
    pytest.mark.timeout(3_600),
]  # one test starts Spark three times

REMEDY = "photon recover "


def test_rows_that_are_gone_make_a_check_red_and_a_backfill_by_clicks_makes_it_green_again(
    page: Page, platform: LivePlatform
) -> None:
    platform.log_past_day()
    day = platform.past_day
    clicks = platform.rows_of_all(day)
    datacenter, gone = platform.remove_rows_of_past_day()
    assert platform.rows_of_all(day).total() == clicks.total() - gone

    report = AssetPage(page, "verification_report", PIPELINE)
    report.open().materialize()
    says = f"{datacenter}: {gone} records that should be joined and are in no table"
    report.open("Checks").check("nothing_missing").expect_result("Failed", says, REMEDY)
    health = AssetPage(page, "health", PIPELINE)
    health.open("Checks").check(f"{datacenter}__verified").expect_result("Failed", REMEDY)

    days = AssetPage(page, "daily_joins", PIPELINE).open("Partitions")
    days.open_dialog()
    dialog = BackfillDialog(page)
    dialog.choose(datacenter, day - timedelta(days=1), day)
    dialog.launch()
    BackfillsPage(page).open().expect_success()
    days.open("Partitions").choose_partition(datacenter, str(day))
    expect(days.metadata("missing")).to_have_text("0")
    assert platform.rows_of_all(day) == clicks
    expect(days.metadata("rows")).to_have_text(str(platform.rows_of_clicks(datacenter, day).total()))

    report.open().materialize()
    report.open("Checks").check("nothing_missing").expect_result("Passed", "Holds in east, west.")
    report.open("Checks").check("nothing_twice").expect_result("Passed", "Holds in east, west.")
    health.open("Checks").check(f"{datacenter}__verified").expect_result("Passed", "nothing is missing")
    platform.wait_until_each_click_has_its_row()
