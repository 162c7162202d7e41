"""Have what a verification found looked at again, by the dispatchers that may do so (protocol E4, E7, E8).

Decides which datacenter has to act, and leaves it a work order. Joins nothing, and changes no state itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from photon.dispatcher.recovery.orders import (
    MOST_RECORDS,
    OrderedRecord,
    already_ordered,
    waiting_orders,
    write_order,
)
from photon.pipeline.file import Pipeline
from photon.process.readable import counted
from photon.registry.opening import read_register
from photon.registry.register import Register
from photon.releases import copies
from photon.releases.release import CleanVerification, Place
from photon.state.database import STATE_FILE, StateUnavailable
from photon.state.outcomes import OutcomeClass
from photon.state.points import mark
from photon.state.view import open_view
from photon.storage.full_disks import why_not
from photon.storage.tokens import Occurrence
from photon.upkeep.plans import Say, silent
from photon.verification.case_pages import read_page
from photon.verification.classes import Evidence
from photon.verification.report import WITHOUT_ROWS, Case

# For one datacenter. The next recovery orders more, once its dispatcher has taken these up.
MOST_WAITING_ORDERS = 100
MOST_KINDS, MOST_KINDS_TOLD = 5, 20  # that a mark names, and a recovery: dead letters may have many reasons
ORDERED_BEFORE = "ordered before and not taken up yet: the datacenter does that when it runs"
NOT_HERE = "its state is not on this machine: recover where datacenter {} runs"

Reports = Mapping[str, Mapping[str, Any]]  # `DatacenterReport.as_dict`, by datacenter


@dataclass
class Recovered:
    """Records that were ordered for one datacenter, and records that are left to others."""

    ordered: int = 0  # records
    orders: list[str] = field(default_factory=list)  # their ids; none in a plan
    kinds: Counter[str] = field(default_factory=Counter)  # ordered records by kind of finding
    # Records that were ordered before, by the id of the order, which nobody has taken up yet.
    waiting: Counter[str] = field(default_factory=Counter)
    left_to: Counter[str] = field(default_factory=Counter)  # records by the datacenter that registered them
    unknown_to: Counter[str] = field(default_factory=Counter)  # those whose own report does not name them
    left_out: int = 0  # records that are left for the next round
    problem: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether something was found, and this datacenter has orders of all of it."""
        return bool(self.ordered or self.waiting) and not (self.left_to or self.left_out or self.problem)

    def as_dict(self) -> dict[str, Any]:
        return {
            "ordered": self.ordered,
            "orders": self.orders,
            "kinds": dict(self.kinds),
            "waiting": self.waiting.total(),
            "left_to": dict(self.left_to),
            "unknown_to": dict(self.unknown_to),
            "left_out": self.left_out,
            "problem": self.problem,
        }


Order = Callable[[Path, str, int, Sequence[OrderedRecord]], list[str]]


@dataclass(frozen=True)
class OrdersPlan:
    """Orders to come for one datacenter, as of the batch that it had completed.

    Its dispatcher takes up an order of its epoch alone, and no record that was taken up since that batch.
    """

    pipeline: Pipeline
    datacenter: str
    epoch: str
    completed: int
    records: Sequence[OrderedRecord]
    expected: Recovered

    def apply(self, say: Say = silent) -> Recovered:
        """Leave the orders. StateUnavailable."""
        state = self.pipeline.datacenters[self.datacenter].state
        orders = write_orders(state, self.epoch, self.completed, self.records)
        done = replace(self.expected, orders=orders)
        _mark(self.pipeline, self.datacenter, done)
        return done


@dataclass(frozen=True)
class RecoveryPlan:
    """Orders to come for what some reports name (`DatacenterReport.as_dict`, by datacenter).

    May be applied again, and by several at once, as `OrdersPlan` may. The pages of a report are read when the
    records in them are ordered, or told: all of them would fill the memory.
    """

    pipeline: Pipeline
    reports: Mapping[str, Mapping[str, Any]]

    @cached_property
    def expected(self) -> dict[str, Recovered]:
        """The result that leaving the orders would have. Raises as `apply`."""
        return _recover(self.pipeline, self.reports, lambda *_: [])

    def apply(self, say: Say = silent) -> dict[str, Recovered]:
        """Leave the orders.

        RegistryUnavailable, RegistryMissing, RegistryMismatch, LakeUnavailable, StateUnavailable.
        """
        done = _recover(self.pipeline, self.reports, write_orders)
        for name, one in done.items():
            _mark(self.pipeline, name, one)
            if one.is_whole:
                _tell_release(self.pipeline, name, self.reports[name])
        return done


def _mark(pipeline: Pipeline, datacenter: str, done: Recovered) -> None:
    if done.orders:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in done.kinds.most_common(MOST_KINDS))
        says = f"{counted(done.ordered, 'record', 'are')} to be looked at again: {kinds}"
        mark(pipeline, [datacenter], "recovered", says)


def _recover(
    pipeline: Pipeline, reports: Mapping[str, Mapping[str, Any]], order: Order
) -> dict[str, Recovered]:
    if not any(_with_cases(report) for report in reports.values()):
        return {name: Recovered() for name in reports}
    register = read_register(pipeline)
    retired = set(register.given_up)
    done = {name: Recovered() for name in reports if name in retired}  # the others' reports name what was its
    reports = {name: report for name, report in reports.items() if name not in retired}
    for name, report in reports.items():
        done[name] = _recover_one(pipeline, name, report, register, order)
    for name, report in reports.items():
        done[name].unknown_to = unknown_to(name, report, reports, retired)
    return done


def unknown_to(
    datacenter: str,
    report: Mapping[str, Any],
    reports: Mapping[str, Mapping[str, Any]],
    retired: Collection[str],
) -> Counter[str]:
    """How many records of a report nobody acts on: their holder has none of them in its logs.

    By holder, as far as its own report is here and names all that it has found.
    """
    named = {
        name: {case["event_id"] for finding in _with_cases(one) for case in finding["cases"]}
        for name, one in reports.items()
        if all(finding["count"] == len(finding["cases"]) for finding in _with_cases(one))
    }
    cases = [Case(**case) for finding in _with_cases(report) for case in finding["cases"]]
    acting = ((acts_on(case, datacenter, retired), case.event_id) for case in cases)
    return Counter(name for name, event_id in acting if name in named and event_id not in named[name])


def _with_cases(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [finding for finding in (*report["violations"], *report["findings"]) if finding.get("cases")]


def of_event(pipeline: Pipeline, reports: Reports, event_id: str) -> dict[str, dict[str, Any]]:
    """The reports with what recovery looks at of one event, as if nothing else were found. LakeUnavailable.

    They tell no release: what else is missing may still be.
    """
    found = {}
    for name, report in reports.items():
        cases: dict[str, list[Case]] = {}
        for page in _pages(pipeline, name, report):
            for kind, some in page:
                cases.setdefault(kind, []).extend(case for case in some if case.event_id == event_id)
        findings = [
            {"kind": kind, "count": len(some), "cases": [asdict(case) for case in some]}
            for kind, some in cases.items()
            if some
        ]
        found[name] = {**report, "violations": findings, "findings": [], "release": None}
    return found


def _recover_one(
    pipeline: Pipeline, datacenter: str, report: Mapping[str, Any], register: Register, order: Order
) -> Recovered:
    done, state = Recovered(), pipeline.datacenters[datacenter].state
    retired, were_freed = set(register.given_up), bool(register.lakes_gone)
    done.left_out = sum(finding["count"] for finding in _with_cases(report))
    room = max(0, MOST_WAITING_ORDERS - len(waiting_orders(state)))
    ordered = already_ordered(state, report["epoch"]) if room else {}
    for page in islice(_pages(pipeline, datacenter, report), room):
        records: list[OrderedRecord] = []
        for kind, cases in page:
            acting = Counter(acts_on(case, datacenter, retired) for case in cases)
            own = [case for case in cases if acts_on(case, datacenter, retired) == datacenter]
            done.left_out -= len(cases)
            done.left_to += Counter({name: n for name, n in acting.items() if name != datacenter})
            new, waiting = without_ordered(ordered_records(own, kind, datacenter, were_freed), ordered)
            done.kinds[kind] += len(new)
            done.waiting += waiting
            records += new
        if records and not (state / STATE_FILE).exists():
            done.problem = NOT_HERE.format(datacenter)
        else:
            done.ordered += len(records)
            done.orders += order(state, report["epoch"], report["completed"], records)
    done.kinds = +done.kinds
    return done


def _tell_release(pipeline: Pipeline, datacenter: str, report: Mapping[str, Any]) -> None:
    """Have releases count the datacenter's statements once all orders are taken up (R4).

    StateUnavailable. Only if each event without a row has one.
    """
    found = (*report["violations"], *report["findings"])
    without = [finding for finding in found if finding["kind"] in WITHOUT_ROWS and not finding.get("cases")]
    if report.get("release") is None or without:
        return
    place = pipeline.datacenters[datacenter]
    with open_view(place.state) as state:
        if state is not None and state.epoch == report["epoch"]:
            ordered = Place(int(report["epoch"]), state.completed)
            with suppress(OSError):  # a lake that takes nothing: the next verification tells it
                copies.note_verified(place.lake, CleanVerification(report["release"], ordered))


def recovery_sentences(done: Mapping[str, Recovered], dry_run: bool) -> list[str]:
    """The orders of a recovery, for people."""
    lines: list[str] = []
    for name, one in done.items():
        verb = "would be" if dry_run else "are"
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in one.kinds.most_common(MOST_KINDS_TOLD))
        if one.problem:
            lines.append(f"{name}: PROBLEM {kinds}: {one.problem}")
        elif one.ordered:
            lines.append(f"{name}: {counted(one.ordered, 'record', verb)} looked at again ({kinds})")
        if waiting := one.waiting.total():
            lines.append(f"{name}: {counted(waiting, 'record')} {ORDERED_BEFORE}")
        lines += [
            f"{name}: {counted(count, 'record', 'are')} of datacenter {holder}, which has to act: recover it "
            "there"
            for holder, count in one.left_to.items()
        ]
        lines += [
            f"{name}: PROBLEM {count:,} of them are in no log that datacenter {holder} has read, so nobody "
            f"acts: copy the log files that have them from {name} to {holder}, and recover again"
            for holder, count in one.unknown_to.items()
        ]
        if one.left_out:
            lines.append(
                f"{name}: {counted(one.left_out, 'record', 'are')} left for the next round: recover again "
                "once these are joined"
            )
    return lines or ["nothing is to be recovered"]


def _pages(
    pipeline: Pipeline, datacenter: str, report: Mapping[str, Any]
) -> Iterator[list[tuple[str, list[Case]]]]:
    """The cases of a report by kind: those that are in it, then page by page. LakeUnavailable."""
    findings = _with_cases(report)
    if findings:
        yield [(each["kind"], [Case(**case) for case in each["cases"]]) for each in findings]
    for finding in findings:
        for name in finding.get("pages", ()):
            yield [(finding["kind"], read_page(pipeline, datacenter, name))]


def write_orders(state: Path, epoch: str, completed: int, records: Sequence[OrderedRecord]) -> list[str]:
    """Leave orders for these records in a state folder; their ids. StateUnavailable."""
    try:
        return [
            write_order(state, epoch, completed, "photon recover", records[at : at + MOST_RECORDS]).order_id
            for at in range(0, len(records), MOST_RECORDS)
        ]
    except OSError as error:
        raise StateUnavailable(f"cannot leave a work order in {state}: {why_not(error, state)}") from error


def without_ordered(
    records: Sequence[OrderedRecord], ordered: Mapping[Occurrence, str]
) -> tuple[list[OrderedRecord], Counter[str]]:
    """The records that no order has yet, and how many the others are, by the id of their order."""
    new = [one for one in records if one.occurrence not in ordered]
    return new, Counter(ordered[one.occurrence] for one in records if one.occurrence in ordered)


def acts_on(case: Case, datacenter: str, retired: Collection[str]) -> str:
    """The datacenter whose dispatcher has to look at a record of `datacenter` again.

    What another one joined is its own to join again: it alone writes its table and frees what it holds.
    It has the event in its own logs, and so in its own report. One that is retired never does.
    """
    if case.holder is None or case.holder in retired:
        return datacenter
    return case.holder


def ordered_records(
    cases: Iterable[Case], kind: str, datacenter: str, were_freed: bool = False
) -> list[OrderedRecord]:
    """The records of these cases, each with the class that the dispatcher has counted it in."""
    ordered, events = [], set()
    for case in sorted(cases, key=lambda case: Occurrence.parse(case.occurrence)):
        is_first = case.event_id not in events
        events.add(case.event_id)
        ordered.append(
            OrderedRecord(
                Occurrence.parse(case.occurrence),
                case.event_id,
                counted_as(case, kind, datacenter, is_first, were_freed),
                is_kept=bool(case.evidence & Evidence.GIVEN_UP),
            )
        )
    return ordered


def counted_as(
    case: Case, kind: str, datacenter: str, is_first: bool, were_freed: bool = False
) -> OutcomeClass:
    """The class in which the dispatcher has counted a record, as far as tables and registry tell.

    `is_first`: of the records of its event that are looked at again. One of them was joined. `were_freed`: a
    datacenter was retired without its lake, so that nobody holds any more what it had joined.
    """
    if kind.startswith("unjoinable") or case.evidence & Evidence.UNJOINED:
        return "unjoinable"
    if case.evidence & Evidence.TOO_OLD:
        return "too_old"
    if were_freed if case.holder is None else case.holder != datacenter:
        return "joined_elsewhere"
    return "joined" if is_first else "duplicates"
