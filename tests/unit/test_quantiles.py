"""Samples of measurements: what little is kept says what all of them say."""

import math
import random

import pytest

from photon.process.quantiles import MOST_VALUES, Sample, merge, percentiles


def test_few_measurements_are_kept_exactly():
    assert percentiles([Sample.of([3, 1, 2])], [0, 50, 100]) == [1, 2, 3]


def test_nothing_measured_has_no_percentiles():
    assert all(math.isnan(value) for value in percentiles([Sample.of([]), Sample()], [50, 99]))


def test_a_sample_never_grows_beyond_its_limit_and_keeps_both_ends():
    sample = Sample.of(range(100_000))
    assert (sample.count, len(sample.values)) == (100_000, MOST_VALUES)
    assert (sample.values[0], sample.values[-1]) == (0, 99_999)


def test_percentiles_of_thinned_samples_are_close_to_those_of_all_measurements():
    rng = random.Random(5)
    parts = [[rng.lognormvariate(0, 1) for _ in range(rng.randrange(1, 5_000))] for _ in range(30)]
    everything = sorted(value for part in parts for value in part)
    found = percentiles([Sample.of(part) for part in parts], [50, 90, 99])
    for percent, value in zip([50, 90, 99], found, strict=True):
        rank = sum(other <= value for other in everything) / len(everything)
        assert rank == pytest.approx(percent / 100, abs=0.01)


def test_a_large_sample_outweighs_a_small_one():
    assert percentiles([Sample.of([100.0] * 9_999), Sample.of([1.0])], [1]) == [100]


def test_merged_samples_say_the_same_in_less_room():
    parts = [Sample.of(range(start, start + 1_000)) for start in range(0, 50_000, 1_000)]
    merged = merge(parts)
    assert (merged.count, len(merged.values)) == (50_000, MOST_VALUES)
    assert percentiles([merged], [50])[0] == pytest.approx(25_000, rel=0.02)


def test_merging_nothing_is_an_empty_sample():
    assert merge([]).count == merge([Sample()]).count == 0
