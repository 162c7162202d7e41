"""Ask the registry, every datacenter's tables, waiting list and raw logs what they know of one event."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from deltalake.exceptions import DeltaError

from photon.dispatcher.recovery.orders import orders_in
from photon.dispatcher.refusals import datacenters_missing_in_file
from photon.dispatcher.shift.people import ASK_SECONDS, asked_in_time
from photon.dispatcher.shift.run import has_begun
from photon.logs.one_record import read_records_of
from photon.pipeline.file import Pipeline
from photon.process.errors import UserError
from photon.process.in_time import NotInTime, Question
from photon.registry.errors import RegistryMissing
from photon.registry.hashing import hashes_of_texts
from photon.registry.opening import (
    GRACE_SECONDS,
    find_registry_soon,
    open_reader,
    positions_at,
    read_register,
)
from photon.registry.register import Register
from photon.registry.taken_rows import listed
from photon.state.database import StateUnavailable
from photon.state.starting import what_starts
from photon.state.view import open_view, read_offsets
from photon.storage.columns import TableName
from photon.storage.mended_letters import mended_of_event
from photon.storage.store_errors import reason_of
from photon.storage.tables import OutputTable
from photon.storage.tokens import Occurrence
from photon.tracing.advice import what_to_do
from photon.tracing.log_search import Progress, search_log
from photon.tracing.past import TakenUp
from photon.tracing.past_search import gone_rows, told_of
from photon.tracing.registry_answers import ask_registry, decision_on
from photon.tracing.report import DatacenterTrace, OrderOf, RegistryAnswer, Trace, TracedWait, Unread
from photon.tracing.table_rows import UNREADABLE, ask_table, missing_table, removed_of
from photon.upkeep.dead_letters.trial_join import try_joins

MOST_LOST = 10  # records of one event that are named
NEXT_SECONDS = 0.3  # a call that hangs in one datacenter may hang in the next one too


def trace(
    pipeline: Pipeline,
    event_id: str,
    search_logs: bool = True,
    progress: Progress = lambda text: None,
    seconds: float = ASK_SECONDS,
) -> Trace:
    """Gather what is known of `event_id`; the trace names what could not be asked.

    `seconds`: what does not answer for so long, registry or datacenter, counts as one that hangs.
    """
    found = Trace(event_id, search_logs, pipeline=pipeline.typed)
    found.datacenters = {name: DatacenterTrace() for name in pipeline.datacenters}
    does_answer, answering = False, []
    with _noting_problem(found, "registry"):
        register = asked_in_time(pipeline, partial(_register_soon, pipeline), seconds)
        _note_what_the_register_says(pipeline, register, found)
        does_answer = register is not None
    for name, here in found.datacenters.items():
        if _asked(name, partial(_ask_datacenter, pipeline, name, here, found, progress), found, seconds):
            answering.append(name)
        else:
            seconds = min(seconds, NEXT_SECONDS)
    if does_answer:
        with _noting_problem(found, "registry"):
            ask = partial(_ask_ledgers, pipeline, found)
            found.registry = asked_in_time(pipeline, ask, seconds, while_working=True)
    for name in answering:
        _asked(name, partial(_find_past, pipeline, name, found.datacenters[name], found), found, seconds)
    found.what_to_do = what_to_do(found)
    return found


def _asked(name: str, ask: Callable[[], None], found: Trace, seconds: float) -> bool:
    """Whether a datacenter answers. A problem of the trace says that it does not."""
    try:
        Question(ask).answer(seconds, while_working=True)
        return True
    except NotInTime as error:
        found.problems.append(
            f"datacenter {name}: {error}; its state, lake or logs hang: photon status {found.pipeline} "
            "names which"
        )
        return False


def _register_soon(pipeline: Pipeline) -> Register | None:
    """The register; None before the very first join, which makes it. Raises what `find_registry` raises."""
    try:
        return read_register(pipeline, positions_at(find_registry_soon(pipeline)))
    except RegistryMissing:
        if has_begun(pipeline):
            raise
        return None


def _ask_ledgers(pipeline: Pipeline, found: Trace) -> RegistryAnswer:
    registry = open_reader(pipeline, GRACE_SECONDS)
    answer = ask_registry(pipeline, registry, found)
    with _noting_problem(found, "the lists of acknowledged rows"):
        is_listed = listed(pipeline, registry.register).has(hashes_of_texts([found.event_id]))
        answer = replace(answer, is_acknowledged=bool(is_listed[0]))
    return answer


def _note_what_the_register_says(pipeline: Pipeline, register: Register | None, found: Trace) -> None:
    """Note people's decisions, who has ever joined, and whose rows nobody asks: the file lacks them."""
    for name, here in found.datacenters.items():
        here.has_joined = register is not None and name in register.epochs
    if register is None:
        return
    for name, here in found.datacenters.items():
        here.decision = decision_on(name, register)
    for name in datacenters_missing_in_file(pipeline, register):
        unread = Unread(
            f"{pipeline.file} does not name it",
            f"put datacenter {name} back into the pipeline file; if it was renamed, under its old name",
        )
        found.unread[name] = unread
        found.problems.append(f"datacenter {name}: {unread.why}; {unread.remedy}")


def _ask_datacenter(
    pipeline: Pipeline, name: str, here: DatacenterTrace, found: Trace, progress: Progress
) -> None:
    event_id = found.event_id
    expects_no_state = here.is_retired or here.has_joined is False
    here.started_by = what_starts(pipeline, name)
    with _noting_problem(found, f"datacenter {name}: its state", unless=expects_no_state):
        _find_in_state(pipeline, name, event_id, here)
    tables: dict[TableName, list[dict[str, Any]]] = {
        "joined_events": here.rows,
        "dead_letters": here.dead_letters,
        "unjoined": here.unjoined,
        "too_old": here.too_old,
    }
    is_gone, has_lake = not here.rows_count, True
    for table, rows in tables.items():
        answer = ask_table(pipeline, name, table, event_id)
        rows += answer.rows
        here.not_written = here.not_written or answer.not_written
        unread = list(answer.unread)
        if not answer.is_there and has_lake and here.has_joined is not False:
            unread.append(missing_table(pipeline, name, table, here.has_joined))
        if table == "joined_events":
            has_lake = answer.is_there
        if not is_gone:
            found.problems += [f"datacenter {name}: {one.why}; {one.remedy}" for one in unread]
            if table == "joined_events" and unread:
                found.unread[name] = unread[0]
    with _noting_problem(found, f"datacenter {name}: its mended letters", unless=is_gone):
        _find_mended(pipeline, name, event_id, here)
    with _noting_problem(found, f"datacenter {name}: what rebuilds removed", unless=is_gone):
        here.removed += removed_of(pipeline, name, event_id)
    if found.logs_searched:
        here.records += search_log(pipeline, name, "foreign", [event_id], found, progress)
        keys = list(dict.fromkeys(record.key for record in here.records if record.key is not None))
        if keys:
            here.primaries += search_log(pipeline, name, "primary", keys, found, progress)
        with _noting_problem(found, f"datacenter {name}: a join now", unless=here.is_retired):
            _try_again(pipeline, name, here, event_id)


@contextmanager
def _noting_problem(found: Trace, what: str, unless: bool = False) -> Iterator[None]:
    """Note that `what` could not be asked, `unless` nobody expects an answer."""
    try:
        yield
    except UserError as error:
        if not unless:
            found.problems.append(str(error))
    except (DeltaError, *UNREADABLE) as error:
        if not unless:
            found.problems.append(f"{what}: {reason_of(error)}")


def _find_in_state(pipeline: Pipeline, datacenter: str, event_id: str, here: DatacenterTrace) -> None:
    folder = pipeline.datacenters[datacenter].state
    with open_view(folder) as state:
        if state is None:
            raise StateUnavailable(
                f"datacenter {datacenter}: no state in {folder}: it never ran, or it was lost"
            )
        here.waiting += [
            TracedWait(
                str(row.occurrence), row.reason, row.status, row.attempts, row.first_seen_us, row.due_us
            )
            for row in state.waiting.of_event(event_id)
        ]
        here.has_joined = True
        here.batch, here.watermark_us = state.completed, state.watermark_us
        here.lost += [str(occurrence) for occurrence, _ in state.lost_records(MOST_LOST, event_id)]

    here.orders += [
        OrderOf(order.order_id, order.why, str(record.occurrence), written_us, record.mended is not None)
        for order, written_us in orders_in(folder)
        for record in order.records
        if record.event_id == event_id
    ]


def _find_past(pipeline: Pipeline, name: str, here: DatacenterTrace, found: Trace) -> None:
    """Look for what tables and state show no more: rows that went, and why the event was joined again."""
    place, past = pipeline.datacenters[name], here.past
    if here.has_joined is False or not here.rows_count or name in found.unread:
        return  # nobody expects an answer, or it is told already that there is none
    with _noting_problem(found, f"datacenter {name}: its verifications"):
        past.told = told_of(pipeline, name, found.event_id)
    with suppress(UserError), open_view(place.state) as state:  # one that can't be read is told already
        if state is not None:
            of_rows = [row["_occurrence"] for row in here.rows if row["_epoch"] == state.epoch]
            of_log = [Occurrence(one.file_number, one.offset_bytes) for one in here.records if one.was_read]
            taken_up = state.ordered_at({*map(Occurrence.parse, of_rows), *of_log})
            past.taken_up = [TakenUp(str(state.epoch), str(one), n) for one, n in sorted(taken_up.items())]
    held = found.holder
    is_held = held is not None and (held.datacenter, held.id_status) == (name, "joined")
    lacks_row = past.was_missing or (is_held and not here.rows and not here.removed)
    if lacks_row or past.taken_up:
        with _noting_problem(found, f"datacenter {name}: commits of its table"):
            past.gone = gone_rows(OutputTable(place.lake, "joined_events"), found.event_id, here.rows)
            past.is_known = bool(past.gone) or not lacks_row


def _find_mended(pipeline: Pipeline, datacenter: str, event_id: str, here: DatacenterTrace) -> None:
    """Note which dead letters were taken up again, and as what line."""
    places = {str(row["_occurrence"]) for row in here.dead_letters}
    letters = mended_of_event(pipeline, datacenter, event_id, places)
    at = {(each.epoch, str(each.occurrence)): each.batch for each in letters}
    for row in here.dead_letters:
        taken_up = at.get((row["_epoch"], row["_occurrence"]), -1)
        row["taken_up_after"] = taken_up if taken_up >= row["_batch"] else None
    here.mended += [
        {
            "_epoch": each.epoch,
            "_occurrence": str(each.occurrence),
            "taken_up_after": each.batch,
            "line": "as the log has it" if each.raw is None else each.raw.decode(errors="backslashreplace"),
        }
        for each in letters
        if each.event_id == event_id
    ]


def _try_again(pipeline: Pipeline, datacenter: str, here: DatacenterTrace, event_id: str) -> None:
    """Join records again that were read and that no table has: what the adapter drops is in none."""
    if any((here.rows, here.waiting, here.counting_letters, here.unjoined, here.too_old)):
        return
    place = pipeline.datacenters[datacenter]
    read = read_offsets(place.state)
    wanted = {
        Occurrence(record.file_number, record.offset_bytes): row
        for row, record in enumerate(here.records)
        if record.was_read and record.file_number in read.files
    }
    if not wanted:
        return
    log, limits = pipeline.foreign, pipeline.limits
    named = [(occurrence, event_id) for occurrence in wanted]
    events = read_records_of(place.logs, named, read.files, log, limits)
    places = zip(events["_file"].to_pylist(), events["_offset"].to_pylist(), strict=True)
    for place_of, outcome in zip(places, try_joins(pipeline, datacenter, events), strict=True):
        row = wanted[Occurrence(*place_of)]
        here.records[row] = replace(here.records[row], outcome=outcome)
