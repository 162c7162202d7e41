"""Where a datacenter's work is: planned and not committed, to be taken up again, waiting, ordered.

Read from its state at one moment. Its logs say how much is unread (`photon.health.status`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from photon.dispatcher.recovery.orders import REFUSED, waiting_orders
from photon.process.clock import MICROSECONDS
from photon.state.database import StateReader
from photon.state.plan import Plan, PlanContent
from photon.state.waiting import retries as retrying


@dataclass(frozen=True)
class PlannedWork:
    """Ranges and waiting records of plans."""

    plans: int = 0
    primary_bytes: int = 0
    foreign_bytes: int = 0
    records: int = 0  # waiting records
    batch: int | None = None  # the open plan's
    attempt: int = 0


@dataclass(frozen=True)
class Orders:
    """Work orders that the dispatcher has not taken up yet."""

    waiting: int = 0
    oldest_seconds: float = 0.0
    refused: int = 0  # files that hold no order


@dataclass(frozen=True)
class Stages:
    """Work that a datacenter has at hand. Nothing of it is in the table yet, as far as its state knows."""

    uncommitted: PlannedWork = PlannedWork()  # the open plan
    requeued: PlannedWork = PlannedWork()  # plans that come before anything new
    oldest_waiting_seconds: dict[str, float] = field(default_factory=dict)  # for each reason
    orders: Orders = Orders()


@dataclass(frozen=True)
class StoredPlans:
    """The plans that a state holds, which may be large: each is read once."""

    open: Plan | None = None
    requeued: tuple[PlanContent, ...] = ()

    @property
    def contents(self) -> list[PlanContent]:
        """The contents of all of them."""
        return [*self.requeued, *([self.open.content] if self.open is not None else [])]


def stored_plans(state: StateReader | None) -> StoredPlans:
    """Read the plans of a state."""
    if state is None:
        return StoredPlans()
    return StoredPlans(state.open_plan(), tuple(content for _, content in state.requeued()))


def stages_of(state: StateReader | None, plans: StoredPlans, folder: Path, now_us: int) -> Stages:
    """The stages of a datacenter's work now. OSError, WaitingDamaged."""
    orders = orders_of(folder, now_us)
    if state is None:
        return Stages(orders=orders)
    plan, uncommitted = plans.open, PlannedWork()
    if plan is not None:
        uncommitted = planned_work([plan.content], plan.key.batch, state.attempts().begun)
    oldest = state.waiting.oldest_seen_us()
    ages = {reason: max(0, now_us - seen_us) / MICROSECONDS for reason, seen_us in oldest.items()}
    return Stages(uncommitted, planned_work(plans.requeued), ages, orders)


def planned_work(contents: Iterable[PlanContent], batch: int | None = None, attempt: int = 0) -> PlannedWork:
    """How much these plans are."""
    contents = list(contents)
    return PlannedWork(
        len(contents),
        sum(part.end_bytes - part.start_bytes for content in contents for part in content.primary),
        sum(part.end_bytes - part.start_bytes for content in contents for part in content.foreign),
        sum(retrying.count(content.retries) for content in contents),
        batch,
        attempt,
    )


def orders_of(folder: Path, now_us: int) -> Orders:
    """The work orders in a state folder that nobody has taken up yet."""
    paths, written_us = waiting_orders(folder), []
    for path in paths:
        try:
            written_us.append(path.stat().st_mtime_ns // 1_000)
        except FileNotFoundError:  # the dispatcher has just taken it up
            continue
    refused = sum(1 for _ in (folder / "orders").glob(f"*{REFUSED}"))
    oldest_us = now_us - min(written_us, default=now_us)
    return Orders(len(written_us), max(0, oldest_us) / MICROSECONDS, refused)
