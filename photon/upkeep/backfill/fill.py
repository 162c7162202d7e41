"""Fill: have a datacenter's dispatcher join what is missing in a window of event times (protocol E4).

Joins nothing: it leaves work orders, as recovery does, and may wait until they were taken up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from photon.dispatcher.recovery.orders import waiting_orders
from photon.dispatcher.shift.lease import lease_status_of
from photon.pipeline.file import Pipeline
from photon.process.clock import Clock, SystemClock
from photon.upkeep.backfill.windowed import in_window
from photon.upkeep.backfill.yielding import PAUSE_SECONDS, yield_to_joins
from photon.verification.days import Window
from photon.verification.recovery import Recovered, recover
from photon.verification.report import DatacenterReport, Finding

NOBODY_RUNS = "nobody runs datacenter {}: it takes the orders up at its next start"

Verify = Callable[[], DatacenterReport]


@dataclass(frozen=True)
class Filled:
    """The findings of a fill in its window, and its orders. `report` is of the last verification."""

    window: Window
    dry_run: bool
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

    @property
    def is_whole(self) -> bool:
        """Whether the window lacks nothing that this datacenter could join."""
        return not (self.left or self.left_out or self.problem)

    @property
    def broken(self) -> list[Finding]:
        """Findings that break a promise in the window, and that no fill can mend."""
        return [finding for finding in self.report.violations if not finding.cases]

    def as_dict(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "window"}
        return {**values, "report": self.report.as_dict()}


@dataclass
class Fill:
    """One fill of a window in one datacenter. `verify` classifies its records anew.

    Whatever else `verify` finds is left alone.
    """

    pipeline: Pipeline
    datacenter: str
    window: Window
    verify: Verify
    dry_run: bool = False
    wait: bool = False
    progress: Callable[[str], None] = lambda text: None
    clock: Clock = field(default_factory=SystemClock)

    def run(self) -> Filled:
        """Order what is missing; with `wait` again and again, until nothing more is found.

        RegistryUnavailable, RegistryMissing, RegistryMismatch, LakeUnavailable, StateUnavailable.
        """
        total, waits, rounds, before = Recovered(), "", 0, None
        while True:
            yield_to_joins(self.pipeline, self.datacenter, self.progress, self.clock)
            seen, rounds = in_window(self.pipeline, self.datacenter, self.verify(), self.window), rounds + 1
            found = sum(finding.count for finding in seen.report.findings if finding.cases)
            goes = before is None or goes_on(found, before)
            done = self._order(seen.report, self.dry_run or not goes)
            if goes:
                total.ordered += done.ordered
                total.kinds += done.kinds
            if not goes or not self.wait or not done.orders:
                break
            waits, before = self._wait_for(done.orders), found
            if waits:
                break
        return Filled(
            self.window,
            self.dry_run,
            seen.report,
            rounds,
            total.ordered,
            done.ordered,
            dict(seen.by_day),
            dict(total.kinds),
            dict(done.left_to),
            done.left_out,
            seen.outside,
            seen.untimed,
            waits,
            done.problem,
        )

    def _order(self, report: DatacenterReport, dry_run: bool) -> Recovered:
        return recover(self.pipeline, {self.datacenter: report.as_dict()}, dry_run)[self.datacenter]

    def _wait_for(self, orders: list[str]) -> str:
        """Wait until the dispatcher has taken up these orders; why it does not, if nobody runs it."""
        state = self.pipeline.datacenters[self.datacenter].state
        while any(order in path.name for path in waiting_orders(state) for order in orders):
            if not lease_status_of(state).is_locked:
                return NOBODY_RUNS.format(self.datacenter)
            self.progress("waits until the dispatcher has taken up the orders")
            self.clock.sleep(PAUSE_SECONDS)
        return ""


def goes_on(found: int, before: int) -> bool:
    """Whether another round is worth it: there is something to do, and less than before."""
    return 0 < found < before
