"""Who holds an event, and whether for good; pure."""

from __future__ import annotations

from collections.abc import Mapping

from photon.registry.interface import Holder
from photon.tokens import PlanKey, Token


def is_of_plan(holder: Holder, plan: PlanKey) -> bool:
    """Whether a run of this plan holds the event."""
    return holder.token is not None and Token.parse(holder.token).plan == plan


def is_published(holder: Holder, published: Mapping[str, int]) -> bool:
    """Whether another datacenter has joined the event for good (protocol A16).

    `published` was read before the holder was: what is released by then is not held any more.
    """
    if holder.token is None:  # cleared, so its row is in the output
        return True
    plan = Token.parse(holder.token).plan
    return plan.batch <= published.get(plan.epoch, 0)
