"""Takes the pictures of Dagster's UI and of the live page that the documents show: `make screenshots`.

They are taken of what the tests look at, with the same clicks: the platform, and the drill after a kill and a
hold. Most of the time goes into a verification.
"""

from __future__ import annotations

import io
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

from tests.browser.drill import Drill, drilling
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
COLOURS = 192
MOST_BYTES = 200_000  # a picture's limit: the repository keeps them all
PAGE_NOW: ViewportSize = {"width": 1_440, "height": 1_135}
PAGE_EVENT: ViewportSize = {"width": 1_440, "height": 860}
UNDISTURBED_SECONDS, KILLED_SECONDS = 70, 25


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


def page_now(page: Page, drill: Drill) -> None:
    """Curves of some minutes in which a process was killed, and then a datacenter was on hold."""
    time.sleep(UNDISTURBED_SECONDS)
    drill.kill("east")
    time.sleep(KILLED_SECONDS)
    drill.start("east")
    time.sleep(UNDISTURBED_SECONDS)
    drill.hold("west")
    time.sleep(UNDISTURBED_SECONDS)
    drill.resume("west")
    time.sleep(UNDISTURBED_SECONDS)
    page.set_viewport_size(PAGE_NOW)
    page.goto("/#/now")
    expect(page.get_by_role("region", name="What happened")).to_contain_text("west resumed")
    expect(page.locator("#headline")).to_contain_text("All is well")


def page_event(page: Page, drill: Drill) -> None:
    """The story of one event."""
    page.set_viewport_size(PAGE_EVENT)
    page.goto(f"/#/event?id={drill.ids('east')[-1]}")
    expect(page.get_by_role("heading", name="Joined by datacenter east")).to_be_visible()


PICTURES_OF_PAGE: dict[str, Callable[[Page, Drill], None]] = {"page-now": page_now, "page-event": page_event}


def take(page: Page, platform: LivePlatform, folder: Path) -> None:
    """Write all pictures of Dagster's UI into a folder."""
    for name, show in PICTURES.items():
        show(page, platform)
        page.wait_for_load_state("networkidle")
        write(page, folder / f"{name}.png")


def take_of_page(browser: Browser, drill: Drill, folder: Path) -> None:
    """Write all pictures of the live page into a folder."""
    with new_page(browser, drill.url, PATIENCE_SECONDS) as page:
        for name, show in PICTURES_OF_PAGE.items():
            show(page, drill)
            write(page, folder / f"{name}.png")


def write(page: Page, picture: Path) -> None:
    """Write what the window shows."""
    with Image.open(io.BytesIO(page.screenshot(animations="disabled"))) as shot:
        shot.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE).save(picture, optimize=True)
    size = picture.stat().st_size
    assert size <= MOST_BYTES, f"{picture} has {size:,} bytes, expected at most {MOST_BYTES:,}"
    print(f"{picture}: {size:,} bytes")


def main(folder: Path) -> None:
    """Start a platform and a browser, and take all pictures."""
    expect.set_options(timeout=PATIENCE_SECONDS * 1_000)
    with (
        tempfile.TemporaryDirectory() as temporary,
        sync_playwright() as playwright,
        chromium(playwright, chromium_program()) as browser,
    ):
        with drilling(Path(temporary) / "drill") as drill:
            take_of_page(browser, drill, folder)
        with (
            live_platform(Path(temporary) / "live") as platform,
            new_page(browser, platform.url, PATIENCE_SECONDS) as page,
        ):
            take(page, platform, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
