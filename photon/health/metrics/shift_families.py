"""The metrics of what shifts have measured themselves: their names, help and labels. Pure.

They are those of a datacenter's last shift, dead or alive; `photon_measured_timestamp_seconds` says of when.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, product
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

from photon.dispatcher.shift.measured import ShiftMeasures
from photon.health.metrics.families import gauge
from photon.process.clock import MICROSECONDS
from photon.process.measures import BOUNDS_SECONDS, Histogram, Key
from photon.state.lifecycle import FAILURES

Number = TypeVar("Number")

# Help, and labels with the values that are told before they first occur, by the name of a sum.
SUMS: Mapping[str, tuple[str, Mapping[str, tuple[str, ...]]]] = {
    "batch_failures": (
        "Attempts of batches that did not end, by what kept them from it. None of their records is lost.",
        {"cause": tuple(event.name.lower() for event in FAILURES)},
    ),
    "registry_claims": (
        "Ids that batches claimed, by whether they hold them now. What is lost is claimed again, or waits.",
        {"result": ("won", "lost")},
    ),
    "registry_unanswered_ids": (
        "Ids that were claimed while too few endpoints answered: their batch is tried again.",
        {},
    ),
    "registry_appends": (
        "Entries that were offered to ledgers: the own one is there, or another process was first.",
        {"result": ("own", "outrun")},
    ),
    "registry_round_trips": ("Times that the registry's endpoints were waited for.", {}),
    "registry_failed_requests": (
        "Requests that an endpoint did not answer in full, by reason.",
        {"endpoint": (), "reason": ()},  # told by 0 with the first request to an endpoint
    ),
    "primary_lookups": (
        "Primary events that were looked for in the index, by what came of it.",
        {"result": ("found", "not_found")},
    ),
    "primary_read_bytes": ("Bytes of lines that were read from primary logs to join them.", {}),
}
HISTOGRAMS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "join_latency_seconds": ("From the later of two events' own times until their row could be read.", ()),
    "batch_seconds": ("Batches, from their first attempt to their end.", ()),
    "batch_stage_seconds": (
        "Stages of batches in the dispatcher: tasks, claim, commit, complete.",
        ("stage",),
    ),
    "task_seconds": ("Tasks of batches: index of primary events, or join.", ("stage",)),
    "registry_call_seconds": (
        "Calls of the registry, claim or close, with all their rounds and retries.",
        ("call",),
    ),
    "registry_request_seconds": ("Single requests to an endpoint.", ("endpoint",)),
}


def shift_families(found: Mapping[str, ShiftMeasures]) -> Iterator[Metric]:
    """Every metric of shifts, with samples for each datacenter whose shifts have written something."""
    yield gauge(
        "measured_timestamp_seconds",
        "When a shift last wrote what it had measured: all numbers of shifts are of then.",
        [((name,), one.written_us / MICROSECONDS) for name, one in found.items()],
    )
    for name, (text, labels) in SUMS.items():
        yield _counter(name, text, labels, found)
    for name, (text, names) in HISTOGRAMS.items():
        yield _histogram(name, text, names, found)


def _counter(
    name: str, text: str, labels: Mapping[str, tuple[str, ...]], found: Mapping[str, ShiftMeasures]
) -> CounterMetricFamily:
    family = CounterMetricFamily(f"photon_{name}", text, labels=("datacenter", *labels))
    for datacenter, one in found.items():
        # Known from the first scrape on: without a 0 before it, no rate shows the first event.
        sums = dict.fromkeys(product(*labels.values()), 0) | _of(name, one.measures.sums)
        for values, number in sums.items():
            family.add_metric((datacenter, *values), number)
    return family


def _histogram(
    name: str, text: str, labels: Iterable[str], found: Mapping[str, ShiftMeasures]
) -> HistogramMetricFamily:
    family = HistogramMetricFamily(f"photon_{name}", text, labels=("datacenter", *labels))
    for datacenter, one in found.items():
        for values, histogram in _of(name, one.measures.histograms).items():
            family.add_metric((datacenter, *values), _buckets(histogram), histogram.sum_seconds)
    return family


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    bounds = [*(str(bound) for bound in BOUNDS_SECONDS), "+Inf"]
    return list(zip(bounds, accumulate(map(float, histogram.counts)), strict=True))


def _of(name: str, numbers: Mapping[Key, Number]) -> dict[Key, Number]:
    """Those of one name, by the values of their labels."""
    return {key[1:]: number for key, number in numbers.items() if key[0] == name}
