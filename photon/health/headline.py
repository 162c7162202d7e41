"""A datacenter in words: who is at work, how much is unread, what waits and why, what needs somebody.

`Facts.activity` chooses among the headlines. What needs somebody, also for how long it is behind, is a
verdict of `photon.health.judge`.
"""

from __future__ import annotations

from photon.health.at_work import GOES_ON
from photon.health.facts import Facts
from photon.health.stages import PlannedWork, Stages
from photon.health.status import DatacenterStatus
from photon.process.clock import MICROSECONDS
from photon.process.pace import size, span
from photon.process.readable import counted
from photon.state.losses import BAD
from photon.state.starting import starts
from photon.state.waiting.reasons import WHY
from photon.storage.store_errors import TRIED_AGAIN


def headline(one: DatacenterStatus, typed_file: str) -> str:
    """One sentence on a datacenter; what to do names the pipeline file as it is typed."""
    facts, waits = one.facts, _waits(sum(one.waiting.values()))
    name, primary, foreign = facts.datacenter, facts.growth.primary, facts.growth.foreign
    join = starts(typed_file, name, facts.lease.lease.run if facts.lease.lease else "")
    start = _how_to_start(facts, join)
    silence = f"no sign of life for {facts.silent_seconds:,.0f} s"
    match facts.activity:
        case "on hold" | "retired":
            return f"{name} is {_decided(facts, typed_file)}"
        case "new" if facts.has_rows_without_state:
            return (
                f"{name} has no state, and its lake has rows: put the state folder back if it is only away; "
                f"else a new epoch reads the logs again and joins what has no row: {start}"
            )
        case "new":
            return f"{name} has never run: {start}"
        case "at half a line":
            return f"{name} is at rest: {_half_lines(facts)}" + (waits if one.waiting else "")
        case "not running":
            return f"{name} is NOT RUNNING, and {size(facts.unread_bytes)} of its logs wait: {start}"
        case "at rest":
            all_of_it = "all that can be read of" if facts.unread_files else "all that is in"
            return f"{name} is at rest: {all_of_it} its logs was read{waits}"
        case "fenced":
            quiet = f" ({silence})" if facts.is_silent and not facts.is_stopped else ""
            return (
                f"{name} is FENCED: others have ended its epoch. "
                f"Process {facts.process}{quiet} begins a new one when it goes on: continue it, or end "
                f"it, then start it with {join}" + (f"; {facts.what_ends_it}" if facts.is_stopped else "")
            )
        case "silent":
            return f"{name} is SILENT: {silence}; {facts.what_ends_it or 'look at its log'}"
        case "waiting":
            waited = span(max(0, facts.now_us - facts.waits_since_us) / MICROSECONDS)
            ends = "" if TRIED_AGAIN in facts.waits_for else f"; {GOES_ON}"
            return f"{name} WAITS for {waited}: {facts.waits_for}{ends}"
        case "failing":
            return f"{name} FAILS: batch after batch, so it joins nothing; NEEDS YOU below says what to do"
        case "catching up":
            unread = f"{size(primary.unread_bytes)} of primary and {size(foreign.unread_bytes)} of foreign"
            return f"{name} is catching up: {unread} logs wait"
        case "live":
            return f"{name} is live{waits}"


def _how_to_start(facts: Facts, join: str) -> str:
    """Say what to do before a start, if a start alone does not help; `NEEDS YOU` has the reasons."""
    if facts.blocks:
        return "mend first what NEEDS YOU says below: no start joins anything before that"
    if facts.ended_by:
        return f"do first what NEEDS YOU says below of its last join, then start it with {join}"
    return f"start it with {join}"


def _half_lines(facts: Facts) -> str:
    first, *others = facts.half_lines
    where = f"{first} and {counted(len(others), 'more file')}" if others else first
    return f"only half a line waits in {where} ({size(facts.unread_bytes)}), and its writer has to end it"


def _decided(facts: Facts, typed_file: str) -> str:
    ends = "; its process ends within seconds" if facts.lease.is_locked else ""
    if facts.is_stopped:
        ends = f"; {facts.what_ends_it}"
    if facts.decision == "retired":
        return f"RETIRED: it was given up as lost, and never runs again{ends}"
    waits = f"; {size(facts.unread_bytes)} of its logs wait" if facts.unread_bytes else ""
    return f"ON HOLD{waits}{ends}; resume it with photon resume {typed_file} {facts.datacenter}"


def sentences(one: DatacenterStatus) -> list[str]:
    """Tell the work stage by stage, the events that wait, why and how long, and what needs somebody."""
    said = [one.facts.feed.sentence()] if one.facts.feed is not None else []
    said += [seen.sentence() for seen in one.facts.landing]
    said += [one.facts.unmatched.sentence()] if one.facts.unmatched is not None else []
    said += _planned(one.stages) + [_waiting(reason, one) for reason in one.waiting]
    if one.waiting:
        ages = ", ".join(f"{count:,} {age}" for age, count in one.waiting_by_age.items())
        said.append(f"they were first seen: {ages}")
    said += _orders(one)
    if deletable := len(one.primary.safe_to_delete) + len(one.foreign.safe_to_delete):
        safe = size(one.primary.safe_to_delete_bytes + one.foreign.safe_to_delete_bytes)
        said.append(f"{counted(deletable, 'log file')} ({safe}) may be deleted: see --safe-to-delete")
    if one.kept_log_bytes:
        said.append(f"{size(one.kept_log_bytes)} of logs that were deleted unread are kept for a week")
    if lost := one.counts.get("lost_bytes", 0):
        known = "" if one.facts.lost.bytes else ", which people know of"
        said.append(f"{size(lost)} of logs went away before they were read{known}")
    if given_up := one.facts.given_up_files:
        held = f"{counted(len(given_up), 'log file')} ({size(sum(file.size_bytes for file in given_up))})"
        said.append(f"{held} can't be read, which people know of: such as {given_up[0].shown}")
    if conflicting := one.counts.get("conflicting", 0):
        other_content = f"{counted(conflicting, 'duplicate', 'say')} something else"
        said.append(f"{other_content} than the record of the same id that joined")
    said += [
        f"{count:,} {BAD[name]}"
        for name in ("ambiguous", "reused_primaries")
        if (count := one.counts.get(name, 0))
    ]
    said += [f"note: {note}" for note in (*one.notes, *one.facts.growth.beside)]
    if one.facts.state.epoch is not None:
        said += [f"note: {promise}: {why}" for promise, why in one.unjudged.items()]
    for verdict in one.broken:
        if not verdict.is_in_headline:
            text = verdict.text.removeprefix(one.facts.datacenter).lstrip(",: ")
            said += [f"NEEDS YOU: {text}", *(f"  {name}" for name in verdict.unnamed)]
    return said


def _planned(stages: Stages) -> list[str]:
    said, open_, again = [], stages.uncommitted, stages.requeued
    if open_.plans:
        nth = f", attempt {open_.attempt}" if open_.attempt > 1 else ""
        said.append(f"batch {open_.batch} is planned and not committed{nth}: {_amount(open_)}")
    if again.plans:
        said.append(
            f"{counted(again.plans, 'plan', 'are')} taken up again before anything new: {_amount(again)}"
        )
    return said


def _amount(work: PlannedWork) -> str:
    parts = (f"{size(work.primary_bytes)} of primary logs", f"{size(work.foreign_bytes)} of foreign logs")
    return f"{parts[0]}, {parts[1]}, {counted(work.records, 'record')} that waited"


def _waiting(reason: str, one: DatacenterStatus) -> str:
    age_seconds = one.stages.oldest_waiting_seconds.get(reason)
    oldest = "" if age_seconds is None else f"; the oldest was first seen {span(age_seconds)} ago"
    return f"{counted(one.waiting[reason], 'event', 'wait')} {WHY[reason]}{oldest}"


def _orders(one: DatacenterStatus) -> list[str]:
    orders, said = one.stages.orders, []
    if orders.waiting:
        when = "it runs again" if not one.facts.lease.is_locked else "it has finished its batch"
        said.append(
            f"{counted(orders.waiting, 'work order', 'wait')} until {when}, the oldest for "
            f"{span(orders.oldest_seconds)}"
        )
    return said


def _waits(waiting: int) -> str:
    return f"; {counted(waiting, 'event', 'wait')}" if waiting else ", and nothing waits"
