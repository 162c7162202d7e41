"""Which registry the stores make together, from what each answers (protocol B9)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from photon.pipeline.file import Pipeline
from photon.process.in_time import NotInTime, Question
from photon.registry.address import EndpointAddress, table_name, tables_of
from photon.registry.errors import RegistryMismatch, RegistryUnavailable
from photon.registry.register import Members, Register, decode_register
from photon.registry.stores.copies import REGISTER_KEY, NoReply
from photon.registry.stores.decisions import majority
from photon.registry.stores.endpoint import StoreSilent
from photon.registry.stores.opening import endpoint_at

ANSWER_SECONDS = 300.0  # a store gives up long before: each of its requests has a time-out


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a store: the table that its directory names, and the register in that table, if any."""

    table: str | None
    register: Register | None


StoreReply = Answer | NoReply


@dataclass(frozen=True, slots=True)
class RegistryFound:
    """The newest register at a majority of the stores, and what is wrong with the others, by slot."""

    register: Register
    problems: Mapping[int, str]

    @property
    def members(self) -> Members:
        """The members as they were found."""
        return self.register.members


def ask_stores(
    pipeline: Pipeline, endpoints: Sequence[EndpointAddress], grace_seconds: float | None = None
) -> RegistryFound | None:
    """See `classify`. `grace_seconds`: do without those that take longer, if a registry can."""
    asked = [Question(partial(ask_store, pipeline.name, endpoint)) for endpoint in endpoints]
    if grace_seconds is not None:
        ends = time.monotonic() + grace_seconds
        in_time = [_reply_within(one, max(0.0, ends - time.monotonic())) for one in asked]
        with suppress(RegistryUnavailable, RegistryMismatch):
            if (found := classify(pipeline, endpoints, in_time)) is not None:
                return found
    return classify(pipeline, endpoints, [one.answer(ANSWER_SECONDS) for one in asked])


def _reply_within(asked: Question[StoreReply], seconds: float) -> StoreReply:
    try:
        return asked.answer(seconds)
    except NotInTime as error:
        return NoReply(str(error), "unreachable")


def ask_store(pipeline: str, endpoint: EndpointAddress) -> StoreReply:
    """Ask a store what it has of a pipeline; once, for at most `ADMIN_TIMEOUT` a request."""
    opened = endpoint_at(endpoint)
    try:
        table = opened.directory.table_of(pipeline)
    except StoreSilent as silent:
        return silent.reply
    if table is None:
        return Answer(None, None)
    there = opened.store(table).get(REGISTER_KEY)
    if isinstance(there, NoReply):
        return there
    return Answer(table, None if there.value is None else decode_register(there.value))


# -- pure


def classify(
    pipeline: Pipeline, endpoints: Sequence[EndpointAddress], replies: Sequence[StoreReply]
) -> RegistryFound | None:
    """The registry that these stores, in the order of the pipeline file, make together.

    None if all answer and none has a register: there is no registry yet, or an init did not end.
    RegistryMismatch if they do not belong together, RegistryUnavailable if too few answer to know.
    """
    n = len(replies)
    tables = [reply.table if isinstance(reply, Answer) else None for reply in replies]
    require_distinct_stores(pipeline, endpoints, tables)
    registers = [r.register for r in replies if isinstance(r, Answer) and r.register is not None]
    # The newest first. A majority of one membership and one of the next have a store in common.
    registers.sort(key=lambda register: register.members.version, reverse=True)
    for register in registers:
        members = register.members
        named = tables_of(pipeline.name, members)
        right = [s for s in range(n) if s not in members.down and s < len(named) and tables[s] == named[s]]
        if len(named) == n and len(right) >= majority(n):
            return RegistryFound(register, _problems(pipeline.name, register, replies))
    reasons = {s: f"{r.problem} ({r.reason})" for s, r in enumerate(replies) if isinstance(r, NoReply)}
    if registers:
        problems = _problems(pipeline.name, registers[0], replies)
        wrong = problems.keys() - reasons.keys() - {*registers[0].members.down}
        if n - len(wrong) < majority(n) or not reasons:  # though the silent ones were right
            raise RegistryMismatch(
                f"{pipeline.file}: {_listed(endpoints, problems)}; no majority of the registry's endpoints is"
                " left: name those that it was made over, or bring back their data"
            )
    if reasons:
        raise RegistryUnavailable(f"too few endpoints of the registry answer: {_listed(endpoints, reasons)}")
    return None


def require_distinct_stores(
    pipeline: Pipeline, endpoints: Sequence[EndpointAddress], tables: Sequence[str | None]
) -> None:
    """RegistryMismatch if two endpoints are one and the same store (protocol B9)."""
    for slot, table in enumerate(tables):
        if table is not None and table in tables[:slot]:
            raise RegistryMismatch(
                f"{pipeline.file}: {endpoints[tables.index(table)]} and {endpoints[slot]} are one and the"
                " same store; give the registry stores of their own"
            )


def _listed(endpoints: Sequence[EndpointAddress], problems: Mapping[int, str]) -> str:
    return "; ".join(f"{endpoints[slot]} {problem}" for slot, problem in problems.items())


def _problems(pipeline: str, register: Register, replies: Sequence[StoreReply]) -> dict[int, str]:
    """The problem of each store that does not count, with its remedy."""
    members = register.members
    named = [table_name(pipeline, incarnation) for incarnation in members.incarnations]
    problems: dict[int, str] = {}
    for slot, reply in enumerate(replies):
        match reply:
            case NoReply(reason, "denied"):  # with its remedy
                problems[slot] = f"{reply.problem} ({reason})"
            case NoReply(reason):
                problems[slot] = f"{reply.problem} ({reason}); bring it back"
            case Answer(register=Register(pipeline=owner)) if owner != pipeline:
                problems[slot] = (
                    f"has a registry that belongs to the pipeline {owner}; give each its own name"
                )
            case _ if slot >= len(named):
                problems[slot] = f"is one too many: the registry was made over {len(named)}"
            case _ if slot in (*members.down, *members.fresh):
                problems[slot] = "is out of use until a repair of it has ended; run it again"
            case Answer(table) if table == named[slot] and len(replies) < len(named):
                problems[slot] = (
                    f"is one of {len(named)} that the registry was made over, and the pipeline file names"
                    f" {len(replies)}"
                )
            case Answer(table) if table == named[slot]:
                continue
            case Answer(None):
                problems[slot] = "has lost its data, or is a new store; it is not used until it is repaired"
            case Answer(str() as table) if table in named:
                problems[slot] = f"is number {named.index(table) + 1}: put the endpoints in their old order"
            case _:
                problems[slot] = "has the data of another registry; it is not used until it is repaired"
    return problems
