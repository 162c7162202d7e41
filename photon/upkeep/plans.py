"""How every verb is carried out: it is planned, then the plan is applied, or only told in a dry run.

A plan is made without a lock, for joins and other verbs go on beside it. So each verb on the registry looks
again before it applies a plan, and refuses if the registry has changed since (`refuse_outdated`). `carry_out`
makes another plan then, since nothing was done yet. From that look on every step is conditional by itself: a
boundary only rises, a generation follows the planned one or none (L7), a commit never takes the place of
another one (E1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, TypeVar

from photon.process.errors import UserError
from photon.registry.register import Register

Say = Callable[[str], None]
Result_co = TypeVar("Result_co", covariant=True)
Result = TypeVar("Result")

MOST_PLANS = 5  # one for each epoch that may begin meanwhile: a verb needs seconds, and epochs are rare


class PlanOutdated(UserError):
    """The registry is not as it was when the plan was made; nothing of the plan was done."""


class UpkeepPlan(Protocol[Result_co]):
    """A frozen dataclass that has all that is to be done."""

    @property
    def expected(self) -> Result_co:
        """The result that applying the plan has if nothing changes: all that a dry run tells."""
        ...

    def apply(self, say: Say) -> Result_co:
        """Do it, and tell `say` how far it is. PlanOutdated."""
        ...


def silent(text: str) -> None:
    """Tell nobody."""


def carry_out(plan: Callable[[], UpkeepPlan[Result]], dry_run: bool = False, say: Say = silent) -> Result:
    """Make a plan, and apply it unless this is a dry run. PlanOutdated, and what plan and verb raise."""
    for tries_left in reversed(range(MOST_PLANS)):
        made = plan()
        if dry_run:
            return made.expected
        try:
            return made.apply(say)
        except PlanOutdated:
            if not tries_left:
                raise
    raise AssertionError("the last try returns or raises")


def refuse_outdated(planned: Register, now: Register) -> None:
    """PlanOutdated if epochs, ledgers or tables changed; endpoints and holds may: no plan depends on them."""
    if replace(planned, members=now.members, on_hold=now.on_hold) != now:
        raise PlanOutdated("the registry has changed since this was planned; nothing was done: run it again")
