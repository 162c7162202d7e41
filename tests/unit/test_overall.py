"""The first line of a status: whether all is well, by the verdicts on the datacenters."""

from __future__ import annotations

import pytest

from photon.health.levels import Verdict
from photon.health.overall import overall, what_to_do
from tests.unit.test_headline import BEHIND, NOW_US, status

WELL = {"works": Verdict("ok", "east works"), "dead_letters": Verdict("ok", "few are")}
BROKEN = Verdict("error", "west, verified at noon: 1 is missing", "recover", "is broken (1 missing)")
DEAD = Verdict("warn", "west: 2 of all 3 are dead", "mend them", "has bad records (2 of 3)")


def said(west: dict[str, object], **verdicts: Verdict) -> str:
    found = {"east": status(), "west": status(**west)}
    return overall(found, {"east": WELL, "west": {**WELL, **verdicts}}, (), NOW_US)


@pytest.mark.parametrize(
    ("west", "stands"),
    [
        ({}, "live"),
        ({"decision": "on hold"}, "on hold"),
        ({"running_process": None}, "at rest"),
        ({"primary": BEHIND}, "catching up"),
        ({"decision": "retired", "running_process": None}, "retired"),
    ],
)
def test_all_is_well_if_every_verdict_is(west: dict[str, object], stands: str) -> None:
    assert said(west) == f"All is well: east is live, west is {stands}"


def test_each_promise_that_is_not_kept_is_named() -> None:
    told = said({}, dead_letters=DEAD, verified=BROKEN)
    assert told == (
        "1 of 2 datacenters needs somebody: west has bad records (2 of 3) and is broken (1 missing)"
    )


def test_a_verdict_without_few_words_is_named_by_its_promise() -> None:
    assert "west fails tables" in said({}, tables=Verdict("warn", "west has a strange table", "mend it"))


def test_the_only_problem_of_a_new_datacenter_is_that_it_is_new() -> None:
    never, logs = Verdict("warn", "w", "", "has never run"), Verdict("error", "l", "", "has no logs")
    told = said({"epoch": None, "problems": ["no state"]}, works=never, logs=logs)
    assert told == "1 of 2 datacenters needs somebody: west has never run"


def test_problems_that_no_verdict_is_of_need_somebody_too() -> None:
    assert said({"problems": ["a"]}).endswith("west has a problem")
    assert said({"problems": ["a", "b"]}).endswith("west has 2 problems")


def test_who_can_not_be_asked_needs_somebody() -> None:
    told = overall({"east": status()}, {"east": WELL}, ["north"], NOW_US)
    assert told == "1 of 2 datacenters needs somebody: north can't be asked"


def test_a_registry_that_can_not_be_asked_needs_somebody() -> None:
    told = overall({"east": status()}, {"east": WELL}, (), NOW_US, registry_is_unknown=True)
    assert told == "The registry needs somebody: it could not be asked; east is live"


def test_what_to_do_is_said_for_each_promise_that_the_headline_does_not_name() -> None:
    works = Verdict("error", "west: nobody has run it", "start it", "is not running")
    assert what_to_do("west", status(), {**WELL, "works": works, "dead_letters": DEAD, "v": BROKEN}) == [
        "NEEDS YOU: 2 of all 3 are dead. What to do: mend them",
        "NEEDS YOU: verified at noon: 1 is missing. What to do: recover",
    ]
