"""What a measurement of scaling makes of its figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.scaling import Costs, draw, lines_of

COSTS = Costs(task_us=10.0, driver_us=0.5, registry_us=2.5, bytes=500.0)


def _run(name: str, cores: int, rate: int, lost: int = 0) -> dict[str, Any]:
    found = {"rows": 10, "lost": lost, "doubled": 0, "wrong": 0}
    return {"name": name, "cores": cores, "seconds": 1.0, "events_per_second": rate, "found": found}


def _found(**more: Any) -> dict[str, Any]:
    pairs = [
        _run("local_1", 2, 100),
        _run("cluster_1", 2, 90),
        _run("local_2", 2, 100),
        _run("cluster_2", 2, 80),
    ]
    simulated = {"one_store": [_run("one_store_1", 1, 50), _run("one_store_8", 8, 300)]}
    costs = {"task_us": 10.0, "driver_us": 0.5, "registry_us": 2.5, "bytes": 500.0}
    return {"pairs": pairs, "simulated": simulated, "costs": costs, "left_out": {}, **more}


def test_tasks_bind_while_there_are_few_cores() -> None:
    assert COSTS.binds(1) == ("tasks", 100_000.0)
    assert COSTS.binds(4) == ("tasks", 400_000.0)


def test_the_dearest_of_the_parts_that_are_one_binds_with_many_cores() -> None:
    assert COSTS.binds(5) == ("registry", 400_000.0)
    assert COSTS.binds(64) == ("registry", 400_000.0)


@pytest.mark.parametrize(("part", "cores"), [("registry", 4.0), ("driver", 20.0), ("disk", 10.0)])
def test_a_part_would_bind_from_the_cores_on_at_which_tasks_are_as_fast(part: str, cores: float) -> None:
    assert COSTS.cores_until(part) == cores


def test_two_workers_are_compared_with_the_mean_of_all_rounds_on_local_cores() -> None:
    assert "two workers of one core: 0.85 times the throughput of two local cores" in list(lines_of(_found()))


def test_a_run_that_lost_an_event_says_so() -> None:
    lines = list(lines_of(_found(pairs=[_run("local_1", 2, 100, lost=3)])))
    assert lines[0].endswith("3 lost")


def test_a_run_that_was_left_out_is_named_with_its_reason() -> None:
    assert "left out: cluster_1: no worker came" in list(
        lines_of(_found(left_out={"cluster_1": "no worker came"}))
    )


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    draw(_found(), tmp_path / "growth.svg")
    assert "elastic" not in (text := (tmp_path / "growth.svg").read_text())
    assert text.startswith("<?xml")
