"""Recovery decides who acts, how a record was counted, which class it leaves, and what people are told."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from photon.dispatcher.recovery.orders import (
    ORDER_FORMAT,
    Order,
    OrderedRecord,
    leaves,
    order_from_json,
    order_to_json,
    still_open,
    with_parts,
)
from photon.process.errors import FormatTooNew
from photon.state.outcomes import Counts, OutcomeClass
from photon.storage.tokens import Occurrence
from photon.upkeep.recovery import Recovered, acts_on, counted_as, recovery_sentences, unknown_to
from photon.verification.classes import Evidence
from photon.verification.report import Case

PLACE = Occurrence(1, 0)


def case(holder: str | None = None, evidence: int = 0) -> Case:
    return Case("c1", "1:0", evidence, holder)


@pytest.mark.parametrize(
    ("holder", "acts"),
    [
        pytest.param(None, "east", id="nobody has registered it"),
        pytest.param("east", "east", id="registered here"),
        pytest.param("west", "west", id="registered by another one"),
        pytest.param("lost", "east", id="registered by one that is retired"),
    ],
)
def test_the_owner_acts_unless_it_is_retired(holder: str | None, acts: str) -> None:
    assert acts_on(case(holder), "east", {"lost"}) == acts


@pytest.mark.parametrize(
    ("found", "is_first", "counted"),
    [
        pytest.param(case("east"), True, "joined", id="joined here"),
        pytest.param(case("east"), False, "duplicates", id="the second record of such an event"),
        pytest.param(case("lost"), True, "joined_elsewhere", id="of another datacenter"),
        pytest.param(case(evidence=Evidence.UNJOINED), True, "unjoinable", id="given up once"),
        pytest.param(case(evidence=Evidence.TOO_OLD), True, "too_old", id="too old once"),
        pytest.param(case(), True, "joined", id="nobody knows of it"),
    ],
)
def test_the_class_of_a_record_is_told_from_what_is_left_of_it(
    found: Case, is_first: bool, counted: OutcomeClass
) -> None:
    assert counted_as(found, "missing", "east", is_first) == counted


def test_what_a_retirement_has_freed_was_counted_as_joined_elsewhere() -> None:
    assert counted_as(case(), "missing", "east", True, were_freed=True) == "joined_elsewhere"
    assert counted_as(case("east"), "missing", "east", True, were_freed=True) == "joined"


def test_no_class_falls_below_nothing_and_every_record_leaves_one() -> None:
    records = [OrderedRecord(Occurrence(1, n), f"c{n}", "unjoinable") for n in range(3)]
    assert leaves(records, {"unjoinable": 1, "joined": 1, "filtered": 5}) == {
        "unjoinable": -1,
        "joined": -1,
        "filtered": -1,
    }


def test_of_one_event_one_record_was_joined_and_the_others_were_duplicates() -> None:
    records = [OrderedRecord(Occurrence(1, n), "c1", "too_old") for n in range(3)]
    assert leaves(records, {"joined": 9, "duplicates": 9}) == {"joined": -1, "duplicates": -2}


def test_conflicting_records_leave_in_proportion_to_the_duplicates() -> None:
    counts = Counts(conflicting=6, not_compared=3, classes={"duplicates": 9, "joined": 9})
    leaving = {"joined": -1, "duplicates": -3}
    assert with_parts(leaving, counts) == {**leaving, "conflicting": -2, "not_compared": -1}
    assert with_parts({"joined": -1}, counts) == {"joined": -1}
    assert with_parts(leaving, Counts()) == leaving


def order(epoch: str = "e1", completed: int = 5, is_kept: bool = False) -> Order:
    return Order("o", epoch, completed, "test", (OrderedRecord(PLACE, "c1", "joined", is_kept),))


@pytest.mark.parametrize(
    ("given", "ordered_at", "waits", "looked_at", "woken"),
    [
        pytest.param(order(), {}, {}, 1, 0, id="a record that is decided"),
        pytest.param(order(epoch="e0"), {}, {}, 0, 0, id="an order of an earlier epoch"),
        pytest.param(order(), {PLACE: 5}, {}, 0, 0, id="taken up since the report"),
        pytest.param(order(), {PLACE: 4}, {}, 1, 0, id="taken up before the report"),
        pytest.param(order(), {}, {PLACE: False}, 0, 0, id="it waits"),
        pytest.param(order(is_kept=True), {}, {PLACE: True}, 0, 1, id="it is given up and kept"),
        pytest.param(order(is_kept=True), {}, {}, 0, 0, id="it was kept and has moved on"),
    ],
)
def test_an_order_says_nothing_of_a_record_that_has_moved_on(
    given: Order,
    ordered_at: dict[Occurrence, int],
    waits: dict[Occurrence, bool],
    looked_at: int,
    woken: int,
) -> None:
    assert tuple(map(len, still_open(given, "e1", ordered_at, waits))) == (looked_at, woken)


def test_an_order_is_read_as_it_was_written_and_a_newer_one_is_refused() -> None:
    text = order_to_json(order(is_kept=True))
    assert order_from_json(text) == order(is_kept=True)
    with pytest.raises(FormatTooNew):
        order_from_json(text.replace(f'"format": {ORDER_FORMAT}', f'"format": {ORDER_FORMAT + 1}'))


def test_an_order_of_an_older_photon_is_read_and_a_mended_line_goes_along() -> None:
    older = order_to_json(order()).replace(f'"format": {ORDER_FORMAT}', '"format": 1').replace(", null]", "]")
    assert '"joined", false]' in older
    assert order_from_json(older) == order()
    record = OrderedRecord(PLACE, "c1", "dead_letters", mended=b"\xff,1")
    mended = Order("o", "e1", 5, "test", (record,))
    assert order_from_json(order_to_json(mended)) == mended


def report_of(*holders: str | None, count: int | None = None) -> dict[str, Any]:
    """A report that names an event for each holder: c0, c1, and so on."""
    cases = [
        {"event_id": f"c{n}", "occurrence": "1:0", "evidence": 0, "holder": holder}
        for n, holder in enumerate(holders)
    ]
    finding = {"kind": "missing", "cases": cases, "count": len(cases) if count is None else count}
    return {"violations": [finding], "findings": []}


@pytest.mark.parametrize(
    ("west", "retired", "nobody"),
    [
        pytest.param(report_of("west", "west"), (), {}, id="the owner names them too"),
        pytest.param(report_of("west"), (), {"west": 1}, id="the owner has one of them"),
        pytest.param(report_of(), (), {"west": 2}, id="the owner has none of them"),
        pytest.param(report_of("west", count=9), (), {}, id="the owner has more than it names"),
        pytest.param(None, (), {}, id="the owner was not verified"),
        pytest.param(report_of(), ("west",), {}, id="the owner is retired, so east acts"),
    ],
)
def test_records_that_their_owner_does_not_have_are_told(
    west: dict[str, Any] | None, retired: tuple[str, ...], nobody: dict[str, int]
) -> None:
    east = report_of("west", "west")
    reports = {"east": east} | ({"west": west} if west is not None else {})
    assert unknown_to("east", east, reports, retired) == nobody


def test_people_are_told_what_is_ordered_and_who_has_to_act() -> None:
    east = Recovered(ordered=2, kinds=Counter(missing=2), left_to=Counter(west=1), left_out=3)
    east.unknown_to["west"] = 1
    west = Recovered(kinds=Counter(missing=1), problem="its state is not on this machine")
    assert recovery_sentences({"east": east, "west": west}, dry_run=False) == [
        "east: 2 records are looked at again (2 missing)",
        "east: 1 record is of datacenter west, which has to act: recover it there",
        "east: PROBLEM 1 of them are in no log that datacenter west has read, so nobody acts: copy the log "
        "files that have them from east to west, and recover again",
        "east: 3 records are left for the next round: recover again once these are joined",
        "west: PROBLEM 1 missing: its state is not on this machine",
    ]
    assert "2 records would be looked at again" in recovery_sentences({"east": east}, dry_run=True)[0]
    assert recovery_sentences({"east": Recovered()}, dry_run=False) == ["nothing is to be recovered"]
