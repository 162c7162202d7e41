"""Quantiles of many measurements kept in little room: samples of evenly spaced order statistics.

A task measures thousands of rows, and a minute has hundreds of tasks. Each task sends on few numbers
(`MOST_VALUES`), the smallest and the largest among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

# A quantile of a sample is off by at most half a step between two of its values: 0.2 % of the rank.
MOST_VALUES = 256


@dataclass(frozen=True, eq=False)
class Sample:
    """`count` measurements; each of `values` (float64, ascending) represents an equal share of them."""

    count: int = 0
    values: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    @classmethod
    def of(cls, measurements: ArrayLike) -> Sample:
        """A sample of measurements; exact if there are no more than `MOST_VALUES`."""
        values = np.sort(np.asarray(measurements, dtype=np.float64))
        return merge([cls(len(values), values)])


def merge(samples: Sequence[Sample]) -> Sample:
    """One sample of all measurements, each value weighted by how many it represents."""
    values, weights = _weighted(samples)
    count = sum(sample.count for sample in samples)
    exact = all(sample.count == len(sample.values) for sample in samples)
    if exact and len(values) <= MOST_VALUES:
        return Sample(count, values)
    ranks = np.linspace(0, 1, min(count, MOST_VALUES))
    return Sample(count, values[_at(weights, ranks)] if count else values)


def percentiles(samples: Sequence[Sample], percents: Sequence[float]) -> list[float]:
    """The percentiles over all samples (nearest rank); NaN where nothing was measured."""
    values, weights = _weighted(samples)
    if not len(values):
        return [float("nan")] * len(percents)
    return [float(value) for value in values[_at(weights, np.asarray(percents) / 100)]]


def up_to(sample: Sample, bounds: Sequence[float]) -> list[int]:
    """Estimate how many measurements are at most each bound."""
    if not sample.count:
        return [0] * len(bounds)
    share = np.searchsorted(sample.values, np.asarray(bounds), side="right") / len(sample.values)
    return [round(each) for each in (share * sample.count).tolist()]


def _weighted(samples: Sequence[Sample]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """All values, ascending, each with the number of measurements that it represents."""
    filled = [sample for sample in samples if sample.count]
    if not filled:
        return np.empty(0), np.empty(0)
    values = np.concatenate([sample.values for sample in filled])
    weights = np.concatenate(
        [np.full(len(sample.values), sample.count / len(sample.values)) for sample in filled]
    )
    order = np.argsort(values, kind="stable")
    return values[order], weights[order]


def _at(weights: NDArray[np.float64], ranks: NDArray[np.float64]) -> NDArray[np.int64]:
    """The position of the value at each rank (0 to 1): there the sum of weights reaches it."""
    reached = np.cumsum(weights)
    # Without a tolerance, sums of weights such as 1000/256 miss a rank by rounding.
    wanted = ranks * reached[-1] * (1 - 1e-12)
    positions: NDArray[np.int64] = np.minimum(np.searchsorted(reached, wanted), len(weights) - 1)
    return positions
