"""The metrics of a pipeline, made of what `photon status` reads. Pure.

A datacenter that can't be asked has `photon_readable` 0 and no other metric: its numbers are not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from photon.clock import MICROSECONDS
from photon.shift.status import DatacenterStatus

# The classes that only grow within an epoch. The others are of records of now.
FINAL = ("joined", "joined_elsewhere", "duplicates", "filtered", "skipped", "unjoinable", "too_old")
LETTERS = ("dead_letters", "lost")
Status = DatacenterStatus | Exception
Family = TypeVar("Family", GaugeMetricFamily, CounterMetricFamily)
Samples = Iterable[tuple[tuple[str, ...], float]]  # the values of labels, and the number


def families(found: Mapping[str, Status], now_us: int) -> list[Metric]:
    """Every metric, with a sample or several for each datacenter."""
    known = {name: one for name, one in found.items() if isinstance(one, DatacenterStatus)}
    readable = [((name,), float(name in known)) for name in found]
    return [
        _gauge("readable", "Whether the state and the logs of the datacenter can be read.", readable),
        *_standing(known, now_us),
        *_records(known),
        *_logs(known),
        *_work(known),
    ]


def _standing(known: Mapping[str, DatacenterStatus], now_us: int) -> Iterator[Metric]:
    yield _gauge(
        "up",
        "Whether a process joins: it gives signs of life, and the others have not ended its epoch.",
        [((name,), float(is_up(one, now_us))) for name, one in known.items()],
    )
    yield _gauge(
        "decided",
        "Whether people have put the datacenter on hold, or retired it.",
        [
            ((name, state), float(one.decision == state))
            for name, one in known.items()
            for state in ("on hold", "retired")
        ],
        "decision",
    )
    yield _gauge(
        "unavailable",
        "Whether its process waits for something that is not there: a lake, logs, a disk, the registry.",
        [((name,), float(bool(one.waits_for))) for name, one in known.items()],
    )
    yield _gauge(
        "problems",
        "Problems that need somebody; photon status names them.",
        [((name,), len(one.problems)) for name, one in known.items()],
    )
    lags = [(name, one.watermark_lag_seconds) for name, one in known.items()]
    yield _gauge(
        "lag_seconds",
        "How far the event times that are read are behind the clock.",
        [((name,), lag) for name, lag in lags if lag is not None],
    )
    for what, text in (("complete", "no earlier event waits"), ("mostly_complete", "few earlier ones wait")):
        yield _gauge(
            f"{what}_up_to_timestamp_seconds",
            f"The event time up to which rows are there: {text}.",
            _completeness(known, what),
        )


def _completeness(known: Mapping[str, DatacenterStatus], what: str) -> Samples:
    for name, one in known.items():
        said = one.completeness
        if said is not None:
            up_to_us = said.complete_up_to_us if what == "complete" else said.mostly_up_to_us
            if up_to_us is not None:
                yield (name,), up_to_us / MICROSECONDS


def is_up(one: DatacenterStatus, now_us: int) -> bool:
    """Whether a process of the datacenter is at work, as far as its lease tells."""
    if one.running_process is None or one.is_fenced:
        return False
    silent_us = now_us - (one.last_sign_of_life_us or 0)
    return silent_us <= one.silent_after_seconds * MICROSECONDS


def _records(known: Mapping[str, DatacenterStatus]) -> Iterator[Metric]:
    yield _counter(
        "foreign_records",
        "Foreign records by what became of them. A new epoch of the datacenter begins at 0.",
        [((n, kind), one.counts.get(kind, 0)) for n, one in known.items() for kind in (*FINAL, *LETTERS)],
        "outcome",
    )
    yield _counter(
        "primary_records",
        "Primary records that were read.",
        [((name,), one.counts.get("primary", 0)) for name, one in known.items()],
    )
    yield _counter(
        "lost_bytes",
        "Bytes of logs that went away before they were read.",
        [((name,), one.counts.get("lost_bytes", 0)) for name, one in known.items()],
    )
    yield _gauge(
        "missing_rows",
        "Events that were joined and whose row is gone.",
        [((name,), one.counts.get("missing", 0)) for name, one in known.items()],
    )
    yield _gauge(
        "waiting_records",
        "Records that wait, by what they wait for.",
        [((name, why), count) for name, one in known.items() for why, count in one.waiting.items()],
        "reason",
    )
    yield _gauge(
        "oldest_waiting_seconds",
        "How long ago the oldest record that waits was first seen.",
        [
            ((name, why), age)
            for name, one in known.items()
            for why, age in one.stages.oldest_waiting_seconds.items()
        ],
        "reason",
    )


def _logs(known: Mapping[str, DatacenterStatus]) -> Iterator[Metric]:
    logs = [
        ((name, side), log)
        for name, one in known.items()
        for side, log in (("primary", one.primary), ("foreign", one.foreign))
    ]
    read = [(labels, float(log.read_bytes)) for labels, log in logs]
    backlog = [(labels, float(log.backlog_bytes)) for labels, log in logs]
    files = [(labels, float(log.files)) for labels, log in logs]
    yield _gauge("log_read_bytes", "Bytes that were read of the log's files.", read, "log")
    yield _gauge("log_backlog_bytes", "Bytes that were not read yet.", backlog, "log")
    yield _gauge("log_files", "Files that are known.", files, "log")


def _work(known: Mapping[str, DatacenterStatus]) -> Iterator[Metric]:
    yield _counter(
        "batches",
        "Batches that were completed. A new epoch begins at 0.",
        [((name,), one.batch) for name, one in known.items()],
    )
    yield _gauge(
        "batch_attempt",
        "How often the open batch was tried; 0: there is none.",
        [((name,), one.stages.uncommitted.attempt) for name, one in known.items()],
    )
    yield _gauge(
        "requeued_plans",
        "Plans that are taken up again before anything new.",
        [((name,), one.stages.requeued.plans) for name, one in known.items()],
    )
    orders = [(name, one.stages.orders) for name, one in known.items()]
    waiting = [((name, "waiting"), float(each.waiting)) for name, each in orders]
    refused = [((name, "refused"), float(each.refused)) for name, each in orders]
    text = "Work orders that wait to be taken up, and files that hold none."
    yield _gauge("work_orders", text, [*waiting, *refused], "state")


def _gauge(name: str, text: str, samples: Samples, *labels: str) -> GaugeMetricFamily:
    return _filled(GaugeMetricFamily(f"photon_{name}", text, labels=("datacenter", *labels)), samples)


def _counter(name: str, text: str, samples: Samples, *labels: str) -> CounterMetricFamily:
    return _filled(CounterMetricFamily(f"photon_{name}", text, labels=("datacenter", *labels)), samples)


def _filled(family: Family, samples: Samples) -> Family:
    for labels, value in samples:
        family.add_metric(labels, value)
    return family
