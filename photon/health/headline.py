"""A datacenter in words: how far behind it is, what waits and why.

Who is at work is decided by `photon.health.activity`, and whether that is well by `photon.health.verdicts`.
"""

from __future__ import annotations

from photon.dispatcher.shift.stages import PlannedWork, Stages
from photon.dispatcher.shift.status import DatacenterStatus
from photon.health.activity import activity_of, facts_of
from photon.process.clock import MICROSECONDS
from photon.process.pace import size, span
from photon.state.waiting.reasons import WHY


def headline(name: str, one: DatacenterStatus, now_us: int, typed_file: str) -> str:
    """One sentence on a datacenter; what to do names the pipeline file as it is typed."""
    join = f"photon join {typed_file} -d {name}"
    start = _how_to_start(one, join)
    backlog_bytes = one.primary.backlog_bytes + one.foreign.backlog_bytes
    waiting = sum(one.waiting.values())
    silence = f"no sign of life for {one.silent_seconds(now_us):,.0f} s"
    facts = facts_of(one, now_us)
    match activity_of(facts):
        case "on hold" | "retired":
            return f"{name} is {_decided(name, one, typed_file)}"
        case "new" if one.has_rows_without_state:
            return (
                f"{name} has no state, and its lake has rows: put the state folder back if it is only away; "
                f"else a new epoch reads the logs again and joins what has no row: {start}"
            )
        case "new":
            return f"{name} has never run: {start}"
        case "at half a line":
            return f"{name} is at rest: {_half_lines(one)}" + (_waits(waiting) if waiting else "")
        case "not running":
            return f"{name} is NOT RUNNING, and {size(backlog_bytes)} of its logs wait: {start}"
        case "at rest":
            return f"{name} is at rest: all that is in its logs was read" + _waits(waiting)
        case "fenced":
            quiet = f" ({silence})" if facts.is_silent and not facts.is_stopped else ""
            return (
                f"{name} is FENCED: it was silent, and the others have ended its epoch. "
                f"Process {one.running_process}{quiet} begins a new one when it goes on: continue it, or end "
                f"it and then {join}" + (f"; {one.what_ends_it}" if one.is_stopped else "")
            )
        case "silent":
            return f"{name} is SILENT: {silence}; {one.what_ends_it or 'look at its log'}"
        case "waiting":
            waited = span(max(0, now_us - one.waits_since_us) / MICROSECONDS)
            return f"{name} WAITS for {waited}: {one.waits_for}; mend that, and it goes on by itself"
        case "catching up":
            primary, foreign = size(one.primary.backlog_bytes), size(one.foreign.backlog_bytes)
            return f"{name} is catching up: {primary} of primary and {foreign} of foreign logs wait"
        case "live":
            return f"{name} is live" + _waits(waiting)


def _how_to_start(one: DatacenterStatus, join: str) -> str:
    """What to do before a start, if a start alone does not help; `NEEDS YOU` has the reasons."""
    if one.blocks:
        return "mend first what NEEDS YOU says below: no start joins anything before that"
    if one.ended_by:
        return f"do first what NEEDS YOU says below of its last join, then start it with {join}"
    return f"start it with {join}"


def _half_lines(one: DatacenterStatus) -> str:
    first, *others = one.half_lines
    where = f"{first} and {len(others):,} more files" if others else first
    length = size(one.primary.backlog_bytes + one.foreign.backlog_bytes)
    return f"only half a line waits in {where} ({length}), and its writer has to end it"


def _decided(name: str, one: DatacenterStatus, typed_file: str) -> str:
    ends = "; its process ends within seconds" if one.running_process is not None else ""
    if one.is_stopped:
        ends = f"; {one.what_ends_it}"
    if one.decision == "retired":
        return f"RETIRED: it was given up as lost, and never runs again{ends}"
    backlog_bytes = one.primary.backlog_bytes + one.foreign.backlog_bytes
    waits = f"; {size(backlog_bytes)} of its logs wait" if backlog_bytes else ""
    return f"ON HOLD{waits}{ends}; resume it with photon resume {typed_file} {name}"


def sentences(one: DatacenterStatus) -> list[str]:
    """What there is to do, stage by stage, what waits and why, and for how long; what needs somebody."""
    said = _planned(one.stages) + [_waiting(reason, one) for reason in one.waiting]
    if one.waiting:
        ages = ", ".join(f"{count:,} {age}" for age, count in one.waiting_by_age.items())
        said.append(f"they were first seen: {ages}")
    said += _orders(one)
    if deletable := len(one.primary.safe_to_delete) + len(one.foreign.safe_to_delete):
        safe = size(one.primary.safe_to_delete_bytes + one.foreign.safe_to_delete_bytes)
        said.append(f"{deletable:,} log files ({safe}) need not be kept: --safe-to-delete names them")
    if one.kept_log_bytes:
        said.append(f"{size(one.kept_log_bytes)} of logs that were deleted unread are kept for a week")
    if lost := one.counts.get("lost_bytes", 0):
        known = "" if one.lost.bytes else ", which people know of"
        said.append(f"{size(lost)} of logs went away before they were read{known}")
    if conflicting := one.counts.get("conflicting", 0):
        of_all = f"{conflicting:,} of {one.counts['duplicates']:,} duplicates"
        said.append(f"{of_all} say something else than the record of their id that joined")
    said += [f"note: {note}" for note in one.notes]
    return said + [f"NEEDS YOU: {problem}" for problem in one.problems]


def _planned(stages: Stages) -> list[str]:
    said, open_, again = [], stages.uncommitted, stages.requeued
    if open_.plans:
        nth = f", attempt {open_.attempt}" if open_.attempt > 1 else ""
        said.append(f"batch {open_.batch} is planned and not committed{nth}: {_amount(open_)}")
    if again.plans:
        said.append(f"{again.plans:,} plans are taken up again before anything new: {_amount(again)}")
    return said


def _amount(work: PlannedWork) -> str:
    parts = (f"{size(work.primary_bytes)} of primary logs", f"{size(work.foreign_bytes)} of foreign logs")
    return f"{parts[0]}, {parts[1]}, {work.records:,} records that have waited"


def _waiting(reason: str, one: DatacenterStatus) -> str:
    age_seconds = one.stages.oldest_waiting_seconds.get(reason)
    oldest = "" if age_seconds is None else f"; the oldest was first seen {span(age_seconds)} ago"
    return f"{one.waiting[reason]:,} events wait {WHY[reason]}{oldest}"


def _orders(one: DatacenterStatus) -> list[str]:
    orders, said = one.stages.orders, []
    if orders.waiting:
        when = "it runs again" if one.running_process is None else "it has finished its batch"
        said.append(
            f"{orders.waiting:,} work orders wait until {when}, the oldest for {span(orders.oldest_seconds)}"
        )
    if orders.refused:
        said.append(f"{orders.refused:,} work orders could not be read, and are set aside: order them again")
    return said


def _waits(waiting: int) -> str:
    return f"; {waiting:,} events wait" if waiting else ", and nothing waits"
