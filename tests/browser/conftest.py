"""The platform, the browser and its page. At the end nobody is left of what these tests have started."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from multiprocessing import resource_tracker
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.live_platform import PATIENCE_SECONDS, LivePlatform, live_platform
from tests.browser.pages import chromium, new_page
from tests.e2e.process_marks import MARK, marked, soon
from tests.support.programs import needed


@pytest.fixture(scope="session")
def program() -> str:
    return needed("chromium")


@pytest.fixture(scope="session")
def mark() -> Iterator[str]:
    """Mark all processes that these tests start, the browser too, by a variable of their environment."""
    resource_tracker.ensure_running()  # the tracker belongs to this process, and ends with it
    mark = uuid.uuid4().hex
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MARK, mark)
        yield mark
    left = [] if soon(lambda: marked(mark) == []) else marked(mark)
    told = [" ".join(process.cmdline()) for process in left]
    for process in left:
        process.kill()
    assert not left, f"left behind: {told}"


@pytest.fixture(scope="session")
def platform(mark: str, program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LivePlatform]:
    """One platform for all tests: a start takes as long as a test."""
    with live_platform(tmp_path_factory.mktemp("platform")) as found:
        yield found


@pytest.fixture(scope="session")
def browser(mark: str, program: str) -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE_SECONDS * 1_000)
    with sync_playwright() as playwright, chromium(playwright, program) as found:
        yield found


@pytest.fixture
def page(
    browser: Browser, platform: LivePlatform, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Page]:
    """Yield a page of the UI while both datacenters join. A test that fails leaves its trace and picture."""
    platform.wait_until_well()
    failed_before = request.session.testsfailed
    with new_page(browser, platform.url, PATIENCE_SECONDS) as page:
        page.context.tracing.start(screenshots=True, snapshots=True)
        yield page
        if request.session.testsfailed > failed_before:
            page.screenshot(path=tmp_path / "page.png")
            page.context.tracing.stop(path=tmp_path / "trace.zip")
            print(f"the page is {tmp_path / 'page.png'}, and how it came to it {tmp_path / 'trace.zip'}")
