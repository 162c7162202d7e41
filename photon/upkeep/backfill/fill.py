"""Fill: have a datacenter's dispatcher join what is missing in a window of event times (protocol E4).

Joins nothing: it leaves work orders, as recovery does, and may wait until they were taken up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from photon.dispatcher.recovery.orders import waiting_orders
from photon.dispatcher.shift.lease import lease_status_of
from photon.pipeline.file import Pipeline
from photon.process.clock import Clock, SystemClock
from photon.upkeep.backfill.findings_in_window import FindingsInWindow, findings_in_window
from photon.upkeep.backfill.yielding import PAUSE_SECONDS, yield_to_joins
from photon.upkeep.plans import Say, silent
from photon.upkeep.recovery import Recovered, RecoveryPlan
from photon.verification.days import Window
from photon.verification.report import DatacenterReport, Finding

NOBODY_RUNS = "nobody runs datacenter {}: it takes the orders up at its next start"

Verify = Callable[[], DatacenterReport]


@dataclass(frozen=True)
class Filled:
    """The findings of a fill in its window, and its orders. `report` is of the last verification."""

    window: Window
    report: DatacenterReport
    rounds: int  # verifications: a report names so many cases, the next one the others
    ordered: int  # records
    left: int  # records that this datacenter is to look at again, after the last verification
    left_by_day: dict[str, int]  # findings of then by UTC day, whoever has to act
    kinds: dict[str, int]  # how many records have each kind of finding
    left_to: dict[str, int]  # records by the datacenter that has to act
    left_out: int  # more than the last report names, of any time
    outside: int  # records of other times, which were found too: nothing was ordered of them
    untimed: int  # records whose lines can't be read again
    waits: str  # why the records that are not taken up wait
    problem: str
    orders: tuple[str, ...] = ()  # ids of the orders that have them, of earlier fills too
    waiting: int = 0  # those records left that were ordered before, and not taken up yet

    @property
    def is_whole(self) -> bool:
        """Whether the window lacks nothing that this datacenter could join."""
        return not (self.left or self.left_out or self.problem)

    @property
    def broken(self) -> list[Finding]:
        """Findings that break a promise in the window, and that no fill can mend."""
        return [finding for finding in self.report.violations if not finding.cases]

    def as_dict(self) -> dict[str, Any]:
        left_out = ("window", "orders", "report")
        values = {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in left_out}
        return {**values, "report": self.report.as_dict()}


@dataclass(frozen=True)
class FillPlan:
    """The findings of one verification in a window, and orders to come for them."""

    window: Window
    datacenter: str
    findings: FindingsInWindow
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
        return sum(finding.count for finding in self.findings.report.findings if finding.cases)

    def _filled(self, recovered: Mapping[str, Recovered]) -> Filled:
        done, findings = recovered[self.datacenter], self.findings
        return Filled(
            self.window,
            findings.report,
            1,
            done.ordered,
            done.ordered + done.waiting.total(),
            dict(findings.by_day),
            dict(done.kinds),
            dict(done.left_to),
            done.left_out,
            findings.outside,
            findings.untimed,
            "",
            done.problem,
            (*done.orders, *done.waiting),
            done.waiting.total(),
        )


def plan_fill(
    pipeline: Pipeline,
    datacenter: str,
    window: Window,
    verify: Verify,
    say: Say = silent,
    clock: Clock | None = None,
) -> FillPlan:
    """Verify a datacenter once its joins keep up, and plan orders for what a window lacks.

    `verify` classifies the datacenter's records anew; all that it finds outside the window is left alone.
    LakeUnavailable, StateUnavailable, and what `verify` raises.
    """
    yield_to_joins(pipeline, datacenter, say, clock)
    findings = findings_in_window(pipeline, datacenter, verify(), window)
    recovery = RecoveryPlan(pipeline, {datacenter: findings.report.as_dict()})
    return FillPlan(window, datacenter, findings, recovery)


def fill_until_whole(
    pipeline: Pipeline, plan: Callable[[], FillPlan], say: Say = silent, clock: Clock | None = None
) -> Filled:
    """Apply one plan after the other, each once the orders before it were taken up, until one finds no less.

    Raises as `plan` and `FillPlan.apply`.
    """
    planned = plan()
    state = pipeline.datacenters[planned.datacenter].state
    done = planned.apply(say)
    ordered, kinds, rounds, waits = done.ordered, Counter(done.kinds), 1, ""
    while done.orders:
        waits = _wait_for(done.orders, state, planned.datacenter, say, clock or SystemClock())
        if waits:
            break
        found_before, planned = planned.count, plan()
        rounds += 1
        if not goes_on(planned.count, found_before):
            done = planned.expected
            break
        done = planned.apply(say)
        ordered, kinds = ordered + done.ordered, kinds + Counter(done.kinds)
    return replace(done, rounds=rounds, ordered=ordered, kinds=dict(kinds), waits=waits)


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
