"""Verdicts on who is at work: whether somebody joins, and what its process waits for."""

from __future__ import annotations

from datetime import timedelta

from photon.dispatcher.shift.lease import START_SECONDS
from photon.dispatcher.shift.people import how_to_start
from photon.health.activity import STANDING_STILL
from photon.health.levels import Verdict, level_of, worse
from photon.health.memory import Memory
from photon.health.vitals import Vitals
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Durations
from photon.process.clock import MICROSECONDS, microseconds
from photon.process.pace import size, span

# Its process waits for what is unavailable: a hiccup of the registry is over within seconds.
WAITING = Durations(warn=timedelta(seconds=30), error=timedelta(minutes=1))


def judge_works(datacenter: str, found: Vitals, memory: Memory, pipeline: Pipeline) -> Verdict:
    """Whether somebody joins its logs, and nothing keeps him from it."""
    if found.growth.state_unreadable:
        return Verdict(
            "error",
            f"{datacenter}: how far it is can't be told: {found.growth.state_unreadable}",
            "as that says; usually rights, a mount, or a damaged state. Until then the checks of its lag, "
            "backlog, records, losses and clock stay as they were",
            "can't be asked",
        )
    refused = _refused(datacenter, found)
    blocks = [_other_settings(datacenter, found), _lake(datacenter, found)]
    is_blocked = refused or any(blocks)  # then nobody is to start it before
    kept = [
        refused,
        _nobody(datacenter, found, memory, pipeline) if found.lease.is_locked or not is_blocked else None,
        _fenced(datacenter, found, pipeline),
        _held_back(datacenter, found, pipeline),
        *blocks,
        _orders(datacenter, found, pipeline),
        _second_rows(datacenter, found),
        _uncompacted(datacenter, found),
    ]
    well = Verdict("ok", f"{datacenter} works, or has nothing to do")
    return worse([one for one in [*kept, well] if one is not None])


def _refused(datacenter: str, found: Vitals) -> Verdict | None:
    """Its last join ended before it began: each start ends so until a person has seen to it (A23)."""
    if not found.lease.refused:
        return None
    return Verdict(
        "error",
        f"{datacenter} joins nothing: {found.lease.refused}",
        "that, and start it again",
        "joins nothing, for the registry is refused",
    )


def _other_settings(datacenter: str, found: Vitals) -> Verdict | None:
    """Its state is another pipeline's, has other ids than the settings make, or no registry."""
    if not found.refused:
        return None
    return Verdict("error", f"{datacenter} joins nothing: {found.refused}", in_short="can't start")


def _lake(datacenter: str, found: Vitals) -> Verdict | None:
    """Its tables are not there, are others, or have what Photon can't keep: nothing is joined into them."""
    if not found.lake:
        return None
    return Verdict("error", f"{datacenter}: {'; '.join(found.lake)}", in_short="can't use its lake")


def _second_rows(datacenter: str, found: Vitals) -> Verdict | None:
    if not found.second_rows:
        return None
    return Verdict("error", f"{datacenter}: {found.second_rows[0]}", in_short="has events with two rows")


def _nobody(datacenter: str, found: Vitals, memory: Memory, pipeline: Pipeline) -> Verdict | None:
    """A run that is to come has its time, unless a person asks what is so now."""
    if memory.still_since_us is None:
        if memory.is_patient or found.growth.state.epoch is not None or found.lease.is_locked:
            return None
        return Verdict("warn", *_never_ran(datacenter, found, pipeline))
    seconds = (found.now_us - memory.still_since_us) / MICROSECONDS
    patience = STANDING_STILL
    level = level_of(seconds, patience.warn.total_seconds(), patience.error.total_seconds())
    if found.is_starting and seconds < START_SECONDS:
        level = "ok"  # a start takes its time
    if level == "ok" and not memory.is_patient and (found.is_stopped or not found.lease.is_locked):
        level = "warn"
    if level == "ok":
        return None
    lease = found.lease.lease
    if found.lease.is_locked:
        process = f"process {lease.process} on {lease.host}" if lease else "its process"
        return Verdict(
            level,
            f"{datacenter}: {process} has given no sign of life for {span(seconds)}: it was stopped, or a "
            "task, disk or lake hangs",
            f"look at its disks; {found.what_ends_it or 'end the process'}, and its successor goes on; "
            f"{if_lost(datacenter, pipeline)}",
            "is silent",
        )
    if found.growth.state.epoch is None and not memory.is_patient:
        return Verdict(level, *_never_ran(datacenter, found, pipeline))
    due = f", and {found.growth.due:,} events are due" if found.growth.due else ""
    return Verdict(
        level,
        f"{datacenter}: nobody has run it for {span(seconds)}; {size(found.unread_bytes)} of its logs are "
        f"unread{due}",
        f"{_before_a_start(found)}look whether its sensor is on; the sensor's last tick says why it starts "
        f"no run, and the last run why it failed; {if_lost(datacenter, pipeline)}",
        "is not running",
    )


def _never_ran(datacenter: str, found: Vitals, pipeline: Pipeline) -> tuple[str, str, str]:
    start = f"{_before_a_start(found)}start it with photon join {pipeline.typed} -d {datacenter}"
    if found.has_rows_without_state:
        says = f"{datacenter} has no state, and its lake has rows"
        remedy = f"put {pipeline.datacenters[datacenter].state} back if it is only away; else {start}"
        return says, remedy, "has lost its state"
    return f"{datacenter} has never run", start, "has never run"


def _before_a_start(found: Vitals) -> str:
    """What to do about the error that ended the last join: the next one may meet it too."""
    ended_by = found.lease.ended_by
    return f"do first what the error says that ended its last join ({ended_by}); then " if ended_by else ""


def if_lost(datacenter: str, pipeline: Pipeline) -> str:
    """Name the remedy for a datacenter that nobody can bring back."""
    return (
        f"if it is lost for good: photon retire {pipeline.typed} {datacenter} (under Dagster the job "
        "retirement), and its checks are green"
    )


def _fenced(datacenter: str, found: Vitals, pipeline: Pipeline) -> Verdict | None:
    """The others have ended its epoch. Its process, or the next one, begins a new epoch by itself."""
    if not (found.is_fenced and found.lease.is_locked):
        return None
    process = found.lease.lease.process if found.lease.lease else "of it"
    return Verdict(
        "warn",
        f"{datacenter} was silent, and the others have ended its epoch; process {process} begins a new one "
        "when it goes on",
        f"if it does not go on: end it, and start photon join {pipeline.typed} -d {datacenter}",
        "is fenced",
    )


def _held_back(datacenter: str, found: Vitals, pipeline: Pipeline) -> Verdict | None:
    """Count the events that wait here for dead datacenters whose lakes can't be reached."""
    state = found.growth.state
    if not state.out_of_reach:
        return None
    names = ", ".join(state.out_of_reach)
    why = "; ".join(state.out_of_reach.values())
    remedy = (
        "; ".join(how_to_start(pipeline, name, found.on_hold, found.retired) for name in state.out_of_reach)
        + "; or make its lake readable here; "
        + "; ".join(if_lost(name, pipeline) for name in state.out_of_reach)
    )
    if not state.held:
        says = f"{datacenter}: whether the registry has the newest rows of {names} is not known here: {why}"
        return Verdict("warn", says, remedy, f"can't read the lake of {names}")
    return Verdict(
        "error",
        f"{datacenter}: {state.held:,} events are held: {names} registered them and is silent, and what it "
        f"did not join can't be freed from here: {why}",
        remedy,
        f"has {state.held:,} events that {names} holds",
    )


def _orders(datacenter: str, found: Vitals, pipeline: Pipeline) -> Verdict | None:
    if not found.refused_orders:
        return None
    return Verdict(
        "warn",
        f"{datacenter}: {found.refused_orders:,} work orders could not be read, and are set aside",
        f"photon recover {pipeline.typed} orders them again",
        "has work orders that can't be read",
    )


def _uncompacted(datacenter: str, found: Vitals) -> Verdict | None:
    """Each batch looks through the log of the table: it is slow where nobody compacts."""
    if not found.uncompacted:
        return None
    return Verdict("warn", f"{datacenter}: {'; '.join(found.uncompacted)}", in_short="is not compacted")


def judge_waiting(datacenter: str, found: Vitals, memory: Memory, pipeline: Pipeline) -> Verdict:
    """A process that waits gives signs of life, and joins nothing."""
    lease, well = found.lease.lease, Verdict("ok", f"{datacenter} waits long for nothing that is unavailable")
    if lease is None or not (found.lease.is_locked and lease.waits_for):
        return well
    waited_us, bounds = found.now_us - lease.waits_since_us, WAITING
    level = level_of(waited_us, microseconds(bounds.warn), microseconds(bounds.error))
    if level == "ok" and memory.is_patient:
        return well
    waited = span(max(0, waited_us) / MICROSECONDS)
    return Verdict(
        level if level != "ok" else "warn",
        f"{datacenter} has waited for {waited}, and joins nothing: {lease.waits_for}",
        "mend what is named, and it goes on by itself",
        "waits for what is unavailable",
    )
