"""Takes the pictures of Dagster's UI that the documents show: `make screenshots`.

They are taken of the platform of the tests, with the same clicks. Most of the time goes into a verification.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, ViewportSize, expect, sync_playwright

from tests.browser.live_platform import PATIENCE_SECONDS, PIPELINE, LivePlatform, live_platform
from tests.browser.pages import (
    WINDOW,
    AssetPage,
    BackfillDialog,
    GroupPage,
    chromium,
    chromium_program,
    new_page,
)

REPORTS_MILLISECONDS = 120_000  # each datacenter reports every ten seconds
GROUP: ViewportSize = {"width": 1_440, "height": 1_500}  # the graph of the group fits into it
COLOURS = 128
MOST_BYTES = 200_000  # a picture's limit: the repository keeps them all


def graph(page: Page, platform: LivePlatform) -> None:
    """The group of the logs, the joined events and what is made of them."""
    GroupPage(page, PIPELINE).open()
    page.set_viewport_size(GROUP)
    page.reload()
    expect(page.locator("svg").get_by_text("100% filled")).to_be_visible()


def joined_events(page: Page, platform: LivePlatform) -> None:
    """Plots of what shifts report, once there are some reports."""
    page.set_viewport_size(WINDOW)
    page.wait_for_timeout(REPORTS_MILLISECONDS)
    asset = AssetPage(page, "joined_events", PIPELINE).open()
    asset.show_plots()
    expect(asset.plot("east_backlog_bytes")).to_be_visible()
    page.get_by_text("east_backlog_bytes").evaluate("label => label.scrollIntoView()")


def backfill(page: Page, platform: LivePlatform) -> None:
    """The dialog that asks for days and datacenters."""
    AssetPage(page, "daily_joins", PIPELINE).open("Partitions").open_dialog()
    BackfillDialog(page).choose("east", platform.past_day - timedelta(days=1), platform.past_day)


def red_check(page: Page, platform: LivePlatform) -> None:
    """A check that fails, with what to do."""
    platform.log_past_day()
    platform.remove_rows_of_past_day()
    report = AssetPage(page, "verification_report", PIPELINE).open()
    report.materialize()
    report.open("Checks").check("nothing_missing").expect_result("Failed", "What to do")


PICTURES: dict[str, Callable[[Page, LivePlatform], None]] = {
    "dagster-graph": graph,
    "dagster-joined-events": joined_events,
    "dagster-backfill": backfill,
    "dagster-red-check": red_check,
}


def take(page: Page, platform: LivePlatform, folder: Path) -> None:
    """Write all pictures into a folder."""
    for name, show in PICTURES.items():
        show(page, platform)
        page.wait_for_load_state("networkidle")
        picture = folder / f"{name}.png"
        with Image.open(io.BytesIO(page.screenshot(animations="disabled"))) as shot:
            shot.quantize(COLOURS).save(picture, optimize=True)
        size = picture.stat().st_size
        assert size <= MOST_BYTES, f"{picture} has {size:,} bytes, expected at most {MOST_BYTES:,}"
        print(f"{picture}: {size:,} bytes")


def main(folder: Path) -> None:
    """Start a platform and a browser, and take all pictures."""
    expect.set_options(timeout=PATIENCE_SECONDS * 1_000)
    with (
        tempfile.TemporaryDirectory() as temporary,
        live_platform(Path(temporary) / "live") as platform,
        sync_playwright() as playwright,
        chromium(playwright, chromium_program()) as browser,
        new_page(browser, platform.url, PATIENCE_SECONDS) as page,
    ):
        take(page, platform, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
