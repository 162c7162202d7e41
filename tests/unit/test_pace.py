"""Pace says in words how far a piece of work is."""

from __future__ import annotations

from photon.dispatcher.shift.growth import Growth, LogSize, LogsRead
from photon.process.pace import pace, seldom
from photon.state.view import StateView
from tests.support.manual_clock import ManualClock

MIB, GIB = 2**20, 2**30
KNOWS_NOTHING = LogSize(0, 0, 0)


def rows(count: int) -> str:
    return f"{count:,} rows"


def test_share_rate_and_time_left_are_told() -> None:
    assert pace(400 * MIB, 1000 * MIB, 5.0) == "40 % of 1,000 MiB, 80.0 MiB/s, 8 s left"


def test_amounts_are_told_in_the_unit_of_the_work() -> None:
    assert pace(27_000, 81_000, 1.0, rows) == "33 % of 81,000 rows, 27,000 rows/s, 2 s left"


def test_what_has_no_known_total_has_neither_share_nor_end() -> None:
    assert pace(10 * GIB, None, 2.0) == "10.0 GiB, 5.0 GiB/s"


def test_before_a_hundredth_is_done_nobody_knows_when_it_ends() -> None:
    assert pace(0, GIB, 0.0) == "0 % of 1.0 GiB"
    assert pace(GIB // 101, GIB, 7.0) == "0 % of 1.0 GiB"


def test_where_no_time_has_passed_there_is_no_rate() -> None:
    assert pace(GIB // 2, GIB, 0.0) == "50 % of 1.0 GiB"


def test_a_total_that_grew_is_approached_more_slowly() -> None:
    assert pace(400, 1000, 4.0, rows, grown=200).endswith(", 12 s left")


def test_a_total_that_grows_as_fast_as_it_is_done_has_no_end() -> None:
    assert pace(400, 1000, 4.0, rows, grown=400) == "40 % of 1,000 rows, 100 rows/s, as much comes as is done"


def test_it_is_all_done_only_when_nothing_is_left() -> None:
    assert pace(999_999, 1_000_000, 1000.0, rows) == "99 % of 1,000,000 rows, 1,000 rows/s, 0 s left"
    assert pace(1_000_000, 1_000_000, 1000.0, rows) == "all of 1,000,000 rows"


def test_no_work_is_no_error() -> None:
    assert pace(0, 0, 0.0) == "all of 0 bytes"


def test_what_is_said_seldom_is_said_once_in_so_many_seconds() -> None:
    said, clock = list[str](), ManualClock()
    say = seldom(said.append, 10, clock)
    for second in range(25):
        say(f"after {second} s")
        clock.advance(1)
    assert said == ["after 10 s", "after 20 s"]


def test_what_earlier_joins_have_read_is_not_in_the_pace() -> None:
    first, now = LogsRead(600 * MIB, 1000 * MIB, joined=7), LogsRead(700 * MIB, 1000 * MIB, joined=10)
    assert now.since(first, 10.0) == "reads logs: 25 % of 400 MiB, 10.0 MiB/s, 30 s left; 3 joined"


def test_a_log_that_was_read_and_deleted_makes_no_pace_below_zero() -> None:
    first, now = LogsRead(900, 1000, joined=0), LogsRead(100, 200, joined=0)
    assert now.since(first, 1.0) == "reads logs: all of 0 bytes; 0 joined"


def test_logs_of_all_datacenters_count_together() -> None:
    one = Growth(LogSize(1, 100, 40), LogSize(1, 50, 0), "")
    two = Growth(LogSize(2, 1000, 1000), KNOWS_NOTHING, "")
    assert LogsRead.of([one, two]) == LogsRead(110, 1150, 0)


def test_of_a_datacenter_that_cannot_be_looked_at_nothing_is_told() -> None:
    well = Growth(LogSize(1, 100, 40), KNOWS_NOTHING, "")
    ill = Growth(KNOWS_NOTHING, KNOWS_NOTHING, "", StateView(), problems=("cannot read the state",))
    assert LogsRead.of([well, ill]) is None
