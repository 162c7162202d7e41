"""The on-call drill on the live page: what befalls real processes is seen there, in time and in words."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.drill import DATACENTERS, Drill, drilling
from tests.browser.pages import WINDOW

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("drill"), pytest.mark.timeout(600)]

# People are promised so many seconds. A busy machine may take longer; the test only prints that.
PATIENCE_SECONDS = 120.0


@pytest.fixture(scope="module")
def drill(mark: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drill]:
    with drilling(tmp_path_factory.mktemp("drill")) as found:
        yield found


@pytest.fixture
def page(browser: Browser, drill: Drill) -> Iterator[Page]:
    """The view Now, while both datacenters are live."""
    context = browser.new_context(base_url=drill.url, viewport=WINDOW, locale="en-US", timezone_id="UTC")
    context.set_default_timeout(PATIENCE_SECONDS * 1_000)
    page = context.new_page()
    page.goto("/#/now")
    for name in DATACENTERS:
        seen(activity(page, name, "live"))
    yield page
    context.close()


def seen(what: Locator) -> None:
    expect(what).to_be_visible(timeout=PATIENCE_SECONDS * 1_000)


def card(page: Page, name: str) -> Locator:
    return page.get_by_role("article", name=name)


def activity(page: Page, name: str, words: str) -> Locator:
    return card(page, name).locator(".chip").filter(has_text=words)


def happened(page: Page, words: str) -> Locator:
    return page.get_by_role("region", name="What happened").get_by_role("listitem").filter(has_text=words)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Tell how long it took until something was seen; only the patience of these tests fails them."""
    began = time.monotonic()
    yield
    took = time.monotonic() - began
    print(f"seen after {took:.1f} s; promised on a quiet machine: {seconds:.0f} s")


def test_a_datacenter_whose_process_is_killed_is_seen_within_15_seconds(page: Page, drill: Drill) -> None:
    drill.kill("east")
    with within(15):
        seen(activity(page, "east", "not running"))
    drill.start("east")
    seen(activity(page, "east", "live"))
    seen(happened(page, "east killed").first)


def test_a_registry_that_stands_still_is_seen_within_15_seconds(page: Page, drill: Drill) -> None:
    with drill.registry_stands_still(), within(15):
        seen(page.locator("#headline").filter(has_text="The registry needs somebody"))
    seen(activity(page, "west", "live"))
    seen(page.locator("#headline").filter(has_text="All is well"))


def test_a_hold_is_seen_within_5_seconds(page: Page, drill: Drill) -> None:
    drill.hold("west")
    with within(5):
        seen(activity(page, "west", "on hold"))
    drill.resume("west")
    seen(activity(page, "west", "live"))
    seen(happened(page, "west on hold").first)


def test_rows_that_are_gone_are_seen_at_the_next_verification_with_what_to_do(
    page: Page, drill: Drill
) -> None:
    drill.delete_rows("east", 3)
    drill.verify()
    verified = card(page, "east").get_by_role("listitem").filter(has_text="verified")
    with within(10):
        seen(verified.filter(has_text="3 records that should be joined and are in no table").first)
    expect(verified.first).to_contain_text("photon recover")


def test_a_spoilt_line_is_seen_within_a_minute_with_its_reason_and_its_text(page: Page, drill: Drill) -> None:
    page.goto("/#/records")
    drill.spoil("west", "<b>no JSON at all")
    with within(60):
        reason = page.locator(".reason").first
        seen(reason)
    reason.locator("summary").click()
    seen(reason.get_by_text("<b>no JSON at all").first)


def test_the_story_of_an_event_is_told_from_its_log_line_to_its_row(page: Page, drill: Drill) -> None:
    page.goto(f"/#/event?id={drill.ids('west')[0]}")
    seen(page.get_by_role("heading", name="Joined by datacenter west"))
    timeline = page.get_by_role("region", name="Timeline").get_by_role("listitem")
    for kind in ("logged", "claimed", "joined"):
        seen(timeline.filter(has_text=kind).first)
