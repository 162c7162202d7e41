"""One event's story: what `trace` finds, as moments on a lane for each datacenter and for the registry."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any

from photon.page.asking import InTurn
from photon.page.now import Offered
from photon.page.refusals import BadRequest
from photon.pipeline.file import Pipeline
from photon.process.clock import in_us
from photon.process.readable import counted
from photon.state.waiting.reasons import WHY
from photon.tracing.past import NOT_KNOWN, Past
from photon.tracing.report import (
    WHY_REMOVED,
    DatacenterTrace,
    RegistryAnswer,
    Trace,
    moment,
)
from photon.tracing.trace import trace

MOST_ID_BYTES = 4_096
TRACE_SECONDS = 30.0  # logs are searched to their ends; a terminal waits longer
WAIT_SECONDS = 5.0  # for the trace before

Moment = dict[str, Any]


class EventTraces:
    """Traces events, one at a time: it reads whole logs."""

    def __init__(self, pipeline: Pipeline, offered: Offered) -> None:
        self._pipeline, self._offered = pipeline, offered
        self._traces = InTurn("a trace")

    async def answer(self, event_id: str) -> dict[str, Any]:
        """The answer of `/api/event`. BadRequest, Busy, NotInTime."""
        size_bytes = len(event_id.encode())
        if not 0 < size_bytes <= MOST_ID_BYTES:
            raise BadRequest(
                f"the id has {counted(size_bytes, 'byte')}; expected 1 to {MOST_ID_BYTES:,}: ?id=c42"
            )

        ask = partial(trace, self._pipeline, event_id)
        found = await self._traces.answer(ask, TRACE_SECONDS, WAIT_SECONDS)
        return {**told(found), "commands": self._offered(found.what_to_do)}


def told(found: Trace) -> dict[str, Any]:
    """The trace as JSON."""
    lanes = {name: list(_of_datacenter(one)) for name, one in found.datacenters.items()}
    if found.registry is not None:
        lanes["registry"] = list(_of_registry(found.registry))
    return {
        "id": found.event_id,
        "says": found.verdict,
        "what_to_do": found.what_to_do,
        "lanes": [{"name": name, "moments": in_order(moments)} for name, moments in lanes.items()],
        "problems": list(found.problems),
    }


def in_order(moments: list[Moment]) -> list[Moment]:
    """Sort moments by time. Those without a known time come last."""
    return sorted(moments, key=lambda one: (one["at_us"] is None, one["at_us"] or 0))


def _moment(at: object, kind: str, says: str) -> Moment:
    at_us = in_us(at) if isinstance(at, datetime) else at
    return {"at_us": at_us, "kind": kind, "says": says}


def _of_datacenter(one: DatacenterTrace) -> Iterator[Moment]:
    for side, records in (("", one.records), ("its primary event, ", one.primaries)):
        for record in records:
            read = "read" if record.was_read else "not read yet"
            key = f", key {record.key}" if record.key is not None else ""
            outcome = f"; a join now: {record.outcome}" if record.outcome else ""
            place = f"byte {record.offset_bytes:,} of {record.path}"
            yield _moment(record.time_us, "logged", f"{side}{place}{key}, {read}{outcome}")
    for row in one.rows:
        counts = "" if one.rows_count else ", which does not count: the lake was given up"
        order = one.past.order_behind(row)
        again = "" if order is None else f", by a work order that was taken up after batch {order.batch}"
        kind = "recovered" if again else "joined"
        yield _moment(row["_joined_at"], kind, f"a row of {_batch(row)}{again}{counts}")
        if row["committed_at"] is not None:
            yield _moment(row["committed_at"], "readable", "its batch was committed")
    yield from _past(one.past)
    yield from _not_joined(one)


def _past(past: Past) -> Iterator[Moment]:
    for row in past.gone:
        yield _moment(row.joined_us, "joined", f"a row of batch {row.batch} of epoch {row.epoch}, gone since")
        if row.version is not None:
            says = f"its batch was committed, in version {row.version}"
            yield _moment(row.committed_us, "readable", says)
        yield _moment(row.removed_us, "row gone", f"taken out by {row.removed}")
    if not past.is_known:
        yield _moment(None, "row gone", NOT_KNOWN)
    for one in past.told:
        yield _moment(one.first_us, "verified", f"a verification found it {one.says}")
        if one.last_us != one.first_us:
            yield _moment(one.last_us, "verified", f"the last one that found it {one.says}")


def _not_joined(one: DatacenterTrace) -> Iterator[Moment]:
    for record in one.waiting:
        if record.status == "unjoinable":
            yield _moment(record.first_seen_us, "given up", "kept until its primary event is read")
            continue
        says = f"{WHY[record.reason]}, looked for {counted(record.attempts, 'time')}"
        yield _moment(record.first_seen_us, "waits", f"{says}, due again {moment(record.due_us)}")
    for order in one.orders:
        yield _moment(order.written_us, "ordered", f"to be looked at again, by {order.why}")
    for row in one.dead_letters:
        again = "" if row.get("taken_up_after") is None else "; it was looked at again since"
        yield _moment(row["committed_at"], "dead letter", f"{row['reason']}, in {_batch(row)}{again}")
    for row in one.unjoined:
        yield _moment(row["committed_at"], "given up", f"its primary event never came, in {_batch(row)}")
    for row in one.too_old:
        yield _moment(row["committed_at"], "too old", f"ids of its age are deleted, in {_batch(row)}")
    for row in one.removed:
        yield _moment(row["at"], "removed", f"a rebuild took its row out: {WHY_REMOVED[row['why']]}")
    for row in one.mended:
        yield _moment(None, "mended", f"after batch {row['taken_up_after']}: {row['line']}")
    for occurrence in one.lost:
        yield _moment(None, "lost", f"its record {occurrence} went from its log while it waited")


def _batch(row: Moment) -> str:
    return f"batch {row['_batch']} of epoch {row['_epoch']}"


def _of_registry(answer: RegistryAnswer) -> Iterator[Moment]:
    if answer.holder is not None:
        state = f", whose epoch is {answer.holder_state}" if answer.holder_state else ""
        place = f"position {answer.position} of ledger {answer.ledger}"
        yield _moment(None, "claimed", f"{answer.id_status} by {answer.holder}{state}: {place}")
    for other in answer.also_claimed:
        yield _moment(None, "too late", f"claimed by {other} too, which came later")
    if answer.boundary_us is not None:
        yield _moment(answer.boundary_us, "boundary", "events before it are too old to be joined")
