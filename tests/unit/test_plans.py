"""Verbs plan and then apply: how a plan is carried out, and when it is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from photon.registry.register import Members, Register
from photon.upkeep.plans import MOST_PLANS, PlanOutdated, carry_out, refuse_outdated

REGISTER = Register("clicks", "hash", Members(1, ("a",)), epochs={"east": 1})


@dataclass(frozen=True)
class Step:
    """A plan that is outdated when `times_outdated` is not used up."""

    log: list[str]
    times_outdated: int

    @property
    def expected(self) -> str:
        return "expected"

    def apply(self, say: Callable[[str], None]) -> str:
        self.log.append("applied")
        if self.log.count("applied") <= self.times_outdated:
            raise PlanOutdated("the registry has changed")
        return "done"


def plans(log: list[str], times_outdated: int = 0) -> Callable[[], Step]:
    def plan() -> Step:
        log.append("planned")
        return Step(log, times_outdated)

    return plan


def test_a_dry_run_tells_what_is_expected_and_applies_nothing() -> None:
    log: list[str] = []
    assert carry_out(plans(log), dry_run=True) == "expected"
    assert log == ["planned"]


def test_an_outdated_plan_is_made_again_and_applied() -> None:
    log: list[str] = []
    assert carry_out(plans(log, times_outdated=1)) == "done"
    assert log == ["planned", "applied"] * 2


def test_a_verb_gives_up_where_every_plan_is_outdated() -> None:
    log: list[str] = []
    with pytest.raises(PlanOutdated):
        carry_out(plans(log, times_outdated=MOST_PLANS))
    assert log.count("planned") == MOST_PLANS


@pytest.mark.parametrize(
    "now",
    [
        replace(REGISTER, epochs={"east": 2}),
        replace(REGISTER, given_up=("east",)),
        replace(REGISTER, incarnation=2),
        replace(REGISTER, boundary_us=5),
    ],
)
def test_a_plan_is_refused_once_the_registry_has_changed(now: Register) -> None:
    with pytest.raises(PlanOutdated, match="nothing was done"):
        refuse_outdated(REGISTER, now)


@pytest.mark.parametrize(
    "now", [replace(REGISTER, members=Members(2, ("a", "b"))), replace(REGISTER, on_hold=("east",))]
)
def test_no_plan_depends_on_endpoints_or_holds(now: Register) -> None:
    refuse_outdated(REGISTER, now)
