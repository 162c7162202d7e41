"""A newcomer looks around in the UI while two datacenters join, and finds the graph and shifts' reports."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.live_platform import DATACENTERS, PIPELINE, LivePlatform
from tests.browser.pages import AssetPage, GroupPage, seen

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("platform"), pytest.mark.timeout(1_800)]

# The share of columns of pixels between the first and the last point that have something blue: dots are few.
DRAWN_COLUMNS = """canvas => {
  const {data, width, height} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const isBlue = i => data[i + 3] > 100 && data[i + 2] > data[i] + 60 && data[i + 2] > data[i + 1] + 60;
  const drawn = [];
  for (let x = 0; x < width; x++)
    for (let y = 0; y < height; y++)
      if (isBlue(4 * (y * width + x))) { drawn.push(x); break; }
  return drawn.length > width / 4 ? drawn.length / (drawn.at(-1) - drawn[0] + 1) : 0;
}"""


def test_the_graph_goes_from_the_logs_to_joined_events_and_on_to_days_and_report(page: Page) -> None:
    graph = GroupPage(page, PIPELINE).open()
    logs, rows = graph.columns("primary_log", "foreign_log"), graph.columns("joined_events")
    behind = graph.columns("daily_joins", "release", "verification_report", "health")
    assert [len(each) for each in (logs, rows, behind)] == [1, 1, 1], "then no line crosses another"
    assert max(logs) < min(rows) < min(behind)


def test_side_tables_and_upkeep_are_groups_of_their_own(page: Page) -> None:
    side_tables = GroupPage(page, f"{PIPELINE}__side_tables").open()
    side_tables.expect_assets("dead_letters", "unjoined", "too_old", "conflicting")
    GroupPage(page, f"{PIPELINE}__upkeep").open().expect_assets("registry_state", "recovery", "compaction")
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


def test_the_page_of_joined_events_has_the_columns_of_both_logs(page: Page) -> None:
    AssetPage(page, "joined_events", PIPELINE).open()
    for column in ("_event_id", "click_id", "primary_text"):
        expect(seen(page, column, exact=True).first).to_be_visible()


def test_the_points_of_each_datacenter_are_connected_in_the_plots_of_shifts_reports(
    page: Page, platform: LivePlatform
) -> None:
    asset = AssetPage(page, "joined_events", PIPELINE)

    def are_connected() -> bool:
        asset.open().show_plots()
        labels = [f"{name}_joined" for name in DATACENTERS]
        return all(asset.plot(label).evaluate(DRAWN_COLUMNS) > 0.9 for label in labels)

    platform.wait(are_connected, "plots of several reports of both")
