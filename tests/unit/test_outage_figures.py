"""The arithmetic of the figures of outages, on a small run that is made up."""

from __future__ import annotations

from bench import figure_capacity, figure_outage
from bench.figure_capacity import Run
from bench.outage_run import BatchSeen, Load, Seen
from orchestration.demo.latency import SeenRow

SECOND_US = 1_000_000


def row(number: int, written_s: float, readable_s: float, datacenter: str = "east") -> SeenRow:
    times_us = round(written_s * SECOND_US), round(readable_s * SECOND_US)
    return SeenRow(f"c{number}", (datacenter, "epoch", number, "1:0"), *times_us)


def batch(at_s: float, primary: int, combined: int, won: int) -> BatchSeen:
    return BatchSeen("west", round(at_s * SECOND_US), 1.0, primary, combined, combined, won, 0.5)


def seen() -> Seen:
    """Normal to 10 s, an outage to 20 s, caught up at 24 s, the end at 30 s."""
    times_us = (at * SECOND_US for at in (0, 10, 20, 24, 30))
    made = Seen(Load(8.0, 2.0), *times_us)
    made.rows = [row(n, n, n + 0.5) for n in range(9)] + [row(9, 9.5, 14)]
    made.rows += [row(n, n, n + 1) for n in range(20, 29)]
    made.written = {r.click_id: r.written_us for r in made.rows} | {"c99": 99}
    made.batches = [batch(5, 40, 10, 10), batch(23, 100, 20, 5)]
    made.unread = [(21 * SECOND_US, 1_000_000)]
    return made


def test_an_outage_is_told_in_numbers() -> None:
    numbers = figure_outage.numbers_of(seen())
    assert numbers["latency_seconds"]["normal"]["p50"] == 0.5
    assert numbers["live_p90_in_catch_up_times_normal"] == round(1 / 0.5, 2)
    assert numbers["longest_gap_seconds"] == 7.0  # from the last batch of the dead one, at 14 s
    assert numbers["last_batch_out_after_seconds"] == 4.0
    assert numbers["catch_up"]["times_live_speed"] == 6.0  # 120 events in the 2 s from its batch's beginning
    assert numbers["catch_up"]["times_live_speed_with_start"] == 3.0
    assert numbers["joined_in_vain"] == {"normal": 0.0, "outage": 0.0, "catch-up": 0.75, "recovered": 0.0}
    assert (numbers["lost"], numbers["joined_twice"]) == (1, 0)
    assert len(figure_outage.draw(seen()).axes) == 4


def test_what_availability_costs_is_told_beside_one_datacenter() -> None:
    runs = [
        Run("1 of 1", 1, 4.0, {"east": 2.0}, 100, 100),
        Run("2 of 2", 2, 4.0, {"east": 1.5, "west": 1.9}, 100, 125),
    ]
    numbers = figure_capacity.numbers_of(runs)
    assert [run["percent_of_one"] for run in numbers["runs"]] == [100.0, 170.0]
    assert [run["joined_in_vain"] for run in numbers["runs"]] == [0.0, 0.2]
    assert figure_capacity.draw(numbers).axes
