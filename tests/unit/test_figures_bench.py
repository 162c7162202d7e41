"""The figures of the paper: rows read from tables of all joins, the arithmetic of an outage and of a kill."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from bench.figure_outage import availability_of, cores_of, draw, joins_of, worst_in_vain
from bench.flink_environment import flink
from bench.live_peers import PEERS, PeerSeen, RowReader, Story, measure
from bench.outage_run import BatchSeen, Load, Seen
from examples.demo.latency import SeenRow, TimeSpan
from photon.process.clock import MICROSECONDS
from tests.support.manual_clock import ManualClock


def rows(*clicks: str) -> pa.Table:
    times = [[5] * len(clicks), [7] * len(clicks)]
    return pa.table({"click_id": list(clicks), "logged_at": times[0], "primary_logged_at": times[1]})


def batch(name: str, at_seconds: float, cpu_seconds: float, combined: int = 0, won: int = 0) -> BatchSeen:
    return BatchSeen(name, round(at_seconds * MICROSECONDS), 0.1, 0, 0, combined, won, cpu_seconds)


def span(begin_seconds: float, end_seconds: float) -> tuple[int, int]:
    return round(begin_seconds * MICROSECONDS), round(end_seconds * MICROSECONDS)


def test_rows_of_delta_are_seen_once_with_the_later_of_their_two_times(tmp_path: Path) -> None:
    reader = RowReader("spark", tmp_path, ManualClock(100))
    write_deltalake(tmp_path, rows("a", "b"))
    first = reader.poll()
    write_deltalake(tmp_path, rows("c"), mode="append")
    second = reader.poll()
    seen = [(row.click_id, row.written_us, row.readable_us) for row in [*first, *second, *reader.poll()]]
    assert (len(first), len(second)) == (2, 1)
    assert seen == [(click, 7, 100) for click in ("a", "b", "c")]


def test_a_compaction_shows_no_row_again(tmp_path: Path) -> None:
    reader = RowReader("photon", tmp_path, ManualClock(100))
    for click in ("a", "b"):
        write_deltalake(tmp_path, rows(click), mode="append")
    assert len(reader.poll()) == 2
    DeltaTable(tmp_path).optimize.compact()
    assert reader.poll() == []


def test_rows_of_flink_are_seen_once_their_file_has_its_name(tmp_path: Path) -> None:
    reader = RowReader("flink", tmp_path, ManualClock(100))
    hidden = tmp_path / ".part-1-0-0.inprogress.2"
    pq.write_table(rows("a"), hidden)
    before = reader.poll()
    hidden.rename(tmp_path / "part-1-0-0")
    assert (before, [row.click_id for row in reader.poll()]) == ([], ["a"])


def test_a_kill_tells_how_long_no_row_came_and_what_is_lost_or_there_twice() -> None:
    def row(click: str, written_us: int, readable_us: int, name: str = "file") -> SeenRow:
        return SeenRow(click, ("spark", name, 0, "0"), written_us * MICROSECONDS, readable_us * MICROSECONDS)

    seen = [row("calm", 1, 2), row("hit", 11, 30), row("hit", 11, 31, "other"), row("after", 33, 34)]
    written = {"calm": 1, "hit": 11, "after": 33, "gone": 12}
    peer = PeerSeen(
        "spark", seen, {name: at * MICROSECONDS for name, at in written.items()},
        TimeSpan(*span(0, 10)), killed_us=span(10, 40)[0], ends_us=span(10, 40)[1],
        cores=0.5, behind_seconds=0.01, load_average=1.0,
    )  # fmt: skip
    numbers = peer.numbers()
    assert (numbers["p50_seconds"], numbers["lost"], numbers["joined_twice"]) == (1, 1, 1)
    assert (numbers["kill"]["silent_seconds"], numbers["kill"]["most_seconds"]) == (20, 19)


def test_cores_are_those_of_the_span_and_a_new_process_counts_anew() -> None:
    batches = [batch("east", 1, 5.0), batch("east", 2, 6.0), batch("west", 3, 9.0), batch("west", 4, 2.0)]
    assert cores_of(batches, span(1.5, 3.5)) == {"east": 0.5, "west": 4.5}
    assert cores_of(batches, span(3.5, 5.5)) == {"east": 0.0, "west": 1.0}


def test_a_pair_that_was_combined_and_not_won_is_in_vain() -> None:
    batches = [batch("east", 1, 1, combined=30, won=30), batch("west", 2, 1, combined=10, won=0)]
    assert joins_of(batches, span(0, 3)) == {"combined": 40, "won": 30, "in_vain_percent": 25.0}
    assert joins_of([], span(0, 3))["in_vain_percent"] == 0


def test_of_three_datacenters_each_has_to_do_what_each_of_two_does() -> None:
    cores = {"normal": {"east": 0.8, "west": 0.6}, "outage": {"east": 1.0, "west": 0.0}}
    assert availability_of(cores) == {"two_percent": 140, "three_to_lose_one_percent": 210}


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.server
@pytest.mark.parametrize("name", PEERS)
def test_no_join_loses_or_doubles_a_live_row_when_it_is_killed(name: str, tmp_path: Path) -> None:
    if name == "flink" and not flink().is_there():
        pytest.skip("Flink is not there: make flink")
    numbers = measure(name, tmp_path, Story(warm_up=2, calm=5, after_kill=20), 1, print).numbers()
    assert (numbers["lost"], numbers["joined_twice"]) == (0, 0)


def test_the_worst_part_of_an_outage_is_named_with_its_share_of_joins_in_vain() -> None:
    shares = {"normal": 2.6, "outage": 0.0, "catch-up": 3.5, "recovered": 0.1}
    joins = {name: {"in_vain_percent": percent} for name, percent in shares.items()}
    assert worst_in_vain(joins) == {"phase": "while the west catches up", "percent": 3.5}


def test_the_picture_of_an_outage_says_what_is_shaded_and_why_unread_bytes_jump() -> None:
    begins, killed, back, caught_up, ends = (number * MICROSECONDS for number in (0, 20, 50, 110, 130))
    unread = [(60 * MICROSECONDS, 15), (97 * MICROSECONDS, 33)]
    batches = [batch("west", 10, 1.0), batch("west", 98, 1.0)]
    seen = Seen(Load(), begins, killed, back, caught_up, ends, batches=batches, unread=unread)
    panels = draw(seen).axes
    legends = [[text.get_text() for text in axes.get_legend().get_texts()] for axes in panels]
    assert legends[0] == ["east", "west", "west is away", "west catches up"]
    assert legends[2] == ["west", "a new epoch reads\nfrom the beginning"]
    marked = panels[2].get_lines()[1].get_xdata()
    assert list(marked) == pytest.approx([97.9, 97.9])
