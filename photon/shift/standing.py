"""How a datacenter stands, in words: whether it is well, how far behind, what waits and why, what to do."""

from __future__ import annotations

from photon.clock import MICROSECONDS
from photon.shift.status import DatacenterStatus

LIVE_BYTES = 8 * 2**20  # what a live datacenter may find unread at any moment
SILENT_SECONDS = 60  # without a sign of life from the process that runs it
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
WHY = {
    "primary": "for a primary event that is in no log yet",
    "home": "a moment, for their home datacenter to join them",
    "held": "until the datacenter that registered them has published its batch",
    "horizon": "because their times lie ahead of the registry's horizon",
    "contested": "for the table to say whether an earlier batch has joined them",
    "requeued": "in work that is taken up again",
    "ordered": "to be looked at again, as photon recover has asked",
    "unjoinable": "for another look: they had been given up, and their primary may have come",
}


def headline(name: str, one: DatacenterStatus, now_us: int, start: str) -> str:
    """One sentence on a datacenter; `start` is the command that runs it."""
    backlog_bytes = one.primary.backlog_bytes + one.foreign.backlog_bytes
    waiting = sum(one.waiting.values())
    if one.epoch is None:
        return f"{name} has never run: start it with {start}"
    if one.running_process is None and (backlog_bytes or one.to_take_up_again):
        return f"{name} is NOT RUNNING, and {size(backlog_bytes)} of its logs wait: start it with {start}"
    if one.running_process is None:
        return f"{name} is at rest: all that is in its logs was read" + _waits(waiting)
    silent_seconds = (now_us - (one.last_sign_of_life_us or now_us)) / MICROSECONDS
    if silent_seconds > SILENT_SECONDS:
        return f"{name} is SILENT: no sign of life for {silent_seconds:,.0f} s; look at its log"
    if backlog_bytes > LIVE_BYTES:
        primary, foreign = size(one.primary.backlog_bytes), size(one.foreign.backlog_bytes)
        return f"{name} is catching up: {primary} of primary and {foreign} of foreign logs wait"
    return f"{name} is live" + _waits(waiting)


def sentences(one: DatacenterStatus) -> list[str]:
    """What waits and why, and for how long; what needs somebody."""
    said = [f"{count:,} events wait {WHY[reason]}" for reason, count in one.waiting.items()]
    if one.waiting:
        ages = ", ".join(f"{count:,} {age}" for age, count in one.waiting_by_age.items())
        said.append(f"they were first seen: {ages}")
    if lost := one.counts.get("lost_bytes", 0):
        said.append(f"{size(lost)} of logs went away before they were read")
    if missing := one.counts.get("missing", 0):
        said.append(f"{missing:,} events had a row that is gone: photon verify names them")
    return said + [f"NEEDS YOU: {problem}" for problem in one.problems]


def size(count_bytes: int) -> str:
    """A number of bytes, for people: 1.5 GiB."""
    amount, unit = float(count_bytes), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:,.0f} {_UNITS[unit]}" if unit == 0 or amount >= 100 else f"{amount:,.1f} {_UNITS[unit]}"


def _waits(waiting: int) -> str:
    return f"; {waiting:,} events wait" if waiting else ", and nothing waits"
