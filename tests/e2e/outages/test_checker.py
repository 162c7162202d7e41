"""The checker finds what is lost, joined twice, altered, or was never to be joined."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.outages.checker import Logs, faults_in_rows

Rows = dict[str, list[dict[str, object]]]


def logs() -> Logs:
    made = Logs()
    made.queries["q"].append({"query_id": "q", "text": "coffee"})
    for click, query in (("a", "q"), ("b", "q"), ("never", "gone")):
        made.clicks[click].append({"click_id": click, "query_id": query})
    return made


def row(click: str, text: str = "coffee") -> dict[str, object]:
    values = {"_event_id": click, "click_id": click, "query_id": "q"}
    return {**values, "primary_query_id": "q", "primary_text": text}


def test_one_row_of_each_joinable_click_in_whichever_table_is_right() -> None:
    assert faults_in_rows({"east": logs(), "west": logs()}, {"east": [row("a")], "west": [row("b")]}) == []


@pytest.mark.parametrize(
    ("plant", "told"),
    [
        (lambda rows: rows["east"].clear(), "lost: a"),
        (lambda rows: rows["west"].append(row("a")), "2 times: a"),
        (lambda rows: rows["east"].append(row("never")), "joined without its query: never"),
        (lambda rows: rows["east"][0].update(primary_text="tea"), "east: another value: a"),
    ],
)
def test_a_planted_fault_is_told(plant: Callable[[Rows], None], told: str) -> None:
    rows = {"east": [row("a")], "west": [row("b")]}
    plant(rows)
    assert told in faults_in_rows({"east": logs(), "west": logs()}, rows)
