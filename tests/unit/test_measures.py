"""Numbers that add up: over tasks, over threads, and from shift to shift through a file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client.core import Metric

from photon.dispatcher.shift.measured import EVERY_SECONDS, MEASURED_FILE, MeasuredFile, measured_in
from photon.health.metrics.shift_families import HISTOGRAMS, SUMS, shift_families
from photon.process.clock import MICROSECONDS
from photon.process.measures import BOUNDS_SECONDS, Measures, Meter
from photon.process.quantiles import Sample
from photon.state.view import view_state
from tests.simulation.world import World
from tests.support.manual_clock import ManualClock

NOW_US = 1_767_607_200 * MICROSECONDS


def measured(*seconds: float) -> Measures:
    measures = Measures()
    for each in seconds:
        measures.time("batch_seconds", seconds=each)
    return measures


def counts(measures: Measures, *key: str) -> dict[float, int]:
    """Return the counts that are not 0, by upper bound."""
    bounds = [*BOUNDS_SECONDS, float("inf")]
    return {bound: n for bound, n in zip(bounds, measures.histograms[key].counts, strict=True) if n}


def test_a_time_is_in_the_bucket_of_its_upper_bound() -> None:
    found = measured(0.5, 0.500001, 1_000_000.0)
    assert counts(found, "batch_seconds") == {0.5: 1, 1.0: 1, float("inf"): 1}
    assert found.histograms["batch_seconds",].sum_seconds == pytest.approx(1_000_001.000001)


def test_a_sample_counts_as_its_measurements_do() -> None:
    times = [0.4, 0.7, 0.9, 2.5, 200_000.0]
    one_by_one, at_once = measured(*times), Measures()
    at_once.times("batch_seconds", seconds=Sample.of(times))
    assert at_once == one_by_one


def test_a_sample_of_many_leaves_none_out() -> None:
    measures = Measures()
    measures.times("x", seconds=Sample.of([0.2] * 1_000 + [4.0] * 333))
    found = counts(measures, "x")
    assert sum(found.values()) == 1_333
    assert abs(found[5.0] - 333) <= 1_333 * 0.004  # half a step between two of 256 values


def test_measures_add_up() -> None:
    first, second = measured(0.2, 3.0), measured(0.2)
    first.count("registry_claims", "won", by=3)
    second.count("registry_claims", "won", by=4)
    first.add(second)
    assert counts(first, "batch_seconds") == {0.25: 2, 3.0: 1}
    assert first.sums["registry_claims", "won"] == 7


def test_a_sum_of_nothing_is_known_and_stays_known() -> None:
    first, second = Measures(), Measures()
    second.count("registry_claims", "won", by=0)
    first.add(second)
    assert ("registry_claims", "won") in first.sums


def test_what_is_taken_from_a_meter_is_there_once() -> None:
    meter = Meter()
    meter.count("registry_claims", "won", by=2)
    assert meter.take().sums == {("registry_claims", "won"): 2}
    assert meter.take() == Measures()


class Shift:
    """A shift's file in a folder, its meter, and its clock."""

    def __init__(self, state: Path, epoch: str = "e") -> None:
        self.meter, self.clock = Meter(), ManualClock(NOW_US)
        self.file = MeasuredFile(state, epoch, (self.meter,), self.clock)


def ids(state: Path) -> int:
    found = measured_in(state)
    assert found is not None
    return found.measures.sums["registry_claims", "won"]


def test_the_next_shift_of_an_epoch_goes_on(tmp_path: Path) -> None:
    for _ in range(2):  # neither of them ends in order
        shift = Shift(tmp_path)
        shift.meter.count("registry_claims", "won", by=5)
        shift.file.write_if_due()
    assert ids(tmp_path) == 10


def test_a_new_epoch_begins_at_zero(tmp_path: Path) -> None:
    for epoch in ("e", "another"):
        shift = Shift(tmp_path, epoch)
        shift.meter.count("registry_claims", "won", by=5)
        shift.file.write()
    assert ids(tmp_path) == 5


def test_it_is_written_every_few_seconds(tmp_path: Path) -> None:
    shift = Shift(tmp_path)
    written = []
    for _ in range(EVERY_SECONDS + 1):
        shift.meter.count("registry_claims", "won")
        shift.file.write_if_due()
        written.append(ids(tmp_path))
        shift.clock.sleep(1)
    assert written == [1] * EVERY_SECONDS + [EVERY_SECONDS + 1]


def test_a_disk_that_takes_nothing_is_told_once_and_nothing_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "state"
    shift = Shift(folder)
    shift.meter.count("registry_claims", "won")
    shift.file.write()
    shift.file.write()
    assert len(caplog.messages) == 1
    folder.mkdir()
    shift.file.write()
    assert ids(folder) == 1


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"format": 2}', '{"format": 1, "epoch": "e"}'])
def test_a_file_that_is_not_ours_to_read_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / MEASURED_FILE).write_text(content)
    assert measured_in(tmp_path) is None


def families(state: Path) -> dict[str, Metric]:
    found = measured_in(state)
    assert found is not None
    return {metric.name: metric for metric in shift_families({"east": found})}


def test_a_histogram_counts_up_to_each_bound(tmp_path: Path) -> None:
    shift = Shift(tmp_path)
    shift.meter.time("task_seconds", "join", seconds=0.2)
    shift.meter.time("task_seconds", "join", seconds=2.0)
    shift.file.write()
    samples = families(tmp_path)["photon_task_seconds"].samples
    buckets = {one.labels["le"]: one.value for one in samples if one.name.endswith("_bucket")}
    assert [buckets[bound] for bound in ("0.1", "0.25", "1.5", "2.0", "+Inf")] == [0, 1, 1, 2, 2]
    assert {one.value for one in samples if one.name.endswith("_sum")} == {2.2}


def test_a_sum_is_told_before_it_first_occurs(tmp_path: Path) -> None:
    """Otherwise no rate would show the first time, for which somebody may wait."""
    Shift(tmp_path).file.write()
    samples = families(tmp_path)["photon_registry_claims"].samples
    assert {(one.labels["result"], one.value) for one in samples} == {("won", 0), ("lost", 0)}


def test_what_is_counted_anywhere_is_served_and_nothing_else_is() -> None:
    sources = [path.read_text() for path in (Path(__file__).parents[2] / "photon").rglob("*.py")]
    counting = re.compile(r'(?:meter|measures)\.(?:count|times?)\(\s*"(\w+)"')
    assert {name for source in sources for name in counting.findall(source)} == {*SUMS, *HISTOGRAMS}


def test_a_shift_measures_for_its_epoch(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.queries("q1")
    world.clicks(("c1", "q1"))
    world.join()
    found, counted_for = measured_in(world.state()), view_state(world.state(), NOW_US)
    assert found is not None
    assert found.epoch == counted_for.epoch != ""
