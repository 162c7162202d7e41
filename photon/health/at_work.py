"""Verdicts on who is at work: whether somebody joins, and what its process waits for."""

from __future__ import annotations

from dataclasses import replace

from photon.dispatcher.shift.lease import START_SECONDS
from photon.dispatcher.shift.people import how_to_start
from photon.health.facts import Facts
from photon.health.memory import Memory
from photon.health.verdict import Verdict, passing
from photon.pipeline.file import Pipeline, dagster_name
from photon.process.clock import MICROSECONDS, in_utc
from photon.process.pace import size, span
from photon.process.readable import counted

GOES_ON = "mend that, and it goes on by itself"
# Nobody gives a datacenter up for good within this: starts, mounts and clocks are late by less.
LOST_SECONDS = 3_600.0
# An alarm on executors waits so long: their driver counts each second, and has waited before it says so.
EXECUTORS_SECONDS = 3.0
SILENT_AGAIN_SECONDS = 10.0


def judge_works(facts: Facts, memory: Memory, pipeline: Pipeline) -> list[Verdict]:
    """Whether somebody joins its logs, and nothing keeps him from it."""
    name = facts.datacenter
    if facts.growth.state_unreadable:
        unreadable = passing(
            "error",
            f"{name}: how far it is can't be told: {facts.growth.state_unreadable}",
            "as that says. Until then the checks of its lag, backlog, records, losses and clock stay as they "
            "were",
            "can't be asked",
        )
        return [unreadable]
    broken = [
        _refused(facts, pipeline),
        # Nobody is to start it before something else is mended.
        _nobody(facts, memory, pipeline) if facts.lease.is_locked or not _is_kept(facts) else None,
        _ended_by_an_error(facts, memory),
        _failing(facts, pipeline),
        _without_executors(facts),
        _fenced(facts, pipeline),
        _held_back(facts, pipeline),
        *_blocks(facts),
        _orders(facts, pipeline),
    ]
    if facts.put_back:
        broken.append(
            passing("error", f"{name}: {facts.put_back}", in_short="has an older copy of its table")
        )
    if facts.lost_files:
        says = f"{name}: {'; '.join(facts.lost_files)}"
        broken.append(Verdict("error", says, in_short="lacks data files of its tables"))
    if facts.second_rows:
        says = f"{name}: {facts.second_rows}"
        broken.append(Verdict("error", says, in_short="has events with two rows"))
    if facts.uncompacted:  # each batch looks through the log of the table: it gets slow
        broken.append(Verdict("warn", f"{name}: {facts.uncompacted}", in_short="is not compacted"))
    does = ": its process lives, and waits" if facts.waits_for else " works, or has nothing to do"
    return [one for one in broken if one is not None] or [Verdict("ok", f"{name}{does}")]


def _is_kept(facts: Facts) -> bool:
    """Whether no start joins anything, for what people have to mend first."""
    return bool(facts.lease.refused or facts.blocks)


def _refused(facts: Facts, pipeline: Pipeline) -> Verdict | None:
    """The last join ended before it began: each start ends so until a person has seen to it (A23)."""
    if not facts.lease.refused:
        return None
    return Verdict(
        "error",
        f"{facts.datacenter} joins nothing: its last join was refused: {facts.lease.refused}",
        f"that, and start it again with {facts.started_by(pipeline)}",
        "joins nothing, for the registry is refused",
    )


def _blocks(facts: Facts) -> list[Verdict]:
    """Nothing can be joined beside this state, or into these tables."""
    name, found = facts.datacenter, []
    if facts.refused:  # the state is another pipeline's, has ids of other settings, or lacks its registry
        says = f"{name} joins nothing: {facts.refused}"
        found.append(passing("error", says, in_short="can't start"))
    if facts.lake:  # they are not there, are others, or have what Photon can't keep
        says = f"{name}: {'; '.join(facts.lake)}"
        found.append(passing("error", says, in_short="can't use its lake"))
    if facts.full:  # who is at rest does not notice it
        says = f"{name} can't write: there is {facts.full}"
        found.append(passing("error", says, "make room there", "has a full disk"))
    return found


def _nobody(facts: Facts, memory: Memory, pipeline: Pipeline) -> Verdict | None:
    """Nobody is at work. A run that is to come has its time, unless a person asks what is so now."""
    since_us = memory.still_since_us
    if since_us is None:
        is_new = facts.state.epoch is None and not facts.lease.is_locked
        return _never_ran(facts, pipeline) if is_new and not memory.is_patient else None
    seconds = (facts.now_us - since_us) / MICROSECONDS
    if facts.is_starting and seconds < START_SECONDS:  # a start takes its time
        return None
    if facts.lease.is_locked:
        return _silent(seconds, facts, pipeline)
    if facts.state.epoch is None and not memory.is_patient:
        return _never_ran(facts, pipeline)
    due = f", and {counted(facts.growth.due, 'event', 'are')} due" if facts.growth.due else ""
    return passing(
        "error",
        f"{facts.datacenter}: nobody has run it for {span(seconds)}; {size(facts.unread_bytes)} of its logs "
        f"are unread{due}",
        f"{_before_a_start(facts)}{_to_start(facts, memory, pipeline)}"
        + (if_lost(facts.datacenter, pipeline) if seconds >= LOST_SECONDS else ""),
        "is not running",
        is_in_headline=True,
        since_us=since_us,
    )


def _to_start(facts: Facts, memory: Memory, pipeline: Pipeline) -> str:
    """How it runs again: as its last process was started. A watcher may be Dagster itself."""
    last = facts.lease.lease
    command = f"start it with {facts.started_by(pipeline)}"
    sensor = (
        "look whether its sensor is on; the sensor's last tick says why it starts no run, and the last run "
        "why it failed"
    )
    if last is not None and last.run:
        return sensor
    return command if last is not None and not memory.is_patient else f"{command}; under Dagster {sensor}"


def _silent(seconds: float, facts: Facts, pipeline: Pipeline) -> Verdict:
    lease = facts.lease.lease
    process = f"process {lease.process} on {lease.host}" if lease else "its process"
    # After 30 s of silence already; after a pause of this machine the next look finds signs of life.
    return Verdict(
        "error",
        f"{facts.datacenter}: {process} has given no sign of life for {span(seconds)}: it was stopped, or a "
        "task, disk or lake hangs",
        f"look at its disks; {facts.what_ends_it or 'end the process'}, and its successor goes on",
        "is silent",
        is_in_headline=True,
        patience_seconds=SILENT_AGAIN_SECONDS,
    )


def _never_ran(facts: Facts, pipeline: Pipeline) -> Verdict:
    name = facts.datacenter
    start = f"{_before_a_start(facts)}start it with {facts.started_by(pipeline)}"
    if facts.has_rows_without_state:
        says, short = f"{name} has no state, and its lake has rows", "has lost its state"
        remedy = f"put {pipeline.datacenters[name].state} back if it is only away; else {start}"
    else:
        says, remedy, short = f"{name} has never run", start, "has never run"
    return passing("error", says, remedy, short, is_in_headline=True)


def _before_a_start(facts: Facts) -> str:
    """Send people to the error that ended the last join: the next one may meet it too."""
    ended_by = facts.lease.ended_by
    return f"do first what the error says that ended its last join ({ended_by}); then " if ended_by else ""


def _ended_by_an_error(facts: Facts, memory: Memory) -> Verdict | None:
    """An error ended the last join. With work left a watcher waits: the next run says more."""
    if not facts.lease.ended_by or (memory.is_patient and facts.has_work):
        return None
    says = f"{facts.datacenter}: its last join was ended by an error: {facts.lease.ended_by}"
    return Verdict("warn", says, in_short="was ended by an error")


def if_lost(datacenter: str, pipeline: Pipeline) -> str:
    """Name the remedy for a datacenter that nobody can bring back; empty for the only one."""
    if pipeline.datacenters.keys() <= {datacenter}:  # nobody would join what it gives up
        return ""
    return (
        f"; if it is lost for good: photon retire {pipeline.typed} {datacenter} (under Dagster the job "
        f"{dagster_name(pipeline.name, 'retirement')}), and its checks are green"
    )


def _failing(facts: Facts, pipeline: Pipeline) -> Verdict | None:
    """Its process is at work, and each try of a batch fails: it takes work up again, and joins nothing."""
    lease, name = facts.lease.failing, facts.datacenter
    if lease is None:
        return None
    where = "" if lease.is_here else f" on {lease.host}"
    anew = (
        f"end run {lease.run} of Dagster{where}, and its sensor starts another one"
        if lease.run
        else f"kill {lease.process}{where}, then {facts.started_by(pipeline)}"
    )
    return passing(
        "error",
        f"{name} joins nothing since {in_utc(lease.fails_since_us, 'seconds')}: "
        f"{lease.failed_tries:,} tries of its batches failed in a row, the last one with: "
        f"{lease.fails_because}",
        "mend what the error names, such as the workers' memory, a disk or the adapter, and it goes on by "
        f"itself; a mended adapter or setting counts from a new start: {anew}",
        "joins nothing, for its batches fail",
        since_us=lease.fails_since_us,
    )


def _without_executors(facts: Facts) -> Verdict | None:
    """Its process lives, and has nobody on its cluster who works for it."""
    if not (facts.lease.lease and facts.lease.lease.lacks_executors and facts.waits_for):
        return None
    return replace(
        _waits(facts),
        in_short="joins nothing, for Spark has no executor",
        patience_seconds=EXECUTORS_SECONDS,
    )


def _fenced(facts: Facts, pipeline: Pipeline) -> Verdict | None:
    """The others have ended its epoch. Its process, or the next one, begins a new epoch by itself."""
    if not (facts.is_fenced and facts.lease.is_locked):
        return None
    return Verdict(
        "warn",
        f"others have ended the epoch of {facts.datacenter}; process "
        f"{facts.process or 'of it'} begins a new one when it goes on",
        f"if it does not go on: end it, then start it with {facts.started_by(pipeline)}",
        "is fenced",
        is_in_headline=True,
    )


def _held_back(facts: Facts, pipeline: Pipeline) -> Verdict | None:
    """Count the events that wait here for dead datacenters whose lakes can't be reached."""
    away, held = facts.state.out_of_reach, facts.state.held
    if not away:
        return None
    names, why = ", ".join(away), "; ".join(away.values())
    on_hold, retired = facts.decisions.on_hold, facts.decisions.retired
    remedy = (
        "; ".join(how_to_start(pipeline, name, on_hold, retired) for name in away)
        + "; or make its lake readable here"
        + "".join(if_lost(name, pipeline) for name in away)
    )
    if not held:
        says = f"whether the registry has the newest rows of datacenter {names} is not known here: {why}"
        return passing("warn", f"{facts.datacenter}: {says}", remedy, f"can't read the lake of {names}")
    return passing(
        "error",
        f"{facts.datacenter}: {counted(held, 'event', 'are')} held: {names} is silent, and what it "
        f"registered and did not join can't be freed from here: {why}",
        remedy,
        f"has {counted(held, 'event')} that {names} holds",
    )


def _orders(facts: Facts, pipeline: Pipeline) -> Verdict | None:
    if not facts.refused_orders:
        return None
    return Verdict(
        "warn",
        f"{facts.datacenter}: {counted(facts.refused_orders, 'work order', 'were')} set aside: unreadable",
        f"photon recover {pipeline.typed} orders again what they said",
        "has work orders that can't be read",
    )


def judge_waiting(facts: Facts, memory: Memory, pipeline: Pipeline) -> Verdict:
    """A process that waits gives signs of life, and joins nothing."""
    needs = "its lake, logs, disk, registry or a worker"
    well = Verdict("ok", f"{facts.datacenter} does not wait long for {needs}")
    if not facts.waits_for or _without_executors(facts) is not None:  # `works` tells that
        return well
    return _waits(facts)


def _waits(facts: Facts) -> Verdict:
    waited = span(max(0, facts.now_us - facts.waits_since_us) / MICROSECONDS)
    return passing(
        "error",
        f"{facts.datacenter} has waited for {waited}, and joins nothing: {facts.waits_for}",
        GOES_ON,
        "waits for what is unavailable",
        is_in_headline=True,
        since_us=facts.waits_since_us,
    )
