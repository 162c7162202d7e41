"""Fill: recovery of a datacenter's rows in a window of event times (protocol E4).

Joins nothing: recovery leaves work orders. A fill may wait until they were taken up, and look again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from photon.dispatcher.recovery.orders import waiting_orders
from photon.dispatcher.shift.lease import lease_status_of
from photon.pipeline.file import Pipeline
from photon.process.clock import Clock, SystemClock
from photon.upkeep.backfill.days import day_of
from photon.upkeep.backfill.yielding import PAUSE_SECONDS, yield_to_joins
from photon.upkeep.plans import Say, silent
from photon.upkeep.recovery import Recovered, RecoveryPlan
from photon.verification.report import DatacenterReport, Finding

NOBODY_RUNS = "nobody runs datacenter {}: it takes the orders up at its next start"

Verify = Callable[[], DatacenterReport]


@dataclass(frozen=True)
class Filled:
    """The orders of a fill, and the last verification of its window."""

    report: DatacenterReport
    recovered: Recovered  # what all rounds have ordered; the rest is of the last one
    left: int  # records that this datacenter is to look at again, after the last verification
    rounds: int = 1  # verifications: a report names so many cases, the next one the others
    waits: str = ""  # why the records that are not taken up wait

    @property
    def is_whole(self) -> bool:
        """Whether the window lacks nothing that this datacenter could join."""
        return not (self.left or self.recovered.left_out or self.recovered.problem)

    @property
    def broken(self) -> list[Finding]:
        """Findings that break a promise, and that no fill can mend."""
        return [finding for finding in self.report.violations if not finding.cases]

    @cached_property
    def left_by_day(self) -> Counter[str]:
        """Count the cases of the last verification by UTC day, those of other datacenters too."""
        cases = (case for finding in self.report.findings for case in finding.cases)
        return Counter(str(day_of(case.time_us)) for case in cases if case.time_us is not None)

    def as_dict(self) -> dict[str, Any]:
        own = {"rounds": self.rounds, "left": self.left, "left_by_day": self.left_by_day, "waits": self.waits}
        return {**self.recovered.as_dict(), **own, "report": self.report.as_dict()}


@dataclass(frozen=True)
class FillPlan:
    """The findings of one verification of a window, and orders to come for them."""

    datacenter: str
    report: DatacenterReport
    recovery: RecoveryPlan

    @property
    def expected(self) -> Filled:
        """The result that leaving the orders would have. Raises as `apply`."""
        return self._filled(self.recovery.expected)

    def apply(self, say: Say = silent) -> Filled:
        """Leave the orders.

        RegistryUnavailable, RegistryMissing, RegistryMismatch, LakeUnavailable, StateUnavailable.
        """
        return self._filled(self.recovery.apply(say))

    @property
    def count(self) -> int:
        """How many records of the window are to be looked at again, by whichever datacenter."""
        return sum(finding.count for finding in self.report.findings if finding.cases)

    def _filled(self, recovered: Mapping[str, Recovered]) -> Filled:
        done = recovered[self.datacenter]
        return Filled(self.report, done, left=done.ordered + done.waiting.total())


def plan_fill(
    pipeline: Pipeline, datacenter: str, verify: Verify, say: Say = silent, clock: Clock | None = None
) -> FillPlan:
    """Verify a window of a datacenter once its joins keep up, and plan orders for what it lacks.

    `verify` classifies the datacenter's records of the window anew. LakeUnavailable, StateUnavailable, and
    what `verify` raises.
    """
    yield_to_joins(pipeline, datacenter, say, clock)
    report = verify()
    # The others are of all times, such as records that conflict.
    findings = tuple(one for one in report.findings if one.cases or one.meaning.violation)
    report = replace(report, findings=findings)
    return FillPlan(datacenter, report, RecoveryPlan(pipeline, {datacenter: report.as_dict()}))


def fill_until_whole(
    pipeline: Pipeline, plan: Callable[[], FillPlan], say: Say = silent, clock: Clock | None = None
) -> Filled:
    """Apply one plan after the other, each once the orders before it were taken up, until one finds no less.

    Raises as `plan` and `FillPlan.apply`.
    """
    planned = plan()
    state = pipeline.datacenters[planned.datacenter].state
    done = planned.apply(say)
    ordered, kinds, rounds, waits = done.recovered.ordered, Counter(done.recovered.kinds), 1, ""
    while orders := (*done.recovered.orders, *done.recovered.waiting):
        waits = _wait_for(orders, state, planned.datacenter, say, clock or SystemClock())
        if waits:
            break
        found_before, planned = planned.count, plan()
        rounds += 1
        if not goes_on(planned.count, found_before):
            done = planned.expected
            break
        done = planned.apply(say)
        ordered, kinds = ordered + done.recovered.ordered, kinds + done.recovered.kinds
    recovered = replace(done.recovered, ordered=ordered, kinds=kinds)
    return replace(done, recovered=recovered, rounds=rounds, waits=waits)


def _wait_for(orders: Sequence[str], state: Path, datacenter: str, say: Say, clock: Clock) -> str:
    """Wait until the dispatcher has taken up these orders; why it does not, if nobody runs it."""
    while any(order in path.name for path in waiting_orders(state) for order in orders):
        if not lease_status_of(state).is_locked:
            return NOBODY_RUNS.format(datacenter)
        say("waits until the dispatcher has taken up the orders")
        clock.sleep(PAUSE_SECONDS)
    return ""


def goes_on(found: int, before: int) -> bool:
    """Whether another round is worth it: there is something to do, and less than before."""
    return 0 < found < before
