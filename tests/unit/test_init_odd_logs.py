"""`photon init` on logs of odd values: it proposes, asks or refuses, and what it proposes can be loaded."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from photon.pipeline.file import load_pipeline
from tests.support.commands import photon

NAMES = ("id", "ts", "a.b", "x y", "é", "uid", "n", "N", "time", "#x", "yes", "")
VALUES: tuple[Callable[[int], Any], ...] = (
    lambda i: i,
    lambda _: None,
    lambda _: "",
    lambda i: i * 1e17 + 0.5,
    lambda i: [i],
    lambda i: {"a": {"b": i}},
    lambda i: i % 2 == 0,
    lambda _: "ü\n, ;\t",
    lambda i: 'q"x;y,' * (i % 3),
    lambda i: 10 ** (i % 25),
    lambda i: f"{i:05}",
    lambda i: f"{1 + i % 28}/1/2026",
    lambda i: "c" * (i % 300),
    lambda _: "1e400",
    lambda _: "NaN",
)


def odd_rows(chance: random.Random) -> list[dict[str, Any]]:
    makers = {name: chance.choice(VALUES) for name in chance.sample(NAMES, chance.randrange(1, 6))}
    mixed = chance.choice(list(makers))
    rows = []
    for i in range(chance.choice([1, 2, 30, 60])):
        row = {name: make(i) for name, make in makers.items()} | {mixed: chance.choice(VALUES)(i)}
        rows.append({**row, "query_id": f"q{i}", "click_id": f"c{i}", "at": 1_767_607_200 + i})
    return rows


def as_text(rows: list[dict[str, Any]], chance: random.Random) -> bytes:
    delimiter = chance.choice(["", "", ",", ";", "\t"])
    if not delimiter:
        return "".join(json.dumps(row) + "\n" for row in rows).encode() + chance.choice([b"", b"{", b"\n"])
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    encoding = chance.choice(["utf-8", "latin-1"])
    return text.getvalue().encode(encoding) + chance.choice([b"", b'"open\n', b"\xe4\n"])


@pytest.mark.parametrize("seed", range(24))
def test_no_odd_log_ends_it_with_a_defect(tmp_path: Path, seed: int) -> None:
    print("seed", seed)
    chance = random.Random(seed)
    for side in "ab":
        (tmp_path / f"{side}.log").write_bytes(as_text(odd_rows(chance), chance))
    said = chance.choice([(), ("--foreign-id", "click_id", "--foreign-time", "at", "--primary-time", "at")])
    places = [str(tmp_path / f"{side}.log") for side in "ab"]
    done = photon("init", *places, "-o", tmp_path / "p.yaml", *said)
    assert done.exit_code in (0, 1, 2, 3), done.output
    if done.exit_code == 0:
        assert load_pipeline(tmp_path / "p.yaml").foreign.key
