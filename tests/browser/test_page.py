"""The live page in a browser, on answers that tests make: what it shows, and what it never does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qsl, quote, urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.axe import serious_violations
from tests.browser.canned import NOW_US, Canned, datacenter, sample, serving, strip, verdict
from tests.browser.live_platform import PATIENCE_SECONDS as PATIENCE_OF_PLATFORM
from tests.e2e.process_marks import soon

pytestmark = [pytest.mark.browser]

PATIENCE_SECONDS = 20.0
VIEWS = ("now", "records", "event?id=click-000981")
PHONE = {"width": 360, "height": 740}
DESK = {"width": 1440, "height": 900}
RECOVER = "photon recover pipeline.yaml -d west"
REMEDY = f"{RECOVER}; or photon retire pipeline.yaml west; docs/runbook.md#verified"
BROKEN = [
    verdict("verified", "error", "11 records that should be joined are in no table", REMEDY, [RECOVER]),
    verdict("dead_letters", "warn", "0.4 % of its records are dead letters", "look at them"),
]
# Nothing of it may become markup, run, or change the text beside it.
HOSTILE = '<img src=x onerror="hit()"><script>hit()</script>\u202etxt.exe\u0000\u2028"\'&amp;{{7*7}}'
SHOWN = HOSTILE.replace("\u202e", r"\u202e").replace("\u0000", r"\u0000").replace("\u2028", r"\u2028")


@pytest.fixture(autouse=True)
def patience(browser: Browser) -> Iterator[None]:
    """Wait for no Spark and no Dagster here."""
    expect.set_options(timeout=PATIENCE_SECONDS * 1_000)
    yield
    expect.set_options(timeout=PATIENCE_OF_PLATFORM * 1_000)


@pytest.fixture
def canned() -> Iterator[Canned]:
    with serving(Canned()) as found:
        yield found


@contextmanager
def looking(browser: Browser, canned: Canned, view: str = "now", **options: object) -> Iterator[Page]:
    """A page that shows the view; at its end nothing went wrong in the browser, nor was blocked."""
    wanted = {"viewport": DESK, "locale": "en-US", "timezone_id": "Europe/Berlin"} | options
    context = browser.new_context(base_url=canned.url, **wanted)
    context.set_default_timeout(PATIENCE_SECONDS * 1_000)
    page, wrong = context.new_page(), list[str]()
    page.clock.set_fixed_time(NOW_US / 1_000_000)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if "Policy" in said.text else None)
    page.expose_function("hit", lambda: wrong.append("hostile text has run"))
    try:
        open_view(page, view)
        yield page
        assert wrong == []
    finally:
        context.close()


def open_view(page: Page, view: str) -> None:
    page.goto(f"/#/{view}")
    awaited = {"now": ".u-over", "records": ".classes", "event": ".timeline"}
    page.locator(awaited[view.partition("?")[0]]).first.wait_for()


def test_it_says_what_is_broken_and_what_to_do_in_the_judges_words(browser: Browser, canned: Canned) -> None:
    says = "1 of 2 datacenters needs somebody: west is not running"
    canned.show(datacenter("east"), datacenter("west", "not running", BROKEN), says=says)
    with looking(browser, canned, permissions=["clipboard-read", "clipboard-write"]) as page:
        expect(page.get_by_role("heading", level=1)).to_contain_text(says)
        expect(page).to_have_title(re.compile("^✕ Now · search_clicks"))
        west = page.get_by_role("article", name="west")
        expect(west).to_contain_text("not running")
        expect(west.get_by_role("listitem").filter(has_text=BROKEN[0]["says"])).to_contain_text(REMEDY)
        expect(west).to_contain_text("52.4 rows/s")
        west.get_by_role("button", name="Copy photon recover").click()
        expect(west.get_by_text("Copied")).to_be_visible()
        assert page.evaluate("navigator.clipboard.readText()") == RECOVER
        expect(west.get_by_role("button", name="Copy")).to_have_count(1)


def test_a_card_tells_how_far_its_topics_are_landed(browser: Browser, canned: Canned) -> None:
    says = "lands topic clicks (300 partitions): 61 offsets wait, 90 s behind; most in 7 (60)"
    canned.show(datacenter("east") | {"landing": [says]}, datacenter("west"), says="All is well")
    with looking(browser, canned) as page:
        landing = page.get_by_role("article", name="east").get_by_role("list", name="Landing")
        expect(landing).to_have_text(says)
        expect(page.get_by_role("list", name="Landing")).to_have_count(1)


def test_a_click_in_flight_and_an_opened_detail_survive_that_numbers_change(
    browser: Browser, canned: Canned
) -> None:
    with looking(browser, canned) as page:
        east = page.get_by_role("article", name="east")
        east.get_by_text("promises hold").click()
        changed = datacenter("east")
        changed["numbers"]["joined_per_second"] = 77.7
        canned.show(changed, datacenter("west"), says="All is well")
        expect(east).to_contain_text("77.7 rows/s")
        expect(east.get_by_text("east works")).to_be_visible()
        expect(east.get_by_text("promises hold")).to_be_focused()


def test_a_datacenter_that_cannot_be_asked_says_why_and_shows_no_number(
    browser: Browser, canned: Canned
) -> None:
    gone = {"name": "west", "activity": "unknown", "verdicts": [], "classes": {}, "release": None}
    canned.show(
        datacenter("east"), gone | {"problem": "west: /lake does not answer"}, says="west can't be asked"
    )
    with looking(browser, canned) as page:
        west = page.get_by_role("article", name="west")
        expect(west).to_contain_text("/lake does not answer")
        expect(west).not_to_contain_text(re.compile(r"\d rows/s"))
        expect(page.locator("#headline")).to_have_attribute("data-level", "error")


def test_what_keeps_the_registry_from_answering_is_said_once(browser: Browser, canned: Canned) -> None:
    says = "process 7 is stopped: kill -CONT 7 has it go on"
    broken = verdict("endpoints_up", "error", says, commands=["kill -CONT 7"])
    canned.now["registry"] = {"says": says, "verdicts": [broken]}
    with looking(browser, canned) as page:
        registry = page.get_by_role("article", name="Registry")
        registry.get_by_role("button", name="Copy kill -CONT 7").wait_for()
        assert registry.inner_text().count("has it go on") == 1


def test_a_server_that_is_gone_is_said_at_once_and_old_numbers_are_greyed(browser: Browser) -> None:
    canned = Canned()
    with serving(canned):
        port = int(canned.url.rstrip("/").rpartition(":")[2])
        context = browser.new_context(base_url=canned.url)
        page = context.new_page()
        open_view(page, "now")
        expect(page.get_by_role("alert")).to_be_empty()
    expect(page.get_by_role("alert")).to_contain_text("gives no answer since")
    expect(page.get_by_role("alert")).to_contain_text("started with: photon ui clicks/pipeline.yaml")
    assert page.locator("#main").evaluate("main => getComputedStyle(main).filter") == "grayscale(1)"
    with serving(canned, port):
        expect(page.get_by_role("alert")).to_be_empty()
    context.close()


def test_nothing_is_asked_while_nobody_sees_the_page(browser: Browser, canned: Canned) -> None:
    with looking(browser, canned) as page:
        hide = "hidden => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});"
        hide += " document.dispatchEvent(new Event('visibilitychange')); }"
        page.evaluate(hide, True)
        page.wait_for_timeout(500)  # what was under way has ended
        asked = len(canned.asked)
        page.wait_for_timeout(3_000)
        assert len(canned.asked) == asked
        page.evaluate(hide, False)
        both = {"/api/now", "/api/history"}
        assert soon(lambda: {path.partition("?")[0] for path in canned.asked[asked:]} == both)


def test_logs_content_is_text_and_never_markup(browser: Browser, canned: Canned) -> None:
    canned.show(
        datacenter(HOSTILE, verdicts=[verdict("verified", "error", HOSTILE, HOSTILE)]),
        datacenter("west"),
        says=HOSTILE,
    )
    canned.history["datacenters"] = {HOSTILE: canned.history["datacenters"]["east"] | {"problem": HOSTILE}}
    for mark in canned.history["marks"]:
        mark |= {"datacenter": HOSTILE, "kind": HOSTILE, "says": HOSTILE}
    canned.records["classes"] = {HOSTILE: canned.records["classes"]["east"]}
    canned.records["problems"] = [HOSTILE]
    canned.records["dead_letters"]["reasons"][0] |= {"reason": HOSTILE, "samples": [sample(HOSTILE, HOSTILE)]}
    canned.records["waiting"][0] |= {"why": HOSTILE, "samples": [HOSTILE, "x" * 4_096]}
    canned.records["conflicting"][0] |= {"says": HOSTILE, "event_id": HOSTILE}
    canned.event |= {"says": HOSTILE, "what_to_do": HOSTILE, "problems": [HOSTILE]}
    canned.event["lanes"][0] |= {"name": HOSTILE}
    canned.event["lanes"][0]["moments"][0] |= {"kind": HOSTILE, "says": HOSTILE}
    with looking(browser, canned, viewport=PHONE) as page:
        for view in ("now", "records", f"event?id={quote(HOSTILE)}"):
            open_view(page, view)
            expect(page.locator("#main").get_by_text(SHOWN).first).to_be_attached()
            assert page.locator("main img, main script").count() == 0
            assert overflow(page) <= 0
        open_view(page, "records")
        page.get_by_text(SHOWN).locator("visible=true").last.wait_for()
        page.locator(".ids a").first.click()
        expect(page.get_by_role("searchbox")).to_have_value(HOSTILE)
        assert [("id", HOSTILE)] in [parse_qsl(urlsplit(path).query) for path in canned.asked]


def overflow(page: Page) -> int:
    """How many pixels the page is wider than its window."""
    wider: int = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return wider


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(browser: Browser, canned: Canned, scheme: str) -> None:
    canned.show(datacenter("east"), datacenter("west", "not running", BROKEN), says="west needs somebody")
    with looking(browser, canned, color_scheme=scheme) as page:
        for view in VIEWS:
            open_view(page, view)
            page.locator("details").evaluate_all("all => all.forEach(one => one.open = true)")
            assert serious_violations(page) == []
        page.goto("/login.html")
        page.get_by_label("token").wait_for()
        assert serious_violations(page) == []


def test_it_fits_a_phone_and_scrolls_in_one_direction_alone(browser: Browser, canned: Canned) -> None:
    canned.show(datacenter("east"), datacenter("west", "not running", BROKEN), says="west needs somebody")
    with looking(browser, canned, viewport=PHONE, has_touch=True) as page:
        for view in VIEWS:
            open_view(page, view)
            assert overflow(page) <= 0, view
        open_view(page, "now")
        chart = page.locator(".u-over").first.bounding_box()
        assert chart is not None
        assert chart["width"] > 200


def test_a_phone_shows_all_of_a_row_and_the_beginning_of_a_long_id(browser: Browser, canned: Canned) -> None:
    long_id = "click-" + "x" * 3_000
    canned.records["conflicting"][0] |= {"event_id": long_id}
    with looking(browser, canned, "records", viewport=PHONE, has_touch=True) as page:
        for table in page.locator(".listed").all():
            for cell in table.get_by_role("cell").all():
                box = cell.bounding_box()
                assert box is not None
                assert box["x"] + box["width"] <= PHONE["width"], cell.inner_text()
        link = page.get_by_role("link", name=re.compile("^click-xxx"))
        assert len(link.inner_text()) < 100
        assert link.get_attribute("title") == long_id
        link.click()
        expect(page.get_by_role("searchbox")).to_have_value(long_id)


def test_on_a_phone_records_are_a_few_screens_and_the_rest_is_one_touch_away(
    browser: Browser, canned: Canned
) -> None:
    (conflict,), (waits,) = canned.records["conflicting"], canned.records["waiting"]
    ids = [f"click-{n:06}" for n in range(20)]
    canned.records["conflicting"] = [conflict | {"event_id": one} for one in ids]
    canned.records["waiting"] = [waits | {"reason": f"reason {n}"} for n in range(10)]
    reason = canned.records["dead_letters"]["reasons"][0]
    canned.records["dead_letters"]["reasons"] = [reason | {"reason": f"because {n}"} for n in range(20)]
    with looking(browser, canned, "records", viewport=PHONE, has_touch=True) as page:
        assert page.evaluate("document.documentElement.scrollHeight") < 4 * PHONE["height"]
        expect(page.get_by_role("link", name=ids[-1])).to_be_hidden()
        page.get_by_text("17 more rows").click()
        expect(page.get_by_role("link", name=ids[-1])).to_be_visible()
        page.get_by_text("17 more reasons").click()
        expect(page.get_by_text("because 19")).to_be_visible()


def test_rows_in_doubt_and_ids_used_again_are_counted_beside_conflicting_records(
    browser: Browser, canned: Canned
) -> None:
    canned.records["classes"]["east"] |= {"ambiguous": 2_478, "reused_primaries": 17_682}
    with looking(browser, canned, "records") as page:
        told = page.get_by_role("region", name="Conflicting records").get_by_role("paragraph")
        expect(told).to_have_text(
            [re.compile("^east: 2,478 rows"), re.compile("^east: 17,682 primary records")]
        )


def test_who_knows_no_id_is_offered_some_events(browser: Browser, canned: Canned) -> None:
    with looking(browser, canned, viewport=PHONE) as page:
        page.get_by_role("link", name="An event").click()
        offered = page.get_by_role("list", name="Some events")
        expect(offered.get_by_role("listitem")).to_have_text(
            [
                "the latest that joined: click-000990",
                "one that waits: click-000871",
                "a dead letter: click-000981",
            ]
        )
        offered.get_by_role("link", name="click-000871").click()
        page.locator(".timeline").wait_for()
        expect(page.get_by_role("searchbox")).to_have_value("click-000871")


def test_as_many_promises_are_listed_as_are_said_to_hold(browser: Browser, canned: Canned) -> None:
    """A promise with two verdicts is one promise, and one that nobody has looked at does not hold yet."""
    east = datacenter("east", verdicts=[verdict("lag", "ok", "unmatched primaries are written in time")])
    canned.show(east | {"unjudged": {"verified": "was never verified"}}, says="All is well")
    with looking(browser, canned) as page:
        page.get_by_text("4 of 5 promises hold").click()
        kept = page.locator("details.kept li")
        expect(kept).to_have_count(5)
        expect(kept.filter(has_text="lag")).to_contain_text("in time; east is not behind")
        expect(kept.last).to_have_text("… verified was never verified")


def test_a_hold_says_since_when_it_lasts_and_how_it_ends(browser: Browser, canned: Canned) -> None:
    held = datacenter("west", "on hold") | {
        "says": "west is ON HOLD; resume it with photon resume clicks/pipeline.yaml west",
        "commands": ["photon resume clicks/pipeline.yaml west"],
    }
    canned.show(datacenter("east"), held, says="All is well: east is live, west is on hold")
    canned.history["strips"]["west"] = strip((24, "live"), (2, "on hold"))
    with looking(browser, canned) as page:
        west = page.get_by_role("article", name="west")
        expect(west).to_contain_text("Since 12:33:20 11:33:20 UTC: west is ON HOLD")
        west.get_by_role("button", name="Copy photon resume clicks/pipeline.yaml west").wait_for()
        assert serious_violations(page) == []


def test_the_keyboard_reaches_views_ranges_and_the_crosshair(browser: Browser, canned: Canned) -> None:
    with looking(browser, canned) as page:
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.locator("#main")).to_be_focused()
        assert page.url.endswith("#/now")
        rows = page.get_by_role("table", name=re.compile("^Rows joined"))
        east = rows.get_by_role("row").filter(has_text="east")
        latest = east.inner_text()
        expect(page.locator("#pointed")).to_contain_text("latest")
        slider = page.get_by_role("slider", name="Crosshair of all charts")
        slider.focus()
        for _ in range(5):
            page.keyboard.press("ArrowLeft")
        expect(page.locator("#pointed")).not_to_contain_text("latest")
        expect(slider).to_have_attribute(
            "aria-valuetext", re.compile(r"^\d\d:\d\d:\d\d \(\d\d:\d\d:\d\d UTC\)")
        )
        assert east.inner_text() != latest
        page.keyboard.press("Home")
        page.keyboard.press("End")
        expect(page.locator("#pointed")).to_contain_text("latest")
        page.get_by_role("link", name="day").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("link", name="day")).to_have_attribute("aria-current", "true")
        page.get_by_role("link", name="An event").focus()
        page.keyboard.press("Enter")
        page.get_by_role("searchbox").fill("click-000981")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name=canned.event["says"])).to_be_visible()


def test_all_charts_share_one_crosshair_and_marks_are_told_where_it_stands(
    browser: Browser, canned: Canned
) -> None:
    with looking(browser, canned) as page:
        chart = page.locator(".u-over").nth(4)
        box = chart.bounding_box()
        assert box is not None
        chart.hover(position={"x": box["width"] * 90.5 / 359, "y": 20})
        expect(page.locator("#pointed")).to_contain_text("✕ east: process 4711 ended")
        lines = page.locator(".u-cursor-x")
        places = {line.evaluate("line => line.style.transform") for line in lines.all()}
        assert lines.count() == 8
        assert len(places) == 1
        happened = page.get_by_role("region", name="What happened")
        expect(happened).to_contain_text("west on hold for 6 min 40 s: for a new disk")


def test_a_chart_ends_with_the_number_of_the_card(browser: Browser, canned: Canned) -> None:
    """Broken variant: each as it was when it was read, so that the two differ by seconds."""
    canned.now["datacenters"][0]["numbers"] |= {"complete_up_to_us": NOW_US - 7_400_000, "waiting": 31}
    with looking(browser, canned) as page:
        expect(page.get_by_role("article", name="east")).to_contain_text("7.4 s ago")
        for chart, said in (("Complete up to", "7.4 s"), ("Records that wait", "31")):
            table = page.get_by_role("table", name=re.compile(f"^{chart}.*latest$"))
            expect(table.get_by_role("row").filter(has_text="east")).to_contain_text(said)


def test_what_is_left_of_an_error_budget_is_a_curve_of_its_days(browser: Browser, canned: Canned) -> None:
    with looking(browser, canned) as page:
        east = page.get_by_role("article", name="east")
        expect(east).to_contain_text("50 % left")
        expect(east.locator(".budget-curve path")).to_have_attribute("d", "M0,1L0,0L1,0.25L2,0.5L3,0.5V1z")


def test_one_of_a_thing_is_told_in_the_singular(browser: Browser, canned: Canned) -> None:
    releases = [one for one in canned.history["marks"] if one["kind"] == "release"]
    canned.history["marks"] = releases[:1]
    reason = canned.records["dead_letters"]["reasons"][0]
    canned.records["dead_letters"]["reasons"] = [reason | {"counts": [0, 1], "count": 1}]
    canned.now["datacenters"][0]["numbers"]["waiting"] = 1
    with looking(browser, canned) as page:
        expect(page.get_by_role("region", name="What happened").get_by_text("▴ 1 release")).to_have_text(
            re.compile("1 release$")
        )
        expect(page.get_by_role("article", name="east").get_by_text("1 record", exact=True)).to_be_visible()
        open_view(page, "records")
        expect(page.get_by_text("the highest 1 line;")).to_be_visible()


def test_what_is_due_already_is_due_now(browser: Browser, canned: Canned) -> None:
    canned.records["waiting"][0]["next_due_us"] = NOW_US - 44_000_000
    with looking(browser, canned, "records") as page:
        expect(page.get_by_role("cell", name="now", exact=True)).to_be_visible()


def test_a_dead_letter_names_its_log_and_what_mends_it(browser: Browser, canned: Canned) -> None:
    with looking(browser, canned, "records") as page:
        letters = page.get_by_role("region", name="Dead letters")
        letters.get_by_role("button", name="Copy photon dead-letters clicks/pipeline.yaml").wait_for()
        letters.get_by_text("the line is no JSON object").click()
        expect(letters.get_by_text("east foreign log, click-000981")).to_be_visible()


def test_shares_of_a_thousandth_can_be_told_apart(browser: Browser, canned: Canned) -> None:
    with looking(browser, canned, "records") as page:
        unjoinable = page.get_by_role("row", name=re.compile("^unjoinable"))
        expect(unjoinable).to_contain_text("0.3 %")
        east, west = (dot.bounding_box() for dot in unjoinable.locator(".dot").all())
        assert east is not None
        assert west is not None
        assert east["x"] - west["x"] > 100  # 0.3 % and 0.003 %


def test_times_are_told_in_the_readers_zone_with_utc_beside_it(browser: Browser, canned: Canned) -> None:
    clock = r"14:33:15 13:33:15 UTC"
    with looking(browser, canned) as page:
        expect(page.get_by_role("article", name="east")).to_contain_text(clock)
    with looking(browser, canned, timezone_id="UTC") as page:
        east = page.get_by_role("article", name="east")
        expect(east).to_contain_text("13:33:15 UTC")
        expect(east).not_to_contain_text(clock)


def test_an_events_moments_stand_in_the_order_of_time_side_by_side(browser: Browser, canned: Canned) -> None:
    with looking(browser, canned, VIEWS[-1]) as page:
        moments = page.get_by_role("region", name="Timeline").get_by_role("listitem")
        said = [re.sub(r"\s+", " ", text) for text in moments.all_inner_texts()]
        kinds = ["logged", "logged", "waits", "logged", "claimed", "joined", "joined elsewhere", "closed"]
        assert [kind for kind, text in zip(kinds, said, strict=True) if f"{kind} " not in text] == []
        assert "time not known" in said[-1]
        assert "+ 210 ms" in said[2]
        lefts = {round(box["x"]) for one in page.locator(".moment").all() if (box := one.bounding_box())}
        assert len(lefts) == 3
