"""What the registry says of an event, and how it stands with the epoch that registered it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from photon.clock import MICROSECONDS
from photon.errors import UserError
from photon.pipeline.event_key import EventKey, event_key
from photon.pipeline.file import Pipeline
from photon.recovery.holders import standing_of
from photon.registry.consensus.marks import Mark
from photon.registry.consensus.register import Register, retired_datacenters
from photon.registry.interface import BeyondHorizon, Free, Joined, LookupOutcome, TooOld
from photon.registry.quorum.proposer import QuorumRegistry
from photon.state.view import open_view
from photon.tokens import Token
from photon.tracing.report import Decision, RegistryAnswer, Trace


def decision_on(datacenter: str, register: Register) -> Decision:
    """What people have decided on a datacenter."""
    if datacenter in retired_datacenters(register.epochs):
        return "lake gone"
    if datacenter in register.given_up:
        return "retired"
    return "on hold" if datacenter in register.on_hold else ""


def ask_registry(pipeline: Pipeline, registry: QuorumRegistry, found: Trace) -> list[RegistryAnswer]:
    """What the registry says of the event, and how it stands with whoever holds it. RegistryUnavailable."""
    keys = _event_keys(pipeline, found)
    if not keys:
        raise UserError("registry: not asked, for the event's time belongs to its id and is not known")
    answers = [_answer(key, outcome) for key, outcome in zip(keys, registry.lookup(keys), strict=True)]
    epochs = sorted({answer.epoch for answer in answers if answer.epoch is not None})
    register, marks = registry.register.read(), registry.marks.read(epochs)
    silent = {name for place in pipeline.datacenters.values() for name in _silent(place.state)}
    return [_with_standing(answer, register, marks, silent) for answer in answers]


def _silent(folder: Path) -> Collection[str]:
    """The datacenters that this one takes for silent, and can't do anything for."""
    with open_view(folder) as state:
        return state.out_of_reach if state is not None else ()


def _with_standing(
    answer: RegistryAnswer, register: Register, marks: Mapping[str, Mark], silent: Collection[str]
) -> RegistryAnswer:
    """The answer with how it stands with its epoch."""
    name, epoch = answer.datacenter, answer.epoch
    if name is not None and decision_on(name, register) == "lake gone":
        return replace(answer, standing="retired")  # a cleared id too, which names no epoch
    if name is None or epoch is None:
        return answer
    words = {"given up": "retired", "over": "fenced", "silent": "silent", "at work": "live"}
    standing = words[standing_of((name, epoch), register, name in silent)]
    if standing == "live" and name in register.on_hold:
        standing = "on hold"
    mark = marks.get(epoch)
    is_published = None if mark is None or answer.batch is None else mark.batch >= answer.batch
    return replace(answer, standing=standing, is_published=is_published)


def _event_keys(pipeline: Pipeline, found: Trace) -> list[EventKey]:
    times = {record.time_us for one in found.datacenters.values() for record in one.records}
    for one in found.datacenters.values():
        said = [row["event_time"] for row in (*one.unjoined, *one.too_old)]
        for event_time in (*said, *(row["_event_time"] for row in one.rows)):
            if event_time is not None:
                times.add(int(event_time.timestamp()) * MICROSECONDS + event_time.microsecond)
    log = pipeline.foreign
    if not log.time_in_id:
        return [event_key(found.event_id, min(times, default=None), log)]
    return [event_key(found.event_id, time_us, log) for time_us in sorted(times)]


def _answer(key: EventKey, outcome: LookupOutcome) -> RegistryAnswer:
    match outcome:
        case Joined(holder):
            plan = Token.parse(holder.token).plan if holder.token is not None else None
            epoch, batch = (plan.epoch, plan.batch) if plan is not None else (None, None)
            return RegistryAnswer("held", key.time_us, holder.datacenter, holder.token, epoch, batch)
        case Free():
            return RegistryAnswer("free", key.time_us)
        case TooOld():
            return RegistryAnswer("too old", key.time_us)
        case BeyondHorizon():
            return RegistryAnswer("beyond horizon", key.time_us)
