"""A row is a function of its pair (protocol A20): the same records in other batches make the same rows."""

from __future__ import annotations

import json
import random
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from photon.verification.tasks import TO_COMPARE, TaskScope, compare_rows
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
    """Join the batches; return each event's own values, by names in the case that tables compare."""
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


OWN_ADAPTERS = """
import pyarrow as pa
from photon.adapters import Adapter, merge

class CountsTheBatch(Adapter):
    def combine(self, foreign, primary):
        rows = merge(foreign, primary)
        return rows.append_column("n", pa.array([str(foreign.num_rows)] * foreign.num_rows))

class LooksAtColumns(Adapter):
    def combine(self, foreign, primary):
        rows = merge(foreign, primary)
        return rows.append_column("n", pa.array([str("rare" in foreign.column_names)] * foreign.num_rows))

class MindsItsPair(Adapter):
    def combine(self, foreign, primary):
        return merge(foreign, primary).append_column("n", foreign["click"])
"""


def compared(folder: Path, adapter: str, **more: int | str | None) -> pa.RecordBatch:
    """Compare a row, made in a batch with another, with its record, twice. `more`: of `TO_COMPARE`."""
    (folder / "own_adapters.py").write_text(OWN_ADAPTERS)
    world = World(folder, more=f"adapter: own_adapters:{adapter}")
    world.queries("q")
    clicks = [
        {"click": "plain", "query": "q", "at": NOON_US},
        {"click": "c", "query": "q", "at": 1, "rare": "x"},
    ]
    world.log("east", "clicks", *clicks)
    world.join()
    (row,) = (row for row in world.rows() if row["_event_id"] == "plain")
    values = {name: value for name, value in row.items() if not name.startswith("_")}
    to_compare: dict[str, Any] = {name: None for name in TO_COMPARE}
    to_compare |= {"datacenter": "east", "file": 1, "raw": json.dumps(clicks[0]).encode(), "primary_file": 2}
    query = {"query": "q", "at": NOON_US, "text": "text of q"}
    to_compare |= {"primary_raw": json.dumps(query).encode(), "values": values, **more}
    headers = {("east", number): b"" for number in (1, 2)}
    schema = world.table().schema()
    scope = TaskScope(world.pipeline, headers, {"east": schema})
    (verdicts,) = compare_rows([pa.RecordBatch.from_pylist([to_compare, to_compare])], scope)
    return verdicts


@pytest.mark.parametrize(
    ("adapter", "verdict"),
    [("CountsTheBatch", "differs"), ("LooksAtColumns", "differs"), ("MindsItsPair", "same")],
)
def test_verification_joins_each_pair_alone_and_finds_rows_of_their_batch(
    tmp_path: Path, adapter: str, verdict: str
) -> None:
    assert compared(tmp_path, adapter)["verdict"].to_pylist() == [verdict] * 2


@pytest.mark.parametrize(
    ("row_time_us", "time_us", "detail"),
    [
        (NOON_US, NOON_US, ""),
        (NOON_US, None, ""),  # nobody knows what its record had
        (0, 10**6, "_event_time is 1970-01-01 00:00:00.000000 UTC, its record has 1970-01-01 00:00:01"),
        (None, 10**6, "_event_time is null, its record has 1970-01-01 00:00:01"),
    ],
)
def test_a_row_differs_whose_time_is_not_that_of_its_record(
    tmp_path: Path, row_time_us: int | None, time_us: int | None, detail: str
) -> None:
    found = compared(tmp_path, "MindsItsPair", row_time_us=row_time_us, time_us=time_us)
    assert found["verdict"][0].as_py() == ("differs" if detail else "same")
    assert found["detail"][0].as_py().startswith(detail)


@pytest.mark.parametrize(
    ("says", "detail"),
    [
        ({}, ""),  # the row is older than these columns
        ({"row_primary_id": "q", "row_primary_time_us": 10**6}, ""),
        ({"row_primary_id": "p", "row_primary_time_us": 10**6}, "_primary_id is 'p', its record has 'q'"),
        (
            {"row_primary_id": "q", "row_primary_time_us": 0},
            "_primary_time is 1970-01-01 00:00:00.000000 UTC, its record has 1970-01-01 00:00:01",
        ),
    ],
)
def test_a_row_differs_that_names_another_primary_or_time_than_its_own(
    tmp_path: Path, says: dict[str, Any], detail: str
) -> None:
    found = compared(tmp_path, "MindsItsPair", key="q", primary_time_us=10**6, **says)
    assert found["verdict"][0].as_py() == ("differs" if detail else "same")
    assert found["detail"][0].as_py().startswith(detail)
