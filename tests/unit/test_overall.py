"""The first line of a status: whether all is well, by the verdicts on the datacenters."""

from __future__ import annotations

from typing import Any

import pytest

from photon.health.overall import overall
from photon.health.verdict import Verdict
from tests.unit.test_headline import GIBS, ON_HOLD, RETIRED, status

BROKEN = Verdict("error", "west, verified at noon: 1 is missing", "recover", "is broken (1 missing)")
DEAD = Verdict("warn", "west: 2 of all 3 are dead", "mend them", "has bad records (2 of 3)")


def said(*broken: Verdict, **west: Any) -> str:
    return overall({"east": status(), "west": status(broken=broken, **west)}, ())


@pytest.mark.parametrize(
    ("west", "activity"),
    [
        ({}, "live"),
        ({"facts": ON_HOLD}, "on hold"),
        ({"is_run": False}, "at rest"),
        ({"unread": (GIBS, 0)}, "catching up"),
        ({"facts": RETIRED, "is_run": False}, "retired"),
    ],
)
def test_all_is_well_if_every_verdict_is(west: dict[str, Any], activity: str) -> None:
    assert said(**west) == f"All is well: east is live, west is {activity}"


def test_each_verdict_that_is_not_well_is_named() -> None:
    assert said(DEAD, BROKEN) == (
        "1 of 2 datacenters needs somebody: west has bad records (2 of 3) and is broken (1 missing)"
    )


def test_what_two_verdicts_begin_with_is_said_once() -> None:
    told = said(DEAD, Verdict("warn", "west: 4 of all 9", "mend", "has bad records (4 of 9)"), BROKEN)
    assert told.endswith("west has bad records (2 of 3; 4 of 9) and is broken (1 missing)")


def test_a_verdict_without_few_words_is_named_by_its_promise() -> None:
    assert "west fails broken" in said(Verdict("warn", "west has a strange table", "mend it"))


def test_who_can_not_be_asked_needs_somebody() -> None:
    told = overall({"east": status()}, ["north"])
    assert told == "1 of 2 datacenters needs somebody: north can't be asked"


def test_a_registry_that_can_not_be_asked_needs_somebody() -> None:
    told = overall({"east": status()}, (), of_registry="it could not be asked")
    assert told == "The registry needs somebody: it could not be asked; east is live"
