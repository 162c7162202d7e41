"""A row is a function of its pair (protocol A20): the same records in other batches make the same rows."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.world import NOON_US, World

# Names that clash with the other side's, in case, by a character that tables refuse, with Photon's own.
QUERIES = [
    {"country": "de", "text": "a"},
    {"Country": "fr", "country": "it", "primary_text": "b"},
    {"a b": "1", "a_b": "2"},
    {"a b": "3", "_batch": "4"},
]
CLICKS = [
    {},
    {"country": "us", "text": "c"},
    {"COUNTRY": "uk", "a b": "5"},
    {"a_b": "6", "primary_country": "7", "foreign__batch": "8", "_batch": "9"},
    {"a b": "10", "A_B": "11", "a_b": "12"},
]
OWN = ("click", "query", "at", "primary_query", "primary_at")  # columns that every row has
PAIRS = list(product(range(len(CLICKS)), range(len(QUERIES))))


def rows_of(folder: Path, batches: list[list[int]]) -> dict[str, dict[str, Any]]:
    """By event the values of its row, but for those that every row has, named as tables compare names."""
    folder.mkdir()
    world = World(folder)
    world.log("east", "queries", *({"query": f"q{j}", "at": NOON_US, **q} for j, q in enumerate(QUERIES)))
    for batch in batches:
        for i, j in (PAIRS[index] for index in batch):
            world.log("east", "clicks", {"click": f"{i}-{j}", "query": f"q{j}", "at": NOON_US, **CLICKS[i]})
        world.join()
    assert not world.rows("dead_letters")
    found: dict[str, dict[str, Any]] = {}
    for row in world.rows():
        values = ((name.lower(), value) for name, value in row.items() if not name.startswith("_"))
        found[row["_event_id"]] = {n: v for n, v in values if v is not None and n not in OWN}
    assert len(found) == len(PAIRS)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_shuffled_into_other_batches_the_same_records_make_the_same_rows(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    alone = rows_of(tmp_path / "alone", [[index] for index in range(len(PAIRS))])
    order = chance.sample(range(len(PAIRS)), len(PAIRS))
    cut = chance.randrange(1, len(PAIRS))
    assert rows_of(tmp_path / "shuffled", [order[:cut], order[cut:]]) == alone
    assert rows_of(tmp_path / "together", [order]) == alone


def test_no_value_of_a_record_is_lost(tmp_path: Path) -> None:
    rows = rows_of(tmp_path / "world", [list(range(len(PAIRS)))])
    for i, j in PAIRS:
        assert sorted(rows[f"{i}-{j}"].values()) == sorted([*CLICKS[i].values(), *QUERIES[j].values()])
