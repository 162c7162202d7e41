"""Use Dagster's UI as a person does, who sees and clicks things by the words on them.

A page waits until the thing to click is there, for as long as the browser's own time-out says.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date

from playwright.sync_api import Browser, Locator, Page, Playwright, Response, ViewportSize, expect

# No sandbox: in CI the browser runs as root. The others keep it from doing anything that nobody asked for.
CHROMIUM_OPTIONS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
WINDOW: ViewportSize = {"width": 1440, "height": 900}


class ChromiumMissing(Exception):
    """This machine has no Chromium; the message says what to do."""


def chromium_program() -> str:
    """The path of the system's Chromium: Playwright's own is not used. ChromiumMissing."""
    found = shutil.which("chromium")
    if found is None:
        raise ChromiumMissing("there is no chromium on this machine: apt-get install chromium")
    return found


@contextmanager
def chromium(playwright: Playwright, program: str) -> Iterator[Browser]:
    """The system's Chromium, without a window."""
    browser = playwright.chromium.launch(executable_path=program, args=list(CHROMIUM_OPTIONS))
    try:
        yield browser
    finally:
        browser.close()


@contextmanager
def new_page(browser: Browser, url: str, patience_seconds: float) -> Iterator[Page]:
    """A page of the UI at `url`, for somebody in UTC who reads English."""
    context = browser.new_context(base_url=url, viewport=WINDOW, locale="en-US", timezone_id="UTC")
    context.set_default_timeout(patience_seconds * 1_000)
    try:
        yield context.new_page()
    finally:
        context.close()


def seen(page: Page, text: str | re.Pattern[str], exact: bool = False) -> Locator:
    """Find this text where it can be seen. Dagster has a hidden copy beside each name, to measure it."""
    return page.get_by_text(text, exact=exact).filter(visible=True)


@dataclass(frozen=True)
class AssetPage:
    """An asset of the pipeline: its tabs, and what is on them."""

    page: Page
    name: str  # joined_events
    pipeline: str

    def open(self, tab: str = "Overview") -> AssetPage:
        self.page.goto(f"/assets/{self.pipeline}/{self.name}")
        self.page.get_by_role("tab", name=tab).click()
        return self

    def materialize(self) -> None:
        """Click the black button of an asset without partitions; confirm if one before it has nothing yet."""
        self.page.get_by_role("button", name="Materialize").first.click()
        confirm = self.page.get_by_role("button", name="Confirm")
        launched = self.page.get_by_text("Launched run")
        expect(confirm.or_(launched).first).to_be_visible()
        if confirm.is_visible():
            confirm.click()
            expect(launched.first).to_be_visible()

    def open_dialog(self) -> None:
        """Click the same button of an asset with partitions: a dialog asks which."""
        self.page.get_by_role("button", name="Materialize…").first.click()

    def choose_partition(self, *names: str) -> None:
        """Choose one partition of each column on the tab Partitions."""
        for name in names:
            seen(self.page, name, exact=True).last.click()

    def metadata(self, key: str) -> Locator:
        """Find the value of a metadata entry."""
        return self.page.get_by_role("row", name=re.compile(rf"^{key} ")).get_by_role("cell").nth(1)

    def number(self, key: str) -> int:
        """Read a number that the metadata show."""
        return int(self.metadata(key).inner_text().replace(",", ""))

    def show_plots(self) -> None:
        """Open the plots of all events over time, on the tab Overview."""
        self.page.get_by_role("button", name="Plots").click()
        self.page.get_by_role("button", name="Events").click()

    def plot(self, label: str) -> Locator:
        """Find the plot of a number, and wait until it is drawn."""
        heading = self.page.get_by_text(label, exact=True)
        canvas = self.page.locator("div").filter(has=heading).filter(has=self.page.locator("canvas"))
        return canvas.last.locator("canvas")

    def check(self, name: str) -> CheckPage:
        """Choose a check from the list on the tab Checks."""
        seen(self.page, name, exact=True).first.click()
        return CheckPage(self.page, name)


# Dagster draws only the boxes that are in sight, and does not shrink a graph of this size.
WHOLE_GRAPH: ViewportSize = {"width": 1_440, "height": 1_800}


@dataclass(frozen=True)
class GroupPage:
    """The graph of a group of assets."""

    page: Page
    group: str

    def open(self) -> GroupPage:
        self.page.set_viewport_size(WHOLE_GRAPH)
        self.page.goto(f"/locations/photon/asset-groups/{self.group}/lineage")
        return self

    def expect_assets(self, *names: str) -> None:
        """Expect boxes with these names."""
        for name in names:
            expect(self._name(name)).to_be_visible()

    def columns(self, *names: str) -> set[int]:
        """Where these boxes begin, from the left: those of one column begin alike."""
        self.expect_assets(*names)
        boxes = [self._name(name).bounding_box() for name in names]
        return {round(box["x"]) for box in boxes if box is not None}

    def _name(self, name: str) -> Locator:
        return self.page.locator("svg").get_by_text(name, exact=True).first


@dataclass(frozen=True)
class CheckPage:
    """A check that was chosen on an asset's tab Checks."""

    page: Page
    name: str

    def expect_result(self, result: str, *texts: str | re.Pattern[str]) -> None:
        """Expect the check's latest result, and texts in it."""
        expect(seen(self.page, result, exact=True).last).to_be_visible()
        for text in texts:
            expect(seen(self.page, text).last).to_be_visible()

    def expect_red(self) -> None:
        """Expect that the check has failed as an error. A warning is yellow, with another sign."""
        tag = self.page.locator(".BaseTag", has_text="Failed")
        expect(tag.get_by_role("img", name="cancel").first).to_be_visible()

    def number_after(self, words: str) -> float:
        """Read the number that follows these words in the check's text."""
        says = seen(self.page, words).last.inner_text()
        found = re.search(rf"{words} ([\d.]+)", says)
        assert found is not None, says
        return float(found[1])


@dataclass(frozen=True)
class BackfillDialog:
    """The dialog that the button *Materialize...* opens for an asset with days and datacenters."""

    page: Page

    @property
    def _dialog(self) -> Locator:
        return self.page.get_by_role("dialog").first

    def choose(self, datacenter: str, first: date, last: date) -> None:
        """Choose days of one datacenter."""
        self._dialog.get_by_text("Select a partition or create one").first.click()
        self.page.get_by_role("menuitem", name=datacenter).click()
        self.page.keyboard.press("Escape")
        days = self._dialog.get_by_placeholder("ex: ")
        days.fill(f"[{first}...{last}]")
        days.press("Enter")

    def launch(self) -> None:
        self._dialog.get_by_role("button", name="Launch backfill").click()


@dataclass(frozen=True)
class BackfillsPage:
    """The tab Backfills of the runs, which looks for news by itself."""

    page: Page

    def open(self) -> BackfillsPage:
        self.page.goto("/runs")
        self.page.get_by_role("tab", name="Backfills").click()
        return self

    def expect_success(self) -> None:
        """Expect that the only backfill has succeeded."""
        expect(seen(self.page, re.compile("^(Succeeded|Success|Completed)$")).first).to_be_visible()


@dataclass(frozen=True)
class RunPage:
    """One run: its state, and its events."""

    page: Page
    run: str

    def open(self) -> RunPage:
        self.page.goto(f"/runs/{self.run}")
        return self

    def terminate(self) -> None:
        """Click the button, and confirm in the dialog that asks once more."""
        self.page.get_by_role("button", name="Terminate").click()
        self.page.get_by_role("dialog").get_by_role("button", name="Terminate 1 run").click()

    def expect_state(self, state: str) -> None:
        expect(seen(self.page, state, exact=True).first).to_be_visible()

    def filter_events(self, text: str) -> None:
        """Show only events that say this: a shift's newest are its reports."""
        self.page.get_by_placeholder("Filter…").fill(text)

    def expect_event(self, text: str | re.Pattern[str]) -> None:
        expect(seen(self.page, text).first).to_be_visible()


def _answers_a_mutation(answer: Response) -> bool:
    return "mutation" in (answer.request.post_data or "")


@dataclass(frozen=True)
class SensorPage:
    """A sensor: its switch and its ticks."""

    page: Page
    sensor: str

    def open(self) -> SensorPage:
        self.page.goto(f"/locations/photon/sensors/{self.sensor}")
        return self

    def switch(self, on: bool) -> None:
        """Switch the sensor on or off. A picture of a switch hides its checkbox."""
        row = self.page.get_by_role("row", name=re.compile("^(Running|Stopped)"))
        checkbox = row.get_by_role("checkbox")
        expect(checkbox).to_be_checked(checked=not on)
        # The switch moves at once: leaving the page before the answer may cancel the request.
        with self.page.expect_response(_answers_a_mutation):
            row.locator("label").click()
        expect(checkbox).to_be_checked(checked=on)
