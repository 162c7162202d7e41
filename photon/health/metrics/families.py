"""The metrics of a pipeline, made of what `photon status` knows. Pure.

A datacenter that can't be asked has `photon_readable` 0 and no other metric: its numbers are not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from photon.health.facts import PastVerification
from photon.health.status import DatacenterStatus
from photon.health.verdict import LEVELS, worst
from photon.process.clock import MICROSECONDS
from photon.state.outcomes import OUTCOME_CLASSES
from photon.storage.columns import TABLE_COLUMNS
from photon.verification.availability.budget import Budget
from photon.verification.report import MEANINGS

# The classes whose counts only grow within an epoch; `pending` counts the records that wait now.
FINAL = tuple(name for name in OUTCOME_CLASSES if name != "pending")
BROKEN = tuple(kind for kind, meaning in MEANINGS.items() if meaning.violation)
NOTED = tuple(kind for kind in MEANINGS if kind not in BROKEN)
Status = DatacenterStatus | Exception  # of a datacenter, or why it can't be asked
Family = TypeVar("Family", GaugeMetricFamily, CounterMetricFamily)
Samples = Iterable[tuple[tuple[str, ...], float]]  # the values of labels, and the number


def families(found: Mapping[str, Status]) -> list[Metric]:
    """Every metric, with a sample or several for each datacenter."""
    known = {name: one for name, one in found.items() if isinstance(one, DatacenterStatus)}
    readable = [((name,), float(name in known)) for name in found]
    return [
        gauge("readable", "Whether the state and the logs of the datacenter can be read.", readable),
        *_progress(known),
        *_records(known),
        *_logs(known),
        *_work(known),
        *_checks(known),
    ]


def _progress(known: Mapping[str, DatacenterStatus]) -> Iterator[Metric]:
    yield gauge(
        "up",
        "Whether a process joins: it gives signs of life, and the others have not ended its epoch.",
        _of_each(known, lambda one: float(one.facts.is_joining)),
    )
    yield gauge(
        "decided",
        "Whether people have put the datacenter on hold, or retired it.",
        [
            ((name, state), float(one.facts.decision == state))
            for name, one in known.items()
            for state in ("on hold", "retired")
        ],
        "decision",
    )
    yield gauge(
        "unavailable",
        "Whether the process waits for something that is not there: a lake, logs, a disk, the registry.",
        _of_each(known, lambda one: float(bool(one.facts.waits_for))),
    )
    yield gauge(
        "problems",
        "Problems that need somebody; the status of the pipeline names them.",
        _of_each(known, lambda one: len(one.broken)),
    )
    lags = [(name, one.facts.growth.lag_seconds) for name, one in known.items()]
    yield gauge(
        "lag_seconds",
        "How far the event times of records that were read are behind the clock.",
        [((name,), lag) for name, lag in lags if lag is not None],
    )
    for grade, text in (("complete", "no earlier event waits"), ("mostly_complete", "few earlier ones wait")):
        yield gauge(
            f"{grade}_up_to_timestamp_seconds",
            f"The event time up to which rows are there: {text}.",
            _completeness(known, grade),
        )
    yield gauge(
        "unmatched_up_to_timestamp_seconds",
        "The event time up to which a datacenter has written primaries without a foreign event.",
        [
            ((name,), seen.progress.up_to_us / MICROSECONDS)
            for name, one in known.items()
            if (seen := one.facts.unmatched) is not None and seen.progress is not None
        ],
    )
    yield gauge(
        "completeness_records",
        "Records of the latest day: in time, or late, once logs were read beyond their time.",
        [
            ((name, came), float(records))
            for name, one in known.items()
            if (said := one.completeness) is not None
            for came, records in (("in_time", said.came - said.came_late), ("late", said.came_late))
        ],
        "came",
    )


def _completeness(known: Mapping[str, DatacenterStatus], grade: str) -> Samples:
    for name, one in known.items():
        said = one.completeness
        if said is not None:
            up_to_us = said.complete_up_to_us if grade == "complete" else said.mostly_up_to_us
            if up_to_us is not None:
                yield (name,), up_to_us / MICROSECONDS


def _records(known: Mapping[str, DatacenterStatus]) -> Iterator[Metric]:
    yield _counter(
        "foreign_records",
        "Foreign records by what became of them. A new epoch of the datacenter begins at 0.",
        [((n, kind), one.counts.get(kind, 0)) for n, one in known.items() for kind in FINAL],
        "outcome",
    )
    yield _counter(
        "primary_records",
        "Primary records that were read.",
        _of_counts(known, "primary"),
    )
    yield _counter(
        "lost_bytes",
        "Bytes of logs that went away before they were read.",
        _of_counts(known, "lost_bytes"),
    )
    yield _counter(
        "conflicting_records",
        "Duplicates whose content differs from that of the joined record with their id.",
        _of_counts(known, "conflicting"),
    )
    yield _counter(
        "not_compared_records",
        "Duplicates whose content nobody could compare with that of the joined record.",
        _of_counts(known, "not_compared"),
    )
    yield _counter(
        "ambiguous_rows",
        "Rows that might have joined another primary event of the same id, with other content.",
        _of_counts(known, "ambiguous"),
    )
    yield _counter(
        "reused_primary_records",
        "Primary records with the id of another one and other content, as far as segments were merged.",
        _of_counts(known, "reused_primaries"),
    )
    yield gauge(
        "unread_files",
        "Log files that are there and can't be read, and that nobody has acknowledged.",
        _of_each(known, lambda one: len(one.facts.unread_files)),
    )
    yield gauge(
        "unread_file_bytes",
        "The stored bytes of the files that photon_unread_files counts.",
        _of_each(known, lambda one: sum(file.size_bytes for file in one.facts.unread_files)),
    )
    yield gauge(
        "open_loss_bytes",
        "Bytes of logs that went away before they were read, and that nobody has acknowledged.",
        _of_each(known, lambda one: one.facts.lost.bytes),
    )
    yield gauge(
        "open_loss_records",
        "Records that were lost while they waited, and that nobody has acknowledged.",
        _of_each(known, lambda one: one.facts.lost.records),
    )
    yield gauge(
        "may_be_lost_bytes",
        "Bytes lost for sure of the files that photon_may_be_lost_files counts; more may be lost.",
        _of_each(known, lambda one: one.facts.lost.may_be_lost_bytes),
    )
    yield gauge(
        "may_be_lost_files",
        "Log files that may have grown before they were truncated or went, not acknowledged yet.",
        _of_each(known, lambda one: len(one.facts.lost.may_be_lost)),
    )
    yield gauge(
        "waiting_records",
        "Records that wait, by what they wait for.",
        [((name, why), count) for name, one in known.items() for why, count in one.waiting.items()],
        "reason",
    )
    yield gauge(
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
    yield gauge("log_read_bytes", "Bytes that were read of the log's files.", read, "log")
    yield gauge("log_backlog_bytes", "Bytes that were not read yet.", backlog, "log")
    yield gauge("log_files", "Files that are known.", files, "log")
    gone = [(labels, float(log.gone_files)) for labels, log in logs]
    yield gauge("log_gone_files", "Known files that are gone, or were replaced.", gone, "log")


def _work(known: Mapping[str, DatacenterStatus]) -> Iterator[Metric]:
    yield _counter(
        "batches",
        "Batches that were completed. A new epoch begins at 0.",
        _of_each(known, lambda one: one.facts.state.completed),
    )
    yield gauge(
        "batch_attempt",
        "How often the open batch was tried; 0: no batch is open.",
        _of_each(known, lambda one: one.stages.uncommitted.attempt),
    )
    yield gauge(
        "requeued_plans",
        "Plans that are taken up again before anything new.",
        _of_each(known, lambda one: one.stages.requeued.plans),
    )
    orders = [(name, one.stages.orders) for name, one in known.items()]
    waiting = [((name, "waiting"), float(each.waiting)) for name, each in orders]
    refused = [((name, "refused"), float(each.refused)) for name, each in orders]
    text = "Work orders that wait to be taken up, and files among them that hold no order."
    yield gauge("work_orders", text, [*waiting, *refused], "state")


def _checks(known: Mapping[str, DatacenterStatus]) -> Iterator[Metric]:
    yield gauge(
        "check_level",
        "What each check says of the datacenter: 0 well, 1 warning, 2 error.",
        [
            ((name, check), float(LEVELS.index(worst(verdicts).level)))
            for name, one in known.items()
            for check, verdicts in one.verdicts.items()
        ],
        "check",
    )
    yield gauge(
        "foreign_commits",
        "Commits of others to each table that changed rows, and that no verification has followed.",
        [
            ((name, table), sum(each.commits for each in one.facts.foreign_commits if each.table == table))
            for name, one in known.items()
            for table in TABLE_COLUMNS
        ],
        "table",
    )
    verified = {name: one.facts.verified for name, one in known.items() if one.facts.verified is not None}
    yield gauge(
        "verified_timestamp_seconds",
        "When the newest verification was stored.",
        [((name,), one.at_us / MICROSECONDS) for name, one in verified.items()],
    )
    text = "Cases of broken promises in the newest verification, by kind."
    yield gauge("verified_cases", text, _cases(verified, "violations", BROKEN), "kind")
    text = "Cases in the newest verification that break no promise, by kind."
    yield gauge("verified_notes", text, _cases(verified, "findings", NOTED), "kind")


def _cases(verified: Mapping[str, PastVerification], part: str, kinds: Iterable[str]) -> Samples:
    """The cases of each of these kinds in stored reports."""
    found = {
        name: {each["kind"]: each["count"] for each in one.report[part]} for name, one in verified.items()
    }
    return [((name, kind), float(counts.get(kind, 0))) for name, counts in found.items() for kind in kinds]


def budget_families(budgets: Mapping[str, Budget]) -> Iterator[Metric]:
    """The metrics of error budgets, one budget for each datacenter with a minute that was judged."""
    yield gauge(
        "error_budget_minutes",
        "Minutes of 28 days in which too few events are readable in time: allowed, and bad.",
        [
            ((name, of), float(minutes))
            for name, one in budgets.items()
            for of, minutes in (("allowed", one.allowed), ("bad", one.bad))
        ],
        "of",
    )
    yield gauge(
        "error_budget_burning",
        "Whether the error budget is used up too fast.",
        [((name,), float(bool(one.burning))) for name, one in budgets.items()],
    )


def _of_counts(known: Mapping[str, DatacenterStatus], name: str) -> Samples:
    return _of_each(known, lambda one: one.counts.get(name, 0))


def _of_each(known: Mapping[str, DatacenterStatus], value: Callable[[DatacenterStatus], float]) -> Samples:
    """One number of each datacenter."""
    return [((name,), value(one)) for name, one in known.items()]


def gauge(name: str, text: str, samples: Samples, *labels: str) -> GaugeMetricFamily:
    """A metric with the label `datacenter` and others, whose values may fall."""
    return _filled(GaugeMetricFamily(f"photon_{name}", text, labels=("datacenter", *labels)), samples)


def _counter(name: str, text: str, samples: Samples, *labels: str) -> CounterMetricFamily:
    return _filled(CounterMetricFamily(f"photon_{name}", text, labels=("datacenter", *labels)), samples)


def _filled(family: Family, samples: Samples) -> Family:
    for labels, value in samples:
        family.add_metric(labels, value)
    return family
